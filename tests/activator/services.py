"""Services and slices as an activator reads them: a test says what it cares about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.activator.objects import WatchedService, WatchedSlice
from reconciler.backends.decode.values import decoded_json
from reconciler.model import ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL, MANAGED_BY_LABEL, SERVICE_LABEL

IDLE = {
    "idling.kubernetes.io/idled-at": "2026-11-20T15:41:23Z",
    "idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","group":"apps","replicas":3}]',
    "reconciler/idled-to": "0",
    "reconciler/owner": "test/IdlingPolicy/sleep",
}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def a_watched_service(
    name: str = "web", *, annotations: Mapping[str, str] | None = None, spec: Mapping[str, Any] | None = None
) -> WatchedService:
    """A Service with one port, 80, in namespace shop."""
    whole = {"clusterIP": "10.0.0.1", "selector": {"app": name}, "ports": [{"port": 80}], "ipFamilies": ["IPv4"]}
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "annotations": dict(annotations or {})}
    return decoded_json(WatchedService, encoded({"metadata": metadata, "spec": {**whole, **(spec or {})}}))


def a_slice(
    name: str,
    endpoints: Iterable[tuple[str, bool | None, bool | None]],
    ports: Iterable[Mapping[str, Any]] = ({"port": 8080},),
    *,
    family: str = "IPv4",
    activator: str = "",
) -> WatchedSlice:
    """A slice of Service web; each endpoint is (address, ready, serving). `activator`: the uid of one whose it is."""
    labels = {SERVICE_LABEL: "web"} | (
        {MANAGED_BY_LABEL: ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL: activator} if activator else {}
    )
    listed = [
        {
            "addresses": [address],
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": f"pod-{address}"},
            "conditions": {key: value for key, value in (("ready", ready), ("serving", serving)) if value is not None},
        }
        for address, ready, serving in endpoints
    ]
    metadata = {"name": name, "namespace": "shop", "labels": labels}
    whole = {"metadata": metadata, "addressType": family, "endpoints": listed, "ports": list(ports)}
    return decoded_json(WatchedSlice, encoded(whole))


SCALE = {
    "idling.kubernetes.io/previous-scale": "3",
    "scale.kubernetes.io/scale-reason": "Idled",
    "scale.kubernetes.io/scale-time": "2026-11-20T15:41:23Z",
}
