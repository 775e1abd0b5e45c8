"""A FederatedReplicaSet, or the seed's annotated ReplicaSet -> FederatedReplicaSet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from reconciler.errors import Problem
from reconciler.labels import LabelSelector
from reconciler.policy.build_picker import build_picker, check_pickable
from reconciler.policy.build_selector import kind_fault
from reconciler.policy.building import Reading
from reconciler.policy.shape import shape_problems
from reconciler.policy.types import ClusterPreference, FederatedReplicaSet, TargetRef
from reconciler.yaml.documents import Document
from reconciler.yaml.reader import MAX_DEPTH
from reconciler.yaml.words import Path, dotted, shown

PREFERENCES = "federation.kubernetes.io/replica-set-preferences"
_ANNOTATION: Path = ("metadata", "annotations", PREFERENCES)
_EVERYWHERE = {"*": ClusterPreference(weight=1)}
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_BOOKKEEPING = (
    "reconciler/",
    "idling.kubernetes.io/",
    "federation.kubernetes.io/",
    "kubectl.kubernetes.io/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "meta.helm.sh/",
)
"""Starts of annotations that must not be copied: a copy of them would be taken for the object they are about."""
_NOT_OURS = ("status", "creationTimestamp", "resourceVersion", "uid", "generation", "managedFields")


def build_federated(reading: Reading) -> FederatedReplicaSet:
    """Return the policy of a FederatedReplicaSet document."""
    spec: Path = ("spec",)
    selector, template = reading.get((*spec, "selector")), reading.get((*spec, "template"))
    policy = FederatedReplicaSet(
        name=reading.name,
        namespace=str(reading.get(("metadata", "namespace"), "default")),
        place=reading.place,
        replicas=reading.whole((*spec, "replicas"), 1),
        rebalance=reading.get((*spec, "preferences", "rebalance"), False),
        clusters=_preferences(reading, (*spec, "preferences", "clusters")),
        rounding=reading.get((*spec, "rounding"), "Fair"),
        paused=reading.get((*spec, "paused"), False),
        unschedulable_after=reading.duration((*spec, "unschedulableAfter"), timedelta(minutes=5)),
        waiting_replicas=reading.whole((*spec, "waitingReplicas"), 2),
        cluster_grace_period=reading.duration((*spec, "clusterGracePeriod"), timedelta(minutes=10)),
        progress_deadline=reading.duration((*spec, "progressDeadline"), timedelta(minutes=10)),
        on_conflict=reading.get((*spec, "onConflict"), "Overwrite"),
        on_delete=reading.get((*spec, "onDelete"), "Orphan"),
        selector=selector,
        template=template,
        target=_target(reading, (*spec, "targetRef")),
        min_ready_seconds=reading.whole((*spec, "minReadySeconds"), 0),
        labels=reading.labels(("metadata", "labels")),
        annotations=_carried_annotations(reading),
        pod_picker=build_picker(reading, (*spec, "downscalePodPicker")),
        digest=document_digest(reading.document.value),
    )
    _check_form(reading, policy)
    return policy


def build_replica_set(reading: Reading) -> FederatedReplicaSet:
    """Return the policy of a plain ReplicaSet whose annotation holds the preferences.

    Problems of the JSON inside the annotation are reported at the annotation's line.
    """
    selector, template = reading.get(("spec", "selector")), reading.get(("spec", "template"))
    preferences = _annotation(reading)
    policy = FederatedReplicaSet(
        name=reading.name,
        namespace=str(reading.get(("metadata", "namespace"), "default")),
        place=reading.place,
        replicas=reading.whole(("spec", "replicas"), 1),
        rebalance=preferences.get(("rebalance",), False),
        clusters=_preferences(preferences, ("clusters",)),
        selector=selector,
        template=template,
        min_ready_seconds=reading.whole(("spec", "minReadySeconds"), 0),
        labels=reading.labels(("metadata", "labels")),
        annotations=_carried_annotations(reading),
        pod_picker=build_picker(reading, ("spec", "downscalePodPicker")),
        digest=document_digest({key: value for key, value in reading.document.value.items() if key not in _NOT_OURS}),
    )
    reading.problems += [_inside(problem) for problem in preferences.problems]
    reading.warnings += preferences.warnings
    _check_form(reading, policy)
    return policy


def _carried_annotations(reading: Reading) -> dict[str, str]:
    """Return the annotations that local ReplicaSets get too: not those by which a tool knows what it made itself."""
    return {
        key: text
        for key, text in reading.labels(("metadata", "annotations")).items()
        if not key.startswith(_BOOKKEEPING)
    }


def document_digest(value: Any) -> str:
    """Return the first 12 hex digits of the SHA-256 of a document's values, whatever its layout."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _inside(problem: Problem) -> Problem:
    field = f"{dotted(_ANNOTATION)}: {problem.field}" if problem.field else dotted(_ANNOTATION)
    return replace(problem, field=field)


def _annotation(reading: Reading) -> Reading:
    """Return what the annotation says, as a document of its own; of what cannot be read, an empty one."""
    value: Any = {}
    try:
        value = _lower(_json(reading.get(_ANNOTATION, "{}")))
    except ValueError as error:
        reading.add(_ANNOTATION, f"is no JSON: {error}")
    inside = Reading(Document(reading.document.file, value, *reading.document.place(_ANNOTATION)))
    inside.problems += shape_problems(inside.document, "ReplicaSet", "preferences")
    return inside


def _json(text: str) -> Any:
    """Return what `text` says. How deep the parser itself can go depends on the interpreter's release.

    Raises:
        ValueError: it is no JSON, or nested more deeply than a policy may be.
    """
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inside for one in level for inside in _inside_of(one)]
    if level:
        raise ValueError(_TOO_DEEP)
    return value


def _inside_of(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{shown(key)} is given twice, expected once")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


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
    return _without_repeats([(key[:1].lower() + key[1:], value) for key, value in fields.items()])


def _preferences(reading: Reading, path: Path) -> Mapping[str, ClusterPreference]:
    given = reading.get(path)
    if not given:
        return _EVERYWHERE
    found = {str(name): _preference(reading, (*path, name)) for name in given}
    if not any(one.weight or one.min_replicas for one in found.values()) and reading.document.is_judged(path):
        reading.warn(path, "gives no cluster a weight or a minimum, so no replica will run anywhere")
    if "*" in found and found["*"].weight:
        for name in given:
            if reading.get((*path, name, "weight")) is None and reading.document.is_judged((*path, name)):
                reading.warn((*path, name), "has no weight beside a * that has one, so it holds its minimum only")
    return found


def _preference(reading: Reading, path: Path) -> ClusterPreference:
    least = reading.whole((*path, "minReplicas"), 0)
    most = None if reading.get((*path, "maxReplicas")) is None else reading.whole((*path, "maxReplicas"), 0)
    if most is not None and most < least:
        reading.add((*path, "maxReplicas"), f'is "{most}", expected at least minReplicas, which is "{least}"')
    return ClusterPreference(least, most, reading.whole((*path, "weight"), 0))


def _target(reading: Reading, path: Path) -> TargetRef | None:
    if reading.get(path) is None:
        return None
    target = TargetRef(*(str(reading.get((*path, field), "")) for field in ("apiVersion", "kind", "name")))
    fault = kind_fault(target.kind)
    if target.kind in ("CronJob", "ScaledObject"):
        fault = "expected a kind whose replicas can be spread, like Deployment"
    if fault is not None:
        reading.add((*path, "kind"), f"is {shown(target.kind)}, {fault}")
    return target


def _check_form(reading: Reading, policy: FederatedReplicaSet) -> None:
    own = [name for name in ("selector", "template") if reading.get(("spec", name)) is not None]
    if policy.target is not None and policy.pod_picker is not None:
        check_pickable(reading, ("spec", "targetRef", "kind"), policy.target.kind, "downscalePodPicker")
    if policy.target is not None and own:
        reading.add(
            ("spec", own[0]), "is beside targetRef, expected either targetRef, or selector and template", key=True
        )
        return
    if policy.target is not None:
        return
    for name in ("selector", "template"):
        if name not in own:
            reading.add(("spec", name), "is missing, expected selector and template, or targetRef")
    if len(own) == 2:
        _check_template(reading)


def _check_template(reading: Reading) -> None:
    selector: LabelSelector = reading.label_selector(("spec", "selector"))
    labels = reading.labels(("spec", "template", "metadata", "labels"))
    if selector.empty:
        reading.add(("spec", "selector"), "selects everything, expected labels of the template")
    elif not selector.matches(labels):
        reading.add(
            ("spec", "template", "metadata", "labels"), "do not match spec.selector, expected labels that it selects"
        )
