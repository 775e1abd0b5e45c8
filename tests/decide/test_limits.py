"""Limits: what counts, what is held back, what never is, and what the line about it says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, Phase, Verb
from reconciler.decide.held_back import hold_back, within_limits
from reconciler.decide.limit_amounts import (
    LimitBases,
    LimitedPolicy,
    RunLimits,
    limit_bases,
    limited_policies,
    weight_of,
)
from reconciler.policy.types import (
    AllOf,
    IdlingPolicy,
    Limits,
    ObjectSelector,
    Place,
    PolicySet,
    ReplicasLimits,
    Selector,
    Tenant,
)
from tests.builders import (
    NO_LIMITS,
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
    fleet_limits,
)
from tests.cases import cases
from tests.plans import a_decision

NONE = Limits()
HUGE = 2**31 - 1


def a_policy(name: str = "idle-dev", limits: Limits = NONE, **fields: Any) -> IdlingPolicy:
    place = Place(f"policies/{name}.yaml", 4)
    return an_idling_policy(name, selector=Selector(), idle_when=AllOf(()), limits=limits, limits_place=place, **fields)


def a_tenant(**limits: int) -> Tenant:
    place = Place("fleet.yaml", 12)
    return Tenant(
        name="a", place=place, limits_place=place, paths=("a/**",), namespaces=("team-a-*",), limits=Limits(**limits)
    )


def rules(
    policies: PolicySet, bases: LimitBases | None = None, lifted: Mapping[str, int | None] | None = None
) -> RunLimits:
    if bases is None:
        hundred = {"workloads": 100, "replicas": 300}
        tenants = {one.name: {"workloads": 10, "replicas": 30} for one in policies.fleet.tenants}
        bases = LimitBases(clusters={one.name: hundred for one in policies.fleet.clusters}, tenants=tenants)
    return RunLimits(limited_policies(policies, lifted or {}), LimitedPolicy(), bases, policies.fleet)


def held(
    decisions: Sequence[Decision],
    *policies: Any,
    limits: Any = NO_LIMITS,
    tenants: tuple[Tenant, ...] = (),
    idled: Mapping[Any, Any] | None = None,
    lifted: Mapping[str, int | None] | None = None,
) -> DesiredState:
    """Hold back of `decisions` on two clusters with 100 workloads each."""
    fleet = a_fleet("east", "west", limits=limits, tenants=tenants)
    found = a_policy_set(fleet, idling=policies or (a_policy(),))
    made = rules(found, None, lifted)
    bases = replace(made.bases, idled=idled or {})
    return hold_back(replace(made, bases=bases), decisions)


def idles(count: int, policy: str = "idle-dev", cluster: str = "east", **fields: Any) -> list[Decision]:
    names = [f"{policy}-{number}".replace("/", "-") for number in range(count)]
    refs = [a_ref(name, cluster=cluster, namespace=fields.get("namespace", "shop")) for name in names]
    fields = {key: value for key, value in fields.items() if key != "namespace"}
    return [a_decision(ref.name, ref=ref, policy=policy, **fields) for ref in refs]


def left(result: DesiredState) -> dict[tuple[str, str], int]:
    """Return how many decisions of each policy are left on each cluster."""
    found: dict[tuple[str, str], int] = {}
    for one in result.decisions:
        key = (one.policy, one.ref.cluster)
        found[key] = found.get(key, 0) + 1
    return found


# What counts


@cases(
    "share at_least base expected",
    ("at least wins on a small base", 0.25, 3, 8, 3),
    ("the share wins on a large base", 0.25, 3, 400, 100),
    ("the share is rounded up", 0.25, 0, 7, 2),
    ("a share that binary fractions miss is not rounded above itself", 0.29, 0, 100, 29),
    ("nothing allowed", 0.0, 0, 100, 0),
    ("no base", 1.0, 0, 0, 0),
)
def test_what_a_share_allows(share: float, at_least: int, base: int, expected: int) -> None:
    policies = a_policy_set(a_fleet(limits=fleet_limits(at_least, share=share)))
    bases = LimitBases(clusters={"east": {"workloads": base, "replicas": 0}})
    uses = hold_back(rules(policies, bases), []).limits
    assert [(one.allowed, one.base) for one in uses if one.cluster and one.unit == "workloads"] == [(expected, base)]


def test_the_default_for_replicas_is_at_least_ten() -> None:
    uses = held([], limits=fleet_limits(0, fleet=0)).limits
    assert {one.unit: one.allowed for one in uses} == {"workloads": 0, "replicas": 10}


@cases(
    "running before after removed",
    ("not known", None, 9, 5, 4),
    ("more than asked for", 20, 9, 5, 4),
    ("less than asked for", 7, 9, 5, 2),
    ("as many as stay", 5, 9, 5, 0),
    ("fewer than stay", 3, 9, 5, 0),
    ("no replicas change", 7, 9, None, 0),
)
def test_what_really_goes(running: int | None, before: int, after: int | None, removed: int) -> None:
    decision = replace(a_decision(), replicas_before=before, replicas_after=after)
    assert LimitBases({} if running is None else {decision.ref: running}).removed_by(decision) == removed


@cases(
    "kind replicas status weight",
    ("fewer run than asked for", "Deployment", 3, 2, 2),
    ("more run than asked for", "Deployment", 3, 4, 3),
    ("status unknown", "Deployment", 3, None, 1),
    ("scaled to zero, status unknown", "Deployment", 0, None, 0),
    ("kind without replicas", "CronJob", 1, 1, 0),
)
def test_what_a_workload_counts(kind: str, replicas: int, status: int | None, weight: int) -> None:
    assert weight_of(a_workload(kind=kind, replicas=replicas, status_replicas=status)) == weight


IDLE = {"reconciler/owner": "production/IdlingPolicy/gone", "idling.kubernetes.io/previous-scale": str(HUGE)}


@cases(
    "workload expected",
    ("it runs", a_workload(replicas=3), (1, 3)),
    ("no more than runs", a_workload(replicas=HUGE, status_replicas=5), (1, 5)),
    ("somebody scaled it to zero", a_workload(replicas=0), (0, 0)),
    ("we idled it: its record moves nothing", a_workload(replicas=0, annotations=IDLE), (1, 1)),
    ("others idled it", a_workload(replicas=0, annotations={"reconciler/owner": "other/IdlingPolicy/x"}), (0, 0)),
)
def test_a_base_is_what_runs_and_what_we_idled(workload: Any, expected: tuple[int, int]) -> None:
    tenant = replace(a_tenant(), namespaces=("shop",))
    state = a_state(a_cluster(workloads=(workload,)), unreachable={"west": "no answer"})
    found = limit_bases(a_policy_set(a_fleet("east", "west", tenants=(tenant,))), state, a_run())
    counted = dict(zip(("workloads", "replicas"), expected, strict=True))
    assert (found.clusters, found.tenants) == ({"east": counted}, {"a": counted})


@pytest.mark.parametrize(
    ("first", "counts"),
    [("2026-11-19T22:00:00Z", False), ("2026-11-19T22:00:01Z", True), ("2026-11-20T22:00:01Z", False), ("", False)],
)
def test_what_was_idled_for_the_first_time_in_the_last_24_hours_is_on_record(first: str, counts: bool) -> None:
    said = f'{{"policy":"nights","hours":{{}},"first":"{first}"}}'
    state = a_state(a_cluster(workloads=(a_workload(annotations={"reconciler/last-idled": said}),)))
    found = limit_bases(
        a_policy_set(idling=(a_policy("nights"),)), state, a_run(datetime(2026, 11, 20, 22, tzinfo=UTC))
    )
    assert found.idled == ({a_ref("web"): ("idling", "nights")} if counts else {})


@cases(
    "policy owner counted",
    ("awake again", "nights", "", "nights"),
    ("of a policy that was renamed", "before", "production/IdlingPolicy/nights", "nights"),
    ("still idle, of one that is renamed now", "gone", "production/IdlingPolicy/gone", "nights"),
    ("of none that is there", "gone", "", ""),
    ("of one that selects other namespaces", "elsewhere", "", ""),
    ("of one that selects other clusters", "west", "", ""),
    ("of a tenant that has other namespaces", "theirs", "production/IdlingPolicy/theirs", ""),
    ("of another Fleet", "gone", "other/IdlingPolicy/nights", ""),
)
def test_what_was_idled_counts_for_a_policy_that_reaches_it(policy: str, owner: str, counted: str) -> None:
    said = f'{{"policy":"{policy}","hours":{{}},"first":"2026-11-20T12:00:00Z"}}'
    idled = a_workload(annotations={"reconciler/last-idled": said, "reconciler/owner": owner})
    where = {
        "elsewhere": Selector(namespaces=ObjectSelector(include=("dev",))),
        "west": Selector(clusters=ObjectSelector(include=("west",))),
        "theirs": Selector(namespaces=ObjectSelector(within=("team-a-*",))),
    }
    policies = [replace(a_policy(name), selector=selector) for name, selector in where.items()]
    found = limit_bases(
        a_policy_set(idling=(a_policy("nights"), *policies)), a_state(a_cluster(workloads=(idled,))), a_run()
    )
    assert found.idled == ({idled.ref: ("idling", counted)} if counted else {})


def test_what_was_idled_is_compared_with_its_own_policy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many policies as namespaces, each would else be compared with each."""
    asked = []
    matches = ObjectSelector.matches
    monkeypatch.setattr(ObjectSelector, "matches", lambda *found: asked.append(found) or matches(*found))
    names = [f"team-{number}" for number in range(50)]
    said = '{{"policy":"{}","hours":{{}},"first":"2026-11-20T12:00:00Z"}}'
    idled = [a_workload(namespace=name, annotations={"reconciler/last-idled": said.format(name)}) for name in names]
    policies = [
        replace(a_policy(name), selector=Selector(namespaces=ObjectSelector(include=(name,)))) for name in names
    ]
    state = a_state(a_cluster(workloads=tuple(idled)))
    found = limit_bases(a_policy_set(idling=tuple(policies)), state, a_run())
    assert found.idled == {one.ref: ("idling", one.ref.namespace) for one in idled}
    assert len(asked) <= 3 * len(names)


# What is held back


def test_what_is_known_goes_on_where_too_much_is_new() -> None:
    known = [replace(one, known=True) for one in idles(5, "idle-qa")]
    result = held([*idles(4), *known], a_policy(), a_policy("idle-qa"), limits=fleet_limits(3))
    assert left(result) == {("idle-qa", "east"): 5}


@pytest.mark.parametrize(
    ("lifted", "is_held"),
    [({}, True), ({"idle-dev": None}, False), ({"idle-dev": 4}, False), ({"idle-dev": 3}, True), ({"x": None}, True)],
)
def test_a_limit_is_lifted_once_or_up_to_a_bound(lifted: dict[str, int | None], is_held: bool) -> None:
    assert bool(held(idles(4), limits=fleet_limits(3), lifted=lifted).held_back) is is_held


def test_what_a_policy_that_is_gone_removes_is_lifted_with_it() -> None:
    down = a_decision(before=50, job="placement", group="placement/shop/web", policy="web", idles=False)
    found = rules(a_policy_set(a_fleet(limits=fleet_limits(0, fleet=0))))
    (one,) = hold_back(found, [down]).held_back
    assert one.why == "shop/web: 50 replicas would be removed, limit 10 in east; to allow: once --allow-removed"
    assert hold_back(replace(found, gone=LimitedPolicy(lifted=True)), [down]).held_back == ()


def test_a_federated_replica_set_is_lifted_by_its_name_alone_too() -> None:
    found = a_policy_set(federated=(a_federated_replica_set(limits=ReplicasLimits(5)),))
    assert limited_policies(found, {"web": 7})["placement", "shop/web"].limits == Limits(replicas=7)


def test_what_was_idled_in_the_last_24_hours_counts_once() -> None:
    yesterday = {a_ref(f"old-{number}"): ("idling", "idle-dev") for number in range(2)}
    assert held(idles(1), limits=fleet_limits(3), idled=yesterday).held_back == ()
    (one,) = held(idles(2), limits=fleet_limits(3), idled=yesterday).held_back
    assert "2 workloads would go idle for the first time after 2 in the last 24 hours, limit 3 in east" in one.why
    elsewhere = {a_ref("old", cluster="west"): ("idling", "idle-dev")}
    (one,) = held(idles(2), limits=fleet_limits(1), idled=elsewhere).held_back
    assert "2 workloads would go idle for the first time, limit 1 in east" in one.why
    again = {one.ref: ("idling", "idle-dev") for one in idles(3)}
    assert held(idles(3), limits=fleet_limits(3), idled=again).held_back == ()


# Tenants


@cases(
    "decisions limits owners",
    ("a quarter of 10 workloads, at least 3", idles(3, "a/one"), {}, []),
    ("one more", idles(4, "a/one"), {}, ["a/one"]),
    ("a number of the tenant", idles(9, "a/one"), {"workloads": 9}, []),
    ("the largest taker", [*idles(2, "a/one"), *idles(3, "a/two")], {}, ["a/two"]),
    ("not the shared pool", [*idles(3, "a/one"), *idles(9, "platform")], {}, ["platform"]),
    ("what is known", [replace(one, known=True) for one in idles(9, "a/one")], {}, []),
    ("a number of its own lowers it", idles(2, "a/small"), {}, ["a/small"]),
    ("and does not raise it", idles(5, "a/large"), {}, ["a/large"]),
    ("replicas, where it limits them", idles(2, "a/one", before=6), {"replicas": 11}, ["a/one"]),
)
def test_all_policies_of_a_tenant_share_its_number(
    decisions: list[Decision], limits: dict[str, int], owners: list[str]
) -> None:
    own = {"a/small": Limits(workloads=1), "a/large": Limits(workloads=100)}
    of_tenant = [a_policy(name, own.get(name, NONE), tenant="a") for name in ("a/one", "a/two", *own)]
    result = held(decisions, *of_tenant, a_policy("platform"), limits=fleet_limits(3), tenants=(a_tenant(**limits),))
    assert [one.policy for one in result.held_back] == owners


# What the line says


@cases(
    "decisions fields why",
    (
        "one cluster",
        idles(250),
        {"limits": fleet_limits(3)},
        "idle-dev: 250 workloads would go idle for the first time, limit 3 in east; "
        "to allow: add `limits: {workloads: 275}` to policies/idle-dev.yaml:4",
    ),
    (
        "several clusters",
        [*idles(4), *idles(5, cluster="west")],
        {"limits": fleet_limits(3)},
        "idle-dev: 9 workloads would go idle for the first time, limit 3 per cluster; "
        "to allow: add `limits: {workloads: 10}` to policies/idle-dev.yaml:4",
    ),
    (
        "all that is needed at once, not only what is held back",
        [*idles(4), *idles(3, cluster="west")],
        {"limits": fleet_limits(3)},
        "idle-dev: 4 workloads would go idle for the first time, limit 3 in east; "
        "to allow: add `limits: {workloads: 8}` to policies/idle-dev.yaml:4",
    ),
    (
        "the Fleet",
        idles(4),
        {"limits": fleet_limits(fleet=3)},
        "idle-dev: 4 workloads would go idle for the first time, limit 3 in all clusters; "
        "to allow: add `limits: {workloads: 5}` to policies/idle-dev.yaml:4",
    ),
    (
        "a number that is stated",
        idles(1),
        {"policy": a_policy(limits=Limits(workloads=0))},
        "idle-dev: 1 workload would go idle for the first time, limit 0; "
        "to allow: set `limits: {workloads: 2}` in policies/idle-dev.yaml:4",
    ),
    (
        "the other unit would be next",
        idles(10),
        {"policy": a_policy(limits=Limits(workloads=5, replicas=29))},
        "idle-dev: 10 workloads would go idle for the first time, limit 5; "
        "to allow: set `limits: {workloads: 11, replicas: 33}` in policies/idle-dev.yaml:4",
    ),
    (
        "the default of the other unit would be next",
        idles(4),
        {"policy": a_policy(limits=Limits(replicas=9)), "limits": fleet_limits(3)},
        "idle-dev: 12 replicas would be removed, limit 9; "
        "to allow: set `limits: {workloads: 5, replicas: 14}` in policies/idle-dev.yaml:4",
    ),
    (
        "with others",
        [*idles(2), *idles(2, "idle-qa")],
        {"limits": fleet_limits(3)},
        "idle-dev: 2 workloads would go idle for the first time, limit 3 in east for it and other policies "
        "together; to allow: add `limits: {workloads: 3}` to policies/idle-dev.yaml:4",
    ),
    (
        "a tenant that would be asked next",
        idles(10, "a/one"),
        {"policy": a_policy("a/one", Limits(workloads=1), tenant="a"), "tenants": (a_tenant(),)},
        "a/one: 10 workloads would go idle for the first time, limit 1; to allow: "
        "set `limits: {workloads: 11}` in policies/a/one.yaml:4 and add `limits: {workloads: 11}` to fleet.yaml:12",
    ),
    (
        "a tenant",
        idles(10, "a/one"),
        {"policy": a_policy("a/one", tenant="a"), "tenants": (a_tenant(),)},
        "a/one: 10 workloads would go idle for the first time, limit 3 of tenant a; "
        "to allow: add `limits: {workloads: 11}` to fleet.yaml:12",
    ),
)
def test_one_line_says_what_is_held_back_and_what_to_state(
    decisions: list[Decision], fields: dict[str, Any], why: str
) -> None:
    policy = fields.pop("policy", a_policy())
    assert [one.why for one in held(decisions, policy, a_policy("idle-qa"), **fields).held_back] == [why]


def test_a_policy_whose_kind_states_no_limits_is_lifted_once() -> None:
    policy = replace(a_policy(), limits_place=None)
    (one,) = held(idles(4), policy, limits=fleet_limits(3)).held_back
    assert one.why.endswith("; to allow: once --allow-exceed idle-dev")
    found = a_policy_set(a_fleet(limits=fleet_limits(3)), downscale=(a_downscale_policy("idle-dev"),), idling=(policy,))
    (one,) = hold_back(rules(found), idles(4)).held_back
    assert one.why.endswith("; to allow: once --allow-exceed idle-dev=4"), "the name is also that of another kind"


def test_a_downscale_policy_states_replicas() -> None:
    policy = a_downscale_policy("workers", limits=ReplicasLimits(6), limits_place=Place("policies/workers.yaml", 9))
    found = a_policy_set(a_fleet(limits=fleet_limits(3)), downscale=(policy,), idling=(a_policy(),))
    down = a_decision("w", before=9, after=2, job="downscale", policy="workers", idles=False)
    _, one = hold_back(rules(found), [down, *idles(4)]).held_back
    assert one.why == (
        "workers: 7 replicas would be removed, limit 6; "
        "to allow: set `limits: {replicas: 8}` in policies/workers.yaml:9"
    )


@pytest.mark.parametrize(("mode", "told"), [("Enforce", []), ("Observe", ["wouldBeHeldBack"])])
def test_policies_of_two_kinds_may_have_one_name(mode: str, told: list[str]) -> None:
    down = replace(a_downscale_policy("workers", limits=ReplicasLimits(6)), mode=mode)
    found = a_policy_set(a_fleet(), idling=(a_policy("workers", Limits(replicas=20)),), downscale=(down,))
    fewer = (a_decision("w", before=9, after=2, job="downscale", policy="workers", idles=False),)
    done, observed = ((), fewer) if told else (fewer, ())
    desired = DesiredState((*idles(3, "workers"), *done), observed)
    made = within_limits(desired, found, a_state(a_cluster()), a_run())
    assert [(one.used, one.allowed) for one in made.limits if one.name == "workers"] == [(9, 20), (0 if told else 7, 6)]
    assert [one.kind for one in made.notices] == told
    assert [len(one.decisions) for one in made.held_back] == [1] * (not told)


# What goes with it


def test_what_needs_what_needs_something_held_back_goes_with_it() -> None:
    def move(name: str, needs: tuple[str, ...] = ()) -> Decision:
        phase = Phase.INCREASE if needs else Phase.DECREASE
        return a_decision(name, key=name, job="placement", phase=phase, needs=needs, idles=False)

    first = replace(move("first"), replicas_before=300)
    others = [move("third", ("second",)), move("second", ("first",)), first, move("other", ("none",))]
    result = held(others, limits=fleet_limits(0, fleet=0))
    assert [one.key for one in result.decisions] == ["other"]


def test_the_record_of_a_service_goes_with_its_workloads() -> None:
    mark = a_decision("s", verb=Verb.RECORD, key="mark", group="g", changes=(), idles=False)
    mark = replace(mark, replicas_before=None, replicas_after=None)
    result = held([mark, *(replace(one, group="g", needs=("mark",)) for one in idles(4))], limits=fleet_limits(3))
    assert (result.decisions, [len(one.decisions) for one in result.held_back]) == ((), [5])


# The whole


def test_what_was_held_back_before_stays_so_and_is_said_once() -> None:
    policies = a_policy_set(a_fleet(limits=fleet_limits(3)), idling=(a_policy(),))
    state = a_state(a_cluster())
    first = within_limits(DesiredState(decisions=tuple(idles(4))), policies, state, a_run())
    again = within_limits(DesiredState(decisions=tuple(idles(3))), policies, state, a_run(), first)
    assert [len(one.decisions) for one in again.held_back] == [3]


def test_a_guard_stays_beside_limits() -> None:
    guard = HeldBack("", "3 policies were removed", ())
    policies = a_policy_set(a_fleet())
    assert within_limits(DesiredState(held_back=(guard,)), policies, a_state(), a_run()).held_back == (guard,)


def test_what_only_observes_counts_nothing_and_says_what_would_be_held_back() -> None:
    policies = a_policy_set(a_fleet(limits=fleet_limits(3)), idling=(a_policy(), a_policy("idle-qa", mode="Observe")))
    desired = DesiredState(decisions=tuple(idles(3)), observed=tuple(idles(4, "idle-qa")))
    made = within_limits(desired, policies, a_state(a_cluster()), a_run())
    assert (made.decisions, made.held_back) == (desired.decisions, ())
    (notice,) = made.notices
    assert notice.text == (
        "idle-qa: with mode: Enforce 4 workloads would go idle for the first time, limit 3 in east for it and other "
        "policies together; to allow: add `limits: {workloads: 5}` to policies/idle-qa.yaml:4"
    )
    assert within_limits(made, policies, a_state(a_cluster()), a_run()).notices == (notice,)


@st.composite
def decisions_of_many(draw: st.DrawFn) -> list[Decision]:
    """Of a few policies on two clusters, some of one policy in one group, some that need an earlier one there."""
    found: list[Decision] = []
    for position in range(draw(st.integers(0, 12))):
        cluster = draw(st.sampled_from(["east", "west"]))
        policy = draw(st.sampled_from(["a/x", "a/y", "b", "c"]))
        made = a_decision(
            f"w{position}",
            ref=a_ref(f"w{position}", cluster=cluster),
            policy=policy,
            group=draw(st.sampled_from([f"g{position}", f"{policy}-1", f"{policy}-2"])),
            before=draw(st.integers(0, 4)),
            idles=draw(st.booleans()),
        )
        before = [one.key for one in found if one.group == made.group]
        needs = draw(st.lists(st.sampled_from(before), max_size=1)) if before else []
        phase = draw(st.sampled_from([Phase.DECREASE, Phase.DECREASE, Phase.REPAIR]))
        found.append(replace(made, needs=tuple(needs), phase=phase, known=draw(st.booleans())))
    return found


NUMBERS = st.builds(Limits, workloads=st.integers(0, 3) | st.just(UNSET), replicas=st.integers(0, 9) | st.just(UNSET))


def limited(*limits: Limits) -> list[IdlingPolicy]:
    """Policies a/x and a/y of tenant a, b and c of the platform, that state `limits`."""
    names = ("a/x", "a/y", "b", "c")
    return [a_policy(name, own, tenant=name.rpartition("/")[0]) for name, own in zip(names, limits, strict=True)]


@given(
    decisions_of_many(), st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), st.integers(0, 3), st.integers(0, 4), NUMBERS
)
def test_what_is_left_exceeds_no_limit_and_the_lines_let_the_rest_through(
    decisions: list[Decision], own: tuple[Limits, ...], each: int, everywhere: int, of_tenant: Limits
) -> None:
    fields = {"limits": fleet_limits(each, fleet=everywhere), "tenants": (replace(a_tenant(), limits=of_tenant),)}
    result = held(decisions, *limited(*own), **fields)

    position = {one.key: at for at, one in enumerate(decisions)}
    kept_out = [[one.key for one in found.decisions] for found in result.held_back]
    assert all(keys == sorted(keys, key=position.__getitem__) for keys in kept_out)
    assert sorted([*(one.key for one in result.decisions), *chain.from_iterable(kept_out)]) == sorted(position)
    again = held(result.decisions, *limited(*own), **fields)
    assert (again.decisions, again.held_back) == (result.decisions, ())

    stated = {"a/x": own[0], "a/y": own[1], "b": own[2], "c": own[3], "tenant": of_tenant}
    for line in [one.why for one in result.held_back]:
        for text, file in re.findall(r"(?:add|set) `limits: \{(.*?)\}` (?:to|in) (\S+):", line):
            numbers = dict(part.split(": ") for part in text.split(", "))
            name = "tenant" if file == "fleet.yaml" else file.removeprefix("policies/").removesuffix(".yaml")
            stated[name] = Limits(**{unit: int(number) for unit, number in numbers.items()})
    tenant = replace(a_tenant(), limits=stated.pop("tenant"))
    assert held(decisions, *limited(*stated.values()), **{**fields, "tenants": (tenant,)}).held_back == ()
