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


STATES = ("Active", "Active", "Active", "Frozen", "ReadOnly", "Draining", "Leaving")
SOME = [(), *((name,) for name in CLUSTERS), ("east", "west")]
ROLLED_OUT = [row for row in SCALED if row[1] == "Deployment"]
BY = ("kubectl", "kubectl", "argocd-controller")


def _either(count: int) -> list[int | None]:
    """Each variant twice as often as none."""
    return [None, *range(count), *range(count)]


_DRAWS: tuple[tuple[int, Draw], ...] = (  # how often, and a step
    (30, lambda c: ("run", c.choice(WAITS))),
    (6, lambda c: ("crash", c.choice(WAITS), c.randint(0, 9), c.choice([(), (0,), (1,), (3,)]))),
    (5, lambda c: ("refuse", c.choice(WAITS), tuple(sorted(c.sample(range(12), c.randint(1, 4)))))),
    (3, lambda _: ("blind",)),
    (7, lambda c: ("scale", *c.choice([*SCALED, *PLACED]), c.randint(0, 6), c.choice(BY))),
    (3, lambda c: ("meddle", c.choice(WAITS), c.randint(0, 8), *c.choice([*SCALED, *PLACED]), c.randint(0, 6))),
    (7, lambda c: ("down", c.choice([(), *SOME]))),
    (4, lambda c: ("state", c.choice(CLUSTERS), c.choice(STATES))),
    (4, lambda c: ("production", c.choice(SOME))),
    (3, lambda c: ("recreate", *c.choice(SCALED), c.randint(0, 4))),
    (3, lambda c: ("delete", *c.choice([*SCALED, *PLACED, *PLACED]))),
    (7, lambda c: ("request", c.choice(CLUSTERS), *c.choice(ASKED))),
    (2, lambda c: ("need_pods", c.choice(CLUSTERS), c.choice(SERVICES))),
    (2, lambda c: ("exclude", c.choice(CLUSTERS), *c.choice(ASKED), c.choice(["true", None, None]))),
    (4, lambda c: ("traffic", c.choice(SERVICES), c.choice([0.0, 0.0, 5.0, None, math.nan]))),
    (3, lambda c: ("rollout", *c.choice(ROLLED_OUT), c.random() < 0.5)),
    (3, lambda c: ("undo", c.choice(REVISED))),
    (2, lambda c: ("oc_idle", c.choice(["web", "api", "batch"]))),
    (1, lambda c: ("reason", *c.choice(SCALED), c.choice(["Maintenance", None]))),
    (5, lambda c: ("idling", c.choice("abc"), c.choice(_either(IDLING)))),
    (7, lambda c: ("spread", c.choice(_either(SPREADS)), c.randint(0, 9))),
    (4, lambda c: ("front", c.choice(_either(FRONTS)), c.randint(0, 9))),
    (3, lambda c: ("downscale", c.choice([None, *range(DOWNSCALES)]))),
    (4, lambda c: ("limits", c.choice([None, None, 0, 1, 3]))),
    (3, lambda c: ("keda", c.choice(["delete", "delete", "create"]))),
    (2, lambda c: ("service", c.choice(CLUSTERS), c.choice(SERVICES))),
    (2, lambda c: ("hpa", c.randint(0, 3), c.randint(1, 4))),
    (3, lambda _: ("night",)),
    (2, lambda _: ("morning",)),
    (4, lambda _: ("rest",)),
    (2, lambda c: ("slow", c.choice([1, 10, 90]))),
    (1, lambda _: ("month",)),
    (1, lambda c: ("alone", c.randint(1, 15))),
    (1, lambda c: ("fight", *c.choice(SCALED), c.randint(1, 5))),
    (1, lambda c: ("rename", c.choice("ab"), c.choice("de"))),
    (1, lambda c: ("fleet", c.choice(["production", "staging"]))),
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
