"""Kubernetes Events: on the object itself what was done and how to undo it, on the Fleet what a run left alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import wait
from functools import partial
from typing import Any

from reconciler.apply.access import Access
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.annotations import Key, digest, format_time
from reconciler.decide.decisions import Decision
from reconciler.decide.idling.contested import advice_in
from reconciler.errors import NotFoundError, reason_of
from reconciler.model import ObjectRef, PatchOperation, Run, Write
from reconciler.plan.effects import is_read_by_others
from reconciler.plan.model import Action, Plan
from reconciler.policy.kinds.fields import API_VERSION
from reconciler.policy.types import Fleet
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool

_LONGEST = 1024
"""Characters in the message of an Event. Source: kubernetes pkg/apis/core/validation/events.go, NoteLengthLimit."""

_LONGEST_NAME = 200
"""Characters of the object's name in the name of an Event, which must not end with a dash or a dot before the next."""

_UNDO = {
    "Idled": "; wake it with: reconciler wake {ref}",
    "IdlingContested": f"; left alone until {Key.CONTESTED} is taken off or its policy changes",
}
_FAILURES = {"Refused": "was refused", "Failed": "failed"}

Regarding = tuple[ObjectRef, str, str | None]
"""What an Event is about, with its apiVersion and uid."""


def event_of(action: Action, run: Run) -> Write:
    """Return the write of the Event for `action`, which was done. The same action of the same run has the same name."""
    words = (action.decision.event, event_message(action))
    return event_write(action.ref.cluster, event_manifest(_about(action), digest([run.id, action.id], 12), words, run))


def failure_event(action: Action, run: Run, outcome: Outcome) -> Write:
    """Return the write of the Event for `action`, which failed.

    There is one for each object and way to fail; where it is there already, its count is raised.
    """
    decision, reason = action.decision, outcome.event
    name = digest([str(action.ref), decision.uid, decision.verb, reason], 12)
    manifest = event_manifest(_about(action), name, (reason, failure_message(action, outcome)), run)
    return _warning(action.ref.cluster, manifest)


def failure_message(action: Action, outcome: Outcome) -> str:
    """Return what of `action` failed, and why."""
    return f"{action.verb} {_FAILURES[outcome.event or 'Failed']}: {outcome.message}"


def fleet_events(plan: Plan, fleet: Fleet, cluster: str, run: Run) -> Iterator[Write]:
    """Yield the writes of the Events on `cluster` that say what the run of `plan` left alone, at most one a reason.

    They are about the Fleet, which is no object: they stand in its namespace. Where one is there already, its count is
    raised, and it says what holds now.
    """
    about = ObjectRef(cluster, fleet.namespace, "Fleet", fleet.name), API_VERSION, None
    conflicts = [notice.text for notice in plan.notices if notice.kind == "equalPriorities"]
    messages = {
        "HeldBack": [held.why for held in plan.held_back],
        "ClusterUnknown": [f"{name}: {why}" for name, why in plan.unknown_clusters.items()],
        "PolicyConflict": conflicts,
    }
    for reason, words in messages.items():
        if words:
            name = digest([fleet.name, *filter(None, (plan.shard,)), reason], 12)
            yield _warning(cluster, event_manifest(about, name, (reason, "; ".join(words)), run))


def decrease_event(about: ObjectRef, uid: str, run: Run, message: str, *, picked: bool) -> Write:
    """Return the write of the Event about a decrease that somebody else asked for, whose pods were `picked`, or not.

    The same is said once, with a count.
    """
    reason = "VictimsPicked" if picked else "DecreasedWithoutPicker"
    name = digest([str(about), uid, reason, message], 12)
    manifest = event_manifest((about, "apps/v1", uid), name, (reason, message[:_LONGEST]), run)
    return event_write(about.cluster, manifest) if picked else _warning(about.cluster, manifest)


def _warning(cluster: str, manifest: dict[str, Any]) -> Write:
    """Return the write of an Event that warns; where it is there already, it says the same again with a later time."""
    manifest |= {"type": "Warning", "message": manifest["message"][:_LONGEST]}
    later = tuple(PatchOperation("add", f"/{field}", manifest[field]) for field in ("lastTimestamp", "message"))
    return event_write(cluster, manifest, later)


def event_write(cluster: str, manifest: Mapping[str, Any], later: tuple[PatchOperation, ...] = ()) -> Write:
    """Return the write of an Event; where it is there already, its count is raised, with `later`."""
    metadata = manifest["metadata"]
    ref = ObjectRef(cluster, metadata["namespace"], "Event", metadata["name"])
    return Write("event", ref, "v1", manifest=manifest, patch=later)


def _about(action: Action) -> Regarding:
    return action.ref, action.decision.api_version, action.decision.uid


def event_manifest(about: Regarding, name: str, words: tuple[str, str], run: Run) -> dict[str, Any]:
    """Return an Event about an object; `name` is how it differs from others about it, `words` are its reason and its
    message.
    """
    (ref, api_version, uid), at = about, format_time(run.now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{ref.name[:_LONGEST_NAME].rstrip('-.')}.{name}",
            "namespace": ref.namespace or "default",
        },
        "involvedObject": {
            "apiVersion": api_version,
            "kind": ref.kind,
            "namespace": ref.namespace,
            "name": ref.name,
            **({"uid": uid} if uid else {}),
        },
        "type": "Normal",
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": "reconciler"},
        "reportingComponent": "reconciler",
        "reportingInstance": run.id,
        "reason": words[0],
        "message": words[1],
    }


def event_message(action: Action) -> str:
    """Return the Event's one sentence: what changed, why, which policy, where it stands, how to undo it."""
    decision = action.decision
    numbers = ""
    if decision.replicas_before is not None and decision.replicas_after is not None:
        numbers = f"replicas {decision.replicas_before} -> {decision.replicas_after}, "
    place = f" ({decision.cause.policy}, {decision.cause.at})" if decision.cause.policy else ""
    undo = _UNDO.get(decision.event, "").format(ref=action.ref)
    return f"{numbers}{decision.cause.why}{place}{_contested(decision)}{undo}"


def _contested(decision: Decision) -> str:
    """Return how to end the fight that `decision` writes down, "" for none."""
    path = ("metadata", "annotations", Key.CONTESTED)
    said = next((change.after for change in decision.changes if change.path == path), None)
    if not isinstance(said, str):
        return ""
    scale = (change.path for change in decision.changes if is_read_by_others(change.path))
    return f"; {advice_in(said, decision.ref, next(scale, ()))}"


class PendingEvents:
    """What is to be said of the actions of a run. Each thread adds its own action; it is written once all are over, so
    that nothing waits for it.
    """

    def __init__(self, run: Run, limit: TimeLimit, pool: WorkerPool) -> None:
        self._run = run
        self._limit = limit
        self._pool = pool
        self._pending: dict[int, tuple[Action, Outcome, Access]] = {}

    def add(self, action: Action, outcome: Outcome, access: Access) -> None:
        """Remember what is to be said of `action`, where something is, by whoever has `access`."""
        if action.decision.event and (outcome.status is OutcomeStatus.APPLIED or outcome.event):
            self._pending[action.id] = action, outcome, access

    def written(self) -> dict[int, str]:
        """Write them, and return by action why one was not written."""
        pending, self._pending = self._pending, {}  # they know of this run: let go, all of it goes with its last reader
        futures = {
            number: self._pool.submit(one[0].ref.cluster, partial(self._written, *one), urgent=True)
            for number, one in pending.items()
        }
        limit, waiting = self._limit.for_what_is_in_flight(), set(futures.values())
        while waiting and not limit.over:
            _, waiting = wait(waiting, limit.step())
        late = f"no Event was written: {limit.why}"
        return {
            number: late if future.cancel() or not future.done() else future.result()
            for number, future in futures.items()
        }

    def _written(self, action: Action, outcome: Outcome, access: Access) -> str:
        """Write one; return why it was not written, "" where all is well: no action fails for that."""
        event = failure_event(action, self._run, outcome) if outcome.event else event_of(action, self._run)
        try:
            access.cluster.write(event)
        except NotFoundError:
            return ""  # its namespace is not there, which is why it failed
        except Exception as error:  # noqa: BLE001 - whatever it is, the action itself was done
            return f"no Event was written: {reason_of(error)}"
        return ""
