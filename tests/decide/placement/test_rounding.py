"""Seats by highest averages: some thousand small claims, each against a model that gives one seat after the other."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import NamedTuple

from reconciler.decide.placement.rounding import fair_seats, kept_seats


class Claims(NamedTuple):
    weights: list[int]
    taken: list[int]
    limits: list[int]


def some_claims(count, most=8, *, weights=range(6)):
    """`count` claims of up to four clusters, the same each time."""
    random = Random(count)
    for _ in range(count):
        clusters = range(random.randint(1, 4))
        taken = [random.choice((0, 0, random.randint(0, most))) for _ in clusters]
        limits = [own + random.choice((0, 1, random.randint(0, most), 10**9)) for own in taken]
        yield Claims([random.choice(weights) for _ in clusters], taken, limits), random.randint(0, 2 * most)


def following(claims, seats):
    """Who gets the next seat, None where nobody has room."""
    averages = [
        (Fraction(weight, 2 * seats[at] + 1), weight, -at)
        for at, weight in enumerate(claims.weights)
        if weight and seats[at] < claims.limits[at]
    ]
    return -max(averages)[2] if averages else None


def counted(claims, seats):
    result = list(claims.taken)
    for _ in range(seats):
        if (at := following(claims, result)) is not None:
            result[at] += 1
    return result


def shared(claims, seats):
    """The seats of each, where the first of those that are tied get the last ones."""
    least, most = fair_seats(*claims, seats)
    left = min(seats, sum(most) - sum(claims.taken)) - sum(least) + sum(claims.taken)
    tied = [at for at in range(len(least)) if least[at] < most[at]]
    first = sorted(tied, key=lambda at: (-claims.weights[at], at))[:left]
    return [seats + (at in first) for at, seats in enumerate(least)]


def test_seats_are_given_one_after_the_other_to_the_highest_average():
    wrong = [(claims, seats) for claims, seats in some_claims(1500) if shared(claims, seats) != counted(claims, seats)]
    assert wrong == []


def test_several_large_clusters_give_back_in_turn_and_keep_what_they_have():
    """The small ones are all rounded up: what is too many comes off the large ones, one after the other."""
    random = Random(3)
    for _ in range(150):
        weights = [1] * random.randint(6, 12) + [random.randint(60, 70) for _ in range(3)]
        pool = round(sum(weights) * random.uniform(0.5, 0.75))
        shares = [weight * pool // sum(weights) for weight in weights]
        taken = [random.choice((0, max(0, share - random.randint(0, 4)))) for share in shares]
        claims = Claims(weights, taken, [own + random.choice((1, 20, 10**9)) for own in taken])
        assert shared(claims, pool - sum(taken)) == counted(claims, pool - sum(taken))


def cut(kept, shares, total):
    """Take one replica after the other where most is kept beyond the share, of equals the last."""
    result = list(kept)
    while sum(result) > total:
        at = max(range(len(result)), key=lambda at: (result[at] - shares[at], at))
        result[at] -= 1
    return result


def test_what_is_kept_goes_down_where_most_is_kept_beyond_the_share():
    random = Random(1)
    for _ in range(2000):
        kept = [random.randint(0, 9) for _ in range(random.randint(1, 4))]
        shares = [random.randint(0, 6) for _ in kept]
        total = random.randint(sum(shares), max(sum(shares), sum(kept)))
        if sum(kept) >= total:
            least, most = kept_seats(kept, shares, total)
            tied = [at for at in range(len(kept)) if least[at] < most[at]][: total - sum(least)]
            assert [seats + (at in tied) for at, seats in enumerate(least)] == cut(kept, shares, total)
    assert kept_seats([], [], 0) == ([], [])
