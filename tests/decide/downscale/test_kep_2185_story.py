"""KEP-2185, Story 1: 2N pods in two zones, a new zone takes N more, then back to 2N."""

from __future__ import annotations

import random
from collections import Counter
from statistics import mean

import pytest

from reconciler.decide.downscale.deletion_order import RankingRules, rank_victims
from reconciler.model import Pod
from tests.builders import NOW_NS, a_pod
from tests.laws import share_of

N = 12
DAY = 86_400 * 10**9
OLD, NEW = 12 * DAY, 8 * DAY  # both between 2^49 and 2^50 ns
MUCH_OLDER = 400 * DAY


def story(seed: int, old: int = OLD) -> tuple[Pod, ...]:
    """3N pods, each on a node of its own: zones a and b are old, c is new."""
    draw = random.Random(seed)

    def pod(zone: str, index: int) -> Pod:
        age = (NEW if zone == "c" else old) - index * 10**9
        return a_pod(
            f"{zone}-{index}",
            uid=f"{draw.getrandbits(128):032x}",
            node=f"{zone}{index}",
            ready_since_ns=NOW_NS - age,
            created_ns=NOW_NS - age,
        )

    return tuple(pod(zone, index) for zone in "abc" for index in range(N))


def survivors(pods: tuple[Pod, ...], rules: RankingRules) -> Counter[str]:
    left = rank_victims(pods, N, now_ns=NOW_NS, rules=rules).order[N:]
    return Counter(dict.fromkeys("abc", 0)) + Counter(pod.name[0] for pod in left)


def test_ages_of_one_scale_leave_two_thirds_of_each_zone() -> None:
    left = [survivors(story(seed), RankingRules()) for seed in range(400)]
    for zone in "abc":
        # 2N of 3N at random: the standard deviation of one draw is 1.4, of the mean of 400 draws 0.07
        assert mean(one[zone] for one in left) == pytest.approx(2 * N / 3, abs=0.35)


def test_ages_of_different_scales_still_empty_the_new_zone() -> None:
    assert survivors(story(1, MUCH_OLDER), RankingRules()) == Counter(a=N, b=N)


def test_newest_first_empties_the_new_zone() -> None:
    for seed in range(20):
        assert survivors(story(seed), RankingRules(logarithmic=False)) == Counter(a=N, b=N)


@pytest.mark.parametrize("seed", range(share_of(200)))
def test_no_age_ratio_is_above_two_where_creation_and_readiness_differ(seed: int) -> None:
    """Where the order is certain: with cycles among uids a younger pod may come after any other."""
    draw = random.Random(seed)
    pods = []
    for index in range(6):
        ready = draw.randint(1, 40 * DAY)
        created = NOW_NS - ready - draw.choice((0, DAY, 300 * DAY))
        pods.append(
            a_pod(str(index), uid=str(index), node=f"n{index}", created_ns=created, ready_since_ns=NOW_NS - ready)
        )
    ratios = rank_victims(pods, 3, now_ns=NOW_NS).age_ratios
    assert all(ratio is not None and ratio <= 2 for ratio in ratios)
