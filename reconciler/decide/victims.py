"""Which pods go first when a ReplicaSet shrinks: the order of the ReplicaSet controller, and how certain it is.

Source: kubernetes pkg/controller/replicaset/replica_set.go, getPodsToDelete and getPodsRankedByRelatedPodsOnSameNode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import repeat
from operator import itemgetter

from reconciler.decide.victim_rules import (
    ALL_RULES,
    Bucket,
    Comparison,
    Measure,
    RankingRules,
    Rule,
    by_bucket,
    since_of,
)
from reconciler.model import Pod

AGE_RULES = frozenset({Rule.READY_TIME, Rule.CREATION_TIME, Rule.UID, Rule.CACHE})


@dataclass(frozen=True, slots=True)
class VictimRanking:
    """`victims`: first to go first; `order`: all active pods in that order, also when all of them go.

    `certain`: every order in which the controller may compare the pods gives the same set of victims. `rules` and
    `age_ratios` have an entry for each victim: what puts it before the first pod that stays, and its age over that of
    the youngest Ready pod that is left when its turn comes (None where age did not put it there).
    """

    victims: tuple[Pod, ...]
    order: tuple[Pod, ...]
    certain: bool
    rules: tuple[Rule, ...]
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
    active = [pod for pod in pods if is_active(pod)]
    parts = list(_parts(active, siblings, measure))
    order = tuple(pod for _, part in parts for pod in part)
    if count >= len(active):
        return VictimRanking(tuple(active), order, True, (Rule.ALL,) * len(active), (None,) * len(active))
    edge = _edge_of(parts, count)
    why = tuple(_reasons(parts, edge, measure))
    return VictimRanking(order[: len(why)], order, _is_certain(edge, measure), why, _age_ratios(order, why, now_ns))


def compare(
    left: Pod, right: Pod, *, ranks: tuple[int, int] = (0, 0), now_ns: int, rules: RankingRules = ALL_RULES
) -> Comparison:
    """Return which of two pods goes first; `ranks` are the numbers of active pods on their nodes."""
    measure = Measure(now_ns, rules)
    one, other = measure.bucket(left, ranks[0]), measure.bucket(right, ranks[1])
    return by_bucket(one, other) if one != other else measure.in_bucket(left, right)


def is_active(pod: Pod) -> bool:
    """Return whether `pod` counts as a replica: it has not ended and is not being deleted."""
    return not pod.terminating and pod.phase not in ("Succeeded", "Failed")


def goes_first(pod: Pod) -> bool:
    """Return whether an active `pod` goes before all that run and are Ready, whatever its cost."""
    return not pod.node or pod.phase != "Running" or not pod.ready


def _parts(
    active: Sequence[Pod], siblings: Sequence[Pod] | None, measure: Measure
) -> Iterator[tuple[Bucket, list[Pod]]]:
    """Yield the buckets in order, each with its pods in order: no pod follows one that it goes before."""
    on_node: Counter[str] = Counter()
    if siblings is not None:
        on_node.update(pod.node for pod in active)
        on_node.update(pod.node for pod in siblings if is_active(pod))
    buckets: dict[Bucket, list[Pod]] = {}
    for pod in active:
        buckets.setdefault(measure.bucket(pod, on_node[pod.node]), []).append(pod)
    for bucket in sorted(buckets):
        yield bucket, _merged(buckets[bucket], measure)


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
    return sorted(run, key=lambda pod: (*measure.later(pod), pod.uid, pod.created_ns or 0, pod.name))


def _by_time(pods: Iterable[Pod]) -> dict[int, list[Pod]]:
    found: dict[int, list[Pod]] = {}
    for pod in pods:
        found.setdefault(since_of(pod), []).append(pod)
    return found


@dataclass(frozen=True, slots=True)
class _Edge:
    """The bucket of the first pod that stays: its pods that go, and those that stay."""

    bucket: Bucket
    last: list[Pod]
    first: list[Pod]


def _edge_of(parts: Iterable[tuple[Bucket, list[Pod]]], count: int) -> _Edge:
    left = count
    for bucket, part in parts:
        if left < len(part):
            return _Edge(bucket, part[:left], part[left:])
        left -= len(part)
    raise ValueError(f"count is {count}, expected fewer than there are pods")


def _reasons(parts: Iterable[tuple[Bucket, list[Pod]]], edge: _Edge, measure: Measure) -> Iterator[Rule]:
    """Yield what puts each victim before the first pod that stays."""
    for bucket, part in parts:
        if bucket < edge.bucket:
            yield from repeat(by_bucket(bucket, edge.bucket).rule, len(part))
    for victim in edge.last:
        compared = measure.in_bucket(victim, edge.first[0])
        yield compared.rule if compared.sign < 0 else Rule.CACHE


def _is_certain(edge: _Edge, measure: Measure) -> bool:
    """Return whether each victim is strictly before each pod that stays; only the bucket of the cut can say no."""
    highest: dict[int, str] = {}
    for pod in edge.last:
        since = since_of(pod)
        highest[since] = max(pod.uid, highest.get(since, pod.uid))
    lowest: dict[int, str] = {}
    for pod in edge.first:
        since = since_of(pod)
        lowest[since] = min(pod.uid, lowest.get(since, pod.uid))
    if not _apart_by_uid(highest, lowest):
        return False
    shared = highest.keys() & lowest.keys()
    last, first = (_by_time(pod for pod in pods if since_of(pod) in shared) for pods in (edge.last, edge.first))
    return all(_apart_by_later_rules(last[since], first[since], measure) for since in shared)


def _apart_by_uid(highest: Mapping[int, str], lowest: Mapping[int, str]) -> bool:
    """Return whether the highest uids of those that go are below the lowest of those that stay at any other time."""
    top = nlargest(2, highest.items(), key=itemgetter(1))
    return all(uid < low for since, low in lowest.items() for uid in [uid for at, uid in top if at != since][:1])


def _apart_by_later_rules(last: Sequence[Pod], first: Sequence[Pod], measure: Measure) -> bool:
    """Return whether each of `last` is strictly before each of `first`; all have one time Ready and are in order."""
    edge = max(map(measure.later, last))
    before, after = ([pod for pod in group if measure.later(pod) == edge] for group in (last, first))
    if {pod.created_ns for pod in before} & {pod.created_ns for pod in after}:
        return False
    return not after or max(pod.uid for pod in before) < min(pod.uid for pod in after)


def _age_ratios(order: Sequence[Pod], why: Sequence[Rule], now_ns: int) -> tuple[float | None, ...]:
    """Return for each victim its age over that of the youngest Ready pod among itself and those after it.

    Source: seed kep-2185-random-pod-selection.md, Monitoring Requirements, sorting_deletion_age_ratio: "the current
    youngest pod", so that each of several victims is measured when its turn comes.
    """
    youngest: list[int] = []
    for pod in reversed(order):
        born = pod.created_ns if pod.ready and pod.created_ns is not None else 0
        youngest.append(max(born, youngest[-1] if youngest else 0))
    youngest.reverse()
    return tuple(
        (now_ns - pod.created_ns) / (now_ns - born)
        if rule in AGE_RULES and pod.ready and pod.created_ns is not None and born < now_ns
        else None
        for pod, rule, born in zip(order, why, youngest, strict=False)
    )
