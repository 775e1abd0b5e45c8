"""Limits: what counts, what is held back, what never is."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, LimitUse, Phase, PolicyExplanation, Verb
from reconciler.decide.limits import Base, Bases, _Remaining, _Rule, allowed, hold_back, weight_of, within_limits
from reconciler.policy.types import AllOf, IdlingPolicy, Limit, Limits, Selector
from tests.builders import (
    a_cluster,
    a_downscale_policy,
    a_federated_replica_set,
    a_fleet,
    a_policy_set,
    a_ref,
    a_run,
    a_state,
    a_workload,
    an_idling_policy,
)
from tests.plan.decisions import a_decision

NONE = Limits()
TIGHT = Limits(Limit(0.0, 2), Limit(0.0, 100))


def a_policy(name: str, limits: Limits = NONE) -> IdlingPolicy:
    return an_idling_policy(name, selector=Selector(), idle_when=AllOf(()), limits=limits)


@pytest.mark.parametrize(
    ("share", "at_least", "base", "expected"),
    [
        pytest.param(0.25, 10, 8, 10, id="at least wins on a small base"),
        pytest.param(0.25, 10, 400, 100, id="share wins on a large base"),
        pytest.param(0.25, 0, 7, 1, id="the share is rounded down"),
        pytest.param(0.29, 0, 100, 29, id="a share that binary fractions miss is not rounded below itself"),
        pytest.param(0.0, 0, 100, 0, id="nothing allowed"),
        pytest.param(1.0, 0, 0, 0, id="no base"),
    ],
)
def test_allowed(share, at_least, base, expected):
    assert allowed(Limit(share, at_least), base) == expected


@pytest.mark.parametrize(
    ("running", "before", "after", "removed"),
    [
        pytest.param(None, 9, 5, 4, id="not known"),
        pytest.param(20, 9, 5, 4, id="more than asked for"),
        pytest.param(7, 9, 5, 2, id="less than asked for"),
        pytest.param(5, 9, 5, 0, id="as many as stay"),
        pytest.param(3, 9, 5, 0, id="fewer than stay"),
        pytest.param(7, 9, None, 0, id="no replicas change"),
    ],
)
def test_what_really_goes(running, before, after, removed):
    decision = replace(a_decision(), replicas_before=before, replicas_after=after)
    bases = Bases({}, running={} if running is None else {decision.ref: running})
    assert bases.removed_by(decision) == removed


@pytest.mark.parametrize(
    ("kind", "replicas", "status", "weight"),
    [
        ("Deployment", 3, 2, 2),
        ("Deployment", 3, 4, 3),
        ("Deployment", 3, None, 1),
        ("Deployment", 0, None, 0),
        ("CronJob", 1, 1, 0),
    ],
)
def test_what_a_workload_counts(kind, replicas, status, weight):
    assert weight_of(a_workload(kind=kind, replicas=replicas, status_replicas=status)) == weight


def held(decisions, *, fleet_limits=TIGHT, policies=(), own=None, lifted=(), **bases):
    found = a_policy_set(a_fleet(limits=fleet_limits), idling=tuple(policies))
    clusters = bases.pop("clusters", {"east": Base(100, 300)})
    return hold_back(decisions, found, Bases(clusters, own or {}, **bases), frozenset(lifted))


def test_at_the_limit_nothing_is_held_back():
    result = held([a_decision("a"), a_decision("b")])
    assert not result.held_back
    assert [(use.unit, use.used, use.allowed) for use in result.uses] == [("workloads", 2, 2), ("replicas", 6, 100)]


def test_over_the_limit_all_idling_is_held_back_and_the_words_say_where_it_comes_from():
    others = [a_decision("d", policy="idle-qa")]
    result = held([*(a_decision(name) for name in "abc"), *others])
    assert result.decisions == tuple(others)
    assert result.held_back[0].why == (
        "idle-dev would idle 3 of 100 workloads in east (3 %, limit 0 % or 2). 3 come from policies/idle-dev.yaml:1."
    )
    (use,) = (use for use in result.uses if use.unit == "workloads")
    assert (use.name, use.cluster, use.policy, use.used, use.allowed) == ("fleet", "east", "idle-dev", 3, 2)


def test_wakes_and_increases_go_on_when_decreases_are_held_back():
    wake = a_decision("w", before=0, after=3, verb=Verb.WAKE, phase=Phase.WAKE, idles=False)
    result = held([wake, a_decision("a"), a_decision("b"), a_decision("c")])
    assert result.decisions == (wake,)


@pytest.mark.parametrize("name", ["fleet", "idle-dev"])
def test_a_lifted_limit_holds_nothing_back_but_is_still_counted(name):
    result = held([a_decision(name) for name in "abc"], lifted=[name])
    assert len(result.decisions) == 3
    assert result.uses[0].used == 3


def test_a_policys_own_limit_concerns_that_policy_alone():
    other = a_decision("b", policy="idle-qa")
    policies = [a_policy("idle-dev", Limits(Limit(0.0, 0), None)), a_policy("idle-qa")]
    result = held([a_decision("a"), other], policies=policies, own={("idling", "idle-dev"): Base(10, 30)})
    assert result.decisions == (other,)
    assert [one.allow for one in result.held_back] == ["idle-dev"]


def test_what_a_policys_limit_holds_back_does_not_count_for_the_fleet():
    policies = [a_policy("idle-dev", Limits(Limit(0.0, 0), None)), a_policy("idle-qa")]
    decisions = [a_decision("a"), a_decision("b", policy="idle-qa"), a_decision("c", policy="idle-qa")]
    result = held(decisions, policies=policies, own={("idling", "idle-dev"): Base(10, 30)})
    assert len(result.decisions) == 2


def test_a_policys_own_limit_counts_instead_of_the_fleets():
    policies = [a_policy("idle-dev", Limits(Limit(1.0, 0), Limit(1.0, 0))), a_policy("idle-qa")]
    many = [west(name) if name in "ab" else a_decision(name) for name in "abcdef"]
    others = [a_decision(name, policy="idle-qa") for name in "ghi"]
    both = {"east": Base(100, 300), "west": Base(100, 300)}
    result = held([*many, *others], policies=policies, own={("idling", "idle-dev"): Base(6, 18)}, clusters=both)
    assert result.decisions == tuple(many)
    assert [one.limit.policy for one in result.held_back] == ["idle-qa"]
    assert LimitUse("idle-dev", "workloads", 6, 6, 6, "", "idle-dev") in result.uses


def test_a_policy_that_limits_only_workloads_keeps_the_fleets_limit_of_replicas():
    policies = [a_policy("idle-dev", Limits(Limit(1.0, 0), None))]
    fleet = Limits(Limit(0.0, 0), Limit(0.0, 5))
    many = [a_decision(name) for name in "ab"]
    result = held(many, policies=policies, fleet_limits=fleet, own={("idling", "idle-dev"): Base(2, 6)})
    assert [(one.limit.name, one.limit.unit) for one in result.held_back] == [("fleet", "replicas")]


def test_a_downscale_policy_has_a_limit_of_its_own():
    policy = a_downscale_policy("workers", limits=Limits(None, Limit(0.5, 0)))
    found = a_policy_set(a_fleet(limits=TIGHT), downscale=(policy,))
    down = a_decision("w", before=9, after=2, job="downscale", policy="workers", idles=False)
    bases = Bases({"east": Base(100, 300)}, {("downscale", "workers"): Base(2, 12)})
    result = hold_back([down], found, bases, frozenset())
    assert [one.limit for one in result.held_back] == [LimitUse("workers", "replicas", 7, 6, 12, "", "workers")]


def test_limits_for_all_clusters_hold_back_what_is_within_those_of_each():
    fleet = a_fleet(limits=TIGHT, limits_of_all_clusters=Limits(Limit(0.0, 3), None))
    both = {"east": Base(100, 300), "west": Base(100, 300)}
    many = [a_decision("a"), a_decision("b"), west("c"), west("d")]
    other = a_decision("e", policy="idle-qa")
    result = hold_back([*many, other], a_policy_set(fleet), Bases(both), frozenset())
    assert result.decisions == (other,)
    assert [one.limit for one in result.held_back] == [LimitUse("fleet", "workloads", 4, 3, 200, "", "idle-dev")]


def test_limits_for_all_clusters_are_shares_of_what_runs_on_all_of_them():
    fleet = a_fleet(limits=NONE, limits_of_all_clusters=Limits(None, Limit(0.5, 0)))
    result = hold_back([], a_policy_set(fleet), Bases({"east": Base(100, 300), "west": Base(100, 100)}), frozenset())
    assert result.uses == (LimitUse("fleet", "replicas", 0, 200, 400, "", ""),)


@pytest.mark.parametrize(("after", "is_held"), [(2, True), (3, False)])
def test_a_limit_of_replicas_binds_what_takes_at_least_one(after, is_held):
    one = a_decision("a", before=3, after=after, job="placement", idles=False)
    big = a_decision("b", before=3, after=0, job="placement", idles=False)
    result = held([one, big], fleet_limits=Limits(None, Limit(0.0, 0)))
    assert result.decisions == (() if is_held else (one,))


def test_what_needs_what_needs_something_held_back_goes_with_it():
    def move(name, needs=()):
        phase = Phase.INCREASE if needs else Phase.DECREASE
        return a_decision(name, key=name, job="placement", phase=phase, needs=needs, idles=False)

    first = replace(move("first"), replicas_before=300)
    result = held([move("third", ("second",)), move("second", ("first",)), first, move("other", ("none",))])
    assert [one.key for one in result.decisions] == ["other"]


def test_the_words_name_the_place_that_most_comes_from():
    many = [a_decision(name, policy="b") for name in "abc"]
    few = [replace(a_decision("d", policy="b"), cause=replace(many[0].cause, at="policies/z.yaml:1"))]
    result = held([*few, *many])
    assert result.held_back[0].why.endswith("3 come from policies/b.yaml:1.")


def test_the_mark_of_a_service_goes_with_its_scalables():
    mark = a_decision("s", verb=Verb.RECORD, key="mark", group="g", changes=(), idles=False)
    mark = replace(mark, replicas_before=None, replicas_after=None)
    scalables = [a_decision(name, group="g", needs=("mark",)) for name in "abc"]
    result = held([mark, *scalables])
    assert result.decisions == ()
    assert len(result.held_back[0].decisions) == 4


def test_a_placement_decrease_is_held_back_alone():
    down = a_decision("web", before=300, after=2, job="placement", group="placement/shop/web", idles=False)
    up = a_decision("up", before=1, after=2, job="placement", group="placement/shop/web", phase=Phase.INCREASE)
    result = held([up, down])
    assert result.decisions == (up,)
    assert [use.used for use in result.uses if use.unit == "replicas"] == [298]


def test_the_base_of_a_policys_own_limits_is_what_it_selects_and_not_what_still_carries_its_marks():
    policies = a_policy_set(idling=(a_policy("nights", Limits(Limit(0.5, 1), NONE.removed_replicas)),))
    state = a_state(a_cluster(workloads=(a_workload("web"), a_workload("left"))))
    told = [
        PolicyExplanation(a_ref(name), "idling", "nights", "", (), selected=selected)
        for name, selected in (("web", True), ("left", False))
    ]
    counted = within_limits(DesiredState(explanations=tuple(told)), policies, state, a_run())
    assert {use.base for use in counted.limits if use.name == "nights" and use.unit == "workloads"} == {1}


def moved(namespace: str, count: int):
    """Return what a FederatedReplicaSet called web in `namespace` takes away: one idled workload each."""
    names = [f"{namespace}-{number}" for number in range(count)]
    return [
        a_decision(name, ref=a_ref(name, namespace=namespace), policy="web", job="placement", group=group)
        for name, group in zip(names, [f"placement/{namespace}/web"] * count, strict=True)
    ]


def west(name, **fields):
    return a_decision(name, ref=a_ref(name, cluster="west"), **fields)


class TestEachClusterAndPolicy:
    """The Fleet's limits hold for each policy on each cluster."""

    def test_one_cluster_does_not_use_up_the_share_of_another(self):
        both = {"east": Base(100, 300), "west": Base(100, 300)}
        decisions = [a_decision("a"), a_decision("b"), west("c"), west("d")]
        assert held(decisions, clusters=both).held_back == ()

    def test_what_one_policy_does_too_much_on_one_cluster_is_held_back_there(self):
        both = {"east": Base(100, 300), "west": Base(100, 300)}
        many = [a_decision(name) for name in "abc"]
        others = (west("d"), a_decision("e", policy="idle-qa"))
        result = held([*many, *others], clusters=both)
        assert result.decisions == others
        assert [(one.allow, len(one.decisions)) for one in result.held_back] == [("fleet", 3)]

    def test_a_policy_of_another_kind_and_the_same_name_is_another_one(self):
        decisions = [a_decision("a"), a_decision("b"), a_decision("c", job="downscale", idles=True)]
        assert held(decisions).held_back == ()

    def test_federated_replica_sets_of_one_name_in_two_namespaces_do_not_share_it(self):
        assert held([*moved("shop", 2), *moved("news", 2)]).held_back == ()

    def test_a_federated_replica_set_is_held_back_and_lifted_by_its_namespace_and_name(self):
        policies = a_policy_set(
            a_fleet(limits=TIGHT), federated=tuple(a_federated_replica_set(namespace=one) for one in ("news", "shop"))
        )
        decisions, bases = [*moved("shop", 3), *moved("news", 3)], Bases({"east": Base(100, 300)})
        both = hold_back(decisions, policies, bases, frozenset())
        assert [(one.allow, one.limit.policy) for one in both.held_back if one.limit] == [
            ("news/web", "news/web"),
            ("shop/web", "shop/web"),
        ]
        one = hold_back(decisions, policies, bases, frozenset({"shop/web"}))
        assert [held_back.allow for held_back in one.held_back] == ["news/web"]
        assert hold_back(decisions, policies, bases, frozenset({"web"})).held_back == ()

    def test_the_name_that_lifts_it_is_that_of_the_policy_where_it_is_known(self):
        result = held([a_decision(name) for name in "abc"], policies=[a_policy("idle-dev")])
        assert [one.allow for one in result.held_back] == ["idle-dev"]


def test_what_the_same_schedule_idled_before_counts_in_no_limit():
    known = [replace(a_decision(name), known=True) for name in "abcdef"]
    result = held([*known, a_decision("new")], fleet_limits=Limits(Limit(0.0, 1), Limit(0.0, 3)))
    assert (len(result.decisions), result.held_back) == (7, ())
    assert [(use.unit, use.used) for use in result.uses] == [("workloads", 1), ("replicas", 3)]


def test_where_too_much_is_new_what_is_known_sleeps_all_the_same():
    known = [replace(a_decision(name), known=True) for name in "ab"]
    result = held([*known, *(a_decision(name) for name in "cde")])
    assert result.decisions == tuple(known)


WIDE = Limits(Limit(1.0, 0), Limit(1.0, 0))


class TestCeiling:
    """How many workloads of one cluster all policies together may newly idle, whatever their own limits are."""

    def held(self, decisions, *, ceiling=None, lifted=()):
        fleet = a_fleet("east", "west", limits=WIDE, ceiling=Limit(0.6, 0))
        clusters = [replace(one, ceiling=ceiling) if one.name == "east" else one for one in fleet.clusters]
        both = {"east": Base(5, 15), "west": Base(5, 15)}
        policies = a_policy_set(replace(fleet, clusters=tuple(clusters)), idling=(a_policy("idle-dev", WIDE),))
        own = {("idling", "idle-dev"): Base(10, 30)}
        return hold_back(decisions, policies, Bases(both, own), frozenset(lifted))

    def test_a_policys_own_limit_does_not_lift_it(self):
        many = [a_decision(name) for name in "abcd"]
        result = self.held([*many, west("e"), west("f")])
        assert [one.ref.name for one in result.decisions] == ["e", "f"]
        (held_back,) = result.held_back
        assert held_back.limit == LimitUse("ceiling", "workloads", 4, 3, 5, "east", "idle-dev")
        assert held_back.allow == "idle-dev"
        assert held_back.why == (
            "idle-dev would idle 4 of 5 workloads in east (80 %, ceiling 60 % or 0). "
            "4 come from policies/idle-dev.yaml:1."
        )

    def test_whoever_idles_most_is_held_back_first_and_nobody_else(self):
        many = [a_decision(name) for name in "abc"]
        other = a_decision("d", policy="idle-qa")
        result = self.held([other, *many])
        assert result.decisions == (other,)
        assert [one.limit for one in result.held_back] == [
            LimitUse("ceiling", "workloads", 4, 3, 5, "east", "idle-dev")
        ]
        assert result.held_back[0].why.startswith("idle-dev with others would idle 4 of 5 workloads in east")

    def test_what_is_held_back_along_with_it_counts_no_more(self):
        many = [a_decision(name, group="g") for name in "abc"]
        along = a_decision("d", policy="idle-qa", group="g")
        small = a_decision("e", policy="small")
        result = self.held([*many, along, small])
        assert result.decisions == (small,)
        assert [one.limit.policy for one in result.held_back] == ["idle-dev"]

    def test_its_use_is_told_once_of_all_policies_however_many_it_holds_back(self):
        many = [a_decision(name, policy=f"idle-{name}") for name in "abcde"]
        result = self.held(many)
        assert [one.limit.used for one in result.held_back if one.limit is not None] == [5, 4]
        assert [use for use in result.uses if use.name == "ceiling"] == [
            LimitUse("ceiling", "workloads", 5, 3, 5, "east", "idle-a")
        ]

    def test_what_goes_along_and_is_not_counted_makes_no_room(self):
        along = a_decision("d", policy="a", group="g", idles=False)
        group = [a_decision(name, policy="a", group="g") for name in "abc"]
        others = [a_decision(name, policy=policy) for policy, name in ("be", "bf", "cg", "ch")]
        result = self.held([*group, along, *others])
        assert [one.limit.policy for one in result.held_back if one.limit is not None] == ["a", "b"]

    def test_that_of_a_cluster_has_a_name_of_its_own(self):
        result = self.held([a_decision(name) for name in "ab"], ceiling=Limit(0.2, 0))
        assert [one.limit.name for one in result.held_back] == ["clusterCeiling"]

    def test_at_the_ceiling_nothing_is_held_back_and_its_use_is_not_told(self):
        result = self.held([a_decision(name) for name in "abc"])
        assert (len(result.decisions), result.held_back) == (3, ())
        assert not [use for use in result.uses if use.name == "ceiling"]

    @pytest.mark.parametrize("name", ["idle-dev", "fleet"])
    def test_it_may_be_exceeded_once(self, name):
        assert self.held([a_decision(name) for name in "abcd"], lifted=[name]).held_back == ()

    def test_a_cluster_that_may_sleep_whole(self):
        assert self.held([a_decision(name) for name in "abcd"], ceiling=Limit(1.0, 0)).held_back == ()

    def test_what_is_known_does_not_count(self):
        known = [replace(a_decision(name), known=True) for name in "abc"]
        assert self.held([*known, a_decision("d"), a_decision("e")]).held_back == ()


HUGE = 2_000_000_000


def counted(*workloads, decisions=(), limits=None):
    policies = a_policy_set(a_fleet("east", "west", limits=limits or Limits(Limit(0.25, 10), Limit(0.25, 10))))
    clusters = [
        a_cluster(name, workloads=tuple(one for one in workloads if one.ref.cluster == name))
        for name in ("east", "west")
    ]
    return within_limits(DesiredState(decisions=tuple(decisions)), policies, a_state(*clusters), a_run())


def test_h7_a_number_that_somebody_asks_for_holds_nothing_back():
    """Its pods were never made; all it takes away is what runs."""
    huge = a_workload("huge", replicas=1_000_000, status_replicas=4)
    others = [a_workload(name) for name in ("a", "b")]
    decisions = [a_decision("huge", before=1_000_000), a_decision("a"), a_decision("b")]
    found = counted(huge, *others, decisions=decisions)
    assert found.held_back == ()
    assert {(use.used, use.base) for use in found.limits if use.unit == "replicas" and use.cluster == "east"} == {
        (10, 10)
    }


@pytest.mark.parametrize(
    ("status", "base"), [(5, 35), (None, 31)], ids=["five run", "a kind that does not say what runs"]
)
def test_h7_nor_does_it_lift_a_limit(status, base):
    huge = a_workload("huge", replicas=HUGE, status_replicas=status, namespace="not-selected")
    others = [a_workload(f"w{number}") for number in range(10)]
    found = counted(huge, *others, decisions=[a_decision(f"w{number}") for number in range(10)])
    assert [one.limit for one in found.held_back] == [LimitUse("fleet", "replicas", 30, 10, base, "east", "idle-dev")]


def test_h7_what_runs_beyond_what_is_asked_for_counts_no_more_than_that():
    found = counted(a_workload("a", replicas=3, status_replicas=HUGE))
    assert {use.base for use in found.limits if use.unit == "replicas"} == {3, 0}


def test_h7_a_decrease_that_is_too_large_on_one_cluster_holds_no_other_one_back():
    east = [a_workload(f"w{number}") for number in range(20)]
    there = a_workload("there", cluster="west")
    wish = west("there")
    found = counted(*east, there, decisions=[*(a_decision(one.ref.name) for one in east), wish])
    assert list(found.decisions) == [wish]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30), st.integers(0, 20), st.integers(0, 40))
def test_what_is_left_never_exceeds_the_limits(pairs, workloads, replicas):
    decisions = [
        a_decision(f"w{position}", before=before, after=after) for position, (before, after) in enumerate(pairs)
    ]
    result = held(decisions, fleet_limits=Limits(Limit(0.0, workloads), Limit(0.0, replicas)))
    assert sum(decision.idles for decision in result.decisions) <= workloads
    assert sum(decision.removed for decision in result.decisions) <= replicas
    kept_out = [decision for one in result.held_back for decision in one.decisions]
    assert sorted(d.key for d in (*result.decisions, *kept_out)) == sorted(d.key for d in decisions)


@st.composite
def decisions_of_many(draw: st.DrawFn) -> list[Decision]:
    """Of a few policies on two clusters, some in one group, some that need an earlier one."""
    found: list[Decision] = []
    for position in range(draw(st.integers(0, 12))):
        cluster = draw(st.sampled_from(["east", "west"]))
        made = a_decision(
            f"w{position}",
            ref=a_ref(f"w{position}", cluster=cluster),
            policy=draw(st.sampled_from(["a", "b", "c"])),
            group=draw(st.sampled_from([f"g{position}", f"{cluster}-1", f"{cluster}-2"])),
            before=draw(st.integers(0, 4)),
            idles=draw(st.booleans()),
        )
        needs = draw(st.lists(st.sampled_from([one.key for one in found]), max_size=1)) if found else []
        phase = draw(st.sampled_from([Phase.DECREASE, Phase.DECREASE, Phase.REPAIR]))
        found.append(replace(made, needs=tuple(needs), phase=phase))
    return found


def one_after_the_other(decisions: list[Decision], each: int, everywhere: int, ceiling: int) -> list[Decision]:
    """The decisions that are left, every time counted anew: at most `each` idled by one policy on one cluster,
    `everywhere` by one on all, and `ceiling` by all policies on one cluster."""
    left = list(decisions)
    clusters: list[tuple[str, ...]] = [("east",), ("west",), ("east", "west")]
    for inside in clusters:
        for policy in "abc":
            taking = [one for one in idling(left, *inside) if one.policy == policy]
            if len(taking) > (each if len(inside) == 1 else everywhere):
                left = without(left, taking)
    for cluster in ("east", "west"):
        sizes = Counter(one.policy for one in idling(left, cluster))
        for policy in sorted(sizes, key=lambda name: (-sizes[name], name)):
            taking = [one for one in idling(left, cluster) if one.policy == policy]
            if taking and len(idling(left, cluster)) > ceiling:
                left = without(left, taking)
    return left


def idling(decisions: list[Decision], *clusters: str) -> list[Decision]:
    return [one for one in decisions if one.idles and one.phase is Phase.DECREASE and one.ref.cluster in clusters]


def without(decisions: list[Decision], taking: list[Decision]) -> list[Decision]:
    groups, gone = {one.group for one in taking}, {one.key for one in taking}
    gone |= {one.key for one in decisions if one.group in groups and one.phase is Phase.DECREASE}
    while more := {one.key for one in decisions if gone.intersection(one.needs)} - gone:
        gone |= more
    return [one for one in decisions if one.key not in gone]


@given(decisions_of_many(), st.integers(0, 3), st.integers(0, 5), st.integers(0, 5))
def test_limits_hold_back_what_counting_anew_for_each_of_them_does(decisions, each, everywhere, ceiling):
    fleet = a_fleet(
        "east",
        "west",
        limits=Limits(Limit(0.0, each)),
        limits_of_all_clusters=Limits(Limit(0.0, everywhere)),
        ceiling=Limit(0.0, ceiling),
    )
    base = Base(100, 300)
    result = hold_back(decisions, a_policy_set(fleet), Bases({"east": base, "west": base}), frozenset())
    assert list(result.decisions) == one_after_the_other(decisions, each, everywhere, ceiling)
    position = {one.key: at for at, one in enumerate(decisions)}
    for held_back in result.held_back:
        places = [position[one.key] for one in held_back.decisions]
        assert places == sorted(places)
    told = [one.key for one in (*result.decisions, *(one for held in result.held_back for one in held.decisions))]
    assert sorted(told) == sorted(position)


@pytest.mark.parametrize("policies", [1, 40, 400])
def test_what_many_limits_hold_back_is_counted_once(policies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    left_of = _Remaining.left_of

    def counting(remaining: _Remaining, decisions: list[Decision]) -> list[Decision]:
        nonlocal counted
        counted += len(decisions)
        return left_of(remaining, decisions)

    monkeypatch.setattr(_Remaining, "left_of", counting)
    decisions = [a_decision(f"web-{number}", policy=f"idle-{number % policies}") for number in range(400)]
    fleet = a_fleet(limits=Limits(Limit(1.0, 0), Limit(1.0, 0)), ceiling=Limit(0.0, 0))
    result = hold_back(decisions, a_policy_set(fleet), Bases({"east": Base(400, 1200)}), frozenset())
    assert (result.decisions, len(result.held_back)) == ((), policies)
    assert counted == 4 * len(decisions)  # two limits, the ceiling, and what is left in the end


@pytest.mark.parametrize("policies", [1, 40])
def test_a_decision_is_looked_at_once_by_each_limit_however_many_policies_there_are(
    policies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Decision] = []
    binds = _Rule.binds

    def counted(rule: _Rule, decision: Decision) -> bool:
        asked.append(decision)
        return binds(rule, decision)

    monkeypatch.setattr(_Rule, "binds", counted)
    decisions = [a_decision(f"web-{number}", policy=f"idle-{number % policies}") for number in range(40)]
    fleet = a_fleet(limits=Limits(Limit(1.0, 0), Limit(1.0, 0)), ceiling=Limit(1.0, 0))
    hold_back(decisions, a_policy_set(fleet), Bases({"east": Base(100, 300)}), frozenset())
    assert len(asked) == 3 * len(decisions)  # two limits and the ceiling
