"""A small valid set of policies, and edits that break it."""

from __future__ import annotations

from pathlib import Path

from reconciler.errors import PolicyError
from reconciler.policy.load import check_policies
from tests.pipeline.calls import inside

FLEET = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: production}
spec:
  home: eu-west
  clusters:
    - name: eu-west
      labels: {region: eu}
    - name: us-east
      labels: {region: us}
      prometheus: {url: "https://prometheus.us.example:9090"}
  limits:
    default: {perCluster: {share: 25%, atLeast: 3}}
"""
IDLING = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-dev}
spec:
  mode: Enforce
  selector:
    clusters: {include: [eu-west]}
    namespaces: {include: ["dev-*"]}
    services: {matchLabels: {tier: web}}
  idleWhen:
    - metric:
        query: 'sum by (namespace, service) (increase(requests[{{ window }}]))'
        atMost: 0
        window: 30m
    - schedule:
        calendar: nights
  minAge: 1h
  idleReplicas: 0
  wakeOrder: {group: shop, tier: 10}
"""
CALENDAR = """\
apiVersion: reconciler/v1alpha1
kind: Calendar
metadata: {name: nights}
spec:
  timeZone: Europe/Paris
  downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]
  exceptions: [{from: "2026-12-01T00:00", to: "2026-12-04T00:00"}]
"""
FEDERATED = """\
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 50
  preferences:
    rebalance: true
    clusters:
      "*": {weight: 1}
      us-east: {minReplicas: 0, maxReplicas: 20, weight: 1}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: web, image: "registry.example/web:1"}
"""
REPLICA_SET = """\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: cache
  namespace: shop
  annotations:
    federation.kubernetes.io/replica-set-preferences: |
      {"rebalance": true, "clusters": {"eu-west": {"Weight": 2}, "*": {"weight": 1}}}
spec:
  replicas: 6
  selector: {matchLabels: {app: cache}}
  template:
    metadata: {labels: {app: cache}}
    spec: {containers: [{name: cache, image: "registry.example/cache:1"}]}
"""
DOWNSCALE = """\
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: workers}
spec:
  selector:
    namespaces: {include: [airflow]}
    workloads: {kinds: [Deployment], matchLabels: {app: worker}}
  target:
    query: 'ceil(sum(airflow_running_tasks) / 8)'
    min: 2
    max: 40
  podPicker:
    http:
      host: picker.airflow.svc
      path: /downscale-pod-picker
      httpHeaders:
        - name: authentication
          valueFrom: {secretKeyRef: {name: my-secret, key: token}}
    maxRetries: 3
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: sorter, namespace: sorting}
spec:
  replicas: 3
  selector: {matchLabels: {app: sorter}}
  template:
    metadata: {labels: {app: sorter}}
    spec: {containers: [{name: sorter, image: "registry.example/sorter:1"}]}
  downscalePodPicker:
    http: {host: sorter.sorting.svc, path: /downscale-pod-picker}
"""
FILES = {
    "fleet.yaml": FLEET,
    "idling.yaml": IDLING,
    "calendar.yaml": CALENDAR,
    "federated.yaml": FEDERATED,
    "replicaset.yaml": REPLICA_SET,
    "downscale.yaml": DOWNSCALE,
}
OF_ALL_KINDS = {**FILES, "deployment.yaml": DEPLOYMENT}


def edited(file: str, old: str, new: str) -> dict[str, str]:
    """Return the valid set with `old`, which stands exactly once in `file`, replaced by `new`."""
    assert FILES[file].count(old) == 1, f"{old!r} stands {FILES[file].count(old)} times in {file}"
    return {**FILES, file: FILES[file].replace(old, new)}


def problems_in(folder: Path, files: dict[str, str | bytes]) -> list[str]:
    """Write `files` as policies and return all problems as lines."""
    for name, content in files.items():
        path = folder / "policies" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with inside(folder):
        try:
            _, problems = check_policies("policies")
        except PolicyError as error:
            problems = error.problems
    return [str(problem) for problem in problems]


def warnings(folder: Path, files: dict[str, str]) -> tuple[str, ...]:
    (folder / "policies").mkdir()
    for name, text in files.items():
        (folder / "policies" / name).write_text(text)
    with inside(folder):
        policies, problems = check_policies("policies")
    assert problems == ()
    return tuple(f"{one.file}:{one.line}: {one.field}: {one.message}" for one in policies.warnings)
