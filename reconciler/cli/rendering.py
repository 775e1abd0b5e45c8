"""A plan or a report in the form that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reconciler.apply.outcomes import Outcome
from reconciler.cli.compile_ import as_text
from reconciler.plan.file import plan_to_dict, plan_to_json
from reconciler.plan.model import Plan
from reconciler.report.text import Style, render_text

if TYPE_CHECKING:
    from reconciler.cli.running import Call


def rendered_plan(made: Plan, output: str, call: Call) -> str:
    """Return `made` as text, JSON, YAML, Markdown or HTML."""
    return rendered(made, None, output, call.style)


def rendered(made: Plan, outcomes: Sequence[Outcome] | None, output: str, style: Style) -> str:
    """Return a plan, or with `outcomes` the report of its apply, in the form `output`; `style` is that of text."""
    if output == "text":
        return render_text(made, outcomes, style)
    if output == "markdown":
        from reconciler.report.markdown import render_markdown

        return render_markdown(made, outcomes)
    if output == "html":
        from reconciler.report.html import render_html

        return render_html(made, outcomes)
    return _as_values(made, outcomes, output)


def _as_values(made: Plan, outcomes: Sequence[Outcome] | None, output: str) -> str:
    if outcomes is None:
        return plan_to_json(made) if output == "json" else as_text(plan_to_dict(made), "yaml")
    from reconciler.report.json import report_to_dict

    return as_text(report_to_dict(made, outcomes), output)
