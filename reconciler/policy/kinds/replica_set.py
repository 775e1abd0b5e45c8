"""The seed's form of a federated ReplicaSet: a plain ReplicaSet whose annotation holds the preferences as JSON."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import replace

from reconciler.errors import Problem
from reconciler.messages import Path, dotted, nearest_of
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.document_fields import read
from reconciler.policy.kinds.federated_replica_set import (
    MIN_READY_SECONDS,
    NAMESPACE,
    POD_PICKER,
    REPLICAS,
    FederatedMetadataFields,
    FederatedReplicaSet,
    FederatedReplicaSetSpec,
    PodTemplateFields,
    Preferences,
    check_preferences,
    policy_of,
)
from reconciler.policy.kinds.fields import KIND, Fields, Labels, Name, NamespaceName, Replicas, expected, from_fields
from reconciler.policy.kinds.pod_picker import PodPickerFields
from reconciler.policy.kinds.selector import LabelSelectorFields
from reconciler.untrusted_text import strict_json, unrepeated
from reconciler.yaml.documents import Document
from reconciler.yaml.reader import MAX_DEPTH

PREFERENCES = "federation.kubernetes.io/replica-set-preferences"
ANNOTATION: Path = ("metadata", "annotations", PREFERENCES)
PRODUCTION = "reconciler/production"
PRODUCTION_ANNOTATION: Path = ("metadata", "annotations", PRODUCTION)
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_NOT_OURS = ("status", "creationTimestamp", "resourceVersion", "uid", "generation", "managedFields")
EVENLY = '{"clusters": {"*": {"weight": 1}}}'
"""The preferences of a ReplicaSet that states none. Source: seed federated-replicasets.md, "The default behavior"."""
_MISSPELT = 0.9  # how like the name of an annotation is to that of the preferences, for it to be meant
_AS_JSON = 'the preferences as JSON, like {"clusters": {"*": {"weight": 1}}}'
_BY_THE_SERVER = Meta(description="Set by the API server. It is ignored.")
_Ignored = Annotated[Any, _BY_THE_SERVER]


class _ReplicaSetMetadataFields(Fields, frozen=True, kw_only=True):
    """The name of a ReplicaSet, and its preferences."""

    name: Name
    """name is the name of the local ReplicaSets too."""
    namespace: Annotated[NamespaceName, NAMESPACE] = "default"
    labels: Labels = field(default_factory=dict)
    """labels are set on the local ReplicaSets."""
    annotations: Annotated[
        dict[str, str],
        Meta(
            extra_json_schema={
                "properties": {
                    PREFERENCES: {
                        "description": "JSON with rebalance and clusters, as preferences of a FederatedReplicaSet. "
                        "If it is not set, all clusters get the same number of replicas.",
                        "type": "string",
                        **expected(_AS_JSON),
                    },
                    PRODUCTION: {
                        "description": 'As production of a FederatedReplicaSet: "true" or "false".',
                        "enum": ["true", "false"],
                    },
                },
                **expected("a mapping of texts"),
            }
        ),
    ] = field(default_factory=dict)
    """annotations hold the preferences. The others are set on the local ReplicaSets, except those of kubectl, Argo CD,
    Flux, Helm and the reconciler."""
    creation_timestamp: _Ignored = None
    deletion_grace_period_seconds: _Ignored = None
    deletion_timestamp: _Ignored = None
    finalizers: _Ignored = None
    generate_name: _Ignored = None
    generation: _Ignored = None
    managed_fields: _Ignored = None
    owner_references: _Ignored = None
    resource_version: _Ignored = None
    self_link: _Ignored = None
    uid: _Ignored = None


class _ReplicaSetFields(Fields, frozen=True, kw_only=True):
    """The replicas of a ReplicaSet, and their pods."""

    replicas: Annotated[Replicas, REPLICAS] = 1
    min_ready_seconds: Annotated[Replicas, MIN_READY_SECONDS] = 0
    selector: LabelSelectorFields
    """selector selects the pods."""
    template: PodTemplateFields
    """template is the pod template."""
    pod_picker: Annotated[PodPickerFields | UnsetType, POD_PICKER] = field(name="downscalePodPicker", default=UNSET)


class ReplicaSetDocument(Fields, frozen=True, kw_only=True):
    """A ReplicaSet with preferences is another form of a FederatedReplicaSet."""

    api_version: Literal["apps/v1"]
    """apiVersion is that of a ReplicaSet."""
    kind: Annotated[Literal["ReplicaSet"], KIND]
    metadata: _ReplicaSetMetadataFields
    """metadata names the ReplicaSet."""
    spec: _ReplicaSetFields
    """spec states how many replicas run, and of what."""
    status: _Ignored = None


def replica_set_of(document: PolicyDocument, fields: ReplicaSetDocument) -> FederatedReplicaSet:
    """Return the policy; `document` gets the spec of a FederatedReplicaSet that says the same.

    Problems of the JSON inside the annotation are reported at the annotation's line.
    """
    metadata = fields.metadata
    for key in () if PREFERENCES in metadata.annotations else metadata.annotations:
        if nearest_of(key.rpartition("/")[2], (PREFERENCES.rpartition("/")[2],), likeness=_MISSPELT):
            document.add((*ANNOTATION[:-1], key), f'unknown annotation, did you mean "{PREFERENCES}"?', key=True)
    inside = _annotation(document, metadata.annotations.get(PREFERENCES))
    preferences = read(inside, "ReplicaSet", Preferences, "preferences")
    check_preferences(inside, ("clusters",), preferences)
    document.problems += [_at_annotation(problem) for problem in inside.problems]
    document.warnings += inside.warnings
    production = metadata.annotations.get(PRODUCTION) == "true"
    spec = from_fields(FederatedReplicaSetSpec, fields.spec, production=production, preferences=preferences)
    named = from_fields(FederatedMetadataFields, metadata)
    stated = {key: value for key, value in document.source.value.items() if key not in _NOT_OURS}
    document.spec = spec
    return policy_of(document, named, spec, stated)


def _at_annotation(problem: Problem) -> Problem:
    field = f"{dotted(ANNOTATION)}: {problem.field}" if problem.field else dotted(ANNOTATION)
    return replace(problem, field=field)


def _annotation(document: PolicyDocument, text: str | None) -> PolicyDocument:
    """Return what the annotation says, or would by default, as a document of its own; of what cannot be read an empty
    one.
    """
    value: Any = {}
    try:
        value = _lower(_json(EVENLY if text is None else text))
    except ValueError as error:
        document.add(ANNOTATION, f"is no JSON: {error}")
    return PolicyDocument(Document(document.source.file, value, *document.source.place(ANNOTATION)))


def _json(text: str) -> Any:
    """Return what `text` says. How deep the parser itself can go depends on the interpreter's release.

    Raises:
        ValueError: it is no JSON, or nested more deeply than a policy may be.
    """
    try:
        value = strict_json(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inside for outer in level for inside in _inside_of(outer)]
    if level:
        raise ValueError(_TOO_DEEP)
    return value


def _inside_of(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _lower(value: Any) -> Any:
    """Return preferences with the spelling of Go's field names (`Weight`) as that of JSON (`weight`)."""
    if not isinstance(value, dict):
        return value
    top = _uncapitalised(value)
    clusters = top.get("clusters")
    if isinstance(clusters, dict):
        top["clusters"] = {
            name: _uncapitalised(entry) if isinstance(entry, dict) else entry for name, entry in clusters.items()
        }
    return top


def _uncapitalised(fields: dict[str, Any]) -> dict[str, Any]:
    return unrepeated([(key[:1].lower() + key[1:], value) for key, value in fields.items()])
