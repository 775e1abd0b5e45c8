"""Valid policies, changed at random."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from reconciler.yaml.reader import read_documents
from tests.policy.base import OF_ALL_KINDS

PARSED = [one.value for name, text in OF_ALL_KINDS.items() for one in read_documents(name, text).found]
ODD_VALUES = (
    *(None, True, False, 0, -1, 1, 1.5, 2**53 + 1, 2**64, -(2**70), "", " ", "Europe/Paris\n", "\x00", "\u2028"),
    *("x", "*", "0", "-1", "true", "30m", "0s", "999999d", "25%", "Europe", "../etc/passwd", "{{ window", "a/b"),
    *("0xa9fea9fe", "169.254.169.254", "[::1]"),
    *("Mon 24:00-00:00", "Mon-Sun 00:00-24:00", "2026-12-01T00:00/2026-12-04T00:00", "\ud7ff\ue000", "é" * 70),
    *("{% set a = 1 %}", "http://[", "-----BEGIN CERTIFICATE-----\né\n", "fleet", "Calendar"),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {"a": {"a": []}}}, {"name": "web"}, {"metric": {}}, {"*": None}),
)


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inside in entries:
        yield from paths(inside, (*above, step))


def inside(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


odd = st.sampled_from(ODD_VALUES).map(copy.deepcopy)


@st.composite
def mutated(draw: st.DrawFn) -> list[Any]:
    """A set of all kinds of policies with a few values taken away, replaced, renamed, added or moved."""
    documents = copy.deepcopy(PARSED)
    for _ in range(draw(st.integers(1, 4))):
        places = [(number, path) for number, one in enumerate(documents) for path in paths(one) if path]
        number, path = draw(st.sampled_from(places))
        mutate(draw, inside(documents[number], path[:-1]), path[-1])
    return documents


def mutate(draw: st.DrawFn, parent: Any, step: Any) -> None:
    how = draw(st.sampled_from(("delete", "replace", "rename", "insert", "nest", "repeat")))
    if how == "delete":
        del parent[step]
    elif how == "replace":
        parent[step] = draw(odd)
    elif how == "nest":
        parent[step] = draw(st.sampled_from((lambda value: [value], lambda value: {"x": value})))(parent[step])
    elif isinstance(parent, list):
        parent.insert(step, copy.deepcopy(parent[step]) if how == "repeat" else draw(odd))
    elif how == "rename":
        parent[draw(st.sampled_from((f"{step}x", step[:-1], "a\nb", "\x85", "é", step.upper())))] = parent.pop(step)
    else:
        parent[draw(st.sampled_from(("x", "selector", "metric", "anyOf", "calendar", "replicas", "value")))] = draw(odd)
