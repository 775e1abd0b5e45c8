"""Values that others write, at the ends of what they can hold: nothing that is decided overflows."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.decode.values import Instant, instant
from reconciler.backends.decode.workloads import count_at, number_at
from reconciler.errors import ExitCode
from tests.cases import cases
from tests.isolation import fleet
from tests.isolation.fleet import AFTER, CLUSTERS

ENDS = ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.999999999Z", "9001-01-01T00:00:00Z")
HUGE = ("2147483648", "-1", "9" * 400, "1e308", "NaN")


@given(st.one_of(st.integers(-(2**63), 2**63), st.sampled_from(ENDS).map(instant)))
def test_every_instant_is_a_time_that_days_can_be_added_to(nanoseconds: int) -> None:
    at = Instant(nanoseconds).as_datetime()
    assert datetime(1970, 1, 1, tzinfo=UTC) <= at <= datetime(9000, 12, 31, tzinfo=UTC)


def test_an_instant_in_between_is_kept() -> None:
    assert instant("2026-11-20T15:40:00.25Z").as_datetime() == datetime(2026, 11, 20, 15, 40, 0, 250000, tzinfo=UTC)


@cases(
    "value count number",
    ("zero replicas", 0, 0, 0),
    ("largest count", 2**31 - 1, 2**31 - 1, 2**31 - 1),
    ("above the largest count", 2**31, None, 2**31),
    ("negative count", -1, None, -1),
    ("boolean instead of a count", True, None, None),
)
def test_replicas_of_a_custom_kind_are_an_int32(value: object, count: int | None, number: int | None) -> None:
    assert (count_at({"n": value}, ("n",)), number_at({"n": value}, ("n",))) == (count, number)


IDLING = ("idled-at", "previous-scale", "unidle-targets")
OURS = (
    *("wake-due", "wake-requested-at", "idled-to", "awake-since", "awake-until", "orphaned-since", "previous-bounds"),
    *("undone", "contested", "cause", "exclude-until", "observed-capacity", "placed"),
)
KEYS = [
    *(f"idling.kubernetes.io/{name}" for name in IDLING),
    *(f"reconciler/{name}" for name in OURS),
    "scale.kubernetes.io/scale-time",
]
OBJECTS = tuple(
    f'{{"kind":"Deployment","name":"due","group":"apps","replicas":{number},"at":"{at}","count":{number}}}'
    for number, at in zip(HUGE[:3], ENDS, strict=False)
)
TEXTS = (*ENDS, *HUGE, *OBJECTS, *(f"[{one}]" for one in OBJECTS), "[" * 2000, '{"a":' * 2000)


def test_no_annotation_of_one_cluster_holds_up_the_others(tmp_path: Path) -> None:
    """Each text of each key goes onto an object of its own."""
    folder = fleet.write(tmp_path / "world")
    file = folder / "snapshot" / "north" / "all.yaml"
    documents = list(yaml.safe_load_all(file.read_text()))
    due = [json.dumps(one) for one in documents if one["metadata"]["name"] == "due"]
    for number, (key, text) in enumerate(itertools.product(KEYS, TEXTS)):
        for one in due:
            copied = json.loads(one.replace('"due"', f'"due-{number}"'))
            copied["metadata"].setdefault("annotations", {})[key] = text
            copied["metadata"]["creationTimestamp"] = ENDS[number % 4]
            documents.append(copied)
    file.write_text("\n---\n".join(json.dumps(one) for one in documents))
    code, applied = fleet.run(*fleet.opened(folder))
    assert code in (ExitCode.DONE, ExitCode.PARTIAL, ExitCode.HELD_BACK)
    assert "unexpected" not in " ".join([*applied.plan.unknown.values(), *(one.message for one in applied.outcomes)])
    after = fleet.replicas(folder)
    assert [after[name] for name in CLUSTERS if name != "north"] == [AFTER, AFTER]
    assert (after["north"]["due"], after["north"]["asked"]) == (3, 4)
