"""Random plans, as wide as their types allow."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from reconciler.apply.outcomes import Outcome
from reconciler.decide.decisions import Cause, Decision, FieldChange, HeldBack, LimitUse, PlacementRow, Verb
from reconciler.decide.reasons import CODES, Reason, Reasons
from reconciler.model import ObjectRef
from reconciler.plan.model import Plan
from reconciler.plan.order import numbered_actions

# characters a file can hold: anything but lone surrogates
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ("", "web", "a|b", "`code`", "<b>&amp;</b>", "@team", "a~/b", "line\nbreak", "\x1b[31m", "#12", "https://x.example")
)
names = st.sampled_from(("web", "api", "worker", "db")) | texts
clusters = st.sampled_from(("east", "west", "north"))
numbers = st.integers(0, 10**6)
numbers_or_none = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    numbers_or_none | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
value_names = st.sampled_from(("at", "since", "until", "name", "value", "policies", "timeZone", "text")) | texts
values = numbers_or_none | texts | st.just("2026-11-20T15:41:23Z") | st.lists(texts, max_size=2)
reasons = st.lists(
    st.builds(Reason, st.sampled_from(CODES), st.dictionaries(value_names, values, max_size=3)), max_size=3
).map(tuple)


def any_of(kind: type, /, last: str = "", **stated: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of the struct `kind`, each field of which has whatever its type allows, or as `stated`; those after the
    field `last` are at their defaults, as a plan's JSON has them not.
    """
    hints = _hints_of(kind)
    fields = [*kind.__struct_fields__]
    drawn = fields[: fields.index(last) + 1] if last else fields
    return st.builds(kind, **{name: stated[name] if name in stated else _of_type(hints[name]) for name in drawn})


@cache
def _hints_of(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


@cache  # one strategy for each type, however many plans are drawn
def _of_type(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _KNOWN:
        return _KNOWN[hint]
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(map(_of_type, inside))
    if origin is Literal:
        return st.sampled_from(inside)
    if origin is tuple:
        return st.lists(_of_type(inside[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(*map(_of_type, inside), max_size=2)
    return st.sampled_from(hint) if issubclass(hint, enum.Enum) else any_of(hint)


_KNOWN: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: numbers,
    float: st.floats(0, 100),
    bool: st.booleans(),
    type(None): st.none(),
    Any: json_values,
    datetime: st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    Reasons: reasons,
}
_KNOWN |= {
    ObjectRef: any_of(
        ObjectRef,
        cluster=clusters,
        namespace=names,
        kind=st.sampled_from(("Deployment", "Service", "CronJob")),
        name=names,
    ),
    Cause: any_of(Cause, last="values"),
    LimitUse: any_of(LimitUse, unit=st.sampled_from(("workloads", "replicas")), cluster=clusters | st.just("")),
    PlacementRow: any_of(PlacementRow, cluster=clusters),
}
changes = st.lists(
    any_of(FieldChange, path=st.lists(texts, min_size=1, max_size=3).map(tuple)),
    max_size=3,
    unique_by=lambda change: change.path,
).map(tuple)


@st.composite
def decisions(draw, key, earlier):
    verb = draw(st.sampled_from(list(Verb)))
    group = draw(st.sampled_from(("idling/east/dev/Service/api", "placement/shop/web")))
    mates = [decision.key for decision in earlier if decision.group == group]
    manifests = st.dictionaries(texts, json_values, max_size=3)
    return draw(
        any_of(
            Decision,
            last="has_labels",
            key=st.just(key),
            verb=st.just(verb),
            changes=changes,
            group=st.just(group),
            order=st.lists(st.integers(-9, 9), max_size=2).map(tuple),
            needs=st.lists(st.sampled_from(mates), max_size=2, unique=True).map(tuple) if mates else st.just(()),
            manifest=manifests if verb is Verb.CREATE else st.none() | manifests,
            wake_tier=st.sampled_from(("", f"tier/{key}")),
            wait_ready=st.sampled_from(["", *(decision.wake_tier for decision in earlier)]),
        )
    )


@st.composite
def decision_lists(draw, prefix, max_size=3):
    found: list[Decision] = []
    for n in range(draw(st.integers(0, max_size))):
        found.append(draw(decisions(f"{prefix}{n}", found)))
    return tuple(found)


@st.composite
def plans(draw):
    found = draw(decision_lists("do", max_size=4))
    named = {decision.ref.cluster for decision in found} | draw(st.sets(clusters))
    held = st.lists(any_of(HeldBack, decisions=decision_lists("held")), max_size=2).map(tuple)
    return draw(
        any_of(
            Plan,
            last="time_zones",
            clusters=st.fixed_dictionaries(dict.fromkeys(sorted(named), texts)),
            actions=st.just(numbered_actions(found)),
            held_back=held,
            observed=decision_lists("observed"),
            source=st.sampled_from(("live", "snapshot")),
            time_zones=st.sampled_from([(), ("Europe/Paris",), ("Asia/Tokyo", "Europe/Paris")]),
        )
    )


@st.composite
def outcomes_of(draw, plan):
    """Outcomes for some of the actions of `plan`, in their order."""
    done = [action for action in plan.actions if draw(st.integers(0, 4))]
    return tuple(draw(any_of(Outcome, last="picker_failed", action=st.just(action.id))) for action in done)
