"""The closed loop: decide, apply, let the clusters do their part, decide again.

Law: it comes to rest within 8 runs and then stays byte for byte the same; the replicas that run never dip below what
ran before or is wanted; no replica waits while a cluster with weight has room, and nothing stays on a draining cluster
that has room elsewhere. Where runs come so often that a stuck pod is not known as one in the next, it takes up to 12.
"""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.placement.replicas_per_cluster import allocate_replicas
from reconciler.policy.types import ClusterPreference
from tests.builders import a_federated_replica_set
from tests.laws import share_of

from .simulation import SELECTOR, TEMPLATE, SimCluster, SimPod, World

pytestmark = pytest.mark.laws

PATIENCE = timedelta(minutes=11)  # longer than unschedulableAfter and clusterGracePeriod
RUNS = {timedelta(minutes=1): 12, timedelta(minutes=4): 12, PATIENCE: 8}
TICKS = tuple(RUNS)
NAMES = ("east", "north", "south", "west", "up", "down")


def a_preference(rng):
    minimum = rng.choice((0, 0, 0, rng.randint(1, 4)))
    maximum = rng.choice((None, None, minimum + rng.randint(0, 12)))
    return ClusterPreference(minimum, maximum, rng.choice((0, 1, 1, 1, 2, 3, 10)))


def some_preferences(rng, names):
    entries = {"*": a_preference(rng)} if rng.random() < 0.7 else {}
    entries |= {name: a_preference(rng) for name in names if rng.random() < 0.4 or not entries}
    return entries


def a_world(rng, rounding, rebalance):
    names = NAMES[: rng.randint(2, 6)]
    federated = a_federated_replica_set(
        target=None,
        replicas=rng.randint(0, 30),
        rebalance=rebalance,
        clusters=some_preferences(rng, names),
        rounding=rounding,
        waiting_replicas=rng.choice((1, 2, 2, 3)),
        selector=SELECTOR,
        template=TEMPLATE,
    )
    world = World([a_cluster(rng, name) for name in names], federated)
    for cluster in world.clusters:
        populate(rng, world, cluster)
    return world


def a_cluster(rng, name):
    return SimCluster(
        name, room=rng.choice((0, 100, 100, rng.randint(1, 20), rng.randint(1, 20))), broken=rng.random() < 0.1
    )


def populate(rng, world, cluster):
    """Give some clusters a local ReplicaSet that is there already, with pods that wait for longer or shorter."""
    if rng.random() < 0.5:
        return
    cluster.spec, cluster.uid = rng.randint(0, 15), f"uid-{cluster.name}"
    for number in range(cluster.spec):
        age = rng.choice((timedelta(minutes=1), timedelta(hours=1)))
        cluster.pods.append(SimPod(f"{cluster.name}-old-{number}", world.now - age))
    cluster.schedule()
    cluster.tick(world.now)


def change_something(rng, world):
    """Change one thing, as people and clusters do; return what."""
    cluster = rng.choice(world.clusters)
    change = rng.choice(CHANGES)
    change(rng, world, cluster)
    return f"{change.__name__} {cluster.name}"


def change_total(rng, world, cluster):
    world.federated = replace_federated(world, replicas=rng.randint(0, 40))


def change_preferences(rng, world, cluster):
    world.federated = replace_federated(world, clusters=some_preferences(rng, [one.name for one in world.clusters]))


def change_room(rng, world, cluster):
    cluster.room = rng.choice((0, cluster.room + rng.randint(1, 10), rng.randint(0, 20), 100))


def lose_nodes(rng, world, cluster):
    """Some pods lose their place and are made anew."""
    cluster.room = rng.randint(0, 10)
    keep = set(rng.sample(range(len(cluster.pods)), min(len(cluster.pods), cluster.room)))
    cluster.pods = [pod for at, pod in enumerate(cluster.pods) if at in keep]
    cluster.control(world.now)


LEFT_OUT = ("Frozen", "ReadOnly")


def drain(rng, world, cluster):
    cluster.state = "Active" if cluster.state != "Active" else rng.choice(("Draining", "Leaving"))


def freeze(rng, world, cluster):
    cluster.state = "Active" if cluster.state in LEFT_OUT else rng.choice(LEFT_OUT)


def cut_off(rng, world, cluster):
    cluster.reachable = not cluster.reachable


def break_pods(rng, world, cluster):
    """What is made from now on crashes, and so does some of what runs; or all is well again."""
    cluster.broken = not cluster.broken
    if cluster.broken:
        for pod in cluster.pods:
            pod.ready = pod.ready and rng.random() < 0.5


def slow_down(rng, world, cluster):
    """What is made from now on takes its time to start."""
    cluster.slow = rng.choice((timedelta(), timedelta(seconds=90), timedelta(minutes=5), timedelta(minutes=15)))


def limit_pods(rng, world, cluster):
    """A quota lets no more pods be made; or it is lifted."""
    cluster.quota = rng.choice((0, rng.randint(1, 15), 10**6))


CHANGES = (
    change_total,
    change_total,
    change_room,
    change_room,
    lose_nodes,
    drain,
    cut_off,
    break_pods,
    freeze,
    change_preferences,
    slow_down,
    limit_pods,
)


def replace_federated(world, **changes):
    if "clusters" in changes:
        changes["preferences"] = replace(world.federated.preferences, clusters=changes.pop("clusters"))
    return replace(world.federated, **changes)


def wanted(world):
    """Return how many replicas can run if every cluster has room: all of them, unless the preferences say less."""
    placed = [one for one in world.clusters if one.state not in LEFT_OUT and one.reachable]
    left = world.federated.replicas - sum(one.spec or 0 for one in world.clusters if one not in placed)
    preferences = {
        "rebalance": world.federated.rebalance,
        "clusters": {
            name: {"minReplicas": own.min_replicas, "maxReplicas": own.max_replicas, "weight": own.weight}
            for name, own in world.federated.clusters.items()
        },
    }
    current = {one.name: one.placed for one in placed}
    given = allocate_replicas(
        preferences,
        max(0, left),
        [one.name for one in placed],
        current=current,
        rounding=world.federated.rounding.lower(),
    )
    return sum(given.replicas.values())


def run_once(world, tick):
    """Run once and let a tick pass; return the decisions made. The available replicas must not dip, and nothing may be
    moved to a cluster that lags.
    """
    desired = world.decided()
    before = {one.name: one.available for one in world.readable}
    needed = min(sum(before.values()), wanted(world))
    lagging = [(one, one.spec) for one in world.readable if one.lags(world.now)]
    raised = world.raised
    world.apply(desired.decisions)
    check_nothing_moved_to(lagging, world, raised)
    world.control()
    after = sum(one.available for one in world.readable)
    if world.federated.replicas:
        assert after >= needed, f"dip: {before} -> {after} available, {needed} needed"
    world.pass_time(tick)
    return desired.decisions


def check_nothing_moved_to(lagging, world, raised):
    """What lags receives the replicas that wait there for room, and a raise of the total that has no other room."""
    for cluster, spec in lagging:
        more = cluster.spec - spec - max(1, world.federated.waiting_replicas)
        assert more <= raised, f"{cluster.name} lags and goes from {spec} to {cluster.spec}, {raised} more are wanted"


def come_to_rest(world, tick):
    """Run until nothing is decided for as long as anything may wait before it counts; return how many runs decided
    something.
    """
    busy, quiet = 0, timedelta()
    while quiet <= PATIENCE:
        decisions = run_once(world, tick)
        busy, quiet = (busy + 1, timedelta()) if decisions else (busy, quiet + tick)
        assert busy <= RUNS[tick], f"no rest after {busy} runs: {[one.key for one in decisions]}"
    return busy


def told(world):
    """What is decided, with what would change it."""
    desired = world.decided()
    return replace(desired, explanations=tuple(replace(one, change=one.change_if) for one in desired.explanations))


def check_rest(world):
    """Nothing changes any more, and nothing could be better."""
    first = told(world)
    for _ in range(3):
        world.pass_time(PATIENCE)
        assert told(world) == first
    assert not first.decisions
    home = world.clusters[0]
    writable = [one for one in world.readable if one.state != "ReadOnly"]
    # Where nothing records since when, a cluster that does not answer is never given up.
    clock = bool(writable) and not (home.reachable and home.state == "ReadOnly")
    if all(one.reachable or (clock and one.state not in LEFT_OUT) for one in world.clusters):
        check_nothing_missing(world)


def check_nothing_missing(world):
    """No replica waits, and none stays on a draining cluster, while a cluster with weight has room."""
    running = sum(one.placed for one in world.readable if one.state not in LEFT_OUT)
    held = sum(one.spec or 0 for one in world.clusters if one.state in LEFT_OUT and one.reachable)
    roomy = [one.name for one in world.readable if has_room(world, one)]
    short = world.federated.replicas - held - running
    assert short <= 0 or not roomy, f"{short} replicas wait while {roomy} have room"
    drained = [one.name for one in world.readable if one.state in ("Draining", "Leaving") and one.placed]
    assert not drained or not roomy or blocked(world), f"{drained} keep pods while {roomy} have room"


def blocked(world):
    """Return whether a drain has to wait for pods that crash, or that are missing where nothing may be written."""
    crashing = any(one.broken or one.available < one.placed for one in world.readable)
    return crashing or any(one.state in LEFT_OUT and one.available < (one.spec or 0) for one in world.readable)


def has_room(world, cluster):
    entries = world.federated.clusters
    own = entries.get(cluster.name, entries.get("*"))
    if own is None or not own.weight or cluster.state != "Active":
        return False
    if cluster.lags(world.now):
        return False
    return cluster.placed < min(cluster.room, cluster.quota, 10**9 if own.max_replicas is None else own.max_replicas)


def refuse(rng, world, cluster):
    cluster.refuses = not cluster.refuses


TROUBLES = (refuse, refuse, change_room, drain, cut_off, change_total)


def endure(seed):
    """Live through a history with refused writes, or in which nothing waits at a full cluster: it never comes to rest,
    because things are tried again. Then let all be well for long enough.
    """
    rng = random.Random(seed)
    world = a_world(rng, "KubeFed" if seed % 2 else "Fair", rebalance=bool(seed // 2 % 2))
    if seed // 4 % 2:
        world.federated = replace_federated(world, waiting_replicas=0)
    try:
        for number in range(20):
            if number % 5 == 0:
                rng.choice(TROUBLES)(rng, world, rng.choice(world.clusters))
            run_once(world, TICKS[seed // 8 % 3])
        for cluster in world.clusters:
            cluster.refuses, cluster.reachable = False, True
        for _ in range(24):
            run_once(world, PATIENCE)
        if world.federated.waiting_replicas:
            assert not world.decided().decisions
        check_nothing_missing(world)
    except AssertionError as failed:
        raise AssertionError(f"seed {seed}: {failed}") from failed


def test_refused_writes_and_probes_cost_nothing_and_end_well():
    for seed in range(share_of(48)):
        endure(seed)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_many_refused_writes_and_probes_cost_nothing_and_end_well(part):
    for seed in range(1000 * part, 1000 * (part + 1)):
        endure(seed)


def live(seed):
    """Live through one random history: three changes, some before the last one is digested; return the most runs that
    it took to come to rest.
    """
    rng = random.Random(seed)
    rounding = "KubeFed" if seed % 2 else "Fair"
    world = a_world(rng, rounding, rebalance=bool(seed // 2 % 2))
    tick = TICKS[seed // 4 % 3]
    story = [f"ticks of {tick}"]
    most = 0
    try:
        for _ in range(3):
            if rng.random() < 0.7:
                most = max(most, come_to_rest(world, tick))
                check_rest(world)
            else:
                run_once(world, tick)
            story.append(change_something(rng, world))
        most = max(most, come_to_rest(world, tick))
        check_rest(world)
    except AssertionError as failed:
        raise AssertionError(f"seed {seed} ({', '.join(story)}): {failed}") from failed
    return most


def test_random_fleets_come_to_rest_without_dips():
    assert max(live(seed) for seed in range(share_of(60))) > 1


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_twenty_thousand_random_fleets_come_to_rest_without_dips(part):
    assert max(live(seed) for seed in range(1000 * part, 1000 * (part + 1))) > 1
