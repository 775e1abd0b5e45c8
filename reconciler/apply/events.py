"""Kubernetes Events that tell, on the object itself, what was done to it and how to undo it."""

from __future__ import annotations

from typing import Any

from reconciler.decide.annotations import CONTESTED, format_time
from reconciler.decide.decisions import Decision
from reconciler.decide.idling.contested import advice_in
from reconciler.model import ObjectRef, Run, Write
from reconciler.plan.model import Action

_LONGEST = 1024
"""Characters in the message of an Event. Source: kubernetes pkg/apis/core/validation/events.go, NoteLengthLimit."""

_UNDO = {
    "Idled": "; wake it with: reconciler wake {ref}",
    "IdlingContested": f"; left alone until {CONTESTED} is taken off or its policy changes",
}


_FAILED = "Refused"
"""The reason of an Event about a change that the API server refused."""


def event_of(action: Action, run: Run, failure: str = "") -> Write:
    """Return the write of the Event for `action`, or for its `failure`. The same action of the same run has the same
    name.
    """
    name = f"{action.ref.name[:200]}.{run.id}.{action.id}"
    ref = ObjectRef(action.ref.cluster, action.ref.namespace or "default", "Event", name)
    return Write("event", ref, "v1", manifest=_manifest(action, run, ref, failure))


def _manifest(action: Action, run: Run, ref: ObjectRef, failure: str) -> dict[str, Any]:
    at = format_time(run.now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "involvedObject": {
            "apiVersion": action.decision.api_version,
            "kind": action.ref.kind,
            "namespace": action.ref.namespace,
            "name": action.ref.name,
            **({"uid": action.decision.uid} if action.decision.uid else {}),
        },
        "reason": _FAILED if failure else action.decision.event,
        "message": f"{action.decision.verb} was refused: {failure}"[:_LONGEST] if failure else event_message(action),
        "type": "Warning" if failure else "Normal",
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": "reconciler"},
        "reportingComponent": "reconciler",
        "reportingInstance": run.id,
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
    path = ("metadata", "annotations", CONTESTED)
    said = next((change.after for change in decision.changes if change.path == path), None)
    return f"; {advice_in(said, decision.ref)}" if isinstance(said, str) else ""
