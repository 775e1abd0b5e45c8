"""External metrics for a real HorizontalPodAutoscaler: an aggregated API on loopback, with values of a test.

with ExternalMetrics(plane, folder) as metrics:
    metrics.values["queue"] = 6          # what an HPA with this metric and averageValue 1 wants
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tests.real import certificates
from tests.real.api import Object
from tests.real.cluster import create_missing, wait_until
from tests.real.objects import an_object

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
_ROOT = f"/apis/{GROUP}/{VERSION}"


class ExternalMetrics:
    """Serves `values`, by the names of metrics, in all namespaces of `plane`."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.values: dict[str, int] = {}
        self._plane = plane
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = certificates.server_context(folder).wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> ExternalMetrics:
        self._thread.start()
        port = self._server.server_address[1]
        service = an_object("v1", "Service", "metrics", {"namespace": "default"})
        service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        registered = an_object("apiregistration.k8s.io/v1", "APIService", f"{VERSION}.{GROUP}")
        registered["spec"] = {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "metrics", "port": port},
        }
        create_missing(self._plane.api, [service, registered])
        wait_until(self._is_available, "the external metrics to be served")
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _is_available(self) -> bool:
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{VERSION}.{GROUP}"
        conditions = self._plane.api.get(path).get("status", {}).get("conditions", [])
        return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        values = self.values

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.partition("?")[0].rpartition("/")[2]
                body = json.dumps(_listed(name, values[name]) if name in values else _RESOURCES).encode()
                self.send_response(200 if self.path.startswith(_ROOT) else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        return Handler


_RESOURCES = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}", "resources": []}


def _listed(name: str, value: int) -> Object:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    item = {"metricName": name, "metricLabels": {}, "timestamp": at, "value": str(value)}
    return {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": [item]}


def an_external_autoscaler(name: str, metric: str, least: int, most: int) -> Object:
    """An HPA of the Deployment `name` that wants as many replicas as `metric` says, at once in both directions."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    source = {"metric": {"name": metric}, "target": {"type": "AverageValue", "averageValue": "1"}}
    spec = {
        "scaleTargetRef": target,
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": [{"type": "External", "external": source}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }
    return an_object("autoscaling/v2", "HorizontalPodAutoscaler", name, spec=spec)
