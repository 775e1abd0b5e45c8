"""The report of an apply as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from reconciler.apply.outcomes import Outcome
from reconciler.plan.file import json_text, plan_document, plan_to_json
from reconciler.plan.model import Plan
from reconciler.report.documents import REPORT_VERSION, OutcomeCountsDocument, OutcomeDocument, ReportDocument
from reconciler.report.totals import totals_of


def render_json(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> str:
    """Return the plan, or with `outcomes` the report of its apply, as JSON text."""
    if outcomes is None:
        return plan_to_json(plan)
    return json_text(_document(plan, outcomes))


def report_to_dict(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return what became of `plan` as JSON values, as schemas/report.schema.json says."""
    return cast("dict[str, Any]", msgspec.to_builtins(_document(plan, outcomes)))


def _document(plan: Plan, outcomes: Sequence[Outcome]) -> ReportDocument:
    return ReportDocument(
        schema_version=REPORT_VERSION,
        kind="Report",
        counts=msgspec.convert(totals_of(plan, outcomes), OutcomeCountsDocument, from_attributes=True),
        outcomes=msgspec.convert(outcomes, list[OutcomeDocument], from_attributes=True),
        plan=plan_document(plan),
    )
