"""Real control planes on loopback: etcd and kube-apiserver, and where wanted controllers, scheduler and KWOK's nodes.

How tests use it (the fixtures are in `fixtures.py` and known to all tests):

    def test_one(control_plane, namespace):     # everything runs; shared by the tests of a worker, three large nodes
        api = control_plane.api                 # a plain JSON client with all rights, see api.py
        web = a_deployment("web", replicas=3)   # objects.py; cluster.py creates and waits
        create(api, [web], namespace)
        wait_for_ready(api, namespace, "web", 3)

    def test_two(api_server, api_namespace):    # etcd and kube-apiserver only: ready sooner, nothing acts on objects
        kubeconfig = api_server.kubeconfig("east")                     # as admin; its only context is `east`
        token = api_server.service_account(api_namespace, "reader")    # RBAC is on: it may do nothing yet
        kubeconfig = api_server.kubeconfig("east", token=token)

    def test_three(control_planes):             # its own ones, started side by side, gone after the test
        east, west = control_planes(2)          # control_planes(2, parts=API_ONLY) for API servers only
        east.stop_api_server(); east.start_api_server()                # an outage: same address, same objects

`write_kubeconfig(path, {"east": east.access(), "west": west.access()})` makes one kubeconfig for several.
Where the binaries cannot be built such tests are skipped with the reason; under CI=true they fail.
"""

from __future__ import annotations

import base64
import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3

from tests.real import certificates
from tests.real.api import Api
from tests.real.binaries import binary
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.processes import READY_AFTER_AT_MOST, Process, answers, on_a_free_port, ready
from tests.real.tokens import ISSUER

CONTROLLERS, SCHEDULER, NODES = "controllers", "scheduler", "nodes"
API_ONLY: frozenset[str] = frozenset()
EVERYTHING = frozenset({CONTROLLERS, SCHEDULER, NODES})

STAGES = Path(__file__).with_name("stages.yaml")

_CONTROLLERS_THAT_RUN = (
    "deployment-controller,replicaset-controller,statefulset-controller,replicationcontroller-controller,"
    "daemonset-controller,endpointslice-controller,garbage-collector-controller,namespace-controller,"
    "horizontal-pod-autoscaler-controller,job-controller,cronjob-controller,resourcequota-controller,"
    "serviceaccount-controller,disruption-controller,node-lifecycle-controller,taint-eviction-controller,"
    "pod-garbage-collector-controller,validatingadmissionpolicy-status-controller"
)


_MADE_BY_ITSELF = (
    *(f"/api/v1/namespaces/{name}" for name in ("default", "kube-node-lease", "kube-public", "kube-system")),
    "/api/v1/namespaces/default/services/kubernetes",
)


class ControlPlane:
    """One control plane in a folder of its own, which must be fresh."""

    def __init__(
        self,
        folder: Path,
        parts: Collection[str] = EVERYTHING,
        flags: Sequence[str] = (),
        *,
        controller_flags: Sequence[str] = (),
        issuer: str = ISSUER,
    ) -> None:
        """`parts` run beside etcd and the API server; `flags` are added to those of the API server, and
        `controller_flags` to those of the controllers.

        `issuer` is that of its tokens of ServiceAccounts.
        """
        self._issuer = issuer
        self.folder = folder
        self.logs = folder / "logs"
        self.parts = frozenset(parts)
        self.admin_token = secrets.token_hex(16)
        self.ca_file = folder / "ca.crt"
        self._flags, self._controller_flags = tuple(flags), tuple(controller_flags)
        self._port = 0
        self._etcd_url = ""
        self._processes: list[Process] = []
        self._api_server: Process | None = None

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start all parts and wait until the API server is ready.

        Raises:
            StartError: a part ended or did not get ready.
            BinariesError: a part cannot be built.
        """
        _prepare(self.folder, self.admin_token)
        try:
            self._start_etcd()
            self._start_api_server_somewhere()
            self.api = Api(self.url, self.ca_file, self.admin_token)
            self._wait_for_what_it_makes_itself()
            self._start_the_rest()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all processes and drop their data; the logs stay."""
        for process in [*reversed(self._processes), *([self._api_server] if self._api_server else [])]:
            process.stop()
        self._processes.clear()
        self._api_server = None
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def stop_api_server(self) -> None:
        """Begin an outage: connections are cut, new ones refused."""
        assert self._api_server, "the API server does not run"
        self._api_server.stop()
        self._api_server = None

    def start_api_server(self) -> None:
        """End an outage: the API server is back at the same address with the same objects."""
        self._api_server = self._started_api_server(self._port)

    def forget_changes(self) -> None:
        """Have etcd forget all former versions, and the API server all changes: it starts anew."""
        self.stop_api_server()
        key = {"key": base64.b64encode(b"/").decode()}
        revision = _asked_etcd(f"{self._etcd_url}/v3/kv/range", key)["header"]["revision"]
        _asked_etcd(f"{self._etcd_url}/v3/kv/compaction", {"revision": revision, "physical": True})
        self.start_api_server()

    def access(self, token: str | None = None) -> Access:
        """What a kubeconfig says of this control plane; as admin without a `token`."""
        return Access(self.url, self.ca_file, {"token": token or self.admin_token})

    def kubeconfig(self, name: str = "member", *, token: str | None = None) -> Path:
        """A kubeconfig file with one context called `name`; as admin without a `token`. A file of its own each time."""
        path = self.folder / "kubeconfigs" / f"{name}-{secrets.token_hex(4)}.yaml"
        return write_kubeconfig(path, {name: self.access(token)})

    def service_account(
        self, namespace: str, name: str, *, seconds: int = 3600, pod: Mapping[str, Any] | None = None
    ) -> str:
        """A token of this ServiceAccount, made where it is missing; it has no rights until a test binds some.

        `pod`: it is that of this Pod, as the kubelet mounts it.
        """
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        if self.api.find(f"{accounts}/{name}") is None:
            self.api.create(accounts, {"metadata": {"name": name}})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        spec: dict[str, Any] = {"expirationSeconds": seconds}
        if pod is not None:
            of_it = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **of_it}
        answer = self.api.create(f"{accounts}/{name}/token", {**asked, "spec": spec})
        return answer["status"]["token"]

    def client_certificate(self, user: str, group: str) -> tuple[Path, Path]:
        """Certificate and key by which the API server knows `user` in `group`, where system:masters is admin."""
        return certificates.write_client_pair(self.folder / "kubeconfigs", user, group)

    def identity(self) -> str:
        """What tells this cluster from all others: the uid of kube-system."""
        return self.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]

    def _start_etcd(self) -> None:
        def start(port: int) -> Process:
            url = f"http://127.0.0.1:{port}"
            peers = "unix://peers:0"  # a socket in the folder it runs in: it has no peers, but must listen for them
            data = self.folder / "etcd"
            shutil.rmtree(data, ignore_errors=True)
            arguments = [
                f"--data-dir={data}",
                f"--listen-client-urls={url}",
                f"--advertise-client-urls={url}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--unsafe-no-fsync",
                "--log-level=error",
            ]
            process = Process(binary("etcd"), arguments, self.logs / "etcd.log")
            self._etcd_url = url
            return ready(process, lambda: answers(f"{url}/health"), f"health at {url}")

        _, process = on_a_free_port(start)
        self._processes.append(process)

    def _start_api_server_somewhere(self) -> None:
        self._port, self._api_server = on_a_free_port(self._started_api_server)

    def _started_api_server(self, port: int) -> Process:
        arguments = [
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'certs'}",
            f"--tls-cert-file={self.folder / 'server.crt'}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # Pods need no ServiceAccount of their own: nobody runs in them.
            "--disable-admission-plugins=ServiceAccount",
            f"--service-account-issuer={self._issuer}",
            f"--service-account-key-file={self.folder / 'sa.key'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--endpoint-reconciler-type=none",
            *self._flags,
        ]
        process = Process(binary("kube-apiserver"), arguments, self.logs / "kube-apiserver.log")
        url = f"https://127.0.0.1:{port}/readyz"
        return ready(process, lambda: answers(url, self.ca_file, self.admin_token), f"readiness at {url}")

    def _wait_for_what_it_makes_itself(self) -> None:
        """Wait for what a ready API server makes a moment later: nothing may appear between two reads of a test."""

        def there() -> bool:
            return all(self.api.find(path) is not None for path in _MADE_BY_ITSELF)

        assert self._api_server
        self._api_server.wait_until(there, "its own namespaces and Service")

    def _start_the_rest(self) -> None:
        kubeconfig = write_kubeconfig(self.folder / "parts.yaml", {"parts": self.access()})
        client = [f"--kubeconfig={kubeconfig}", "--kube-api-qps=200", "--kube-api-burst=400"]
        alone = ["--secure-port=0", "--leader-elect=false"]
        lines = {
            CONTROLLERS: [
                "kube-controller-manager",
                *client,
                *alone,
                f"--service-account-private-key-file={self.folder / 'sa.key'}",
                f"--controllers={_CONTROLLERS_THAT_RUN}",
                *self._controller_flags,
            ],
            SCHEDULER: ["kube-scheduler", *client, *alone],
            NODES: [
                "kwok",
                f"--kubeconfig={kubeconfig}",
                "--manage-all-nodes=true",
                "--node-lease-duration-seconds=40",
                f"--config={STAGES}",
            ],
        }
        for part in sorted(self.parts):
            command, *arguments = lines[part]
            self._processes.append(Process(binary(command), arguments, self.logs / f"{command}.log"))


def _asked_etcd(url: str, question: Mapping[str, Any]) -> Any:
    """What etcd answers over HTTP; its client port is one of loopback, without TLS."""
    with urllib3.PoolManager(timeout=READY_AFTER_AT_MOST) as pool:
        answer = pool.request("POST", url, json=question)
        assert answer.status == 200, answer.data
        return answer.json()


def start_side_by_side(planes: Sequence[ControlPlane]) -> None:
    """Start all of them at once; when one fails, none is left running.

    Raises:
        StartError, BinariesError: as `ControlPlane.start`.
    """
    try:
        with ThreadPoolExecutor(len(planes)) as threads:
            list(threads.map(ControlPlane.start, planes))
    except BaseException:
        for plane in planes:
            plane.stop()
        raise


def _prepare(folder: Path, admin_token: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    certificates.write_authority(folder / "ca.crt")
    certificates.write_server_pair(folder)
    certificates.write_service_account_key(folder / "sa.key")
    (folder / "tokens.csv").write_text(f'{admin_token},admin,admin,"system:masters"\n')
