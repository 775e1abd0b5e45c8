"""Label selectors on the command line: what apimachinery takes, and what it refuses."""

from __future__ import annotations

import pytest

from reconciler.labels import LabelRequirement, LabelSelector, parse_label_selector, selector_text

LABELS = {"a": "3", "app": "web", "example.com/tier": "x", "empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app=web", True),
        (" app == web , a!=4 ", True),
        ("app in (web, api),!z", True),
        ("app notin(web)", False),
        ("example.com/tier", True),
        ("empty=", True),
        ("empty in ()", True),
        pytest.param("a>2", True, id="greater"),
        pytest.param("a>3", False, id="not greater"),
        pytest.param("a < 10", True, id="numbers are no texts"),
        pytest.param("app>1", False, id="no number"),
        pytest.param("z<1", False, id="absent"),
    ],
)
def test_what_kubectl_takes(text, expected):
    selector = parse_label_selector(text)
    assert selector.matches(LABELS) is expected
    assert parse_label_selector(selector_text(selector)) == selector


@pytest.mark.parametrize(
    "text",
    [
        *(",", "a=b,", "a=b,,c", "a in (x y)", "a in x", "a in (x", "-a=1", "a=-1", "a=b c", "a>b", "a>-1", "a>"),
        *("in", "!in", "a/b/c", "A_/b", "/a", "a/", "a=x/y", "a" * 64, "a=" + "b" * 64, "!", "a=(b)"),
    ],
)
def test_what_kubectl_refuses(text):
    with pytest.raises(ValueError, match=r'^"[^"]+" is no label selector'):
        parse_label_selector(text)


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(LabelSelector((("app", "\ud7ff\ue000"),)), id="no label"),
        pytest.param(LabelSelector((("app", "web,tier=x"),)), id="a value that would be two terms"),
        pytest.param(LabelSelector((), (LabelRequirement("app", "In", ("a", "b) or (c")),)), id="one of the values"),
        pytest.param(LabelSelector((), (LabelRequirement("a b", "Exists"),)), id="no key"),
    ],
)
def test_a_selector_of_what_no_object_has_narrows_no_list(selector):
    assert selector_text(selector) == ""
