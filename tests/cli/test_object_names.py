"""Objects as people name them."""

from __future__ import annotations

import pytest

from reconciler.cli.object_names import object_name
from reconciler.model import ObjectRef


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("Deployment", ("deploy", "deploys", "deployment", "Deployments", "deployments.apps")),
        ("StatefulSet", ("sts", "statefulsets")),
        ("ReplicaSet", ("rs", "ReplicaSet", "replicasets")),
        ("Endpoints", ("ep", "endpoints")),
        ("Service", ("svc", "services")),
        pytest.param("Redis", ("redis", "Redis", "redises"), id="a kind that ends in s"),
        pytest.param("Prometheus", ("prometheus", "prometheuses"), id="another one"),
        ("Policy", ("policy", "policies")),
    ],
)
def test_a_kind_is_named_as_kubectl_names_it(kind, texts):
    ref = ObjectRef("dev-eu", "dev-x", kind, "cache")
    for text in texts:
        assert object_name(f"dev-eu/dev-x/{text}/cache").matches(ref)
        assert not object_name(f"dev-eu/dev-x/{text}/cache").matches(ObjectRef("dev-eu", "dev-x", "Other", "cache"))


@pytest.mark.parametrize("text", ["deploy", "deployments", "redi", "pod"])
def test_another_kind_is_not_meant(text):
    assert not object_name(f"dev-eu/dev-x/{text}/cache").matches(ObjectRef("dev-eu", "dev-x", "Redis", "cache"))


@pytest.mark.parametrize(
    ("text", "group", "means"),
    [
        ("cluster.a.io", "a.io", True),
        ("clusters.v1.a.io", "a.io", True),
        ("Cluster.a.io", "b.io", False),
        ("Cluster.b.a.io", "a.io", False),
        ("Cluster", "b.io", True),
        ("Cluster.a.io", "", True),
    ],
)
def test_a_group_beside_the_kind_means_that_one_only(text, group, means):
    assert object_name(f"dev-eu/dev-x/{text}/x").matches(ObjectRef("dev-eu", "dev-x", "Cluster", "x", group)) is means


@pytest.mark.parametrize(("text", "means"), [("svc.serving.knative.dev", [False, True]), ("Service.v1", [True, True])])
def test_a_service_of_knative_is_not_the_one_of_kubernetes_that_is_called_alike(text, means):
    knative = ObjectRef("dev-eu", "dev-x", "Service", "web", "serving.knative.dev")
    refs = [ObjectRef("dev-eu", "dev-x", "Service", "web"), knative]
    named = object_name(f"dev-eu/dev-x/{text}/web")
    assert [named.matches(ref) for ref in refs] == means
    assert named.matches(ObjectRef(*str(knative).split("/")))  # as a history has it


@pytest.mark.parametrize("text", ["svc", "services", "Service"])
def test_what_is_known_has_one_name(text):
    assert object_name(f"dev-eu/dev-x/{text}/cache").kind == "service"
