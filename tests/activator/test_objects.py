"""What follows from Services, EndpointSlices and NetworkPolicies, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.activator.objects import (
    EndpointAddress,
    WatchedNetworkPolicy,
    WatchedService,
    WatchedSlice,
    endpoints_of,
    is_restricted,
    slice_manifests,
    slice_name,
)
from reconciler.backends.decode.values import decoded_json
from tests.activator.services import IDLE, a_slice, a_watched_service, encoded


@pytest.mark.parametrize(
    ("annotations", "idle"),
    [
        pytest.param(IDLE, True, id="marked by a run"),
        pytest.param({}, False, id="not marked"),
        pytest.param({**IDLE, "idling.kubernetes.io/unidle-targets": "[]"}, False, id="nothing to wake"),
        pytest.param({**IDLE, "idling.kubernetes.io/unidle-targets": "?"}, False, id="a list that nobody can read"),
        pytest.param({**IDLE, "idling.kubernetes.io/idled-at": "yesterday"}, False, id="no time"),
        pytest.param({**IDLE, "reconciler/idled-to": "1"}, False, id="at a floor above zero pods answer"),
        pytest.param(
            {
                "idling.alpha.openshift.io/idled-at": "2026-11-20T15:41:23Z",
                "idling.alpha.openshift.io/unidle-targets": '[{"kind":"Deployment","name":"web","replicas":2}]',
            },
            True,
            id="marked by oc idle",
        ),
    ],
)
def test_a_service_is_idle_by_its_mark(annotations: dict[str, str], idle: bool) -> None:
    assert (a_watched_service(annotations=annotations).record is not None) is idle


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        pytest.param({}, "", id="a Service like most"),
        pytest.param({"type": "ExternalName"}, "ExternalName", id="ExternalName"),
        pytest.param({"clusterIP": "None"}, "headless", id="headless"),
        pytest.param({"internalTrafficPolicy": "Local"}, "internalTrafficPolicy", id="local inside"),
        pytest.param({"externalTrafficPolicy": "Local"}, "", id="local outside, and nobody outside"),
        pytest.param({"type": "NodePort", "externalTrafficPolicy": "Local"}, "externalTraffic", id="local outside"),
        pytest.param({"ports": [{"port": 80, "protocol": "SCTP"}]}, "SCTP", id="SCTP"),
    ],
)
def test_what_cannot_be_held(spec: dict[str, Any], word: str) -> None:
    problem = a_watched_service(spec=spec).problem
    assert word in problem
    assert bool(word) is bool(problem)


def test_backends_are_those_of_others_by_port_ready_ones_first() -> None:
    port = [{"name": "http", "port": 8080}]
    slices = [
        a_slice("web-1", [("10.0.0.1", True, True), ("10.0.0.2", False, True), ("10.0.0.3", False, False)], port),
        a_slice("web-2", [("fd00::1", None, None)], port, family="IPv6"),
        a_slice("web-activator", [("10.0.0.9", True, True)], port, activator="uid"),
        a_slice("web-3", [("example.com", True, True)], port, family="FQDN"),
    ]
    found = endpoints_of(slices)
    service = a_watched_service(spec={"ports": [{"name": "http", "port": 80}, {"name": "other", "port": 81}]})
    named = [EndpointAddress(address, 8080, f"pod-{address}") for address in ("10.0.0.1", "fd00::1", "10.0.0.2")]
    assert found.of(service.ports[0]) == tuple(named)
    assert found.of(service.ports[1]) == ()
    assert found.are_ready
    assert not endpoints_of(slices[2:]).are_ready


@pytest.mark.parametrize(
    ("target", "pod"),
    [
        pytest.param({"kind": "Pod", "name": "web-1"}, "web-1", id="a Pod"),
        pytest.param({"kind": "Node", "name": "node-1"}, "", id="a node"),
        pytest.param({"kind": "Pod"}, "", id="a Pod without a name"),
        pytest.param(None, "", id="nothing, as without a selector"),
    ],
)
def test_clients_go_themselves_to_what_does_not_say_which_pod_it_is(target: dict[str, str] | None, pod: str) -> None:
    endpoint = {"addresses": ["10.0.0.1"], "targetRef": target}
    raw = {"metadata": {"name": "x"}, "endpoints": [endpoint], "ports": [{"port": 8080}]}
    found = endpoints_of([decoded_json(WatchedSlice, encoded(raw))])
    assert found.of(a_watched_service().ports[0]) == (EndpointAddress("10.0.0.1", 8080, pod),)
    assert found.name_no_pods is not bool(pod)
    assert not endpoints_of([]).name_no_pods


@pytest.mark.parametrize(
    ("policy", "restricts"),
    [
        pytest.param({"podSelector": {}}, True, id="all pods"),
        pytest.param({"podSelector": {"matchLabels": {"app": "web"}}}, True, id="the pods of the Service"),
        pytest.param({"podSelector": {"matchLabels": {"tier": "front"}}}, True, id="a label the pods may have"),
        pytest.param({"podSelector": {"matchLabels": {"app": "db"}}}, False, id="other pods"),
        pytest.param({"podSelector": {}, "policyTypes": ["Egress"]}, False, id="only what goes out"),
        pytest.param({"podSelector": {}, "policyTypes": ["Egress", "Ingress"]}, True, id="both ways"),
    ],
)
def test_a_network_policy_that_may_select_the_pods_keeps_from_splicing(policy: dict[str, Any], restricts: bool) -> None:
    read = decoded_json(WatchedNetworkPolicy, encoded({"metadata": {"name": "p"}, "spec": policy}))
    assert is_restricted(a_watched_service(), [read]) is restricts
    assert not is_restricted(a_watched_service(annotations={"reconciler/activator": "Splice"}), [read])


def test_there_is_a_slice_for_each_family_that_the_pod_has() -> None:
    spec = {
        "ipFamilies": ["IPv4", "IPv6"],
        "ports": [{"name": "http", "port": 80, "appProtocol": "h2c"}, {"name": "dns", "port": 53, "protocol": "UDP"}],
    }
    service = a_watched_service(annotations=IDLE, spec=spec)
    ports = [(port, 20000 + number) for number, port in enumerate(service.ports)]
    made = list(slice_manifests(service, ("pod-1", "uid-1"), ("10.0.0.9", "fd00::9"), ports))
    assert [(one["addressType"], one["endpoints"][0]["addresses"]) for one in made] == [
        ("IPv4", ["10.0.0.9"]),
        ("IPv6", ["fd00::9"]),
    ]
    assert made[0]["ports"] == [
        {"name": "http", "port": 20000, "protocol": "TCP", "appProtocol": "h2c"},
        {"name": "dns", "port": 20001, "protocol": "UDP"},
    ]
    [owner] = made[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Service", service.metadata.uid)
    assert made[0]["metadata"]["labels"] == {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "activator.reconciler",
        "reconciler/activator-pod": "uid-1",
    }
    [only] = slice_manifests(service, ("pod-1", "uid-1"), ("fd00::9",), ports)
    assert only["addressType"] == "IPv6"


def test_names_of_slices_are_never_too_long() -> None:
    name = slice_name("s" * 63, "p" * 253, "IPv4")
    assert len(name) <= 253
    assert slice_name("web", "activator-7b9c-x1", "IPv4") == "web-activator-activator-7b9c-x1-ipv4"


def test_what_is_read_is_what_a_server_sends() -> None:
    """Everything but a name may be absent."""
    for shape in (WatchedService, WatchedSlice, WatchedNetworkPolicy):
        assert decoded_json(shape, b'{"metadata": {"name": "x"}}').metadata.name == "x"
