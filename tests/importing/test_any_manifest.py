"""Manifests of other tools with anything in any place: policies, or every mistake with its line, never a bug."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import pytest
import yaml

from reconciler.cli.other_tools import TOOLS
from reconciler.errors import PolicyError
from reconciler.importing.downscaler import import_downscaler
from reconciler.importing.karmada import import_karmada
from reconciler.importing.kube_green import import_kube_green
from reconciler.importing.kubefed import import_kubefed
from reconciler.importing.manifests import manifests_of, read_manifests
from tests.importing.downscaled import UP, controller, space, web
from tests.importing.peers import sleep_info
from tests.importing.spread import DEPLOYMENT, an_object, federated, karmada, preference, weights
from tests.laws import share_of

EVERY_KIND = {kind for _, kinds in TOOLS.values() for kind in kinds}
ODD = (None, "Gt", "9" * 5000, 1, [[]], {"a": 1}, True)
REF = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
PATCH = {"target": {"group": "apps", "kind": "Deployment"}, "patch": "- {op: add, path: /spec/replicas, value: 0}"}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
AFFINITY = {"clusterNames": ["east"], "exclude": ["west"], "labelSelector": SELECTOR, "fieldSelector": SELECTOR}
OVERRIDE = {"targetCluster": AFFINITY, "overriders": {"plaintext": [{"path": "/spec/replicas", "value": 1}]}}
SAMPLES: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "kube-green": (
        import_kube_green,
        list(
            yaml.safe_load_all(
                sleep_info(excludeRef=[{"matchLabels": {"a": "b"}}, REF], includeRef=[REF], patches=[PATCH])
            )
        )[:1],
    ),
    "karmada": (
        import_karmada,
        [
            DEPLOYMENT,
            an_object("cluster.karmada.io/v1alpha1", "Cluster", "east", {"a": "b"}, zones=["b"], provider="b"),
            karmada(
                priority=1,
                resourceSelectors=[REF, {"kind": "Deployment", "labelSelector": SELECTOR}],
                placement={"clusterAffinity": AFFINITY, "replicaScheduling": weights(east=1)},
            ),
            karmada("OverridePolicy", overrideRules=[OVERRIDE]),
        ],
    ),
    "kubefed": (
        import_kubefed,
        [
            federated(placement={"clusterSelector": SELECTOR}, overrides=[{"clusterName": "east"}]),
            preference(totalReplicas=3, clusters={"east": {"weight": 1}}, intersectWithClusterSelector=True),
        ],
    ),
    "kube-downscaler": (
        partial(import_downscaler, go=False),
        [
            one
            for one in yaml.safe_load_all(
                space(uptime=UP, downtime_replicas="1", grace_period="60") + web(uptime=UP) + controller("--once")
            )
            if one
        ],
    ),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


@pytest.mark.laws
@pytest.mark.parametrize("tool", SAMPLES)
def test_anything_in_any_place_is_policies_or_a_mistake_with_its_line(tmp_path, tool):
    importer, sample = SAMPLES[tool]
    file = tmp_path / "in.yaml"
    cases = list(product(places(sample), ODD))
    made = 0
    for path, odd in cases[:: round(len(cases) / share_of(len(cases))) ** 2]:
        documents = copy.deepcopy(sample)
        inner: Any = documents
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = odd
        file.write_text("\n---\n".join(map(json.dumps, documents)))
        with suppress(PolicyError):
            importer(read_manifests([str(file)], TOOLS[tool][1]))
            made += 1
    assert made


def test_all_mistakes_are_said_at_once_where_they_stand(tmp_path):
    file = tmp_path / "in.yaml"
    file.write_text(sleep_info(weekdays=1, excludeRef=[{"matchLabels": ["green"]}]))
    with pytest.raises(PolicyError) as caught:
        read_manifests([str(file)], EVERY_KIND)
    said = [f"{one.line}:{one.column}: {one.field}: {one.message}" for one in caught.value.problems]
    assert said == [
        "9:5: spec.excludeRef[0].matchLabels: is a list, expected a mapping",
        "12:13: spec.weekdays: is 1, expected a text; put it in quotes",
    ]


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        ("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: '6'}}", "spec.replicas"),
        (
            "{apiVersion: types.kubefed.io/v1beta1, kind: FederatedDeployment, metadata: {name: a}, "
            "spec: {template: {spec: {replicas: '6'}}}}",
            "spec.template.spec.replicas",
        ),
    ],
)
def test_replicas_that_are_no_number_are_a_mistake(tmp_path, manifest, field):
    file = tmp_path / "in.yaml"
    file.write_text(manifest)
    with pytest.raises(PolicyError) as caught:
        read_manifests([str(file)], EVERY_KIND)
    assert [(one.field, one.message) for one in caught.value.problems] == [(field, 'is "6", expected a whole number')]


def test_what_another_tool_reads_may_be_of_any_shape(tmp_path):
    file = tmp_path / "in.yaml"
    file.write_text(sleep_info(weekdays=1) + web(uptime=UP))
    assert [one.kind for one in read_manifests([str(file)], TOOLS["kube-downscaler"][1])] == ["SleepInfo", "Deployment"]


def test_what_the_standard_input_holds_is_read_as_a_file_is(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: \xff\n"), errors="surrogateescape"))
    with pytest.raises(PolicyError, match="standard input:1:4: byte #xff is no UTF-8"):
        read_manifests(["-"], EVERY_KIND)


def test_a_link_that_stays_in_the_folder_is_followed(tmp_path):
    for name in ("base", "team"):
        (tmp_path / name).mkdir()
    (tmp_path / "base" / "in.yaml").write_text(web(uptime=UP))
    (tmp_path / "team" / "in.yaml").symlink_to("../base/in.yaml")
    assert [one.name for one in read_manifests([str(tmp_path)], EVERY_KIND)] == ["web", "web"]


def test_what_a_cluster_lets_through_is_a_mistake_with_its_object():
    selector = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["b"]}]}
    policy = karmada(resourceSelectors=[{"kind": "Deployment", "labelSelector": selector}])
    with pytest.raises(PolicyError) as caught:
        manifests_of("member", [policy])
    assert str(caught.value) == (
        "member/shop: PropagationPolicy web: spec.resourceSelectors[0].labelSelector.matchExpressions[0].operator: "
        'is "Gt", expected one of DoesNotExist, Exists, In, NotIn'
    )
