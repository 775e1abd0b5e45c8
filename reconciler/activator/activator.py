"""The activator of one cluster: watches Services and pods, publishes EndpointSlices, holds connections, wakes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from reconciler.activator.activation import NO_ENDPOINTS, Activation, ObservedService
from reconciler.activator.activation_context import ActivatorContext, ActivatorMetrics
from reconciler.activator.background import BackgroundTasks, pauses
from reconciler.activator.connection_limits import ActivatorSettings
from reconciler.activator.objects import (
    WATCHED_NETWORK_POLICIES,
    WATCHED_SERVICES,
    WATCHED_SLICES,
    NamespacedName,
    WatchedObjects,
    WatchedService,
    addresses_by_family,
    endpoints_of,
    is_restricted,
)
from reconciler.activator.pod_addresses import PodAddresses
from reconciler.activator.publication import RENEW_SECONDS, Publication, SlicePublisher
from reconciler.activator.wake import WakeQueue, Waker
from reconciler.activator.wake_ports import wake_ports_problem
from reconciler.apply.waits import PROXIES_LEARN_SECONDS
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.watch import Watch, WatchHandlers
from reconciler.errors import ReconcilerError, reason_of
from reconciler.report.metrics import open_metrics_text
from reconciler.time_limit import TimeLimit

_SWEEP_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_WRITERS = 16
_LOOPS = ("renew", "sweep", "look")

T = TypeVar("T")


@dataclass(eq=False)
class Activator:
    """Runs in one event loop; only requests to the API server run in threads. `tell` says a line.

    The time limit of `client` is cut at the end.
    """

    client: ApiClient
    waker: Waker
    publication: Publication
    settings: ActivatorSettings
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self.pod = self.publication.pod
        self.metrics = ActivatorMetrics()
        self._tasks = BackgroundTasks(self.tell)
        self.unexpected = self._tasks.unexpected
        self._activations: dict[NamespacedName, Activation] = {}
        self._services = WatchedObjects(WATCHED_SERVICES, self._name_if_kept)
        self._slices = WatchedObjects(WATCHED_SLICES, lambda watched: watched.service if watched.service[1] else None)
        self._policies = WatchedObjects(WATCHED_NETWORK_POLICIES, lambda policy: policy.name[0])
        self._watched: tuple[WatchedObjects[Any, Any], ...] = (self._services, self._slices, self._policies)
        self._unsynced = {objects.resource.plural for objects in self._watched}
        self._pods = PodAddresses(self.client, self._tasks.failed)
        self._wakes = WakeQueue(self.waker, self.metrics, self._tasks, self._activations)
        self._context = ActivatorContext(
            pod=self.pod,
            settings=self.settings,
            metrics=self.metrics,
            signal=self._wakes.add,
            changed=self._publish,
            is_pods=self._pods.has,
        )
        self._threads = ThreadPoolExecutor(_WRITERS, thread_name_prefix="activator")
        self._publisher = SlicePublisher(self.publication, self._tasks, self._threads)
        self._renewals = ThreadPoolExecutor(1, thread_name_prefix="renewal")
        self._watches: list[threading.Thread] = []

    async def run(self, until: asyncio.Event) -> None:
        """Return when `until` is set, and everything has ended orderly."""
        self._loop = asyncio.get_running_loop()
        self._tasks.start("begin", self._begin)
        await until.wait()
        await self._end()

    def health(self) -> tuple[int, str]:
        """Return whether the event loop, and all that has to go on in it and beside it, still runs."""
        if self._tasks.is_ending or "begin" in self._tasks.running:
            return 200, "ok\n"
        ended = [f"{loop} has ended" for loop in _LOOPS if loop not in self._tasks.running]
        ended += [f"the {watch.name} has ended" for watch in self._watches if not watch.is_alive()]
        return (503, "; ".join(ended) + "\n") if ended else (200, "ok\n")

    def readiness(self) -> tuple[int, str]:
        """Return whether everything is watched, and the others know that this one lives."""
        missing = [f"{name} not listed yet" for name in sorted(self._unsynced)]
        if not self.publication.is_fresh:
            missing.append("the Lease is not fresh")
        needed = ("begin", "Lease", *(objects.resource.plural for objects in self._watched))
        missing += [why for what, why in self._tasks.problems.items() if what in needed]
        return (503, "; ".join(missing) + "\n") if missing else (200, "ok\n")

    def metrics_text(self) -> tuple[int, str]:
        """Return all metrics."""
        gauges = self.metrics.gauges
        gauges["listening"] = len(self._activations)
        gauges["held"] = len(self._context.held)
        gauges["spliced"] = len(self._context.spliced)
        return 200, open_metrics_text(self.metrics.families())

    # beginning and end

    async def _begin(self) -> None:
        """Delete what a former process of this Pod left, renew the Lease of this one, then watch."""
        withdraw = partial(self.publication.withdraw_all, self.pod.uid)
        await self._tasks.until_done("begin", partial(self._in_thread, withdraw))
        again, thread = self._tasks.again, self._in_thread
        renew = partial(thread, self.publication.renew, self._renewals)
        self._tasks.start("renew", partial(again, "Lease", RENEW_SECONDS, renew))
        self._tasks.start("sweep", partial(again, "slices of others", _SWEEP_SECONDS, partial(thread, self._sweep)))
        self._tasks.start("look", partial(again, "look", _LOOK_SECONDS, self._review_activations))
        for objects in self._watched:
            self._watch(objects)

    async def _end(self) -> None:
        """The Lease and the slices first, then no new connections, then as long as there may be spliced ones."""
        self._tasks.is_ending = True
        limit = TimeLimit(self.settings.grace)
        for key in ("begin", *_LOOPS):
            task = self._tasks.running.pop(key, None)
            if task is not None:
                task.cancel()
        first = TimeLimit(max(1.0, self.settings.grace / 2))
        withdraw = self._in_thread(partial(self._withdraw, first), self._renewals)
        try:  # behind a renewal that is under way
            await asyncio.wait_for(withdraw, first.left())
        except Exception as error:  # noqa: BLE001 - such as no thread to do it in: what follows is to end all the same
            self.tell(f"warning: the slices could not be deleted: {reason_of(error)}; the others do that")
        await asyncio.sleep(min(PROXIES_LEARN_SECONDS, self.settings.grace))
        for activation in self._activations.values():
            activation.close()
        while not limit.over and any(
            activation.held or activation.spliced for activation in self._activations.values()
        ):
            await asyncio.sleep(0.1)
        for activation in self._activations.values():
            activation.end("stopped")
        self.client.limit.cut("the activator ends")
        for task in self._tasks.running.values():
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)  # also where the Lease could not be written
        self._wakes.end()
        self._pods.end()
        self._renewals.shutdown(wait=False, cancel_futures=True)

    def _withdraw(self, limit: TimeLimit) -> None:
        """Take everything back that leads clients here; what is under way may write one more slice first.

        The slices go whatever becomes of the Lease, and what fails is tried again, within `limit`.

        Raises:
            ReconcilerError: the last attempt failed.
        """
        for pause in pauses():
            try:
                with suppress(ReconcilerError):  # where it cannot be written, it expires soon, by itself
                    self.publication.expire()
                self._threads.shutdown(cancel_futures=True)
                self.publication.end()
                return
            except ReconcilerError:
                if not limit.wait(pause):
                    raise

    async def _in_thread(self, work: Callable[[], T], threads: ThreadPoolExecutor | None = None) -> T:
        return await self._loop.run_in_executor(threads or self._threads, work)

    def _sweep(self) -> None:
        """Delete what activators left that died."""
        if not self.publication.may_judge:
            return
        uids = {watched.pod_uid for watched in self._slices if watched.pod_uid}
        for uid in self.publication.withdraw_dead(uids):
            self.tell(f"the activator in the Pod with uid {uid} is gone: its slices were deleted")

    async def _review_activations(self) -> None:
        """Forget what is over; slices also go when a time is up, and others may have given up ports."""
        self._refresh([name for name, activation in self._activations.items() if activation.lacks_listeners])
        self._find_strays()
        for name, activation in tuple(self._activations.items()):
            self._publisher.publish(activation)
            if activation.is_over:
                activation.close()
                del self._activations[name]
                for what in ("slices", "wake"):
                    self._tasks.problems.pop((what, name), None)

    def _find_strays(self) -> None:
        """Delete our EndpointSlices that nothing needs any more: the answer to an earlier write may have been lost."""
        for watched in self._slices:
            if watched.pod_uid != self.pod.uid or self._tasks.is_ending:
                continue
            activation, (namespace, name) = self._activations.get(watched.service), watched.name
            if activation is not None:
                activation.published.setdefault(name, {})
            else:
                self._publisher.withdraw(namespace, name)

    # what is watched

    def _watch(self, objects: WatchedObjects[Any, Any]) -> None:
        soon, plural = self._loop.call_soon_threadsafe, objects.resource.plural
        handlers: WatchHandlers[Any] = WatchHandlers(
            replaced=lambda listed: _quietly(soon, self._objects_listed, objects, listed),
            changed=lambda name, changed: _quietly(soon, self._object_changed, objects, name, changed),
            failed=lambda why: _quietly(soon, self._tasks.failed, plural, why),
        )
        follow = partial(Watch(objects.resource, self.client, handlers).follow, self.client.limit)
        thread = threading.Thread(target=follow, name=f"watch of {plural}", daemon=True)
        self._watches.append(thread)
        thread.start()

    def _objects_listed(self, objects: WatchedObjects[Any, Any], listed: list[Any]) -> None:
        """Take in a list of all objects of a resource."""
        names = self._services.keys() | self._activations.keys()
        objects.replace(listed)
        self._unsynced.discard(objects.resource.plural)
        for name, activation in self._activations.items() if objects is self._slices else ():
            for gone in activation.published.keys() - {watched.name[1] for watched in self._slices.of(name)}:
                del activation.published[gone]
        if not self._unsynced:
            self._refresh(names | self._services.keys())

    def _object_changed(self, objects: WatchedObjects[Any, Any], name: NamespacedName, changed: Any | None) -> None:
        """Take in a change of one object, None: it is gone."""
        keys = objects.change(name, changed)
        if objects is self._policies:
            keys = {service for service in self._activations if service[0] in keys}
        if objects is self._slices and changed is None:
            for activation in [self._activations[key] for key in keys if key in self._activations]:
                if activation.published.pop(name[1], None) is not None:
                    self._publisher.publish(activation)  # somebody took us for dead
        if not self._unsynced:
            self._refresh(keys)

    def _name_if_kept(self, service: WatchedService) -> NamespacedName | None:
        """Return the name of a Service that is idle, or was a moment ago: of the others nothing is kept."""
        return service.name if service.record is not None or service.name in self._activations else None

    def _refresh(self, names: Iterable[NamespacedName]) -> None:
        """Let the activations of `names` see how their Services are now; new ones begin for those that became idle."""
        for name in names:
            service = next(iter(self._services.of(name)), None)
            activation = self._activations.get(name)
            if service is None:
                for what in ("holding", "wake ports"):
                    self._tasks.problems.pop((what, name), None)
            if activation is None:
                if service is None or service.record is None or self._tasks.is_ending:
                    continue
                if service.problem:
                    self._tell_unheld(service)
                    continue
                activation = self._activations[name] = Activation(name, self._context)
            self._observe(activation, service)

    def _observe(self, activation: Activation, service: WatchedService | None) -> None:
        slices = self._slices.of(activation.name)
        policies = self._policies.of(activation.name[0])
        backends = endpoints_of(slices) if slices else NO_ENDPOINTS
        restricted = service is not None and (
            self.settings.never_splices or backends.name_no_pods or is_restricted(service, policies)
        )
        try:
            activation.observe(ObservedService(service, backends, restricted))
        except (ReconcilerError, OSError) as error:
            words = f"{'/'.join(activation.name)}: it is not held: {reason_of(error)}"
            self._tasks.failed(("holding", activation.name), words, "error")
        else:
            if service is not None:
                self._tell_unheld(service)
        if service is not None:
            self._tell_problem(service, "wake ports", "WakePortsUnknown", wake_ports_problem(service))

    def _tell_unheld(self, service: WatchedService) -> None:
        """Report why connections to an idle Service are not held, or only some of them, or take in that all are."""
        why, over = service.problem, ""
        missing = [family for family, own in addresses_by_family(service, self.pod.addresses).items() if own is None]
        if missing and not why:
            why, over = "this activator has no such address", f" over {' and '.join(missing)}"
        words = f"connections{over} cannot be held while it is idle: {why}; it is woken in all other ways"
        is_told = why and service.record is not None
        self._tell_problem(service, "holding", "ConnectionsNotHeld", words if is_told else "")

    def _tell_problem(self, service: WatchedService, about: str, reason: str, words: str) -> None:
        """Report once, also with an Event of that reason, a problem of an idle Service, or take in that it is over."""
        if self._tasks.failed((about, service.name), words and f"{'/'.join(service.name)}: {words}"):
            tell = partial(self.waker.tell_problem, service.name, service.metadata.uid or "", (reason, words))
            self._tasks.start(("event", service.name, words), partial(self._in_thread, tell))

    def _publish(self, name: NamespacedName) -> None:
        if name in self._activations:
            self._publisher.publish(self._activations[name])


def _quietly(soon: Callable[..., object], *what: Any) -> None:
    """Hand something to the event loop, where that still runs."""
    with suppress(RuntimeError):
        soon(*what)
