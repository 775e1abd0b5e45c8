"""Histories of a Fleet: lists of plain steps, drawn by seed, and cut to what is needed to break a law."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.pipeline.loop_world import CLUSTERS, REVISED, ROWS, SERVICES

Step = tuple[Any, ...]
History = tuple[Step, ...]

WAITS = (0, 1, 5, 20, 60, 130, 400, 900, 1500, 4000)  # minutes
IDLING = 12  # variants of an IdlingPolicy, see `loop_policies`
SPREADS = 10  # of a FederatedReplicaSet that makes its local ReplicaSets
FRONTS = 5  # of one over Deployments
DOWNSCALES = 4
SCALED = [row[:3] for row in ROWS if row[1] != "ScaledObject" and row[2] not in ("queue",)]
PLACED = [(cluster, "ReplicaSet", "spread") for cluster in CLUSTERS]
ASKED = [
    *(("Deployment", name) for name in ("web", "api", "front", "batch")),
    *(("Service", name) for name in SERVICES),
    *(("ScaledObject", "jobs"), ("CronJob", "nightly"), ("ReplicaSet", "spread")),
]

Draw = Callable[[random.Random], Step]


def _run(chance: random.Random) -> Step:
    return ("run", chance.choice(WAITS))


def _crash(chance: random.Random) -> Step:
    return ("crash", chance.choice(WAITS), chance.randint(0, 9), chance.choice([(), (0,), (1,), (3,)]))


def _refuse(chance: random.Random) -> Step:
    return ("refuse", chance.choice(WAITS), tuple(sorted(chance.sample(range(12), chance.randint(1, 4)))))


def _scale(chance: random.Random) -> Step:
    by = chance.choice(["kubectl", "kubectl", "argocd-controller"])
    return ("scale", *chance.choice([*SCALED, *PLACED]), chance.randint(0, 6), by)


def _meddle(chance: random.Random) -> Step:
    scaled = (*chance.choice([*SCALED, *PLACED]), chance.randint(0, 6))
    return ("meddle", chance.choice(WAITS), chance.randint(0, 8), *scaled)


def _down(chance: random.Random) -> Step:
    return ("down", chance.choice([(), (), *((name,) for name in CLUSTERS), ("east", "west")]))


def _state(chance: random.Random) -> Step:
    states = ["Active", "Active", "Active", "Frozen", "ReadOnly", "Draining", "Leaving"]
    return ("state", chance.choice(CLUSTERS), chance.choice(states))


def _production(chance: random.Random) -> Step:
    return ("production", chance.choice([(), *((name,) for name in CLUSTERS), ("east", "west")]))


def _recreate(chance: random.Random) -> Step:
    return ("recreate", *chance.choice(SCALED), chance.randint(0, 4))


def _delete(chance: random.Random) -> Step:
    return ("delete", *chance.choice([*SCALED, *PLACED, *PLACED]))


def _request(chance: random.Random) -> Step:
    return ("request", chance.choice(CLUSTERS), *chance.choice(ASKED))


def _exclude(chance: random.Random) -> Step:
    return ("exclude", chance.choice(CLUSTERS), *chance.choice(ASKED), chance.choice(["true", None, None]))


def _traffic(chance: random.Random) -> Step:
    return ("traffic", chance.choice(SERVICES), chance.choice([0.0, 0.0, 5.0, None, math.nan]))


def _rollout(chance: random.Random) -> Step:
    return ("rollout", *chance.choice([row for row in SCALED if row[1] == "Deployment"]), chance.random() < 0.5)


def _reason(chance: random.Random) -> Step:
    return ("reason", *chance.choice(SCALED), chance.choice(["Maintenance", None]))


def _idling(chance: random.Random) -> Step:
    return ("idling", chance.choice("abc"), chance.choice([None, *range(IDLING), *range(IDLING)]))


def _spread(chance: random.Random) -> Step:
    return ("spread", chance.choice([None, *range(SPREADS), *range(SPREADS)]), chance.randint(0, 9))


def _front(chance: random.Random) -> Step:
    return ("front", chance.choice([None, *range(FRONTS), *range(FRONTS)]), chance.randint(0, 9))


def _downscale(chance: random.Random) -> Step:
    return ("downscale", chance.choice([None, *range(DOWNSCALES)]))


def _limits(chance: random.Random) -> Step:
    return ("limits", chance.choice([None, None, 0, 1, 3]))


def _scaled_object(chance: random.Random) -> Step:
    return ("keda", chance.choice(["delete", "delete", "create"]))


_DRAWS: tuple[tuple[int, Draw], ...] = (
    (30, _run),
    (6, _crash),
    (5, _refuse),
    (3, lambda _: ("blind",)),
    (7, _scale),
    (7, _down),
    (4, _state),
    (4, _production),
    (3, _recreate),
    (3, _delete),
    (7, _request),
    (2, _exclude),
    (4, _traffic),
    (3, _rollout),
    (1, _reason),
    (5, _idling),
    (7, _spread),
    (4, _front),
    (3, _downscale),
    (4, _limits),
    (3, _scaled_object),
    (2, lambda chance: ("service", chance.choice(CLUSTERS), chance.choice(SERVICES))),
    (2, lambda chance: ("hpa", chance.randint(0, 3), chance.randint(1, 4))),
    (3, lambda _: ("night",)),
    (2, lambda _: ("morning",)),
    (4, lambda _: ("rest",)),
    (2, lambda chance: ("slow", chance.choice([1, 10, 90]))),
    (1, lambda _: ("month",)),
    (1, lambda chance: ("alone", chance.randint(1, 15))),
    (1, lambda chance: ("fight", *chance.choice(SCALED), chance.randint(1, 5))),
    (1, lambda chance: ("rename", chance.choice("ab"), chance.choice("de"))),
    (3, _meddle),
    (3, lambda chance: ("undo", chance.choice(REVISED))),
    (2, lambda chance: ("oc_idle", chance.choice(["web", "api", "batch"]))),
    (2, lambda chance: ("need_pods", chance.choice(CLUSTERS), chance.choice(SERVICES))),
    (1, lambda chance: ("fleet", chance.choice(["production", "staging"]))),
)


def history(seed: int) -> History:
    """Return the history of that seed: 14 steps and more."""
    chance = random.Random(seed)
    begin: list[Step] = [("idling", "a", chance.randrange(IDLING))]
    begin += [("idling", "b", chance.randrange(IDLING))] if chance.random() < 0.4 else []
    begin += [("spread", chance.randrange(SPREADS), chance.randint(1, 9))] if chance.random() < 0.7 else []
    begin += [("front", chance.randrange(FRONTS), chance.randint(1, 9))] if chance.random() < 0.4 else []
    begin += [("downscale", chance.randrange(DOWNSCALES))] if chance.random() < 0.3 else []
    chance.shuffle(begin)
    begin += [("run", 0), ("night",)] if chance.random() < 0.7 else []
    weights = [weight for weight, _ in _DRAWS]
    drawn = chance.choices([draw for _, draw in _DRAWS], weights, k=chance.randint(14, 26))
    return (*begin, *(draw(chance) for draw in drawn))


def shrunk(found: History, breaks: Callable[[History], bool]) -> History:
    """Return `found` without the steps that it takes none of to break the same law."""
    size = len(found) // 2
    while size:
        place = 0
        while place < len(found):
            shorter = (*found[:place], *found[place + size :])
            if breaks(shorter):
                found = shorter
            else:
                place += size
        size //= 2
    return found


def as_text(found: Sequence[Step]) -> str:
    """Return a history as it is written into a test."""
    return "(\n" + "".join(f"    {step!r},\n" for step in found) + ")"
