"""The limits of a tenant: for all its policies together, over everything in its namespaces, whatever they say."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.decide.limits import Base, Bases, Limited, hold_back
from reconciler.policy.types import AllOf, Limit, Limits, Place, PolicySet, Selector, Tenant
from tests.builders import a_federated_replica_set, a_fleet, a_policy_set, a_ref, an_idling_policy
from tests.plan.decisions import a_decision

GENEROUS = Limits(Limit(1.0, 1000), Limit(1.0, 1000))
TENANT = Tenant(
    name="a",
    place=Place("fleet.yaml", 12),
    paths=("a/**",),
    namespaces=("team-a-*",),
    limits=Limits(idled_workloads=Limit(0.5, 0)),
)


def policies(limits: Limits = TENANT.limits) -> PolicySet:
    fleet = a_fleet(limits=GENEROUS, ceiling=Limit(1.0, 0), tenants=(replace(TENANT, limits=limits),))
    made = [
        an_idling_policy(name, selector=Selector(), idle_when=AllOf(()), limits=GENEROUS, tenant=tenant)
        for name, tenant in (("a/one", "a"), ("a/two", "a"), ("b/one", "b"), ("platform", ""))
    ]
    return a_policy_set(fleet=fleet, idling=tuple(made))


def idles(policy: str, count: int, namespace: str = "team-a-web", known: bool = False):
    found = []
    for number in range(count):
        name = f"{policy}-{number}".replace("/", "-")
        made = a_decision(name, ref=a_ref(name, namespace=namespace), policy=policy)
        found.append(replace(made, known=known))
    return found


def held(*decisions, lifted: frozenset[str] = frozenset(), limits: Limits = TENANT.limits) -> Limited:
    bases = Bases({"east": Base(100, 300)}, tenants={"a": Base(10, 30)})
    return hold_back(decisions, policies(limits), bases, lifted)


@pytest.mark.parametrize(
    ("decisions", "owners"),
    [
        pytest.param(idles("a/one", 5), [], id="as many as allowed"),
        pytest.param(idles("a/one", 6), ["a/one"], id="one more, although its own limits allow it"),
        pytest.param([*idles("a/one", 4), *idles("a/two", 2)], ["a/one"], id="together: who takes most is held back"),
        pytest.param([*idles("a/one", 5), *idles("platform", 9)], [], id="the platform's do not count"),
        pytest.param(idles("b/one", 9, "team-b-web"), [], id="another tenant's do not"),
        pytest.param(idles("a/one", 9, known=True), [], id="nor does what the same schedule idled before"),
    ],
)
def test_all_policies_of_a_tenant_share_its_limit(decisions, owners):
    assert [one.limit.policy for one in held(*decisions).held_back if one.limit is not None] == owners


def test_the_message_names_tenant_and_policy():
    (one,) = held(*idles("a/one", 4), *idles("a/two", 3)).held_back
    assert one.why.startswith("a/one with others would idle 7 of 10 workloads of tenant a (70 %, limit 50 % or 0)")
    assert (one.allow, one.limit.name, one.limit.allowed) == ("a/one", "tenant a", 5)


@pytest.mark.parametrize(("name", "lifts"), [("a/one", True), ("fleet", True), ("one", False), ("a/two", False)])
def test_it_is_lifted_once_by_the_policy_or_the_fleet(name, lifts):
    assert bool(held(*idles("a/one", 9), lifted=frozenset({name})).held_back) is not lifts


def test_what_placement_takes_away_for_a_tenant_counts_too():
    limits = Limits(removed_replicas=Limit(0.5, 0))
    federated = [a_federated_replica_set(name, namespace="team-a-web", tenant=name[0]) for name in ("a-web", "b-web")]
    found = {}
    for one in federated:
        taken = a_decision(
            ref=a_ref(one.name, namespace="team-a-web"),
            job="placement",
            policy=one.name,
            group=f"placement/{one.key}",
            before=20,
            idles=False,
        )
        made = replace(policies(limits), federated=tuple(federated))
        bases = Bases({"east": Base(100, 300)}, tenants={"a": Base(10, 30)}, running={taken.ref: 20})
        found[one.name] = [use.limit.name for use in hold_back([taken], made, bases, frozenset()).held_back]
    assert found == {"a-web": ["tenant a"], "b-web": []}


def test_replicas_that_its_policies_remove_are_added_up_as_replicas():
    """Not as one for each workload of the others."""
    limits = Limits(removed_replicas=Limit(0.5, 0))  # 15 of 30
    many = [replace(one, replicas_before=10) for one in (*idles("a/one", 1), *idles("a/two", 1))]
    few = [replace(one, replicas_before=2) for one in idles("platform", 1)]
    result = held(*many, *few, limits=limits)
    assert [(one.limit.policy, one.limit.used, one.limit.allowed) for one in result.held_back] == [("a/one", 20, 15)]
    assert [one.policy for one in result.decisions] == ["a/two", "platform"]


def test_who_removes_most_replicas_is_held_back_first_not_who_idles_most_workloads():
    limits = Limits(removed_replicas=Limit(0.5, 0))
    large = [replace(one, replicas_before=14) for one in idles("a/two", 1)]
    assert [one.limit.policy for one in held(*idles("a/one", 3), *large, limits=limits).held_back] == ["a/two"]


def test_without_limits_of_the_tenant_there_is_no_use_of_them():
    assert [use.name for use in held(*idles("a/one", 9), limits=Limits()).uses if use.name.startswith("tenant")] == []
