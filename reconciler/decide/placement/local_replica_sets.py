"""Local ReplicaSets: what a federated ReplicaSet makes of them, and where one differs from that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from reconciler.decide.annotations import Key, compact, placement_owner_text
from reconciler.decide.decisions import FieldChange, annotation_changes
from reconciler.decide.placement.home_config_maps import digest_of
from reconciler.labels import LabelSelector
from reconciler.model import NOTHING, Workload
from reconciler.pod_requests import amount_of
from reconciler.policy.types import FederatedReplicaSet, Fleet

_QUANTITY_FIELDS = frozenset({"limits", "requests", "overhead"})


class Form(Struct, frozen=True):
    """What every local ReplicaSet of one federated ReplicaSet is like, replicas aside."""

    federated: FederatedReplicaSet
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    selector: tuple[Any, ...]

    compared: dict[bytes, tuple[str, ...]] = field(default_factory=dict)  # templates, to what differs in them

    def template_differences(self, workload: Workload) -> tuple[str, ...]:
        """Return the fields of the pod template that differ from the policy, () for none.

        What the policy does not state may be anything: the API server fills in defaults. A policy that states less than
        it did is known by the digest on the workload. Templates that are equal are compared once.
        """
        if workload.template is None:
            return ()
        text, own = msgspec.json.encode(workload.template), self.annotations[Key.POLICY_DIGEST]
        if text not in self.compared:
            self.compared[text] = tuple(_differences(self.federated.template, workload.template, ("template",)))
        changed = workload.annotations.get(Key.POLICY_DIGEST, own) != own
        return self.compared[text] or (("template",) if changed else ())

    def manifest(self, replicas: int, kept: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        """Return a whole local ReplicaSet, with our annotations, and those that are `kept` of the one it replaces."""
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": self.federated.name,
                "namespace": self.federated.namespace,
                "labels": dict(self.labels),
                "annotations": {**kept, **self.annotations},
            },
            "spec": {
                "replicas": replicas,
                **({"minReadySeconds": least} if (least := self.federated.min_ready_seconds) else {}),
                "selector": self.federated.selector,
                "template": self.federated.template,
            },
        }


def form_of(federated: FederatedReplicaSet, fleet: Fleet) -> Form | None:
    """Return the form of the local ReplicaSets of `federated`, None where it only scales what others create."""
    if federated.selector is None or federated.template is None:
        return None
    annotations = {
        **federated.annotations,
        Key.OWNER: placement_owner_text(fleet, federated.key),
        Key.POLICY_DIGEST: digest_of(compact({"selector": federated.selector, "template": federated.template})),
        Key.ON_DELETE: federated.on_delete.lower(),
    }
    labels = {**federated.labels, Key.FEDERATED_LABEL: label_of(federated.name)}
    return Form(federated, labels, annotations, _normal(federated.selector))


def metadata_changes(workload: Workload, form: Form) -> tuple[FieldChange, ...]:
    """Return the changes that bring a local ReplicaSet to its form, replicas and template aside: our annotations, what
    is carried over of the policy's labels and annotations, and minReadySeconds.
    """
    known, wanted = workload.min_ready_seconds, form.federated.min_ready_seconds
    labels = [
        FieldChange(("metadata", "labels", key), workload.labels.get(key), form.labels[key])
        for key in sorted(form.labels)
        if workload.labels.get(key) != form.labels[key]
    ]
    ready = [FieldChange(("spec", "minReadySeconds"), known, wanted or None)] if (known or 0) != wanted else []
    return (*annotation_changes(workload.annotations, form.annotations), *labels, *ready)


def found_manifest(workload: Workload) -> dict[str, Any]:
    """Return the manifest of a local ReplicaSet as observed, so that it can be created again by hand."""
    return {
        "apiVersion": workload.api_version,
        "kind": workload.ref.kind,
        "metadata": {
            "name": workload.ref.name,
            "namespace": workload.ref.namespace,
            "labels": dict(workload.labels),
            "annotations": dict(workload.annotations),
        },
        "spec": {
            "replicas": workload.spec_replicas,
            "selector": _as_in_manifests(workload.selector or LabelSelector()),
            "template": workload.template,
        },
    }


def _as_in_manifests(selector: LabelSelector) -> dict[str, Any]:
    expressions = [
        {"key": expression.key, "operator": expression.operator, "values": list(expression.values)}
        for expression in selector.match_expressions
    ]
    return {"matchLabels": dict(selector.match_labels), "matchExpressions": expressions}


def selector_differs(workload: Workload, form: Form) -> bool:
    """Return whether the local ReplicaSet selects other pods than the policy says; that cannot be changed in place."""
    return workload.selector is not None and _normal(_as_in_manifests(workload.selector)) != form.selector


def _normal(selector: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a selector, as it stands in a manifest, in the form that all have that select the same."""
    expressions = sorted(
        (expression["key"], expression["operator"], tuple(sorted(expression.get("values") or ())))
        for expression in selector.get("matchExpressions") or ()
    )
    return (sorted((selector.get("matchLabels") or {}).items()), expressions)


def _differences(wanted: Any, found: Any, path: tuple[str, ...]) -> Iterator[str]:
    if found is None and not wanted:
        return  # the API server leaves empty values out
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key in sorted(wanted):
            yield from _differences(wanted[key], found.get(key), (*path, key))
    elif isinstance(wanted, list | tuple) and isinstance(found, list | tuple) and len(wanted) == len(found):
        for at, (item, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(item, other, (*path, str(at)))
    elif wanted != found and not _same_quantity(wanted, found, path):
        yield ".".join(path)


def _same_quantity(wanted: Any, found: Any, path: tuple[str, ...]) -> bool:
    """Return whether two values of a resource are the same amount: the API server rewrites 0.5 to 500m."""
    if not _QUANTITY_FIELDS.intersection(path) and path[-1] not in ("sizeLimit", "divisor"):
        return False
    amount = amount_of(str(wanted))
    return amount is not None and amount == amount_of(str(found))


_LABEL_SIZE = 63


def label_of(name: str) -> str:
    """Return the value of the label reconciler/frs for a federated ReplicaSet of that name; at most 63 characters."""
    return name if len(name) <= _LABEL_SIZE else f"{name[:50]}-{digest_of(name)}"
