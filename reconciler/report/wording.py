"""The words for one change: what happens to which object, why, and which pods go. The same words serve every format.

Reasons are stored as text in UTC; here they are rendered for people, with ages and the time of calendars. A reason of
another form is shown as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import OBSERVED_CAPACITY, UNIDLE_TARGETS, parse_time
from reconciler.decide.decisions import Decision, FieldChange, Verb, VictimForecast
from reconciler.decide.downscale.journal import JOURNAL
from reconciler.decide.placement.memory import MEMORY, REPLACED
from reconciler.decide.placement.memory import PREFIX as STATUS
from reconciler.model import NOTHING, ObjectRef
from reconciler.plan.json_values import json_value
from reconciler.plan.model import Effect, effect_of, is_acted_on
from reconciler.untrusted_text import one_line

KINDS = {"idling": "IdlingPolicy", "placement": "FederatedReplicaSet", "downscale": "DownscalePolicy"}
"""The kind of policy by job."""

ADOPTED = "adopted, it was not ours"
_VERBS = {
    Verb.IDLE: "idle",
    Verb.WAKE: "wake",
    Verb.CREATE: "create",
    Verb.DELETE: "delete",
    Verb.OVERWRITE: "overwrite",
    Verb.RELEASE: "release",
}
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TIME = r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"
_NUMBER = r"-?(?:\d[\d.]*(?:e[-+]?\d+)?|inf)"
_BOUND = rf"(?P<bound>{_NUMBER})(?: in (?P<window>\S+))?"
_PHRASES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (rf"wakeWhen (?P<value>{_NUMBER}) above {_BOUND}", "wakeWhen {value} > {bound}{window}"),
        (rf"wakeWhen (?P<value>{_NUMBER}) at most {_BOUND}", "wakeWhen {value} <= {bound}{window}"),
        (
            rf"(?:(?P<name>.+) )?(?P<value>{_NUMBER}) (?:at most|above) {_BOUND}",
            "{name} {value}, idle at <= {bound}{window}",
        ),
        (r"(?P<name>.+) unknown(?: in \S+)?: (?P<rest>.+)", "{name}: {rest}"),
        (rf"schedule (?P<name>.+) closed until {_TIME}(?P<rest> \(.*\))?", "{name} starts {edge}{rest}"),
        (rf"schedule (?P<name>.+) until {_TIME}", "{name} until {edge}"),
        (r"schedule (?P<name>.+) (?P<rest>without end|is over.*)", "{name} {rest}"),
        (
            rf"(?P<name>(?:outside|in|exception to) uptime .+) until {_TIME}(?P<rest> \(.*\))?",
            "{name} until {edge}{rest}",
        ),
        (rf"kept awake until {_TIME}", "kept awake for another {age}"),
        (rf"wake requested at {_TIME}", "requested {age} ago"),
        (rf"NeedPods at {_TIME}", "NeedPods Event {age} ago"),
        (rf"due since {_TIME}", "due {age} ago"),
        (rf"awake since {_TIME}", "awake for {age}"),
        (rf"created at {_TIME}", "created {age} ago"),
        (rf"recorded at {_TIME}", "recorded {age} ago"),
        (rf"unreachable since {_TIME}", "unreachable for {age}"),
        (rf"(?P<name>refused [^:,]+), tried again at {_TIME}(?P<rest>: .*)", "{name}, retried in {age}{rest}"),
        (r"its policy was removed(?P<rest>.*)", "policy removed{rest}"),
        (r"the target is (?P<rest>.+)", "target {rest}"),
        (r"the query returns (?P<rest>.+)", "query {rest}"),
        (r"(?P<rest>\d+) waiting", "{rest} pending (waitingReplicas)"),
    )
)
_MOMENT = re.compile(rf"\b(?P<word>at|since) {_TIME}")
_CALENDAR = re.compile(r"(?:schedule|uptime) .+")
_EDGE = re.compile(rf"(?P<name>(?:schedule|uptime) .+?) (?:closed )?until {_TIME}")
_SEPARATOR = re.compile(r'(?:[^,"(]|"[^"]*"|\([^()]*\)|,(?! )|["(])+')


def weekday_and_time(at: datetime, zone: tzinfo) -> str:
    """Return "Fri 2026-11-20 20:00": what calendar and clock in `zone` show at `at`."""
    here = at.astimezone(zone)
    return f"{DAYS[here.weekday()]} {here:%Y-%m-%d %H:%M}"


def edge(at: datetime, zone: tzinfo = UTC) -> str:
    """Return "Mon 2026-11-23 07:00 +01:00", or with "UTC" at the end."""
    return f"{weekday_and_time(at, zone)} {'UTC' if zone is UTC else at.astimezone(zone).isoformat()[-6:]}"


def age(length: timedelta) -> str:
    """Return a length of time as kubectl does: "90s", "6m", "5h", "3d"."""
    seconds = int(length.total_seconds())
    for size, unit, least in ((86400, "d", 2), (3600, "h", 3), (60, "m", 2)):
        if seconds >= least * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


class ReasonWords(Struct, frozen=True):
    """`now` of the plan, and the `zones` of the calendars by the words that reasons name them with."""

    now: datetime
    zones: Mapping[str, tzinfo] = NOTHING

    def reasons(self, why: str) -> tuple[str, ...]:
        """Return the parts of a stored reason as a person reads them."""
        if why.startswith(ADOPTED):
            return ("not managed by this Fleet before", *self.reasons(why[len(ADOPTED) :].lstrip("; ")))
        head, refused, message = why.partition("refused ")
        parts = [part.strip() for part in _SEPARATOR.findall(head)]
        return tuple(self._phrase(one_line(part)) for part in (*parts, refused + message) if part)

    def reason(self, why: str) -> str:
        """Return a stored reason as a person reads it."""
        return ", ".join(self.reasons(why))

    def _phrase(self, part: str) -> str:
        for pattern, words in _PHRASES:
            found = pattern.fullmatch(part)
            if found is not None and ("time" not in pattern.groupindex or parse_time(found["time"]) is not None):
                return words.format_map(self._values(found.groupdict()))
        return part

    def text(self, words: str) -> str:
        """Return `words` with the moments in them as ages."""
        return _MOMENT.sub(self._age, words)

    def _age(self, found: re.Match[str]) -> str:
        at = parse_time(found["time"])
        if at is None:
            return found.group()
        return f"for {age(abs(self.now - at))}" if found["word"] == "since" else f"{age(abs(self.now - at))} ago"

    def flip(self, words: str, why: str) -> str:
        """Return what would change a decision; a moment that `why` names as an edge of a calendar is told like that."""
        edges = {found["time"]: self._values(found.groupdict())["edge"] for found in _EDGE.finditer(why)}

        def told(found: re.Match[str]) -> str:
            at = parse_time(found.group())
            return found.group() if at is None else edges.get(found.group()) or f"in {age(abs(at - self.now))}"

        return re.sub(_TIME, told, words).replace("after in ", "in ").replace("from in ", "in ")

    def _values(self, found: Mapping[str, str | None]) -> dict[str, str]:
        at, name = parse_time(found.get("time") or ""), found.get("name")
        return {
            "name": name or "metric",
            "value": found.get("value") or "",
            "bound": found.get("bound") or "",
            "rest": self.text(found.get("rest") or ""),
            "window": f" ({found['window']})" if found.get("window") else "",
            "edge": "" if at is None else edge(at, self._zone(name or "")),
            "age": "" if at is None else age(abs(self.now - at)),
        }

    def _zone(self, name: str) -> tzinfo:
        """Return the zone of the calendar that a reason calls by `name`, UTC where it is not known."""
        stated = _CALENDAR.search(name)
        return self.zones.get(stated.group() if stated else f"schedule {name}", UTC)


def is_measured(reason: str) -> bool:
    """Return whether a part of a reason is what was measured for one object."""
    return ", idle at <= " in reason or reason.startswith("wakeWhen ")


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
    if after is not None and decision.ref.kind != "CronJob" and decision.verb is not Verb.OVERWRITE:
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
    return f"{value_of(change.before)} -> {value_of(change.after)}"


def value_of(value: Any) -> str:
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
    if name.startswith(STATUS):
        return f"{update} status of FederatedReplicaSet {one_line(policy_of(decision))}"
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


def policy_of(decision: Decision) -> str:
    """Return the name of the policy as `reconciler` shows it: namespace/name for a FederatedReplicaSet."""
    kind, _, key = decision.group.partition("/")
    return key if kind == "placement" == decision.job and decision.cause.policy else decision.cause.policy


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
