"""Everything with /scale, on a real API server: where replicas are comes from the definition, not from the name."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.backends.protocols import workloads_of
from reconciler.errors import ForbiddenError, StaleError
from reconciler.model import ObjectRef, PatchOperation, Write
from reconciler.workload_kinds import WorkloadKind
from tests.backends.kubernetes.live import opened, requests_to, scaled
from tests.real.cluster import create, served_meanwhile
from tests.real.objects import a_crd, a_deployment, an_object

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

GROUP = "scales.example"


def a_sized_crd() -> dict[str, Any]:
    """Replicas in spec.size, two versions of which the second is stored and has more in its status, and a kind that
    others have too.
    """
    crd = a_crd("Deployment", GROUP, version="v1beta1", scale=True)
    first = crd["spec"]["versions"][0]
    first["subresources"]["scale"].update(specReplicasPath=".spec.size", statusReplicasPath=".status.size")
    second = copy.deepcopy(first)
    first["storage"] = False
    second["name"] = "v1"
    second["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"] = {"readyReplicas": {"type": "integer"}}
    crd["spec"]["versions"].append(second)
    return crd


@pytest.fixture(scope="module")
def sized(api_server: ControlPlane) -> Iterator[ControlPlane]:
    crds = [a_sized_crd(), a_crd("Plain", GROUP), a_crd("Hidden", "hidden.example", scale=True)]
    with served_meanwhile(api_server.api, crds):
        yield api_server


SIZED = WorkloadKind(
    GROUP, "v1", "Deployment", "deployments", ("spec", "size"), ("status", "size"), status_counts=("readyReplicas",)
)


def test_a_kind_is_found_with_its_paths_and_its_stored_version(sized: ControlPlane) -> None:
    kinds = opened(sized.kubeconfig("east")).scale_kinds()
    assert [kind for kind in kinds if kind.group == GROUP] == [SIZED]


def test_kinds_of_the_same_name_in_two_groups_are_told_apart(sized: ControlPlane, api_namespace: str) -> None:
    cluster = opened(sized.kubeconfig("east"))
    create(sized.api, [an_object(f"{GROUP}/v1", "Deployment", "web", spec={"size": 3})], api_namespace)
    (found,) = cluster.list(workloads_of(SIZED), namespace=api_namespace)
    assert (found.ref.group, found.replicas, found.replicas_path) == (GROUP, 3, ("spec", "size"))
    assert (
        cluster.list(workloads_of(WorkloadKind("apps", "v1", "Deployment", "deployments")), namespace=api_namespace)
        == ()
    )


@pytest.mark.parametrize("is_custom", [False, True])
def test_to_zero_and_back_through_scale(sized: ControlPlane, api_namespace: str, is_custom: bool) -> None:
    """A Scale with 0 replicas has no spec.replicas: the API server leaves it out."""
    custom = an_object(f"{GROUP}/v1", "Deployment", "web", spec={"size": 3})
    made = custom if is_custom else a_deployment("web", 3)
    create(sized.api, [made], api_namespace)
    cluster = opened(sized.kubeconfig("east"))
    group, _, version = made["apiVersion"].partition("/")
    ref, leaf = ObjectRef("east", api_namespace, "Deployment", "web", group), "size" if is_custom else "replicas"
    path = f"/apis/{group}/{version}/namespaces/{api_namespace}/deployments/web"
    cluster.write(scaled(ref, made["apiVersion"], 3, 5, f"/spec/{leaf}"))
    assert "scale" in [entry.get("subresource") for entry in sized.api.get(path)["metadata"]["managedFields"]]
    for before, after in ((5, 0), (0, 2)):
        cluster.write(scaled(ref, made["apiVersion"], before, after, f"/spec/{leaf}"))
        assert sized.api.get(path)["spec"][leaf] == after
    with pytest.raises(StaleError, match=f"/spec/{leaf} is 2, expected 0"):
        cluster.write(scaled(ref, made["apiVersion"], 0, 5, f"/spec/{leaf}"))
    assert sized.api.get(path)["spec"][leaf] == 2


def test_replicas_and_marks_of_a_custom_kind_change_in_one_request(sized: ControlPlane, api_namespace: str) -> None:
    create(sized.api, [an_object(f"{GROUP}/v1", "Deployment", "web", spec={"size": 3})], api_namespace)
    patch = (
        PatchOperation("test", "/metadata/annotations", None),
        PatchOperation("test", "/spec/size", 3),
        PatchOperation("add", "/metadata/annotations", {"idling.kubernetes.io/previous-scale": "3"}),
        PatchOperation("replace", "/spec/size", 0),
    )
    ref = ObjectRef("east", api_namespace, "Deployment", "web", GROUP)
    opened(sized.kubeconfig("east")).write(Write("patch", ref, f"{GROUP}/v1", patch=patch))
    found = sized.api.get(f"/apis/{GROUP}/v1/namespaces/{api_namespace}/deployments/web")
    assert found["spec"]["size"] == 0
    assert found["metadata"]["annotations"] == {"idling.kubernetes.io/previous-scale": "3"}


def test_a_definition_that_may_not_be_read_makes_its_kind_unreadable_and_no_other(
    sized: ControlPlane, api_namespace: str
) -> None:
    token = sized.service_account(api_namespace, "reader")
    definitions = {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": [f"deployments.{GROUP}"],
        "verbs": ["get"],
    }
    everything = {"apiGroups": ["hidden.example", GROUP, "apps"], "resources": ["*"], "verbs": ["get", "list"]}
    name = f"reader-{api_namespace}"
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": api_namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    version = "rbac.authorization.k8s.io/v1"
    create(sized.api, [an_object(version, "ClusterRole", name, rules=[definitions, everything])])
    create(sized.api, [an_object(version, "ClusterRoleBinding", name, roleRef=role, subjects=[subject])])

    cluster = opened(sized.kubeconfig("east", token=token))
    kinds = {kind.group: kind for kind in cluster.scale_kinds()}
    assert kinds[GROUP] == SIZED
    assert cluster.list(workloads_of(SIZED), namespace=api_namespace) == ()
    with pytest.raises(ForbiddenError, match=r"get customresourcedefinitions.* hiddens\.hidden\.example: forbidden"):
        cluster.list(workloads_of(kinds["hidden.example"]))


def test_what_is_served_is_asked_once(sized: ControlPlane) -> None:
    from reconciler.backends.kubernetes.cluster import KubernetesCluster

    requests = requests_to(sized.kubeconfig("east"))
    cluster = KubernetesCluster("east", requests)
    cluster.scale_kinds()
    before = requests.traffic().requests
    cluster.scale_kinds()
    cluster.list(workloads_of(SIZED))
    assert requests.traffic().requests == before + 1
