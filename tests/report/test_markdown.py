"""Plans, reports and comparisons as Markdown: the exact blocks, and that nothing from outside becomes markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.decide.decisions import Cause, HeldBack, Notice, PlacementRow, PlacementView, Undecided
from reconciler.redaction import remember
from reconciler.report.markdown import LONGEST_TEXT, MOST_ROWS, code, fence, joined, prose, render_markdown, table
from reconciler.untrusted_text import LONGEST_VALUE, one_line
from tests.builders import said
from tests.laws import tries
from tests.plans import a_plan, a_record, a_scale, an_idle
from tests.report.rendered import golden, page_of_markdown
from tests.report.strategies import texts

HOSTILE = (
    *("a|b", "a\\|b", "a\\\\|b", "`code`", "``two``", "`|`", "<script>alert(1)</script>", "<!-- x -->", "&lt;b&gt;"),
    *("&#124;", "**bold** _em_ ~~gone~~", "[link](https://evil.example)", "![picture](https://evil.example/x.png)"),
    *("https://evil.example", "www.evil.example", "<https://evil.example>", "line\nbreak\r\n\r\n# heading"),
    *("</details>", "| --- |", "# heading", "- item", "1. item", "> quote", "\\", " ", "\u202ereversed", "\x1b[31mred"),
)
NOT_FROM_US = {"script", "a", "img", "em", "strong", "s", "h1", "ol", "li", "blockquote", "p", "hr"}


def reads(text: str) -> str:
    """What a reader reads: zero width spaces are not seen, spaces at the ends neither."""
    return " ".join(text.replace("\u200b", "").split())


@pytest.mark.parametrize("escaped", [prose, code])
def test_hostile_texts_stay_texts(escaped):
    check_cells(escaped, HOSTILE)


@given(st.sampled_from([prose, code]), st.lists(texts | st.text(max_size=20), min_size=1, max_size=9))
@tries(60)
def test_any_text_stays_text(escaped, found):
    check_cells(escaped, found)


def check_cells(escaped, found):
    page = page_of_markdown("\n".join(table(("left", "right"), [(escaped(text), "end") for text in found])))
    cells = [cell for text in found for cell in (reads(one_line(text)), "end")]
    assert [reads(cell) for cell in page.cells] == ["left", "right", *cells]
    assert NOT_FROM_US.isdisjoint(page.tags)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("ask @team now", "ask @&#8203;team now", id="a mention"),
        pytest.param("owner/repo#12", "owner/repo#&#8203;12", id="a reference"),
        pytest.param("see GH-12", "see GH-&#8203;12", id="a reference by its prefix"),
        pytest.param("!12, $34", "!&#8203;12, &#36;&#8203;34", id="references of GitLab"),
        pytest.param("$x$", "&#36;x&#36;", id="a formula"),
        pytest.param("a # b @ c", "a # b @ c", id="signs alone"),
        pytest.param("see https://x.example", "see https&#58;//x.example", id="a link"),
        pytest.param("see WWW.x.example", "see WWW&#46;x.example", id="a link without scheme"),
        pytest.param("[x|y]\\", "&#91;x&#124;y&#93;&#92;", id="markup"),
    ],
)
def test_prose(text, expected):
    assert prose(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("shop/Deployment/web", "`shop/Deployment/web`", id="a name"),
        pytest.param("@team #1 <b>", "`@team #1 <b>`", id="code is no mention"),
        pytest.param("a|b", "<code>a&#124;b</code>", id="a pipe"),
        pytest.param("a`b", "<code>a&#96;b</code>", id="a backtick"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_code(text, expected):
    assert code(text) == expected


def test_a_plan():
    view = PlacementView("shop/web", 8, (PlacementRow("eu-west", 2, 2, 6, 5, None, 0, said("weight 1 of 4")),))
    plan = a_plan(a_scale(6, 2), an_idle(), a_record(), placements=(view,), revision="3f2c1ab")
    assert render_markdown(plan) == golden("plan.md")


def test_what_is_told_beside_the_changes():
    held = HeldBack("idle-dev", "3 of the 5 policies that own marks are gone.", (an_idle(),))
    plan = a_plan(
        held_back=(held,),
        observed=(an_idle("seen"),),
        undecided=(Undecided("eu-west/a/Service/b", "idling", "", said("no answer")),),
        notices=(Notice("contested", "eu-west/a/Deployment/c", "scaled back by @argocd", "", partial=True),),
    )
    text = render_markdown(plan)
    assert (
        "**Held back: 1 change**\n\n3 of the 5 policies that own marks are gone.\n<br>dev-a 1\n"
        "\n<details>\n<summary>1 change</summary>\n"
    ) in text
    assert "**Warnings: 1**\n\n```text\n  eu-west/a/Deployment/c  scaled back by @argocd\n```\n" in text
    assert "**Undecided: 1 object, unchanged**\n\n```text\n  ? eu-west/a/Service/b  no answer\n```\n" in text
    assert "<summary>Observed only: 1 change, never applied (mode: Observe)</summary>" in text


def test_a_block_of_code_holds_any_text():
    for text in HOSTILE:
        page = page_of_markdown("\n".join([*fence([f"  {one_line(text)}", "  end"]), "after"]))
        assert page.tags == ["pre", "code", "p"]
        assert page.text.split("end\n")[0] == f"  {one_line(text)}\n  "


def test_a_long_table_says_what_is_left_out():
    plan = a_plan(*(an_idle(f"api-{n}") for n in range(MOST_ROWS + 7)))
    assert "\nand 7 more; the JSON form has them all.\n" in render_markdown(plan)
    assert len(render_markdown(plan)) < 65_536


LONG = "x" * 200_000


@pytest.mark.parametrize(
    "text", [LONG, "`" * 200_000, "\x1b" * 200_000, " " * 200_000 + "x", "| - \n" * 50_000], ids=len
)
@pytest.mark.parametrize("escaped", [prose, code])
def test_a_long_value_is_cut_and_says_how_long_it_is(escaped, text):
    cell = escaped(text)
    assert len(cell) < 8_000
    assert f"... ({len(text)} characters)" in cell


def test_a_value_of_usual_length_is_whole():
    assert prose("x" * LONGEST_VALUE) == "x" * LONGEST_VALUE


def long_notices(count):
    return tuple(
        Notice("contested", f"eu-west/a/Deployment/c{n}", f"{n} {LONG}", "", partial=True) for n in range(count)
    )


@pytest.mark.parametrize(
    ("plan", "left"),
    [
        pytest.param(a_plan(notices=long_notices(2)), 0, id="two annotations of 200 KB"),
        pytest.param(a_plan(notices=long_notices(500)), 450, id="500 of them"),
        pytest.param(
            a_plan(*(an_idle(f"api-{n}", cause=Cause("p", "f:1", said(f"{n} {'|' * 5_000}"))) for n in range(90))),
            40,
            id="long reasons",
        ),
    ],
)
def test_a_comment_fits_and_says_what_is_left_out(plan, left):
    text = render_markdown(plan)
    assert len(text) <= LONGEST_TEXT
    assert (f"and {left} more; the JSON form has them all." in text) is bool(left)


def test_the_worst_is_what_stays():
    idles = (
        an_idle(f"api-{n}", replicas=n + 2, cause=Cause("p", "f:1", said(f"{n} {'|' * 5_000}"))) for n in range(90)
    )
    text = render_markdown(a_plan(*idles))
    assert "replicas  91 -> 0" in text
    assert "replicas  2 -> 0" not in text


def test_more_parts_than_there_is_room_for():
    held = tuple(HeldBack(f"p{n}", "|" * 900, (an_idle(f"api-{n}"),)) for n in range(200))
    plan = a_plan(an_idle("first"), held_back=held)
    text = render_markdown(plan)
    assert len(text) <= LONGEST_TEXT
    assert "dev-a/Deployment/first" in text
    assert re.search(r"\nand 1\d\d more parts; the JSON form has them all\.\n\Z", text)


@pytest.mark.parametrize("token", ["eyJh_bGci_Oi*JIUzI1NiI", "t" * 3 * LONGEST_VALUE], ids=["markup", "too long"])
def test_a_credential_is_taken_out_before_a_text_is_escaped_or_cut(token):
    remember(token)
    assert prose(f"no {token} here") == "no (secret) here"
    assert code(token) == "`(secret)`"


def test_a_long_list_ends_earlier_and_is_not_left_out() -> None:
    text = joined([["**Production**", "", *(f"- {number:600}" for number in range(100))], ["the rest"]])
    assert len(text) <= LONGEST_TEXT
    assert f"- {51:600}\n\nand 48 more; the JSON form has them all." in text
    assert text.endswith("the rest\n")
