"""Policies as the documentation of the policy language has them; what is written is mostly the default."""

from __future__ import annotations

FLEET = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: production}
spec:
  formerNames: []
  home: eu-west
  namespace: reconciler
  clusters:
    - name: eu-west
      labels: {region: eu}
      connection: {inCluster: true}
      prometheus: {url: "https://prometheus.eu:9090", bearerTokenFile: /var/run/secrets/prom/token, caFile: null}
      state: Active
    - name: us-east
      labels: {region: us}
      connection: {context: us-east}
    - name: C
  limits:
    default: {perCluster: {share: 25%, atLeast: 3}, fleet: {share: 10%, atLeast: 10}}
  protectedNamespaces: [payments]
  notify:
    - {format: Slack, urlFile: /var/run/secrets/slack/url, on: [HeldBack, Failed]}
    - {format: CloudEvents, url: "https://events.example/hook", tokenFile: /var/run/secrets/events/token}
  podPickers:
    allowedHosts: ["*.svc.cluster.local", "*.svc"]
"""
IDLING = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-dev}
spec:
  mode: Enforce
  priority: 0
  selector:
    clusters: {include: ["*"], matchLabels: {region: eu}}
    namespaces: {include: ["dev-*"], exclude: [dev-shared], matchLabels: {}}
    services: {matchLabels: {tier: web}, matchExpressions: [{key: app, operator: NotIn, values: [db]}]}
    workloads: {kinds: [Deployment, StatefulSet], matchLabels: {}}
  idleWhen:
    - metric:
        query: 'sum by (namespace, service) (increase(nginx_ingress_controller_requests[{{ window }}]))'
        atMost: 0
        window: 30m
        coverage: 'min by (namespace, service) (count_over_time(up[{{ window }}]))'
        coverageAtLeast: 50
        noSeries: Unknown
    - schedule:
        calendar: office-hours-off
  minAge: 1h
  minAwake: 2h
  idleReplicas: 0
  wakeWhen:
    - metric: {query: '...', above: 0, window: 5m}
  wake: Automatic
  wakeOrder: {group: shop, tier: 10}
  autoscalers: {hpa: Idle, keda: Pause}
  markEndpoints: false
  limits: {workloads: 5}
---
apiVersion: reconciler/v1alpha1
kind: Calendar
metadata: {name: office-hours-off}
spec:
  timeZone: Europe/Paris
  downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]
  exceptions: [{from: "2026-12-01T00:00", to: "2026-12-04T00:00"}]
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-nested}
spec:
  selector: {namespaces: {include: [test]}, workloads: {}}
  idleWhen:
    - anyOf:
        - schedule:
            timeZone: UTC
            downtime: ["20:00-24:00"]
            exceptions: [{from: "2026-12-01T00:00:30", to: "2026-12-04T00:00:00"}]
        - allOf:
            - schedule: {calendar: office-hours-off}
            - schedule: {timeZone: Asia/Kolkata, downtime: ["2026-12-24T18:00/2027-01-02T08:00"]}
"""
PLACEMENT = """\
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 50
  preferences:
    rebalance: true
    clusters:
      "*": {weight: 1}
      C: {minReplicas: 0, maxReplicas: 20, weight: 1}
  rounding: Fair
  paused: false
  unschedulableAfter: 5m
  waitingReplicas: 2
  clusterGracePeriod: 10m
  progressDeadline: 10m
  onConflict: Overwrite
  onDelete: Orphan
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}}
    spec:
      containers:
        - {name: web, image: "registry.example/web:1", args: ["--listen", "8080"]}
---
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: docs}
spec:
  replicas: 6
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: docs}
  downscalePodPicker: {http: {host: picker.docs.svc}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: cache
  creationTimestamp: null
  resourceVersion: "17"
  labels: {team: shop}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    federation.kubernetes.io/replica-set-preferences: |
      {"rebalance": true, "clusters": {"eu-west": {"Weight": 2, "maxReplicas": 9}, "*": {"minReplicas": 1}}}
spec:
  replicas: 6
  minReadySeconds: 0
  selector: {matchLabels: {app: cache}}
  template:
    metadata: {creationTimestamp: null, labels: {app: cache}}
    spec: {containers: [{name: cache, image: "registry.example/cache:1"}]}
status: {replicas: 6}
"""
DOWNSCALE = """\
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: airflow-workers}
spec:
  mode: Enforce
  priority: 0
  selector:
    clusters: {include: ["*"]}
    namespaces: {include: [airflow]}
    workloads: {kinds: [Deployment, ReplicaSet, CloneSet], matchLabels: {app: worker}}
  target:
    query: 'ceil(sum(airflow_running_tasks) / 8)'
    min: 2
    max: 40
    direction: Down
  podPicker:
    http:
      host: my-app.my-namespace.svc.cluster.local
      port: 443
      scheme: https
      path: /downscale-pod-picker
      httpHeaders:
        - name: authentication
          valueFrom: {secretKeyRef: {name: my-secret, key: authentication-token}}
        - {name: x-team, value: data}
      allowInsecureAuth: false
    maxRetries: 3
    timeoutSeconds: 5
    onError: fallback
    onTooFew: fill
  strategy: Logarithmic
  logarithm: {base: 2}
  zoneBalanced: {topologyKey: topology.kubernetes.io/zone}
  onForeignCost: Skip
  settleSeconds: 2
  verifySeconds: 30
---
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: runners}
spec:
  selector: {namespaces: {include: [runners]}, workloads: {kinds: [Deployment]}}
  target: {replicas: 4}
  strategy: ZoneBalanced
"""
SAMPLES = {"fleet.yaml": FLEET, "idling.yaml": IDLING, "placement.yaml": PLACEMENT, "downscale.yaml": DOWNSCALE}
