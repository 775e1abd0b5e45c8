"""The report of an apply as a JSON document: its fields, written and read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.victim_fields import PlanNumber
from reconciler.errors import PlanFileError
from reconciler.plan.change_json import JsonObject
from reconciler.plan.effects import fewer, more
from reconciler.plan.json import (
    PLAN_SCHEMA,
    PlanDocument,
    document_in,
    plan_document,
    plan_from_dict,
    plan_of,
    values_of,
)
from reconciler.plan.model import Plan

REPORT_VERSION: Final = "reconciler/report/v1alpha2"


class OutcomeDocument(JsonObject, frozen=True):
    """The outcome of a change of the plan."""

    action: Annotated[int, Meta(ge=1, description="The id of the change in $.plan.actions.")]
    status: Annotated[
        OutcomeStatus,
        Meta(
            description="applied: done. stale: the object changed since the plan. failed: the API server or the pod "
            "picker refused it. skipped: not attempted. deferred: undone, and left to the next run."
        ),
    ]
    message: Annotated[
        str, Meta(description='Why, for anything but applied; or what else there is to say; "" for none.')
    ]
    hit: Annotated[PlanNumber, Meta(description="The number of pods that were planned to be deleted and were.")]
    missed: Annotated[PlanNumber, Meta(description="The number of pods that were planned to be deleted and were not.")]
    substituted: Annotated[PlanNumber, Meta(description="The number of other pods that were deleted.")]
    locked: Annotated[bool, Meta(description="Whether it was skipped because another run holds the lock of a cluster.")]
    picker_failed: Annotated[
        bool, Meta(description="Whether the request to the pod picker failed; the message has the reason.")
    ]


class Totals(JsonObject, frozen=True):
    """The outcomes in numbers."""

    applied: Annotated[PlanNumber, Meta(description="Changes that were applied.")]
    stale: Annotated[
        PlanNumber, Meta(description="Changes that were not applied because the object changed since the plan.")
    ]
    failed: Annotated[PlanNumber, Meta(description="Changes that the API server or the pod picker refused.")]
    skipped: Annotated[PlanNumber, Meta(description="Changes that were not attempted.")]
    deferred: Annotated[PlanNumber, Meta(description="Decreases that undid themselves, left to the next run.")]
    not_chosen: Annotated[PlanNumber, Meta(description="Changes of the plan that were not approved.")]
    replicas_fewer: Annotated[PlanNumber, Meta(description="Replicas that the changes removed.")]
    replicas_more: Annotated[PlanNumber, Meta(description="Replicas that the changes added.")]


def totals_of(plan: Plan, outcomes: Sequence[Outcome]) -> Totals:
    """Return the totals of `outcomes`; an action of `plan` without an outcome was not chosen."""
    by_status = Counter(outcome.status for outcome in outcomes)
    applied = {outcome.action for outcome in outcomes if outcome.status is OutcomeStatus.APPLIED}
    done = [action.decision for action in plan.actions if action.id in applied]
    return Totals(
        applied=by_status[OutcomeStatus.APPLIED],
        stale=by_status[OutcomeStatus.STALE],
        failed=by_status[OutcomeStatus.FAILED],
        skipped=by_status[OutcomeStatus.SKIPPED],
        deferred=by_status[OutcomeStatus.DEFERRED],
        not_chosen=len({action.id for action in plan.actions} - {outcome.action for outcome in outcomes}),
        replicas_fewer=fewer(done),
        replicas_more=more(done),
    )


class ReportDocument(JsonObject, frozen=True):
    """The report of an apply: its plan, and the outcome of each change."""

    schema_version: Annotated[Literal["reconciler/report/v1alpha2"], PLAN_SCHEMA]
    kind: Annotated[Literal["Report"], Meta(description="The kind of this document.")]
    counts: Annotated[Totals, Meta(description="The outcomes in numbers.")]
    outcomes: Annotated[
        list[OutcomeDocument], Meta(description="The outcome of each change, in the order of the plan.")
    ]
    plan: Annotated[PlanDocument, Meta(description="The plan that was applied.")]


def report_to_dict(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return what became of `plan` as JSON values, as schemas/report.schema.json says."""
    document = ReportDocument(
        schema_version=REPORT_VERSION,
        kind="Report",
        counts=totals_of(plan, outcomes),
        outcomes=msgspec.convert(outcomes, list[OutcomeDocument], from_attributes=True),
        plan=plan_document(plan),
    )
    return values_of(document)


def plan_and_outcomes(value: Any, *, where: str) -> tuple[Plan, tuple[Outcome, ...] | None]:
    """Return the plan that the JSON values in `value` describe, and the outcomes where it is a report; None: a plan.

    Raises:
        PlanFileError: it is neither, or of another schema version.
    """
    if not isinstance(value, dict) or value.get("kind") != "Report":
        return plan_from_dict(value, where=where), None
    words = "is not a report ({}), expected one as `apply -o json` prints it"
    document = document_in(value, ReportDocument, REPORT_VERSION, where, words)
    plan = plan_of(document.plan, where)
    known = {action.id for action in plan.actions}
    for n, one in enumerate(document.outcomes):
        if one.action not in known:
            raise PlanFileError(f"{where}: $.outcomes[{n}].action is {one.action}, expected the id of a planned change")
    return plan, msgspec.convert(document.outcomes, tuple[Outcome, ...], from_attributes=True)
