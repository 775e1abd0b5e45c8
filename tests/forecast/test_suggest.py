"""Hours at which nobody calls: those that the traffic has are found, and none in noise."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.forecast.idle_periods import Traffic
from reconciler.forecast.suggest import (
    SLOTS,
    Suggestion,
    Weekend,
    Window,
    documents_of,
    nights_of,
    suggestion_of,
    window_of,
)
from reconciler.model import ObjectRef
from tests.forecast.traffic import NOISE, PARIS, SHOP, Shape, calls, history_of
from tests.laws import share_of
from tests.pipeline.calls import Folder

END = datetime(2026, 11, 20, 15, tzinfo=UTC)
STEP = timedelta(minutes=10)
COUNT = 30 * 144
START = END - COUNT * STEP
WINDOW = timedelta(minutes=30)


def found_in(shape: Shape, seed: object) -> Window | None:
    made = calls("ns", "web", shape, START - WINDOW, END, seed)
    values = history_of([made], "q", WINDOW, START, COUNT, STEP, averages=False).answers["q"].series[0].values
    nights = nights_of([Traffic(values, WINDOW.total_seconds())], frozenset(), (START, range(COUNT), STEP), PARIS)
    return window_of(nights)


QUIET_OFFICE = Shape(8, 19, range(5))
SHAPES = [
    pytest.param(QUIET_OFFICE, ("Mon-Thu 19:00-08:00", "Fri 19:00-Mon 08:00"), id="working days"),
    pytest.param(SHOP, ("22:00-06:00",), id="each day"),
    pytest.param(Shape(9, 12.5), ("12:30-09:00",), id="mornings"),
    pytest.param(Shape(12.5, 19), ("19:00-12:00",), id="afternoons"),
    pytest.param(Shape(11, 25.5, range(5)), ("Tue-Fri 01:30-11:00", "Sat 01:30-Mon 11:00"), id="until after midnight"),
    pytest.param(Shape(22, 34, (6, 0, 1, 2, 3)), ("Mon-Thu 12:00-22:00", "Fri 12:00-Sun 22:00"), id="nights"),
]


@pytest.mark.parametrize("seed", range(share_of(3)))
@pytest.mark.parametrize(("shape", "downtime"), SHAPES)
def test_the_hours_that_traffic_has_are_found(shape: Shape, downtime: tuple[str, ...], seed: int) -> None:
    found = found_in(shape, seed)
    assert found is not None
    assert found.downtime == downtime


@pytest.mark.parametrize("step", [STEP, 3 * STEP])
@pytest.mark.parametrize("seconds", [1800.0, 0.0], ids=["increase", "gauge"])
def test_steady_and_falling_traffic_is_no_quiet_hour(seconds: float, step: timedelta) -> None:
    count = 30 * (timedelta(days=1) // step)
    times = [(START + place * step - timedelta(seconds=1)).astimezone(PARIS) for place in range(count)]
    values = tuple(300.0 - at.hour if at.weekday() < 5 and 9 <= at.hour < 17 else 0.0 for at in times)
    found = window_of(nights_of([Traffic(values, seconds)], frozenset(), (START, range(count), step), PARIS))
    assert found is not None
    assert found.downtime == ("Mon-Thu 17:00-09:00", "Fri 17:00-Mon 09:00")


NOISES = [
    pytest.param(Shape(strays=300), id="at all hours"),
    pytest.param(NOISE, id="noise"),
    pytest.param(Shape(strays=6), id="a little noise"),
    pytest.param(Shape(strays=0.1), id="nearly never"),
    pytest.param(Shape(), id="never"),
]


@pytest.mark.parametrize("seed", range(share_of(6)))
@pytest.mark.parametrize("shape", NOISES)
def test_noise_has_no_window(shape: Shape, seed: int) -> None:
    assert found_in(shape, seed) is None


@pytest.mark.parametrize("seed", range(5))
def test_bursts_at_random_hours_have_no_window(seed: int) -> None:
    """Three hours of calls a day, each day at others: most of each night is quiet, and never the same part."""
    chance = random.Random(seed)
    nights = {}
    for day in range(28):
        first = chance.randrange(SLOTS)
        slots = [(first + n) % SLOTS for n in range(6)]
        nights[date(2026, 10, 19) + timedelta(days=day)] = sum(1 << slot for slot in slots)
    assert window_of(nights) is None


def test_a_call_in_one_night_does_not_spoil_a_window() -> None:
    found = found_in(Shape(8, 19, range(5), strays=0.02), 3)
    assert found is not None
    assert found.downtime[0] == "Mon-Thu 19:00-08:00"


def test_too_few_nights_teach_nothing() -> None:
    nights = {date(2026, 11, 16) + timedelta(days=n): 0xFFFF << 32 for n in range(4)}
    assert window_of(nights) is None


@pytest.mark.parametrize(
    ("slot", "downtime"),
    [
        pytest.param(30, "Mon-Thu 19:00-08:00", id="one call at 03:00, and half of the night would be lost"),
        pytest.param(35, "Mon-Thu 19:00-05:30", id="one call at 05:30, and a night less costs more than the end"),
    ],
)
def test_a_night_in_which_somebody_called_costs_a_whole_day(slot: int, downtime: str) -> None:
    office = (1 << 14) - 1 | 0xFF << 40  # calls until 19:00 and from 08:00 on
    monday = date(2026, 11, 2)
    nights = {monday + timedelta(days=7 * (n // 4) + n % 4): office for n in range(10)}
    found = window_of({**nights, monday: office | 1 << slot})
    assert found is not None
    assert found.downtime == (downtime,)


def test_what_was_not_measured_is_no_quiet_night() -> None:
    values = (0.0,) * COUNT
    times = (START, range(COUNT), STEP)
    whole = nights_of([Traffic(values, 1800.0)], frozenset(), times, PARIS)
    gaps = frozenset(range(144, 288))
    assert len(nights_of([Traffic(values, 1800.0)], gaps, times, PARIS)) == len(whole) - 2


def a_ref(name: str, namespace: str = "dev") -> ObjectRef:
    return ObjectRef("a", namespace, "Service", name)


def test_the_window_that_saves_most_is_chosen_and_others_are_named() -> None:
    office, shop = Window(14, 40, Weekend.WHOLE), Window(20, 36, Weekend.NIGHTS)
    windows: Mapping[ObjectRef, Window | None]
    windows = {a_ref("api"): office, a_ref("web"): office, a_ref("shop"): shop, a_ref("noise"): None}
    made = suggestion_of(windows)
    assert made == Suggestion(office, (a_ref("api"), a_ref("web")), {a_ref("shop"): shop}, (a_ref("noise"),))
    assert suggestion_of({a_ref("noise"): None}) is None


def test_a_service_of_the_same_name_elsewhere_is_excluded() -> None:
    office = Window(14, 40, Weekend.WHOLE)
    made = Suggestion(office, (a_ref("api"), a_ref("web", "qa")), {}, ())
    _, policy = documents_of(made, [a_ref("api"), a_ref("web", "qa"), a_ref("api", "qa")], "UTC", {"query": "q"})
    [excluded] = policy["spec"]["exclude"]
    assert excluded["namespaces"] == {"include": ["qa"]}
    assert excluded["services"] == {"include": ["api"]}


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> Folder:
    return Folder.copied(repository / "examples/replay", tmp_path)


def suggested(folder: Folder, *more: str) -> str:
    said = folder.call("suggest", "--snapshot", "snapshot", *more)
    assert said.code == 0, said
    return said.out


def test_what_is_printed_are_valid_policies_with_their_replay(folder: Folder) -> None:
    text = suggested(folder)
    assert "#   IdlingPolicy suggested: quiet in 30 of 30 nights, never woken by traffic" in text
    assert "# No window: 1 Service, called at all hours or nearly never (eu-west/dev/metrics)" in text
    calendar, policy = yaml.safe_load_all(text)
    assert calendar["spec"] == {"timeZone": "Europe/Paris", "downtime": ["Mon-Thu 21:00-08:00", "Fri 21:00-Mon 08:00"]}
    assert policy["spec"]["selector"]["services"] == {"include": ["api", "frontend"]}
    folder.write("policies/idling.yaml", text)
    assert folder.call("validate").code == 0


@contextmanager
def edited_history(folder: Folder) -> Iterator[list[dict[str, Any]]]:
    """The lines of what is recorded, which are written as they are after the block."""
    file = folder.path / "snapshot/eu-west/query-history.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    yield lines
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines))


def test_it_says_that_it_found_no_window(folder: Folder) -> None:
    with edited_history(folder) as lines:
        for one in lines:
            if one.get("labels"):
                one["values"] = [n % 5 for n in range(COUNT)]
    assert suggested(folder) == (
        "# No window found: each of 3 Services that are measured is called at all hours, or nearly never "
        "(then its metric alone is enough).\n"
    )


def test_only_the_past_that_is_asked_for_teaches(folder: Folder) -> None:
    """Half of the recorded days have calls at all hours, the others, which are later, keep their nights."""
    busy = [[1, n % 5 + 1] for n in range(COUNT // 2)]
    with edited_history(folder) as lines:
        for one in lines:
            if one.get("labels"):
                one["values"] = [*busy, *second_half(one["values"])]
                one.pop("averages", None)
    assert suggested(folder).startswith("# No window found: each of 3 Services")
    assert "- Mon-Thu 21:00-08:00\n" in suggested(folder, "--since", "14d")


def second_half(values: list[Any]) -> list[Any]:
    each = [
        value for one in values for number, value in [one if isinstance(one, list) else (1, one)] for _ in range(number)
    ]
    return each[COUNT // 2 :]


def test_of_too_few_nights_it_says_how_many_there_are(folder: Folder) -> None:
    assert suggested(folder, "--since", "8d") == (
        "# No window found: 4 nights from Monday to Thursday measured as a whole, "
        "expected 5 or more; --since looks further back.\n"
    )


def test_of_a_short_history_it_says_that_there_is_no_more(folder: Folder) -> None:
    with edited_history(folder) as (head, *lines):
        head["count"] = 2 * 144
        for line in lines:
            line |= {"values": [[head["count"], 0]]} if line["values"] else {}
            line.pop("averages", None)
    assert suggested(folder).endswith("measured as a whole, expected 5 or more; the history has no more.\n")


WRONG: list[Any] = [
    pytest.param(("--since", "1d"), 64, "--since", id="too short a past"),
    pytest.param(("--time-zone", "Mars"), 64, '--time-zone: "Mars" is not a time zone', id="no zone"),
    pytest.param(("--window", "45m"), 64, "--window: is that of --query, expected --query beside it", id="no query"),
    pytest.param(("--now", "2026-11-20T22:00:00Z"), 64, "--now: the history in the snapshot says", id="a time"),
    pytest.param(("--query", " "), 64, "--query: is empty, expected a query", id="an empty query"),
    pytest.param(("-n", "dve"), 64, 'matches none of 1 with a Service, did you mean "dev"?', id="no such namespace"),
    pytest.param(("--query", "\udcff"), 64, "'--query': \"\\udcff\" is not UTF-8, expected text", id="no text"),
    pytest.param(("--query", "up"), 3, "does not hold the past of up, expected it", id="not recorded"),
]


@pytest.mark.parametrize(("flags", "code", "words"), WRONG)
def test_wrong_input_is_an_error_with_its_place(folder: Folder, flags: tuple[str, ...], code: int, words: str) -> None:
    said = folder.call("suggest", "--snapshot", "snapshot", *flags)
    assert (said.code, said.out) == (code, "")
    assert words in said.err


def test_a_query_that_failed_everywhere_is_an_error_in_its_words(folder: Folder) -> None:
    with edited_history(folder) as lines:
        asked = {one["query"] for one in lines[1:] if one["query"].startswith("sum")}
        lines[1:] = [{"query": query, "error": "HTTP 422 too many samples"} for query in sorted(asked)]
    said = folder.call("suggest", "--snapshot", "snapshot")
    assert (said.code, said.out) == (3, "")
    assert "HTTP 422 too many samples; record it anew" in said.err


def test_without_a_query_it_says_what_is_missing(folder: Folder) -> None:
    folder.write("policies/idling.yaml", "")
    said = folder.call("suggest", "--snapshot", "snapshot")
    assert said.code == 64
    assert "--query: is not given, and no IdlingPolicy has a metric" in said.err
