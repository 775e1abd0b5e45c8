"""Many idle Services of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from tests.activator.services import IDLE, SCALE
from tests.real.api import Object
from tests.real.cluster import create
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_deployment, a_namespace, an_object

_TARGETS = '[{{"kind":"Deployment","name":"{}","group":"apps","replicas":1}}]'


def idle_service(name: str) -> Object:
    marks = {**IDLE, "idling.kubernetes.io/unidle-targets": _TARGETS.format(name)}
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return an_object("v1", "Service", name, metadata={"annotations": marks}, spec=spec)


def idle_deployment(name: str) -> Object:
    made = a_deployment(name, 0)
    made["metadata"]["annotations"] = {**IDLE, **SCALE, "idling.kubernetes.io/previous-scale": "1"}
    return made


def idle_services(plane: ControlPlane, namespace: str, names: Iterable[str], *, behind: bool = False) -> None:
    """Create idle Services, with Deployments at zero behind them where they are to be woken."""
    create(plane.api, [a_namespace(namespace)])
    listed = list(names)
    objects = [idle_service(name) for name in listed]
    objects += [idle_deployment(name) for name in listed] if behind else []
    create(plane.api, objects, namespace)


def forget(plane: ControlPlane, namespace: str) -> None:
    """No controller ends a namespace here: its Services go one by one."""
    names = [one["metadata"]["name"] for one in plane.api.items(f"/api/v1/namespaces/{namespace}/services")]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda name: plane.api.delete(f"/api/v1/namespaces/{namespace}/services/{name}"), names))
