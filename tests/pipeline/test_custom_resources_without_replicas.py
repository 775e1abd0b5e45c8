"""A custom resource without the map its replicas would stand in: nobody can scale it, and the plan says so."""

from __future__ import annotations

import yaml

from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, idling

NIGHT = "2026-11-20T22:00:00Z"
POLICIES = documents(fleet(["east"], name="one"), idling("namespaces: {include: [shop]}, workloads: {kinds: [Pool]}"))
SCALE = {"specReplicasPath": ".spec.pool.size", "statusReplicasPath": ".status.size"}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "pools.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "pools", "kind": "Pool"},
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"scale": SCALE}}],
    },
}


@cases(
    "given missing",
    ("no spec", {}, "it has no spec, where its replicas would stand"),
    ("an empty spec", {"spec": {}}, "it has no spec.pool, where its replicas would stand"),
    ("null", {"spec": {"pool": None}}, "it has no spec.pool, where its replicas would stand"),
    ("another type", {"spec": {"pool": [3]}}, "spec.pool is a list, expected a mapping with its replicas"),
    (
        "more than the API server takes",
        {"spec": {"pool": {"size": 1 << 31}}},
        "spec.pool.size is 2147483648, expected a number from 0 to 2147483647",
    ),
    (
        "less than the API server takes",
        {"spec": {"pool": {"size": -1}}},
        "spec.pool.size is -1, expected a number from 0 to 2147483647",
    ),
    ("the map, empty: one replica", {"spec": {"pool": {}}}, ""),
)
def test_what_has_no_place_for_its_replicas_is_undecided(tmp_path, given, missing):
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", POLICIES)
    pool = {"apiVersion": "example.com/v1", "kind": "Pool", "metadata": {"name": "web", "namespace": "shop"}, **given}
    folder.write("snapshot/east/objects.yaml", yaml.safe_dump_all([DEFINITION, pool]))
    said = folder.plan(NIGHT, "--detailed-exitcode")
    if not missing:
        assert said.code == 2
        assert folder.apply(NIGHT).code == 0
        assert folder.plan(NIGHT, "--detailed-exitcode").code == 0
        return
    assert said.code == 0
    assert f"? east/shop/Pool/web  {missing} (" in said.out


def test_a_deployment_in_a_file_without_spec_is_undecided(tmp_path):
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", POLICIES.replace("[Pool]", "[Deployment]"))
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    folder.write("snapshot/east/objects.yaml", yaml.safe_dump(web))
    said = folder.plan(NIGHT, "--detailed-exitcode")
    assert (said.code, folder.apply(NIGHT).code) == (0, 0)
    assert "? east/shop/Deployment/web  it has no spec, where its replicas would stand (" in said.out
