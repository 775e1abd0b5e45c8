"""An activator as a process beside a real control plane, with the rights of deploy/components/activator."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.live import deployed
from tests.pipeline.manifests import UNLIMITED, documents, fleet, idling
from tests.real.api import Api
from tests.real.cluster import create_missing
from tests.real.control_plane import API_ONLY, ControlPlane
from tests.real.kubeconfig import write_kubeconfig
from tests.real.network_namespace import NamespaceMissingError, add_address, network_namespace
from tests.real.objects import a_namespace, a_pod_template, manifests
from tests.real.processes import Process

COMPONENT = Path(__file__).resolve().parents[2] / "deploy" / "components" / "activator"
OWN = "reconciler"
HTTP_PORT = 8080
ACCOUNT = "reconciler-activator"


def always_idle(kubeconfig: Path, namespace: str) -> str:
    """Policies by which everything in one namespace of the cluster `member` is idle at all times."""
    member = f"{{name: member, connection: {{kubeconfig: {kubeconfig}}}}}"
    more = ("minAge: 0s", "minAwake: 0s", "limits: {workloads: 1000}")
    selector = f"namespaces: {{include: [{namespace}]}}, services: {{}}"
    return documents(
        fleet([member], UNLIMITED, name="test", home="member"),
        idling(selector, *more, name="sleep", downtime='"Mon-Sun 00:00-24:00"'),
    )


def deployed_values() -> dict[str, str]:
    """The variables to which its Deployment gives a value."""
    [made] = [one for one in manifests(COMPONENT / "deployment.yaml") if one["kind"] == "Deployment"]
    [container] = made["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def install(plane: ControlPlane) -> None:
    """Make the namespace, the rights of an activator, and the admission policies, which are in force then."""
    create_missing(plane.api, [a_namespace(OWN), *manifests(COMPONENT / "rights.yaml")])
    deployed.admit(plane.api, deployed.admission("member/admission", "components/activator"))


@contextlib.contextmanager
def plane_with_addresses(folder: Path, *addresses: str) -> Iterator[ControlPlane]:
    """An API server in a network namespace of its own, where these addresses are, with the rights of an activator."""
    with contextlib.ExitStack() as entered:
        try:
            entered.enter_context(network_namespace(with_nftables=False))
        except NamespaceMissingError as error:
            pytest.skip(str(error))
        made = entered.enter_context(ControlPlane(folder, API_ONLY))
        install(made)
        for address in addresses:
            add_address(address)
        yield made


def a_pod(plane: ControlPlane, namespace: str, name: str, addresses: Sequence[str], phase: str = "Running") -> None:
    """Make a Pod with these addresses, as a kubelet reports it; nothing runs in it."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {**a_pod_template(name)["spec"], "schedulerName": "nobody"}
    plane.api.create(pods, {"metadata": {"name": name}, "spec": spec})
    status = {"phase": phase, "podIP": addresses[0], "podIPs": [{"ip": address} for address in addresses]}
    plane.api.patch(f"{pods}/{name}/status", {"status": status})


def a_pod_of_ours(plane: ControlPlane, name: str, addresses: Sequence[str]) -> Mapping[str, Any]:
    """A new Pod of an activator, with these addresses; nothing runs in it."""
    pods = f"/api/v1/namespaces/{OWN}/pods"
    pod = {
        "metadata": {"name": name},
        "spec": {**a_pod_template("activator")["spec"], "serviceAccountName": ACCOUNT, "schedulerName": "nobody"},
    }
    if plane.api.find(f"{pods}/{name}") is not None:
        plane.api.delete(f"{pods}/{name}")
    plane.api.create(pods, pod)
    status = {"podIP": addresses[0], "podIPs": [{"ip": address} for address in addresses]}
    return plane.api.patch(f"{pods}/{name}/status", {"status": status})


class ActivatorProcess:
    """`reconciler activator` on `addresses`, where it listens for metrics and health too.

    `reach` says how it reaches the API server with a token; a test may set another one before it starts.
    """

    def __init__(self, plane: ControlPlane, addresses: Sequence[str], *flags: str, name: str = "activator-0") -> None:
        self.plane = plane
        self.reach = plane.access
        self.addresses = addresses
        self.name = name
        self.uid = ""  # until it starts
        self.descriptors: int | None = None  # how many it may have, None: as many as the tests
        self._flags = flags
        self._process: Process | None = None

    def start(self) -> ActivatorProcess:
        """Start it and wait until it is ready."""
        pod = a_pod_of_ours(self.plane, self.name, self.addresses)
        self.uid = pod["metadata"]["uid"]
        token = self.plane.service_account(OWN, ACCOUNT, pod=pod, seconds=4 * 3600)
        folder = self.plane.folder / "kubeconfigs"
        kubeconfig = write_kubeconfig(folder / f"{self.name}.yaml", {"member": self.reach(token)})
        arguments = ["-m", "reconciler", "activator", "--context", "member", "--pod-namespace", OWN]
        arguments += ["--pod-name", self.name, "--pod-uid", self.uid, "--pod-ips", ",".join(self.addresses)]
        arguments += self._flags
        environment = {"KUBECONFIG": str(kubeconfig), "RECONCILER_CREDENTIALS_DIR": str(folder), **deployed_values()}
        log = self.plane.logs / f"{self.name}.log"
        command = sys.executable
        if self.descriptors is not None:
            command, *arguments = "/bin/sh", "-c", f'ulimit -n {self.descriptors}; exec "$@"', "sh", command, *arguments
        self._process = Process(Path(command), arguments, log, environment)
        self._process.wait_until(lambda: self.get("/readyz")[0] == 200, "readiness")
        return self

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an answer; 0 where there is none."""
        with urllib3.PoolManager(timeout=60, retries=False) as pool:
            try:
                answer = pool.request("GET", f"http://{self.addresses[0]}:{HTTP_PORT}{path}")
            except urllib3.exceptions.HTTPError as error:
                return 0, str(error)
            return answer.status, answer.data.decode()

    def metric(self, name: str) -> float:
        """One metric without labels, by its name after `reconciler_activator_`."""
        text = self.get("/metrics")[1]
        found = re.search(rf"^reconciler_activator_{name} (\S+)$", text, re.M)
        assert found, text
        return float(found[1])

    def terminate(self) -> int:
        """Send SIGTERM; return with what it ended."""
        self.process.send(signal.SIGTERM)
        return self.process.ends_with()

    def stop(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.stop()


def our_slices(api: Api, namespace: str) -> list[Mapping[str, Any]]:
    """The EndpointSlices of activators in a namespace."""
    labels = "endpointslice.kubernetes.io/managed-by=activator.reconciler"
    return api.items(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", labelSelector=labels)
