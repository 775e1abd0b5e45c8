"""The report of an apply as a JSON document: the only definition of its fields."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from reconciler.apply.outcomes import OutcomeStatus
from reconciler.plan.documents import VERSION, Document, Number, PlanDocument

REPORT_VERSION: Final = "reconciler/report/v1alpha2"


class OutcomeDocument(Document, frozen=True):
    """The outcome of a change of the plan."""

    action: Annotated[int, Meta(ge=1, description="The id of the change in $.plan.actions.")]
    status: Annotated[
        OutcomeStatus,
        Meta(
            description="applied: done. stale: the object changed since the plan. failed: the API server or the pod "
            "picker refused it. skipped: not attempted. postponed: undone, and left to the next run."
        ),
    ]
    message: Annotated[
        str, Meta(description='Why, for anything but applied; or what else there is to say; "" for none.')
    ]
    hit: Annotated[Number, Meta(description="The number of pods that were planned to be deleted and were.")]
    missed: Annotated[Number, Meta(description="The number of pods that were planned to be deleted and were not.")]
    substituted: Annotated[Number, Meta(description="The number of other pods that were deleted.")]
    locked: Annotated[bool, Meta(description="Whether it was skipped because another run holds the lock of a cluster.")]
    picker_failed: Annotated[
        bool, Meta(description="Whether the request to the pod picker failed; the message has the reason.")
    ]


class OutcomeCountsDocument(Document, frozen=True):
    """The outcomes in numbers."""

    applied: Annotated[Number, Meta(description="Changes that were applied.")]
    stale: Annotated[
        Number, Meta(description="Changes that were not applied because the object changed since the plan.")
    ]
    failed: Annotated[Number, Meta(description="Changes that the API server or the pod picker refused.")]
    skipped: Annotated[Number, Meta(description="Changes that were not attempted.")]
    postponed: Annotated[Number, Meta(description="Decreases that undid themselves, left to the next run.")]
    not_chosen: Annotated[Number, Meta(description="Changes of the plan that were not approved.")]
    replicas_fewer: Annotated[Number, Meta(description="Replicas that the changes removed.")]
    replicas_more: Annotated[Number, Meta(description="Replicas that the changes added.")]


class ReportDocument(Document, frozen=True):
    """The report of an apply: its plan, and the outcome of each change."""

    schema_version: Annotated[Literal["reconciler/report/v1alpha2"], VERSION]
    kind: Annotated[Literal["Report"], Meta(description="The kind of this document.")]
    counts: Annotated[OutcomeCountsDocument, Meta(description="The outcomes in numbers.")]
    outcomes: Annotated[
        list[OutcomeDocument], Meta(description="The outcome of each change, in the order of the plan.")
    ]
    plan: Annotated[PlanDocument, Meta(description="The plan that was applied.")]
