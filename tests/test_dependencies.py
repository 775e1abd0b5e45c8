"""What pyproject.toml says of direct dependencies is what the tests run with."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator

import pytest

from reconciler.version import VERSION

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)>=(?P<lowest>[\d.]+)(?:,<(?P<next>[\d.]+))?")
_PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<release>\S+)$", re.M)

CAPPED = {"kubernetes", "urllib3"}
"""Those of which something that is not public is used or overridden; the others' next releases are let in."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def numbers(release: str) -> tuple[int, ...]:
    """Return a release without the zeros at its end, as 8.1 and 8.1.0 are one."""
    found = [int(part) for part in release.split(".")]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


@pytest.fixture
def project(repository) -> dict:
    return tomllib.loads((repository / "pyproject.toml").read_text())["project"]


def requirements(texts: list[str]) -> Iterator[re.Match[str]]:
    for text in texts:
        found = _REQUIREMENT.fullmatch(text)
        assert found, text
        yield found


def pins(repository, file: str) -> dict[str, str]:
    return {normal(pin["name"]): pin["release"] for pin in _PIN.finditer((repository / file).read_text())}


def test_the_lowest_releases_are_those_that_the_tests_run_with(repository, project):
    pinned = pins(repository, "constraints-lowest.txt")
    texts = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    for one in requirements(texts):
        assert numbers(pinned[normal(one["name"])]) == numbers(one["lowest"]), one[0]


def test_linters_are_those_of_the_pins(repository, project):
    pinned = pins(repository, "constraints.txt")
    for one in requirements(project["optional-dependencies"]["lint"]):
        assert numbers(pinned[normal(one["name"])]) == numbers(one["lowest"]), one[0]


def test_what_is_not_public_has_an_upper_bound_that_the_newest_is_below(repository, project):
    pinned = pins(repository, "constraints.txt")
    found = list(requirements(project["dependencies"]))
    assert {one["name"] for one in found if one["next"]} == CAPPED
    for one in found:
        if one["next"]:
            assert numbers(one["next"]) == (numbers(pinned[normal(one["name"])])[0] + 1,)


def test_the_site_is_built_with_its_own_pins_beside_those_of_the_tests(repository, project):
    pinned = pins(repository, "constraints-docs.txt")
    assert not pinned.keys() & pins(repository, "constraints.txt").keys()
    for one in requirements(project["optional-dependencies"]["docs"]):
        assert numbers(pinned[normal(one["name"])]) == numbers(one["lowest"]), one[0]


def test_what_runs_with_credentials_is_what_the_tests_run_with_file_by_file(repository, project):
    """deploy/install takes nothing else: pip refuses a set of which one has no hash."""
    text = (repository / "requirements.txt").read_text()
    entries = re.findall(r"^([\w.-]+)==([\w.]+)[^\n]*((?:\n    --hash=sha256:[0-9a-f]{64}[^\n]*)+)", text, re.M)
    found = {normal(name): release for name, release, _ in entries}
    assert len(entries) == len(re.findall(r"^[\w.-]+==", text, re.M))
    assert found.items() <= pins(repository, "constraints.txt").items()
    assert {normal(one["name"]) for one in requirements(project["dependencies"])} <= found.keys()


def test_the_build_is_fixed_too(repository):
    build = tomllib.loads((repository / "pyproject.toml").read_text())["build-system"]["requires"]
    text = (repository / "requirements-build.txt").read_text()
    assert [one.partition(">=")[0] for one in build] == ["hatchling"]
    assert re.search(r"^hatchling==\S+ \\\n    --hash=sha256:", text, re.M)


@pytest.mark.soak
@pytest.mark.parametrize("file", ["requirements.txt", "requirements-build.txt"])
def test_another_file_than_the_one_with_the_hash_is_not_installed(repository, tmp_path, file):
    """From the package index of the machine."""
    subprocess.run(
        ["git", "clone", "--quiet", f"file://{repository}", str(tmp_path / "source")], check=True, timeout=60
    )
    script = ["sh", str(tmp_path / "source" / "deploy" / "install"), str(tmp_path / "installed")]
    fixed = tmp_path / "source" / file
    fixed.write_text(re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", fixed.read_text()))
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "installed" / "bin" / "reconciler").exists()


def test_the_program_knows_its_version(project):
    assert project["version"] == VERSION
