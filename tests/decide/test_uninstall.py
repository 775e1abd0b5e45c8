"""What takes the keys of ours off an object of any kind, and what is left."""

from __future__ import annotations

import pytest

from reconciler.decide.uninstall import AnnotatedObject, decide_uninstall
from reconciler.model import ObjectRef

OURS = frozenset({"mine"})


def an_object(
    kind: str = "Deployment", *, controlled: bool = False, labels=None, **annotations: str
) -> AnnotatedObject:
    spelt = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    ref = ObjectRef("east", "dev", kind, "web", "apps")
    return AnnotatedObject(ref, "apps/v1", "1", spelt, labels or {}, controlled)


def gone(one: AnnotatedObject) -> set[str]:
    """Return the keys that are taken off."""
    desired = decide_uninstall([one], OURS)
    assert all(change.after is None for decision in desired.decisions for change in decision.changes)
    return {change.path[-1] for decision in desired.decisions for change in decision.changes}


IDLED_AT, TIME = {"idling.kubernetes.io__idled_at": "2026-11-20T20:00:00Z"}, "scale.kubernetes.io__scale_time"


@pytest.mark.parametrize(
    ("one", "keys"),
    [
        (an_object(reconciler__awake_since="a", team="x"), {"reconciler/awake-since"}),
        (an_object("Namespace", reconciler__exclude="true"), {"reconciler/exclude"}),
        (an_object("ReplicaSet", labels={"reconciler/frs": "a", "app": "web"}), {"reconciler/frs"}),
        (an_object("ReplicaSet", controlled=True, **IDLED_AT), {"idling.kubernetes.io/idled-at"}),
        (an_object("Endpoints", **IDLED_AT), {"idling.kubernetes.io/idled-at"}),
        (
            an_object(**{TIME: "a", "scale.kubernetes.io__scale_reason": "Idled"}),
            {TIME.replace("__", "/").replace("_", "-"), "scale.kubernetes.io/scale-reason"},
        ),
        (
            an_object(**{TIME: "a", "scale.kubernetes.io__scale_reason": "Load"}, reconciler__cause="a"),
            {"reconciler/cause"},
        ),
        (an_object(reconciler__owner="mine/IdlingPolicy/a"), {"reconciler/owner"}),
        (an_object(reconciler__owner="other/IdlingPolicy/a", reconciler__cause="a"), set()),
        (an_object(**{"idling.alpha.openshift.io__idled_at": "a"}), set()),
        (
            an_object(
                "Pod",
                labels={"reconciler/victim": "r"},
                **{"controller.kubernetes.io__pod_deletion_cost": "-2147483647"},
            ),
            {"reconciler/victim", "controller.kubernetes.io/pod-deletion-cost"},
        ),
        (an_object("Pod", **{"controller.kubernetes.io__pod_deletion_cost": "5"}), set()),
    ],
)
def test_the_keys_of_ours_go_and_no_other(one, keys):
    assert gone(one) == keys


@pytest.mark.parametrize(
    "one", [an_object(**IDLED_AT), an_object("HorizontalPodAutoscaler", reconciler__previous_bounds="{}")]
)
def test_what_says_how_it_was_stays_and_is_said(one):
    desired = decide_uninstall([one], OURS)
    assert desired.decisions == ()
    (notice,) = desired.notices
    assert notice.partial
    assert notice.subject == f"east/dev/{one.ref.kind}/web"


def test_without_a_fleet_those_of_all_fleets_go():
    assert decide_uninstall([an_object(reconciler__owner="other/IdlingPolicy/a")], None).decisions
