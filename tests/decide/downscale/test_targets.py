"""What a DownscalePolicy's target changes, and what keeps it from it."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState, Phase
from reconciler.decide.downscale.targets import decide_downscale
from reconciler.decide.idling.decide import IdlingOutcome
from reconciler.decide.query_answers import value_in_answer
from reconciler.decide.reasons import Reason
from reconciler.model import Condition, ObjectRef, QueryAnswer, QueryKey, Sample, Workload
from reconciler.policy.types import DownscalePolicy, DownscaleTarget, ObjectSelector, Selector, WorkloadSelector
from tests.builders import (
    NOW,
    a_cluster,
    a_fleet,
    a_namespace,
    a_policy_set,
    a_ref,
    a_run,
    a_state,
    a_workload,
    an_hpa,
    change_if_of,
)
from tests.cases import cases
from tests.decide.downscale.world import a_downscale_policy
from tests.decide.idling.idling_policies import of_state

QUERY = "ceil(sum(tasks) / 8)"
IDLED = {"idling.kubernetes.io/idled-at": "2026-11-20T10:00:00Z", "idling.kubernetes.io/previous-scale": "5"}


def a_target(to: int = 3, **fields: Any) -> DownscaleTarget:
    return DownscaleTarget(**({"replicas": to} | fields))


def by_query(**fields: Any) -> DownscaleTarget:
    return DownscaleTarget(query=QUERY, **fields)


def decided(
    *policies: DownscalePolicy,
    workload: Workload | None = None,
    answer: QueryAnswer | None = None,
    claims: dict[ObjectRef, str] | None = None,
    fleet: Any = None,
    **cluster: Any,
) -> DesiredState:
    found = workload or a_workload(replicas=6)
    answers = {} if answer is None else {QueryKey("east", policy.name, QUERY, ""): answer for policy in policies}
    state = a_state(a_cluster(**({"workloads": (found,)} | cluster)), answers=answers)
    policy_set = a_policy_set(fleet, downscale=tuple(sorted(policies, key=lambda policy: policy.name)))
    idled = IdlingOutcome(DesiredState(), claims or {})
    return decide_downscale(policy_set, state, a_run(), idled.after(state, frozenset({"production"})), {})


def numbers(desired: DesiredState) -> list[tuple[int | None, int | None]]:
    return [(decision.replicas_before, decision.replicas_after) for decision in desired.decisions]


def told(desired: DesiredState) -> str:
    [considered] = desired.explanations
    return considered.why


@cases(
    "target current expected",
    ("down", a_target(4), 6, 4),
    ("up, but only down", a_target(8), 6, None),
    ("up", a_target(8, direction="Both"), 6, 8),
    ("there already", a_target(6, direction="Both"), 6, None),
    ("not below min", a_target(1, minimum=2), 6, 2),
    ("not above max, also on the way down", a_target(9, maximum=4), 6, 4),
    ("not above max", a_target(9, maximum=8, direction="Both"), 6, 8),
    ("to zero", a_target(0), 6, 0),
)
def test_numbers(target: DownscaleTarget, current: int, expected: int | None) -> None:
    desired = decided(a_downscale_policy(target=target), workload=a_workload(replicas=current))
    assert numbers(desired) == ([] if expected is None else [(current, expected)])
    assert len(desired.explanations) == 1
    phases = [decision.phase for decision in desired.decisions]
    assert phases == ([] if expected is None else [Phase.DECREASE if expected < current else Phase.INCREASE])


def a_sample(*values: float) -> QueryAnswer:
    return QueryAnswer(tuple(Sample({"n": str(index)} if index else {}, value) for index, value in enumerate(values)))


@cases(
    "answer expected",
    ("a number", a_sample(4), 4),
    ("a fraction is rounded up: rather one pod more", a_sample(3.2), 4),
    ("zero is min", a_sample(0), 2),
    ("five minutes old", replace(a_sample(4), at=NOW - timedelta(minutes=5)), 4),
)
def test_query(answer: QueryAnswer, expected: int) -> None:
    desired = decided(a_downscale_policy(target=by_query(minimum=2)), answer=answer)
    assert numbers(desired) == [(6, expected)]
    assert desired.decisions[0].cause.values["value"] == answer.samples[0].value


@cases(
    "answer words",
    ("not asked", None, "not evaluated"),
    ("failed", QueryAnswer(error="connection refused"), "connection refused"),
    ("no series", a_sample(), "it returns 0 series, expected one"),
    ("two series", a_sample(1, 2), "it returns 2 series, expected one"),
    ("NaN", a_sample(math.nan), "it returns nan"),
    ("infinite", a_sample(math.inf), "it returns inf"),
    ("minus infinite", a_sample(-math.inf), "it returns -inf"),
    ("negative", a_sample(-3), "it returns -3, expected a number of replicas"),
    ("rounded up to zero", a_sample(-0.5), "it returns -0.5, expected a number of replicas"),
    ("no int32", a_sample(3e9), "expected a number of replicas"),
    ("partial", replace(a_sample(1), warnings=("1 of 2 stores",)), "partial: 1 of 2 stores"),
    ("old", replace(a_sample(1), at=NOW - timedelta(seconds=301)), "more than 5 minutes ago"),
)
def test_an_unknown_query_decides_nothing(answer: QueryAnswer | None, words: str) -> None:
    workloads = (a_workload("a"), a_workload("b"))
    desired = decided(a_downscale_policy(target=by_query()), answer=answer, workloads=workloads)
    assert desired.decisions == ()
    assert [one.subject for one in desired.undecided] == ["east/shop/Deployment/a", "east/shop/Deployment/b"]
    assert words in desired.undecided[0].why
    assert [one.why for one in desired.explanations] == [one.why for one in desired.undecided]
    told = [("unknownQuery", "east", False)] if answer is None or not answer.error else []  # else it is in plan.unknown
    assert [(one.kind, one.subject, one.partial) for one in desired.notices] == told


@cases(
    "value expected",
    ("the largest int32", 2**31 - 1, True),
    ("one more", 2**31, False),
    ("rounded up to the largest", 2**31 - 1.5, True),
    ("rounded up to one more", 2**31 - 0.5, False),
)
def test_a_number_of_replicas_is_an_int32(value: float, expected: bool) -> None:
    found = value_in_answer(a_sample(value), NOW)
    assert (found == value) is expected
    assert isinstance(found, Reason) is not expected


@cases(
    "target why values",
    ("at both limits", a_target(2, minimum=2, maximum=2), "the target is 2", {"replicas": 2}),
    ("below the minimum", a_target(1, minimum=2), "the target is 1, at least 2", {"replicas": 1, "min": 2}),
    ("above the maximum", a_target(4, maximum=3), "the target is 4, at most 3", {"replicas": 4, "max": 3}),
)
def test_a_limit_is_told_where_it_changes_the_number(target: DownscaleTarget, why: str, values: dict[str, int]) -> None:
    [decision] = decided(a_downscale_policy(target=target)).decisions
    assert (decision.cause.why, decision.cause.values) == (why, values)


def test_an_unknown_query_overrides_nobody() -> None:
    desired = decided(a_downscale_policy(target=by_query()), claims={a_ref(): "idle-dev"})
    assert (desired.overridden, told(desired)) == ((), "idle-dev decides its replicas")


@cases(
    "to disabled expected",
    ("there already", 6, False, "the target is anything but 6"),
    ("only the way down", 8, False, "direction is Both"),
    ("its autoscaler scales up", 8, True, "its autoscaler scales it up"),
)
def test_what_would_change_it(to: int, disabled: bool, expected: str) -> None:
    autoscalers = (an_hpa(scale_down_disabled=True),) if disabled else ()
    [considered] = decided(a_downscale_policy(to=to), autoscalers=autoscalers).explanations
    assert change_if_of(considered) == expected


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(0, 5), st.none() | st.integers(5, 9))
def test_whatever_a_query_gives_the_limits_hold(value: float, minimum: int, maximum: int | None) -> None:
    target = by_query(minimum=minimum, maximum=maximum, direction="Both")
    desired = decided(a_downscale_policy(target=target), answer=a_sample(value))
    for _, after in numbers(desired):
        assert after is not None
        assert minimum <= after <= (2**31 - 1 if maximum is None else maximum)


# What is selected


@pytest.mark.parametrize("kind", ["CronJob", "ScaledObject"])
def test_kinds_without_replicas_are_not_selected(kind: str) -> None:
    selector = Selector(workloads=WorkloadSelector())
    assert decided(a_downscale_policy(selector=selector), workload=a_workload(kind=kind)) == DesiredState()


def test_a_cluster_that_did_not_answer_is_left_out() -> None:
    policies = a_policy_set(a_fleet("east", "west"), downscale=(a_downscale_policy(),))
    state = a_state(a_cluster(workloads=(a_workload(replicas=6),)), unreachable={"west": "no answer"})
    assert numbers(decide_downscale(policies, state, a_run(), {}.get, {})) == [(6, 3)]


# What keeps it from changing anything


@cases(
    "options words",
    ("frozen", {"fleet": of_state("Frozen")}, "the cluster is frozen"),
    ("read-only", {"fleet": of_state("ReadOnly")}, "the cluster is read-only"),
    ("protected", {"fleet": a_fleet(protected_namespaces=("shop",))}, "namespace shop is protected"),
    ("our own namespace", {"fleet": a_fleet(namespace="shop")}, "namespace shop is protected"),
    (
        "the workload opts out",
        {"workload": a_workload(replicas=6, annotations={"reconciler/exclude": "true"})},
        'reconciler/exclude: "true"',
    ),
    (
        "the namespace opts out",
        {"namespaces": (a_namespace(annotations={"reconciler/exclude": "true"}),)},
        'reconciler/exclude: "true"',
    ),
    (
        "the workload opts out of kube-downscaler",
        {"workload": a_workload(replicas=6, annotations={"downscaler/exclude": "true"})},
        'downscaler/exclude: "true"',
    ),
    ("going", {"workload": a_workload(replicas=6, terminating=True)}, "it is being deleted"),
)
def test_left_alone(options: dict[str, Any], words: str) -> None:
    desired = decided(a_downscale_policy(), **options)
    assert (desired.decisions, desired.undecided, desired.notices) == ((), (), ())
    assert words in told(desired)
    assert desired.explanations[0].outcome == "stays at 6"


@pytest.mark.parametrize("to", [6, 8])
@cases(
    "options change",
    ("frozen", {"fleet": of_state("Frozen")}, " and its cluster has another state"),
    ("our own namespace", {"fleet": a_fleet(namespace="shop")}, ""),
    (
        "protected",
        {"fleet": a_fleet(protected_namespaces=("shop",))},
        " and the namespace is removed from protectedNamespaces of the Fleet",
    ),
    (
        "excluded",
        {"workload": a_workload(replicas=6, annotations={"reconciler/exclude": "true"})},
        " and reconciler/exclude is removed from east/shop/Deployment/web",
    ),
)
def test_a_target_that_changes_nothing_is_told_before_what_would_keep_it(
    options: dict[str, Any], change: str, to: int
) -> None:
    """A freeze that ends changes nothing by itself then."""
    policy = a_downscale_policy(to=to)
    [barred], [free] = decided(policy, **options).explanations, decided(policy).explanations
    assert (barred.outcome, barred.why) == (free.outcome, free.why)
    assert change_if_of(barred) == (change and f"{change_if_of(free)}{change}")


@cases(
    "options subject",
    (
        "on the workload",
        {"workload": a_workload(replicas=6, annotations={"reconciler/exclude": "maybe"})},
        "east/shop/Deployment/web",
    ),
    ("on the namespace", {"namespaces": (a_namespace(annotations={"reconciler/exclude-until": "soon"}),)}, "east/shop"),
)
def test_an_opt_out_that_cannot_be_read_counts_and_is_told(options: dict[str, Any], subject: str) -> None:
    desired = decided(a_downscale_policy(), **options)
    [notice] = desired.notices
    assert (desired.decisions, notice.kind, notice.subject, notice.partial) == ((), "exclusion", subject, False)


@pytest.mark.parametrize("what", ["namespaces", "horizontalpodautoscalers", "scaledobjects"])
def test_what_could_not_be_read_may_be_there(what: str) -> None:
    desired = decided(a_downscale_policy(), unreadable={what: "forbidden"})
    assert desired.decisions == ()
    assert desired.undecided[0].why == f"{what} of east cannot be read"
    assert told(desired) == f"{what} of east cannot be read"


@cases(
    "to overridden",
    ("it wants another number", 3, True),
    ("it wants the same", 6, False),
)
def test_idling_and_placement_win(to: int, overridden: bool) -> None:
    desired = decided(a_downscale_policy(to=to), claims={a_ref(): "idle-dev"})
    assert desired.decisions == ()
    assert [(one.desired, one.winner, one.policy) for one in desired.overridden] == (
        [("3 replicas", "idle-dev", "shrink")] if overridden else []
    )
    assert told(desired) == "idle-dev decides its replicas"


@cases(
    "replicas annotations left_alone",
    ("idle by us", 0, IDLED, True),
    ("idle by oc", 0, {"idling.alpha.openshift.io/previous-scale": "5"}, True),
    ("at its floor", 1, IDLED | {"reconciler/idled-to": "1"}, True),
    ("a record, but it runs", 1, IDLED, False),
    ("a floor that cannot be read", 1, IDLED | {"reconciler/idled-to": "odd"}, True),
    ("a floor of too many digits", 1, IDLED | {"reconciler/idled-to": "9" * 5000}, True),
    ("at zero without a record", 0, {}, False),
)
def test_what_is_idle_stays_idle(replicas: int, annotations: dict[str, str], left_alone: bool) -> None:
    policy = a_downscale_policy(target=a_target(3, direction="Both"))
    desired = decided(policy, workload=a_workload(replicas=replicas, annotations=annotations))
    assert numbers(desired) == ([] if left_alone else [(replicas, 3)])
    assert [one.winner for one in desired.overridden] == (["idling"] if left_alone else [])
    assert (told(desired) == "it is idle, as its record says") is left_alone


def a_scaled_object() -> Workload:
    return a_workload("web-keda", kind="ScaledObject", scale_target=("Deployment", "web"))


@cases(
    "options name",
    ("an HPA", {"autoscalers": (an_hpa(),)}, "HorizontalPodAutoscaler/web"),
    (
        "one of two HPAs",
        {"autoscalers": (an_hpa(), an_hpa("second", target=("Deployment", "web"), scale_down_disabled=True))},
        "HorizontalPodAutoscaler/second",
    ),
    ("KEDA", {"workloads": (a_workload(replicas=6), a_scaled_object())}, "ScaledObject/web-keda"),
)
def test_autoscalers_are_left_their_workloads(options: dict[str, Any], name: str) -> None:
    desired = decided(a_downscale_policy(), **options)
    [notice] = desired.notices
    assert (desired.decisions, notice.kind, notice.partial) == ((), "autoscaler", False)
    assert name in notice.text
    assert told(desired).startswith(name)


@cases("minimum named", ("above its minimum", None, False), ("below", 4, True))
def test_the_reason_names_an_autoscaler_only_where_it_keeps_replicas(minimum: int | None, named: bool) -> None:
    workloads = (a_workload(replicas=6), a_scaled_object())
    hpa = an_hpa(minimum=minimum, scale_down_disabled=True)
    [decision] = decided(a_downscale_policy(target=a_target(3)), workloads=workloads, autoscalers=(hpa,)).decisions
    assert ("web" in decision.cause.why) is named


@pytest.mark.parametrize(("to", "decisions"), [(3, 0), (8, 1)])
def test_a_rollout_is_not_shrunk_but_may_grow(to: int, decisions: int) -> None:
    rolling = a_workload(replicas=6, updated_replicas=2, conditions=(Condition("Progressing", "True"),))
    desired = decided(a_downscale_policy(target=a_target(to, direction="Both")), workload=rolling)
    assert len(desired.decisions) == decisions
    assert len(desired.undecided) == 1 - decisions
    assert [one.why for one in desired.explanations] == ([one.why for one in desired.undecided] or ["the target is 8"])


# Several policies


def named(name: str, to: int = 3, **fields: Any) -> DownscalePolicy:
    return a_downscale_policy(to=to, name=name, **fields)


def test_the_higher_priority_wins() -> None:
    desired = decided(named("low", 2), named("high", 4, priority=7))
    assert numbers(desired) == [(6, 4)]
    assert [(one.policy, one.winner, one.desired) for one in desired.overridden] == [("low", "high", "2 replicas")]
    assert [one.policy for one in desired.explanations] == ["high", "low"]


@pytest.mark.parametrize("priority", [0, -3])
def test_equal_priorities_are_an_error_for_that_workload_only(priority: int) -> None:
    both = Selector(workloads=WorkloadSelector())
    one = named("one", 2, priority=priority, selector=both)
    two = named("two", 4, priority=priority)
    workloads = (a_workload("other", replicas=6, namespace="dev"), a_workload(replicas=6))
    desired = decided(one, two, workloads=workloads)
    assert [(decision.ref.name, decision.replicas_after) for decision in desired.decisions] == [("other", 2)]
    [notice] = desired.notices
    assert (notice.kind, notice.subject, notice.partial) == ("equalPriorities", "one and two", False)
    assert notice.text == (
        "one and two have the same priority, so what they select together is not changed: east/shop/Deployment/web; "
        "give one of them another priority"
    )
    assert notice.policy == "one"
    told = [(found.policy, found.outcome) for found in desired.explanations if found.ref.name == "web"]
    assert told == [("one", "stays at 6"), ("two", "stays at 6")]


def test_an_order_without_a_target_wins_nothing_but_the_order() -> None:
    desired = decided(named("target", 4), named("order", target=None, priority=1))
    assert numbers(desired) == [(6, 4)]
    assert [(one.policy, one.outcome) for one in desired.explanations] == [
        ("order", "victims by ZoneBalanced"),
        ("target", "4 replicas"),
    ]


def test_a_policy_that_observes_only_tells() -> None:
    desired = decided(named("watch", 1, mode="Observe", priority=9), named("do", 4))
    assert numbers(desired) == [(6, 4)]
    assert [(one.replicas_after, one.cause.policy) for one in desired.observed] == [(1, "watch")]
    assert desired.notices == ()


@cases(
    "exclude is_scaled",
    ("nothing", (), True),
    ("it", ("web",), False),
    ("it, by the second entry", ("api", "web"), False),
    ("another workload", ("api",), True),
)
def test_what_the_policy_excludes_is_not_scaled(exclude: tuple[str, ...], is_scaled: bool) -> None:
    entries = tuple(Selector(workloads=WorkloadSelector(objects=ObjectSelector((name,)))) for name in exclude)
    assert numbers(decided(a_downscale_policy(to=4, exclude=entries))) == [(6, 4)] * is_scaled
