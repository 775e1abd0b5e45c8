"""Karmada's and KubeFed's policies of replicas -> FederatedReplicaSets that validate."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.cases import cases
from tests.importing.peers import imported
from tests.importing.spread import DEPLOYMENT, TEMPLATE, WEB, an_object, federated, karmada, preference, weights


def yaml_of(*manifests: dict[str, Any]) -> str:
    return yaml.safe_dump_all(manifests)


def placed(*names: str, **scheduling: Any) -> dict[str, Any]:
    stated = {"replicaScheduling": scheduling} if scheduling else {}
    return {"clusterAffinity": {"clusterNames": [*names]}, **stated}


def of_replicas(value: int, **target: Any) -> dict[str, Any]:
    return {**target, "overriders": {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": value}]}}


EXACTLY = {"minReplicas": 6, "maxReplicas": 6}


@cases(
    "placement replicas clusters",
    ("duplicated to each cluster", placed("east", "west"), 12, {"east": EXACTLY, "west": EXACTLY}),
    (
        "divided by weights",
        placed("east", "west", **weights(east=2, west=1)),
        6,
        {"east": {"weight": 2}, "west": {"weight": 1}},
    ),
    (
        "divided without weights",
        placed("east", "west", replicaSchedulingType="Divided"),
        6,
        {"east": {"weight": 1}, "west": {"weight": 1}},
    ),
    (
        "divided, as a strategy is without a type",
        placed("east", "west", weightPreference=weights(east=2, west=1)["weightPreference"]),
        6,
        {"east": {"weight": 2}, "west": {"weight": 1}},
    ),
)
def test_karmada_duplicates_or_divides(tmp_path, placement, replicas, clusters):
    specs, lost = imported(tmp_path, "karmada", yaml_of(DEPLOYMENT, karmada(placement=placement)))
    assert specs["web"] == {
        "replicas": replicas,
        "onConflict": "Abort",
        "preferences": {"rebalance": True, "clusters": clusters},
        "targetRef": WEB,
    }
    assert [one["name"] for one in specs["imported"]["clusters"]] == ["east", "west"]
    assert lost == []


@pytest.mark.parametrize(
    "instead",
    [{"replicaDivisionPreference": "Aggregated"}, {"weightPreference": {"dynamicWeight": "AvailableReplicas"}}],
    ids=["aggregated", "dynamic weight"],
)
def test_karmada_does_not_look_at_static_weights_beside(tmp_path, instead):
    stated = weights(east=2, west=1)
    preference = {**stated["weightPreference"], **instead.get("weightPreference", {})}
    placement = placed("east", "west", **{**stated, **instead, "weightPreference": preference})
    specs, lost = imported(tmp_path, "karmada", yaml_of(DEPLOYMENT, karmada(placement=placement)))
    assert specs["web"]["preferences"]["clusters"] == {"east": {"weight": 1}, "west": {"weight": 1}}
    assert len(lost) == 1


def test_karmada_clusters_by_label_and_workloads_by_label(tmp_path):
    clusters = [
        an_object("cluster.karmada.io/v1alpha1", "Cluster", name, {"region": region})
        for name, region in (("east", "eu"), ("west", "us"), ("north", "eu"))
    ]
    clusters[1]["spec"]["taints"] = [{"key": "x", "effect": "NoExecute"}]
    affinity = {"clusterAffinity": {"labelSelector": {"matchLabels": {"region": "eu"}}, "exclude": ["north"]}}
    selector = {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "web"}}}
    policy = karmada(resourceSelectors=[selector], placement=affinity)
    specs, lost = imported(tmp_path, "karmada", yaml_of(DEPLOYMENT, *clusters, policy))
    assert specs["web"]["preferences"]["clusters"] == {"east": EXACTLY}
    assert lost == ["Cluster west: spec.taints: has no counterpart; see `state` of a cluster"]
    assert {"name": "west", "labels": {"region": "us"}} in specs["imported"]["clusters"]


@cases(
    "key operator values clusters",
    ("of a provider", "provider", "In", ["huawei"], ["east"]),
    ("not of a region", "region", "NotIn", ["us"], ["east", "north"]),
    ("of one of two zones", "zone", "In", ["us-1", "eu-9"], ["west"]),
    ("without a zone", "zone", "DoesNotExist", [], ["north"]),
    ("an operator not for zones", "zone", "Gt", ["1"], []),
)
def test_karmada_clusters_by_field(tmp_path, key, operator, values, clusters):
    fields = {"east": {"provider": "huawei", "region": "eu", "zones": ["eu-1", "eu-2"]}, "north": {}}
    fields["west"] = {"provider": "aws", "region": "us", "zone": "us-1"}
    known = [an_object("cluster.karmada.io/v1alpha1", "Cluster", name, **spec) for name, spec in fields.items()]
    affinity = {"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}}
    other = an_object("apps/v1", "Deployment", "api", replicas=1)
    everywhere = karmada(resourceSelectors=[{**WEB, "name": "api"}])
    policies = (karmada(placement={"clusterAffinity": affinity}), everywhere)
    specs, _ = imported(tmp_path, "karmada", yaml_of(DEPLOYMENT, other, *known, *policies))
    assert sorted(specs["web"]["preferences"]["clusters"] if clusters else ()) == clusters
    assert ("web" in specs) == bool(clusters)


@cases(
    "first second cluster",
    ("closer by name", {"resourceSelectors": [{**WEB, "name": ""}]}, {}, "west"),
    ("higher priority", {"resourceSelectors": [{**WEB, "name": ""}], "priority": 1}, {}, "east"),
    (
        "closer by label",
        {"resourceSelectors": [{**WEB, "name": ""}]},
        {"resourceSelectors": [{**WEB, "name": "", "labelSelector": {"matchLabels": {"app": "web"}}}]},
        "west",
    ),
    ("first by name", {}, {}, "east"),
)
def test_karmada_of_two_policies_the_higher_priority_then_the_closer_one_then_the_first_by_name(
    tmp_path, first, second, cluster
):
    two = [karmada(**{"placement": placed("east"), **first}), karmada(**{"placement": placed("west"), **second})]
    two[1]["metadata"]["name"] = "web-2"
    specs, _ = imported(tmp_path, "karmada", yaml_of(DEPLOYMENT, *reversed(two)))
    assert [*specs["web"]["preferences"]["clusters"]] == [cluster]


@cases(
    "scheduling replicas others",
    ("duplicated to each cluster", {}, 8, EXACTLY),
    ("divided, overridden cluster weighs more", weights(east=2, west=3), 4, {"weight": 2}),
    ("divided, overridden cluster weighs less", weights(east=3, west=2), 6, {"weight": 3}),
)
def test_karmada_replicas_of_an_override_are_those_of_its_clusters_only(tmp_path, scheduling, replicas, others):
    rule = of_replicas(2, targetCluster={"clusterNames": ["west"]})
    rule["overriders"]["imageOverrider"] = [{"component": "Tag", "operator": "replace", "value": "2"}]
    override = karmada("OverridePolicy", overrideRules=[rule])
    manifests = yaml_of(DEPLOYMENT, karmada(placement=placed("east", "west", **scheduling)), override)
    specs, lost = imported(tmp_path, "karmada", manifests)
    assert specs["web"]["replicas"] == replicas
    clusters = specs["web"]["preferences"]["clusters"]
    assert clusters == {"east": others, "west": {"minReplicas": 2, "maxReplicas": 2}}
    assert lost == [
        "OverridePolicy web: spec.overrideRules[0].overriders.imageOverrider: "
        "is left to what creates the workloads (kustomize, Helm, Argo CD)"
    ]


def test_karmada_an_override_replaces_what_the_method_of_webster_gives_its_cluster(tmp_path):
    """Of two replicas by 5, 3 and 1 the first two clusters have one each: 5/1, 3/1, 5/3, as Karmada counts."""
    rule = of_replicas(4, targetCluster={"clusterNames": ["west"]})
    policy = karmada(placement=placed("east", "west", "north", **weights(east=5, west=3, north=1)))
    two = an_object("apps/v1", "Deployment", replicas=2)
    specs, _ = imported(tmp_path, "karmada", yaml_of(two, policy, karmada("OverridePolicy", overrideRules=[rule])))
    assert specs["web"]["replicas"] == 5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(("OverridePolicy", {}), ("ClusterOverridePolicy", {}), id="of all namespaces and of one"),
        pytest.param(
            ("OverridePolicy", {}),
            ("OverridePolicy", {"resourceSelectors": [{**WEB, "name": ""}]}),
            id="of all of its kind and of its name",
        ),
    ],
)
def test_karmada_of_two_overrides_the_closer_one_counts(tmp_path, first, second):
    overrides = [
        karmada(kind, overrideRules=[of_replicas(value)], **spec)
        for value, (kind, spec) in enumerate((first, second), 1)
    ]
    manifests = yaml_of(DEPLOYMENT, karmada(placement=placed("east")), *overrides)
    specs, _ = imported(tmp_path, "karmada", manifests)
    assert specs["web"]["replicas"] == 1


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"placement": {**placed("east"), "spreadConstraints": [{"maxGroups": 2}]}},
            "spec.placement.spreadConstraints",
        ),
        ({"placement": placed("east"), "propagateDeps": True}, "spec.propagateDeps"),
        (
            {"placement": placed("east", replicaSchedulingType="Divided", replicaDivisionPreference="Aggregated")},
            "spec.placement.replicaScheduling.replicaDivisionPreference",
        ),
        (
            {
                "placement": placed("east"),
                "resourceSelectors": [WEB, {"apiVersion": "v1", "kind": "Service", "name": "a"}],
            },
            "spec.resourceSelectors[1]",
        ),
    ],
)
def test_what_karmada_says_besides_is_said_and_written_above_the_policy(tmp_path, spec, field):
    _, lost = imported(tmp_path, "karmada", yaml_of(DEPLOYMENT, karmada(**spec)))
    (words,) = lost
    assert words.startswith(f"PropagationPolicy web: {field}: ")
    if "resourceSelectors" not in spec:
        text = (tmp_path / "policies/all.yaml").read_text()
        assert re.search(rf"^# Not carried over: in/peer.yaml:\d+:1: {re.escape(words)}$", text, re.MULTILINE)


def test_karmada_without_the_workload_has_no_number(tmp_path):
    other = an_object("apps/v1", "Deployment", "api", replicas=1)
    manifests = yaml_of(other, karmada(placement=placed("east"), resourceSelectors=[WEB, {**WEB, "name": "api"}]))
    specs, lost = imported(tmp_path, "karmada", manifests)
    assert set(specs) == {"imported", "api"}
    assert "Deployment shop/web is not among the manifests" in lost[0]


def test_kubefed_preferences_are_the_same_here(tmp_path):
    clusters = {"east": {"weight": 2, "minReplicas": 1}, "*": {"weight": 1, "maxReplicas": 4}}
    manifests = yaml_of(federated(), preference(totalReplicas=10, rebalance=True, clusters=clusters))
    specs, _ = imported(tmp_path, "kubefed", manifests)
    assert specs["web"] == {
        "replicas": 10,
        "rounding": "KubeFed",
        "preferences": {"rebalance": True, "clusters": clusters},
        "targetRef": WEB,
    }


@pytest.mark.parametrize("registered", [(), ("east", "west", "north")])
def test_kubefed_clusters_that_only_a_star_stands_for_are_in_the_fleet(tmp_path, registered):
    known = [an_object("core.kubefed.io/v1beta1", "KubeFedCluster", name) for name in registered]
    both = preference(totalReplicas=9, clusters={"east": {"weight": 2}, "*": {"weight": 1}})
    specs, lost = imported(tmp_path, "kubefed", yaml_of(*known, federated(), both))
    assert {one["name"] for one in specs["imported"]["clusters"]} == {"east", "west", *registered}
    assert lost == [
        "ReplicaSchedulingPreference web: spec.clusters.*: no KubeFedCluster is among the manifests, so those that it "
        "stands for are not all known; name them in the Fleet"
    ] * (not registered)


def test_kubefed_of_a_minimum_above_the_maximum_the_maximum_counts(tmp_path):
    clusters = {"east": {"minReplicas": 5, "maxReplicas": 3, "weight": 1}, "west": {"weight": 1}}
    specs, lost = imported(tmp_path, "kubefed", yaml_of(federated(), preference(totalReplicas=9, clusters=clusters)))
    assert specs["web"]["preferences"]["clusters"]["east"] == {"weight": 1, "minReplicas": 3, "maxReplicas": 3}
    assert lost == [
        "ReplicaSchedulingPreference web: spec.clusters.east.minReplicas: is above maxReplicas, which counts"
    ]


def test_kubefed_without_preferences_has_the_replicas_of_the_template_in_each_cluster(tmp_path):
    change = {"clusterOverrides": [{"path": "/spec/replicas", "value": 5}], "clusterName": "west"}
    specs, lost = imported(tmp_path, "kubefed", yaml_of(federated(overrides=[change])))
    assert specs["web"]["replicas"] == 8
    assert specs["web"]["preferences"]["clusters"] == {
        "east": {"minReplicas": 3, "maxReplicas": 3},
        "west": {"minReplicas": 5, "maxReplicas": 5},
    }
    assert lost == []


def test_a_federated_replica_set_of_kubefed_keeps_its_template_name_labels_and_annotations(tmp_path):
    of_kubefed = federated("FederatedReplicaSet")
    of_kubefed["spec"]["template"]["spec"]["minReadySeconds"] = 5
    of_kubefed["spec"]["template"]["metadata"] = metadata = {"labels": {"app": "web"}, "annotations": {"x": "y"}}
    specs, _ = imported(tmp_path, "kubefed", yaml_of(federated(), of_kubefed))
    assert (specs["web"]["minReadySeconds"], specs["web"]["template"]) == (5, TEMPLATE)
    assert specs["web"]["selector"] == {"matchLabels": {"app": "web"}}
    assert specs["web-2"]["targetRef"] == WEB
    documents = yaml.safe_load_all((tmp_path / "policies/all.yaml").read_text())
    (found,) = [one["metadata"] for one in documents if one["metadata"]["name"] == "web"]
    assert found == {"name": "web", "namespace": "shop", **metadata}


def test_kubefed_clusters_by_selector(tmp_path):
    clusters = [
        an_object("core.kubefed.io/v1beta1", "KubeFedCluster", name, {"region": region})
        for name, region in (("east", "eu"), ("west", "us"))
    ]
    placement = {"clusterSelector": {"matchLabels": {"region": "eu"}}}
    both = preference(totalReplicas=4, intersectWithClusterSelector=True, clusters={"*": {"weight": 1}})
    specs, _ = imported(tmp_path, "kubefed", yaml_of(*clusters, federated(placement=placement), both))
    assert specs["web"]["preferences"]["clusters"] == {"east": {"weight": 1}}


def test_what_kubefed_says_besides_is_said(tmp_path):
    daemons = preference(targetKind="FederatedDaemonSet", totalReplicas=1)
    change = {"clusterName": "west", "clusterOverrides": [{"path": "/spec/paused", "value": True}]}
    secret = an_object("types.kubefed.io/v1beta1", "FederatedSecret", "key")
    _, lost = imported(tmp_path, "kubefed", yaml_of(federated(overrides=[change]), secret, daemons))
    left = "is left to what creates the workloads (kustomize, Helm, Argo CD)"
    assert lost == [
        f"FederatedSecret key: spec: a FederatedSecret {left}",
        f"FederatedDeployment web: spec.overrides[0]: /spec/paused {left}",
        'ReplicaSchedulingPreference web: spec.targetKind: "FederatedDaemonSet" has no counterpart',
    ]


def test_a_list_is_its_items_and_nothing_at_all_is_refused(tmp_path):
    listed = {"apiVersion": "v1", "kind": "List", "items": [federated()]}
    specs, _ = imported(tmp_path, "kubefed", yaml_of(listed))
    assert "web" in specs
    with pytest.raises(AssertionError, match="no policy can be made of kubefed in in: 1 object was read"):
        imported(tmp_path, "kubefed", yaml_of(DEPLOYMENT))
