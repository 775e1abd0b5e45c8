"""Of tests that go the whole way."""

from __future__ import annotations

import pytest

from reconciler.errors import FailOn


@pytest.fixture(autouse=True)
def fails_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left alone shows in the exit code, so that no fault passes for a success."""
    monkeypatch.setenv("RECONCILER_FAIL_ON", ",".join(FailOn))
