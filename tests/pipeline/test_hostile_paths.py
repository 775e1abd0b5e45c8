"""Whatever a team names its files, they stay the team's: any path that git can hold, in a tree and out of a clone."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.policy.file_owners import FileOwners
from reconciler.policy.load import check_policies, read_fleet_for_wakes
from reconciler.policy.types import Place, PolicySet, Tenant
from tests.cases import cases
from tests.pipeline.calls import Folder, inside
from tests.pipeline.teams import FLEET, SLEEP, two_teams

REACHING = SLEEP.replace("{workloads: {}}", '{namespaces: {include: [tools, "team-b-*"]}, workloads: {}}').replace(
    "name: sleep", "name: reaching"
)

# Names that nobody can tell from others, or that end a line wherever they are printed: refused, whatever is inside.
UNPRINTABLE = (
    *(
        "x\ny.yaml",
        "fleet.yaml\n.yaml",
        "\n/fleet.yaml",
        "x\n/../y\n.yaml",
        "a\nb/c\nd/x.yaml",
        "x\ry.yaml",
        "x\ty.yaml",
    ),
    *("x\x1b[2Ky.yaml", "x\x7fy.yaml", "x\u0085y.yaml", "x\u00a0y.yaml", "x\u200by.yaml", "x\u2028y.yaml"),
    *("x\u202elmay.yaml", "x\ufeffy.yaml", "x\udcffy.yaml", "\u3000.yaml"),
)
# Names that anybody can read: the file is read as the team's, and what reaches further in it is refused at its line.
ODD = (
    *(" x.yaml", "x..yaml", "fleet.yaml", "x.yaml/y.yaml", "teams/b/sleep.yaml", "platform/x.yaml", "**/x.yaml"),
    *(
        "[a].yaml",
        "{a,b}.yaml",
        "~x.yaml",
        "--fleet.yaml",
        "$(id).yaml",
        "a:b.yaml",
        "a\\..\\x.yaml",
        "%2e%2e%2fx.yaml",
    ),
    *("e\u0301.yaml", "\uff0e\uff0e.yaml", "#.yaml", "'\".yaml", "x" * 200 + ".yaml"),
)


def checked(folder: Path, root: str = "policies") -> tuple[PolicySet | None, list[str]]:
    with inside(folder):
        found, problems = check_policies(root)
    return found, list(map(str, problems))


def stops_a_alone(folder: Path) -> list[str]:
    """Return the problems of policies in which those of team a cannot be used, and all others can."""
    found, problems = checked(folder)
    assert found is not None
    assert ([one.name for one in found.stopped], [one.name for one in found.idling]) == (["a"], ["b/sleep", "tools"])
    return problems


def write(folder: Path, name: str, text: str) -> None:
    path = os.path.join(os.fsencode(folder), b"policies/teams/a", os.fsencode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(os.fsdecode(path)).write_text(text)


@pytest.mark.parametrize("name", UNPRINTABLE, ids=ascii)
def test_a_name_that_cannot_be_printed_is_refused_and_is_the_teams(tmp_path, name):
    two_teams(Folder(tmp_path), snapshot=False)
    write(tmp_path, name, REACHING)
    (problem,) = stops_a_alone(tmp_path)
    assert problem.isprintable()
    assert problem.startswith("policies/teams/a/")
    assert "its name holds a control character or no Unicode, expected one that can be printed" in problem


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_a_file_of_an_odd_name_is_the_teams(tmp_path, name):
    two_teams(Folder(tmp_path), snapshot=False)
    write(tmp_path, name, REACHING)
    problems = stops_a_alone(tmp_path)
    own = os.path.normpath(f"policies/teams/a/{name}")
    assert problems
    assert all(one.startswith(f"{own}:5:") for one in problems)


@pytest.mark.parametrize(
    "folder",
    ["teams/A", "Teams/a", "TEAMS/A", "teams/\uff41", "\uff54eams/a", "teams/\u24d0"],
    ids=ascii,
)
def test_a_folder_that_only_looks_like_the_teams_is_refused(tmp_path, folder):
    two_teams(Folder(tmp_path), snapshot=False, **{f"{folder}/x.yaml": SLEEP.replace("sleep", "more")})
    assert stops_a_alone(tmp_path) == [
        f'policies/{folder}/x.yaml:1:1: only looks like "teams/a/**", the paths of tenant a at policies/fleet.yaml:12, '
        "expected the same characters in the same case"
    ]


@pytest.mark.parametrize("folder", ["team/a", "teams", "teams/c", "other", "platforms", "platform2/x"])
def test_a_file_that_belongs_to_nobody_is_refused(tmp_path, folder):
    two_teams(Folder(tmp_path), snapshot=False, **{f"{folder}/x.yaml": SLEEP})
    found, problems = checked(tmp_path)
    assert found is None
    assert problems[0] == (
        f'policies/{folder}/x.yaml:1:1: is under no path of a tenant, expected it below "*" or "platform/**", the '
        "platformPaths of the Fleet"
    )


def tenant(name: str) -> Tenant:
    return Tenant(name=name, place=Place("fleet.yaml", 1, 1), paths=(f"teams/{name}/**",), namespaces=(f"{name}-*",))


OWNERS = FileOwners((tenant("a"), tenant("b")), ("*", "platform/**"), "policies")
NAME = st.text(st.characters(exclude_characters="/\0"), min_size=1).filter(
    lambda name: name not in (".", "..") and name.lower() != ".git"
)


@given(st.lists(NAME, min_size=1, max_size=4).map("/".join), st.sampled_from(["a", "b"]))
def test_whatever_git_can_hold_below_the_folder_of_a_team_is_the_teams(path, name):
    owner = OWNERS.of(f"policies/teams/{name}/{path}")
    assert owner is not None
    assert owner.name == name


@given(st.lists(NAME, min_size=1, max_size=4).map("/".join))
def test_a_path_is_of_one_owner_or_a_problem(path):
    """Elsewhere nothing is a team's but what looks like it, and nothing is the platform's unasked."""
    file = f"policies/{path}"
    owner, problems = OWNERS.of(file), list(OWNERS.problems([file]))
    parts = path.split("/")
    in_team = len(parts) > 2 and parts[0] == "teams" and parts[1] in ("a", "b")
    in_platform = len(parts) == 1 or parts[0] == "platform"
    if in_team or in_platform:
        assert (owner is not None) is in_team
        assert problems == []
    else:
        assert problems
        folded = unicodedata.normalize("NFKC", path).casefold()
        assert owner is None or folded.startswith(f"teams/{owner.name}/")


def test_a_second_fleet_never_becomes_the_platforms(tmp_path):
    """Not where it lies higher up in the tree than the platform's own, nor where that cannot be read."""
    evil = FLEET.replace("name: dev", "name: evil").replace("home: dev", "home: evil")
    covering = evil.replace('"teams/a/**"', '"**"').replace('"teams/b/**"', '"none/**"')
    for fleet in (FLEET, f"{FLEET}  bad: [\n"):
        two_teams(Folder(tmp_path), snapshot=False, **{"fleet.yaml": fleet, "teams/a/fleet.yaml": covering})
        found, problems = checked(tmp_path)
        with inside(tmp_path):
            known, _ = read_fleet_for_wakes("policies")
        assert [one.name for one in known.clusters] == ["dev", "prod"]
        assert any("teams/a/fleet.yaml:2:7" in one for one in problems) or found is None
    assert found is None


def test_a_fleet_with_tenants_elsewhere_than_at_its_place_is_refused(tmp_path):
    for name in ("all.yaml", "fleet.yml", "platform/fleet.yaml"):
        folder = tmp_path / name.replace("/", "-")
        Folder(folder).write(f"policies/{name}", FLEET)
        found, problems = checked(folder)
        assert found is None
        assert problems == [
            f"policies/{name}:12:5: spec.tenants: is in policies/{name}, expected a Fleet with tenants in fleet.yaml "
            "at the top of the policy directory"
        ]


SHORT = "{apiVersion: reconciler/v1alpha1, kind: IdlingPolicy, metadata: {name: x}, spec: {}}\n---\n"


@cases(
    "files text words",
    ("large files", 18, "# " + "x" * 2**20, "more than 16777216 bytes"),
    ("files smaller than the Fleet and others", 1200, "# " + "x" * 2**14, "more than 16777216 bytes"),
    ("many documents in a file", 1, SHORT * 10_001, "more than 10000 documents of tenant a"),
    ("many documents in several files", 3, SHORT * 3400, "more than 10000 documents of tenant a"),
)
def test_a_team_that_writes_too_much_stops_itself_alone(tmp_path, files, text, words):
    """Every other file may be larger than each of theirs: what counts is what an owner has together."""
    two_teams(Folder(tmp_path), snapshot=False)
    for name in ("fleet.yaml", "platform.yaml", "teams/b/sleep.yaml"):
        path = tmp_path / "policies" / name
        path.write_text(path.read_text() + "# " + "y" * 2**15 + "\n")
    for number in range(files):
        write(tmp_path, f"{number}.yaml", text)
    (problem,) = stops_a_alone(tmp_path)
    assert problem.startswith("policies/teams/a/")
    assert words in problem


def test_a_platform_that_writes_too_much_keeps_its_fleet(tmp_path):
    two_teams(Folder(tmp_path), snapshot=False)
    fleet = tmp_path / "policies" / "fleet.yaml"
    fleet.write_text(fleet.read_text() + "# " + "y" * 2 * 2**20)
    for number in range(18):
        Folder(tmp_path).write(f"policies/{number}.yaml", "# " + "x" * 2**20)
    found, problems = checked(tmp_path)
    assert found is None
    large = [one for one in problems if "it is the largest left" in one]
    assert large
    assert not any("fleet.yaml" in one for one in large)


@pytest.mark.parametrize(
    ("count", "last"), [(101, "and 1 more problem of this file"), (200, "and 100 more problems of this file")]
)
def test_of_many_problems_in_a_file_the_first_are_told(tmp_path, count, last):
    two_teams(Folder(tmp_path), snapshot=False, **{"teams/a/sleep.yaml": "{kind: x}\n---\n" * count})
    problems = stops_a_alone(tmp_path)
    assert len(problems) == 101
    assert problems[-1] == f"policies/teams/a/sleep.yaml:201:8: {last}"
