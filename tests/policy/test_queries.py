"""PromQL in policies: three names stand for their values, everything else is plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import PolicyError
from reconciler.model import QueryKey
from reconciler.policy.kinds.fields import query_fault, render_query


def rendered(text, *, cluster="eu-west", window="30m"):
    return render_query(QueryKey(cluster, "idle-dev", text, window))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("up[{{ window }}]", "up[30m]"),
        ("up[{{window}}]\n", "up[30m]"),
        ('up{cluster="{{ cluster }}", by="{{policy}}"}', 'up{cluster="eu-west", by="idle-dev"}'),
        ("sum by (a) (rate(x{a!~'b}c'}[5m]))", "sum by (a) (rate(x{a!~'b}c'}[5m]))"),
        ("{{ window }}}", "30m}"),
        ("x{a='}}'} # {window}", "x{a='}}'} # {window}"),
    ],
)
def test_a_good_query(text, query):
    assert query_fault(text) is None
    assert rendered(text) == query


MORE = "holds {}, expected plain text with no more than {{{{ cluster }}}}, {{{{ policy }}}}, {{{{ window }}}} in it"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty, expected a query"),
        (" \n", "is empty, expected a query"),
        ("{{ windw }}", 'uses "windw", expected only "cluster", "policy" or "window", did you mean "window"?'),
        ("{{ namespace }}", 'uses "namespace", expected only "cluster", "policy" or "window"'),
        ("{{ window", MORE.format('"{{ window"')),
        ("{{ window|upper }}", MORE.format('"{{ window|upper }}"')),
        ("{{ window + 1 }}", MORE.format('"{{ window + 1 }}"')),
        ("{% if cluster %}a{% endif %}", MORE.format('"{% if cluster %}a{% endif %}"')),
        ("a{# two letters #}", MORE.format('"{# two letters #}"')),
        ("{{{ window }}}", None),
        ("x" * 20_001, "has 20001 characters, expected at most 20000"),
        pytest.param(
            '{{ 1.5|round(9999999999,"floor") }}',
            MORE.format('"{{ 1.5|round(9999999999,"floor") }}"'),
            id="a filter that does not end",
        ),
        pytest.param('{{ "inf"|float|int }}', MORE.format('"{{ "inf"|float|int }}"'), id="a filter that fails"),
    ],
)
def test_a_wrong_query(text, fault):
    assert query_fault(text) == fault


def test_a_target_has_no_window():
    assert query_fault("x{{ cluster }}", ("cluster", "policy")) is None
    assert query_fault("x[{{ window }}]", ("cluster", "policy")) == 'uses "window", expected only "cluster" or "policy"'


def test_values_are_text_and_never_looked_at_again():
    assert rendered("{{ cluster }}", cluster="{{ window }}") == "{{ window }}"


def test_a_query_that_grows_too_long_is_refused():
    with pytest.raises(PolicyError, match="is 30000 characters long when rendered, expected at most 20000"):
        rendered("{{ window }}", window="x" * 30_000)


PIECES = ("{{ window }}", "{{cluster}}", "{{  policy }}", "{", "}", "{{", "}}", "#}", "%", "\n", " ", "up", "window")


@given(st.lists(st.sampled_from(PIECES) | st.characters(), max_size=12).map("".join))
def test_whatever_is_accepted_is_filled_in_and_holds_nothing_of_ours_any_more(text):
    if query_fault(text) is None:
        assert "{{" not in rendered(text)
