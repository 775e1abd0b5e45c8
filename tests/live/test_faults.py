"""Every fault at every request of a plan and of an apply: what is told, what is changed, and that it ends."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.live.end_states import Ends, as_text, comparable, end_state, final_state, lost_scales
from tests.live.fault_laws import (
    Point,
    always,
    check_words,
    facts,
    is_changed,
    once,
    onwards,
    plan_in,
    points_of,
    right_codes,
    spent,
    ticks,
    unplanned,
)
from tests.live.stage import Key, Stage
from tests.real import faults
from tests.real.api import Object
from tests.real.proxy import Fault

REQUEST_TIMEOUT, TIMEOUT = 1.2, 5.0
VERBS = ("plan", "apply")


@dataclass(frozen=True)
class Expected:
    """`passes`: coming once, it is overcome, and the run ends as if nothing had been."""

    fault: Fault
    passes: bool = False


FAULTS = {
    "refused": Expected(faults.refuse(), passes=True),
    "hanging": Expected(faults.hang()),
    "answer lost": Expected(faults.lose(), passes=True),
    "cut": Expected(faults.cut(), passes=True),
    "401": Expected(faults.answer(401)),
    "403": Expected(faults.answer(403)),
    "404": Expected(faults.answer(404)),
    "409": Expected(faults.answer(409)),
    "410": Expected(faults.answer(410)),
    "429 after 1": Expected(faults.answer(429, retry_after=1), passes=True),
    "429": Expected(faults.answer(429), passes=True),
    "500": Expected(faults.answer(500), passes=True),
    "503": Expected(faults.answer(503), passes=True),
    "wrong JSON": Expected(faults.wrong_json()),
}
WAYS = {"once": once, "always": always, "onwards": onwards}


@dataclass(frozen=True)
class Undisturbed:
    """A run without faults: its requests, its plan, the world right after it, and when all has come to rest.

    `known` are the ends of worlds that runs came to, see `end_state`.
    """

    points: list[Point]
    plan: dict[str, Any]
    after: Any
    end: Any
    known: Ends


@pytest.fixture(scope="session")
def runs(empty_stage: Stage, ends: Ends) -> Callable[[Stage, str], Undisturbed]:
    """A plan and an apply on the world of everything.py without faults; asked for once each."""
    known: dict[str, Undisturbed] = {}

    def run(stage: Stage, verb: str) -> Undisturbed:
        if verb not in known:
            begun = stage.objects()
            said = called(stage, verb)
            assert (said.code, said.err) == (0, "")
            points, after = points_of(stage), final_state(stage)
            end = None if verb == "plan" else end_state(stage, begun, ends)
            known[verb] = Undisturbed(points, plan_in(check_words(said)), after, end, ends)
            stage.fill()
        return known[verb]

    return run


def called(stage: Stage, verb: str) -> Any:
    limits = ("--request-timeout", str(REQUEST_TIMEOUT), "--timeout", str(TIMEOUT), "-o", "json")
    return stage.plan(*limits) if verb == "plan" else stage.apply(*limits)


STAYING = ("refused", "hanging", "answer lost", "cut", "401", "403", "429", "500", "wrong JSON")
"""Faults that stay, too: of the others, one of these stands for each."""

ONCE = tuple(fault for fault in FAULTS if fault not in ("403", "410", "429 after 1", "503"))
"""Faults that come once: 401 stands for 403, 409 for 410, 429 and 500 for those that are tried again as they are."""


def every_case() -> Iterator[Any]:
    """Each fault coming in each way; workers share the ways among them, each with API servers of its own."""
    for verb in VERBS:
        for way in WAYS:
            group = pytest.mark.xdist_group(f"faults-{verb}-{way}")
            yield from (pytest.param(verb, way, fault, id=f"{verb}-{way}-{fault}", marks=group) for fault in FAULTS)


def some_cases() -> Iterator[Any]:
    """Faults once in an apply, which reads what a plan does; in turn one stays in a plan, and in an apply."""
    ways, staying = itertools.cycle(WAYS), itertools.cycle(("always", "onwards"))
    chosen = [
        *(("plan", next(ways), fault) for fault in STAYING[1::2]),
        *(("apply", "once", fault) for fault in ONCE),
        *(("apply", next(staying), fault) for fault in STAYING[::2]),
    ]
    return (pytest.param(*case, id="-".join(case)) for case in chosen)


def one_of(points: list[Point], way: str, fault: str) -> Point:
    """Return another request for each fault and way."""
    return points[(7 * list(FAULTS).index(fault) + 3 * list(WAYS).index(way)) % len(points)]


@pytest.mark.parametrize(("verb", "way", "fault"), list(some_cases()))
def test_one_request(stage, runs, verb, way, fault):
    """Each fault meets one request of each case here; `make soak` has it meet all, in all ways."""
    undisturbed = runs(stage, verb)
    check(stage, undisturbed, (verb, way, fault), one_of(undisturbed.points, way, fault))


LEASE = "/apis/coordination.k8s.io/v1/namespaces/reconciler/leases/reconciler"


@pytest.mark.parametrize("fault", ["answer lost", "cut"])
def test_a_scale_that_nobody_hears_of_ends_where_an_undisturbed_one_does(stage, runs, fault):
    point = Point("east", "PATCH", "/apis/apps/v1/namespaces/batch/deployments/worker/scale", 1)
    check(stage, runs(stage, "apply"), ("apply", "always", fault), point)


def test_a_lock_that_is_there_and_is_not_found_is_told(stage, runs):
    check(stage, runs(stage, "apply"), ("apply", "always", "404"), Point("east", "GET", LEASE, 1))


MAPS = "/api/v1/namespaces/reconciler/configmaps"


@pytest.mark.parametrize(
    ("fault", "method", "path", "nth"),
    [
        pytest.param(faults.lose(), "PATCH", LEASE, 1, id="a lock, no answer"),
        pytest.param(faults.lose(), "POST", MAPS, 1, id="the journal, no answer"),
        pytest.param(faults.lose(), "POST", MAPS, 2, id="a status, no answer"),
        pytest.param(faults.wrong_json(), "PATCH", "/apis/apps/v1/namespaces/dev/deployments/api", 1, id="patched"),
        pytest.param(
            faults.wrong_json(), "PATCH", "/apis/apps/v1/namespaces/batch/deployments/worker/scale", 1, id="scaled"
        ),
        pytest.param(faults.wrong_json(), "POST", MAPS, 1, id="created"),
        pytest.param(faults.wrong_json(), "DELETE", "/apis/apps/v1/namespaces/shop/replicasets/old", 1, id="deleted"),
    ],
)
def test_a_write_without_its_answer_is_found_done_or_sent_again(stage, runs, fault, method, path, nth):
    undisturbed = runs(stage, "apply")
    once(stage, fault, Point("east", method, path, nth))
    said = stage.apply()
    assert (said.code, said.err) == (0, ""), said.out
    looks = [one for one in stage.proxies["east"].requests if (one.method, one.path) == ("GET", LEASE)]
    assert len(looks) <= 8, "nobody is waited for"  # whoever waits until it runs out looks each half second, 30 times
    stage.clear()
    assert final_state(stage) == undisturbed.after


@pytest.mark.soak
@pytest.mark.parametrize(("verb", "way", "fault"), list(every_case()))
def test_all_requests(stage, runs, verb, way, fault):
    undisturbed = runs(stage, verb)
    for point in undisturbed.points:
        check(stage, undisturbed, (verb, way, fault), point)


def check(stage: Stage, undisturbed: Undisturbed, case: tuple[str, str, str], point: Point) -> None:
    """The law, for one fault at one request."""
    verb, way, fault = case
    stage.clear()
    before = stage.filled()
    WAYS[way](stage, FAULTS[fault].fault, point)
    with ticks() as counted:
        said = called(stage, verb)
    seconds = spent(counted)
    stage.clear()
    after = stage.objects()
    world = comparable(after)
    try:
        document = check_words(said)
        plan = plan_in(document)
        assert seconds <= TIMEOUT + 1
        assert unplanned(before, after, plan) == []
        assert lost_scales(before, after) == []
        assert sorted(facts(plan) - facts(undisturbed.plan)) == [], "what an undisturbed run would not do"
        assert said.code in right_codes(document, is_changed(before, after))
        if said.code == 0:
            assert facts(plan) == facts(undisturbed.plan)
            assert verb == "plan" or is_left_open(said.out) or world == undisturbed.after
        if way == "once" and FAULTS[fault].passes:
            assert (said.code, said.err) == (0, "")
        if verb == "apply":
            check_end(stage, undisturbed, before, as_text(world))
    except AssertionError as error:
        raise AssertionError(
            f"{fault} {way} at {point}: {error}\nexit {said.code}\n{said.err}\n{summary(said.out)}"
        ) from error


def check_end(stage: Stage, undisturbed: Undisturbed, before: dict[Key, Object], world: str) -> None:
    """The next runs end where an undisturbed one does; from a `world` seen before they need not be run again."""
    if world not in undisturbed.known:
        stage.expire_leases()
        undisturbed.known[world] = end_state(stage, before, undisturbed.known)
    assert undisturbed.known[world] == undisturbed.end


def is_left_open(text: str) -> bool:
    """Whether an apply says that the next run has something to look after: then what counts is where that one ends.

    No controller acts here on a scale whose answer the fault took.
    """
    said = ("the next run cleans up", "its status did not reach")
    return any(words in outcome["message"] for outcome in json.loads(text)["outcomes"] for words in said)


def summary(text: str) -> str:
    """What did not go well in a report, for the message of a failed test."""
    document = json.loads(text)
    wrong = [one for one in document.get("outcomes", ()) if one["status"] != "applied"]
    return "\n".join(map(str, [plan_in(document)["unknown"], *wrong]))
