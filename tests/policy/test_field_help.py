"""What `reconciler explain KIND.field` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from reconciler.errors import UsageError
from reconciler.policy.field_help import explain_field, fields
from reconciler.policy.schemas import load_schema

KINDS = (
    *("Fleet", "IdlingPolicy", "Calendar", "FederatedReplicaSet", "DownscalePolicy", "ReplicaSet", "Deployment"),
    *("PolicyTest", "Plan", "Report", "Change"),
)

MODE = """\
KIND:     DownscalePolicy
FIELD:    spec.mode <string>
ONE OF:   Enforce, Observe
DEFAULT:  "Enforce"

DESCRIPTION:
    mode is Enforce, or Observe. Changes of a policy in mode Observe are planned and reported, but
    never applied.
"""
CLUSTERS = """\
KIND:     FederatedReplicaSet
FIELD:    spec.preferences.clusters <map of object>
DEFAULT:  {"*": {"weight": 1}}

DESCRIPTION:
    clusters are the preferences by the name of the cluster. "*" stands for every cluster that is
    not listed. Without "*" those clusters get no replicas.

FIELDS:
    * <object>  The replicas that a cluster may have.
"""
METRIC = """\
KIND:     IdlingPolicy
FIELD:    spec.wakeWhen.metric <object>

DESCRIPTION:
    metric is met while the value of a query is greater than above.

FIELDS:
    query <string> -required-  query is a PromQL query.
    above <number>             above is the greatest value that does not wake.
    window <string>            window is the range that replaces {{ window }} in the query.
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("DownscalePolicy.spec.mode", MODE, id="one of several words"),
        pytest.param("FederatedReplicaSet.spec.preferences.clusters", CLUSTERS, id="a map"),
        pytest.param("IdlingPolicy.spec.wakeWhen.metric", METRIC, id="fields, through a list"),
    ],
)
def test_a_field_is_explained(path, expected):
    assert explain_field(path) == expected


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param("Fleet.spec.clusters.name", "FIELD:    spec.clusters.name <string>", id="inside a list"),
        pytest.param(
            "Fleet.spec.clusters[0].name", "FIELD:    spec.clusters.name <string>", id="at an index of a list"
        ),
        pytest.param("Fleet.spec.clusters", "FIELD:    spec.clusters <list of object>", id="a list"),
        pytest.param("Fleet.metadata.labels", "FIELD:    metadata.labels <map of string>", id="a map of texts"),
        pytest.param(
            "FederatedReplicaSet.spec.preferences.clusters.*.weight",
            "FIELD:    spec.preferences.clusters.*.weight <integer>",
            id="inside a map",
        ),
        pytest.param(
            "FederatedReplicaSet.spec.preferences.clusters.weight",
            "FIELD:    spec.preferences.clusters.weight <integer>",
            id="inside a map, without a name",
        ),
        pytest.param(
            "FederatedReplicaSet.spec.preferences.clusters.eu-west.maxReplicas",
            "FIELD:    spec.preferences.clusters.eu-west.maxReplicas <integer or null>",
            id="inside a map, under a name",
        ),
        pytest.param(
            "IdlingPolicy.spec.idleWhen.anyOf.allOf.schedule",
            "FIELD:    spec.idleWhen.anyOf.allOf.schedule <object>",
            id="inside itself",
        ),
        pytest.param("Plan.actions.replicas", "FIELD:    actions.replicas <object or null>", id="something or null"),
    ],
)
def test_a_path_goes_through_lists_maps_and_references(path, line):
    assert line in explain_field(path).splitlines()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param(
            "IdlingPolicy.spec.idleReplica",
            'IdlingPolicy.spec: has no field "idleReplica", did you mean "idleReplicas"?',
            id="misspelt",
        ),
        pytest.param(
            "Fleet.spec.clusters.lables",
            'Fleet.spec.clusters: has no field "lables", did you mean "labels"?',
            id="misspelt inside a list",
        ),
        pytest.param(
            "fleet.zzz",
            'Fleet: has no field "zzz", expected one of apiVersion, kind, metadata, spec',
            id="nothing is near",
        ),
        pytest.param(
            "IdlingPolicy.spec.idleReplicas.x",
            'IdlingPolicy.spec.idleReplicas: has no field "x", expected none: it is a single value',
            id="below a single value",
        ),
        pytest.param(
            "IdlingPolicy.",
            'IdlingPolicy: has no field "", expected one of apiVersion, kind, metadata, spec',
            id="empty",
        ),
        pytest.param(
            "IdlePolicy.spec",
            f'"IdlePolicy" is no kind, expected one of {", ".join(KINDS)}, did you mean "IdlingPolicy"?',
            id="misspelt kind",
        ),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(path, message):
    with pytest.raises(UsageError) as refused:
        explain_field(path)
    assert str(refused.value) == message


def every_way(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the way to every field; what holds itself is followed down to the eighth level."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for name, part in schema.get("properties", {}).items():
        yield (name,)
        if depth < 8:
            yield from ((name, *rest) for rest in every_way(part, root, depth + 1))
    if isinstance(schema.get("items"), dict):
        yield from every_way(schema["items"], root, depth)


@pytest.mark.parametrize("kind", KINDS)
def test_every_listed_field_is_explained_with_the_same_words(kind):
    rows = fields(kind)
    assert len({row.path for row in rows}) == len(rows) > 5
    for row in (one for one in rows if "kubernetes.io/" not in one.path):  # a key with dots cannot be asked for
        text = explain_field(f"{kind}.{row.path}")
        assert f"FIELD:    {row.path} <{row.type}>\n" in text
        assert (f"DEFAULT:  {row.default}\n" in text) == (row.default is not None)
        assert " ".join(row.description.split()) in " ".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
def test_no_type_is_named_twice(kind):
    assert [row for row in fields(kind) if len(set(row.type.split(" or "))) < len(row.type.split(" or "))] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_can_be_explained_is_listed(kind):
    """A field inside itself, like a criterion of anyOf, is listed once; labels and other maps of texts as a whole."""
    schema = load_schema(kind)
    ways = [way for way in every_way(schema, schema) if not {"anyOf", "allOf"} & set(way[:-1])]
    assert {".".join(way) for way in ways} <= {row.path for row in fields(kind)}
