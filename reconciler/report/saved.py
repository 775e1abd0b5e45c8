"""Saved plans and reports, read back to be shown."""

from __future__ import annotations

from typing import Any

import msgspec

from reconciler.apply.outcomes import Outcome
from reconciler.errors import PlanFileError
from reconciler.plan.file import check_version, plan_from_dict, plan_of
from reconciler.plan.model import Plan
from reconciler.report.documents import REPORT_VERSION, ReportDocument
from reconciler.untrusted_text import one_line


def plan_and_outcomes(value: Any, *, where: str) -> tuple[Plan, tuple[Outcome, ...] | None]:
    """Return the plan that the JSON values in `value` describe, and the outcomes where it is a report; None: a plan.

    Raises:
        PlanFileError: it is neither, or of another schema version.
    """
    if not isinstance(value, dict) or value.get("kind") != "Report":
        return plan_from_dict(value, where=where), None
    check_version(value, where, "Report", REPORT_VERSION)
    try:
        document = msgspec.convert(value, ReportDocument)
    except (msgspec.ValidationError, RecursionError) as error:
        raise PlanFileError(
            f"{where}: is no report ({one_line(str(error))}), expected one as `apply -o json` prints it"
        ) from error
    plan = plan_of(document.plan, where)
    return plan, _outcomes(document, plan, where)


def _outcomes(document: ReportDocument, plan: Plan, where: str) -> tuple[Outcome, ...]:
    known = {action.id for action in plan.actions}
    for n, one in enumerate(document.outcomes):
        if one.action not in known:
            raise PlanFileError(f"{where}: $.outcomes[{n}].action is {one.action}, expected the id of a planned change")
    return tuple(Outcome(**{name: getattr(one, name) for name in one.__struct_fields__}) for one in document.outcomes)
