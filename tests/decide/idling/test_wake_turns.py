"""Namespaces that share a `perRun` take turns from run to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.model import ObjectRef
from reconciler.policy.types import Place, Tenant, WakeOrder
from tests.builders import a_fleet, a_workload
from tests.cases import cases
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_policy, run_in, workloads_selector
from tests.decide.idling.world import World, a_world
from tests.laws import tries

EVERY = timedelta(minutes=5)
REQUESTED = "reconciler/wake-requested-at"


def a_policy_of(per_run: int):
    """Its minAwake is longer than all runs of a test, so that nothing goes idle again in the same night."""
    order = WakeOrder("dev", per_run=per_run)
    return a_policy(selector=workloads_selector(), wake_order=order, min_awake=timedelta(days=1))


def idle_namespaces(sizes: Mapping[str, int], per_run: int) -> World:
    """A world where so many Deployments of each namespace are idle."""
    workloads = [a_workload(f"w-{number}", namespace=name) for name, size in sizes.items() for number in range(size)]
    world = a_world(*workloads, now=NIGHT)
    run_in(world, a_policy_of(per_run))
    assert not any(world.replicas(one.ref) for one in workloads)
    return world


def idle_in(world: World, namespace: str) -> list[ObjectRef]:
    return [ref for ref in sorted(world.objects) if ref.namespace == namespace and not world.replicas(ref)]


def woken_in(world: World, per_run: int) -> list[str]:
    """The namespaces of what one run wakes; the next run comes five minutes later."""
    before = [ref for ref in sorted(world.objects) if not world.replicas(ref)]
    run_in(world, a_policy_of(per_run))
    world.now += EVERY
    return [ref.namespace for ref in before if world.replicas(ref)]


@cases(
    "minutes first",
    ("its turn was within the hour", 59, {"dev-zzz"}),
    ("its turn was before that", 61, {"dev-aaa", "dev-zzz"}),
)
def test_a_turn_counts_for_an_hour(minutes, first):
    found = set()
    for run in range(10):
        world = idle_namespaces({"dev-aaa": 2, "dev-zzz": 1}, 1)
        world.now = MONDAY + timedelta(minutes=run)
        ref = idle_in(world, "dev-aaa")[0]
        world.annotate(ref, "reconciler/awake-since", (world.now - timedelta(minutes=minutes)).isoformat())
        found.update(woken_in(world, 1))
    assert found == first


def test_a_turn_counts_in_a_run_of_the_same_second():
    world = idle_namespaces({"dev-aaa": 2, "dev-zzz": 2}, 1)
    woken = []
    for _ in range(2):
        world.now = MONDAY
        woken += woken_in(world, 1)
    assert sorted(woken) == ["dev-aaa", "dev-zzz"]


@tries(30, at_length=60)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    per_run=st.integers(1, 3),
    requests=st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=5), min_size=1, max_size=8),
)
def test_each_namespace_that_waits_has_a_wake_in_as_many_runs_as_there_are_shares(sizes, per_run, requests):
    """With K namespaces and a `perRun` of p, of any ceil(K / p) runs that one waits in, one wakes something in it."""
    names = [f"dev-{place}" for place in range(len(sizes))]
    world = idle_namespaces(dict(zip(names, sizes, strict=True)), per_run)
    bound, asked, waited = -(-len(names) // per_run), set[ObjectRef](), Counter[str]()
    for asking in [*requests, *[[]] * sum(sizes)]:
        for place, count in asking:
            for ref in idle_in(world, names[place % len(names)])[:count]:
                world.annotate(ref, REQUESTED, NIGHT.isoformat())
                asked.add(ref)
        waiting = {ref.namespace for ref in asked if not world.replicas(ref)}
        woken = set(woken_in(world, per_run))
        waited = Counter({name: waited[name] + 1 for name in waiting - woken})
        assert all(runs < bound for runs in waited.values()), waited
    assert all(world.replicas(ref) for ref in asked)


def test_tenants_take_turns_whatever_the_number_of_their_namespaces_is():
    """A tenant with five namespaces wakes no more in a run than one with a single one, or one of the platform."""
    place = Place("fleet.yaml")
    large = Tenant(name="large", place=place, paths=("large/**",), namespaces=("large-*",))
    small = Tenant(name="small", place=place, paths=("small/**",), namespaces=("small-*",))
    fleet = replace(a_fleet(), tenants=(large, small))
    sizes = {**{f"large-{number}": 3 for number in range(5)}, "small-a": 3, "tools": 3}
    world = idle_namespaces(sizes, 3)
    world.now = MONDAY
    for _ in range(3):
        before = [ref for ref in sorted(world.objects) if not world.replicas(ref)]
        run_in(world, a_policy_of(3), fleet=fleet)
        world.now += EVERY
        woken = [ref.namespace for ref in before if world.replicas(ref)]
        assert sorted(name.partition("-")[0] for name in woken) == ["large", "small", "tools"]
    awake = {ref.namespace for ref in world.objects if world.replicas(ref)}
    assert len(awake) == 5  # three of the large one, each in its turn


@tries(20, at_length=40)
@given(
    sizes=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=2, max_size=4),
    per_run=st.integers(1, 5),
)
def test_no_tenant_waits_with_fewer_wakes_than_another_one_gets(sizes, per_run):
    """While two tenants have something left to wake, neither has had more than one wake more, over all runs."""
    place = Place("fleet.yaml")
    names = [f"t{number}" for number in range(len(sizes))]
    tenants = [Tenant(name=name, place=place, paths=(f"{name}/**",), namespaces=(f"{name}-*",)) for name in names]
    fleet = replace(a_fleet(), tenants=tuple(tenants))
    spaces = {f"{name}-{n}": size for name, inside in zip(names, sizes, strict=True) for n, size in enumerate(inside)}
    world = idle_namespaces(spaces, per_run)
    world.now = MONDAY
    while any(not world.replicas(ref) for ref in world.objects):
        before = asleep_by_tenant(world)
        run_in(world, a_policy_of(per_run), fleet=fleet)
        world.now += EVERY
        left = asleep_by_tenant(world)
        assert sum(before.values()) - sum(left.values()) == min(per_run, sum(before.values()))
        woken = {name: sum(inside) - left[name] for name, inside in zip(names, sizes, strict=True)}
        assert all(woken[other] <= woken[name] + 1 for name in names if left[name] for other in names), woken


def asleep_by_tenant(world: World) -> Counter[str]:
    return Counter(ref.namespace.partition("-")[0] for ref in world.objects if not world.replicas(ref))
