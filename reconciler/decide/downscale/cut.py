"""Which pods go where the choice is ours: who may be chosen, how many, and the choice itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace

from reconciler.decide.annotations import VICTIM_COST
from reconciler.decide.decisions import DownscaleSettings
from reconciler.decide.downscale.groups import Group
from reconciler.decide.victim_rules import RankingRules, deletion_cost
from reconciler.decide.victims import goes_first, rank_victims
from reconciler.errors import PickerError
from reconciler.model import PickerAnswer, PickerRequest, Pod, PodPicker

_CHOSEN, _TIED, _OTHER = 0, 1, 3  # ranks, source: seed downscale-pod-picker.md, Controller Behaviour Changes


@dataclass(frozen=True, slots=True)
class Cut:
    """How a group shrinks: `count` pods go, before all others those of `first` that are not Running and Ready.

    `candidates` are the others, in the controller's order. `requested` of them are ours to choose where it is `open`;
    elsewhere there is no choice: those of `first` suffice, or everything goes.
    """

    count: int
    first: tuple[Pod, ...]
    candidates: tuple[Pod, ...]

    @property
    def requested(self) -> int:
        return self.count - len(self.first)

    @property
    def open(self) -> bool:
        return 0 < self.requested < len(self.candidates)


def cut_of(group: Group, target: int, *, now_ns: int, rules: RankingRules) -> Cut:
    """Return the cut that leaves `target` of the active pods of `group`."""
    order = rank_victims(group.pods, 0, now_ns=now_ns, siblings=group.siblings, rules=rules).order
    return Cut(
        count=max(0, len(order) - target),
        first=tuple(pod for pod in order if goes_first(pod)),
        candidates=tuple(pod for pod in order if not goes_first(pod)),
    )


def rules_of(settings: DownscaleSettings) -> RankingRules:
    """Return the rules by which we put pods in order; a picker's ranks stand in for the cost and what is before it."""
    return RankingRules(
        logarithmic=settings.strategy != "NewestFirst",
        base=settings.logarithm_base,
        deletion_cost=settings.picker is None,
    )


def question_of(cut: Cut, picker: PodPicker, namespace: str) -> PickerRequest:
    """Return what the picker is asked."""
    return PickerRequest(picker, namespace, cut.requested, tuple(sorted(pod.name for pod in cut.candidates)))


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidates, and what a person should know of how."""

    pods: tuple[Pod, ...]
    note: str = ""
    picker_failed: bool = False


def picked(cut: Cut, answer: PickerAnswer, picker: PodPicker) -> Choice | None:
    """Return the candidates that `answer` names, None where it has no opinion.

    Chosen before tied before all others; among equals at the cut the controller's order decides.

    Raises:
        PickerError: it names too few, and the picker's `on_too_few` is reject.
    """
    ranks = dict.fromkeys(answer.tied, _TIED) | dict.fromkeys(answer.chosen, _CHOSEN)
    if not ranks:
        return None
    if len(ranks) < cut.requested and picker.on_too_few == "reject":
        raise PickerError(
            f"pod picker {picker.host}: names {len(ranks)} pods, expected at least {cut.requested} (onTooFew: reject)"
        )
    in_order = sorted(cut.candidates, key=lambda pod: ranks.get(pod.name, _OTHER))
    taken, left = in_order[: cut.requested], in_order[cut.requested :]
    last, next_ = ranks.get(taken[-1].name, _OTHER), ranks.get(left[0].name, _OTHER)
    if last == _OTHER:
        note = f"the picker named {len(ranks)} of {cut.requested}, the controller's order filled up"
    else:
        note = "a tie at the cut was broken by the controller's order" if last == next_ else ""
    return Choice(tuple(taken), note)


def balanced(cut: Cut, domains: Mapping[str, str]) -> Choice:
    """Return candidates so that those that stay are spread over their domains as evenly as can be.

    `domains` maps a node to its domain; nodes without one are one domain together. Each time a pod of the largest
    domain goes, of equally large ones of that whose next pod is first in the controller's order.
    """
    queues: dict[str, deque[tuple[int, Pod]]] = {}
    for position, pod in enumerate(cut.candidates):
        queues.setdefault(domains.get(pod.node, ""), deque()).append((position, pod))
    heap = [(-len(queue), queue[0][0], domain) for domain, queue in queues.items()]
    heapify(heap)
    taken: list[Pod] = []
    while len(taken) < cut.requested:
        queue = queues[heap[0][2]]
        taken.append(queue.popleft()[1])
        heapreplace(heap, (-len(queue), queue[0][0] if queue else 0, heap[0][2]))
    return Choice(tuple(taken))


def without_domains(cut: Cut, domains: Mapping[str, str], key: str) -> str:
    """Return why there is nothing to balance, "" where at least one candidate's node has a domain."""
    if any(pod.node in domains for pod in cut.candidates):
        return ""
    return f"none of its nodes has the label {key}, so there is nothing to balance"


def first_of(cut: Cut) -> Choice:
    """Return the candidates that are first in the order of the cut."""
    return Choice(cut.candidates[: cut.requested])


def foreign_costs(cut: Cut, victims: Sequence[Pod]) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Return the pods whose cost somebody else wrote and that are in the way: victims, and pods that stay.

    A pod that stays is in the way when its cost is not above the mark: the controller would take it as well.
    """
    names = {pod.uid for pod in victims}
    marked = tuple(pod for pod in victims if pod.deletion_cost is not None)
    return marked, tuple(
        pod for pod in cut.candidates if pod.uid not in names and deletion_cost(pod.deletion_cost) <= int(VICTIM_COST)
    )


def without_cost(pods: Sequence[Pod], former: Mapping[str, str | None]) -> tuple[Pod, ...]:
    """Return `pods` with the costs they had before we marked them; `former` is by uid."""
    return tuple(replace(pod, deletion_cost=former[pod.uid]) if pod.uid in former else pod for pod in pods)
