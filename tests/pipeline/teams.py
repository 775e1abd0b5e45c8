"""Two teams and the platform: a Fleet with tenants, and a snapshot with what each of them has."""

from __future__ import annotations

from collections.abc import Iterator

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import an_object, documents, identity, service, workload

NIGHT = "2026-11-20T22:00:00Z"
LATER = "2026-11-20T23:00:00Z"
MORNING = "2026-11-21T08:00:00Z"
FLEET = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: production}
spec:
  home: dev
  clusters:
    - name: dev
      labels: {env: dev}
    - name: prod
      labels: {env: prod}
  tenants:
    - name: a
      paths: ["teams/a/**"]
      namespaces: ["team-a-*"]
      clusters: [dev]
      kinds: [IdlingPolicy, Calendar, DownscalePolicy, FederatedReplicaSet]
      maxPriority: 10
    - name: b
      paths: ["teams/b/**"]
      namespaces: ["team-b-*", shared-b]
      kinds: [IdlingPolicy, Calendar, DownscalePolicy]
      limits: {workloads: 8}
"""


def with_accounts(**accounts: str) -> str:
    """The Fleet, where each of these teams has a ServiceAccount."""
    text = FLEET
    for team, account in accounts.items():
        paths = f'paths: ["teams/{team}/**"]\n'
        text = text.replace(paths, f"{paths}      serviceAccount: {account}\n")
    return text


SLEEP = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: sleep}
spec:
  selector: {workloads: {}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Fri 20:00-07:00"]}}]
  minAge: 0s
"""
PLATFORM = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: tools}
spec:
  selector: {namespaces: {include: [tools]}, workloads: {}}
  idleWhen: [{schedule: {calendar: nights}}]
  minAge: 0s
---
apiVersion: reconciler/v1alpha1
kind: Calendar
metadata: {name: nights}
spec: {timeZone: UTC, downtime: ["Mon-Fri 20:00-07:00"]}
"""
FILES = {
    "fleet.yaml": FLEET,
    "platform.yaml": PLATFORM,
    "teams/a/sleep.yaml": SLEEP,
    "teams/b/sleep.yaml": SLEEP,
}
NAMESPACES = ("team-a-web", "team-b-web", "shared-b", "tools")


def clusters() -> dict[str, str]:
    """The files of a snapshot in which every namespace of each cluster has the Deployments web and api."""
    return {
        f"snapshot/{cluster}/all.yaml": documents(identity(cluster), *(one for name in NAMESPACES for one in _of(name)))
        for cluster in ("dev", "prod")
    }


def _of(namespace: str) -> Iterator[str]:
    labels = f"labels: {{team: b, kubernetes.io/metadata.name: {namespace}}}"
    yield an_object("Namespace", namespace, metadata=labels)
    for name in ("web", "api"):
        yield workload(name, namespace, metadata="labels: {team: b}")
        yield service(name, namespace, metadata="labels: {team: b}")


def two_teams(folder: Folder, *, snapshot: bool = True, **changed: str) -> Folder:
    """Write the policies, each file of `changed` in place of what it is, and the snapshot."""
    for name, text in {**FILES, **changed}.items():
        folder.write(f"policies/{name}", text)
    for name, text in clusters().items() if snapshot else ():
        folder.write(name, text)
    return folder
