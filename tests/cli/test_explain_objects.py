"""What `explain CLUSTER/NAMESPACE/KIND/NAME` says: nothing that is decided is left out."""

from __future__ import annotations

import pytest

from tests.way.calls import Folder

NOW = "2026-11-20T22:00:00Z"
FLEET = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: one}
spec: {home: east, clusters: [{name: east}]}
"""
NIGHTS = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: nights}
spec:
  selector: {namespaces: {include: [shop]}, services: {}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Fri 20:00-07:00"]}}]
"""
UNTIL = 'schedule "Mon-Fri 20:00-07:00" until 2026-11-21T07:00:00Z'
CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, uid: east-uid}
---
apiVersion: v1
kind: Service
metadata: {name: nothing, namespace: shop}
spec: {selector: {app: nothing}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: scaler, namespace: shop}
spec: {scaleTargetRef: {name: jobs}}
"""
PAIR = """---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec: {{selector: {{app: {name}}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: shop}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: {name}}}}}
  template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{name: c, image: x}}]}}}}
"""


@pytest.fixture
def folder(tmp_path) -> Folder:
    """A Deployment behind a Service, one that KEDA scales, and a Service with nothing behind it."""
    made = Folder(tmp_path)
    made.write("policies/all.yaml", f"{FLEET}---\n{NIGHTS}")
    made.write("snapshot/east/all.yaml", CLUSTER + PAIR.format(name="web") + PAIR.format(name="jobs"))
    return made


def explained(folder: Folder, subject: str) -> str:
    said = folder.call("explain", subject, "--snapshot", "snapshot", "--now", NOW)
    assert said.code == 0, said.err
    return said.out


GOES_IDLE = f"""\
  idling, nights: goes idle
    selected by: services (Service/{{name}})
    because: {UNTIL}
    it would change: from 2026-11-21T07:00:00Z
"""
WEB = f"""\
east/shop/Deployment/web
{GOES_IDLE.format(name="web")}  planned: idle replicas 3 -> 0 ({UNTIL}; policies/all.yaml:6)
"""
JOBS = f"""\
east/shop/Deployment/jobs
  scaled through ScaledObject/scaler
{GOES_IDLE.format(name="jobs")}  planned: idle ScaledObject/scaler replicas 3 -> 0 ({UNTIL}; policies/all.yaml:6)
"""
BEHIND = f"""\
east/shop/Service/web
  behind it: Deployment/web
  planned: mark ({UNTIL}; policies/all.yaml:6)
{WEB}"""
NOTHING = """\
east/shop/Service/nothing
  idling, nights: left as it is
    because: nothing that can be scaled is behind it
  planned: nothing
"""


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        pytest.param("east/shop/deploy/web", WEB, id="a workload"),
        pytest.param("east/shop/deploy/jobs", JOBS, id="what KEDA scales"),
        pytest.param("east/shop/ScaledObject/scaler", JOBS, id="the ScaledObject"),
        pytest.param("east/shop/svc/web", BEHIND, id="a Service"),
        pytest.param("east/shop/svc/nothing", NOTHING, id="a Service with nothing behind it"),
        pytest.param("east/shop", JOBS + WEB + NOTHING, id="a namespace"),
    ],
)
def test_an_object(folder, subject, told):
    assert explained(folder, subject) == told


def test_what_a_limit_holds_back(folder):
    folder.write("policies/all.yaml", f"{FLEET}---\n{NIGHTS}  limits: {{idledWorkloads: {{share: 0%, atLeast: 0}}}}\n")
    why = "nights would idle 2 of 2 workloads (100 %, limit 0 % or 0). 2 come from policies/all.yaml:6."
    held = f"""\
  held back: idle replicas 3 -> 0 ({UNTIL}; policies/all.yaml:6); {why}
    allow it once: --allow-exceed nights
  planned: nothing
"""
    assert (
        explained(folder, "east/shop/deploy/web") == f"east/shop/Deployment/web\n{GOES_IDLE.format(name='web')}{held}"
    )


def test_what_is_only_observed(folder):
    folder.write("policies/all.yaml", f"{FLEET}---\n{NIGHTS}  mode: Observe\n")
    assert f"  only observed, never applied: idle replicas 3 -> 0 ({UNTIL}" in explained(folder, "east/shop/deploy/web")


UNION = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: both}
spec:
  selector:
    namespaces: {include: [shop]}
    services: {matchLabels: {shown: "yes"}}
    workloads: {kinds: [Deployment], matchLabels: {chosen: "yes"}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Fri 20:00-07:00"]}}]
"""


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("web", "services (Service/web)"),
        ("jobs", "workloads"),
        ("api", "services (Service/api) and workloads"),
    ],
)
def test_row_13_explain_says_which_part_of_a_selector_selects_a_workload(tmp_path, name, part):
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", f"{FLEET}---\n{UNION}")
    shown, chosen = "metadata: {name: web,", "metadata: {name: jobs,"
    api = PAIR.format(name="api").replace(
        "metadata: {name: api,", 'metadata: {labels: {shown: "yes", chosen: "yes"}, name: api,'
    )
    web = PAIR.format(name="web").replace(shown, shown.replace("{", '{labels: {shown: "yes"}, ', 1))
    jobs = PAIR.format(name="jobs").replace(chosen, chosen.replace("{", '{labels: {chosen: "yes"}, ', 1))
    folder.write("snapshot/east/all.yaml", CLUSTER.split("---\napiVersion: keda", maxsplit=1)[0] + web + jobs + api)
    assert f"  idling, both: goes idle\n    selected by: {part}\n" in explained(folder, f"east/shop/deploy/{name}")
