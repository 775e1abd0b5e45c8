"""What holds whatever goes wrong between a run and its clusters."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from tests.live.stage import Key, Stage
from tests.pipeline.calls import Said
from tests.real.api import Object
from tests.real.proxy import Fault, Request, Rule

CODES = frozenset({0, 1, 3, 4, 5, 6, 7})
_OURS = ("reconciler-status", "reconciler-memory", "reconciler-journal", "reconciler-history")
_REPLICAS = "/spec/replicas"
_TICK = 0.01


@dataclass(frozen=True, order=True)
class Point:
    """One request of a run: the `nth` of its method and path at a cluster."""

    cluster: str
    method: str
    path: str
    nth: int

    def is_like(self, request: Request) -> bool:
        return (request.method, request.path) == (self.method, self.path)


def points_of(stage: Stage) -> list[Point]:
    """The requests that passed so far, each by what it asks, in the order of the alphabet: not one of chance."""
    counted = {name: proxy.counted() for name, proxy in stage.proxies.items()}
    return sorted(
        Point(name, method, path, nth)
        for name, requests in counted.items()
        for (method, path), count in requests.items()
        for nth in range(1, count + 1)
    )


@dataclass
class _Onwards:
    """Whether a point was reached: everything from there on matches, on all clusters."""

    point: Point
    seen: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def here(self, request: Request) -> bool:
        with self.lock:
            self.seen += self.point.is_like(request)
        return self.reached(request)

    def reached(self, _: Request) -> bool:
        return self.seen >= self.point.nth


def once(stage: Stage, fault: Fault, point: Point) -> None:
    """The fault comes at that request; asked again, all is well."""
    stage.proxies[point.cluster].rules.insert(0, Rule(fault, point.nth, point.is_like))


def always(stage: Stage, fault: Fault, point: Point) -> None:
    """The fault comes at that request and each like it later; all others are well."""
    stage.proxies[point.cluster].rules.insert(0, Rule(fault, point.nth, point.is_like, times=None))


def onwards(stage: Stage, fault: Fault, point: Point) -> None:
    """The fault comes at that request and each that follows, on both clusters."""
    state = _Onwards(point)
    for name, proxy in stage.proxies.items():
        matching = state.here if name == point.cluster else state.reached
        proxy.rules.insert(0, Rule(fault, matching=matching, times=None))


@contextmanager
def ticks() -> Iterator[list[int]]:
    """Count the hundredths of seconds that pass for this process; on a busy machine fewer of them do."""
    counted, done = [0], threading.Event()

    def count() -> None:
        while not done.wait(_TICK):
            counted[0] += 1

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield counted
    finally:
        done.set()
        thread.join()


def check_words(said: Said) -> dict[str, Any]:
    """Check that a run ended with a known code, one JSON document and whole lines; return the document."""
    assert said.code in CODES, said
    for line in said.err.splitlines():
        assert not line.startswith(("error: a bug:", "Traceback", " ")), said.err
        assert ": " in line, said.err
    assert len(set(said.err.splitlines())) == len(said.err.splitlines()), said.err
    document: dict[str, Any] = json.loads(said.out)
    if said.code == 1 and document["kind"] == "Error":
        assert said.err, "an error is told"
    return document


def right_codes(document: dict[str, Any], changed: bool) -> set[int]:
    """The exit codes that fit what a run on these clusters said, and whether it changed anything.

    Nobody else holds a lock here and no limit holds anything back, so there are three: all done, nothing, a part.
    """
    if document["kind"] == "Error":
        return set() if changed else {1}
    plan = plan_in(document)
    outcomes = [one["status"] for one in document.get("outcomes", ())]
    if plan["unknown"] and not plan["clusters"]:
        return {1}
    if outcomes and set(outcomes) <= {"skipped"} and not changed:
        return {1}
    amiss = plan["unknown"] or set(outcomes) - {"applied"} or any(one["partial"] for one in plan["notices"])
    return {6} if amiss else {0}


def plan_in(document: dict[str, Any]) -> dict[str, Any]:
    """The plan in a document that a plan or an apply printed; an empty one in an error."""
    if document["kind"] == "Error":
        return {"run": "", "actions": [], "unknown": {}}
    found: dict[str, Any] = document["plan"] if document["kind"] == "Report" else document
    return found


def facts(plan: dict[str, Any]) -> set[str]:
    """What a plan would write to people's objects, field by field, without the run's id.

    Each target that a Service lists is a fact of its own: where a kind cannot be read its targets are missing there.
    Numbers of placement are none: what one cluster does not say is left with it, and the others share the rest.
    """
    return {
        json.dumps(fact).replace(plan["run"], "")
        for action in plan["actions"]
        if action["object"]["kind"] != "ConfigMap"
        for fact in _facts(action)
    }


def _facts(action: dict[str, Any]) -> Iterator[list[Any]]:
    found = action["object"]
    where = [action["cluster"], found.get("namespace"), found["kind"], found["name"]]
    if action["verb"] in ("create", "delete"):
        manifest = action["manifest"] or {}
        yield [*where, action["verb"], {**manifest, "spec": {**manifest.get("spec", {}), "replicas": None}}]
    for pointer, after in action["after"].items():
        if pointer.endswith("unidle-targets") and after is not None:
            yield from ([*where, pointer, target] for target in json.loads(after))
        elif after != action["before"].get(pointer) and not (found["kind"] == "ReplicaSet" and pointer == _REPLICAS):
            yield [*where, pointer, after]


def is_changed(before: dict[Key, Object], after: dict[Key, Object]) -> bool:
    """Whether anything differs, locks and memory aside."""
    return any(unplanned(before, after, {"actions": []}))


def unplanned(before: dict[Key, Object], after: dict[Key, Object], plan: dict[str, Any]) -> list[str]:
    """What differs between two looks at the world although no action of the plan says so."""
    said: dict[Key, list[dict[str, Any]]] = {}
    for action in plan["actions"]:
        key = (
            action["cluster"],
            action["object"].get("namespace", ""),
            action["object"]["kind"],
            action["object"]["name"],
        )
        said.setdefault(key, []).append(action)
    victims = {
        (action["cluster"], action["object"]["namespace"], "Pod", name)
        for action in plan["actions"]
        for name in (action["victims"] or {}).get("pods", ())
    }
    # Where the plan could not look at the pods, who goes is found out by the one who shrinks.
    shrunk = {
        (action["cluster"], action["object"]["namespace"])
        for action in plan["actions"]
        if action["downscale"] and not (action["victims"] or {}).get("pods")
    }
    return [
        f"{key}: {what}"
        for key in sorted({*before, *after})
        if key not in victims and not _is_memory(key) and not (key[2] == "Pod" and key[:2] in shrunk)
        for what in _unsaid(before.get(key), after.get(key), said.get(key, ()))
    ]


def _is_memory(key: Key) -> bool:
    """Whether it is the lock, or one of our ConfigMaps that writes down what befell a run."""
    return key[2] == "Lease" or (key[2] == "ConfigMap" and key[3].startswith(_OURS))


def _unsaid(before: Object | None, after: Object | None, actions: Sequence[dict[str, Any]]) -> list[str]:
    if before is None or after is None:
        verb = "create" if before is None else "delete"
        return [] if any(action["verb"] == verb for action in actions) else [f"{verb}d, the plan does not say so"]
    said = [pair for action in actions for pair in action["after"].items()]
    return [f"{path} is {value}" for path, value in _changes(before, after) if not _is_said(path, value, said)]


def _is_said(path: str, value: Any, said: Sequence[tuple[str, Any]]) -> bool:
    return any(value == wanted if path == pointer else path.startswith(f"{pointer}/") for pointer, wanted in said)


_SERVERS = ("/metadata/managedFields", "/metadata/resourceVersion", "/metadata/generation", "/status")


def _changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The pointers of the fields that differ, with their new values; what the server writes itself is left out."""
    if before == after or path in _SERVERS:
        return
    if isinstance(before, dict | NoneType) and isinstance(after, dict | NoneType):
        one, other = before or {}, after or {}
        for key in sorted({*one, *other}):
            yield from _changes(one.get(key), other.get(key), f"{path}/{key.replace('~', '~0').replace('/', '~1')}")
        return
    yield path, after


def spent(counted: list[int]) -> float:
    """Seconds that passed for this process."""
    return counted[0] * _TICK
