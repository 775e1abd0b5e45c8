"""What all tests may ask for."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, settings

from reconciler import redaction
from tests.laws import share_of

if TYPE_CHECKING:
    from tests.pipeline.calls import Folder

pytest_plugins = ("tests.real.fixtures",)

yaml.SafeLoader, yaml.SafeDumper = yaml.CSafeLoader, yaml.CSafeDumper  # tests read and write YAML by libyaml

SHARED = Path(__file__).resolve().parents[2] / "shared"

settings.register_profile(
    "default",
    deadline=None,
    max_examples=share_of(100),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    derandomize=True,
)
settings.load_profile("default")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: tests with real parts wait half of their time."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: each worker makes all tests, and all of them stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first-cases", action="store_true", help="of each test its first case, if not `every_case`")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    prepare(config, items)
    yield
    if config.option.first_cases:  # of those that -m leaves
        first = set({item.nodeid.partition("[")[0]: item for item in reversed(items)}.values())
        items[:] = [item for item in items if item in first or item.get_closest_marker("every_case")]


def prepare(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests, which -m selects by, and then say their groups: what is marked later has none."""
    from tests.real.fixtures import mark_real_parts

    mark_real_parts(items)
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("laws")
    odd = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if odd:  # workers that find other names than one another run nothing
        raise pytest.UsageError(f"{odd[0]}: is named by an address in memory, expected an id that stays the same")
    if hasattr(config, "workerinput"):
        items.sort(key=_length)
        for item in items:
            say_group(item)


def say_group(item: pytest.Item) -> None:
    """Put the group of a test at the end of its id, where the scheduler of `--dist loadgroup` looks for it.

    Trap: xdist 3.8 writes it to `_nodeid`, which pytest reads no longer since 9.2. Then no test has a group, without a
    word, and every worker starts the control planes of every file.
    """
    group = item.get_closest_marker("xdist_group")
    if group:
        said = f"{item.nodeid}@{group.args[0]}"
        if hasattr(item, "_id"):
            item._id = type(item._id).parse(said)
        else:
            item._nodeid = said


def _length(item: pytest.Item) -> int:
    """Workers begin with what takes long, so that none is left with it in the end: real parts, then laws."""
    return next((place for place, marker in enumerate(("real", "laws")) if item.get_closest_marker(marker)), 2)


_NAMED = list | tuple | set | frozenset | Mapping | date | timedelta | msgspec.Struct | BaseException


def pytest_make_parametrize_id(val: object) -> str | None:
    """Say what a list, a mapping, a time or another value is, where pytest would number it."""
    return _said(val)[:80] if isinstance(val, _NAMED) else None


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{_said(key)}: {_said(one)}" for key, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return " ".join(map(_said, value)) or "none"
    if isinstance(value, set | frozenset):
        return " ".join(sorted(map(_said, value))) or "none"
    if isinstance(value, str | int | float | date | timedelta | BaseException | None):
        return str(value).encode("unicode_escape").decode()
    return str(getattr(value, "name", type(value).__name__))


@pytest.fixture(autouse=True)
def _no_credentials() -> None:
    """What one test sends is no secret of the next one."""
    redaction.forget()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with manifests that others wrote; without it the test is skipped, in CI it fails."""
    if not SHARED.is_dir():
        reason = "the folder with the manifests of others is not beside the checkout"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return SHARED


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def quickstart(repository: Path, tmp_path: Path) -> Folder:
    """The quickstart in a folder of its own, with its policies and its snapshot, and the command line called there."""
    from tests.pipeline.calls import Folder

    return Folder.copied(repository / "examples" / "quickstart", tmp_path / "quickstart")
