"""The activator of a cluster: failed writes, watches that were cut, others' Leases, bugs in a loop."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Collection, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.activator import wake
from reconciler.activator.activation import Activation
from reconciler.activator.listener import PortsTakenError
from reconciler.activator.objects import WatchedNetworkPolicy
from reconciler.activator.splice import connected
from reconciler.backends.decode.values import decoded_json
from reconciler.errors import ForbiddenError
from tests.activator.services import IDLE, a_slice, a_watched_service, encoded
from tests.activator.stage import LIMIT, WEB, Stage, Written, play, played, until

OURS = "web-activator-activator-0-ipv4"
API = ("shop", "api")


@played()
async def test_a_slice_whose_answer_was_lost_is_withdrawn(stage: Stage) -> None:
    stage.written.loses_answers = True
    stage.idle()
    await until(lambda: OURS in stage.written.there)
    assert OURS in stage.activation.published
    stage.one._object_changed(stage.one._services, WEB, None)
    await until(lambda: not stage.written.there)


@pytest.mark.parametrize("is_known", [True, False])
@played()
async def test_a_slice_of_ours_that_nobody_wants_is_withdrawn(stage: Stage, is_known: bool) -> None:
    if is_known:
        stage.one._activations[WEB] = Activation(WEB, stage.one._context)
    stage.written.there = {OURS: {}, "others": {}}
    stage.one._object_changed(
        stage.one._slices, ("shop", OURS), a_slice(OURS, [("127.0.0.1", True, True)], activator="uid-0")
    )
    stage.one._object_changed(
        stage.one._slices, ("shop", "others"), a_slice("others", [("127.0.0.2", True, True)], activator="uid-1")
    )
    await stage.one._review_activations()
    await until(lambda: set(stage.written.there) == {"others"})


@played()
async def test_a_slice_that_another_activator_deletes_while_others_are_written_is_published_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the clients of one address family are refused until the next list of all slices."""
    names, second, answered = ("web-ipv4", "web-ipv6"), threading.Event(), threading.Event()

    class Slow(Written):
        """The answer to the second write comes late."""

        def publish(self, manifest: Mapping[str, Any]) -> None:
            super().publish(manifest)
            if manifest["metadata"]["name"] == names[1]:
                second.set()
                answered.wait(LIMIT)

    written = stage.one._publisher.publication = cast(Any, Slow())
    wanted = {name: {"metadata": {"name": name, "namespace": "shop"}} for name in names}
    monkeypatch.setattr(Activation, "manifests", lambda _: wanted)
    stage.one._activations[WEB] = Activation(WEB, stage.one._context)
    stage.one._publisher.publish(stage.activation)
    await until(second.is_set)
    found = a_slice(names[0], [("127.0.0.1", True, True)], activator="uid-0")
    stage.one._object_changed(stage.one._slices, ("shop", names[0]), found)
    del written.there[names[0]]
    stage.one._object_changed(stage.one._slices, ("shop", names[0]), None)
    answered.set()
    await until(lambda: not stage.one._tasks.running)
    assert set(written.there) == set(stage.activation.published) == set(names)


@played()
async def test_a_slice_that_went_while_the_watch_was_cut_is_published_again(stage: Stage) -> None:
    stage.idle()
    await until(lambda: OURS in stage.activation.published and not stage.one._tasks.running)
    stage.written.there.clear()
    stage.one._objects_listed(stage.one._slices, [])
    await until(lambda: OURS in stage.written.there)


@played()
async def test_what_is_wrong_with_a_service_is_told_once_also_on_it(stage: Stage) -> None:
    events: list[tuple[str, str]] = []

    def told(_: tuple[str, str], __: str, words: tuple[str, str]) -> None:
        events.append(words)

    stage.one.waker = cast(Any, SimpleNamespace(tell_problem=told))

    def changed(wake_ports: str, **spec: Any) -> None:
        service = a_watched_service(annotations={**IDLE, "reconciler/wake-ports": wake_ports}, spec=spec)
        stage.one._object_changed(stage.one._services, WEB, service)

    changed("none", clusterIP="None")
    for wake_ports in ("none", "80,http", "80,http"):
        changed(wake_ports)
    await until(lambda: len(events) == 2)
    assert sorted(reason for reason, _ in events) == ["ConnectionsNotHeld", "WakePortsUnknown"]
    assert stage.told == [f"warning: shop/web: {words}" for _, words in sorted(events)]
    changed("80")
    assert not [about for about in stage.one._tasks.problems if "wake ports" in about]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        pytest.param({}, {"type": "NodePort", "externalTrafficPolicy": "Local"}, "externalTrafficPolicy", id="local"),
        pytest.param({"ipFamilies": ["IPv6"]}, None, "connections over IPv6 cannot be held", id="IPv6 alone"),
        pytest.param({"ipFamilies": ["IPv4", "IPv6"]}, None, "connections over IPv6 cannot be held", id="both"),
    ],
)
@played()
async def test_a_service_that_is_idle_tells_what_is_not_held(
    stage: Stage, before: dict[str, Any], after: dict[str, Any] | None, words: str
) -> None:
    """Also where its spec changes only then, on this activator, which has an address of IPv4."""
    events: list[str] = []
    stage.one.waker = cast(Any, SimpleNamespace(tell_problem=lambda _, __, told: events.append(told[1])))
    for spec in (before, after, before, after) if after is not None else (before, before):
        service = a_watched_service(annotations=IDLE, spec=spec)
        stage.one._object_changed(stage.one._services, WEB, service)
        await until(lambda: not [key for key in stage.one._tasks.running if key[0] == "event"])  # type: ignore[index]
    assert [words in told for told in events] == ([True] if after is None else [True, True])
    stage.one._object_changed(stage.one._services, WEB, a_watched_service(spec=before))
    assert not [about for about in stage.one._tasks.problems if "holding" in about]


@played()
async def test_what_is_held_again_is_no_problem_any_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> None:
        raise PortsTakenError("no port is free")

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(Activation, "observe", refuses)
            stage.idle()
        stage.idle()
    assert stage.told == ["error: shop/web: it is not held: no port is free"] * 2


@pytest.mark.parametrize("may_judge", [True, False])
@played()
async def test_others_are_judged_only_by_one_that_may(stage: Stage, may_judge: bool) -> None:
    found = a_slice("x", [("127.0.0.2", True, True)], activator="uid-1")
    stage.one._object_changed(stage.one._slices, ("shop", "x"), found)
    stage.written.may_judge = may_judge
    stage.one._sweep()
    assert stage.written.swept == ([frozenset({"uid-1"})] if may_judge else [])


@played()
async def test_a_loop_goes_on_after_a_bug_and_health_says_where_one_ended(stage: Stage) -> None:
    one = stage.one
    stage.written.breaks, stage.written.is_fresh = 2, False
    renew = partial(one._in_thread, stage.written.renew, one._renewals)
    one._tasks.start("renew", partial(one._tasks.again, "Lease", 0.001, renew))
    assert one.health() == (503, "sweep has ended; look has ended\n")
    await until(lambda: stage.written.is_fresh)
    assert ["a bug" in line for line in stage.told] == [True]
    one._tasks.start("sweep", partial(asyncio.sleep, LIMIT))
    one._tasks.start("look", partial(asyncio.sleep, LIMIT))
    assert one.health() == (200, "ok\n")


@pytest.mark.parametrize(
    ("lease_fails", "end_fails"),
    [
        pytest.param(9, 0, id="the Lease cannot be written"),
        pytest.param(1, 1, id="nothing can be written at first"),
    ],
)
@played(grace=5.0)
async def test_at_the_end_the_slices_go_whatever_becomes_of_the_lease(
    stage: Stage, lease_fails: int, end_fails: int
) -> None:
    class Failing(Written):
        def __init__(self) -> None:
            super().__init__()
            self.left = {"expire": lease_fails, "end": end_fails}

        def expire(self) -> None:
            self._fail("expire")

        def end(self) -> None:
            self._fail("end")
            self.there.clear()

        def _fail(self, what: str) -> None:
            self.left[what] -= 1
            if self.left[what] >= 0:
                raise ForbiddenError(f"{what}: refused")

    written = Failing()
    stage.one.publication = stage.one._publisher.publication = cast(Any, written)
    stage.idle()
    await until(lambda: OURS in written.there)
    await stage.one._end()
    assert not written.there
    assert stage.told == []


@played(grace=1.0)
async def test_the_end_is_orderly_where_there_is_no_thread_to_delete_the_slices(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: object) -> None:
        raise RuntimeError("can't start new thread")

    stage.idle()
    await until(lambda: OURS in stage.written.there)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        await stage.one._end()
    [line] = stage.told
    assert "the slices could not be deleted: " in line


@played()
async def test_what_failed_is_tried_again_sooner_than_what_went_well(stage: Stage) -> None:
    """After an outage of the API server the Lease is to be fresh at once: a run may judge it."""
    stage.written.breaks, stage.written.is_fresh = 1, False
    renew = partial(stage.one._in_thread, stage.written.renew, stage.one._renewals)
    hourly = partial(stage.one._tasks.again, "Lease", 3600.0, renew)
    stage.one._tasks.start("renew", hourly)
    await until(lambda: stage.written.is_fresh)


@played()
async def test_without_a_lease_all_is_watched_and_nothing_published_and_readiness_says_why(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others delete what one without a Lease publishes. A restart would not help: it is alive, and not ready."""
    one, written = stage.one, stage.written
    stage.idle()
    await until(lambda: OURS in written.there and not one._tasks.running)
    monkeypatch.setattr(one, "_watch", lambda objects: watched.append(objects.resource.plural))
    watched: list[str] = []
    written.breaks, written.is_fresh = 1_000_000, False
    await one._begin()
    assert watched == ["services", "endpointslices", "networkpolicies"]
    await until(lambda: "Lease" in one._tasks.problems)
    assert one.health() == (200, "ok\n")
    status, why = one.readiness()
    assert (status, why.partition(";")[0]) == (503, "the Lease is not fresh")
    assert "a bug" in why
    written.there.clear()
    one._objects_listed(one._slices, [])
    await one._review_activations()
    assert ("slices", WEB) not in one._tasks.running
    written.breaks = 0
    await until(lambda: OURS in written.there)


@played()
async def test_without_a_lease_slices_that_are_there_go_when_nothing_needs_them(stage: Stage) -> None:
    stage.idle()
    await until(lambda: OURS in stage.written.there)
    stage.written.is_fresh = False
    stage.one._object_changed(stage.one._services, WEB, None)
    await until(lambda: not stage.written.there)


def test_work_that_is_cancelled_before_it_begins_leaves_no_coroutine_behind() -> None:
    async def story(stage: Stage) -> None:
        stage.idle()
        [task] = stage.one._tasks.running.values()
        task.cancel()
        await asyncio.wait([task])

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        play(story)
        gc.collect()
    assert [str(one.message) for one in found] == []


@played()
async def test_without_descriptors_a_service_is_held_once_there_are_some(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", none)
        assert await connected(("127.0.0.1", 1)) is None
        stage.idle()
        assert not stage.activation.wants_slices
    assert "Too many open files" in stage.told[0]
    await stage.one._review_activations()
    assert stage.activation.wants_slices


@played()
async def test_where_the_ports_are_too_few_a_service_is_held_once_another_one_needs_none(stage: Stage) -> None:
    ports = stage.one._context.ports
    stage.idle()
    ports._ports = range(0)
    stage.idle("api")
    assert "no port of --port-range is free" in stage.told[0]
    ports._ports = stage.one.settings.ports
    await stage.one._review_activations()
    assert not stage.one._activations[API].wants_slices  # as long as no port came back
    stage.one._object_changed(stage.one._services, WEB, None)
    await stage.one._review_activations()
    assert stage.one._activations[API].wants_slices


@pytest.mark.parametrize(("read_only", "woken"), [(False, 1), (True, 0)])
@played()
async def test_what_is_only_told_is_not_counted_as_woken(stage: Stage, read_only: bool, woken: int) -> None:
    class Telling:
        """A waker with which nothing goes wrong."""

        def __init__(self) -> None:
            self.read_only = read_only

        def wake(self, _: str, names: Collection[str]) -> dict[str, str]:
            return dict.fromkeys(names, "")

    stage.one._wakes.waker = cast(Any, Telling())
    stage.idle()
    stage.one._wakes.add(stage.activation.name)
    await until(lambda: ("wake", "shop") not in stage.one._tasks.running)
    assert stage.one.metrics.counters["woken"] == woken


@played()
async def test_what_cannot_be_woken_keeps_no_other_service_waiting_and_is_tried_after_its_own_pause(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "pauses", lambda: iter((0.0, 0.0, 1e6)))
    tried: list[list[str]] = []

    class Refused:
        read_only = False

        def wake(self, _: str, names: Collection[str]) -> dict[str, str]:
            tried.append(sorted(names))
            return {name: "forbidden" if name == "web" else "" for name in names}

    stage.one._wakes.waker = cast(Any, Refused())
    monkeypatch.setattr(Activation, "has_traffic", True)
    stage.idle()
    stage.idle("api")
    stage.one._wakes.add(WEB)
    await until(lambda: WEB in stage.one._wakes._paused and len(tried) == 3)
    stage.one._wakes.add(WEB)
    stage.one._wakes.add(API)
    await until(lambda: ["api"] in tried)
    assert tried == [["web"], ["web"], ["web"], ["api"]]


@played()
async def test_a_relist_looks_at_the_network_policies_of_a_services_own_namespace_only(stage: Stage) -> None:
    """The product of all Services and all NetworkPolicies of a large cluster keeps everybody waiting for minutes."""

    class Counted(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

    def in_namespace(number: int, spec: Mapping[str, Any]) -> dict[str, Any]:
        return {"metadata": {"name": "one", "namespace": f"team-{number}"}, "spec": spec}

    found = [
        decoded_json(WatchedNetworkPolicy, encoded(in_namespace(number, {"podSelector": {}}))) for number in range(60)
    ]
    for one in found:
        one.metadata.namespace = Counted(one.metadata.namespace or "")
    stage.one._objects_listed(stage.one._policies, found)
    for number in range(60):
        service = a_watched_service(f"web-{number}", annotations=IDLE)
        service.metadata.namespace = f"team-{number}"
        stage.one._object_changed(stage.one._services, service.name, service)
    assert all(one._observed.restricted for one in stage.one._activations.values())
    assert Counted.compared <= 3 * 60


@played()
async def test_a_wake_does_not_wait_for_slices_that_hang(stage: Stage) -> None:
    hangs = threading.Event()

    class Hanging(Written):
        def publish(self, _: Mapping[str, Any]) -> None:
            hangs.wait(LIMIT)

    class Telling:
        read_only = False

        def wake(self, _: str, names: Collection[str]) -> dict[str, str]:
            return dict.fromkeys(names, "")

    stage.one.publication = stage.one._publisher.publication = cast(Any, Hanging())
    stage.one._wakes.waker = cast(Any, Telling())
    try:
        for number in range(100):
            stage.idle(f"web-{number}")
        stage.one._wakes.add(stage.one._activations["shop", "web-99"].name)
        await until(lambda: stage.one.metrics.counters["woken"] == 1)
    finally:
        hangs.set()
