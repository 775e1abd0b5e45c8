"""What the pages show of commands is what the commands print; the policies that they show are valid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.policy.load import read_policies
from reconciler.policy.policy_kinds import OWN_KINDS
from reconciler.policy.schemas import load_schema
from tests.docs import picture
from tests.docs.pages import PAGES, ROOT, blocks, followed
from tests.report.json_schema import policy_schema

LANGUAGES = {"console", "text", "yaml", "json", "python", "sh", "bash", "promql"}
FLEET = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: production}
spec:
  home: eu-west
  clusters: [{name: eu-west}, {name: us-east}, {name: ap-south}]
  switches:
    - {apiVersion: postgresql.cnpg.io/v1, kind: Cluster}
    - {apiVersion: kubevirt.io/v1, kind: VirtualMachine}
    - {apiVersion: ray.io/v1, kind: RayCluster}
"""


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    assert followed(page) == page.read_text(), f"after `python -m tests.docs {named(page)}` it does"


def test_every_block_says_what_it_is() -> None:
    languages = {named(page): {block.language for block in blocks(page.read_text())} for page in PAGES}
    assert {page: found - LANGUAGES for page, found in languages.items() if found - LANGUAGES} == {}


def test_the_picture_of_a_plan_is_what_plan_prints() -> None:
    assert picture.PICTURE.read_text() == picture.picture(), "run `python -m tests.docs`"


def test_the_pods_that_are_chosen_are_those_that_a_run_removes() -> None:
    """No page says that what an autoscaler or a person removes is chosen, and the guides say that it is not."""
    told = {"concepts": "when a run shrinks a workload", "how-to/choose-pods": "Only pods that this tool removes"}
    told |= {"how-to/autoscalers": "the controller has deleted the pods before anybody can choose them"}
    assert [page for page, words in told.items() if words not in (ROOT / f"docs/{page}.md").read_text()] == []
    assert "when a run scales a workload down" in policy_schema("DownscalePolicy")["description"]


def test_the_guide_says_that_weights_share_what_the_minimums_leave() -> None:
    said = "Minimums come first, and the weights share only what they leave"
    assert said in (ROOT / "docs/how-to/spread-replicas.md").read_text()


def test_the_menu_of_the_site_has_every_page() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f"{page}\n" not in menu] == []


POLICIES = [
    pytest.param(block.text, id=f"{named(page)}: {block.text.partition('metadata:')[2].partition(chr(10))[0].strip()}")
    for page in PAGES
    for block in blocks(page.read_text())
    if block.language == "yaml" and block.text.startswith("apiVersion: reconciler/") and not block.title
]


@pytest.mark.parametrize("text", POLICIES)
def test_policies_on_pages_are_valid(tmp_path: Path, text: str) -> None:
    fleet = "" if "kind: Fleet" in text else f"---\n{FLEET}"
    (tmp_path / "policies.yaml").write_text(text + fleet)
    assert read_policies(tmp_path).warnings == ()


def test_links_of_pages_outside_of_the_site_lead_somewhere() -> None:
    places: list[Path] = []
    for page in (ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "policies/README.md")):
        text = page.read_text()
        places += [page.parent / one for one in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
        places += [ROOT / one for one in re.findall(r"\b(?:docs|deploy|examples|tests)/[\w./-]*[\w-]", text)]
    assert [str(place) for place in places if not place.exists()] == []


def without_blocks(page: Path) -> str:
    text = page.read_text()
    for block in reversed(list(blocks(text))):
        text = text[: block.start] + text[block.end :]
    return text


def test_rows_of_a_table_stand_below_its_head() -> None:
    """What does not is text with bars in it; and the rows have as many columns as the head."""
    for paragraph in (one for page in PAGES for one in without_blocks(page).split("\n\n")):
        lines = [line.strip() for line in paragraph.splitlines()]
        rows = [re.sub(r"\\\||`[^`]*`", "", line).count("|") for line in lines if line.startswith("|")]
        if rows:
            first = next(number for number, line in enumerate(lines) if line.startswith("|"))
            assert len(lines) - first == len(rows), lines[-1]
            assert re.fullmatch(r"\|( *:?-+:? *\|)+", lines[first + 1]), lines[first]
            assert set(rows) == {rows[0]}, paragraph


def values_of(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (field, value) of every value that a policy field can have by name."""
    for name, inside in schema.get("properties", {}).items():
        if isinstance(inside, dict):
            yield from ((name, value) for value in inside.get("enum", ()) if isinstance(value, str))
    for inside in schema.values():
        for one in inside if isinstance(inside, list) else [inside]:
            yield from values_of(one) if isinstance(one, dict) else ()


def test_pages_quote_policies_as_they_are_spelt() -> None:
    allowed: dict[str, set[str]] = {}
    for kind in OWN_KINDS:
        for name, value in values_of(load_schema(kind)):
            allowed.setdefault(name, set()).add(value)
    compounds = {one.lower(): one for known in allowed.values() for one in known if re.search("[a-z][A-Z]", one)}
    wrong = []
    pages = (ROOT / "CHANGELOG.md", *PAGES)
    for quoted in (one for page in pages for one in re.findall("`([^`\n]+)`", page.read_text())):
        wrong += [quoted] if compounds.get(quoted.lower(), quoted) != quoted else []
        for name, value in re.findall(r"\b(\w+): (\w+)", quoted):
            wrong += [quoted] if value.isalpha() and value not in allowed.get(name, {value}) else []
    assert wrong == []
