"""PromQL templates: what they may hold, and what becomes of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from reconciler.errors import PolicyError
from reconciler.policy.queries import query_fault, render_query

VALUES = {"window": "30m", "cluster": "eu-west", "policy": "idle-dev"}


@pytest.mark.parametrize(
    ("template", "query"),
    [
        ("up[{{ window }}]", "up[30m]"),
        ("up[{{window}}]\n", "up[30m]"),
        ('up{cluster="{{ cluster }}", by="{{policy}}"}', 'up{cluster="eu-west", by="idle-dev"}'),
        ("sum by (a) (rate(x{a!~'b}c'}[5m]))", "sum by (a) (rate(x{a!~'b}c'}[5m]))"),
        ("up{{ '{' }}a='b'}", "up{a='b'}"),
        ("{% raw %}{{ window }}{% endraw %}", "{{ window }}"),
        ("{{ cluster|upper ~ '-' ~ policy }}", "EU-WEST-idle-dev"),
        ("{% if cluster == 'eu-west' %}a{% else %}b{% endif %}", "a"),
        ("{{ cluster[0:2] }}{# two letters #}", "eu"),
        ("{{ 'a' if policy in ('x', 'idle-dev') else 'b' }}", "a"),
        ("{{ window }}}", "30m}"),
        ("{{- window -}} x", "30mx"),
    ],
)
def test_a_good_template(template, query):
    assert query_fault(template) is None
    assert render_query(template, **VALUES) == query


MORE = "has more than values in its template ({}), expected text with {{{{ window }}}} and the like"
DEEP = "is no template: it is nested too deeply, or holds a number that is too long"
FILTERS = '"abs", "capitalize", "d", "default", "float", "int", "lower", "round", "title", "trim" or "upper"'


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("", "is empty, expected a query"),
        (" \n", "is empty, expected a query"),
        ("{{ windw }}", 'uses "windw", expected only "cluster", "policy" or "window", did you mean "window"?'),
        ("{{ namespace }}", 'uses "namespace", expected only "cluster", "policy" or "window"'),
        ("{{ window", "is no template: unexpected end of template, expected 'end of print statement'."),
        ("{% if %}", "is no template: Expected an expression, got 'end of statement block'"),
        ("{{ window[9] }}", "cannot be rendered: str object has no element 9"),
        ("{{ window + 1 }}", 'cannot be rendered: can only concatenate str (not "int") to str'),
        ("{% for i in window %}{{ i }}{% endfor %}", MORE.format("for")),
        ("{{ range(9) }}", MORE.format("call")),
        ("{{ window.x }}", MORE.format("getattr")),
        ("{{ 'a' * 999999999 }}", MORE.format("mul")),
        ("{{ '%999999999d' % 1 }}", MORE.format("mod")),
        ("{{ 9 ** 9 }}", MORE.format("pow")),
        ("{% set a = window ~ window %}{{ a }}", MORE.format("assign")),
        ("{% with a = window %}{{ a }}{% endwith %}", MORE.format("with")),
        ("{% macro m() %}{% endmacro %}", MORE.format("macro")),
        ("{% include '/etc/passwd' %}", MORE.format("include")),
        ("{{ window|center(999999999) }}", f'has the filter "center" in its template, expected {FILTERS}'),
        ("{{ window|nope }}", f'has the filter "nope" in its template, expected {FILTERS}'),
        ("{{ " + "(" * 5000 + " }}", DEEP),
        ("{{ " + "not " * 3000 + "window }}", DEEP),
        ("{{ " + "1+" * 4000 + "1 }}", DEEP),
        ("{{ " + "9" * 9000 + " }}", DEEP),
        ("x" * 20_001, "has 20001 characters, expected at most 20000"),
    ],
)
def test_a_wrong_template(template, fault):
    assert query_fault(template) == fault


def test_a_target_has_no_window():
    assert query_fault("x{{ cluster }}", ("cluster", "policy")) is None
    assert query_fault("x[{{ window }}]", ("cluster", "policy")) == 'uses "window", expected only "cluster" or "policy"'


def test_values_are_text_and_never_templates():
    assert render_query("{{ cluster }}", **{**VALUES, "cluster": "{{ window }}"}) == "{{ window }}"


def test_a_query_that_grows_too_long_is_refused():
    with pytest.raises(PolicyError, match="is 30000 characters long when rendered, expected at most 20000"):
        render_query("{{ window }}", **{**VALUES, "window": "x" * 30_000})


JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
PIECES = ("{{ window }}", "{{cluster}}", "{{  policy }}", "{", "}", "{{", "}}", "#}", "%", "\n", " ", "up", "window")


@given(st.lists(st.sampled_from(PIECES) | st.characters(), max_size=12).map("".join))
def test_plain_templates_are_filled_in_as_jinja_does(template):
    try:
        expected = JINJA.from_string(template).render(VALUES)
    except (TemplateError, ValueError):
        assert query_fault(template) is not None
        return
    if query_fault(template) is None:
        assert render_query(template, **VALUES) == expected


WITHOUT_JINJA = """
import sys
from reconciler.policy.queries import query_fault, render_query
assert query_fault("up[{{ window }}]") is None
assert render_query("up[{{ window }}]", window="5m", cluster="", policy="") == "up[5m]"
assert "jinja2" not in sys.modules
assert query_fault("{{ window|upper }}") is None
assert "jinja2" in sys.modules
"""


def test_the_usual_template_needs_no_jinja():
    subprocess.run([sys.executable, "-c", WITHOUT_JINJA], check=True)
