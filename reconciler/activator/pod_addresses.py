"""Whether an address is that of a Pod, as the API server says. Whoever may write EndpointSlices names any address, and
an activator reaches what they may not: nodes, control planes, pods of other namespaces, itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from weakref import WeakValueDictionary

from msgspec import field

from reconciler.activator.objects import EndpointAddress
from reconciler.activator.wake import CLUSTER
from reconciler.backends.decode.values import Wire
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.pages import answer_to
from reconciler.backends.kubernetes.request_form import object_request
from reconciler.backends.protocols import PODS
from reconciler.errors import NotFoundError, reason_of
from reconciler.forbidden_addresses import Address, is_forbidden, is_loopback

_BELIEVED_SECONDS = 1.0
"""An address is another Pod's soon after this one is gone; so many connections to one Pod are one request."""

_FAILING_SECONDS = 60.0
"""For how long no read of a namespace may have failed until its failures are over: each Pod that fails is no news."""

_AT_ONCE = 16
_AT_ONCE_OF_A_NAMESPACE = 4

Addresses = frozenset[Address]


class _PodIP(Wire):
    ip: str = ""


class _PodIPs(Wire):
    phase: str | None = None
    pod_ips: list[_PodIP] | None = field(default=None, name="podIPs")


class _PodWithIPs(Wire):
    """Source: kubernetes/api core/v1 types.go, Pod."""

    status: _PodIPs = field(default_factory=_PodIPs)

    @property
    def addresses(self) -> Addresses:
        """Return its addresses, none of one that has ended: those may be another's by now."""
        if self.status.phase in ("Succeeded", "Failed"):
            return frozenset()
        return frozenset(ip_address(listed.ip) for listed in self.status.pod_ips or ())


def _outside(text: str) -> Address | None:
    """Return the address that `text` is, None where no Pod has such a one: link-local, a cloud's metadata, loopback."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if is_forbidden(address) or is_loopback(address) else address


class PodAddresses:
    """Asks the API server, through `client`; belongs to one event loop. `failed` gets what fails, once for a namespace,
    and why, "" once it does no more.
    """

    def __init__(self, client: ApiClient, failed: Callable[[str, str], object]) -> None:
        self._client = client
        self._failed = failed
        self._asked: dict[tuple[str, str], asyncio.Task[Addresses]] = {}
        self._failed_at: dict[str, float] = {}  # by namespace
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="pods")

    async def has(self, namespace: str, backend: EndpointAddress) -> bool:
        """Return whether the Pod that `backend` names is one of `namespace`, and has its address; False: or unknown."""
        address = _outside(backend.address)
        if address is None or not backend.pod:
            return False
        name, loop = (namespace, backend.pod), asyncio.get_running_loop()
        asked = self._asked.get(name)
        if asked is None:
            asked = self._asked[name] = loop.create_task(self._addresses(*name))
            asked.add_done_callback(lambda _: loop.call_later(_BELIEVED_SECONDS, self._asked.pop, name, None))
        return address in await asyncio.shield(asked)

    def end(self) -> None:
        """Ask no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _addresses(self, namespace: str, name: str) -> Addresses:
        turn = self._turns.setdefault(namespace, asyncio.Semaphore(_AT_ONCE_OF_A_NAMESPACE))
        async with turn:
            try:
                read = partial(self._read, namespace, name)
                found = await asyncio.get_running_loop().run_in_executor(self._threads, read)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
                self._report(namespace, reason_of(error))
                return frozenset()
        self._report(namespace, "")
        return found

    def _report(self, namespace: str, why: str) -> None:
        """Hand on the first failure of a namespace, then nothing until there was none for a while."""
        now = asyncio.get_running_loop().time()
        failed_at = self._failed_at.get(namespace)
        lately = failed_at is not None and now - failed_at < _FAILING_SECONDS
        if why:
            self._failed_at[namespace] = now
        elif failed_at is not None and not lately:
            del self._failed_at[namespace]
        if not lately and (why or failed_at is not None):
            self._failed(f"pods of {namespace}", why)

    def _read(self, namespace: str, name: str) -> Addresses:
        request = object_request(CLUSTER, "get", PODS.key, namespace, name, when="at once")  # for clients that wait
        try:
            return answer_to(self._client, request, _PodWithIPs).addresses
        except NotFoundError:
            return frozenset()
