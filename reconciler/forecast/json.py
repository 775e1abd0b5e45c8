"""A forecast, and a review, as JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from reconciler.decide.annotations import format_time
from reconciler.forecast.expected_savings import Savings, grouped_savings, savings_of
from reconciler.forecast.idle_periods import PolicyReplay, Replay
from reconciler.forecast.review import ChangedWorkload, Review, SelectionChange
from reconciler.forecast.review_report import review_parts
from reconciler.forecast.timelines import Forecast, HeldBackPeriod, Wake, WorkloadTimeline
from reconciler.model import ObjectRef, QueryKey
from reconciler.plan.json import plan_to_dict
from reconciler.pod_requests import PodRequests
from reconciler.policy.types import Prices

FORECAST_VERSION = "reconciler/forecast/v1alpha1"
REVIEW_VERSION = "reconciler/review/v1alpha1"


def forecast_to_dict(forecast: Forecast, by: str, prices: Prices) -> dict[str, Any]:
    """Return the forecast as JSON values; times are in UTC, hours and requests are numbers."""
    return {
        "schemaVersion": FORECAST_VERSION,
        "kind": "Forecast",
        "fleet": forecast.first.fleet,
        "start": format_time(forecast.start),
        "end": format_time(forecast.end),
        "tickSeconds": int(forecast.tick.total_seconds()),
        "runs": forecast.runs,
        "savings": _savings(savings_of(forecast.selected), prices),
        "groupedBy": by,
        "groups": [{"name": name, **_savings(found, prices)} for name, found in grouped_savings(forecast, by)],
        "workloads": [_timeline(timeline, forecast.end) for timeline in forecast.timelines],
        "heldBack": [_held_back(period) for period in forecast.held_back],
        "wakes": [_wake(wake) for wake in forecast.wakes],
        "undecided": dict(forecast.undecided),
        "unknown": dict(forecast.first.unknown),
        "unanswered": [_query(key) for key in forecast.first.unanswered],
        **({} if forecast.replay is None else {"replay": replay_to_dict(forecast.replay)}),
    }


def _savings(found: Savings, prices: Prices) -> dict[str, Any]:
    """Return what is saved for certain, and as IfMetricsStay all of it if metrics stay as they were recorded."""
    return {
        "workloads": found.workloads,
        "withoutPolicies": found.without.values(),
        "saved": found.saved.values(),
        "savedIfMetricsStay": found.possible.values(),
        "percent": round(found.percent(found.saved), 2),
        "percentIfMetricsStay": round(found.percent(found.possible), 2),
        **(
            {"money": round(prices.cost(found.saved), 4), "moneyIfMetricsStay": round(prices.cost(found.possible), 4)}
            if prices.known
            else {}
        ),
    }


def _timeline(timeline: WorkloadTimeline, end: datetime) -> dict[str, Any]:
    """Return one workload with its steps, and when it is deleted, where that is before `end`."""
    return {
        "object": str(timeline.ref),
        "policy": timeline.policy,
        "withoutPolicies": timeline.without,
        "requests": _requests(timeline.requests),
        "steps": [
            {
                "at": format_time(segment.start),
                "replicas": segment.replicas,
                **({"assumes": segment.assumes} if segment.assumes else {}),
            }
            for segment in timeline.segments
        ],
        **({"deletedAt": format_time(timeline.end)} if timeline.end < end else {}),
    }


def _requests(requests: PodRequests) -> dict[str, float]:
    return {"cpu": round(requests.cpu, 6), "memoryGiB": round(requests.memory, 6)}


def _held_back(period: HeldBackPeriod) -> dict[str, Any]:
    return {
        "from": format_time(period.start),
        "until": format_time(period.end),
        "allow": period.policy,
        "changes": period.number,
        "reason": period.why,
    }


def _wake(wake: Wake) -> dict[str, Any]:
    return {
        "at": format_time(wake.at),
        "pods": wake.pods,
        "requests": _requests(wake.requests),
        "clusters": dict(wake.clusters),
        "tiers": [{"tier": tier, "workloads": number} for tier, number in wake.tiers],
    }


def _query(key: QueryKey) -> dict[str, str]:
    return {"cluster": key.cluster, "policy": key.policy, "query": key.template, "window": key.window}


def replay_to_dict(replay: Replay) -> dict[str, Any]:
    """Return a replay as JSON values; times are in seconds, `requests` null where no query counts them."""
    return {"policies": [_replayed(one) for one in replay.policies], "notes": list(replay.notes)}


def _replayed(policy: PolicyReplay) -> dict[str, Any]:
    waiting = policy.waiting
    return {
        "policy": policy.policy,
        "idles": policy.idles,
        "wakesByTraffic": policy.wakes,
        "thrash": policy.thrash,
        "unit": policy.unit,
        "waited": None if waiting is None else round(waiting.requests, 2),
        "waitedSeconds": None if waiting is None else round(waiting.total.total_seconds(), 1),
        "longestSeconds": None if waiting is None else round(waiting.longest.total_seconds(), 1),
        "nights": policy.nights,
        "wrongNights": [{"night": f"{day}", "objects": list(map(str, refs))} for day, refs in policy.wrong.items()],
        "idleShareWithoutSeries": round(policy.missing, 4),
        "startSeconds": [round(policy.starts[0].total_seconds(), 1), round(policy.starts[1].total_seconds(), 1)],
        "startsMeasured": policy.starts[2],
        "unknownIn": list(policy.unknown),
    }


def review_to_dict(review: Review) -> dict[str, Any]:
    """Return the review as JSON values."""
    changes, differing = review.changes, frozenset(difference.ref for difference in review.differences)
    past = {} if review.replayed is None else dict(zip(("base", "head"), map(_past, review.replayed), strict=True))
    return {
        "schemaVersion": REVIEW_VERSION,
        "kind": "Review",
        "summary": list(review_parts(review)[0].words),
        "effect": review.effect,
        "replicaHours": round(sum(difference.certain_hours for difference in review.differences), 4),
        "replicaHoursIfMetricsStay": round(sum(difference.hours for difference in review.differences), 4),
        "baseReplicaHours": round(review.before_hours, 4),
        "fields": [msgspec.to_builtins(change) for change in changes.fields],
        "renamed": [msgspec.to_builtins(renamed) for renamed in changes.renamed],
        "removed": list(changes.removed),
        "added": list(changes.added),
        "owned": [
            {
                "policy": owned.policy,
                "idle": owned.idle,
                "unchanged": owned.unchanged,
                "woken": [{"at": format_time(at), "workloads": number} for at, number in owned.woken],
            }
            for owned in review.owned
        ],
        **{change.value: _names(review.selection.get(change, ())) for change in SelectionChange},
        "production": _names(review.production & differing.union(*review.selection.values())),
        "timeline": [_difference(difference, review.head.end) for difference in review.differences if review.head],
        "heldBack": [_held_back(period) for period in review.held_back],
        "fleetChanged": list(review.fleet_changed),
        "fleetFromBase": review.fleet_from_base,
        "next": plan_to_dict(review.next_head),
        "nextWithout": None if review.next_base is None else plan_to_dict(review.next_base),
        "unanswered": [_query(key) for key in sorted(review.next_head.unanswered)],
        "unknown": dict(review.next_head.unknown),
        "snapshotAgeSeconds": None if review.snapshot_age is None else int(review.snapshot_age.total_seconds()),
        "problem": review.problem,
        **({"replay": past} if past else {}),
    }


def _past(forecast: Forecast | None) -> dict[str, Any] | None:
    if forecast is None:
        return None
    found = {} if forecast.replay is None else replay_to_dict(forecast.replay)
    return {
        "start": format_time(forecast.start),
        "end": format_time(forecast.end),
        "savedReplicaHours": round(savings_of(forecast.selected).saved.replicas, 4),
        **found,
    }


def _names(refs: Iterable[ObjectRef]) -> list[str]:
    return [str(ref) for ref in sorted(refs)]


def _difference(difference: ChangedWorkload, end: datetime) -> dict[str, Any]:
    return {
        "object": str(difference.ref),
        "production": difference.production,
        "from": format_time(difference.at),
        "replicaHours": round(difference.hours, 4),
        "before": None if difference.before is None else _timeline(difference.before, end),
        "after": None if difference.after is None else _timeline(difference.after, end),
    }
