"""The server that tests of reviews talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.review.code_hosts import CodeHost


@pytest.fixture
def host() -> Iterator[CodeHost]:
    with CodeHost() as found:
        yield found
    assert found.faults == []
