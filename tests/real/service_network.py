"""A cluster whose Services lead somewhere: a control plane, kube-proxy, a stand-in kubelet whose pods are processes.

    def test_one(service_network):
        network = service_network
        create(network.api, [a_deployment("web", 1), a_service("web")], "shop")
        wait_for_ready(network.api, "shop", "web", 1)
        address = network.cluster_ip("shop", "web")     # connect to (address, 80)

All of it, the test included, is in one network namespace. Each pod listens on 198.18.1.N:8080 and
[fd00:198:18:1::N]:8080, TCP and UDP. Services have IPv4 unless they say IPv6, or both.
"""

from __future__ import annotations

import itertools
import socket
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.real import network_namespace
from tests.real.api import APPLY_PATCH, ApiError, Object
from tests.real.binaries import binary
from tests.real.cluster import create, wait_until
from tests.real.control_plane import CONTROLLERS, SCHEDULER, ControlPlane
from tests.real.kubeconfig import write_kubeconfig
from tests.real.network_namespace import NamespaceMissingError
from tests.real.objects import a_deployment, an_object
from tests.real.processes import Process, StartError, answers, free_port

POD_PORT = 8080
SERVICE_ADDRESSES = "10.0.0.0/16,fd00:10:96::/112"
NODE_NAME = "node-1"

_SERVER = Path(__file__).with_name("pod_server.py")
_DELAY = "test/listens-after"
_NEVER_READY = "test/never-ready"


class ServiceNetwork:
    """The control plane and what makes its Services work; the calling thread must be in the namespace."""

    def __init__(self, folder: Path) -> None:
        flags = (f"--service-cluster-ip-range={SERVICE_ADDRESSES}",)
        self.plane = ControlPlane(folder, {CONTROLLERS, SCHEDULER}, flags)
        self._proxy: Process | None = None
        self._kubelet: Kubelet | None = None
        self._hosts = itertools.count(200)

    @property
    def api(self) -> Any:
        return self.plane.api

    def start(self) -> None:
        """Start all of it."""
        self.plane.start()
        try:
            self.api.create("/api/v1/nodes", _node())
            own = (network_namespace.NODE, network_namespace.NODE_V6)
            addresses = [{"type": "InternalIP", "address": address} for address in own]
            status = {"addresses": addresses, **_ready_node()}
            self.api.patch(f"/api/v1/nodes/{NODE_NAME}/status", {"status": status})
            self._start_proxy()
            self._kubelet = Kubelet(self.plane)
            self._kubelet.start()
            self._create_probe()
        except BaseException:
            self.stop()
            raise

    def problem(self) -> str:
        """Why no Service leads anywhere here, "" where they do: not every kernel has all of nftables."""
        assert self._proxy is not None
        address = (self.cluster_ip("default", "probe"), 80)

        def leads() -> bool:
            try:
                socket.create_connection(address, timeout=5).close()
            except OSError:
                return False
            return True

        try:
            wait_until(leads, "a connection to a Service")
        except TimeoutError as error:
            return self._proxy.said(str(error))
        return ""

    def _create_probe(self) -> None:
        """A Service with a pod, as any test makes them."""
        spec = {"selector": {"app": "probe"}, "ports": [{"port": 80, "targetPort": POD_PORT}]}
        pod = a_deployment("probe", 1)
        create(self.api, [an_object("v1", "Service", "probe", spec=spec), pod], "default")

    def stop(self) -> None:
        """End all processes."""
        if self._kubelet is not None:
            self._kubelet.stop()
        if self._proxy is not None:
            self._proxy.stop()
        self.plane.stop()

    def cluster_ip(self, namespace: str, name: str) -> str:
        """The address of a Service."""
        return self.api.get(f"/api/v1/namespaces/{namespace}/services/{name}")["spec"]["clusterIP"]

    def new_addresses(self) -> list[str]:
        """Addresses, one of each family, for a process that stands in for a pod, such as an activator."""
        number = next(self._hosts)
        addresses = [f"198.18.2.{number}", f"fd00:198:18:2::{number:x}"]
        for address in addresses:
            network_namespace.add_address(address)
        return addresses

    def _start_proxy(self) -> None:
        kubeconfig = write_kubeconfig(self.plane.folder / "proxy.yaml", {"proxy": self.plane.access()})
        port = free_port()
        arguments = [
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NODE_NAME}",
            "--proxy-mode=nftables",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            f"--healthz-bind-address=127.0.0.1:{port}",
            "--metrics-bind-address=",
        ]
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self._proxy = Process(binary("kube-proxy"), arguments, self.plane.logs / "kube-proxy.log", environment)
        url = f"http://127.0.0.1:{port}/healthz"
        try:
            self._proxy.wait_until(lambda: answers(url), f"health at {url}")
        except StartError as error:
            raise NamespaceMissingError(f"kube-proxy cannot work here: {error}") from error


class Kubelet:
    """Starts a process on an address of its own for each pod that is scheduled, and tells when it is ready.

    The annotation `test/listens-after` makes one without a readiness probe, which listens so many seconds later;
    `test/never-ready` one that never gets ready.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._pods: dict[str, tuple[Process, list[str]]] = {}
        self._beats_at = 0.0
        self._untold: set[str] = set()
        self._numbers = itertools.count(1)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join(60)
        for process, _ in self._pods.values():
            process.stop()

    def _run(self) -> None:
        while not self._done.wait(0.05):
            try:
                self._beat()
                for pod in self._plane.api.items("/api/v1/pods"):
                    self._look_at(pod)
            except Exception as error:  # noqa: BLE001 - the API server may be away in a test
                print(f"kubelet: {error}", file=sys.stderr)

    def _beat(self) -> None:
        """Renew the Lease of the node, and say that it is ready.

        Without the Lease it counts as gone after less than a minute, as after an outage of the API server that takes
        longer; a Lease alone does not bring it back, and no pod is scheduled there.
        """
        now = time.monotonic()
        if now < self._beats_at:
            return
        self._beats_at = now + 5
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": NODE_NAME, "leaseDurationSeconds": 40, "renewTime": at}
        lease = an_object("coordination.k8s.io/v1", "Lease", NODE_NAME, spec=spec)
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE_NAME}"
        self._plane.api.patch(path, lease, APPLY_PATCH, fieldManager="kubelet", force="true")
        self._plane.api.patch(f"/api/v1/nodes/{NODE_NAME}/status", {"status": _ready_node()})

    def _look_at(self, pod: Object) -> None:
        uid, metadata = pod["metadata"]["uid"], pod["metadata"]
        if pod["spec"].get("nodeName") != NODE_NAME:
            return
        if "deletionTimestamp" in metadata:
            self._end(pod)
        elif uid not in self._pods:
            self._start_pod(pod)
        elif uid in self._untold:
            self._probe(pod)

    def _start_pod(self, pod: Object) -> None:
        number = next(self._numbers)
        first = f"198.18.1.{number}" if number < 256 else f"198.18.{2 + number // 256}.{number % 256}"
        addresses = [first, f"fd00:198:18:1::{number:x}"]
        for address in addresses:
            network_namespace.add_address(address)
        metadata = pod["metadata"]
        annotations = metadata.get("annotations", {})
        arguments = ["-I", "-S", str(_SERVER), ",".join(addresses), str(POD_PORT), metadata["name"]]
        arguments.append(annotations.get(_DELAY, "0"))
        log = self._plane.logs / "pods" / f"{metadata['name']}.log"
        self._pods[metadata["uid"]] = (Process(Path(sys.executable), arguments, log), addresses)
        self._untold.add(metadata["uid"])  # first: the API server may be away before it is told
        self._tell(pod, addresses, ready=_DELAY in annotations)

    def _probe(self, pod: Object) -> None:
        """Tell that a pod is ready once it accepts connections, as its readiness probe would."""
        metadata = pod["metadata"]
        _, addresses = self._pods[metadata["uid"]]
        annotations = metadata.get("annotations", {})
        if _DELAY not in annotations and _NEVER_READY not in annotations and not _accept(addresses):
            return
        self._tell(pod, addresses, ready=_DELAY in annotations or _NEVER_READY not in annotations)
        self._untold.discard(metadata["uid"])

    def _tell(self, pod: Object, addresses: list[str], *, ready: bool) -> None:
        state = "True" if ready else "False"
        conditions = [{"type": kind, "status": state} for kind in ("Ready", "ContainersReady")]
        status = {
            "phase": "Running",
            "podIP": addresses[0],
            "podIPs": [{"ip": address} for address in addresses],
            "hostIP": network_namespace.NODE,
            "conditions": [*conditions, {"type": "PodScheduled", "status": "True"}],
        }
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
        self._plane.api.patch(path, {"status": status}, "application/strategic-merge-patch+json")

    def _end(self, pod: Object) -> None:
        """End the process once it had its time, then the pod is gone."""
        process, addresses = self._pods.get(pod["metadata"]["uid"], (None, []))
        if process is not None and process.alive:
            process.terminate_once()
            return
        if process is not None:
            del self._pods[pod["metadata"]["uid"]]
            self._untold.discard(pod["metadata"]["uid"])
            for address in addresses:
                network_namespace.remove_address(address)
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        try:
            self._plane.api.delete(path, gracePeriodSeconds="0")
        except ApiError as error:
            if error.status != 404:
                raise


def _accept(addresses: list[str]) -> bool:
    """Whether a pod accepts connections at all of its addresses."""
    try:
        for address in addresses:
            socket.create_connection((address, POD_PORT), timeout=5).close()
    except OSError:
        return False
    return True


def _node() -> Object:
    return an_object("v1", "Node", NODE_NAME, status=_ready_node())


def _ready_node() -> Object:
    room = {"cpu": "10k", "memory": "10Ti", "pods": "10000"}
    return {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
