"""Tests of one group are run by one worker."""

from __future__ import annotations

import copy

import pytest
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

from tests.conftest import say_group


@pytest.mark.xdist_group("a group")
@pytest.mark.parametrize("number", [1, 2], ids=["one", "an id@with a]bracket"])
def test_a_group_is_said_where_the_scheduler_looks_for_it(request: pytest.FixtureRequest, number: int) -> None:
    item = copy.copy(request.node)
    say_group(item)
    scheduler = LoadGroupScheduling.__new__(LoadGroupScheduling)
    assert scheduler._split_scope(item.nodeid) == "a group"
