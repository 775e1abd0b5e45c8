"""Whatever a plan holds: each form says all of it and can be read, and nothing from outside becomes markup."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families as older_families

from reconciler.apply.outcomes import OutcomeStatus
from reconciler.backends.protocols import ApiTraffic
from reconciler.plan.json import plan_to_dict
from reconciler.report.change_words import is_metadata, name_of, what_of
from reconciler.report.html import render_html
from reconciler.report.json import plan_and_outcomes, report_to_dict
from reconciler.report.markdown import LONGEST_TEXT, render_markdown
from reconciler.report.metrics import Measured, render_metrics
from reconciler.report.summary import outcome_word
from reconciler.report.text import Style, render_text
from tests.laws import tries
from tests.report.rendered import page_of_html, page_of_markdown, reads
from tests.report.strategies import outcomes_of, plans
from tests.report.test_metrics import samples
from tests.report.validators import validator_of

FROM_ELSEWHERE = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"}


@given(st.data(), plans(), st.booleans(), st.integers(1, 50))
@tries(60)
def test_every_form(data, plan, applied, times):
    outcomes = data.draw(outcomes_of(plan))
    check_text(plan, verbose=applied)
    check_text_of_outcomes(plan, outcomes)
    check_markdown(render_markdown(plan, outcomes if applied else None))
    longer = replace(plan, undecided=plan.undecided * times, held_back=plan.held_back * times)
    assert len(render_markdown(longer)) <= LONGEST_TEXT
    check_html(plan, render_html(plan, outcomes if applied else None))
    check_json(plan, outcomes)
    check_metrics(render_metrics(Measured(plan, outcomes, {"plan": 0.1}, {"east": ApiTraffic()}, 1.0)))


def check_text(plan, *, verbose):
    """Check that every change is said on lines that can be printed."""
    lines = render_text(plan, None, Style(verbose=verbose)).splitlines()
    assert all(line.isprintable() for line in lines)
    said = [reads(line) for line in lines]
    for action in plan.actions:
        if verbose or not is_metadata(action.decision):
            name, what = reads(name_of(action.ref)), reads(what_of(action.decision))
            assert any(name in line and what in line for line in said)


def check_text_of_outcomes(plan, outcomes):
    """Check that every outcome but a plain success is said below its change."""
    lines = render_text(plan, outcomes, Style()).splitlines()
    words = {one.action: outcome_word(one) for one in outcomes if one.status is not OutcomeStatus.APPLIED}
    for action in plan.actions:
        if action.id in words:
            at = [number for number, line in enumerate(lines) if reads(name_of(action.ref)) in reads(line)]
            assert any(words[action.id] in "\n".join(lines[number : number + 3]) for number in at)


def check_markdown(text):
    """Check that no name is broken, no text ends its block, and nothing becomes a link, a script or a picture."""
    ends = [line for line in text.splitlines() if line.startswith("```")]
    assert all(end == start.removesuffix("text") for start, end in zip(ends[::2], ends[1::2], strict=True))
    page = page_of_markdown(text)
    assert page.tags.count("pre") == len(ends) / 2
    assert {"table", "li", "a", "img", "script", "em", "blockquote", "ol"}.isdisjoint(page.tags)
    assert page.tags.count("details") == page.tags.count("summary")


def check_html(plan, html):
    """Check that every change is shown and nothing comes from elsewhere."""
    page = page_of_html(html)
    shown = reads(page.text)
    assert FROM_ELSEWHERE.isdisjoint(page.tags)
    assert {name for name, _ in page.attributes}.isdisjoint({"src", "href", "onclick", "onload", "onerror"})
    for action in plan.actions:
        assert reads(name_of(action.ref)) in shown
        assert reads(what_of(action.decision)) in shown


def check_json(plan, outcomes):
    """Check that a report is as its schema says, and read back what was written; a plan has no outcomes."""
    document = json.loads(json.dumps(report_to_dict(plan, outcomes)))
    validator_of("report.schema.json").validate(document)
    assert plan_and_outcomes(document, where="report.json") == (plan, outcomes)
    assert plan_and_outcomes(plan_to_dict(plan), where="plan.json") == (plan, None)


def check_metrics(text):
    """Check that both formats of Prometheus can be read."""
    assert text.endswith("# EOF\n")
    older = [sample for family in older_families(text) for sample in family.samples]
    assert len(older) == len(samples(text))
    assert not any(math.isnan(sample.value) for sample in older)
