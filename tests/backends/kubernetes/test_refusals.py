"""What a real API server refuses, and what it is told as: admission, a quota, a missing right, an invalid object."""

from __future__ import annotations

import pytest

from reconciler.errors import ForbiddenError, InvalidError, RefusedError
from reconciler.model import ObjectRef, Write
from tests.backends.kubernetes.live import opened, scaled
from tests.real.cluster import Refusal, create, deployment_path, refuse, replicas_of, wait_until
from tests.real.objects import a_deployment, a_quota, an_object


def a_ref(namespace: str, kind: str = "Deployment") -> ObjectRef:
    return ObjectRef("east", namespace, kind, "web", "apps")


def test_admission_refuses_in_its_own_words(api_server, api_namespace):
    create(api_server.api, [a_deployment("web", 3)], api_namespace)
    refuse(api_server.api, api_namespace, Refusal("ask the platform team first", resource="deployments/scale"))
    with pytest.raises(RefusedError, match="ask the platform team first"):
        opened(api_server.kubeconfig("east")).write(scaled(a_ref(api_namespace), "apps/v1", 3, 0))
    assert replicas_of(api_server.api, api_namespace, "web") == 3


def test_a_quota_is_no_missing_right(control_plane, namespace):
    """Both are answered with 403 and the same reason."""
    create(control_plane.api, [a_quota(**{"count/replicasets.apps": "0"})], namespace)
    quota = f"/api/v1/namespaces/{namespace}/resourcequotas/quota"
    wait_until(lambda: "hard" in control_plane.api.get(quota).get("status", {}), "the quota counts")
    manifest = a_deployment("web", 2, kind="ReplicaSet")
    manifest["metadata"]["namespace"] = namespace
    with pytest.raises(RefusedError, match=r"exceeded quota: quota, requested: count/replicasets\.apps=1"):
        opened(control_plane.kubeconfig("east")).write(
            Write("create", a_ref(namespace, "ReplicaSet"), "apps/v1", manifest=manifest)
        )


def test_an_event_in_a_namespace_that_is_being_deleted_lacks_no_right(api_server, api_namespace):
    api_server.api.delete(f"/api/v1/namespaces/{api_namespace}")  # nothing empties it here, so it stays
    ref = ObjectRef("east", api_namespace, "Event", "web.1")
    about = {"involvedObject": {"kind": "Deployment", "namespace": api_namespace, "name": "web"}, "reason": "Woken"}
    event = an_object("v1", "Event", ref.name, {"namespace": api_namespace}, **about)
    with pytest.raises(RefusedError, match="because it is being terminated, expected it to be accepted"):
        opened(api_server.kubeconfig("east")).write(Write("event", ref, "v1", manifest=event))


def test_a_missing_right_names_verb_resource_and_cluster(api_server, api_namespace):
    create(api_server.api, [a_deployment("web", 3)], api_namespace)
    token = api_server.service_account(api_namespace, "reader")
    with pytest.raises(ForbiddenError) as raised:
        opened(api_server.kubeconfig("east", token=token)).write(scaled(a_ref(api_namespace), "apps/v1", 3, 0))
    assert str(raised.value).startswith(f"east: patch deployments.apps/scale web in {api_namespace}: forbidden (")
    assert replicas_of(api_server.api, api_namespace, "web") == 3


def test_an_invalid_object_is_refused_once_it_is_sure_that_nothing_is_stale(api_server, api_namespace):
    create(api_server.api, [a_deployment("web", 3)], api_namespace)
    with pytest.raises(InvalidError, match="must be greater than or equal to 0"):
        opened(api_server.kubeconfig("east")).write(scaled(a_ref(api_namespace), "apps/v1", 3, -1))


def test_somebody_who_changes_other_fields_all_the_time_does_not_disturb(api_server, api_namespace):
    create(api_server.api, [a_deployment("web", 3)], api_namespace)
    cluster = opened(api_server.kubeconfig("east"))
    for number in range(5):
        note = {"metadata": {"annotations": {"note": str(number)}}}
        api_server.api.request(
            "PATCH", deployment_path(api_namespace, "web"), note, content_type="application/merge-patch+json"
        )
        cluster.write(scaled(a_ref(api_namespace), "apps/v1", 3 + number, 4 + number))
    assert replicas_of(api_server.api, api_namespace, "web") == 8


def test_a_namespace_that_is_not_there(api_server):
    manifest = an_object("v1", "ConfigMap", "notes", {"namespace": "missing"}, data={"a": "b"})
    ref = ObjectRef("east", "missing", "ConfigMap", "notes")
    with pytest.raises(Exception, match='create configmaps notes in missing: namespaces "missing" not found'):
        opened(api_server.kubeconfig("east")).write(Write("create", ref, "v1", manifest=manifest))


MUTATES = """[JSONPatch{op: "replace", path: "/spec/replicas", value: 1}]"""


def test_replicas_that_admission_changes_are_no_success(api_server, api_namespace):
    """A policy, or a webhook, that keeps every Deployment at one replica at least answers with 200."""
    version, name = "admissionregistration.k8s.io/v1", f"mutation-{api_namespace}"
    if "mutatingadmissionpolicies" not in {one["name"] for one in api_server.api.get(f"/apis/{version}")["resources"]}:
        pytest.skip("this Kubernetes has no MutatingAdmissionPolicy")
    create(api_server.api, [a_deployment("web", 3)], api_namespace)
    within = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api_namespace}}}
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["deployments/scale"]}
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": MUTATES}}],
    }
    binding = {"policyName": name, "matchResources": within}
    create(api_server.api, [an_object(version, "MutatingAdmissionPolicy", name, spec=spec)])
    create(api_server.api, [an_object(version, "MutatingAdmissionPolicyBinding", name, spec=binding)])
    path = f"{deployment_path(api_namespace, 'web')}/scale"
    scale = api_server.api.get(path)
    wait_until(lambda: api_server.api.request("PUT", path, scale, dryRun="All")["spec"]["replicas"] == 1, "it to count")
    with pytest.raises(RefusedError, match=r"web: the server made /spec/replicas 1, expected 0; look for an admission"):
        opened(api_server.kubeconfig("east")).write(scaled(a_ref(api_namespace), "apps/v1", 3, 0))
    assert replicas_of(api_server.api, api_namespace, "web") == 1
