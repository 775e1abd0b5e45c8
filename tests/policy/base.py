"""A small valid set of policies, and edits that break it."""

from __future__ import annotations

from pathlib import Path

from reconciler.errors import PolicyError
from reconciler.policy.load import check_policies
from tests.pipeline.calls import inside

HERE = Path(__file__).parent
OF_ALL_KINDS = {file.name: file.read_text() for file in sorted((HERE / "valid").iterdir())}
DEPLOYMENT = OF_ALL_KINDS["deployment.yaml"]
FILES = {name: text for name, text in OF_ALL_KINDS.items() if name != "deployment.yaml"}
FLEET, IDLING, CALENDAR, FEDERATED, REPLICA_SET = (
    FILES[f"{name}.yaml"] for name in ("fleet", "idling", "calendar", "federated", "replicaset")
)
SAMPLES = {file.name: file.read_text() for file in sorted((HERE / "samples").iterdir())}
"""Policies as the documentation of the policy language has them; what is written is mostly the default."""


def edited(file: str, old: str, new: str) -> dict[str, str]:
    """Return the valid set with `old`, which stands exactly once in `file`, replaced by `new`."""
    assert FILES[file].count(old) == 1, f"{old!r} stands {FILES[file].count(old)} times in {file}"
    return {**FILES, file: FILES[file].replace(old, new)}


def problems_in(folder: Path, files: dict[str, str | bytes]) -> list[str]:
    """Write `files` as policies and return all problems as lines."""
    for name, content in files.items():
        path = folder / "policies" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with inside(folder):
        try:
            _, problems = check_policies("policies")
        except PolicyError as error:
            problems = error.problems
    return [str(problem) for problem in problems]


def warnings(folder: Path, files: dict[str, str]) -> tuple[str, ...]:
    (folder / "policies").mkdir()
    for name, text in files.items():
        (folder / "policies" / name).write_text(text)
    with inside(folder):
        policies, problems = check_policies("policies")
    assert problems == ()
    return tuple(f"{one.file}:{one.line}: {one.field}: {one.message}" for one in policies.warnings)
