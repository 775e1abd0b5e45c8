"""What a plan may change, kind by kind and field by field; a saved plan may have been written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.decide.decisions import Decision, FieldChange, Phase, Verb
from reconciler.errors import PlanFileError
from reconciler.model import ObjectRef
from reconciler.saved_plan.allowed_changes import check_allowed, is_custom
from tests.builders import a_ref
from tests.cases import cases
from tests.plans import a_decision, a_plan

MOST = 2**31 - 1
OURS = "reconciler/owner"
ANNOTATIONS, LABELS = ("metadata", "annotations"), ("metadata", "labels")
GAME = ("apps.example.com", "Game")


def problem(decision: Decision, run: str = "0123456789ab") -> str:
    """Return what the plan file is refused for, "" where it is not."""
    try:
        check_allowed(a_plan(decision, run=run), "plan.json")
    except PlanFileError as error:
        beginning = f"plan.json: action 1 ({decision.ref}): "
        return str(error).removeprefix(beginning).removesuffix("; plan again")
    return ""


def on(group: str, kind: str, *changes: FieldChange, **fields: Any) -> Decision:
    """A repair of an object of that kind."""
    ref = ObjectRef("east", "shop", kind, fields.pop("name", "web"), group)
    version = f"{group}/v1" if group else "v1"
    defaults: dict[str, Any] = {"verb": Verb.REPAIR, "replicas_before": None, "replicas_after": None}
    return a_decision(ref=ref, api_version=version, **(defaults | {"changes": changes} | fields))


def to(value: Any, *path: str, before: Any = None) -> FieldChange:
    return FieldChange(path, before, value)


KINDS = [
    ("", "Service"),
    ("", "Endpoints"),
    ("", "ReplicationController"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "ReplicaSet"),
    ("batch", "CronJob"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("keda.sh", "ScaledObject"),
    GAME,
]
BEHAVIOR = ("spec", "behavior")
SLICE = ("discovery.k8s.io", "EndpointSlice")
SCALED = [kind for kind in KINDS if kind[1] in ("ReplicationController", "Deployment", "StatefulSet", "ReplicaSet")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["x", None])
def test_our_annotations_stand_on_every_kind_but_pods(kind, value):
    assert problem(on(*kind, to(value, *ANNOTATIONS, OURS, before="y"))) == ""
    theirs = problem(on(*kind, to(value, *ANNOTATIONS, "theirs", before="y")))
    assert ("is no field of" in theirs) is (kind != ("apps", "ReplicaSet"))
    assert "is no field of" in problem(on("", "Pod", to(value, *ANNOTATIONS, OURS, before="y")))
    assert "is no field of" in problem(on(*SLICE, to(value, *ANNOTATIONS, OURS, before="y")))


@pytest.mark.parametrize("kind", [*SCALED, GAME])
@pytest.mark.parametrize(
    ("value", "is_permitted"),
    [(0, True), (MOST, True), (MOST + 1, False), (-1, False), (True, False), ("1", False), (1.0, False)],
)
def test_a_number_of_replicas(kind, value, is_permitted):
    found = problem(on(*kind, to(value, "spec", "replicas", before=3), replicas_before=3, replicas_after=value))
    assert found == ("" if is_permitted else f"after /spec/replicas is {value!r}, expected what belongs there")


@pytest.mark.parametrize(
    ("change", "shown", "expected"),
    [
        pytest.param(to(0, "spec", "replicas", before=3), (3, 0), "", id="as written"),
        pytest.param(to(0, "spec", "replicas", before=3), (3, 1), "3 to 1, expected 3 to 0", id="another number"),
        pytest.param(to(0, "spec", "replicas", before=3), (2, 0), "2 to 0, expected 3 to 0", id="from another one"),
        pytest.param(to(0, "spec", "replicas", before=3), (None, None), "None to None, expected 3 to 0", id="none"),
        pytest.param(to(0, "spec", "replicas"), (1, 0), "", id="absent counts as 1"),
        pytest.param(to(3, "spec", "replicas", before=3), (None, None), "", id="only a test"),
        pytest.param(to("-1", "spec", "replicas", before="-1"), (None, None), "", id="only a test of what cannot be"),
    ],
)
def test_the_number_that_is_shown_is_the_one_that_is_written(change, shown, expected):
    decision = on("apps", "Deployment", change, replicas_before=shown[0], replicas_after=shown[1])
    assert problem(decision) == (f"replicas say {expected} as in after" if expected else "")


@pytest.mark.parametrize(
    ("kind", "change", "is_permitted"),
    [
        (("autoscaling", "HorizontalPodAutoscaler"), to(1, "spec", "minReplicas", before=2), True),
        (("autoscaling", "HorizontalPodAutoscaler"), to(1, "spec", "maxReplicas", before=2), True),
        (("autoscaling", "HorizontalPodAutoscaler"), to(-1, "spec", "maxReplicas", before=2), False),
        (("autoscaling", "HorizontalPodAutoscaler"), to(1, "spec", "replicas", before=2), False),
        (("autoscaling", "HorizontalPodAutoscaler"), to({"scaleUp": {"selectPolicy": "Disabled"}}, *BEHAVIOR), True),
        (("autoscaling", "HorizontalPodAutoscaler"), to({"scaleDown": {}}, *BEHAVIOR), False),
        (("autoscaling", "HorizontalPodAutoscaler"), to("Disabled", *BEHAVIOR, "scaleDown", "selectPolicy"), False),
        (("autoscaling", "HorizontalPodAutoscaler"), to("Min", *BEHAVIOR, "scaleUp", "selectPolicy"), True),
        (("autoscaling", "HorizontalPodAutoscaler"), to("None", *BEHAVIOR, "scaleUp", "selectPolicy"), False),
        (("batch", "CronJob"), to(True, "spec", "suspend"), True),
        (("batch", "CronJob"), to(None, "spec", "suspend", before=True), True),
        (("batch", "CronJob"), to("true", "spec", "suspend"), False),
        (("batch", "CronJob"), to(1, "spec", "replicas"), False),
        (("keda.sh", "ScaledObject"), to("0", *ANNOTATIONS, "autoscaling.keda.sh/paused-replicas"), True),
        (("keda.sh", "ScaledObject"), to(0, *ANNOTATIONS, "autoscaling.keda.sh/paused-replicas"), False),
        (("keda.sh", "ScaledObject"), to("true", *ANNOTATIONS, "autoscaling.keda.sh/paused"), False),
        (("apps", "Deployment"), to("0", *ANNOTATIONS, "autoscaling.keda.sh/paused-replicas"), False),
        (("apps", "Deployment"), to("x", *ANNOTATIONS, "reconciler"), False),
        (("apps", "Deployment"), to({}, *ANNOTATIONS), False),
        (("apps", "Deployment"), to("x", "metadata", "owners", OURS), False),
        (("apps", "Deployment"), to("shop.web", *LABELS, "reconciler/frs"), True),
        (("apps", "Deployment"), to(1, *LABELS, "reconciler/frs"), False),
        (("apps", "Deployment"), to("x", *LABELS, "app"), False),
        (("apps", "ReplicaSet"), to("x", *LABELS, "app"), True),
        (("apps", "ReplicaSet"), to(["x"], *LABELS, "app"), False),
        (("apps", "ReplicaSet"), to(1, *ANNOTATIONS, "app"), False),
        (("apps", "ReplicaSet"), to(5, "spec", "minReadySeconds", before=2), True),
        (("apps", "ReplicaSet"), to("5", "spec", "minReadySeconds", before=2), False),
        (("apps", "Deployment"), to(5, "spec", "minReadySeconds", before=2), False),
        (("apps", "ReplicaSet"), to({}, "spec", "template"), False),
        (("apps", "ReplicaSet"), to({}, "spec", "selector"), False),
        (("", "Service"), to(1, "spec", "replicas", before=2), False),
        (("", "Pod"), to("-1", *ANNOTATIONS, "controller.kubernetes.io/pod-deletion-cost"), True),
        (("", "Pod"), to(-1, *ANNOTATIONS, "controller.kubernetes.io/pod-deletion-cost"), False),
        (("", "Pod"), to("x", *LABELS, "reconciler/victim"), True),
        (("", "Pod"), to("x", *LABELS, "app"), False),
        (GAME, to("x", *LABELS, "reconciler/frs"), True),
        (GAME, to("x", *LABELS, "app"), False),
        (GAME, to({}, "spec"), False),
        (GAME, to(1, "status", "replicas"), False),
    ],
    ids=str,
)
def test_a_field(kind, change, is_permitted):
    assert (problem(on(*kind, change)) == "") is is_permitted


@cases(
    "job value is_permitted",
    ("idling pauses it", "idling", "disabled", True),
    ("idling resumes it", "idling", None, True),
    ("idling writes another word", "idling", "enabled", False),
    ("idling writes a number", "idling", 1, False),
    ("placement pauses it", "placement", "disabled", False),
    ("downscale resumes it", "downscale", None, False),
)
def test_only_idling_pauses_flux_and_lets_it_go_on(job, value, is_permitted):
    change = to(value, *ANNOTATIONS, "kustomize.toolkit.fluxcd.io/reconcile", before="x")
    assert (problem(on("apps", "Deployment", change, job=job)) == "") is is_permitted


@pytest.mark.parametrize("key", ["downscaler/exclude", "downscaler/exclude-until"])
@pytest.mark.parametrize("kind", KINDS)
def test_annotations_of_kube_downscaler_are_only_tested(kind, key):
    same = to("x", *ANNOTATIONS, key, before="x")
    assert problem(on(*kind, same)) == ""
    written = problem(on(*kind, to("x", *ANNOTATIONS, key)))
    assert ("expected what belongs there" in written) is (kind != ("apps", "ReplicaSet"))  # which its policy may state
    assert "is no field of" in problem(on("", "Service", to("x", *LABELS, key, before="x")))


@pytest.mark.parametrize("path", [("spec", "shards"), ("spec", "pool", "size")])
def test_the_replicas_of_a_custom_kind_may_stand_anywhere_in_its_spec(path):
    assert problem(on(*GAME, to(0, *path, before=3), replicas_before=3, replicas_after=0)) == ""
    assert "expected what belongs there" in problem(on(*GAME, to("x", *path, before=3)))
    assert "is no field of" in problem(on(*GAME, to(0, "spec", before=3), replicas_before=3, replicas_after=0))


@pytest.mark.parametrize("value", [{"spec": {}}, {}])
def test_a_template_is_only_overwritten(value):
    change = to(value, "spec", "template", before={"spec": 1})
    assert problem(on("apps", "ReplicaSet", change, verb=Verb.OVERWRITE)) == ""
    assert "expected what belongs" in problem(
        on("apps", "ReplicaSet", to("x", "spec", "template"), verb=Verb.OVERWRITE)
    )
    assert "is no field of a Deployment that overwrite changes" in problem(
        on("apps", "Deployment", change, verb=Verb.OVERWRITE)
    )


@cases(
    "group kind expected",
    ("a kind of another group", "apps.example.com", "Game", True),
    ("an Argo Rollout", "argoproj.io", "Rollout", True),
    ("a KEDA ScaledJob", "keda.sh", "ScaledJob", True),
    ("a KEDA ScaledObject", "keda.sh", "ScaledObject", False),
    ("a DaemonSet", "apps", "DaemonSet", False),
    ("a Secret of the core group", "", "Secret", False),
    ("the group of Kubernetes", "k8s.io", "X", False),
    ("a group below that of Kubernetes", "networking.k8s.io", "NetworkPolicy", False),
    ("a group that only ends alike", "notk8s.io", "X", True),
)
def test_a_custom_kind(group, kind, expected):
    assert is_custom(group, kind) is expected
    if not expected and kind != "ScaledObject":
        of = group or "the core group"
        assert problem(on(group, kind)) == f"object is a {kind} of {of}, which no plan changes"


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
NAMED = {"name": "reconciler-status-shop.web", "namespace": "shop"}
NO_TEXTS = "manifest.metadata holds other things than texts"


def merged(manifest: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`manifest` with `changes`; what is a mapping in both is merged."""
    both = {key: manifest[key] | changes[key] for key in manifest if isinstance(changes.get(key), dict)}
    return {**manifest, **changes, **both}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, "", id="as a run makes it"),
        pytest.param({"metadata": {"labels": {"a": "b"}, "annotations": {OURS: "x"}}}, "", id="with labels and marks"),
        pytest.param({"data": None}, "", id="without data"),
        pytest.param({"data": {"z": 1}}, "manifest.data holds other things than texts", id="numbers in data"),
        pytest.param({"data": "x"}, "manifest.data holds other things than texts", id="a text for data"),
        pytest.param({"kind": "Secret"}, "manifest.kind is 'Secret', expected 'ConfigMap'", id="another kind"),
        pytest.param({"apiVersion": 1}, "manifest.apiVersion is 1, expected 'v1'", id="a number for a version"),
        pytest.param({"immutable": True}, "manifest.immutable is no field that a plan states", id="one more field"),
        pytest.param({"metadata": "x"}, "manifest.metadata is no object", id="a text for metadata"),
        pytest.param(
            {"metadata": {"name": "other"}},
            "manifest.metadata.name is 'other', expected 'reconciler-status-shop.web'",
            id="another name",
        ),
        pytest.param(
            {"metadata": {"finalizers": []}},
            "manifest.metadata.finalizers is no field that a plan states",
            id="one more field of metadata",
        ),
        pytest.param({"metadata": {"labels": {OURS: 1}}}, NO_TEXTS, id="a number in labels"),
        pytest.param({"metadata": {"annotations": {OURS: 1}}}, NO_TEXTS, id="a number in annotations"),
        pytest.param(
            {"metadata": {"annotations": {OURS: "x", "theirs": "x"}}},
            "manifest.metadata.annotations holds some that are not ours",
            id="an annotation of others",
        ),
    ],
)
def test_a_config_map_that_is_made(changes, expected):
    manifest = merged({**CONFIG_MAP, "metadata": NAMED, "data": {"x": "y"}}, changes)
    made = on("", "ConfigMap", verb=Verb.REMEMBER, uid=None, manifest=manifest, name=NAMED["name"])
    assert problem(made) == expected


def test_another_config_map_is_not_made():
    manifest = {**CONFIG_MAP, "metadata": {"name": "coredns", "namespace": "shop"}, "data": {}}
    made = on("", "ConfigMap", verb=Verb.REMEMBER, uid=None, manifest=manifest, name="coredns")
    assert problem(made) == 'object.name is "coredns", expected a ConfigMap that runs write'


REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"replicas": 2, "selector": {}, "template": {}},
}


def made(kind: tuple[str, str] = ("apps", "ReplicaSet"), manifest: Any = None, **fields: Any) -> Decision:
    content = merged(REPLICA_SET, manifest or {})
    defaults: dict[str, Any] = {"uid": None, "replicas_before": 0, "replicas_after": 2, "phase": Phase.INCREASE}
    return on(*kind, **({"verb": Verb.CREATE, "manifest": content} | defaults | fields))


STATED = {"metadata": {"annotations": {"theirs": "x"}}, "spec": {"minReadySeconds": 5}}
MAKES = "manifest makes a ReplicaSet"


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        pytest.param(made(), "", id="as a run makes it"),
        pytest.param(made(manifest=STATED), "", id="with what its policy states besides"),
        pytest.param(made(kind=("apps", "Deployment")), "manifest makes a Deployment", id="a Deployment"),
        pytest.param(made(verb=Verb.REMEMBER), MAKES, id="by another verb"),
        pytest.param(made(uid="x"), MAKES, id="of one that is there"),
        pytest.param(made(changes=(to(1, "spec", "replicas"),)), MAKES, id="with changes besides"),
        pytest.param(
            on("apps", "ReplicaSet", verb=Verb.CREATE, uid=None), "manifest.apiVersion is None", id="of nothing"
        ),
        pytest.param(
            made(manifest={"spec": {"replicas": 3}}), "manifest.spec.replicas is 3, expected 2", id="other replicas"
        ),
        pytest.param(
            made(manifest={"spec": {"replicas": True}}, replicas_after=1),
            "manifest.spec.replicas is True, expected 1",
            id="true for 1",
        ),
        pytest.param(
            made(manifest={"spec": {"paused": True}}), "manifest.spec.paused is no field", id="one more field of spec"
        ),
        pytest.param(made(manifest={"status": {}}), "manifest.status is no field", id="one more field"),
        pytest.param(made(replicas_before=1), "replicas say 1 to 2, expected 0 to a count", id="not from zero"),
        pytest.param(
            made(manifest={"spec": {"replicas": -1}}, replicas_after=-1),
            "replicas say 0 to -1, expected 0 to a count",
            id="to no count",
        ),
        pytest.param(
            made(manifest={"metadata": {"namespace": "kube-system"}}),
            "manifest.metadata.namespace is 'kube-system', expected 'shop'",
            id="elsewhere",
        ),
    ],
)
def test_a_local_replica_set_that_is_made(decision, expected):
    assert problem(decision).startswith(expected) if expected else problem(decision) == ""


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        pytest.param(("apps", "ReplicaSet"), {}, "", id="a ReplicaSet"),
        pytest.param(("apps", "ReplicaSet"), {"orphan": True}, "", id="a ReplicaSet without its pods"),
        pytest.param(("apps", "ReplicaSet"), {"uid": None}, "object.uid is null", id="of no uid"),
        pytest.param(("apps", "Deployment"), {}, "verb deletes a Deployment", id="a Deployment"),
        pytest.param(SLICE, {"name": "web-activator-a-ipv4"}, "", id="a slice of an activator"),
        pytest.param(SLICE, {"name": "web-x2f"}, "verb deletes a EndpointSlice", id="another slice"),
        pytest.param(("", "ConfigMap"), {"name": NAMED["name"]}, "", id="a status"),
        pytest.param(("", "ConfigMap"), {"name": "other"}, 'object.name is "other"', id="another ConfigMap"),
        pytest.param(("", "Service"), {"name": NAMED["name"]}, "verb deletes a Service", id="a Service of that name"),
        pytest.param(
            ("", "ConfigMap"),
            {"name": NAMED["name"], "manifest": CONFIG_MAP},
            "manifest makes a ConfigMap",
            id="half a deletion",
        ),
    ],
)
def test_a_deletion(kind, fields, expected):
    found = problem(on(*kind, verb=Verb.DELETE, **fields))
    assert found.startswith(expected) if expected else found == ""


def test_a_deletion_changes_nothing():
    deletion = on("apps", "ReplicaSet", to(0, "spec", "replicas", before=1), verb=Verb.DELETE)
    assert problem(deletion) == "after holds fields, expected none in a deletion"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"uid": None}, "object.uid is null, expected that of an object that is there"),
        ({"orphan": True}, "orphan is true, expected that of a deletion only"),
        ({"api_version": "apps/v1beta1"}, ""),
        ({"api_version": "v1"}, 'object.apiVersion is "v1", expected a version of its group'),
        ({"api_version": "batch/v1"}, 'object.apiVersion is "batch/v1", expected a version of its group'),
        ({"api_version": "apps/"}, 'object.apiVersion is "apps/", expected a version of its group'),
        ({"ref": a_ref("a/b")}, 'object.name is "a/b", expected a name as Kubernetes takes it'),
        ({"ref": a_ref(namespace="")}, 'object.namespace is "", expected a name as Kubernetes takes it'),
    ],
    ids=str,
)
def test_an_object(fields, expected):
    assert problem(a_decision(**({"changes": ()} | fields))) == expected


@cases(
    "phase job is_permitted",
    ("decrease of idling", Phase.DECREASE, "idling", True),
    ("repair of placement", Phase.REPAIR, "placement", True),
    ("repair of idling", Phase.REPAIR, "idling", False),
    ("wake of idling", Phase.WAKE, "idling", False),
    ("record of downscale", Phase.RECORD, "downscale", False),
)
def test_no_decrease_passes_for_what_a_frozen_cluster_allows(phase, job, is_permitted):
    expected = f'phase is "{phase.name.lower()}", expected "move" or "decrease" where replicas are taken away'
    down: dict[str, Any] = {"replicas_before": 3, "replicas_after": 0, "phase": phase, "job": job}
    decision = on("apps", "Deployment", to(0, "spec", "replicas", before=3), **down)
    assert problem(decision) == ("" if is_permitted else expected)


@pytest.mark.parametrize(("run", "is_one"), [("a", True), ("a" * 40, True), ("a" * 41, False), ("../x", False)])
def test_the_id_of_a_run(run, is_one):
    assert problem(a_decision(), run=run) == (
        "" if is_one else f'plan.json: $.run is "{run}", expected the id of a run'
    )
