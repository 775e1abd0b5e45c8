"""Laws of allocation, for any preferences: checked against slow models that count every replica."""

from __future__ import annotations

import sys
from fractions import Fraction
from hashlib import sha256

from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.decide.placement.replicas_per_cluster import allocate_replicas
from tests.laws import counted, tries

FLEET = ["a", "b", "c", "d", "e"]
SMALL = st.integers(0, 12)


@st.composite
def entries(draw, numbers=SMALL):
    minimum = draw(st.one_of(st.just(0), numbers))
    maximum = draw(st.one_of(st.none(), numbers.map(lambda extra: minimum + extra)))
    return {"minReplicas": minimum, "maxReplicas": maximum, "weight": draw(numbers)}


@st.composite
def problems(draw, numbers=SMALL):
    """Arguments of `allocate_replicas` with sound preferences."""
    names = draw(st.lists(st.sampled_from([*FLEET, "*"]), unique=True, min_size=1))
    some = st.dictionaries(st.sampled_from(FLEET), numbers)
    return {
        "preferences": {"rebalance": draw(st.booleans()), "clusters": {name: draw(entries(numbers)) for name in names}},
        "clusters": draw(st.permutations(FLEET[: draw(st.integers(1, 5))])),
        "current": draw(some),
        "capacity": draw(some),
        "key": draw(st.text("ab/é", max_size=4)),
    }


totals = st.integers(0, 60)
roundings = st.sampled_from(["fair", "kubefed"])


def limits_of(problem, name):
    chosen = problem["preferences"]["clusters"]
    entry = chosen.get(name, chosen.get("*", {"minReplicas": 0, "maxReplicas": 0, "weight": 0}))
    maximum = sys.maxsize if entry["maxReplicas"] is None else entry["maxReplicas"]
    return entry, min(maximum, problem["capacity"].get(name, sys.maxsize))


@given(problems(), totals, roundings)
def test_as_many_as_are_wanted_and_have_room(problem, total, rounding):
    """Never more than wanted, none above a limit, and none left over while a cluster with weight has room; overflow is
    what a cluster would have more without its capacity.
    """
    found = allocate_replicas(**problem, total=total, rounding=rounding)
    limits = {name: limits_of(problem, name) for name in problem["clusters"]}
    assert set(found.replicas) == set(limits)
    assert all(0 <= count <= limits[name][1] for name, count in found.replicas.items())
    open_ones = [name for name, (entry, limit) in limits.items() if entry["weight"] and found.replicas[name] < limit]
    assert sum(found.replicas.values()) == total or (sum(found.replicas.values()) < total and not open_ones)
    for name in problem["clusters"]:
        others = {other: limit for other, limit in problem["capacity"].items() if other != name}
        free = allocate_replicas(**(problem | {"capacity": others}), total=total, rounding=rounding).replicas[name]
        assert found.overflow.get(name, 0) == max(0, free - found.replicas[name])


@given(problems(), totals, roundings, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(problem, total, rounding, random):
    def shuffled(value):
        if isinstance(value, dict):
            items = [(key, shuffled(inner)) for key, inner in value.items()]
            random.shuffle(items)
            return dict(items)
        return random.sample(value, len(value)) if isinstance(value, list) else value

    first = allocate_replicas(**problem, total=total, rounding=rounding)
    second = allocate_replicas(**shuffled(problem), total=total, rounding=rounding)
    assert first.replicas == second.replicas
    assert first.overflow == second.overflow
    assert first.planner_overflow == second.planner_overflow


@given(problems(), totals)
def test_one_more_replica_takes_none_from_anybody(problem, total):
    fewer = allocate_replicas(**problem, total=total).replicas
    more = allocate_replicas(**problem, total=total + 1).replicas
    assert all(fewer[name] <= more[name] for name in fewer)
    assert sum(more.values()) - sum(fewer.values()) <= 1


@given(problems(), totals)
def test_kept_replicas_stay_as_long_as_they_are_wanted(problem, total):
    problem["preferences"]["rebalance"] = False
    found = allocate_replicas(**problem, total=total).replicas
    keeps = {name: min(problem["current"].get(name, 0), limits_of(problem, name)[1]) for name in found}
    least = {
        name: max(keeps[name], min(limits_of(problem, name)[0]["minReplicas"], limits_of(problem, name)[1]))
        for name in found
    }
    assume(sum(least.values()) <= total)
    assert all(found[name] >= least[name] for name in found)


def fnv1(text):
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ byte
    return value


def served(problem, rounding="fair"):
    known, key = problem["preferences"]["clusters"], problem["key"]
    names = [name for name in problem["clusters"] if name in known or "*" in known]
    ties = {
        "fair": lambda name: sha256(f"{key}\0{name}".encode()).hexdigest(),
        "kubefed": lambda name: (fnv1(name + key), name),
    }
    return sorted(names, key=lambda name: (-limits_of(problem, name)[0]["weight"], ties[rounding](name)))


def counted_fair(problem, total):
    """The design's words, one replica at a time."""
    order = served(problem)
    entry = {name: limits_of(problem, name)[0] for name in order}
    limit = {name: limits_of(problem, name)[1] for name in order}
    given_out = dict.fromkeys(problem["clusters"], 0)
    left, minimum = total, {}
    for name in order:
        minimum[name] = given_out[name] = min(entry[name]["minReplicas"], left, problem["capacity"].get(name, left))
        left -= minimum[name]
    if not problem["preferences"]["rebalance"]:
        keeps = {name: max(minimum[name], min(problem["current"].get(name, 0), limit[name])) for name in order}
        if sum(keeps.values()) > total:
            share = counted_fair(problem | {"preferences": problem["preferences"] | {"rebalance": True}}, total)
            while sum(keeps.values()) > total:
                down = max(order, key=lambda name: (keeps[name] - share[name], order.index(name)))
                keeps[down] -= 1
            return given_out | keeps
        given_out |= keeps
        left = total - sum(keeps.values())
    while left > 0:
        open_ones = [name for name in order if entry[name]["weight"] and given_out[name] < limit[name]]
        if not open_ones:
            break
        best = max(
            open_ones,
            key=lambda name: (
                Fraction(entry[name]["weight"], 2 * (given_out[name] - minimum[name]) + 1),
                -order.index(name),
            ),
        )
        given_out[best] += 1
        left -= 1
    return given_out


@tries(200, at_length=400)
@given(problems(), totals)
def test_fair_rounding_is_one_replica_after_the_other(problem, total):
    assert allocate_replicas(**problem, total=total).replicas == counted_fair(problem, total)


@given(problems(st.integers(0, 2**52)), st.integers(2**40, 2**53))
def test_fair_rounding_with_huge_numbers_is_settled(problem, total):
    """Nobody would rather have the last seat of somebody else."""
    problem["preferences"]["rebalance"] = True
    found = allocate_replicas(**problem, total=total).replicas
    order = served(problem)
    minimums = {}
    left = total
    for name in order:
        minimums[name] = min(limits_of(problem, name)[0]["minReplicas"], left, problem["capacity"].get(name, left))
        left -= minimums[name]
    seats = {name: found[name] - minimums[name] for name in order}
    weight = {name: limits_of(problem, name)[0]["weight"] for name in order}
    last = [(Fraction(weight[name], 2 * seats[name] - 1), -order.index(name)) for name in order if seats[name] > 0]
    following = [
        (Fraction(weight[name], 2 * seats[name] + 1), -order.index(name))
        for name in order
        if weight[name] and found[name] < limits_of(problem, name)[1]
    ]
    assert not last or not following or min(last) > max(following)


def counted_kubefed(problem, total):
    """The planner's rounds, every one of them."""
    order = served(problem, "kubefed")
    entry = {name: limits_of(problem, name)[0] for name in order}
    room = {name: problem["capacity"].get(name, sys.maxsize) for name in order}
    result, bank, overflow, left = dict.fromkeys(problem["clusters"], 0), {}, {}, total
    for name in order:
        result[name] = min(entry[name]["minReplicas"], left, room[name])
        left -= result[name]
    if not problem["preferences"]["rebalance"]:
        for name in order:
            keeps = min(problem["current"].get(name, 0), limits_of(problem, name)[1])
            bank[name] = min(max(0, keeps - result[name]), left)
            result[name] += bank[name]
            left -= bank[name]
    game, moved = order, True
    while moved and left > 0 and any(entry[name]["weight"] for name in game):
        moved, dealt, total_weight, stay = False, left, sum(entry[name]["weight"] for name in game), []
        for name in game:
            due = min((dealt * entry[name]["weight"] + total_weight - 1) // total_weight, left)
            used = min(due, bank.get(name, 0))
            bank[name] = bank.get(name, 0) - used
            wish = result[name] + due - used
            capped = wish if entry[name]["maxReplicas"] is None else min(wish, entry[name]["maxReplicas"])
            if capped > room[name]:
                overflow[name] = capped - room[name]
            now = min(capped, room[name])
            moved = moved or used > 0 or now > result[name]
            if now == wish:
                stay.append(name)
            left -= now - result[name]
            result[name] = now
        game = stay
    if not problem["preferences"]["rebalance"]:
        overflow = {name: min(cut, left) for name, cut in overflow.items() if min(cut, left) > 0}
    return result, overflow


@tries(150, at_length=300)
@given(problems(), totals)
def test_kubefed_rounding_is_round_after_round(problem, total):
    found = allocate_replicas(**problem, total=total, rounding="kubefed")
    assert (found.replicas, found.planner_overflow) == counted_kubefed(problem, total)


@given(problems(), st.integers(1, 60), roundings)
def test_the_cost_does_not_grow_with_the_number_of_replicas(problem, total, rounding):
    """A million times as many replicas, limits and weights: about as many steps."""
    million = 10**6
    known = problem["preferences"]["clusters"].values()
    scaled_entries = {
        name: {
            key: None if value is None else value * (1 if key == "weight" else million) for key, value in entry.items()
        }
        for name, entry in problem["preferences"]["clusters"].items()
    }
    scaled = problem | {
        "preferences": problem["preferences"] | {"clusters": scaled_entries},
        "current": {name: number * million for name, number in problem["current"].items()},
        "capacity": {name: number * million for name, number in problem["capacity"].items()},
    }
    assume(any(entry["weight"] for entry in known))
    bound = 4000 if rounding == "fair" else 60000
    assert counted(lambda: allocate_replicas(**scaled, total=total * million, rounding=rounding), "line") < bound
