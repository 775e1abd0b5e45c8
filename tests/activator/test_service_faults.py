"""What goes wrong on a real kube-proxy while clients wait: they are reset in time, and the next one is served."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.model import Write
from tests.activator.in_cluster import our_slices
from tests.activator.live_services import (
    IDLED_AT,
    PATIENCE,
    LiveServices,
    accepts,
    answers,
    ask,
    is_consistent,
    run,
    service_of,
)
from tests.real import faults
from tests.real.api import ApiError
from tests.real.cluster import create, deployment_path, scale, wait_until
from tests.real.objects import a_deployment, an_object
from tests.real.proxy import Proxy, Request
from tests.real.service_network import POD_PORT

pytestmark = pytest.mark.soak

HOLD = ("--hold-timeout", "5")


def pods(services: LiveServices) -> list[dict[str, Any]]:
    return services.api.items(f"/api/v1/namespaces/{services.namespace}/pods")


def never_ready(services: LiveServices, value: str | None) -> None:
    """Have the next pods of web never get ready, or get ready again."""
    template = {"metadata": {"annotations": {"test/never-ready": value}}}
    services.api.patch(deployment_path(services.namespace, "web"), {"spec": {"template": template}})


def test_where_a_quota_refuses_the_pods_clients_are_reset_and_served_once_it_is_gone(
    services: LiveServices, activators
) -> None:
    activator = activators(*HOLD)
    address = services.open("web")
    services.idle("web")
    quota = f"/api/v1/namespaces/{services.namespace}/resourcequotas/none"
    create(services.api, [an_object("v1", "ResourceQuota", "none", spec={"hard": {"pods": "0"}})], services.namespace)
    wait_until(lambda: "hard" in services.api.get(quota).get("status", {}), "the quota to be in force")
    with pytest.raises(ConnectionResetError):
        ask(address)
    wait_until(lambda: services.replicas("web") == 1, "the wake")
    assert (pods(services), activator.metric("held")) == ([], 0)
    services.api.delete(quota)
    wait_until(lambda: answers(address), "an answer, now that pods may come", 300)
    wait_until(lambda: not our_slices(services.api, services.namespace), "the slices to go")
    assert services.need_pods() == ["web"]


@pytest.mark.parametrize("woken", [False, True], ids=["before the wake", "while its client waits"])
def test_where_what_is_behind_is_deleted_clients_are_reset_and_served_once_it_is_back(
    services: LiveServices, activators, woken: bool
) -> None:
    activator = activators(*HOLD)
    address = services.open("web")
    services.idle("web")
    path = deployment_path(services.namespace, "web")
    if woken:
        never_ready(services, "true")
    else:
        services.api.delete(path)
    with ThreadPoolExecutor(1) as clients:
        asked = clients.submit(ask, address)
        if woken:
            wait_until(lambda: services.replicas("web") == 1, "the wake")
            services.api.delete(path)
        with pytest.raises(ConnectionResetError):
            asked.result(PATIENCE)
    assert activator.metric("held") == 0
    wait_until(lambda: not pods(services), "no pods")
    create(services.api, [a_deployment("web", 1)], services.namespace)
    wait_until(lambda: answers(address), "an answer, now that it is back")


def test_where_the_service_is_deleted_its_clients_are_reset_and_no_slice_stays(
    services: LiveServices, activators
) -> None:
    activator = activators()
    address = services.open("web")
    services.idle("web")
    never_ready(services, "true")
    with ThreadPoolExecutor(1) as clients:
        asked = clients.submit(ask, address)
        wait_until(lambda: services.replicas("web") == 1, "the wake")
        services.api.delete(f"/api/v1/namespaces/{services.namespace}/services/web")
        with pytest.raises(ConnectionResetError):
            asked.result(PATIENCE)
    wait_until(lambda: not our_slices(services.api, services.namespace), "no slices")
    assert activator.metric("held") == 0


def is_watch(request: Request) -> bool:
    return "watch" in request.query


FAULTS = {
    "cut": lambda proxy: proxy.rule(faults.refuse(), times=None),
    "410": lambda proxy: proxy.rule(faults.rewritten("resourceVersion=[0-9]+", "resourceVersion=1"), 1, is_watch, None),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_after_a_lost_watch_no_service_is_missed_and_no_slice_stays(
    services: LiveServices, activators, tmp_path: Path, kind: str
) -> None:
    """Behind its back one Service is woken, and another one idled. "410": the API server forgot what changed."""
    plane = services.network.plane
    with Proxy(plane.access(), tmp_path / "proxy") as proxy:
        activators(through=proxy)
        wakes = services.open("wakes")
        services.idle("wakes")
        sleeps = services.open("sleeps")
        if kind == "410":
            plane.forget_changes()
            assert watched_from(services, "1") == 410
        fault = FAULTS[kind](proxy)
        proxy.cut_all()
        wait_until(lambda: run(services).code == 0, "a run that idles the second Service", 600)
        assert services.replicas("sleeps") == 0
        wake_by_hand(services, "wakes")
        wait_until(lambda: pods(services) and pods(services)[-1].get("status", {}).get("podIP"), "a pod")
        if kind == "cut":
            proxy.rules.remove(fault)
        began = time.monotonic()
        wait_until(lambda: slices_by_service(services) == {"sleeps"}, "its own slices, and no others")
        print(f"{kind}: right again after {time.monotonic() - began:.1f} s")
        wait_until(lambda: accepts(sleeps), "kube-proxy to know it")
        assert ask(sleeps).startswith("sleeps-")
        assert ask(wakes).startswith("wakes-")


def wake_by_hand(services: LiveServices, name: str) -> None:
    folder = str(services.folder.path)
    flags = ("--policies", "policies", "--auto-approve", "--credentials-dir", folder)
    woken = services.folder.call("wake", f"member/{services.namespace}/Service/{name}", *flags)
    assert woken.code == 0, woken.out + woken.err
    assert IDLED_AT not in service_of(services, name)


def watched_from(services: LiveServices, version: str) -> int:
    """The status with which the API server answers a watch of Services from a version on, 200 where it goes on."""
    path = "/api/v1/services"
    try:
        found = services.api.request("GET", path, watch="true", resourceVersion=version, timeoutSeconds="5")
    except ApiError as error:
        return error.status
    status: int = found["object"]["code"] if found["type"] == "ERROR" else 200
    return status


def slices_by_service(services: LiveServices) -> set[str]:
    """The Services for which an activator has slices."""
    return {
        one["metadata"]["labels"]["kubernetes.io/service-name"] for one in our_slices(services.api, services.namespace)
    }


# Caveats of the seed. Source: seed idling-and-unidling.md, "Caveats".


def test_a_manual_scale_up_that_leaves_the_annotations_is_served_and_the_slices_go(
    services: LiveServices, activators
) -> None:
    activators()
    address = services.open("web")
    services.idle("web")
    scale(services.api, services.namespace, "web", 1)
    wait_until(lambda: not our_slices(services.api, services.namespace), "the slices to go although the mark stays")
    assert IDLED_AT in service_of(services)
    assert ask(address).startswith("web-")
    assert (services.need_pods(), services.replicas("web")) == ([], 1)
    run(services)
    assert is_consistent(services)


def test_a_connection_that_a_pod_accepts_while_it_shuts_down_is_served_and_wakes_nothing(
    services: LiveServices, activators
) -> None:
    activators()
    address = services.open("web")
    wait_until(lambda: accepts(address), "kube-proxy to know it")
    with socket.create_connection((address, 80), timeout=PATIENCE) as client, client.makefile("rb") as answer:
        client.sendall(b"before\n")
        assert answer.readline().endswith(b" before\n")
        wait_until(lambda: run(services).code == 0, "a run that idles it", 600)
        assert services.replicas("web") == 0
        assert answer.read() == b""  # the pod ends it when it is gone
    wait_until(lambda: not pods(services), "no pods")
    assert (services.need_pods(), services.replicas("web")) == ([], 0)
    wait_until(lambda: accepts(address), "an activator to accept")
    assert ask(address).startswith("web-")


@pytest.fixture
def before_writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], None]], None]]:
    """`before_writes(call)`: a run calls it before each of its writes."""
    original = KubernetesCluster.write

    def install(call: Callable[[], None]) -> None:
        def write(self: KubernetesCluster, wanted: Write) -> None:
            call()
            original(self, wanted)

        monkeypatch.setattr(KubernetesCluster, "write", write)

    yield install
    monkeypatch.setattr(KubernetesCluster, "write", original)


@pytest.mark.parametrize("at", range(4))
def test_connections_before_any_write_of_a_run_are_answered_and_those_the_activator_got_wake(
    services: LiveServices, activators, before_writes, at: int
) -> None:
    """Where the run has marked the Service, and not scaled yet, some come to pods, and some to the activator."""
    activator = activators()
    address = services.open("web")
    wait_until(lambda: accepts(address), "kube-proxy to know it")
    said: list[str] = []
    guard = threading.Lock()
    count = iter(range(1000))

    def connect() -> None:
        with guard:
            if next(count) == at:
                said.extend(ask(address) for _ in range(10))

    before_writes(connect)
    code = run(services).code
    assert all(answer.startswith("web-") for answer in said)
    assert is_consistent(services)
    got = activator.metric("connections_total")
    print(f"write {at}: {len(said)} connections, {got:.0f} of them at the activator, exit {code}")
    if got:
        wait_until(lambda: services.replicas("web") == 1, "the wake")
        assert "web" in services.need_pods()
    wait_until(lambda: answers(address), "an answer, whatever became of the run")


def test_traffic_between_discovery_and_idling_is_served_and_the_next_one_wakes(
    services: LiveServices, activators
) -> None:
    activators()
    address = services.open("web")
    wait_until(lambda: accepts(address), "kube-proxy to know it")
    flags = ("--credentials-dir", str(services.folder.path))

    def idled() -> bool:
        """A run that is stopped, or loses its lock, on a busy machine changes nothing: another plan is made."""
        services.folder.call("plan", "policies", "--out", "saved.json", *flags)
        assert ask(address).startswith("web-")
        assert services.need_pods() == []
        services.folder.call("apply", "saved.json", "--auto-approve", "--quiet", *flags)
        return services.replicas("web") == 0

    wait_until(idled, "a plan that is carried out", 600)
    wait_until(lambda: not pods(services), "no pods")
    wait_until(lambda: accepts(address), "an activator to accept")
    assert ask(address).startswith("web-")
    assert services.woken() == ["web"]


# An hour of checks and scrapes.


def check(address: str) -> None:
    """A load balancer's check: it connects, and leaves."""
    socket.create_connection((address, 80), timeout=PATIENCE).close()


def scrape(address: str, patience: float) -> None:
    """A scrape of metrics, which gives up after so many seconds."""
    with socket.create_connection((address, 9090), timeout=PATIENCE) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: web\r\n\r\n")
        client.settimeout(patience)
        with pytest.raises((TimeoutError, BlockingIOError, ConnectionResetError)):
            client.recv(1)


@pytest.mark.parametrize(
    ("seconds", "count", "patience"),
    [
        pytest.param(0, 3600, 0, id="as many as in ten hours, one after the other"),
        pytest.param(10, 61, 10, id="ten minutes, each ten seconds"),
    ],
)
def test_checks_and_scrapes_wake_nothing(
    services: LiveServices, activators, seconds: int, count: int, patience: float
) -> None:
    """No time limit of an activator but that of its slices (ten minutes) is longer than a minute."""
    activator = activators("--held-per-service", "1000")
    address = services.open("web")
    ports = [{"name": "http", "port": 80, "targetPort": POD_PORT}]
    ports.append({"name": "http-metrics", "port": 9090, "targetPort": POD_PORT})
    services.api.patch(f"/api/v1/namespaces/{services.namespace}/services/web", {"spec": {"ports": ports}})
    services.idle("web")
    began = time.monotonic()
    for number in range(count):
        check(address)
        scrape(address, patience)
        time.sleep(max(0.0, began + (number + 1) * seconds - time.monotonic()))
    print(f"{count} checks and scrapes in {time.monotonic() - began:.0f} s")
    assert (services.replicas("web"), services.need_pods(), services.woken()) == (0, [], [])
    assert activator.metric("connections_total") >= 2 * count
    wait_until(lambda: activator.metric("held") == 0, "their end")
    assert ask(address).startswith("web-")
