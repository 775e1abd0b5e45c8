"""The words for one change: what happens to which object, and which pods go. The same words serve every format."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from reconciler.decide.annotations import Key
from reconciler.decide.decisions import Decision, FieldChange, Verb
from reconciler.decide.placement.home_config_maps import MEMORY, REPLACED
from reconciler.decide.placement.recorded_status import STATUS_PREFIX
from reconciler.decide.victim_fields import VictimForecast
from reconciler.messages import counted, first_of
from reconciler.model import JOURNAL, ObjectRef, by_key
from reconciler.plan.effects import Effect, effect_of, is_acted_on
from reconciler.plan.model import json_value
from reconciler.untrusted_text import one_line
from reconciler.workload_kinds import workload_kind

_VERB_WORDS = {
    Verb.IDLE: "idle",
    Verb.WAKE: "wake",
    Verb.CREATE: "create",
    Verb.DELETE: "delete",
    Verb.OVERWRITE: "overwrite",
    Verb.RELEASE: "release",
}


def name_of(ref: ObjectRef) -> str:
    """Return cluster, namespace, kind and name, as `reconciler explain` takes them."""
    text = str(ref)
    return one_line("/".join(filter(None, text.split("/"))) if "//" in f"/{text}/" else text)


def names_with_group(refs: Iterable[ObjectRef]) -> dict[ObjectRef, str]:
    """Return the names of those of `refs` that only the group of their kind tells apart, with it as kubectl has it."""
    known = list(refs)
    groups = Counter(kind for kind, _ in {(ref.kind, ref.group) for ref in known})
    several = {kind for kind, count in groups.items() if count > 1}
    called = by_key((str(ref), ref) for ref in dict.fromkeys(ref for ref in known if ref.kind in several))
    alike = chain.from_iterable(same for same in called.values() if len(same) > 1)
    return {ref: name_of(replace(ref, kind=f"{ref.kind}.{ref.group}")) for ref in alike if ref.group}


def sign_of(decision: Decision) -> str:
    """Return + create, - delete or ~ change."""
    if decision.verb is Verb.DELETE:
        return "-"
    return "+" if decision.verb is Verb.CREATE or decision.manifest is not None else "~"


def verb_of(decision: Decision, *, moves: bool = False) -> str:
    """Return the word for what happens to the object; `moves`: the policy raises and lowers in this plan."""
    if decision.verb in _VERB_WORDS:
        return _VERB_WORDS[decision.verb]
    effect, idling = effect_of(decision), decision.job == "idling"
    if effect is Effect.UP:
        return "move in" if moves else "wake" if idling else "scale up"
    if effect is Effect.DOWN:
        return "move out" if moves else "idle" if idling else "scale down"
    return "adopt" if decision.event == "Adopted" else "update"


def is_metadata(decision: Decision) -> bool:
    """Return whether only annotations, labels and ConfigMaps of our own change."""
    return effect_of(decision) is Effect.METADATA


def counted_changes(decisions: Iterable[Decision]) -> str:
    """Return how many changes and how many metadata updates these are, as the plan counts them."""
    found = [is_metadata(decision) for decision in decisions]
    changes, updates = found.count(False), found.count(True)
    words = [counted(changes, "change")] if changes or not updates else []
    return " and ".join([*words, *([counted(updates, "metadata update")] if updates else [])])


def field_of(decision: Decision) -> tuple[str, str]:
    """Return which field changes, and how: ("replicas", "3 -> 0"); ("", "") where none that others act on does.

    Of several the others are named beside how they change.
    """
    (name, *sides), *others = changes_of(decision) or [("", "")]
    return name, ", ".join([" -> ".join(sides), *map(change_text, others)])


def change_text(change: Sequence[str]) -> str:
    """Return a change of `changes_of` as "minReplicas 3 -> 0"."""
    return f"{change[0]} {' -> '.join(change[1:])}"


def changes_of(decision: Decision) -> list[tuple[str, ...]]:
    """Return each field that others act on, with its value before and after, or what becomes of it in one word."""
    before, after = decision.replicas_before, decision.replicas_after
    if after is not None and not workload_kind(decision.ref.kind).is_switch and decision.verb is not Verb.OVERWRITE:
        unchanged = before == after or (before is None and decision.verb is not Verb.CREATE)
        return [("replicas", f"{after}") if unchanged else ("replicas", f"{before or 0}", f"{after}")]
    return [(field_name(one.path), *_sides_of(one)) for one in decision.changes if is_acted_on(one)]


def field_name(path: Sequence[str]) -> str:
    """Return the last part of a path as people name it, an annotation without its prefix."""
    return one_line(path[-1].rpartition("/")[2])


def what_of(decision: Decision) -> str:
    """Return what happens to the object in a few words: "replicas 6 -> 2", "suspend false -> true", "release"."""
    if is_metadata(decision):
        return metadata_words(decision)
    return " ".join(field_of(decision)).strip() or verb_of(decision)


def _sides_of(change: FieldChange) -> tuple[str, ...]:
    if change.path[:2] == ("spec", "behavior") and change.after is None:
        return ("removed",)
    if isinstance(change.after, Mapping) and change.path == ("spec", "template"):
        return ("replaced",)
    absent = False if change.path == ("spec", "suspend") else None  # the default of the API
    return value_text(absent if change.before is None else change.before), value_text(change.after)


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
    if Key.UNIDLE_TARGETS in changed:
        return _idle_list_words(changed[Key.UNIDLE_TARGETS].after)
    words = (
        [_capacity_words(changed.pop(Key.OBSERVED_CAPACITY).after, decision)]
        if Key.OBSERVED_CAPACITY in changed
        else []
    )
    previous = changed.get(Key.PREVIOUS_SCALE)
    if previous is not None and previous.after is not None and Key.IDLED_AT in changed:
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
        names = [f"{target['kind']}/{target['name']}" for target in json.loads(text)]
    except (TypeError, ValueError, KeyError, RecursionError):
        return "record idle workloads"
    return one_line(f"record idle workloads: {', '.join(names)}")


_MOST_PODS = 50
"""So many pods are named of one workload; its JSON has all."""


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
    return f"deletes {first_of([*map(one_line, forecast.pods)], _MOST_PODS)} ({certain}{by})"
