"""A forecast as JSON values."""

from __future__ import annotations

from typing import Any

from reconciler.decide.annotations import format_time
from reconciler.forecast.pod_requests import Requests
from reconciler.forecast.savings import Hours, Savings, grouped_savings, savings_of
from reconciler.forecast.timelines import Forecast, HeldBackPeriod, Wake, WorkloadTimeline
from reconciler.model import QueryKey
from reconciler.policy.types import Prices

FORECAST_VERSION = "reconciler/forecast/v1alpha1"


def forecast_to_dict(made: Forecast, by: str, prices: Prices) -> dict[str, Any]:
    """Return the forecast as JSON values; times are in UTC, hours and requests are numbers."""
    return {
        "schemaVersion": FORECAST_VERSION,
        "kind": "Forecast",
        "fleet": made.fleet,
        "start": format_time(made.start),
        "end": format_time(made.end),
        "tickSeconds": int(made.tick.total_seconds()),
        "runs": made.runs,
        "savings": savings_to_dict(savings_of(made.selected), prices),
        "groupedBy": by,
        "groups": [{"name": name, **savings_to_dict(found, prices)} for name, found in grouped_savings(made, by)],
        "workloads": [timeline_to_dict(one) for one in made.timelines],
        "heldBack": [held_to_dict(one) for one in made.held_back],
        "wakes": [_wake(one) for one in made.wakes],
        "undecided": dict(made.undecided),
        "unknown": dict(made.unknown),
        "unanswered": [query_to_dict(one) for one in made.unanswered],
    }


def savings_to_dict(found: Savings, prices: Prices) -> dict[str, Any]:
    """Return what is saved for certain, and as IfMetricsStay all of it if metrics stay as they were recorded."""
    more = found.saved.plus(found.assumed)
    return {
        "workloads": found.workloads,
        "withoutPolicies": _hours(found.without),
        "saved": _hours(found.saved),
        "savedIfMetricsStay": _hours(more),
        "percent": round(found.percent(found.saved), 2),
        "percentIfMetricsStay": round(found.percent(more), 2),
        **(
            {"money": round(found.saved.cost(prices), 4), "moneyIfMetricsStay": round(more.cost(prices), 4)}
            if prices.known
            else {}
        ),
    }


def _hours(hours: Hours) -> dict[str, float]:
    return {
        "replicaHours": round(hours.replicas, 4),
        "cpuHours": round(hours.requests.cpu, 4),
        "memoryGiBHours": round(hours.requests.memory, 4),
    }


def timeline_to_dict(one: WorkloadTimeline) -> dict[str, Any]:
    """Return one workload with its steps."""
    return {
        "object": str(one.ref),
        "policy": one.policy,
        "withoutPolicies": one.without,
        "requests": _requests(one.requests),
        "steps": [
            {
                "at": format_time(segment.start),
                "replicas": segment.replicas,
                **({"assumes": segment.assumes} if segment.assumes else {}),
            }
            for segment in one.segments
        ],
    }


def _requests(requests: Requests) -> dict[str, float]:
    return {"cpu": round(requests.cpu, 6), "memoryGiB": round(requests.memory, 6)}


def held_to_dict(one: HeldBackPeriod) -> dict[str, Any]:
    return {
        "from": format_time(one.start),
        "until": format_time(one.end),
        "allow": one.allow,
        "changes": one.number,
        "reason": one.why,
    }


def _wake(one: Wake) -> dict[str, Any]:
    return {
        "at": format_time(one.at),
        "pods": one.pods,
        "requests": _requests(one.requests),
        "clusters": dict(one.clusters),
        "tiers": [{"tier": tier, "workloads": number} for tier, number in one.tiers],
    }


def query_to_dict(key: QueryKey) -> dict[str, str]:
    return {"cluster": key.cluster, "policy": key.policy, "query": key.template, "window": key.window}
