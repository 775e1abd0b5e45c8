"""The report of an apply as a JSON document, with the words that schemas/report.schema.json says of its fields."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from reconciler.apply.outcomes import OutcomeStatus
from reconciler.plan.documents import VERSION, Document, Number, PlanDocument

REPORT_VERSION: Final = "reconciler/report/v1alpha2"


class OutcomeDocument(Document, frozen=True):
    """What became of one change of the plan."""

    action: Annotated[int, Meta(ge=1, description="The id of the change in $.plan.actions.")]
    status: Annotated[
        OutcomeStatus,
        Meta(
            description="applied: done. stale: the object is not what the plan saw. failed: the server or the pod "
            "picker said no. skipped: not tried. postponed: undone and left to the next run."
        ),
    ]
    message: Annotated[
        str, Meta(description='Why, for anything but applied; or what else there is to say; "" for none.')
    ]
    hit: Annotated[Number, Meta(description="Of the pods that were to go: how many went.")]
    missed: Annotated[Number, Meta(description="Of the pods that were to go: how many are still there.")]
    substituted: Annotated[Number, Meta(description="How many other pods went instead.")]
    locked: Annotated[bool, Meta(description="It was skipped because another run holds the lock of a cluster.")]
    picker_failed: Annotated[bool, Meta(description="The pod picker gave no usable answer; the message says why.")]


class OutcomeCountsDocument(Document, frozen=True):
    """The outcomes in numbers. They follow from the rest and are not read back."""

    applied: Annotated[Number, Meta(description="Changes made.")]
    stale: Annotated[Number, Meta(description="Changes not made because the object is not what the plan saw.")]
    failed: Annotated[Number, Meta(description="Changes that the server or the pod picker refused.")]
    skipped: Annotated[Number, Meta(description="Changes not tried.")]
    postponed: Annotated[Number, Meta(description="Decreases that undid themselves, left to the next run.")]
    not_chosen: Annotated[Number, Meta(description="Changes of the plan that were not approved.")]
    replicas_fewer: Annotated[Number, Meta(description="Replicas taken away by the changes made.")]
    replicas_more: Annotated[Number, Meta(description="Replicas added by the changes made.")]


class ReportDocument(Document, frozen=True):
    """What an apply did: the plan it carried out, and what became of each change."""

    schema_version: Annotated[Literal["reconciler/report/v1alpha2"], VERSION]
    kind: Annotated[Literal["Report"], Meta(description="What this document is.")]
    counts: Annotated[OutcomeCountsDocument, Meta(description="The outcomes in numbers.")]
    outcomes: Annotated[list[OutcomeDocument], Meta(description="What became of each change, in the plan's order.")]
    plan: Annotated[PlanDocument, Meta(description="The plan that was carried out.")]
