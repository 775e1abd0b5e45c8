"""When something is idle, and what wakes it: the criteria of an IdlingPolicy."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from reconciler.messages import Path, nearest, shown
from reconciler.policy.kinds.calendar import STATED, Calendar, HoursFields, calendar_of
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fields import Fields, Number, PositiveDuration, Query, Text, from_fields, given

QUERY = Meta(
    description="query is a PromQL query. The labels namespace and service of a result name the Service that it is "
    "about. {{ window }}, {{ cluster }} and {{ policy }} are replaced by their values."
)
WINDOW = Meta(description="window is the range that replaces {{ window }} in the query.")


class _MetricFields(Fields, frozen=True, kw_only=True):
    """A Service is idle while the value of a query is at or below atMost."""

    query: Annotated[Query, QUERY]
    at_most: Number = 0
    """atMost is the greatest value that is idle."""
    window: Annotated[PositiveDuration, WINDOW] = "30m"
    coverage: Query | UnsetType = UNSET
    """coverage is a PromQL query for how much was measured. It requires coverageAtLeast."""
    coverage_at_least: Number | UnsetType = UNSET
    """coverageAtLeast is the least coverage. With less, the result of the criterion is unknown."""
    no_series: Literal["Unknown", "Zero"] = "Unknown"
    """noSeries is the value of a Service that has no series. A Service is not idled while the result is Unknown. If the
    answer has series but none of them names a selected Service, the result is unknown in any case."""

    json_schema: ClassVar[dict[str, Any]] = {
        "dependentRequired": {"coverage": ["coverageAtLeast"], "coverageAtLeast": ["coverage"]}
    }


class MetricCriterion(_MetricFields, frozen=True, kw_only=True):
    """Idle while the query's value for a Service is at or below `at_most`. Reasons call it `name`, if it has one."""

    name: str = ""


class _ScheduleFields(HoursFields, frozen=True, kw_only=True):
    """Idle during the downtime of a Calendar, or during the downtime that is stated here."""

    calendar: Text | UnsetType = UNSET
    """calendar is the name of a Calendar. If it is not set, timeZone and one of downtime and uptime are required."""

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {
                "required": ["calendar"],
                "properties": {"timeZone": False, "downtime": False, "uptime": False, "exceptions": False},
            },
            {"required": ["timeZone", "downtime"], "properties": {"calendar": False, "uptime": False}},
            {"required": ["timeZone", "uptime"], "properties": {"calendar": False, "downtime": False}},
        ],
        "x-expected": 'either "calendar", or "timeZone" and one of "downtime" and "uptime"',
    }


class CriterionFields(Fields, frozen=True, kw_only=True):
    """A criterion, with exactly one of metric, schedule, anyOf and allOf."""

    name: Annotated[str, Meta(min_length=1, max_length=63)] | UnsetType = UNSET
    """name is what reasons call a metric. The default is metric."""
    metric: _MetricFields | UnsetType = UNSET
    """metric is met while the value of a query is at most atMost."""
    schedule: _ScheduleFields | UnsetType = UNSET
    """schedule is met during downtime."""
    any_of: Annotated[tuple["CriterionFields", ...], Meta(min_length=1)] | UnsetType = UNSET
    """anyOf is met if at least one of its criteria is met."""
    all_of: Annotated[tuple["CriterionFields", ...], Meta(min_length=1)] | UnsetType = UNSET
    """allOf is met if all of its criteria are met."""

    json_schema: ClassVar[dict[str, Any]] = {
        "minProperties": 1,
        "maxProperties": 2,
        "x-expected": 'exactly one of "metric", "schedule", "anyOf" and "allOf"',
        "oneOf": [{"required": [name]} for name in ("metric", "schedule", "anyOf", "allOf")],
    }


class WakeMetric(Fields, frozen=True):
    """A Service is woken while the value of a query is above a bound."""

    query: Annotated[Query, QUERY]
    above: Number = 0
    """above is the greatest value that does not wake."""
    window: Annotated[PositiveDuration, WINDOW] = "5m"


class WakeCriterionFields(Fields, frozen=True, kw_only=True):
    """A criterion that wakes."""

    metric: WakeMetric
    """metric is met while the value of a query is greater than above."""


class ScheduleCriterion(Struct, frozen=True):
    """Idle while the calendar has a window open."""

    calendar: Calendar


class AnyOf(Struct, frozen=True):
    criteria: "tuple[Criterion, ...]"


class AllOf(Struct, frozen=True):
    criteria: "tuple[Criterion, ...]"


Criterion = MetricCriterion | ScheduleCriterion | AnyOf | AllOf


def leaves(criterion: Criterion) -> Iterator[MetricCriterion | ScheduleCriterion]:
    """Yield the metric and schedule criteria inside `criterion`."""
    if isinstance(criterion, AllOf | AnyOf):
        for inner in criterion.criteria:
            yield from leaves(inner)
    else:
        yield criterion


def criteria_at(
    document: PolicyDocument, path: Path, fields: Sequence[CriterionFields]
) -> tuple[Criterion, ...] | None:
    """Return the criteria at `path`, None where one of them is not known; problems are gathered in `document`."""
    found = [_criterion(document, (*path, position), stated) for position, stated in enumerate(fields)]
    known = tuple(criterion for criterion in found if criterion is not None)
    return known if len(known) == len(found) else None


def _criterion(document: PolicyDocument, path: Path, fields: CriterionFields) -> Criterion | None:
    kinds = {"metric": fields.metric, "schedule": fields.schedule, "anyOf": fields.any_of, "allOf": fields.all_of}
    stated = {kind: value for kind, value in kinds.items() if value is not UNSET}
    if len(stated) != 1:
        what = f"has {' and '.join(stated)}" if stated else "is empty"
        document.add(path, f"{what}, expected exactly one of metric, schedule, anyOf and allOf")
        return None
    ((kind, value),) = stated.items()
    name = given(fields.name) or ""
    if isinstance(value, _MetricFields):
        return _metric(document, (*path, kind), value, name)
    if name:
        document.add((*path, "name"), f"stands beside {kind}, expected it beside a metric", key=True)
    if isinstance(value, _ScheduleFields):
        return _schedule(document, (*path, kind), value)
    inside = criteria_at(document, (*path, kind), value if isinstance(value, tuple) else ())
    return None if inside is None else (AnyOf if kind == "anyOf" else AllOf)(inside)


def _metric(document: PolicyDocument, path: Path, fields: _MetricFields, name: str) -> MetricCriterion:
    coverage, least = given(fields.coverage), given(fields.coverage_at_least)
    if (coverage is None) != (least is None):
        missing = "coverageAtLeast" if least is None else "coverage"
        document.add((*path, missing), "is missing, expected coverage and coverageAtLeast together")
    document.check_query((*path, "query"), fields.query)
    if coverage is not None:
        document.check_query((*path, "coverage"), coverage)
    document.check_duration((*path, "window"), fields.window)
    return from_fields(MetricCriterion, fields, name=name)


def _schedule(document: PolicyDocument, path: Path, fields: _ScheduleFields) -> ScheduleCriterion | None:
    name, named = given(fields.calendar), document.calendars.named
    own = [field for field in ("timeZone", *STATED) if document.is_stated((*path, field))]
    if name is None:
        return _own_calendar(document, path, fields, own)
    if own:
        document.add(path, "has a calendar and hours of its own, expected one of the two")
        return None
    if name not in named and document.calendars.complete:
        document.add((*path, "calendar"), f"is {shown(name)}, expected the name of a Calendar{nearest(name, named)}")
    found = named.get(name)
    return None if found is None else ScheduleCriterion(found)


def _own_calendar(
    document: PolicyDocument, path: Path, fields: _ScheduleFields, own: Sequence[str]
) -> ScheduleCriterion | None:
    missing = "timeZone" if "timeZone" not in own else "downtime" if len(own) == 1 else ""
    if missing:
        words = "is missing, expected a calendar by name, or timeZone and downtime or uptime here"
        document.add((*path, missing), words)
        return None
    return ScheduleCriterion(calendar_of(document, path, fields))


def wake_when_of(document: PolicyDocument, fields: Sequence[WakeCriterionFields]) -> tuple[WakeMetric, ...]:
    """Return what wakes beside requests; problems are gathered in `document`."""
    for position, criterion in enumerate(fields):
        path: Path = ("spec", "wakeWhen", position, "metric")
        document.check_query((*path, "query"), criterion.metric.query)
        document.check_duration((*path, "window"), criterion.metric.window)
    return tuple(criterion.metric for criterion in fields)
