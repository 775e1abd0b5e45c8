"""What the component's roles and its admission policy leave an activator, on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.activator.in_cluster import OWN, install
from tests.live import deployed
from tests.real.api import JSON_PATCH, Api, ApiError
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_deployment, a_service, an_object
from tests.real.worlds import create, deployment_path, wait_until

OURS = {"endpointslice.kubernetes.io/managed-by": "activator.reconciler", "kubernetes.io/service-name": "web"}
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
OTHERS = {**OURS, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
ADDRESSES = [("198.18.2.1", "IPv4"), ("fd00:198:18::1", "IPv6")]


def a_slice(name: str, labels: dict[str, str], address: str = "198.18.2.1", family: str = "IPv4") -> dict[str, Any]:
    return an_object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        name,
        metadata={"labels": labels},
        addressType=family,
        endpoints=[{"addresses": [address]}],
        ports=[{"name": "", "port": 20000}],
    )


def a_lease(name: str) -> dict[str, Any]:
    return an_object("coordination.k8s.io/v1", "Lease", name, spec={"holderIdentity": "somebody"})


@pytest.fixture
def activator(api_server: ControlPlane, api_namespace: str) -> Api:
    """A client with the rights of an activator; the admission policy is in force."""
    install(api_server)
    token = api_server.service_account(OWN, "reconciler-activator")
    client = Api(api_server.url, api_server.ca_file, token)

    def told(path: str, made: dict[str, Any]) -> str:
        """Why it may not be created; nothing is: what the policy lets through now, it may refuse to delete later."""
        try:
            client.request("POST", path, made, dryRun="All")
        except ApiError as error:
            return str(error)
        return ""

    def in_force() -> bool:
        others, lease = told(slices(api_namespace), a_slice("probe", OTHERS)), told(LEASES, a_lease("probe"))
        own = [told(slices(api_namespace), a_slice("probe", OURS, *one)) for one in ADDRESSES]
        return "only EndpointSlices of its own" in others and "only Leases of activators" in lease and not any(own)

    wait_until(in_force, "the admission policies, and the addresses that they leave an activator")
    return client


def slices(namespace: str) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        pytest.param(a_slice("a", OURS), "", id="its own"),
        pytest.param(a_slice("a", OURS, "fd00:198:18::1", "IPv6"), "", id="its own in IPv6"),
        pytest.param(a_slice("a", OTHERS), "only EndpointSlices of its own", id="the controller's"),
        pytest.param(a_slice("a", {}), "only EndpointSlices of its own", id="nobody's"),
        pytest.param(a_slice("a", OURS, "10.1.1.1"), "lead only to the addresses", id="elsewhere"),
        pytest.param(a_slice("a", OURS, "fd00::1", "IPv6"), "lead only to the addresses", id="elsewhere in IPv6"),
        pytest.param(a_slice("a", OURS, "example.com", "FQDN"), "lead only to the addresses", id="a name"),
    ],
)
def test_an_activator_makes_only_slices_of_its_own(
    activator: Api, api_namespace: str, made: dict[str, Any], words: str
) -> None:
    if not words:
        activator.create(slices(api_namespace), made)
        return
    with pytest.raises(ApiError, match=words):
        activator.create(slices(api_namespace), made)


def test_it_changes_and_deletes_none_of_others(activator: Api, api_server: ControlPlane, api_namespace: str) -> None:
    create(api_server.api, [a_slice("others", OTHERS)], api_namespace)
    path = f"{slices(api_namespace)}/others"
    for takes in (
        lambda: activator.delete(path),
        lambda: activator.patch(path, {"metadata": {"labels": OURS}}),
        lambda: activator.patch(path, {"endpoints": []}),
    ):
        with pytest.raises(ApiError, match="only EndpointSlices of its own"):
            takes()


def test_it_writes_the_leases_of_activators_and_not_the_lock_of_a_run(activator: Api, api_server: ControlPlane) -> None:
    create(api_server.api, [a_lease("lock-of-a-run")], OWN)
    path = f"{LEASES}/lock-of-a-run"
    for takes in (
        lambda: activator.patch(path, {"spec": {"holderIdentity": "activator-0"}}),
        lambda: activator.delete(path),
        lambda: activator.create(LEASES, a_lease("another")),
    ):
        with pytest.raises(ApiError, match="only Leases of activators"):
            takes()
    own = f"{LEASES}/reconciler-activator-a"
    activator.create(LEASES, a_lease("reconciler-activator-a"))
    activator.patch(own, {"spec": {"holderIdentity": "activator-0"}})
    activator.delete(own)
    api_server.api.delete(path)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/secrets", 403),
        ("/api/v1/configmaps", 403),
        ("/api/v1/pods", 403),
        ("/apis/coordination.k8s.io/v1/leases", 403),
        ("/api/v1/services", 200),
    ],
)
def test_it_reads_only_what_it_needs(activator: Api, path: str, status: int) -> None:
    if status == 200:
        activator.get(path)
        return
    with pytest.raises(ApiError) as refused:
        activator.get(path)
    assert refused.value.status == status


def put(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": value}]


_IMAGE = "/spec/template/spec/containers/0/image"
_SINCE = {"reconciler/awake-since": "2026-11-20T15:41:23Z"}


def test_with_the_component_for_it_the_account_only_wakes(
    activator: Api, api_server: ControlPlane, api_namespace: str
) -> None:
    deployed.admit(api_server.api, deployed.admission("admission", "admission-activator"))
    create(api_server.api, [a_deployment("web", 2), a_service("web")], api_namespace)
    web, service = deployment_path(api_namespace, "web"), f"/api/v1/namespaces/{api_namespace}/services/web"

    def refusal(path: str, *changes: dict[str, Any]) -> str:
        return deployed.refusal(activator, "PATCH", f"{path}?dryRun=All", list(changes), JSON_PATCH)

    wait_until(lambda: "only wakes" in refusal(web, *put("/spec/replicas", 1)), "the policy in force")
    assert refusal(web, *put("/spec/replicas", 3), *put("/metadata/annotations", _SINCE)) == ""
    assert "may not change spec.template" in refusal(web, *put(_IMAGE, "registry.example/evil:1"))
    assert refusal(service, *put("/metadata/annotations", {"reconciler/wake-requested-at": "x"})) == ""
    assert "may not change spec.selector" in refusal(service, *put("/spec/selector", {"app": "other"}))
    assert "may not change metadata.labels.x" in refusal(service, *put("/metadata/labels", {"x": "y"}))
