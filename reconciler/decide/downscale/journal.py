"""Marks on victims, and the journal that tells the next run of them.

A mark is the pod's deletion cost and a label, put on and taken off in one patch each. The journal is the ConfigMap
`reconciler-journal` in our namespace of each cluster, with an entry for each workload that is being shrunk:

    <uid of the workload>: {"at": "2026-11-20T15:41:23Z", "from": 6, "group": "apps", "kind": "Deployment",
                            "name": "web", "namespace": "shop", "policy": "workers", "run": "0123456789ab", "to": 4,
                            "pods": [{"cost": null, "name": "web-1", "uid": "..."}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reconciler.decide.annotations import DELETION_COST, SPARED_COST, VICTIM_COST, VICTIM_LABEL, format_time, parse_time
from reconciler.decide.decisions import FieldChange
from reconciler.errors import AnnotationError
from reconciler.model import ObjectRef, Pod

JOURNAL = "reconciler-journal"

_COST_PATH = ("metadata", "annotations", DELETION_COST)
_LABEL_PATH = ("metadata", "labels", VICTIM_LABEL)


@dataclass(frozen=True, slots=True)
class Marked:
    """A pod that is to be marked, and the text of the cost it had before, None for none."""

    name: str
    uid: str
    cost: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A shrink that has begun: `workload` goes from `before` to `after` replicas. `at` is the run's time."""

    workload: ObjectRef
    uid: str
    before: int
    after: int
    pods: tuple[Marked, ...]
    at: datetime
    run: str = ""
    policy: str = ""

    @property
    def costs(self) -> dict[str, str | None]:
        """The former costs, by the uid of the pod."""
        return {pod.uid: pod.cost for pod in self.pods}


def entry_text(entry: Entry) -> str:
    """Return `entry` as it is kept."""
    value = {
        "at": format_time(entry.at),
        "from": entry.before,
        "group": entry.workload.group,
        "kind": entry.workload.kind,
        "name": entry.workload.name,
        "namespace": entry.workload.namespace,
        "pods": [{"cost": pod.cost, "name": pod.name, "uid": pod.uid} for pod in entry.pods],
        "policy": entry.policy,
        "run": entry.run,
        "to": entry.after,
        "uid": entry.uid,
    }
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_entry(text: str, cluster: str) -> Entry:
    """Return the entry in `text`.

    Raises:
        AnnotationError: it cannot be read; the message says what is wrong with it.
    """
    try:
        value = json.loads(text)
        return Entry(
            workload=ObjectRef(cluster, *(_text(value[key]) for key in ("namespace", "kind", "name", "group"))),
            uid=_text(value["uid"]),
            before=_count(value["from"]),
            after=_count(value["to"]),
            pods=tuple(_marked(pod) for pod in value["pods"]),
            at=_time(value["at"]),
            run=_text(value["run"]),
            policy=_text(value["policy"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise AnnotationError(f"the journal entry cannot be read: {type(error).__name__} {error}") from error


def is_of_another(text: str) -> bool:
    """Return whether `text` is a record in the same place that tells of something else than a shrink."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "pods" not in value


def _marked(value: Mapping[str, Any]) -> Marked:
    return Marked(_text(value["name"]), _text(value["uid"]), None if value["cost"] is None else _text(value["cost"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no number of replicas")
    return value


def _time(value: Any) -> datetime:
    at = parse_time(_text(value))
    if at is None:
        raise ValueError(f"{value!r} is no time")
    return at


def is_marked(pod: Pod, run: str) -> bool:
    """Return whether `pod` carries the mark of a victim, put there by that run."""
    return pod.deletion_cost == VICTIM_COST and pod.labels.get(VICTIM_LABEL) == run


def mark_changes(pod: Pod, cost: str, run: str) -> tuple[FieldChange, ...]:
    """Return what puts `cost` and our label on `pod`, with a test of what it has now."""
    return (
        FieldChange(_COST_PATH, pod.deletion_cost, cost),
        FieldChange(_LABEL_PATH, pod.labels.get(VICTIM_LABEL), run),
    )


def unmark_changes(pod: Pod, former: str | None) -> tuple[FieldChange, ...]:
    """Return what takes our mark off `pod` and gives it the cost `former`; a cost that is not ours stays."""
    cost: tuple[FieldChange, ...] = ()
    label: tuple[FieldChange, ...] = ()
    if pod.deletion_cost in (VICTIM_COST, SPARED_COST) and pod.deletion_cost != former:
        cost = (FieldChange(_COST_PATH, pod.deletion_cost, former),)
    if VICTIM_LABEL in pod.labels:
        label = (FieldChange(_LABEL_PATH, pod.labels[VICTIM_LABEL], None),)
    return cost + label
