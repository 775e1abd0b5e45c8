"""Clusters on which deciding raises an unexpected error, a fault of ours, are unknown, so that the rest is decided."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from reconciler.errors import PolicyError, ReconcilerError, reason_of
from reconciler.model import ObservedState

T = TypeVar("T")

Names = frozenset[str]


def without_faulty(state: ObservedState, decide: Callable[[ObservedState], T]) -> tuple[ObservedState, T]:
    """Return the result of `decide`, and the state it is of.

    Where it fails unexpectedly, the clusters that make it fail are unknown in the returned state, with the reason;
    they are among its `wakes_only` where that much can be decided. Clusters are added half by half to those that are
    decided without an error, so each one left out fails together with those that are kept. That takes about
    2 * log2(clusters) decisions for each faulty cluster, and one where there is none.

    Raises:
        ReconcilerError: what `decide` raises on purpose is about the whole run. PolicyError: it fails unexpectedly
            without any cluster, so the policies are to blame.
    """
    made: list[T] = []
    reason = _fault(lambda whole: made.append(decide(whole)), state)
    if not reason:
        return state, made[0]
    every = {*state.clusters, *state.wakes_only}
    if nowhere := _fault(decide, _part(state, (), (), dict.fromkeys(every, reason))):
        raise PolicyError(f"the policies cannot be decided: {nowhere}; please report it")

    def whole_fault(names: Names) -> str:
        return _fault(decide, _part(state, names, (), dict.fromkeys(every - names, reason)))

    faulty: dict[str, str] = {}
    whole = _kept(sorted(state.clusters), whole_fault, faulty)
    why = {name: faulty.get(name) or state.unreachable.get(name, reason) for name in every - whole}

    def wakes_fault(names: Names) -> str:
        return _fault(decide, _part(state, whole, names, why))

    found = _part(state, whole, _kept(sorted(why), wakes_fault, {}), why)
    return found, decide(found)


def _kept(
    names: Sequence[str], fault: Callable[[Names], str], faulty: dict[str, str], kept: Names = frozenset()
) -> Names:
    """Return `kept` and those of `names` that can be decided with it; the others get their reason in `faulty`."""
    if not names:
        return kept
    reason = fault(kept.union(names))
    if not reason:
        return kept.union(names)
    if len(names) == 1:
        faulty[names[0]] = reason
        return kept
    middle = len(names) // 2
    return _kept(names[middle:], fault, faulty, _kept(names[:middle], fault, faulty, kept))


def _fault(decide: Callable[[ObservedState], T], state: ObservedState) -> str:
    """Return why `state` cannot be decided, "" where it can."""
    try:
        decide(state)
    except ReconcilerError:
        raise
    except Exception as error:  # noqa: BLE001 - the one place where what fails unexpectedly is traced to a cluster
        return reason_of(error)
    return ""


def _part(
    state: ObservedState, whole: Collection[str], wakes_only: Collection[str], why: Mapping[str, str]
) -> ObservedState:
    """Return `state` with only the clusters `whole`, and `wakes_only`; `why` says why the others are unknown."""
    observed = {**state.clusters, **state.wakes_only}
    return replace(
        state,
        clusters={name: found for name, found in state.clusters.items() if name in whole},
        wakes_only={name: found for name, found in observed.items() if name in wakes_only},
        unreachable={**state.unreachable, **why},
        answers={key: answer for key, answer in state.answers.items() if key.cluster not in why},
    )
