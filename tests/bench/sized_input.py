"""Policies and snapshots of a given size."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.pipeline import manifests

CLUSTERS = 20
_PER_FILE = 10


def fleet(clusters: int = CLUSTERS) -> str:
    listed = (f"{{name: cluster-{n:02}, labels: {{region: r{n % 3}}}}}" for n in range(clusters))
    return manifests.fleet(listed, manifests.UNLIMITED, name="bench", home="cluster-00")


def _idling(n: int) -> str:
    return f"""apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {{name: idle-{n}}}
spec:
  mode: Enforce
  priority: {n}
  selector:
    clusters: {{include: ["*"], matchLabels: {{region: r{n % 3}}}}}
    namespaces: {{include: [dev-{n}, dev-{n}-*], exclude: [dev-{n}-shared]}}
    services: {{matchLabels: {{tier: web, team: team-{n % 17}}}}}
  idleWhen:
  - metric:
      query: 'sum by (namespace, service) (increase(requests_total[{{{{ window }}}}]))'
      atMost: 0
      window: 30m
      coverage: 'min by (namespace, service) (count_over_time(up[{{{{ window }}}}]))'
      coverageAtLeast: 50
      noSeries: Unknown
  - schedule: {{timeZone: Europe/Paris, downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]}}
  minAge: 1h
  minAwake: 2h
  idleReplicas: 0
  wakeWhen:
  - metric: {{query: 'sum by (namespace, service) (queue_length{{queue="q{n}"}})', above: 0, window: 5m}}
  wake: Automatic
  wakeOrder: {{group: group-{n % 29}, tier: 10}}
  autoscalers: {{hpa: Idle, keda: Pause}}
  markEndpoints: false
  limits: {{workloads: 50, replicas: 500}}
"""


def _federated(n: int) -> str:
    return f"""apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {{name: web-{n}, namespace: shop-{n % 13}}}
spec:
  replicas: {50 + n % 50}
  preferences:
    rebalance: true
    clusters:
      "*": {{weight: 1}}
      cluster-00: {{minReplicas: 1, maxReplicas: 20, weight: 3}}
      cluster-01: {{minReplicas: 0, maxReplicas: 10, weight: 2}}
  rounding: Fair
  paused: false
  unschedulableAfter: 5m
  waitingReplicas: 2
  clusterGracePeriod: 10m
  progressDeadline: 10m
  onConflict: Overwrite
  onDelete: Orphan
  selector: {{matchLabels: {{app: web-{n}}}}}
  template:
    metadata: {{labels: {{app: web-{n}, tier: web}}, annotations: {{example.com/owner: team-{n % 17}}}}}
    spec:
      serviceAccountName: web
      containers:
      - name: web
        image: registry.example/shop/web:1.{n}
        args: [--listen, "0.0.0.0:8080"]
        ports: [{{name: http, containerPort: 8080}}]
        env: [{{name: MODE, value: production}}]
        resources: {{requests: {{cpu: 100m, memory: 128Mi}}, limits: {{memory: 256Mi}}}}
"""


def _downscale(n: int) -> str:
    return f"""apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {{name: workers-{n}}}
spec:
  mode: Enforce
  priority: {n}
  selector:
    clusters: {{include: [cluster-0*, cluster-1*], matchLabels: {{region: r{n % 3}}}}}
    namespaces: {{include: [batch-{n}], exclude: [batch-{n}-private], matchLabels: {{kind: batch}}}}
    workloads: {{kinds: [Deployment, ReplicaSet], matchLabels: {{app: worker, team: team-{n % 17}}}}}
  target: {{query: 'ceil(sum(running_tasks{{queue="q{n}"}}) / 8)', min: 2, max: 40, direction: Down}}
  podPicker:
    http:
      host: picker.batch-{n}.svc.cluster.local
      port: 443
      scheme: https
      path: /downscale-pod-picker
      httpHeaders:
      - name: authentication
        valueFrom: {{secretKeyRef: {{name: my-secret, key: authentication-token}}}}
      - {{name: x-queue, value: q{n}}}
      allowInsecureAuth: false
    maxRetries: 3
    timeoutSeconds: 5
    onError: fallback
    onTooFew: fill
  logarithm: {{base: 2}}
  onForeignCost: Skip
  settleSeconds: 2
  verifySeconds: 30
"""


def write_policies(folder: Path, count: int) -> Path:
    """Write a Fleet and `count` policies of about 60 lines, ten to a file, the three kinds in turn."""
    folder.mkdir(parents=True)
    (folder / "fleet.yaml").write_text(fleet())
    made = ((_idling, _federated, _downscale)[n % 3](n) for n in range(count))
    texts = [yaml.safe_dump(yaml.safe_load(text), sort_keys=False, width=200) for text in made]
    for start in range(0, count, _PER_FILE):
        (folder / f"policies-{start:05}.yaml").write_text("---\n".join(texts[start : start + _PER_FILE]))
    return folder


def write_tenants(folder: Path, count: int) -> Path:
    """Write a Fleet with `count` tenants on 20 clusters, each with one policy, and as many of the platform."""
    tenants = [
        f"{{name: t{n}, paths: ['t{n}/**'], namespaces: ['team-{n:04}-*'], clusters: [c{n % 20}]}}"
        for n in range(count)
    ]
    clusters = ", ".join(f"{{name: c{n}}}" for n in range(20))
    folder.mkdir(parents=True)
    (folder / "fleet.yaml").write_text(
        "{apiVersion: reconciler/v1alpha1, kind: Fleet, metadata: {name: teams}, "
        f"spec: {{home: c0, clusters: [{clusters}], tenants: [{', '.join(tenants)}]}}}}\n"
    )
    selector = "namespaces: {include: ['team-N-*']}, clusters: {include: [cC]}, services: {}"
    nights = "[{schedule: {timeZone: UTC, downtime: [Mon-Sun 20:00-07:00]}}]"
    policy = (
        "{apiVersion: reconciler/v1alpha1, kind: IdlingPolicy, metadata: {name: NAME}, "
        f"spec: {{selector: {{{selector}}}, idleWhen: {nights}}}}}\n"
    )
    texts = [policy.replace("team-N", f"team-{n:04}").replace("cC", f"c{n % 20}") for n in range(count)]
    for n, text in enumerate(texts):
        (folder / f"t{n}").mkdir()
        (folder / f"t{n}" / "nights.yaml").write_text(text.replace("NAME", "nights"))
    (folder / "platform").mkdir()
    platform = [text.replace("NAME", f"p{n}") for n, text in enumerate(texts)]
    (folder / "platform" / "policies.yaml").write_text("---\n".join(platform))
    return folder


def write_nightly(folder: Path) -> Path:
    """Write a Fleet and one policy that idles everything outside office hours."""
    folder.mkdir(parents=True)
    (folder / "fleet.yaml").write_text(fleet())
    (folder / "nights.yaml").write_text(manifests.idling('namespaces: {include: ["dev-*"]}, services: {}'))
    return folder


def write_snapshot(folder: Path, deployments: int) -> Path:
    """Write `deployments` Deployments, each with its Service, spread over the clusters of the Fleet."""
    for cluster in range(CLUSTERS):
        inside = folder / f"cluster-{cluster:02}"
        inside.mkdir(parents=True)
        (inside / "cluster.yaml").write_text(manifests.identity(str(cluster)))
        for number in range(cluster, deployments, CLUSTERS):
            (inside / f"app-{number:05}.yaml").write_text(_app(number))
    return folder


def _app(n: int) -> str:
    name, namespace, made = f"app-{n}", f"dev-{n % 7}", 'creationTimestamp: "2026-10-01T09:00:00Z"'
    labelled = f"{made}, labels: {{app: {name}}}"
    return manifests.documents(
        manifests.service(name, namespace, metadata=made),
        manifests.workload(name, namespace, 1 + n % 5, metadata=labelled),
    )
