"""Validated policies as JSON values: the desired-state rules after all defaults, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from reconciler.policy.types import AllOf, AnyOf, MetricCriterion, Place, PolicySet, ScheduleCriterion

_WORDS = {AllOf: "allOf", AnyOf: "anyOf", MetricCriterion: "metric", ScheduleCriterion: "schedule"}


def compile_policies(policies: PolicySet) -> dict[str, Any]:
    """Return every rule with every default filled in, in fixed order, each with its place."""
    return {
        "schemaVersion": "reconciler/v1alpha1",
        "kind": "Rules",
        "digest": policies.digest,
        "fleet": _plain(policies.fleet),
        "calendars": _plain(policies.calendars),
        "idling": _plain(policies.idling),
        "federated": _plain(policies.federated),
        "downscale": _plain(policies.downscale),
        "warnings": list(policies.warnings),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Place):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inside) for key, inside in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inside) for inside in value]
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds())}s"
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def _record(value: Any) -> Any:
    inside = {
        _camel(field.name): _plain(getattr(value, field.name))
        for field in fields(value)
        if not isinstance(getattr(value, field.name), tzinfo)
    }
    word = _WORDS.get(type(value))
    if word in ("allOf", "anyOf"):
        return {word: inside["criteria"]}
    return {word: inside} if word else inside


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
