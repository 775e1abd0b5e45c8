"""The order in which the ReplicaSet controller deletes pods when it scales down, and how certain that order is.

Source: kubernetes pkg/controller/controller_utils.go, ActivePodsWithRanks.Less;
pkg/controller/replicaset/replica_set.go, getPodsToDelete and getPodsRankedByRelatedPodsOnSameNode.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from enum import StrEnum
from heapq import nlargest
from itertools import groupby, repeat, zip_longest
from operator import itemgetter

from msgspec import Struct

from reconciler.errors import PolicyError
from reconciler.messages import literal
from reconciler.model import Pod
from reconciler.untrusted_text import whole_number_in

_Bucket = tuple[bool, int, bool, int, int, int]
"""A pod by the first six rules, the last one being the scale of the time Ready; lower goes first."""

_Placed = tuple[_Bucket, Pod]

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER = -(1 << 100)  # before every time and every age
_COST = r"-[0-9]+|0|[1-9][0-9]*"  # the controller refuses "+5" and "05", but not "-05"


class PodRule(StrEnum):
    """What puts one pod before another, in the order in which it is asked."""

    UNASSIGNED = "no node"
    PHASE = "phase"
    NOT_READY = "not Ready"
    COST = "deletion cost"
    COLOCATION = "pods on the same node"
    READY_TIME = "shorter time Ready"
    RESTARTS = "more restarts"
    SIDECAR_RESTARTS = "more sidecar restarts"
    CREATION_TIME = "younger"
    UID = "smaller uid among equal ages"
    CACHE = "order of the controller's cache"
    ALL = "all pods go"


BUCKET_RULES = (
    PodRule.UNASSIGNED,
    PodRule.PHASE,
    PodRule.NOT_READY,
    PodRule.COST,
    PodRule.COLOCATION,
    PodRule.READY_TIME,
)
_LATER_RULES = (PodRule.RESTARTS, PodRule.SIDECAR_RESTARTS, PodRule.CREATION_TIME)


class RankingRules(Struct, frozen=True):
    """`logarithmic` False compares times plainly, newest first; `base` is the logarithm's. False leaves a rule out.

    Raises:
        PolicyError: `base` is no finite number above 1.
    """

    logarithmic: bool = True
    base: float = 2
    deletion_cost: bool = True
    sidecar_restarts: bool = True

    def __post_init__(self) -> None:
        if type(self.base) not in (int, float) or not 1 < self.base < math.inf:
            raise PolicyError(f"base: {literal(self.base)}, expected a finite number above 1")


ALL_RULES = RankingRules()

_BY_READINESS = frozenset({PodRule.READY_TIME, PodRule.UID})
_BY_CREATION = frozenset({PodRule.CREATION_TIME, PodRule.UID, PodRule.CACHE})


class VictimRanking(Struct, frozen=True):
    """`victims`: first to go first; `order`: all active pods in that order, also when all of them go.

    `certain`: every order in which the controller may compare the pods gives the same set of victims. `rules` and
    `age_ratios` have an entry for each victim: what puts it before the first pod that stays, and its age over that of
    the youngest Ready pod that is left when its turn comes (None where age did not put it there).
    """

    victims: tuple[Pod, ...]
    order: tuple[Pod, ...]
    certain: bool
    rules: tuple[PodRule, ...]
    age_ratios: tuple[float | None, ...]


def rank_victims(
    pods: Sequence[Pod],
    count: int,
    *,
    now_ns: int,
    siblings: Sequence[Pod] | None = (),
    rules: RankingRules = ALL_RULES,
) -> VictimRanking:
    """Return which `count` of the active `pods` of one ReplicaSet go (none where it is below 0), and the order of all.

    `pods` in the order the controller lists them; `now_ns` in nanoseconds since the epoch. `siblings` are the pods of
    the other ReplicaSets of the same Deployment, each counted; None: no Deployment, so colocation does not count.

    The relation "goes before" has cycles and ties that are not transitive, so the controller's result may depend on the
    order in which its cache lists the pods. Certain is a set of victims of which every one goes strictly before every
    pod that stays: then no sort that leaves no neighbours the wrong way round can end otherwise. In any other set some
    chain of neighbours leads from a pod that stays back to a victim; both are in one strongly connected part of the
    relation "not after", such a part has a cycle through all of its pods, and each of its rotations is a finished sort
    with other victims.
    """
    count = max(0, count)
    measure = Measure(now_ns, rules)
    active = [pod for pod in pods if pod.is_active]
    placed = list(_in_order(active, siblings, measure))
    order = tuple([pod for _, pod in placed])
    if count >= len(active):
        return VictimRanking(tuple(active), order, True, (PodRule.ALL,) * len(active), (None,) * len(active))
    going, staying = placed[:count], placed[count:]
    certain, why = _is_certain(going, staying, measure), tuple(_reasons(going, staying, measure))
    return VictimRanking(order[:count], order, certain, why, _age_ratios(placed, why, now_ns))


def goes_first(pod: Pod) -> bool:
    """Return whether an active `pod` goes before all that run and are Ready, whatever its cost."""
    return not pod.node or pod.phase != "Running" or not pod.ready


def _in_order(active: Sequence[Pod], siblings: Sequence[Pod] | None, measure: Measure) -> Iterator[_Placed]:
    """Yield the pods in order: none follows one that it goes before."""
    on_node: Counter[str] = Counter()
    if siblings is not None:
        on_node.update(pod.node for pod in active)
        on_node.update(pod.node for pod in siblings if pod.is_active)
    buckets: dict[_Bucket, list[Pod]] = {}
    for pod in active:
        buckets.setdefault(measure.bucket(pod, on_node[pod.node]), []).append(pod)
    for bucket in sorted(buckets):
        yield from zip(repeat(bucket), _merged(buckets[bucket], measure))


def _merged(pods: Iterable[Pod], measure: Measure) -> list[Pod]:
    """Return the pods of one bucket in order.

    Pods with different times Ready compare by uid alone, those with the same by the rules after it: so the sorted runs
    of equal times are merged by the uid at their heads. That merge is a sort by the highest uid so far in the run.
    """
    runs = _by_time(pods)
    ordered: list[Pod] = []
    highest: list[str] = []
    for since in sorted(runs):
        top = ""
        for pod in _sorted(runs[since], measure):
            top = max(top, pod.uid)
            ordered.append(pod)
            highest.append(top)
    return [ordered[position] for position in sorted(range(len(ordered)), key=highest.__getitem__)]


def _sorted(run: list[Pod], measure: Measure) -> list[Pod]:
    """Return pods of one bucket and one time Ready in order."""
    if len(run) == 1:
        return run
    return sorted(run, key=lambda pod: (*measure.later(pod), pod.uid, pod.name))


def _by_time(pods: Iterable[Pod]) -> dict[int, list[Pod]]:
    found: dict[int, list[Pod]] = {}
    for pod in pods:
        found.setdefault(_since_of(pod), []).append(pod)
    return found


def _reasons(going: Iterable[_Placed], staying: Sequence[_Placed], measure: Measure) -> Iterator[PodRule]:
    """Yield what puts each victim before the first pod that stays."""
    edge, first = staying[0]
    for bucket, part in groupby(going, itemgetter(0)):
        victims = [pod for _, pod in part]
        if bucket != edge:
            yield from repeat(first_difference(bucket, edge, BUCKET_RULES), len(victims))
        else:
            yield from (measure.rule(victim, first) for victim in victims)


def _is_certain(going: Iterable[_Placed], staying: Sequence[_Placed], measure: Measure) -> bool:
    """Return whether each victim is strictly before each pod that stays; only the bucket of the cut can say no."""
    edge = staying[0][0]
    last, first = (_by_time(pod for bucket, pod in pods if bucket == edge) for pods in (going, staying))
    highest = {since: max([pod.uid for pod in run]) for since, run in last.items()}
    lowest = {since: min([pod.uid for pod in run]) for since, run in first.items()}
    if not _apart_by_uid(highest, lowest):
        return False
    return all(_apart_by_later_rules(last[since], first[since], measure) for since in last.keys() & first.keys())


def _apart_by_uid(highest: Mapping[int, str], lowest: Mapping[int, str]) -> bool:
    """Return whether the highest uids of those that go are below the lowest of those that stay at any other time."""
    top = nlargest(2, highest.items(), key=itemgetter(1))
    return all(uid < low for since, low in lowest.items() for at, uid in top if at != since)


def _apart_by_later_rules(last: Sequence[Pod], first: Sequence[Pod], measure: Measure) -> bool:
    """Return whether each of `last` is strictly before each of `first`; all have one time Ready and are in order."""
    edge = max(map(measure.later, last))
    before, after = ([pod for pod in group if measure.later(pod) == edge] for group in (last, first))
    if {pod.created_ns for pod in before} & {pod.created_ns for pod in after}:
        return False
    return not after or max(pod.uid for pod in before) < min(pod.uid for pod in after)


def _age_ratios(placed: Sequence[_Placed], why: Sequence[PodRule], now_ns: int) -> tuple[float | None, ...]:
    """Return for each victim its age over that of the youngest Ready pod among itself and those left beside it.

    The age is the one by which they are compared: since they are Ready, and since their creation only among pods that
    all rules before that one leave alike.

    Source: seed kep-2185-random-pod-selection.md, Monitoring Requirements, sorting_deletion_age_ratio: "the current
    youngest pod", so that each of several victims is measured when its turn comes.
    """
    youngest: dict[Hashable, int] = {}
    ratios: list[float | None] = []
    for rule, (bucket, pod) in reversed(list(zip_longest(why, placed))):
        ready = (bucket[:-1], pod.ready_since_ns)
        created = ((bucket, pod.ready_since_ns, pod.restarts, pod.sidecar_restarts), pod.created_ns)
        for alike, since in (ready, created):
            youngest[alike] = max(youngest.get(alike, 0), since or 0)
        if rule is None:  # it stays
            continue
        found = [
            (now_ns - since) / (now_ns - youngest[alike])
            for alike, since, rules in ((*ready, _BY_READINESS), (*created, _BY_CREATION))
            if rule in rules and pod.ready and since is not None and youngest[alike] < now_ns
        ]
        ratios.append(max(found, default=None))
    return tuple(reversed(ratios))


# The rules by which one pod goes before another.


def deletion_cost(text: str | None) -> int:
    """Return the cost that the controller reads from the annotation's text; 0 for none and for what it refuses.

    Source: kubernetes pkg/apis/core/v1/helper/helpers.go, GetDeletionCostFromPodAnnotations.
    """
    if text is None or not re.fullmatch(_COST, text):
        return 0
    size = whole_number_in(text.removeprefix("-")) or 0
    cost = -size if text.startswith("-") else size
    return cost if -(1 << 31) <= cost < 1 << 31 else 0


def _since_of(pod: Pod) -> int:
    """Return since when `pod` is Ready; before all times where it is not or where that is not known."""
    return _NEVER if pod.ready_since_ns is None or not pod.ready else pod.ready_since_ns


class Measure:
    """Pods by the rules at one time. Pods of one bucket with different times Ready compare by uid alone, those with the
    same by what is `later`.
    """

    def __init__(self, now_ns: int, rules: RankingRules) -> None:
        self._rules = rules
        self._scale = _scale_at(now_ns, rules)

    def bucket(self, pod: Pod, rank: int) -> _Bucket:
        """Return the bucket of a pod with `rank` active pods on its node."""
        cost = deletion_cost(pod.deletion_cost) if self._rules.deletion_cost else 0
        scale = self._scale(pod.ready_since_ns) if pod.ready else 0
        return (pod.node != "", _PHASES.get(pod.phase, 0), pod.ready, cost, -rank, scale)

    def later(self, pod: Pod) -> tuple[int, int, int]:
        """Return a pod by the rules after the time Ready; lower goes first."""
        sidecars = pod.sidecar_restarts if self._rules.sidecar_restarts else 0
        return (-pod.restarts, -sidecars, self._scale(pod.created_ns))

    def rule(self, one: Pod, other: Pod) -> PodRule:
        """Return what puts `one` before another pod of its bucket, CACHE where nothing does."""
        if _since_of(one) == _since_of(other):
            first, second = self.later(one), self.later(other)
            if first != second:
                return first_difference(first, second, _LATER_RULES) if first < second else PodRule.CACHE
            if one.created_ns == other.created_ns:
                return PodRule.CACHE
        return PodRule.UID if one.uid < other.uid else PodRule.CACHE


def first_difference(one: Sequence[int], other: Sequence[int], rules: Sequence[PodRule]) -> PodRule:
    """Return the rule by which two pods differ first."""
    return next(rule for rule, part, opposite in zip(rules, one, other, strict=True) if part != opposite)


def _scale_at(now_ns: int, rules: RankingRules) -> Callable[[int | None], int]:
    """Return the scale by which times are compared: lower goes first, a missing time before all."""
    if not rules.logarithmic:
        return lambda at: _NEVER if at is None else -at
    return lambda at: _NEVER if at is None else age_scale(now_ns - at, rules.base)


# Ages on a logarithmic scale, as KEP-2185 compares them.

_DIGITS = 60  # enough to distinguish any power of a base from any int64 of nanoseconds
_DOUBT = 1e-9  # a floating logarithm this close to a whole number is settled by exact arithmetic


def age_scale(age_ns: int, base: float) -> int:
    """Return `floor(log(age_ns))` to `base`; -1 for an age of 0 or less.

    Exact for every base; `math.e` stands for e itself, not for the nearest float.

    Source: seed kep-2185-random-pod-selection.md, Design Details; kubernetes pkg/controller/controller_utils.go,
    logarithmicRankDiff (base 2).
    """
    if age_ns <= 0:
        return -1
    if base == 2:
        return age_ns.bit_length() - 1
    estimate = math.log(age_ns) / math.log(base)
    nearest = round(estimate)
    if abs(estimate - nearest) > _DOUBT * max(1.0, estimate):
        return math.floor(estimate)
    return nearest if _exact_power(base, nearest) <= age_ns else nearest - 1


def _exact_power(base: float, exponent: int) -> Decimal:
    with localcontext() as context:
        context.prec = _DIGITS
        return Decimal(exponent).exp() if base == math.e else Decimal(base) ** exponent
