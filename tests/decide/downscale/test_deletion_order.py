from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.decide.downscale.deletion_order import PodRule, RankingRules, age_scale, deletion_cost, rank_victims
from reconciler.errors import PolicyError
from reconciler.model import Pod
from tests.builders import NOW_NS, a_pod
from tests.cases import cases
from tests.decide.downscale import sorts
from tests.decide.downscale.comparison import compared
from tests.laws import tries

SECOND = 10**9
DAY = 86_400 * SECOND


def ago(nanoseconds: int) -> int:
    return NOW_NS - nanoseconds


# What separates two pods: the first goes before the second, by this rule.
RULES = [
    ("no node before not Ready", a_pod("b", node=""), a_pod("a", ready=False), PodRule.UNASSIGNED),
    ("Pending before Unknown", a_pod("b", phase="Pending"), a_pod("a", phase="Unknown"), PodRule.PHASE),
    ("Unknown before Running", a_pod("b", phase="Unknown"), a_pod("a"), PodRule.PHASE),
    ("another phase is Pending", a_pod("b", phase="Odd"), a_pod("a", phase="Unknown"), PodRule.PHASE),
    ("not Ready before cost", a_pod("b", ready=False), a_pod("a", deletion_cost="-5"), PodRule.NOT_READY),
    ("no cost is 0", a_pod("b", deletion_cost="-1"), a_pod("a"), PodRule.COST),
    ("costs are numbers", a_pod("b", deletion_cost="2"), a_pod("a", deletion_cost="10"), PodRule.COST),
    ("missing time Ready", a_pod("b", ready_since_ns=None), a_pod("a", ready_since_ns=NOW_NS), PodRule.READY_TIME),
    (
        "shorter time Ready before restarts",
        a_pod("b", ready_since_ns=ago(3600 * SECOND)),
        a_pod("a", ready_since_ns=ago(9000 * SECOND), restarts=9),
        PodRule.READY_TIME,
    ),
    (
        "uid where the ages have one scale, restarts are skipped",
        a_pod("a", ready_since_ns=ago(6000 * SECOND)),
        a_pod("b", ready_since_ns=ago(5000 * SECOND), restarts=9),
        PodRule.UID,
    ),
    ("more restarts", a_pod("b", restarts=3), a_pod("a", restarts=2), PodRule.RESTARTS),
    ("more restarts of the sidecars", a_pod("b", sidecar_restarts=1), a_pod("a"), PodRule.SIDECAR_RESTARTS),
    ("missing time of creation", a_pod("b", created_ns=None), a_pod("a", created_ns=NOW_NS), PodRule.CREATION_TIME),
    ("younger", a_pod("b", created_ns=ago(DAY)), a_pod("a", created_ns=ago(9 * DAY)), PodRule.CREATION_TIME),
    ("uid of one scale", a_pod("a", created_ns=ago(10 * DAY)), a_pod("b", created_ns=ago(9 * DAY)), PodRule.UID),
    (
        "a time to come is before 1 ns",
        a_pod("b", ready_since_ns=NOW_NS + SECOND),
        a_pod("a", ready_since_ns=NOW_NS - 1),
        PodRule.READY_TIME,
    ),
    (
        "now and a time to come have one scale",
        a_pod("a", ready_since_ns=NOW_NS),
        a_pod("b", ready_since_ns=NOW_NS + SECOND),
        PodRule.UID,
    ),
]


@cases("first second rule", *RULES)
def test_rules(first: Pod, second: Pod, rule: PodRule) -> None:
    there, back = compared(first, second, now_ns=NOW_NS), compared(second, first, now_ns=NOW_NS)
    assert (there, back) == ((-1, rule), (1, rule))
    ranking = rank_victims([second, first], 1, now_ns=NOW_NS)
    assert (ranking.victims, ranking.rules, ranking.certain) == ((first,), (rule,), True)


@cases(
    "first second",
    ("all is equal, the uid does not count", a_pod("a"), a_pod("b")),
    (
        "the time Ready of pods that are not",
        a_pod("a", ready=False, ready_since_ns=1, created_ns=None),
        a_pod("b", ready=False, ready_since_ns=None, created_ns=None),
    ),
    (
        "equal uids of one scale",
        a_pod("a", uid="u", ready_since_ns=ago(8 * DAY)),
        a_pod("b", uid="u", ready_since_ns=ago(7 * DAY), restarts=3),
    ),
    (
        "equal uids, created at one scale",
        a_pod("a", uid="", created_ns=ago(9 * DAY)),
        a_pod("b", uid="", created_ns=ago(10 * DAY)),
    ),
)
def test_ties(first: Pod, second: Pod) -> None:
    assert compared(first, second, now_ns=NOW_NS)[0] == compared(second, first, now_ns=NOW_NS)[0] == 0
    ranking = rank_victims([first, second], 1, now_ns=NOW_NS)
    assert (ranking.certain, ranking.rules) == (False, (PodRule.CACHE,))


@cases(
    "base told",
    ("one", 1, "1"),
    ("below one", 0.5, "0.5"),
    ("infinite", math.inf, "inf"),
    ("not a number", math.nan, "nan"),
    ("a text", "2", "'2'"),
    ("a truth value", True, "True"),
    ("too many digits to be told", -(10**5000), "a value of type int"),
)
def test_a_base_that_is_none(base: float, told: str) -> None:
    with pytest.raises(PolicyError, match=f"^base: {told}, expected a finite number above 1$"):
        RankingRules(base=base)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("-0", 0),
        ("10", 10),
        ("-10", -10),
        ("-08", -8),
        ("-0000000000000000001", -1),
        ("08", 0),
        ("00", 0),
        ("+1", 0),
        ("1.5", 0),
        ("1e3", 0),
        ("0x10", 0),
        ("1_000", 0),
        (" 1", 0),
        ("1 ", 0),
        ("1\n", 0),
        ("-", 0),
        ("--1", 0),
        ("٣", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("-2147483648", -2147483648),
        ("-2147483649", 0),
        ("9" * 5000, 0),
        ("-" + "9" * 5000, 0),
        ("-" + "0" * 5000, 0),
        ("-" + "0" * 5000 + "8", -8),
    ],
)
def test_deletion_cost(text: str | None, cost: int) -> None:
    assert deletion_cost(text) == cost


@given(st.integers(1, 2**63 - 1), st.sampled_from([2, 3, 7, 10, 100]))
def test_scale_is_the_exponent_of_the_power_at_or_below(age_ns: int, base: int) -> None:
    scale = age_scale(age_ns, base)
    assert base**scale <= age_ns < base ** (scale + 1)


@pytest.mark.parametrize("base", [2, 3, 10, 1000])
def test_scale_at_powers(base: int) -> None:
    for exponent in range(1, int(math.log(2**63, base))):
        assert [age_scale(base**exponent + step, base) for step in (-1, 0, 1)] == [exponent - 1, exponent, exponent]


@pytest.mark.parametrize("age_ns", [0, -1])
def test_scale_of_a_time_to_come(age_ns: int) -> None:
    assert age_scale(age_ns, 2) == age_scale(age_ns, 10) == -1


# Pools so small that ties and cycles are frequent.
POD = st.builds(
    Pod,
    name=st.sampled_from("abcdefgh"),
    uid=st.sampled_from(["1", "2", "3", "4", "5"]),
    node=st.sampled_from(["n", "n", "m"]),
    ready=st.sampled_from([True, True, True, False]),
    ready_since_ns=st.sampled_from([ago(9 * DAY), ago(8 * DAY), ago(7 * DAY), ago(2 * DAY), None]),
    created_ns=st.sampled_from([ago(10 * DAY), ago(9 * DAY), ago(2 * DAY), None]),
    restarts=st.sampled_from([0, 0, 1]),
    deletion_cost=st.sampled_from([None, None, None, "-1"]),
)
DOUBTFUL = st.builds(
    Pod,
    name=st.just("p"),
    uid=st.sampled_from("123456789"),
    node=st.just("n"),
    ready_since_ns=st.sampled_from([ago(9 * DAY), ago(9 * DAY), ago(8 * DAY), ago(7 * DAY)]),
    created_ns=st.sampled_from([ago(10 * DAY), ago(9 * DAY)]),
    restarts=st.sampled_from([0, 0, 1]),
)
PODS = st.lists(POD, min_size=1, max_size=5) | st.lists(DOUBTFUL, min_size=2, max_size=5)
ALL_RULES = st.builds(RankingRules, logarithmic=st.booleans(), base=st.sampled_from([2, 10]))


def numbered(pods: list[Pod]) -> list[Pod]:
    return [replace(pod, name=f"{pod.name}{index}") for index, pod in enumerate(pods)]


def relation(pods: list[Pod], rules: RankingRules) -> set[tuple[int, int]]:
    """Return the pairs of positions of which the first goes strictly before the second."""
    on_node = Counter(pod.node for pod in pods)
    return {
        (left, right)
        for left, right in permutations(range(len(pods)), 2)
        if compared(
            pods[left],
            pods[right],
            ranks=(on_node[pods[left].node], on_node[pods[right].node]),
            now_ns=NOW_NS,
            rules=rules,
        )[0]
        < 0
    }


def outcomes(pods: list[Pod], count: int, rules: RankingRules, sort: sorts.Sort[int]) -> set[frozenset[int]]:
    """Return every set of victims (positions) that `sort` comes to, over all orders of the cache."""
    pairs = relation(pods, rules)
    caches = permutations(range(len(pods)))
    return {frozenset(sort(cache, lambda left, right: (left, right) in pairs)[:count]) for cache in caches}


@tries(400)
@given(PODS, st.integers(0, 5), ALL_RULES)
def test_certain_means_every_sort_of_every_cache_gives_the_same(
    pods: list[Pod], count: int, rules: RankingRules
) -> None:
    pods = numbered(pods)
    ranking = rank_victims(pods, count, now_ns=NOW_NS, rules=rules)
    victims = frozenset(pods.index(pod) for pod in ranking.victims)
    by_insertion = outcomes(pods, count, rules, sorts.insertion_sort)
    assert victims in by_insertion
    assert ranking.certain == (len(by_insertion) == 1)
    if ranking.certain:
        for sort in sorts.ALL:
            assert outcomes(pods, count, rules, sort) == {victims}


LARGE = st.lists(
    st.builds(
        Pod,
        name=st.uuids().map(str),
        uid=st.sampled_from([f"{number:02}" for number in range(40)]),
        node=st.sampled_from(["", "n", "m"]),
        phase=st.sampled_from(["Running", "Running", "Pending", "Succeeded"]),
        ready=st.booleans(),
        ready_since_ns=st.integers(ago(9 * DAY), ago(7 * DAY)).map(lambda at: at - at % DAY) | st.none(),
        created_ns=st.integers(ago(9 * DAY), NOW_NS + SECOND) | st.none(),
        restarts=st.integers(0, 2),
        terminating=st.sampled_from([False, False, False, True]),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(LARGE, st.integers(0, 45), ALL_RULES, st.randoms())
def test_ranking_is_a_permutation_without_neighbours_the_wrong_way_round(pods, count, rules, random) -> None:
    ranking = rank_victims(pods, count, now_ns=NOW_NS, siblings=None, rules=rules)
    active = [pod for pod in pods if pod.is_active]
    assert sorted(pod.name for pod in ranking.order) == sorted(pod.name for pod in active)
    for first, second in zip(ranking.order, ranking.order[1:], strict=False):
        assert compared(second, first, now_ns=NOW_NS, rules=rules)[0] >= 0
    if count < len(active):
        assert ranking.victims == ranking.order[:count]
    shuffled = random.sample(pods, len(pods))
    again = rank_victims(shuffled, count, now_ns=NOW_NS, siblings=None, rules=rules)
    assert (again.order, again.certain) == (ranking.order, ranking.certain)


@settings(deadline=None)
@given(LARGE | st.lists(DOUBTFUL, max_size=12), st.integers(1, 39), ALL_RULES)
def test_certain_is_every_victim_before_every_survivor(pods: list[Pod], count: int, rules: RankingRules) -> None:
    ranking = rank_victims(pods, count, now_ns=NOW_NS, siblings=None, rules=rules)
    rest = ranking.order[len(ranking.victims) :]
    apart = all(
        compared(victim, survivor, now_ns=NOW_NS, rules=rules)[0] < 0 for victim in ranking.victims for survivor in rest
    )
    assert ranking.certain == (apart or not rest)


# sorting_deletion_age_ratio


@given(st.lists(st.integers(1, 400 * DAY), min_size=2, max_size=30, unique=True), st.data())
def test_no_ratio_above_two_when_age_decides(ages: list[int], data: st.DataObject) -> None:
    pods = [
        a_pod(f"p{index}", node=f"n{index}", ready_since_ns=ago(age), created_ns=ago(age))
        for index, age in enumerate(ages)
    ]
    count = data.draw(st.integers(1, len(pods) - 1))
    ranking = rank_victims(pods, count, now_ns=NOW_NS)
    for place, (victim, ratio) in enumerate(zip(ranking.victims, ranking.age_ratios, strict=True)):
        youngest = max(pod.created_ns for pod in ranking.order[place:] if pod.created_ns is not None)
        assert victim.created_ns is not None
        assert ratio == (NOW_NS - victim.created_ns) / (NOW_NS - youngest)
        assert 1 <= ratio <= 2


def test_the_youngest_is_looked_for_among_all_that_are_left() -> None:
    """Of one scale, so that the uid decides: the second of three is the youngest."""
    pods = [a_pod(uid, uid=uid, created_ns=ago(days * DAY)) for uid, days in (("1", 10), ("2", 8), ("3", 12))]
    assert rank_victims(pods, 2, now_ns=NOW_NS).age_ratios == (10 / 8, 1.0)


def test_ratio_without_any_age_to_divide_by() -> None:
    pods = [a_pod("a", created_ns=NOW_NS), a_pod("b", created_ns=ago(DAY))]
    assert rank_victims(pods, 1, now_ns=NOW_NS).age_ratios == (None,)
