"""The activator of one cluster: watches Services and pods, publishes EndpointSlices, holds connections, wakes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

from msgspec import Struct

from reconciler.activator.activation import NO_BACKENDS, Activation, ActivationSettings, ObservedService
from reconciler.activator.connection import ActivatorLimits, ConnectionSettings, HeldConnection
from reconciler.activator.listener import PortRange
from reconciler.activator.metrics import ActivatorMetrics
from reconciler.activator.objects import (
    WATCHED_NETWORK_POLICIES,
    WATCHED_SERVICES,
    WATCHED_SLICES,
    WatchedNetworkPolicy,
    WatchedService,
    WatchedSlice,
    backends_of,
    is_restricted,
)
from reconciler.activator.pods import PodAddresses
from reconciler.activator.publication import RENEW_SECONDS, ActivatorPod, Publication
from reconciler.activator.shares import Shares
from reconciler.activator.wake import CLUSTER, Waker
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.watch import Watch, WatchedResource, WatchHandlers
from reconciler.errors import ReconcilerError, reason_of
from reconciler.model import ACTIVATOR_FRESH_FOR, ACTIVATOR_LEASE_SECONDS
from reconciler.time_limit import TimeLimit

_SWEEP_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_PROXIES_LEARN_SECONDS = 2.0
"""How long the proxies of the nodes may take to see that a slice has gone."""

_LONGEST_PAUSE = 15.0
_SOON_SECONDS = 1.0
_WRITERS = 16
_WAKES = 4
"""Namespaces that are woken at a time, also while slices are written."""

_NEEDED = ("services", "endpointslices", "networkpolicies")
_LOOPS = ("renew", "sweep", "look")

_JUDGES_AFTER = ACTIVATOR_FRESH_FOR.total_seconds()
"""For how many seconds our own Lease is fresh before we judge those of others: an outage makes all of them old."""

NamespacedName = tuple[str, str]
T = TypeVar("T")
W = TypeVar("W")


class ActivatorSettings(Struct, frozen=True):
    """How an activator works. `grace`: how many seconds connections have after SIGTERM; `tell` says a line."""

    pod: ActivatorPod
    limits: ActivatorLimits
    tell: Callable[[str], None]
    proxy_protocol: bool = False
    never_splices: bool = False
    grace: float = 30.0


class ActivatorParts(Struct, frozen=True):
    """What an activator asks and writes through, all from threads."""

    client: ApiClient
    waker: Waker
    publication: Publication
    limit: TimeLimit


class Activator:
    """Runs in one event loop; only requests to the API server run in threads."""

    def __init__(self, settings: ActivatorSettings, parts: ActivatorParts) -> None:
        self.metrics = ActivatorMetrics()
        self._settings = settings
        self._parts = parts
        self._services: dict[NamespacedName, WatchedService] = {}
        self._slices: dict[NamespacedName, dict[NamespacedName, WatchedSlice]] = {}
        self._service_of: dict[NamespacedName, NamespacedName] = {}
        self._policies: dict[str, dict[str, WatchedNetworkPolicy]] = {}  # by namespace, then by name
        self._activations: dict[NamespacedName, Activation] = {}
        self._pods = PodAddresses(parts.client, self._failed)
        limits = settings.limits
        self._held: Shares[HeldConnection] = Shares(limits.held)
        self._shared = ActivationSettings(
            pod=settings.pod,
            ports=PortRange(limits.ports),
            connections=ConnectionSettings(limits, self.metrics, Shares(limits.kept), settings.proxy_protocol),
            signal=self._signal,
            changed=self._changed,
            is_pods=self._pods.has,
            held=self._held,
            spliced=Shares(limits.spliced),
            listeners=Shares(limits.listeners),
        )
        self._unsynced = set(_NEEDED)
        self._problems: dict[str, str] = {}
        self._told: dict[NamespacedName, str] = {}  # what was said last of a Service
        self._waking: dict[str, set[NamespacedName]] = {}
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(_WRITERS, thread_name_prefix="activator")
        self._wakes = ThreadPoolExecutor(_WAKES, thread_name_prefix="wake")
        self._renewals = ThreadPoolExecutor(1, thread_name_prefix="renewal")
        self._watches: list[threading.Thread] = []
        self._unheld: set[NamespacedName] = set()
        self._renewed_at = -float(ACTIVATOR_LEASE_SECONDS)
        self._fresh_since = inf
        self._is_ending = False

    async def run(self, until: asyncio.Event) -> None:
        """Return when `until` is set, and everything has ended orderly."""
        self._loop = asyncio.get_running_loop()
        self._keep("begin", self._begin)
        await until.wait()
        await self._end()

    def health(self) -> tuple[int, str]:
        """Return whether the event loop, and all that has to go on in it and beside it, still runs."""
        if self._is_ending or "begin" in self._tasks:
            return 200, "ok\n"
        ended = [f"{one} has ended" for one in _LOOPS if one not in self._tasks]
        ended += [f"the {one.name} has ended" for one in self._watches if not one.is_alive()]
        return (503, "; ".join(ended) + "\n") if ended else (200, "ok\n")

    def readiness(self) -> tuple[int, str]:
        """Return whether everything is watched, and the others know that this one lives."""
        missing = [f"{name} not listed yet" for name in sorted(self._unsynced)]
        if self._loop.time() - self._renewed_at > ACTIVATOR_LEASE_SECONDS:
            missing.append("the Lease is not fresh")
        missing += [why for what, why in self._problems.items() if what in _NEEDED]
        return (503, "; ".join(missing) + "\n") if missing else (200, "ok\n")

    def metrics_text(self) -> tuple[int, str]:
        """Return all metrics."""
        gauges = self.metrics.gauges
        gauges["listening"] = len(self._activations)
        gauges["held"] = len(self._held)
        gauges["spliced"] = len(self._shared.spliced)
        return 200, self.metrics.text()

    # beginning and end

    async def _begin(self) -> None:
        """Delete what a former process of this Pod left, renew the Lease of this one, then watch."""
        await self._until_done("begin", lambda: self._parts.publication.withdraw_all(self._settings.pod.uid))
        self._keep("renew", partial(self._again, "Lease", RENEW_SECONDS, self._renew, self._renewals))
        self._keep("sweep", partial(self._again, "slices of others", _SWEEP_SECONDS, self._sweep, self._threads))
        self._keep("look", self._look)
        self._watch(WATCHED_SERVICES, self._service_replaced, self._service_changed)
        self._watch(WATCHED_SLICES, self._slices_replaced, self._slice_changed)
        self._watch(WATCHED_NETWORK_POLICIES, self._policies_replaced, self._policy_changed)

    async def _end(self) -> None:
        """The Lease and the slices first, then no new connections, then as long as there may be spliced ones."""
        self._is_ending = True
        until = self._loop.time() + self._settings.grace
        for key in ("begin", "renew", "sweep"):
            task = self._tasks.pop(key, None)
            if task is not None:
                task.cancel()
        seconds = max(1.0, self._settings.grace / 2)
        withdraw = partial(self._withdraw, self._loop.time() + seconds)
        try:  # behind a renewal that is under way
            await asyncio.wait_for(self._loop.run_in_executor(self._renewals, withdraw), seconds)
        except Exception as error:  # noqa: BLE001 - such as no thread to do it in: what follows is to end all the same
            self._tell(f"warning: the slices could not be deleted: {reason_of(error)}; the others do that")
        await asyncio.sleep(min(_PROXIES_LEARN_SECONDS, self._settings.grace))
        for one in self._activations.values():
            one.close()
        while self._loop.time() < until and any(one.held or one.spliced for one in self._activations.values()):
            await asyncio.sleep(0.1)
        for one in self._activations.values():
            one.end("stopped")
        self._parts.limit.cut("the activator ends")
        for task in self._tasks.values():
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)  # also where the Lease could not be written
        self._wakes.shutdown(wait=False, cancel_futures=True)
        self._pods.end()
        self._renewals.shutdown(wait=False, cancel_futures=True)

    def _withdraw(self, until: float) -> None:
        """Take everything back that leads clients here; what is under way may write one more slice first.

        The slices go whatever becomes of the Lease, and what fails is tried again, `until` that time of the loop.

        Raises:
            ReconcilerError: the last attempt failed.
        """
        pause = 0.5
        while True:
            try:
                with suppress(ReconcilerError):  # where it cannot be written, it expires soon, by itself
                    self._parts.publication.expire()
                self._threads.shutdown(cancel_futures=True)
                self._parts.publication.end()
                return
            except ReconcilerError:
                if self._loop.time() + pause >= until:
                    raise
            time.sleep(pause)
            pause *= 2

    def unexpected(self, _: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Report what failed in the event loop itself, one line for each kind."""
        error = context.get("exception")
        self._failed("event loop", f"{context['message']}{f': {reason_of(error)}' if error else ''}")

    def _keep(self, key: object, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` as a task that is not forgotten; its failure is reported."""

        async def guarded() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - a bug in one task: it is reported, the others go on
                self._tell(f"error: {reason_of(error)}")
            finally:
                if self._tasks.get(key) is asyncio.current_task():
                    del self._tasks[key]

        self._tasks[key] = self._loop.create_task(guarded())

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._threads, work)

    async def _until_done(self, what: str, work: Callable[[], object]) -> None:
        """Do `work` in a thread, again and again until it succeeds, with pauses that grow."""
        pause = 0.5
        while True:
            try:
                await self._in_thread(work)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
                self._failed(what, reason_of(error))
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)
            else:
                self._failed(what, "")
                return

    async def _again(self, what: str, seconds: float, work: Callable[[], None], threads: ThreadPoolExecutor) -> None:
        """Do `work` in a thread every so many seconds, sooner after a failure: others wait for its result."""
        while True:
            pause = seconds
            try:
                await self._loop.run_in_executor(threads, work)
                self._failed(what, "")
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
                self._failed(what, reason_of(error))
                pause = min(_SOON_SECONDS, seconds)
            await asyncio.sleep(pause)

    def _renew(self) -> None:
        began = self._loop.time()
        self._parts.publication.renew()
        if began - self._renewed_at > ACTIVATOR_LEASE_SECONDS:
            self._fresh_since = began
        self._renewed_at = began

    def _sweep(self) -> None:
        """Delete what activators left that died, once our own Lease has been fresh for so long that theirs could be."""
        now = self._loop.time()
        if now - self._renewed_at > ACTIVATOR_LEASE_SECONDS or now - self._fresh_since < _JUDGES_AFTER:
            return
        uids = {one.pod_uid for inside in tuple(self._slices.values()) for one in tuple(inside.values())}
        for uid in self._parts.publication.withdraw_dead({uid for uid in uids if uid}):
            self._tell(f"the activator in the Pod with uid {uid} is gone: its slices were deleted")

    async def _look(self) -> None:
        """Forget what is over; slices also go when a time is up."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                self._look_once()
                self._failed("look", "")
            except Exception as error:  # noqa: BLE001 - a bug with one Service: it is reported, the loop goes on
                self._failed("look", reason_of(error))

    def _look_once(self) -> None:
        unheld, self._unheld = self._unheld, set()
        self._refresh(unheld)
        self._find_strays()
        for name, one in tuple(self._activations.items()):
            self._changed(one)
            if one.is_over:
                one.close()
                del self._activations[name]
                for what in ("slices", "wake"):
                    self._problems.pop(f"{what} of {'/'.join(name)}", None)

    def _find_strays(self) -> None:
        """Delete our EndpointSlices that nothing needs any more: the answer to an earlier write may have been lost."""
        for service, inside in self._slices.items():
            activation = self._activations.get(service)
            for (namespace, name), one in inside.items():
                if one.pod_uid != self._settings.pod.uid or self._is_ending:
                    continue
                if activation is not None:
                    activation.published.setdefault(name, {})
                elif ("stray", namespace, name) not in self._tasks:
                    withdraw = partial(self._parts.publication.withdraw, namespace, name)
                    self._keep(("stray", namespace, name), partial(self._in_thread, withdraw))

    def _failed(self, what: str, why: str) -> None:
        """Record a failure, or its end; each failure is reported once."""
        if why and self._problems.get(what) != why:
            self._tell(f"warning: {why}")
        if not why:
            self._problems.pop(what, None)
            return
        self._problems[what] = why

    def _tell(self, line: str) -> None:
        self._settings.tell(line)

    # what is watched

    def _watch(
        self,
        resource: WatchedResource[Any],
        replaced: Callable[[list[Any]], Iterable[NamespacedName]],
        changed: Callable[[NamespacedName, Any], Iterable[NamespacedName]],
    ) -> None:
        def synced(found: list[Any]) -> None:
            names = set(replaced(found))
            was_unsynced = bool(self._unsynced)
            self._unsynced.discard(resource.plural)
            if not self._unsynced:
                self._refresh(self._services.keys() | self._activations.keys() if was_unsynced else names)

        def seen(name: NamespacedName, found: Any) -> None:
            names = set(changed(name, found))
            if not self._unsynced:
                self._refresh(names)

        soon = self._loop.call_soon_threadsafe
        handlers: WatchHandlers[Any] = WatchHandlers(
            replaced=lambda found: _quietly(soon, synced, found),
            changed=lambda name, found: _quietly(soon, seen, name, found),
            failed=lambda why: _quietly(soon, self._failed, resource.plural, why),
        )
        watch = Watch(resource, self._parts.client, CLUSTER, handlers)
        follow = partial(watch.follow, self._parts.limit)
        thread = threading.Thread(target=follow, name=f"watch of {resource.plural}", daemon=True)
        self._watches.append(thread)
        thread.start()

    def _service_replaced(self, found: list[WatchedService]) -> Iterable[NamespacedName]:
        before = self._services
        self._services = {one.name: one for one in found if self._is_of_interest(one)}
        self._told = {name: line for name, line in self._told.items() if name in self._services}
        return before.keys() | self._services.keys() | self._activations.keys()

    def _service_changed(self, name: NamespacedName, found: WatchedService | None) -> Iterable[NamespacedName]:
        if found is not None and self._is_of_interest(found):
            self._services[name] = found
            return (name,)
        known = self._services.pop(name, None)
        self._told.pop(name, None)
        return () if known is None and name not in self._activations else (name,)

    def _is_of_interest(self, service: WatchedService) -> bool:
        """Return whether it is idle, or was a moment ago: of the others nothing is kept."""
        return service.record is not None or service.name in self._activations

    def _slices_replaced(self, found: list[WatchedSlice]) -> Iterable[NamespacedName]:
        before = self._slices
        self._slices, self._service_of = {}, {}
        for one in found:
            self._add_slice(one)
        for name, activation in self._activations.items():
            there = {key[1] for key in self._slices.get(name, {})}
            activation.published = {key: one for key, one in activation.published.items() if key in there}
        return before.keys() | self._slices.keys() | self._activations.keys()

    def _slice_changed(self, name: NamespacedName, found: WatchedSlice | None) -> Iterable[NamespacedName]:
        former = self._service_of.pop(name, None)
        if former is not None:
            self._slices.get(former, {}).pop(name, None)
            if not self._slices.get(former):
                self._slices.pop(former, None)
        if found is not None:
            self._add_slice(found)
        elif former in self._activations and self._activations[former].published.pop(name[1], None) is not None:
            self._changed(self._activations[former])  # somebody took us for dead
        return {one for one in (former, self._service_of.get(name)) if one is not None}

    def _add_slice(self, one: WatchedSlice) -> None:
        key = (one.metadata.namespace or "", one.metadata.name)
        if one.service[1]:
            self._slices.setdefault(one.service, {})[key] = one
            self._service_of[key] = one.service

    def _policies_replaced(self, found: list[WatchedNetworkPolicy]) -> Iterable[NamespacedName]:
        self._policies = {}
        for one in found:
            self._policies.setdefault(one.metadata.namespace or "", {})[one.metadata.name] = one
        return tuple(self._activations)

    def _policy_changed(self, name: NamespacedName, found: WatchedNetworkPolicy | None) -> Iterable[NamespacedName]:
        inside = self._policies.setdefault(name[0], {})
        if found is None:
            inside.pop(name[1], None)
        else:
            inside[name[1]] = found
        if not inside:
            del self._policies[name[0]]
        return [one for one in self._activations if one[0] == name[0]]

    def _refresh(self, names: Iterable[NamespacedName]) -> None:
        """Let the activations of `names` see how their Services are now; new ones begin for those that became idle."""
        for name in names:
            service = self._services.get(name)
            activation = self._activations.get(name)
            if activation is None:
                if service is None or service.record is None or self._is_ending:
                    continue
                if service.problem:
                    self._tell_problem(service)
                    continue
                activation = self._activations[name] = Activation(name, self._shared)
            self._observe(activation, service)

    def _observe(self, activation: Activation, service: WatchedService | None) -> None:
        slices = self._slices.get(activation.name, {}).values()
        policies = self._policies.get(activation.name[0], {}).values()
        backends = backends_of(slices) if slices else NO_BACKENDS
        restricted = service is not None and (
            self._settings.never_splices or backends.name_no_pods or is_restricted(service, policies)
        )
        try:
            activation.observe(ObservedService(service, backends, restricted))
        except (ReconcilerError, OSError) as error:
            words = f"error: {'/'.join(activation.name)}: it is not held: {reason_of(error)}"
            self._tell_once(activation.name, words)

    def _tell_problem(self, service: WatchedService) -> None:
        """Report once, also with an Event, that connections to an idle Service cannot be held."""
        words = f"{'/'.join(service.name)}: its connections cannot be held while it is idle: {service.problem}"
        if self._tell_once(service.name, f"warning: {words}"):
            tell = partial(self._parts.waker.tell_problem, service.name, service.metadata.uid or "", service.problem)
            self._keep(("event", service.name), partial(self._in_thread, tell))

    def _tell_once(self, name: NamespacedName, line: str) -> bool:
        """Say a line about a Service, if it is not what was said of it last; return whether it was said."""
        if self._told.get(name) == line:
            return False
        self._told[name] = line
        self._tell(line)
        return True

    # what is written

    def _changed(self, activation: Activation) -> None:
        if activation.lacks_listeners:
            self._unheld.add(activation.name)  # it is tried again, when others may have given up theirs
        key = ("slices", activation.name)
        if key not in self._tasks and not self._is_ending and activation.manifests() != activation.published:
            self._keep(key, partial(self._publish, activation))

    async def _publish(self, activation: Activation) -> None:
        """Write and delete slices until they are as they should be."""
        pause = 0.5
        while not self._is_ending and (wanted := activation.manifests()) != activation.published:
            # A write that fails may have been done all the same, or in part: it counts from here on.
            activation.published = {**{name: {} for name in wanted}, **activation.published}
            try:
                await self._in_thread(partial(self._write, activation.name[0], wanted, tuple(activation.published)))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
                self._failed(f"slices of {'/'.join(activation.name)}", reason_of(error))
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)
                continue
            self._failed(f"slices of {'/'.join(activation.name)}", "")
            activation.published = dict(wanted)
            if not wanted:
                activation.withdrawn()

    def _write(self, namespace: str, wanted: dict[str, Any], published: tuple[str, ...]) -> None:
        for manifest in wanted.values():
            self._parts.publication.publish(manifest)
        for name in published:
            if name not in wanted:
                self._parts.publication.withdraw(namespace, name)

    def _signal(self, activation: Activation) -> None:
        """Wake a Service soon, together with others of its namespace that wait for that."""
        namespace = activation.name[0]
        self._waking.setdefault(namespace, set()).add(activation.name)
        if ("wake", namespace) not in self._tasks:
            self._keep(("wake", namespace), partial(self._wake, namespace))

    async def _wake(self, namespace: str) -> None:
        pause = 0.5
        while names := self._waking.pop(namespace, set()):
            asked = frozenset(name for _, name in names)
            try:
                wake = partial(self._parts.waker.wake, namespace, asked)
                problems = await self._loop.run_in_executor(self._wakes, wake)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
                problems = dict.fromkeys(asked, reason_of(error))
            failed = {name: why for name, why in problems.items() if why}
            self.metrics.counters["woken"] += 0 if self._parts.waker.read_only else len(problems) - len(failed)
            self.metrics.counters["wake_failures"] += len(failed)
            for name in asked:
                self._failed(f"wake of {namespace}/{name}", failed.get(name, ""))
            again = {(namespace, name) for name in failed if self._has_traffic((namespace, name))}
            if again:
                self._waking.setdefault(namespace, set()).update(again)
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)

    def _has_traffic(self, name: NamespacedName) -> bool:
        activation = self._activations.get(name)
        return activation is not None and activation.has_traffic


def _quietly(soon: Callable[..., object], *what: Any) -> None:
    """Hand something to the event loop, where that still runs."""
    try:
        soon(*what)
    except RuntimeError:
        return
