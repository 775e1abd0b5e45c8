"""Which pods go first when a ReplicaSet shrinks: the order of the ReplicaSet controller, and how certain it is.

Source: kubernetes pkg/controller/controller_utils.go, ActivePodsWithRanks.Less; pkg/controller/replicaset/
replica_set.go, getPodsToDelete and getPodsRankedByRelatedPodsOnSameNode.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from operator import itemgetter
from typing import NamedTuple

from reconciler.decide.ages import age_scale
from reconciler.model import Pod

VICTIM_LABEL = "reconciler/victim"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER = -(1 << 100)  # before every time and every age
_COST = re.compile(r"-[0-9]+|0|[1-9][0-9]*")


class Rule(StrEnum):
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


AGE_RULES = frozenset({Rule.READY_TIME, Rule.CREATION_TIME, Rule.UID, Rule.CACHE})


@dataclass(frozen=True, slots=True)
class RankingRules:
    """`logarithmic` False compares times plainly, newest first; `base` is the logarithm's. False leaves a rule out."""

    logarithmic: bool = True
    base: float = 2
    deletion_cost: bool = True
    sidecar_restarts: bool = True


@dataclass(frozen=True, slots=True)
class VictimRanking:
    """`victims`: first to go first; `order`: all active pods in that order, also when all of them go.

    `certain`: every order in which the controller may compare the pods gives the same set of victims. `rules` and
    `age_ratios` have an entry for each victim: what puts it before the first pod that stays, and its age over that of
    the youngest Ready pod (None where age did not put it there).
    """

    victims: tuple[Pod, ...]
    order: tuple[Pod, ...]
    certain: bool
    rules: tuple[Rule, ...]
    age_ratios: tuple[float | None, ...]

    @property
    def sorting_deletion_age_ratio(self) -> float | None:
        """The highest of `age_ratios`; None where age put no victim there. Source: seed KEP-2185, Monitoring."""
        return max((ratio for ratio in self.age_ratios if ratio is not None), default=None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sign` is negative when the first pod goes before the second, positive when after it, 0 for neither."""

    sign: int
    rule: Rule


_Bucket = tuple[bool, int, bool, int, int, int]


class _Standing(NamedTuple):
    """Where a pod stands; lower goes first. Pods of one bucket with different `ready_since` compare by uid alone."""

    bucket: _Bucket  # by _BUCKET_RULES; the last is the scale of the time Ready
    ready_since: int
    later: tuple[int, int, int]  # by _LATER_RULES
    uid: str
    created: int
    name: str


_BUCKET_RULES = (Rule.UNASSIGNED, Rule.PHASE, Rule.NOT_READY, Rule.COST, Rule.COLOCATION, Rule.READY_TIME)
_LATER_RULES = (Rule.RESTARTS, Rule.SIDECAR_RESTARTS, Rule.CREATION_TIME)


def rank_victims(
    pods: Sequence[Pod],
    count: int,
    *,
    now_ns: int,
    siblings: Sequence[Pod] | None = (),
    rules: RankingRules = RankingRules(),
) -> VictimRanking:
    """Return which `count` of the active `pods` of one ReplicaSet go, and the order of all of them.

    `pods` in the order the controller lists them; `now_ns` in nanoseconds since the epoch. `siblings` are the pods of
    the other ReplicaSets of the same Deployment, each counted; None: no Deployment, so colocation does not count.

    The relation "goes before" has cycles and ties that are not transitive, so the controller's result may depend on the
    order in which its cache lists the pods. Certain is a set of victims of which every one goes strictly before every
    pod that stays: then no sort that leaves no neighbours the wrong way round can end otherwise. In any other set some
    chain of neighbours leads from a pod that stays back to a victim; both are in one strongly connected part of the
    relation "not after", such a part has a cycle through all of its pods, and each of its rotations is a finished sort
    with other victims.
    """
    active = [pod for pod in pods if is_active(pod)]
    standings = _standings(active, siblings, now_ns, rules)
    ordered = _ordered(standings)
    order = tuple(active[position] for position in ordered)
    if count >= len(active):
        return VictimRanking(tuple(active), order, True, (Rule.ALL,) * len(active), (None,) * len(active))
    count = max(0, count)
    going, staying = [standings[at] for at in ordered[:count]], [standings[at] for at in ordered[count:]]
    why = tuple(_reasons(going, staying[0]))
    return VictimRanking(order[:count], order, _is_certain(going, staying), why, _age_ratios(order, why, now_ns))


def compare(
    left: Pod, right: Pod, *, ranks: tuple[int, int] = (0, 0), now_ns: int, rules: RankingRules = RankingRules()
) -> Comparison:
    """Return which of two pods goes first; `ranks` are the numbers of active pods on their nodes."""
    standing = _standing_at(now_ns, rules)
    return _compared(standing(left, ranks[0]), standing(right, ranks[1]))


def is_active(pod: Pod) -> bool:
    """Return whether `pod` counts as a replica: it has not ended and is not being deleted."""
    return not pod.terminating and pod.phase not in ("Succeeded", "Failed")


def goes_first(pod: Pod) -> bool:
    """Return whether an active `pod` goes before all that run and are Ready, whatever its cost."""
    return not pod.node or pod.phase != "Running" or not pod.ready


def deletion_cost(text: str | None) -> int:
    """Return the cost that the controller reads from the annotation's text; 0 for none and for what it refuses.

    Source: kubernetes pkg/apis/core/v1/helper/helpers.go, GetDeletionCostFromPodAnnotations.
    """
    if text is None or not _COST.fullmatch(text) or len(text.lstrip("-0")) > 10:
        return 0
    cost = int(text)
    return cost if -(1 << 31) <= cost < 1 << 31 else 0


def _standings(
    active: Sequence[Pod], siblings: Sequence[Pod] | None, now_ns: int, rules: RankingRules
) -> list[_Standing]:
    standing = _standing_at(now_ns, rules)
    if siblings is None:
        return [standing(pod, 0) for pod in active]
    on_node = Counter(pod.node for pod in active)
    on_node.update(pod.node for pod in siblings if is_active(pod))
    return [standing(pod, on_node[pod.node]) for pod in active]


def _standing_at(now_ns: int, rules: RankingRules) -> Callable[[Pod, int], _Standing]:
    scale = _scale_at(now_ns, rules)

    def standing(pod: Pod, rank: int) -> _Standing:
        since = pod.ready_since_ns if pod.ready else None
        cost = deletion_cost(pod.deletion_cost) if rules.deletion_cost else 0
        sidecars = pod.sidecar_restarts if rules.sidecar_restarts else 0
        return _Standing(
            (pod.node != "", _PHASES.get(pod.phase, 0), pod.ready, cost, -rank, scale(since)),
            _NEVER if since is None else since,
            (-pod.restarts, -sidecars, scale(pod.created_ns)),
            pod.uid,
            _NEVER if pod.created_ns is None else pod.created_ns,
            pod.name,
        )

    return standing


def _scale_at(now_ns: int, rules: RankingRules) -> Callable[[int | None], int]:
    """Return what times are compared by: lower goes first, a missing time before all."""
    if not rules.logarithmic:
        return lambda at: _NEVER if at is None else -at
    if rules.base == 2:
        return lambda at: _NEVER if at is None else (now_ns - at).bit_length() - 1 if at < now_ns else -1
    return lambda at: _NEVER if at is None else age_scale(now_ns - at, rules.base)


def _ordered(standings: Sequence[_Standing]) -> list[int]:
    """Return the positions of `standings` so that no pod follows one that it goes before."""
    buckets: dict[_Bucket, list[int]] = {}
    for position, one in enumerate(standings):
        buckets.setdefault(one.bucket, []).append(position)
    return [position for bucket in sorted(buckets) for position in _merged(buckets[bucket], standings)]


def _merged(positions: Sequence[int], standings: Sequence[_Standing]) -> list[int]:
    """Return one bucket's positions in order.

    Pods of different `ready_since` compare by uid alone, those of the same by the rules after it: so the sorted runs of
    equal `ready_since` are merged by the uid at their heads. That merge is a sort by the highest uid so far in the run.
    """
    runs: dict[int, list[int]] = {}
    for position in positions:
        runs.setdefault(standings[position].ready_since, []).append(position)
    keyed: list[tuple[str, int, int]] = []
    for since, run in runs.items():
        top = ""
        for position in run if len(run) == 1 else sorted(run, key=lambda at: standings[at][2:]):
            top = max(top, standings[position].uid)
            keyed.append((top, since, position))
    keyed.sort(key=itemgetter(0, 1))
    return [position for _, _, position in keyed]


def _compared(left: _Standing, right: _Standing) -> Comparison:
    if left.bucket != right.bucket:
        return _by_first_difference(left.bucket, right.bucket, _BUCKET_RULES)
    if left.ready_since != right.ready_since:
        return _by_uid(left, right)
    if left.later != right.later:
        return _by_first_difference(left.later, right.later, _LATER_RULES)
    if left.created != right.created:
        return _by_uid(left, right)
    return Comparison(0, Rule.CACHE)


def _by_first_difference(left: Sequence[int], right: Sequence[int], rules: Sequence[Rule]) -> Comparison:
    at = next(position for position, one in enumerate(left) if one != right[position])
    return Comparison(-1 if left[at] < right[at] else 1, rules[at])


def _by_uid(left: _Standing, right: _Standing) -> Comparison:
    if left.uid == right.uid:
        return Comparison(0, Rule.CACHE)
    return Comparison(-1 if left.uid < right.uid else 1, Rule.UID)


def _reasons(going: Sequence[_Standing], first_to_stay: _Standing) -> Iterator[Rule]:
    """Yield what puts each of `going` before the first pod that stays."""
    known: dict[_Bucket, Rule] = {}
    for victim in going:
        if victim.bucket != first_to_stay.bucket and victim.bucket in known:
            yield known[victim.bucket]
            continue
        compared = _compared(victim, first_to_stay)
        known[victim.bucket] = compared.rule if compared.sign < 0 else Rule.CACHE
        yield known[victim.bucket]


def _is_certain(going: Sequence[_Standing], staying: Sequence[_Standing]) -> bool:
    """Return whether all of `going` are strictly before all of `staying`; only the bucket of the cut can say no."""
    bucket = staying[0].bucket
    last = list(takewhile(lambda one: one.bucket == bucket, reversed(going)))
    first = list(takewhile(lambda one: one.bucket == bucket, staying))
    if not _apart_by_uid(last, first):
        return False
    last_at, first_at = _by_time(last), _by_time(first)
    return all(_apart_by_later_rules(last_at[since], first_at[since]) for since in last_at.keys() & first_at.keys())


def _by_time(standings: Iterable[_Standing]) -> dict[int, list[_Standing]]:
    found: dict[int, list[_Standing]] = {}
    for one in standings:
        found.setdefault(one.ready_since, []).append(one)
    return found


def _apart_by_uid(last: Sequence[_Standing], first: Sequence[_Standing]) -> bool:
    """Return whether each of `last` has a smaller uid than each of `first` with another `ready_since`."""
    highest: dict[int, str] = {}
    for one in last:
        highest[one.ready_since] = max(one.uid, highest.get(one.ready_since, one.uid))
    top = sorted(highest.items(), key=itemgetter(1), reverse=True)[:2]
    return all(uid < one.uid for one in first for uid in [uid for since, uid in top if since != one.ready_since][:1])


def _apart_by_later_rules(last: Sequence[_Standing], first: Sequence[_Standing]) -> bool:
    """Return whether each of `last` is strictly before each of `first`; all have the same `ready_since`, in order."""
    edge = max(one.later for one in last)
    before, after = ([one for one in group if one.later == edge] for group in (last, first))
    if {one.created for one in before} & {one.created for one in after}:
        return False
    return not after or max(one.uid for one in before) < min(one.uid for one in after)


def _age_ratios(order: Sequence[Pod], why: Sequence[Rule], now_ns: int) -> tuple[float | None, ...]:
    youngest = max((pod.created_ns for pod in order if pod.ready and pod.created_ns is not None), default=now_ns)
    return tuple(
        (now_ns - pod.created_ns) / (now_ns - youngest)
        if rule in AGE_RULES and pod.ready and pod.created_ns is not None and youngest < now_ns
        else None
        for pod, rule in zip(order, why, strict=False)
    )
