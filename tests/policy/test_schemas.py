"""The JSON Schemas of the policy kinds: what an editor is told is what the program does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from reconciler.cli.app import run
from reconciler.policy.load import read_policies
from reconciler.policy.schemas import load_schema, schema_folder
from reconciler.policy.types import PolicySet
from reconciler.yaml.reader import read_documents

KINDS = ("Fleet", "IdlingPolicy", "Calendar", "FederatedReplicaSet", "DownscalePolicy", "ReplicaSet", "Deployment")
REPOSITORY = Path(__file__).parents[2]
Schema = Mapping[str, Any]
kinds = pytest.mark.parametrize("kind", KINDS)


# Walking a schema


def resolved(schema: Schema, root: Schema) -> Schema:
    """Return `schema` with its reference followed; what stands beside the reference counts."""
    if "$ref" not in schema:
        return schema
    target = resolved(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


def parts(schema: Schema, root: Schema, path: str = "", above: tuple[str, ...] = ()) -> Iterator[tuple[str, Schema]]:
    """Yield every part of a schema with its path: `a.b`, `[]` for the entries of a list and `.*` for those of a map.

    A definition inside itself is not entered again.
    """
    name = schema.get("$ref", "")
    if name in above:
        return
    inside = resolved(schema, root)
    yield path, inside
    deeper = (*above, name) if name else above
    for field, part in inside.get("properties", {}).items():
        yield from parts(part, root, f"{path}.{field}" if path else field, deeper)
    if "items" in inside:
        yield from parts(inside["items"], root, f"{path}[]", deeper)
    if isinstance(inside.get("additionalProperties"), dict):
        yield from parts(inside["additionalProperties"], root, f"{path}.*", deeper)


@lru_cache
def all_parts(kind: str) -> dict[str, Schema]:
    return dict(parts(load_schema(kind), load_schema(kind)))


def every_ref(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from every_ref(value)
    if isinstance(node, list):
        for value in node:
            yield from every_ref(value)


# What every schema is


@kinds
def test_it_is_a_schema_of_draft_2020_12(kind):
    schema = load_schema(kind)  # checked as a part of that of all kinds, below
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (schema["$id"], schema["title"]) == (f"urn:reconciler:v1alpha1:{kind}", kind)
    assert schema["properties"]["kind"]["const"] == kind
    assert schema["required"] == ["apiVersion", "kind", "metadata", "spec"]


@kinds
def test_it_stands_alone_and_holds_nothing_unused(kind):
    schema = load_schema(kind)
    defined = {f"#/$defs/{name}" for name in schema.get("$defs", {})}
    unused = {"#/$defs/preferences", "#/$defs/clusterPreference"} if kind == "ReplicaSet" else set()
    assert set(every_ref(schema)) | unused == defined | unused


@kinds
def test_every_field_is_described_in_whole_sentences(kind):
    fields = [(path, part) for path, part in all_parts(kind).items() if path and not path.endswith(("[]", ".*"))]
    wrong = [path for path, part in fields if not part.get("description", "").strip().endswith(".")]
    assert wrong == []


OPEN = {
    "Deployment": {"metadata", "spec"},
    "FederatedReplicaSet": {
        "spec.template",
        "spec.template.metadata",
        "spec.template.spec",
        "spec.template.spec.containers[]",
    },
    "ReplicaSet": {
        "metadata",
        "metadata.annotations",
        "spec.template",
        "spec.template.metadata",
        "spec.template.spec",
        "spec.template.spec.containers[]",
    },
}
"""Where Kubernetes decides which fields there are."""


@kinds
def test_a_misspelt_field_is_found_wherever_fields_are_ours(kind):
    with_fields = {path for path, part in all_parts(kind).items() if "properties" in part}
    closed = {path for path in with_fields if all_parts(kind)[path].get("additionalProperties") is False}
    assert with_fields - closed <= OPEN.get(kind, set())


@kinds
def test_no_field_takes_just_anything(kind):
    free = [
        path
        for path, part in all_parts(kind).items()
        if path.startswith("spec") and not {"type", "const", "enum"} & part.keys()
    ]
    assert free == []


# Defaults


@kinds
def test_every_default_is_valid_itself(kind):
    root = load_schema(kind)
    for path, part in all_parts(kind).items():
        if "default" in part:
            whole = Draft202012Validator({**part, "$defs": root.get("$defs", {})})
            assert [error.message for error in whole.iter_errors(part["default"])] == [], path


def spelt_out(value: Any, schema: Schema, root: Schema) -> Any:
    """Return `value` with every default of its schema written into it."""
    inside = resolved(schema, root)
    if isinstance(value, list):
        return [spelt_out(entry, inside.get("items", {}), root) for entry in value]
    if not isinstance(value, dict):
        return value
    fields = inside.get("properties", {})
    defaults = {
        name: resolved(part, root)["default"] for name, part in fields.items() if "default" in resolved(part, root)
    }
    rest = inside.get("additionalProperties")
    entries = rest if isinstance(rest, dict) else {}
    return {name: spelt_out(entry, fields.get(name, entries), root) for name, entry in {**defaults, **value}.items()}


LEAST = {
    "Fleet": {"home": "east", "clusters": [{"name": "east"}, {"name": "west", "prometheus": {"url": "http://p:9090"}}]},
    "Calendar": {"timeZone": "UTC", "downtime": ["Mon 20:00-22:00"]},
    "IdlingPolicy": {
        "selector": {"services": {}, "workloads": {}},
        "idleWhen": [{"metric": {"query": "idle"}}, {"schedule": {"calendar": "least"}}],
        "wakeWhen": [{"metric": {"query": "busy"}}],
    },
    "FederatedReplicaSet": {"replicas": 3, "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    "DownscalePolicy": {
        "selector": {"workloads": {}},
        "target": {"replicas": 2},
        "podPicker": {"http": {"host": "p.svc"}},
    },
}


def least(kind: str) -> dict[str, Any]:
    return {"apiVersion": "reconciler/v1alpha1", "kind": kind, "metadata": {"name": "least"}, "spec": LEAST[kind]}


def read(folder: Path, documents: list[dict[str, Any]]) -> PolicySet:
    """Return the policies of `documents`, one on each line, without what tells how they were written."""
    (folder / "all.yaml").write_text("".join(f"---\n{json.dumps(document)}\n" for document in documents))
    found = read_policies(folder)
    federated = tuple(replace(one, digest="", limits_place=None) for one in found.federated)
    idling, downscale = (
        tuple(replace(one, limits_place=None) for one in kind) for kind in (found.idling, found.downscale)
    )
    warnings = tuple(replace(one, column=0) for one in found.warnings)
    return replace(
        found, federated=federated, idling=idling, downscale=downscale, warnings=warnings, digest="", specs={}
    )


def test_defaults_written_out_change_nothing(tmp_path):
    """So each of them is the one that the program has."""
    short = [least(kind) for kind in LEAST]
    spelt = [spelt_out(document, load_schema(document["kind"]), load_schema(document["kind"])) for document in short]
    assert spelt != short
    assert read(tmp_path, short) == read(tmp_path, spelt)


# Where they are


def written(name: str) -> Any:
    return json.loads((schema_folder() / name).read_text())


def test_those_for_editors_are_schemas_and_each_has_an_id_of_its_own():
    for name in ("policytest", "policy"):
        schema = written(f"{name}.schema.json")
        Draft202012Validator.check_schema(schema)
        assert schema["$id"].startswith("urn:reconciler:v1alpha1:Policy")
    ids = [json.loads(file.read_text())["$id"] for file in schema_folder().glob("*.schema.json")]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "address", ["https://example.com/schemas", "http://127.0.0.1:8080/a/b/", "https://example.com"]
)
def test_a_catalog_has_what_schemastore_wants_and_names_files_that_are_there(address, capsys):
    """Source: SchemaStore/schemastore src/schemas/json/schema-catalog.json: closed, with absolute addresses."""
    assert run(["schema", "catalog", "--url", address]) == 0
    catalog = json.loads(capsys.readouterr().out)
    assert catalog.keys() == {"$schema", "version", "schemas"}
    assert (catalog["version"], catalog["$schema"]) == (1, "https://www.schemastore.org/schema-catalog.json")
    for one in catalog["schemas"]:
        assert one.keys() == {"name", "description", "fileMatch", "url"}
        folder, _, file = one["url"].rpartition("/")
        assert folder == address.rstrip("/")
        assert (schema_folder() / file).is_file()
        assert all(pattern.startswith("*.") for pattern in one["fileMatch"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["catalog"], "--url: is missing, expected where the schemas are served", id="nowhere"),
        pytest.param(["catalog", "--url", "schemas"], "--url: is no address of a folder", id="relative"),
        pytest.param(["catalog", "--url", "https://a/?x"], "--url: is no address of a folder", id="a query"),
        pytest.param(["Fleet", "--url", "https://a"], "--url: stands beside a kind", id="a kind"),
    ],
)
def test_a_catalog_that_no_editor_can_use_is_refused(arguments, words, capsys):
    assert run(["schema", *arguments]) == 64
    assert words in capsys.readouterr().err


def test_the_schema_of_any_kind_is_printed_too(capsys):
    assert run(["schema", "policy"]) == 0
    assert json.loads(capsys.readouterr().out) == written("policy.schema.json")


EDITED = [
    *sorted((REPOSITORY / "policies").rglob("*.yaml")),
    *sorted((REPOSITORY / "examples" / "quickstart" / "policies").rglob("*.yaml")),
]
LINE = "# yaml-language-server: $schema="


@pytest.mark.parametrize("file", EDITED, ids=lambda file: file.relative_to(REPOSITORY).as_posix())
def test_an_example_names_the_schema_that_it_meets(file):
    first, *_ = file.read_text().splitlines()
    assert first.startswith(LINE)
    schema = (file.parent / first.removeprefix(LINE)).resolve()
    assert schema == schema_folder() / f"{'policytest' if file.stem.endswith('_test') else 'policy'}.schema.json"
    validator = Draft202012Validator(json.loads(schema.read_text()))
    for document in read_documents(str(file), file.read_text()).found:
        assert [error.message for error in validator.iter_errors(document.value)] == []


@pytest.mark.parametrize(
    ("old", "new"), [("kind: IdlingPolicy", "kind: Idling"), ("anyOf:", "any:"), ("stage: dev", "stage: [dev]")]
)
def test_the_schema_for_editors_refuses_what_validate_refuses(old, new):
    text = (REPOSITORY / "policies" / "idling" / "dev.yaml").read_text()
    assert old in text
    validator = Draft202012Validator(written("policy.schema.json"))
    found = read_documents("x", text.replace(old, new, 1)).found
    assert [error for document in found for error in validator.iter_errors(document.value)]


IN_A_WHEEL = """
import sys
from reconciler.policy.schemas import load_schema, schema_folder
assert "jsonschema" not in sys.modules
print(schema_folder())
print(load_schema("Fleet")["title"])
"""


def test_in_a_wheel_they_are_inside_the_package(tmp_path):
    package = tmp_path / "reconciler"
    (package / "policy").mkdir(parents=True)
    for name in ("__init__.py", "errors.py", "policy/__init__.py", "messages.py", "policy/schemas.py"):
        shutil.copy(REPOSITORY / "reconciler" / name, package / name)
    shutil.copytree(REPOSITORY / "schemas", package / "schemas")
    command = [sys.executable, "-c", IN_A_WHEEL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([str(package / "schemas"), "Fleet"], "")
