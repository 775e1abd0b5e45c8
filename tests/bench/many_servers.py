"""Many API servers in one process, one below each path: /c001 is a server. They serve the same pages, made once.

`python -m tests.bench.many_servers PORT WORKLOADS`. What is written is kept, for each server by itself: scales and
annotations of Deployments, and whole objects of the kinds that runs keep their own records in.
"""

from __future__ import annotations

import json
import sys
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reconciler.backends.patched_values import patched
from reconciler.errors import RefusedError, StaleError
from reconciler.model import PatchOperation
from tests.real.objects import discovery

PODS_OF_EACH = 10
DEV_SHARE = 50  # every so many workloads are in the namespace that a policy idles
_NAMESPACES = ("dev", *(f"team-{number:02}" for number in range(20)))


def metadata(number: int, name: str, **more: Any) -> dict[str, Any]:
    namespace = "dev" if number % DEV_SHARE == 0 else _NAMESPACES[1 + number % 20]
    managed = {f"f:{field}": {".": {}, "f:name": {}, "f:value": {}} for field in ("metadata", "spec", "status", "env")}
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": f"app-{number}", "app.kubernetes.io/managed-by": "argocd"},
        "managedFields": [{"manager": "argocd", "operation": "Update", "apiVersion": "v1", "fieldsV1": managed}] * 2,
        **more,
    }


def template(number: int) -> dict[str, Any]:
    env = [{"name": f"SETTING_{n}", "value": "some value of a setting"} for n in range(10)]
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    container = {"name": "app", "image": "registry.example/app:1.0", "env": env, "readinessProbe": probe}
    return {"metadata": {"labels": {"app": f"app-{number}"}}, "spec": {"containers": [container]}}


def deployment(number: int) -> dict[str, Any]:
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), PODS_OF_EACH)
    selector = {"matchLabels": {"app": f"app-{number}"}}
    return {
        "metadata": metadata(number, f"app-{number}"),
        "spec": {"replicas": PODS_OF_EACH, "selector": selector, "template": template(number)},
        "status": {"observedGeneration": 1, **counts},
    }


def replica_set(number: int) -> dict[str, Any]:
    owner = {"kind": "Deployment", "name": f"app-{number}", "uid": f"uid-app-{number}", "controller": True}
    made = deployment(number)
    made["metadata"] = metadata(number, f"app-{number}-6d4f9", ownerReferences=[{**owner, "apiVersion": "apps/v1"}])
    made["metadata"]["labels"] |= {"pod-template-hash": "6d4f9"}
    return made


def service(number: int) -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]
    spec = {"selector": {"app": f"app-{number}"}, "ports": ports, "clusterIP": "10.0.0.1", "type": "ClusterIP"}
    return {"metadata": metadata(number, f"app-{number}"), "spec": spec}


def pod(number: int) -> dict[str, Any]:
    made = metadata(number // PODS_OF_EACH, f"app-{number // PODS_OF_EACH}-6d4f9-{number % PODS_OF_EACH}")
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    spec = {**template(number)["spec"], "nodeName": f"node-{number % 100}"}
    return {"metadata": made, "spec": spec, "status": {"phase": "Running", "conditions": conditions}}


MADE = {"deployments": deployment, "replicasets": replica_set, "services": service, "pods": pod}


@cache
def fragments(plural: str, count: int) -> tuple[bytes, ...]:
    return tuple(json.dumps(MADE[plural](number)).encode() for number in range(count))


@cache
def shared_page(plural: str, count: int, start: int, limit: int) -> bytes:
    return b",".join(fragments(plural, count)[start : start + limit])


class Server:
    """What is different on one of the servers."""

    def __init__(self) -> None:
        self.patched: dict[int, bytes] = {}
        self.kept: dict[str, dict[str, Any]] = {}
        self.version = 1
        self.lock = threading.Lock()


SERVERS: dict[str, Server] = {}
COUNTS = {"requests": 0, "bytes": 0, "writes": 0}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    workloads = 0

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, status: int, body: bytes | dict[str, Any]) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        COUNTS["requests"] += 1
        COUNTS["bytes"] += len(data)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _fails(self, status: int, why: str) -> None:
        self._answer(status, {"kind": "Status", "code": status, "reason": why, "message": why})

    def _where(self) -> tuple[Server, str, dict[str, str]]:
        parts = urlsplit(self.path)
        _, name, path = parts.path.split("/", 2)
        self.cluster = name
        return SERVERS.setdefault(name, Server()), path, {key: found[0] for key, found in parse_qs(parts.query).items()}

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")

    def do_GET(self) -> None:
        server, path, query = self._where()
        if path == "counts":
            return self._answer(200, {**COUNTS, "idled": sum(len(one.patched) for one in SERVERS.values())})
        if path == "apis":
            return self._answer(200, discovery())
        *_, above, last = path.split("/")
        if above == "namespaces" and path.count("/") == 3:
            return self._answer(200, {"metadata": {"name": last, "uid": self.cluster}})
        if last == "namespaces":
            names = [{"metadata": {"name": name, "uid": name}} for name in (*_NAMESPACES, "kube-system", "reconciler")]
            return self._answer(200, {"kind": "NamespaceList", "metadata": {}, "items": names})
        if above == "deployments":
            return self._answer(200, self._deployment(server, int(last.removeprefix("app-"))))
        if last in MADE and query.get("labelSelector", "") in ("", "pod-template-hash"):
            return self._listed(server, last, query)
        with server.lock:
            if path in server.kept:
                return self._answer(200, server.kept[path])
            if above in ("configmaps", "leases"):
                return self._fails(404, "NotFound")
            plain = query.get("labelSelector", "")
            items = [one for key, one in server.kept.items() if key.startswith(f"{path}/") and plain.startswith("!")]
        return self._answer(200, {"metadata": {"resourceVersion": "1"}, "items": items})

    def _deployment(self, server: Server, number: int) -> bytes:
        return server.patched.get(number) or fragments("deployments", self.workloads)[number]

    def _listed(self, server: Server, plural: str, query: dict[str, str]) -> None:
        count = self.workloads * (PODS_OF_EACH if plural == "pods" else 1)
        start, limit = int(query.get("continue", 0)), int(query.get("limit", count))
        if plural == "deployments" and server.patched:
            page = b",".join(self._deployment(server, number) for number in range(start, min(start + limit, count)))
        else:
            page = shared_page(plural, count, start, limit)
        more = str(start + limit) if start + limit < count else ""
        head = f'{{"metadata": {{"resourceVersion": "1", "continue": "{more}"}}, "items": ['
        self._answer(200, b"".join((head.encode(), page, b"]}")))

    def do_POST(self) -> None:
        server, path, _ = self._where()
        made = self._body()
        if path.endswith("selfsubjectreviews"):
            return self._answer(201, {"status": {"userInfo": {"username": "simulated"}}})
        name = f"{path}/{made['metadata']['name']}"
        with server.lock:
            COUNTS["writes"] += 1
            if name in server.kept:
                return self._fails(409, "AlreadyExists")
            server.kept[name] = self._stamped(server, made)
            return self._answer(201, server.kept[name])

    def _stamped(self, server: Server, made: dict[str, Any]) -> dict[str, Any]:
        server.version += 1
        made["metadata"] = {"uid": f"uid-{server.version}", **made["metadata"], "resourceVersion": str(server.version)}
        return made

    def do_PUT(self) -> None:
        server, path, _ = self._where()
        made = self._body()
        with server.lock:
            COUNTS["writes"] += 1
            found = server.kept.get(path)
            if found is None:
                return self._fails(404, "NotFound")
            if made["metadata"].get("resourceVersion") not in (None, found["metadata"]["resourceVersion"]):
                return self._fails(409, "Conflict")
            server.kept[path] = self._stamped(server, made)
            return self._answer(200, server.kept[path])

    def do_PATCH(self) -> None:
        server, path, _ = self._where()
        operations = [PatchOperation(one["op"], one["path"], one.get("value")) for one in self._body()]
        *_, above, last = path.split("/")
        with server.lock:
            COUNTS["writes"] += 1
            number = int(last.removeprefix("app-")) if above == "deployments" else -1
            found = json.loads(self._deployment(server, number)) if number >= 0 else server.kept.get(path)
            if found is None:
                return self._fails(404, "NotFound")
            try:
                made = self._stamped(server, {**patched(found, operations, path)})
            except (RefusedError, StaleError) as error:
                return self._fails(422, f"the test failed: {error}")
            if number >= 0:
                made = {"apiVersion": "apps/v1", "kind": "Deployment", **made}
                server.patched[number] = json.dumps(made).encode()
            else:
                server.kept[path] = made
            return self._answer(200, made)

    def do_DELETE(self) -> None:
        server, path, _ = self._where()
        self._body()
        with server.lock:
            COUNTS["writes"] += 1
            found = server.kept.pop(path, None)
        return self._fails(404, "NotFound") if found is None else self._answer(200, found)


class Servers(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Whoever was killed in the middle of a request is no fault of ours."""


def main(port: int, workloads: int) -> None:
    Handler.workloads = workloads
    with Servers(("127.0.0.1", port), Handler) as served:
        print(served.server_port, flush=True)
        served.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
