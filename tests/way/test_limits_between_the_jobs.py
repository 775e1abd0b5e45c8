"""What a limit keeps from going idle is awake for the other jobs, in the same run and in what it writes."""

from __future__ import annotations

import json

from tests.way.calls import Folder

POLICIES = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: prod}
spec:
  home: east
  clusters: [{name: east}, {name: west}]
  limits: {default: {perCluster: {share: 100%}, fleet: {share: 100%}}}
  platformPaths: [fleet.yaml]
  tenants:
    - name: a
      kinds: [IdlingPolicy, DownscalePolicy, FederatedReplicaSet]
      paths: ["teams/a/**"]
      clusters: ["*"]
      namespaces: ["a-*"]
      limits: {workloads: 100, replicas: 20}
"""
OF_TENANT = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: nights}
spec:
  selector:
    namespaces: {include: ["a-*"]}
    workloads: {matchExpressions: [{key: app, operator: In, values: [big, web]}]}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Sun 20:00-07:00"]}}]
---
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: workers}
spec:
  selector: {namespaces: {include: ["a-*"]}, workloads: {kinds: [Deployment]}}
  target: {replicas: 4}
---
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: a-1}
spec:
  replicas: 2
  preferences: {rebalance: true, clusters: {east: {weight: 1}, west: {weight: 1}}}
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a-1}\n"
DEPLOYMENT = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: a-1, labels: {{app: {name}}}, creationTimestamp: "2026-10-01T09:00:00Z"}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{name: main, image: "web:1"}}]}}}}
"""
DAY, NIGHT = "2026-11-25T12:00:00Z", "2026-11-25T21:00:00Z"


def deployment(name: str, replicas: int) -> str:
    return DEPLOYMENT.format(name=name, replicas=replicas)


def test_an_idle_that_a_limit_held_back_stays_so_once_the_others_decide(tmp_path):
    """Once `big` counts as awake, the DownscalePolicy takes of the same limit: only one of both passes."""
    folder = Folder(tmp_path)
    folder.write("policies/fleet.yaml", POLICIES)
    folder.write("policies/teams/a/all.yaml", OF_TENANT)
    east = NAMESPACE + deployment("big", 15) + deployment("other", 10) + deployment("web", 1)
    folder.write("snapshot/east/all.yaml", east)
    folder.write("snapshot/west/all.yaml", NAMESPACE + deployment("web", 1))
    folder.apply(DAY, "--policy", "a-1/web")

    planned = json.loads(folder.plan(NIGHT, "-o", "json").out)
    folder.apply(NIGHT)

    status = folder.objects()["east", "reconciler", "ConfigMap", "reconciler-status-a-1.web"]
    clusters = json.loads(status["metadata"]["annotations"]["reconciler/status"])["clusters"]
    web = {name: folder.replicas(name, "a-1", "Deployment", "web") for name in ("east", "west")}
    assert {name: one["running"] for name, one in clusters.items()} == web == {"east": 1, "west": 1}
    assert not any("idle" in one for one in clusters.values())
    assert folder.replicas("east", "a-1", "Deployment", "big") == 4
    assert all(one["changes"] for one in planned["heldBack"])


REPLACED = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: f}
spec:
  home: east
  clusters: [{name: east}]
  limits: {default: {perCluster: {share: 0%, atLeast: 0}}}
---
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: a-1}
spec:
  replicas: 3
  selector: {matchLabels: {app: web, tier: front}}
  template: {metadata: {labels: {app: web, tier: front}}, spec: {containers: [{name: main, image: "web:1"}]}}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: nights}
spec:
  selector: {namespaces: {include: [a-1]}, services: {}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Sun 20:00-07:00"]}}]
"""
OURS = """\
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
  namespace: a-1
  labels: {reconciler/frs: web}
  annotations: {reconciler/owner: f/FederatedReplicaSet/a-1/web, reconciler/on-delete: orphan}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "web:1"}]}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: a-1}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""


def test_what_is_made_anew_as_its_idle_is_held_back_leaves_no_service_recorded_as_idle(tmp_path):
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", REPLACED)
    folder.write("snapshot/east/all.yaml", NAMESPACE + OURS)

    planned = json.loads(folder.plan(NIGHT, "-o", "json").out)
    folder.apply(NIGHT)

    assert [one["allow"] for one in planned["heldBack"]] == ["nights"]
    assert folder.replicas("east", "a-1", "ReplicaSet", "web") == 3
    assert "annotations" not in folder.objects()["east", "a-1", "Service", "web"]["metadata"]


PICKED = """\
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: pick}
spec:
  selector: {namespaces: {include: [prod]}, workloads: {}}
  production: true
  target: {replicas: 1}
  podPicker: {http: {host: picker.prod.svc, port: 9}, onError: fallback}
"""
OWNED = """\
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  {name: u-1, namespace: prod, labels: {app: u}, uid: rs, ownerReferences: [{apiVersion: apps/v1, kind: Deployment,
   name: u, uid: of-u, controller: true}]}
spec:
  replicas: 3
  selector: {matchLabels: {app: u}}
  template: {metadata: {labels: {app: u}}, spec: {containers: [{name: main, image: "web:1"}]}}
"""
POD = """\
---
apiVersion: v1
kind: Pod
metadata:
  {name: u-NUMBER, namespace: prod, labels: {app: u}, uid: u-NUMBER, creationTimestamp: "2026-11-01T00:00:00Z",
   ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: u-1, uid: rs, controller: true}]}
spec: {nodeName: node, containers: [{name: main, image: "web:1"}]}
status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-01T00:00:00Z"}]}
"""


def test_what_a_limit_held_back_stays_so_where_pod_pickers_are_asked(tmp_path):
    folder = Folder(tmp_path)
    platform = POLICIES.replace("[fleet.yaml]", '[fleet.yaml, "platform/**"]').replace(
        "  home: east\n", '  home: east\n  podPickers: {allowedHosts: ["*.svc"]}\n'
    )
    folder.write("policies/fleet.yaml", platform)
    folder.write("policies/platform/pick.yaml", PICKED)
    folder.write("policies/teams/a/all.yaml", OF_TENANT)
    picked = deployment("u", 3).replace("namespace: a-1", "namespace: prod, uid: of-u") + OWNED
    picked += "".join(POD.replace("NUMBER", str(number)) for number in range(3))
    east = NAMESPACE + "---\n" + NAMESPACE.replace("a-1", "prod") + deployment("big", 15) + deployment("other", 10)
    folder.write("snapshot/east/all.yaml", east + deployment("web", 1) + picked)
    folder.write("snapshot/west/all.yaml", NAMESPACE + deployment("web", 1))
    folder.apply(DAY, "--policy", "a-1/web")

    said = {flags: json.loads(folder.plan(NIGHT, "-o", "json", *flags).out) for flags in ((), ("--call-pickers",))}

    for planned in said.values():
        assert [one["object"]["name"] for one in planned["actions"] if one["verb"] == "idle"] == []
    assert any(one["kind"] == "picker" for one in said["--call-pickers",]["notices"]), "it was asked"
