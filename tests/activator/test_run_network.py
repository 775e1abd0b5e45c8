"""A run beside an activator on a real kube-proxy: no connection is refused, whenever it comes."""

from __future__ import annotations

import os
import socket
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.activator.in_cluster import ActivatorProcess, our_slices
from tests.activator.live_services import PATIENCE, LiveServices, accepts, ask, is_consistent, run
from tests.real.cluster import deployment_path, wait_until

pytestmark = pytest.mark.soak


class Load:
    """Clients that connect one after the other, `at_once` of them, until the `with` block ends."""

    def __init__(self, address: str, at_once: int = 4) -> None:
        self.errors: list[str] = []
        self.answers = 0
        self._address = address
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(at_once)]

    def _ask(self) -> None:
        while not self._done.wait(0.02):
            try:
                said = ask(self._address)
            except OSError as error:
                self.errors.append(f"{time.monotonic() - self.began:.2f} s: {error!r}")
                continue
            self.answers += said.endswith(" hello\n")
            if not said.endswith(" hello\n"):
                self.errors.append(f"answered {said!r}")

    def __enter__(self) -> Load:
        wait_until(lambda: accepts(self._address), "the proxy to know the Service")
        self.began = time.monotonic()
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for one in self._threads:
            one.join(PATIENCE)


def test_under_load_no_connection_is_refused_and_nothing_sleeps_with_a_signal(
    services: LiveServices, activators
) -> None:
    activators()
    address = services.open("web")
    with Load(address) as load:
        time.sleep(1)
        said = run(services)
        ended = time.monotonic() - load.began
        assert said.code in (0, 6), said.out + said.err
        time.sleep(5)
    print(f"the run from 1 to {ended:.1f} s: {said.out}{said.err}")
    print(f"{load.answers} answered, errors {load.errors}, the run: {said.code}")
    assert (load.errors, load.answers > 50) == ([], True)
    assert is_consistent(services)
    assert ask(address).startswith("web-")


def test_connections_that_do_not_signal_are_all_answered_once_it_wakes(services: LiveServices, activators) -> None:
    """From one second before a run to five after: what pods accept they answer, the rest waits for the wake."""
    activators("--held-per-service", "2000", "--hold-timeout", "120")
    address = services.open("web")
    annotate = {"metadata": {"annotations": {"reconciler/wake-ports": "none"}}}
    services.api.patch(f"/api/v1/namespaces/{services.namespace}/services/web", annotate)
    done = threading.Event()
    wait_until(lambda: accepts(address), "the proxy to know the Service")
    with ThreadPoolExecutor(1500) as clients:
        asked = []

        def load() -> None:
            while not done.wait(0.05):
                asked.append(clients.submit(ask, address, b"%d" % len(asked)))

        loading = threading.Thread(target=load, daemon=True)
        loading.start()
        time.sleep(1)
        said = run(services)
        time.sleep(5)
        done.set()
        loading.join(PATIENCE)
        assert said.code == 0, said.out + said.err
        assert services.replicas("web") == 0
        held = sum(not one.done() for one in asked)
        object_name = f"member/{services.namespace}/Service/web"
        folder = str(services.folder.path)
        woken = services.folder.call(
            "wake", object_name, "--policies", "policies", "--auto-approve", "--credentials-dir", folder
        )
        assert woken.code == 0, woken.out + woken.err
        answers = [one.result() for one in asked]
    print(f"{len(asked)} connections, {held} of them held when the run was over")
    assert [one.split()[1] for one in answers] == [str(number) for number in range(len(answers))]
    assert held > 0


def first_answer(address: str) -> float:
    """Seconds until the Service answers, asked again as soon as it refuses."""
    began = time.monotonic()
    while True:
        try:
            ask(address)
            return time.monotonic() - began
        except OSError:
            time.sleep(0.002)


@pytest.mark.bench
def test_the_first_byte_comes_at_most_200_ms_after_that_of_a_bare_scale_up(services: LiveServices, activators) -> None:
    woken, bare = [], []
    for _ in range(5):
        activator = activators()
        address = services.open("web")
        services.idle("web")
        woken.append(first_answer(address))
        activator.terminate()
        path = deployment_path(services.namespace, "web")
        services.api.patch(path, {"spec": {"replicas": 0}})
        wait_until(lambda: not services.api.items(f"/api/v1/namespaces/{services.namespace}/pods"), "no pods")
        wait_until(lambda address=address: not accepts(address), "nothing to accept")
        began = time.monotonic()
        services.api.patch(path, {"spec": {"replicas": 1}})
        bare.append(time.monotonic() - began + first_answer(address))
        services.api.delete(path)
        services.api.delete(f"/api/v1/namespaces/{services.namespace}/services/web")
        wait_until(lambda: not services.api.items(f"/api/v1/namespaces/{services.namespace}/pods"), "no pods")
    print(f"woken {[round(one, 3) for one in woken]} s, bare {[round(one, 3) for one in bare]} s")
    assert statistics.median(woken) - statistics.median(bare) <= 0.2


def memory(activator: ActivatorProcess) -> int:
    """Its resident memory in MiB."""
    with open(f"/proc/{activator.process.id}/status") as status:
        [line] = [line for line in status if line.startswith("VmRSS:")]
    return int(line.split()[1]) // 1024


def test_random_bytes_half_open_and_slow_clients_take_bounded_memory_and_others_are_served(
    services: LiveServices, activators
) -> None:
    activator = activators("--held-per-service", "500", "--hold-timeout", "30")
    address = services.open("web")
    other = services.open("other")
    services.idle("web", "other")
    stop = {"metadata": {"annotations": {"reconciler/wake-ports": "none"}}}
    services.api.patch(f"/api/v1/namespaces/{services.namespace}/services/web", stop)
    before = memory(activator)
    clients = []
    for number in range(1500):
        client = socket.create_connection((address, 80), timeout=PATIENCE)
        client.setblocking(False)
        with_bytes = (b"", b"G", os.urandom(4096))[number % 3]
        if with_bytes:
            client.send(with_bytes)
        clients.append(client)
    wait_until(lambda: activator.metric("held") <= 500, "the limit")
    print(f"1,500 odd connections: {before} -> {memory(activator)} MiB, {activator.metric('held'):.0f} held")
    assert ask(other).startswith("other-")
    assert memory(activator) - before < 64
    for client in clients:
        client.close()
    wait_until(lambda: activator.metric("held") == 0, "their end")
    assert our_slices(services.api, services.namespace)
