"""One change in words: what happens to which object, why, and which pods go. The same words serve every format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from reconciler.decide.types import Decision, FieldChange, Verb, VictimForecast
from reconciler.model import ObjectRef
from reconciler.plan.counts import Effect, effect_of
from reconciler.plan.json_values import json_value
from reconciler.plan.one_line import one_line
from reconciler.plan.permitted import OUR_ANNOTATIONS

NAMES_SHOWN = 8

_ARROWS = {
    Effect.DELETE: "-",
    Effect.OVERWRITE: "~",
    Effect.DOWN: "↓",
    Effect.UP: "↑",
    Effect.CREATE: "+",
    Effect.WAKE: "↥",
    Effect.REPAIR: "~",
    Effect.NOTE: "·",
}
_PHRASES = {
    Verb.IDLE: "idled",
    Verb.WAKE: "woken",
    Verb.MARK: "marked as idled",
    Verb.UNMARK: "idled mark taken off",
    Verb.CREATE: "created",
    Verb.OVERWRITE: "pod template replaced",
    Verb.DELETE: "deleted with its pods",
    Verb.REPAIR: "annotations put right",
    Verb.RELEASE: "our annotations taken off, nothing else changes",
    Verb.REMEMBER: "noted for the next run",
}
_LIST = ("metadata", "annotations", "idling.kubernetes.io/unidle-targets")
_LONGEST_WORD = 60


def arrow_of(decision: Decision) -> str:
    """Return the sign in front of the change: ↓ ↑ →0 ↥ + ~ - or · for what only concerns our own marks and memory."""
    effect = effect_of(decision)
    return f"→{decision.replicas_after or 0}" if effect is Effect.IDLE else _ARROWS[effect]


def name_of(ref: ObjectRef) -> str:
    """Return namespace, kind and name, without the cluster."""
    return one_line("/".join(part for part in (ref.namespace, ref.kind, ref.name) if part))


def what_of(decision: Decision) -> str:
    """Return what happens to the object: "replicas 6 → 2", "suspend no → yes", "pod template replaced"."""
    numbers = _numbers(decision)
    if decision.verb is Verb.DELETE:
        return "deleted, its pods keep running" if decision.orphan else _PHRASES[Verb.DELETE] + _aside(numbers)
    if decision.verb is Verb.CREATE and decision.replicas_after is not None:
        return f"created with {counted(decision.replicas_after, 'replica')}"
    if decision.verb is Verb.UNMARK and any(one.path == _LIST and one.after is not None for one in decision.changes):
        return "what is not idle any more taken off its idled list"
    if decision.verb is Verb.OVERWRITE:
        return _PHRASES[Verb.OVERWRITE] + _aside(numbers)
    return numbers or _visible_fields(decision) or _PHRASES.get(decision.verb, str(decision.verb))


def _aside(text: str) -> str:
    return f", {text}" if text else ""


def _numbers(decision: Decision) -> str:
    before, after = decision.replicas_before, decision.replicas_after
    if before is None or after is None or decision.ref.kind == "CronJob":
        return ""
    return f"replicas {before} → {after}"


def _visible_fields(decision: Decision) -> str:
    """Return the changes that somebody else than us acts on: the spec, and annotations that are not ours."""
    shown = [change for change in decision.changes if change.before != change.after and _acted_on(change.path)]
    return ", ".join(f"{one_line(change.path[-1])} {_word(change.before)} → {_word(change.after)}" for change in shown)


def _acted_on(path: tuple[str, ...]) -> bool:
    if path[:1] == ("spec",):
        return True
    return path[:2] == ("metadata", "annotations") and not path[-1].startswith(OUR_ANNOTATIONS)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = _value(value)
    return text if len(text) <= _LONGEST_WORD else text[:_LONGEST_WORD] + "…"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return one_line(value if isinstance(value, str) else json.dumps(json_value(value), ensure_ascii=False))


def why_of(decision: Decision) -> str:
    """Return the cause: "idle-dev: 0 requests in 30m; policies/dev.yaml:4"; other jobs put their name in front."""
    cause = decision.cause
    job = "" if decision.job == "idling" else f"{decision.job} "
    policy = f"{job}{cause.policy}: " if cause.policy else ""
    return one_line(f"{policy}{cause.why}" + (f"; {cause.at}" if cause.at else ""))


def victims_of(decision: Decision, *, all_names: bool = False) -> str:
    """Return which pods go, "" where that goes without saying: no decrease, or all of them."""
    forecast = decision.victims
    if forecast is None or (decision.replicas_after == 0 and not all_names):
        return ""
    words = _chosen_later(forecast) if forecast.chosen_at_apply else _named(forecast, all_names)
    note = one_line(forecast.note)
    return "; ".join(part for part in (words, note) if part)


def _chosen_later(forecast: VictimForecast) -> str:
    rest = forecast.count - forecast.requested
    return f"victims chosen at apply: {forecast.requested} of {forecast.candidates}" + (
        f", and {rest} that are not ready" if rest > 0 else ""
    )


def _named(forecast: VictimForecast, all_names: bool) -> str:
    if not forecast.pods:
        return ""
    sure = "certain" if forecast.certain else "likely; the controller may take others"
    way = "" if forecast.strategy in ("", "Logarithmic") else f", by {one_line(forecast.strategy)}"
    return f"victims {some_names(forecast.pods, everything=all_names)} ({sure}{way})"


def some_names(names: tuple[str, ...], *, everything: bool = False) -> str:
    """Return the first few of `names`, and how many more there are."""
    if everything or len(names) <= NAMES_SHOWN:
        return ", ".join(map(one_line, names))
    return ", ".join(map(one_line, names[:NAMES_SHOWN])) + f" and {len(names) - NAMES_SHOWN} more"


def fields_of(decision: Decision) -> Iterator[str]:
    """Yield every field the change is about, before and after; what is only tested says so."""
    for change in decision.changes:
        yield f"{_path(change)}: {_fate(change)}"
    if decision.manifest is not None:
        yield f"manifest: {_value(decision.manifest)}"


def _path(change: FieldChange) -> str:
    plain = [key if key.replace("-", "").replace("_", "").isalnum() else f'["{one_line(key)}"]' for key in change.path]
    return ".".join(plain).replace(".[", "[")


def _fate(change: FieldChange) -> str:
    if change.before == change.after:
        return f"{_value(change.before)} (must still be so)"
    return f"{_value(change.before)} → {_value(change.after)}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return "1 replica", "2 replicas"."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
