"""Tests of one group are run by one worker."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.mark.structures import NodeKeywords
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

from tests.conftest import prepare, say_group


@pytest.mark.xdist_group("a group")
@pytest.mark.parametrize("number", [1, 2], ids=["one", "an id@with a]bracket"])
def test_a_group_is_said_where_the_scheduler_looks_for_it(request: pytest.FixtureRequest, number: int) -> None:
    item = copy.copy(request.node)
    say_group(item)
    scheduler = LoadGroupScheduling.__new__(LoadGroupScheduling)
    assert scheduler._split_scope(item.nodeid) == "a group"


def test_tests_that_share_a_real_part_are_a_group(request: pytest.FixtureRequest) -> None:
    item: Any = copy.copy(request.node)
    item.own_markers, item.keywords, item.fixturenames = [], NodeKeywords(item), ["api_server"]
    worker: Any = SimpleNamespace(workerinput={})
    prepare(worker, [item])
    assert LoadGroupScheduling.__new__(LoadGroupScheduling)._split_scope(item.nodeid) == "api_server"
