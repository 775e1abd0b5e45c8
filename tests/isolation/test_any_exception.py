"""Whatever any call about one cluster raises, the others reach the end they reach without it."""

from __future__ import annotations

import builtins
import inspect
import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from reconciler import errors
from reconciler.errors import ClusterError, ExitCode, LockHeldError, PickerError
from tests.isolation import fleet
from tests.isolation.fleet import AFTER, BEFORE, CLUSTERS, Faults
from tests.laws import tries


class OfALibrary(Exception):
    """An exception that nobody here has heard of."""


def made(kind: type[Exception]) -> Exception:
    """One of that kind, however it wants to be made."""
    for arguments in (
        ("made by a test",),
        (),
        ("utf-8", b"x", 0, 1, "made by a test"),
        ("made by a test", [OSError()]),
    ):
        try:
            return kind(*arguments)
        except (TypeError, ValueError):
            continue
    raise AssertionError(f"{kind} cannot be made")


KINDS: list[type[Exception]] = sorted(
    {
        kind
        for module in (builtins, errors)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Exception)
    }
    | {OfALibrary},
    key=lambda kind: kind.__name__,
)


@tries(30)
@given(
    kind=st.sampled_from(KINDS),
    at=st.integers(0, 90),
    lasts=st.booleans(),
    bad=st.sampled_from(CLUSTERS),
)
def test_an_exception_of_any_type_in_one_cluster_is_that_clusters_alone(
    kind: type[Exception], at: int, lasts: bool, bad: str
) -> None:
    def fault(_: str) -> None:
        raise made(kind)

    with tempfile.TemporaryDirectory() as path:
        folder = fleet.write(Path(path) / "world")
        faults = Faults(at, fault, lasts)
        code, applied = fleet.run(*fleet.opened(folder, faults, bad))
        after = fleet.replicas(folder)
    event(f"in {faults.calls[at] if at < len(faults.calls) else 'nothing'}")
    assert {name: after[name] for name in CLUSTERS if name != bad} == {name: AFTER for name in CLUSTERS if name != bad}
    assert code in (ExitCode.DONE, ExitCode.PARTIAL)
    if code is ExitCode.DONE:
        assert after[bad] == AFTER
    told = {**applied.plan.unknown, **{one.action: one.message for one in applied.outcomes}}
    if not issubclass(kind, errors.ReconcilerError) and at < 5:
        assert any(f"unexpected {kind.__name__}" in words and "reconciler/" in words for words in told.values()), told


METHODS = ("identity", "scale_kinds", "list", "query", "acquire", "held", "write", "pick", "read", "get")


@pytest.mark.parametrize("method", METHODS)
def test_each_protocol_call_that_fails_is_told_with_its_place(method: str, tmp_path: Path) -> None:
    def fault(_: str) -> None:
        raise OfALibrary("made by a test")

    folder = fleet.write(tmp_path / "world")
    faults = Faults(0, fault, lasts=True, only=method)
    code, applied = fleet.run(*fleet.opened(folder, faults))
    after = fleet.replicas(folder)
    assert method in faults.calls
    assert code is ExitCode.PARTIAL
    assert (after["east"], after["west"]) == (AFTER, AFTER)
    told = [*applied.plan.unknown.values(), *(one.message for one in applied.outcomes)]
    assert any("unexpected OfALibrary (made by a test) at reconciler/" in words for words in told), told


@pytest.mark.parametrize("error", [ClusterError("north: made"), LockHeldError("north: held"), PickerError("made")])
def test_errors_on_purpose_are_told_in_their_own_words(error: errors.ReconcilerError, tmp_path: Path) -> None:
    def fault(_: str) -> None:
        raise error

    folder = fleet.write(tmp_path / "world")
    code, applied = fleet.run(*fleet.opened(folder, Faults(0, fault, lasts=True)), lock_timeout=0)
    assert code is ExitCode.PARTIAL
    assert fleet.replicas(folder)["north"] == BEFORE
    assert applied.plan.unknown["north"] == str(error).removeprefix("north: ")
