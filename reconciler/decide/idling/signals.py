"""What asks for a Service or a scalable to be woken.

Source: seed idling-and-unidling.md, "Unidling" (the NeedPods Event, or an annotation in its place).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.decide.annotations import WAKE_REQUESTED_AT, format_time, optional_instant
from reconciler.model import Event

NEED_PODS = "NeedPods"


@dataclass(frozen=True, slots=True, order=True)
class Signal:
    """Somebody asked at `at`; it counts for what was idled then or earlier."""

    at: datetime
    words: str


def needed_pods(events: Iterable[Event]) -> dict[tuple[str, str], Signal]:
    """Return the latest NeedPods Event of each Service, by (namespace, name); one without a time is none.

    It counts for Services in its own namespace only.
    """
    latest: dict[tuple[str, str], Signal] = {}
    for event in events:
        if event.reason != NEED_PODS or event.at is None:
            continue
        signal = Signal(event.at, f"{NEED_PODS} at {format_time(event.at)}")
        for about in (event.related, event.involved):
            if about is not None and about[:2] == ("Service", event.namespace):
                key = (about[1], about[2])
                latest[key] = max(signal, latest.get(key, signal))
    return latest


def requested(annotations: Mapping[str, str]) -> Signal | None:
    """Return the request in the annotations of a Service or a scalable, None where there is none that can be read."""
    at = optional_instant(annotations, WAKE_REQUESTED_AT)
    return None if at is None else Signal(at, f"wake requested at {format_time(at)}")


def latest_of(*signals: Signal | None) -> Signal | None:
    """Return the latest of `signals`, None for none."""
    return max((signal for signal in signals if signal is not None), default=None)
