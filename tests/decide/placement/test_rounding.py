"""Seats by highest averages: some thousand small claims, each against a model that gives one seat after the other."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from reconciler.decide.placement.rounding import Claims, fair_seats, kept_seats, seats_until_more


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
        (Fraction(weight, 2 * seats[at] + 1), -at)
        for at, weight in enumerate(claims.weights)
        if weight and seats[at] < claims.limits[at]
    ]
    return -max(averages)[1] if averages else None


def counted(claims, seats):
    result = list(claims.taken)
    for _ in range(seats):
        if (at := following(claims, result)) is not None:
            result[at] += 1
    return result


def test_seats_are_given_one_after_the_other_to_the_highest_average():
    wrong = [
        (claims, seats) for claims, seats in some_claims(1500) if fair_seats(claims, seats) != counted(claims, seats)
    ]
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
        assert fair_seats(claims, pool - sum(taken)) == counted(claims, pool - sum(taken))


def test_each_next_seat_comes_after_as_many_as_are_counted():
    for claims, seats in some_claims(400):
        given = Claims(
            claims.weights,
            counted(Claims(claims.weights, [0] * len(claims.taken), claims.limits), seats),
            claims.limits,
        )
        for at in range(len(given.weights)):
            more = seats_until_more(given, at)
            if more is None:
                assert not given.weights[at] or given.taken[at] >= given.limits[at]
            else:
                assert counted(given, more)[at] == given.taken[at] + 1
                assert counted(given, more - 1)[at] == given.taken[at]


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
            assert kept_seats(kept, shares, total) == cut(kept, shares, total)
    assert kept_seats([], [], 0) == []
