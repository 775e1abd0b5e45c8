"""The words for one change: what happens to which object, why, and which pods go. The same words serve every format.

Reasons are codes and values; here they are rendered for people, with ages and the time of calendars.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import IDLED_AT, OBSERVED_CAPACITY, PREVIOUS_SCALE, UNIDLE_TARGETS, parse_time
from reconciler.decide.change_codes import ChangeIf, ChangeIfCode
from reconciler.decide.decisions import Decision, FieldChange, Verb, VictimForecast
from reconciler.decide.placement.status import MEMORY, REPLACED, STATUS_PREFIX
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, filled, phrase_parts, stable
from reconciler.model import JOURNAL, ObjectRef
from reconciler.plan.model import Effect, effect_of, is_acted_on, json_value
from reconciler.untrusted_text import one_line
from reconciler.workload_kinds import workload_kind

_VERBS = {
    Verb.IDLE: "idle",
    Verb.WAKE: "wake",
    Verb.CREATE: "create",
    Verb.DELETE: "delete",
    Verb.OVERWRITE: "overwrite",
    Verb.RELEASE: "release",
}
_STORED_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_METRIC = "{name:metric} {value}, idle at <= {atMost}[ ({window})]"
_WORDS: Mapping[ReasonCode | ChangeIfCode, str] = {
    ReasonCode.METRIC_IDLE: _METRIC,
    ReasonCode.METRIC_BUSY: _METRIC,
    ReasonCode.METRIC_UNKNOWN: "{name}:",
    ReasonCode.WAKE_WHEN_TRUE: "wakeWhen {value} > {above} ({window})",
    ReasonCode.WAKE_WHEN_UNKNOWN: "wakeWhen:",
    ReasonCode.IN_DOWNTIME: "{calendar} {until:until}",
    ReasonCode.OUTSIDE_DOWNTIME: "{calendar} starts {until:edge}[ ({exception})]",
    ReasonCode.DOWNTIME_OVER: "{calendar} is over[ ({exception})]",
    ReasonCode.KEPT_AWAKE: "kept awake for another {until:age}",
    ReasonCode.WAKE_REQUESTED: "requested {at:ago}",
    ReasonCode.NEED_PODS: "NeedPods Event {at:ago}",
    ReasonCode.WAKE_DUE: "due {due:ago}",
    ReasonCode.POLICY_REMOVED: "policy removed[ (onDelete: {onDelete})]",
    ReasonCode.WRITE_REFUSED: "refused {count} times in a row[, retried in {retryAfter:age}]: {error}",
    ReasonCode.WAITING: "{waitingReplicas} pending (waitingReplicas)",
    ReasonCode.ADOPTED: "not managed by this Fleet before",
    ReasonCode.TARGET: "target {replicas}",
    ReasonCode.QUERY: "query {value}",
    ChangeIfCode.AFTER: "it is {at:edge} or later (in {at:age})",
}
"""What people read, where that is not the text that is stored."""


def weekday_and_time(at: datetime, zone: tzinfo) -> str:
    """Return "Fri 2026-11-20 20:00": what calendar and clock in `zone` show at `at`."""
    here = at.astimezone(zone)
    return f"{DAYS[here.weekday()]} {here:%Y-%m-%d %H:%M}"


def time_and_zone(at: datetime, zone: tzinfo) -> str:
    """Return the time of a heading: "Fri 2026-11-20 20:00, times in Europe/Paris". No time below it says its zone."""
    return f"{weekday_and_time(at, zone)}, times in {zone}"


def common_zone(names: Collection[str]) -> tzinfo:
    """Return the time zone in which an output shows times: that of all its calendars, `names`, else UTC."""
    return _zone(next(iter(names))) if len(names) == 1 else UTC


def stored_text_in_utc(text: str) -> str:
    """Return stored `text` with its times as people read them, in UTC: they are stored as RFC 3339."""
    return _STORED_TIME.sub(lambda found: weekday_and_time(at, UTC) if (at := parse_time(found[0])) else found[0], text)


def age(length: timedelta) -> str:
    """Return a length of time as kubectl does: "90s", "6m", "5h", "3d"."""
    seconds = int(length.total_seconds())
    for size, unit, least in ((86400, "d", 2), (3600, "h", 3), (60, "m", 2)):
        if seconds >= least * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


class ReasonWords(Struct, frozen=True):
    """Reasons as a person reads them `now`, their times in `zone`."""

    now: datetime
    zone: tzinfo = UTC

    def time(self, at: datetime) -> str:
        """Return `at` as calendar and clock show it: "Fri 2026-11-20 20:00"."""
        return weekday_and_time(at, self.zone)

    def reason(self, reasons: Iterable[Reason]) -> str:
        """Return `reasons` as one phrase."""
        return ", ".join(map(self.part, phrase_parts(reasons)))

    def part(self, part: Reasons) -> str:
        """Return one part of a phrase."""
        return one_line(" ".join(map(self._filled, part)))

    def change_if(self, found: ChangeIf) -> str:
        """Return what would change a decision as a clause: "the metric is above 0"."""
        return one_line(found.shown(self._filled))

    def _filled(self, one: Reason | ChangeIf) -> str:
        return filled(_WORDS.get(one.code, one.code.text), one.values, self._shown)

    def _shown(self, value: Any, form: str) -> str:
        if form == "metric":
            return str(value or "metric")
        at = parse_time(value) if form and isinstance(value, str) else None
        if at is None:
            return stable(value, form)
        if form in ("edge", "until"):
            return f"{'until ' if form == 'until' else ''}{self.time(at)}"
        length = age(abs(self.now - at))
        if form == "ago":
            return f"in {length}" if at > self.now else f"{length} ago"
        return f"for {length}" if form == "since" else length


@cache
def _zone(name: str) -> tzinfo:
    """Return the time zone of that name, UTC where there is none of it."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        return UTC


def name_of(ref: ObjectRef) -> str:
    """Return cluster, namespace, kind and name, as `reconciler explain` takes them."""
    return one_line("/".join(part for part in (ref.cluster, ref.namespace, ref.kind, ref.name) if part))


def sign_of(decision: Decision) -> str:
    """Return + create, - delete or ~ change."""
    if decision.verb is Verb.DELETE:
        return "-"
    return "+" if decision.verb is Verb.CREATE or decision.manifest is not None else "~"


def verb_of(decision: Decision, *, moves: bool = False) -> str:
    """Return the word for what happens to the object; `moves`: the policy raises and lowers in this plan."""
    if decision.verb in _VERBS:
        return _VERBS[decision.verb]
    effect, idling = effect_of(decision), decision.job == "idling"
    if effect is Effect.UP:
        return "move in" if moves else "wake" if idling else "scale up"
    if effect is Effect.DOWN:
        return "move out" if moves else "idle" if idling else "scale down"
    return "adopt" if decision.event == "Adopted" else "update"


def is_metadata(decision: Decision) -> bool:
    """Return whether only annotations, labels and ConfigMaps of our own change."""
    return effect_of(decision) is Effect.METADATA


def field_of(decision: Decision) -> tuple[str, str]:
    """Return which field changes, and how: ("replicas", "3 -> 0"); ("", "") where none that others act on does.

    Of several the others are named beside how they change.
    """
    before, after = decision.replicas_before, decision.replicas_after
    if (
        after is not None
        and workload_kind(decision.ref.kind).scaled_by != "Suspend"
        and decision.verb is not Verb.OVERWRITE
    ):
        unchanged = before == after or (before is None and decision.verb is not Verb.CREATE)
        return "replicas", f"{after}" if unchanged else f"{before or 0} -> {after}"
    fields = [
        (one_line(one.path[-1].rpartition("/")[2]), _values_of(one)) for one in decision.changes if is_acted_on(one)
    ]
    if not fields:
        return "", ""
    return fields[0][0], ", ".join([fields[0][1], *(f"{name} {change}" for name, change in fields[1:])])


def what_of(decision: Decision) -> str:
    """Return what happens to the object in a few words: "replicas 6 -> 2", "suspend false -> true", "release"."""
    if is_metadata(decision):
        return metadata_words(decision)
    return " ".join(field_of(decision)).strip() or verb_of(decision)


def _values_of(change: FieldChange) -> str:
    if isinstance(change.after, Mapping):
        return "replaced"
    absent = False if change.path == ("spec", "suspend") else None  # the default of the API
    return f"{value_text(absent if change.before is None else change.before)} -> {value_text(change.after)}"


def value_text(value: Any) -> str:
    """Return a field's value on one line: "none" where it is absent, a text as it is, else JSON."""
    if value is None:
        return "none"
    return one_line(value if isinstance(value, str) else json.dumps(json_value(value), ensure_ascii=False))


def metadata_words(decision: Decision) -> str:
    """Return what a metadata update records: "record observed capacity 2", "update status of ..."."""
    if decision.ref.kind == "ConfigMap":
        return _config_map_words(decision)
    changed = {change.path[-1]: change for change in decision.changes if change.before != change.after}
    if UNIDLE_TARGETS in changed:
        return _idle_list_words(changed[UNIDLE_TARGETS].after)
    words = [_capacity_words(changed.pop(OBSERVED_CAPACITY).after, decision)] if OBSERVED_CAPACITY in changed else []
    previous = changed.get(PREVIOUS_SCALE)
    if previous is not None and previous.after is not None and IDLED_AT in changed:
        return f"record previous scale {one_line(str(previous.after))}"
    tracked = decision.job == "placement" and changed
    if tracked:
        added = all(change.before is None for change in changed.values())
        words.append("add tracking annotations" if added else "update tracking annotations")
    elif changed:
        removed = all(change.after is None for change in changed.values())
        words.append(f"{'remove' if removed else 'record'} {', '.join(sorted(map(one_line, changed)))}")
    return "; ".join(words) or "record nothing new"


def _config_map_words(decision: Decision) -> str:
    name, update = decision.ref.name, "remove" if decision.verb is Verb.DELETE else "update"
    if name.startswith(STATUS_PREFIX):
        return f"{update} status of FederatedReplicaSet {one_line(decision.policy)}"
    if name.startswith(REPLACED):
        return f"{'remove' if decision.verb is Verb.DELETE else 'record'} the ReplicaSet that is replaced"
    if name == MEMORY:
        return f"record unreachable clusters and refused writes ({one_line(decision.cause.why)})"
    return f"{update} the journal of downscales" if name == JOURNAL else f"{update} {one_line(name)}"


def _capacity_words(text: Any, decision: Decision) -> str:
    if text is None:
        return "remove observed capacity"
    values = decision.cause.values
    unschedulable = f" ({counted(values['overflow'], 'pod')} unschedulable)" if values.get("overflow") else ""
    return one_line(f"record observed capacity {values.get('capacity', '')}").rstrip() + unschedulable


def _idle_list_words(text: Any) -> str:
    if text is None:
        return "remove the record of idle workloads"
    try:
        names = [f"{one['kind']}/{one['name']}" for one in json.loads(text)]
    except (TypeError, ValueError, KeyError, RecursionError):
        return "record idle workloads"
    return one_line(f"record idle workloads: {', '.join(names)}")


def victims_of(decision: Decision) -> str:
    """Return which pods go, "" where that goes without saying: no decrease, or all of them."""
    forecast = decision.victims
    if forecast is None or not decision.replicas_after:
        return ""
    words = _chosen_later(forecast) if forecast.chosen_at_apply else _named(forecast)
    return "; ".join(part for part in (words, one_line(forecast.note)) if part)


def _chosen_later(forecast: VictimForecast) -> str:
    rest = forecast.count - forecast.requested
    not_ready = f", and {rest} that are not ready" if rest > 0 else ""
    return f"deletes {forecast.requested} of {forecast.candidates} pods{not_ready}, chosen at apply"


def _named(forecast: VictimForecast) -> str:
    if not forecast.pods:
        return ""
    by = "" if forecast.strategy in ("", "Logarithmic") else f", {one_line(forecast.strategy)}"
    certain = "certain" if forecast.certain else "not certain"
    return f"deletes {', '.join(map(one_line, forecast.pods))} ({certain}{by})"


def counted(number: int, one: str, many: str = "") -> str:
    """Return "1 replica", "2 replicas"."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
