"""What a world of live clusters has come to at the end, to compare runs that were killed with others."""

from __future__ import annotations

import copy
import json
import signal
from typing import Any

from tests.live.stage import Key, Run, Stage
from tests.real import faults
from tests.real.api import Object
from tests.real.proxy import Exchange, Fault

_FILLED_IN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


_PREVIOUS = "idling.kubernetes.io/previous-scale"


Ends = dict[str, Any]
"""Worlds, as text, each with the one that undisturbed runs end in from there."""


def unseen(run: Run) -> Fault:
    """The run is gone before the server sees its write."""
    return faults.before(lambda _: run.signal(signal.SIGKILL), forward=False)


def unanswered(run: Run) -> Fault:
    """The server does it; the run is gone before it hears so."""

    def fault(exchange: Exchange) -> None:
        with exchange.forwarded() as answer:
            answer.read()
        run.signal(signal.SIGKILL)
        exchange.close()

    return fault


def end_state(stage: Stage, begun: dict[Key, Object], known: Ends) -> Any:
    """Run undisturbed, with controllers that act in between, until nothing is left to do; return the world then.

    From a world seen before, which is `known` with its end, the same runs need not be run again.
    """
    passed: list[str] = []
    for _ in range(6):
        stage.settle()
        stage.clear()
        now = stage.objects()
        assert lost_scales(begun, now) == []
        world = comparable(now)
        passed.append(as_text(world))
        if passed[-1] not in known:
            said = stage.apply()
            assert (said.code, said.err) == (0, ""), said.out
            if stage.writes():
                continue
        end = known.get(passed[-1], world)
        known.update(dict.fromkeys(passed, end))
        return end
    raise AssertionError(f"no rest after six runs:\n{stage.plan().out}")


def as_text(world: Any) -> str:
    return json.dumps(sorted(world.items()))


def lost_scales(begun: dict[Key, Object], now: dict[Key, Object]) -> list[str]:
    """What stands lower than it stood because it was idled, without a record of what it had."""
    return [
        str(key) for key in begun if key in now and key[1] in ("dev", "ci", "floor") and _is_lost(begun[key], now[key])
    ]


def _is_lost(before: Object, now: Object) -> bool:
    records = now["metadata"].get("annotations", {})
    had = before["metadata"].get("annotations", {}).get(_PREVIOUS) or before["spec"].get("replicas")
    match now["kind"]:
        case "CronJob":
            return bool(now["spec"].get("suspend")) and records.get("reconciler/previous-suspend") != "false"
        case "HorizontalPodAutoscaler":
            bounds = {key: before["spec"][key] for key in ("minReplicas", "maxReplicas")}
            changed = any(now["spec"][key] != value for key, value in bounds.items())
            return changed and json.loads(records.get("reconciler/previous-bounds", "null")) != bounds
        case "Deployment" | "StatefulSet" | "CloneSet":
            return now["spec"]["replicas"] < int(had) and records.get(_PREVIOUS) != str(had)
    return False


def final_state(stage: Stage) -> Any:
    """Every object as it is now, see `comparable`."""
    return comparable(stage.objects())


def comparable(objects: dict[Key, Object]) -> Any:
    """Every object without what tells of runs, times and numbers that servers give.

    Left out are Leases, the history, and the memory of clusters that did not answer once it is empty.
    """
    return {
        key: _comparable(one)
        for key, one in sorted(objects.items())
        if key[2] != "Lease"
        and not key[3].startswith("reconciler-history-")
        and one.get("data") != {"unreachable-since": "{}"}
    }


def _comparable(one: Object) -> Object:
    found = copy.deepcopy(one)
    metadata = {key: value for key, value in found["metadata"].items() if key not in _FILLED_IN}
    for owner in metadata.get("ownerReferences", ()):
        owner.pop("uid")
    cause = metadata.get("annotations", {}).get("reconciler/cause")
    if cause is not None:
        metadata["annotations"]["reconciler/cause"] = {**json.loads(cause), "run": ""}
    found["metadata"] = metadata
    found.get("status", {}).pop("observedGeneration", None)
    if found["kind"] == "Service":
        found["spec"] = {}
    return found
