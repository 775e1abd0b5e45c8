"""The closed loop of all three jobs: real plans, carried out on clusters in memory, in the middle of everything
that happens to a Fleet. The laws are in `loop_laws`, the steps of histories in `loop_steps`.

    python -m tests.pipeline.test_closed_loop 1000 2000  plays the histories of these seeds and prints what breaks a law

What it prints is a history without the steps that it takes none of; it becomes an example below.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.laws import share_of
from tests.pipeline.loop_history import History, as_text, history, shrunk
from tests.pipeline.loop_steps import broken_law

pytestmark = pytest.mark.laws

PARTS = 4
SEEDS = share_of(36)
SOAKED = 10_000

EXAMPLES: dict[str, History] = {
    "fewer idleReplicas, and a Service in front, that a limit of replicas holds back": (
        ("idling", "a", 4), ("run", 130), ("run", 60), ("limits", 3), ("idling", "c", 10), ("run", 60),
    ),
    "what a removed policy released, in a cluster that the next one does not name": (
        ("spread", 9, 6), ("rest",), ("spread", None, 9), ("refuse", 5, (6, 8)), ("spread", 2, 1),
    ),
    "what is made anew, asleep, in a run that would repair its record": (
        ("spread", 6, 2), ("idling", "a", 3), ("run", 130), ("run", 1500), ("down", ("east", "west")), ("morning",),
        ("crash", 900, 5, (0,)), ("spread", 0, 2),
    ),
    "a selector that changes while what it selects wakes from idleReplicas": (
        ("spread", 9, 4), ("idling", "a", 8), ("crash", 1500, 2, ()), ("run", 900), ("idling", "b", 4), ("night",),
        ("spread", 6, 1), ("idling", "b", 1), ("run", 130),
    ),
    "a request that a run answered before it died": (
        ("idling", "a", 8), ("rest",), ("request", "east", "Service", "all"), ("crash", 1500, 5, (0,)), ("run", 400),
    ),
    "a request after a ScaledObject was deleted before KEDA acted": (
        ("idling", "a", 10), ("night",), ("keda", "delete"), ("request", "east", "Service", "queue"), ("run", 1500),
    ),
    "an autoscaler whose workload was deleted": (
        ("run", 900), ("idling", "a", 4), ("run", 5), ("delete", "east", "Deployment", "api"),
    ),
    "a ScaledObject that is deleted while it is paused": (
        ("idling", "a", 0), ("night",), ("run", 5), ("keda", "delete"), ("run", 5), ("idling", "a", None),
    ),
    "a ScaledObject that is made anew beside an idle target": (
        ("idling", "a", 5), ("run", 4000), ("run", 1), ("keda", "delete"), ("keda", "create"), ("rest",),
    ),
    "two policies with two idleReplicas, and a ScaledObject made anew": (
        ("idling", "a", 4), ("idling", "b", 0), ("night",), ("run", 900), ("keda", "delete"), ("keda", "create"),
        ("crash", 4000, 5, (0,)),
    ),
    "a ScaledObject that is deleted after a run could not clear its target": (
        ("idling", "b", 10), ("refuse", 1500, (4, 9, 10)), ("crash", 400, 9, ()), ("state", "west", "Leaving"),
        ("run", 1500), ("refuse", 400, (1, 3, 9, 10)), ("keda", "delete"),
    ),
    "one cluster is woken, its federated ReplicaSet is paused": (
        ("idling", "c", 0), ("night",), ("request", "north", "Deployment", "front"), ("front", 4, 8),
    ),
    "a wake in turns": (
        ("spread", 3, 8), ("idling", "a", 5), ("run", 0), ("night",), ("idling", "c", 7), ("run", 4000),
    ),
    "an idle that was cut off": (
        ("crash", 1500, 0, ()), ("idling", "b", 7), ("crash", 20, 7, (0,)), ("front", 4, 9),
    ),
    "a cluster that drains beside idle ones": (
        ("idling", "b", 5), ("state", "east", "Draining"), ("front", 3, 5), ("run", 130), ("run", 130),
    ),
    "a cluster that runs at idleReplicas already": (("idling", "a", 4), ("spread", 1, 4), ("night",)),
    "scaled between two runs that were cut off, and idled": (
        ("idling", "b", 7), ("run", 1500), ("night",), ("front", 1, 6), ("crash", 20, 9, (1,)),
        ("scale", "east", "Deployment", "front", 6, "argocd-controller"),
        ("scale", "north", "Deployment", "front", 1, "kubectl"), ("crash", 1, 3, ()), ("crash", 1500, 5, (0,)),
    ),
    "another selector when it would go idle": (
        ("spread", 6, 3), ("night",), ("idling", "c", 10), ("spread", 0, 0),
    ),
    "another selector while it is idle, and another record": (
        ("spread", 4, 8), ("idling", "a", 7), ("run", 0), ("night",), ("month",), ("spread", 6, 7),
    ),
    "another selector while it is idle, and somebody scales": (
        ("spread", 4, 8), ("idling", "a", 7), ("run", 0), ("night",), ("spread", 6, 7),
        ("scale", "west", "ReplicaSet", "spread", 6, "kubectl"),
    ),
    "another selector before the morning": (
        ("idling", "b", 10), ("spread", 3, 7), ("night",), ("morning",), ("spread", 6, 4), ("run", 4000),
    ),
    "somebody scales a workload while it goes idle": (
        ("idling", "a", 3), ("meddle", 400, 1, "east", "Deployment", "web", 5), ("run", 5), ("morning",),
    ),
    "an idle Deployment whose rollout is undone": (
        ("idling", "a", 3), ("rollout", "east", "Deployment", "web", True), ("night",), ("undo", "web"), ("run", 5),
        ("morning",),
    ),
    "what `oc idle` took down": (("idling", "a", 0), ("oc_idle", "web"), ("night",), ("morning",)),
    "a decrease is refused": (("spread", 1, 9), ("run", 130), ("spread", 2, 2), ("refuse", 400, (2, 7, 8))),
    "home is read-only, and another cluster refuses": (
        ("spread", 3, 7), ("state", "east", "ReadOnly"), ("refuse", 20, (0, 5, 10)),
    ),
    "a lower minimum that somebody raises, and another maximum": (
        ("idling", "c", 12), ("run", 0), ("night",), ("hpa", 3, 1), ("run", 400), ("morning",), ("night",), ("rest",),
    ),
    "a lower minimum, and another way to idle in the middle of the night": (
        ("idling", "c", 13), ("hpa", 3, 3), ("night",), ("idling", "c", 4), ("run", 130), ("rest",), ("morning",),
        ("night",), ("idling", "c", 13), ("rest",), ("idling", "c", None), ("rest",),
    ),
    "a federated ReplicaSet that moves while a limit holds back that it goes idle": (
        ("idling", "c", 0), ("run", 400), ("spread", 9, 6), ("run", 900), ("limits", 0),
        ("scale", "north", "ReplicaSet", "spread", 0, "argocd-controller"), ("crash", 400, 9, (1,)),
        ("refuse", 4000, (2, 6, 8, 11)), ("alone", 9), ("spread", 2, 6), ("refuse", 0, (1, 2, 4)),
    ),
}  # fmt: skip
"""Histories that broke a law once, or may."""


def failures(seeds: range) -> Iterator[str]:
    """Yield for each of `seeds` that breaks a law which, and the least history that does."""
    for seed in seeds:
        found = history(seed)
        broken = broken_law(found)
        if broken is not None:
            law = broken.law

            def breaks(shorter: History, law: int = law) -> bool:
                again = broken_law(shorter)
                return again is not None and again.law == law

            least = shrunk(found, breaks)
            yield f"seed {seed}: {broken_law(least)}\n{as_text(least)}"


@pytest.mark.parametrize("found", [pytest.param(found, id=name) for name, found in EXAMPLES.items()])
def test_what_broke_a_law_once_does_not_any_more(found: History) -> None:
    broken = broken_law(found)
    assert broken is None, broken


def parts(first: int, count: int) -> list[range]:
    return [range(first + count * part // PARTS, first + count * (part + 1) // PARTS) for part in range(PARTS)]


@pytest.mark.parametrize(
    "seeds",
    [*parts(0, SEEDS), *(pytest.param(part, marks=pytest.mark.soak) for part in parts(SEEDS, SOAKED))],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
def test_no_law_fails_in_random_histories(seeds: range) -> None:
    found = list(failures(seeds))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", range(share_of(8)))
def test_no_law_fails_where_an_autoscaler_goes_on_at_a_lower_minimum(seed: int) -> None:
    night: History = (("idling", "c", 12 + seed % 2), ("run", 0), ("night",), ("hpa", 1 + seed % 3, 3), ("run", 400))
    found = (*night, *history(seed))
    broken = broken_law(found)
    assert broken is None, f"{broken}\n{as_text(found)}"


if __name__ == "__main__":
    for text in failures(range(int(sys.argv[1]), int(sys.argv[2]))):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
