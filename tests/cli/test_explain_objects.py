"""What `explain CLUSTER/NAMESPACE/KIND/NAME` says: nothing that is decided is left out."""

from __future__ import annotations

import json

import pytest
import yaml

from reconciler.decide.decisions import FieldChange
from reconciler.decide.reasons import Reason, text_of
from reconciler.policy.field_help import fields
from reconciler.report.explanation import ObjectExplanation, explanation_lines
from tests.builders import a_ref
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import (
    an_object,
    autoscaler,
    documents,
    fleet,
    identity,
    idling,
    placed,
    service,
    template,
    workload,
)
from tests.plans import a_plan, an_idle

NOW = "2026-11-20T22:00:00Z"
FLEET = fleet(["east"], name="one")
NIGHTS = idling("namespaces: {include: [shop]}, services: {}", downtime='"Mon-Fri 20:00-07:00"')
SCALER = an_object("ScaledObject", "scaler", "shop", "scaleTargetRef: {name: jobs}", version="keda.sh/v1alpha1")
CLUSTER = documents(identity("east"), service("nothing"), SCALER, autoscaler("web", "shop"))


def pair(name: str) -> str:
    """A Deployment of three behind a Service."""
    return documents(service(name), workload(name, replicas=3))


@pytest.fixture
def folder(tmp_path) -> Folder:
    """A Deployment behind a Service, one that KEDA scales, and a Service with nothing behind it."""
    made = Folder(tmp_path)
    made.write("policies/all.yaml", f"{FLEET}---\n{NIGHTS}")
    made.write("snapshot/east/all.yaml", documents(CLUSTER, pair("web"), pair("jobs")))
    return made


def explained(folder: Folder, subject: str) -> str:
    said = folder.call("explain", subject, "--snapshot", "snapshot", "--now", NOW)
    assert said.code == 0, said.err
    return below_the_heading(said.out)


def below_the_heading(text: str) -> str:
    """Return an explanation without when it was made, which its first line says, and no other."""
    name, words, rest = text.partition(" (snapshot, Fri 2026-11-20 22:00, times in UTC)\n")
    assert words
    assert "\n" not in name
    return f"{name}\n{rest}"


SATURDAY = "Sat 2026-11-21 07:00"
GOES_IDLE = f"""\

IdlingPolicy nights (policies/all.yaml:8): goes idle
  selected by services (Service/{{name}})
  because: "Mon-Fri 20:00-07:00" until {SATURDAY}
  It would change if it is {SATURDAY} or later.

"""
WEB = f"""\
east/shop/Deployment/web
Current 3, desired 0.
{GOES_IDLE.format(name="web")}Next run: idle, replicas 3 -> 0
"""
JOBS = f"""\
east/shop/Deployment/jobs
Current 3, desired 0.
Scaled through ScaledObject/scaler.
{GOES_IDLE.format(name="jobs")}Next run: record previous scale 3 (metadata update)
Next run: idle ScaledObject/scaler, replicas 3 -> 0
"""
BEHIND = f"""\
east/shop/Service/web
Behind it: Deployment/web.

Next run: record idle workloads: Deployment/web (metadata update)

{WEB}"""
NOTHING = """\
east/shop/Service/nothing

IdlingPolicy nights (policies/all.yaml:8): left as it is
  because: no scalable workload is behind it

Next run: no change
"""


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        pytest.param("east/shop/deploy/web", WEB, id="a workload"),
        pytest.param("east/shop/deploy/jobs", JOBS, id="what KEDA scales"),
        pytest.param("east/shop/ScaledObject/scaler", JOBS, id="the ScaledObject"),
        pytest.param("east/shop/hpa/web", WEB, id="the HorizontalPodAutoscaler"),
        pytest.param("east/shop/svc/web", BEHIND, id="a Service"),
        pytest.param("east/shop/svc/nothing", NOTHING, id="a Service with nothing behind it"),
        pytest.param("east/shop", f"{JOBS}\n{WEB}\n{NOTHING}", id="a namespace"),
    ],
)
def test_an_object(folder, subject, told):
    assert explained(folder, subject) == told


def test_a_scaled_object_whose_target_is_not_there(folder):
    folder.write("policies/all.yaml", f"{FLEET}---\n{idling('workloads: {kinds: [ScaledObject]}')}")
    folder.write("snapshot/east/all.yaml", CLUSTER)
    said = explained(folder, "east/shop/ScaledObject/scaler").splitlines()
    assert (said[1], said[5]) == ("Current unknown, desired unknown.", "  because: its target was not found")
    about = ("explain", "east/shop/ScaledObject/scaler", "--snapshot", "snapshot", "-o", "json")
    assert json.loads(folder.call(*about).out)["objects"][0]["specReplicas"] is None


def test_what_a_limit_holds_back(folder):
    folder.write("policies/all.yaml", f"{FLEET}---\n{NIGHTS}  limits: {{workloads: 0}}\n")
    assert explained(folder, "east/shop/deploy/web") == (
        f"east/shop/Deployment/web\nCurrent 3, desired 0, held back.\n{GOES_IDLE.format(name='web')}"
        "Held back: idle, replicas 3 -> 0; nights: 2 workloads would go idle for the first time, limit 0; "
        "to allow: set `limits: {workloads: 3}` in policies/all.yaml:14\n"
        "Next run: no change\n"
    )


def test_what_is_only_observed(folder):
    folder.write("policies/all.yaml", f"{FLEET}---\n{NIGHTS}  mode: Observe\n")
    said = explained(folder, "east/shop/deploy/web")
    assert said.startswith("east/shop/Deployment/web\nCurrent 3, desired 0, observed only.\n")
    assert "\nObserved only, never applied: idle, replicas 3 -> 0\nNext run: no change\n" in said


def test_what_is_idle_says_what_it_had_since_when_and_what_wakes_it(folder):
    assert folder.apply(NOW).code == 0
    said = folder.call("explain", "east/shop/deploy/web", "--snapshot", "snapshot", "--now", "2026-11-21T01:00:00Z")
    assert said.out.splitlines()[:3] == [
        "east/shop/Deployment/web (snapshot, Sat 2026-11-21 01:00, times in UTC)",
        "Current 0, desired 0.",
        "Idle since Fri 2026-11-20 22:00 (3h), previous scale 3. To wake it: reconciler wake east/shop/Deployment/web",
    ]


def test_a_cluster_is_an_object_also_beside_a_broken_file_of_a_tenant(folder):
    tenants = "tenants: [{name: a, namespaces: [a], paths: ['a/**']}]"
    with_tenants = fleet(["east"], tenants, name="one")
    (folder.path / "policies" / "all.yaml").unlink()
    folder.write("policies/fleet.yaml", f"{with_tenants}---\n{NIGHTS}")
    folder.write("policies/a/broken.yaml", "kind: [\n")
    said = folder.call("explain", "east", "--snapshot", "snapshot", "--now", NOW)
    assert (said.code, below_the_heading(said.out)) == (0, explained(folder, "east/shop"))


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_field_as_json_is_refused_with_the_verb_that_has_it(folder, form):
    said = folder.call("explain", "IdlingPolicy", "-o", form)
    assert said.code == 64
    assert "KIND:" not in said.out
    assert "`reconciler schema` prints" in said.err


def test_a_cluster_that_cannot_be_read_says_so_and_names_the_way_without_it(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    said = folder.call("explain", "east/shop/deploy/web", "--now", NOW)
    assert (said.code, said.out) == (1, "")
    words = "there is no file ~/.kube/config, expected a kubeconfig that names it"
    assert f"cluster east cannot be read: kubeconfig ~/.kube/config: {words}; --snapshot DIR reads a folder" in said.err


PLACED = placed(14, 'clusters: {"*": {weight: 1}}', template())


def test_on_a_cluster_that_cannot_be_read_the_last_number_stands_and_when_it_moves(tmp_path):
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", documents(fleet(["east", "us"], name="one"), PLACED))
    for cluster in ("east", "us"):
        spaces = [an_object("Namespace", name) for name in ("shop", "reconciler")]
        folder.write(f"snapshot/{cluster}/all.yaml", documents(identity(cluster), *spaces))
    folder.apply("2026-11-20T10:00:00Z")
    (folder.path / "snapshot" / "us").rename(folder.path / "lost")
    folder.apply("2026-11-20T10:05:00Z")
    look = ("--snapshot", "snapshot", "--now", "2026-11-20T10:06:00Z")
    said = folder.call("explain", "us/shop/ReplicaSet/web", *look)
    assert "\nCurrent unknown, desired 7.\n" in said.out
    assert "It would change if it is Fri 2026-11-20 10:15 or later" in said.out
    assert "us ? -> 7" in folder.call("status", *look).out
    moves = "; replicas of shop/web move to other clusters from Fri 2026-11-20 10:15 on\n"
    assert moves in folder.call("plan", "policies", *look).out


@pytest.mark.parametrize("subject", ["FederatedReplicaSet/shop/web", "shop/web", "shop/web/"])
def test_a_federated_replica_set_is_explained_on_all_of_its_clusters(folder, subject):
    folder.write("policies/all.yaml", documents(fleet(["east", "west"], name="one"), PLACED))
    folder.write("snapshot/west/all.yaml", CLUSTER.replace("east-uid", "west-uid"))
    lines = explained(folder, subject).splitlines()
    heads = [line for line in lines if line.startswith(("east/", "west/"))]
    assert heads == ["east/shop/ReplicaSet/web", "west/shop/ReplicaSet/web"]


@pytest.mark.parametrize(("subject", "is_told"), [("shop/web", True), ("east/shop/ReplicaSet/web", False)])
def test_of_a_federated_replica_set_as_a_whole_the_replicas_without_a_place_are_told(folder, subject, is_told):
    full = placed(14, 'clusters: {"*": {weight: 1, maxReplicas: 5}}', template())
    folder.write("policies/all.yaml", documents(fleet(["east", "west"], name="one"), full))
    folder.write("snapshot/west/all.yaml", CLUSTER.replace("east-uid", "west-uid"))
    told = "\nFederatedReplicaSet shop/web: 4 of 14 replicas without a place\n"
    assert (told in explained(folder, subject) + "\n") is is_told


def test_recursive_lists_every_field_with_type_default_and_description(folder):
    said = folder.call("explain", "IdlingPolicy", "--recursive")
    assert said.code == 0
    lines = said.out.splitlines()
    assert "    idleReplicas <integer> default 0" in lines
    described = next(field.description for field in fields("IdlingPolicy") if field.path == "spec.idleReplicas")
    assert described.startswith(lines[lines.index("    idleReplicas <integer> default 0") + 1].strip())
    assert sum(" <" in line and line.lstrip()[0].islower() for line in lines) >= len(fields("IdlingPolicy"))
    part = folder.call("explain", "IdlingPolicy.spec.wakeOrder", "--recursive").out
    assert part.startswith("KIND:     IdlingPolicy\nFIELD:    spec.wakeOrder <object>\nDEFAULT:  {}\n\nDESCRIPTION:\n")
    assert "idleReplicas" not in part


def test_recursive_of_a_field_that_holds_itself_lists_what_is_in_it(folder):
    below = folder.call("explain", "IdlingPolicy.spec.idleWhen.anyOf", "--recursive").out.partition("FIELDS:\n")[2]
    assert below == folder.call("explain", "IdlingPolicy.spec.idleWhen", "--recursive").out.partition("FIELDS:\n")[2]
    assert "  metric <object>\n" in below


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("IdlingPolicy.spec.nothing", "--recursive"), 'has no field "nothing"'),
        (("east/shop", "--recursive"), "is an object, expected a KIND or KIND.field"),
    ],
)
def test_recursive_of_what_has_no_fields(folder, arguments, words):
    said = folder.call("explain", *arguments)
    assert said.code == 64
    assert words in said.err


def test_desired_means_the_share_and_pending_replicas_are_named_besides(repository, tmp_path):
    folder = Folder.copied(repository / "examples" / "quickstart", tmp_path / "quickstart")
    said = folder.call("explain", "ap-south/shop/ReplicaSet/web", "--snapshot", "snapshot", "--now", NOW)
    assert "\nCurrent 4, desired 2, spec.replicas 4 (2 pending, waitingReplicas).\n" in said.out
    html = folder.plan(NOW, "-o", "html").out
    assert "<title>weight 1 of 3, capacity 2, 2 pending (waitingReplicas)</title>" in html
    assert "4 -> 4<small>desired 2</small>" in html
    rows = [line.split()[:4] for line in folder.plan(NOW, "-o", "markdown").out.splitlines() if "  ap-south" in line]
    assert ["ap-south", "4", "2", "4"] in rows


def test_json_has_what_each_policy_says_with_its_reasons_as_data(folder):
    about = ("explain", "east/shop/deploy/web", "--snapshot", "snapshot", "--now", NOW)
    said = folder.call(*about, "-o", "json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert (document["kind"], [one["object"] for one in document["objects"]]) == (
        "Explanation",
        ["east/shop/Deployment/web"],
    )
    (policy,) = document["objects"][0]["policies"]
    assert (policy["kind"], policy["reasonCode"]) == ("IdlingPolicy", policy["reasons"][0]["code"])
    assert policy["reason"] == text_of(Reason(one["code"], one["values"]) for one in policy["reasons"])
    assert yaml.safe_load(folder.call(*about, "-o", "yaml").out) == document


def test_an_arrow_in_a_value_is_part_of_the_value():
    ref = a_ref("api", kind="ScaledObject")
    paused = FieldChange(("metadata", "annotations", "autoscaling.keda.sh/paused-replicas"), "1 -> 2", "0")
    made = a_plan(an_idle(ref=ref, changes=(paused,), replicas_after=None))
    said = list(explanation_lines(made, [ObjectExplanation(ref, None)]))
    assert said[1] == "Current paused-replicas 1 -> 2, desired paused-replicas 0."
