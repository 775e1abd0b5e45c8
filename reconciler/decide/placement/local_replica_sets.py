"""Local ReplicaSets: whose they are, what they are made of, where one differs from its policy, and their pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct, field

from reconciler.decide.annotations import (
    FEDERATED_LABEL,
    ON_DELETE,
    OWNER,
    PLACED,
    POLICY_DIGEST,
    compact,
    placement_owner,
    placement_owner_text,
)
from reconciler.decide.decisions import FieldChange, annotation_changes
from reconciler.decide.placement.home import digest_of
from reconciler.decide.workloads import is_lagging
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.model import NOTHING, Pod, Workload
from reconciler.pod_requests import amount_of
from reconciler.policy.types import FederatedReplicaSet, Fleet

_QUANTITY_FIELDS = frozenset({"limits", "requests", "overhead"})


def is_ours(workload: Workload, federated: FederatedReplicaSet, fleets: frozenset[str]) -> bool:
    """Return whether `workload` carries our annotations for `federated`; `fleets` are the Fleet names that are ours."""
    owner = placement_owner(workload.annotations)
    if owner is not None:
        return owner[0] in fleets and owner[1] == federated.key
    return workload.labels.get(FEDERATED_LABEL) == label_of(federated.name) and POLICY_DIGEST in workload.annotations


def names_another(workload: Workload, federated: FederatedReplicaSet, fleets: frozenset[str]) -> str:
    """Return the owner that the annotations of `workload` name where it is another federated ReplicaSet, "" else."""
    owner = placement_owner(workload.annotations)
    if owner is None or (owner[0] in fleets and owner[1] == federated.key):
        return ""
    return workload.annotations[OWNER]


def is_about(federated: FederatedReplicaSet, cluster: str, workload: Workload | None, fleets: frozenset[str]) -> bool:
    """Return whether `federated` says anything of `workload` (None: of what is not there) on `cluster`: where its
    preferences do not name the cluster, only of what it made there itself.
    """
    if not federated.is_on(cluster):
        return False
    if workload is None or federated.preference(cluster) is not None:
        return True
    return is_ours(workload, federated, fleets) and PLACED not in workload.annotations


def may_place(federated: FederatedReplicaSet, workload: Workload, fleets: frozenset[str]) -> bool:
    """Return whether `federated` may scale `workload`, whose it may have been: with a target always, else only what is
    its own, or what it may adopt.
    """
    if federated.target is not None or is_ours(workload, federated, fleets):
        return True
    return federated.on_conflict != "Abort" and not names_another(workload, federated, fleets)


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
        text, own = msgspec.json.encode(workload.template), self.annotations[POLICY_DIGEST]
        if text not in self.compared:
            self.compared[text] = tuple(_differences(self.federated.template, workload.template, ("template",)))
        changed = workload.annotations.get(POLICY_DIGEST, own) != own
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
        OWNER: placement_owner_text(fleet, federated.key),
        POLICY_DIGEST: digest_of(compact({"selector": federated.selector, "template": federated.template})),
        ON_DELETE: federated.on_delete.lower(),
    }
    labels = {**federated.labels, FEDERATED_LABEL: label_of(federated.name)}
    return Form(federated, labels, annotations, _normal(_selector_of(federated.selector)))


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
    selector = workload.selector or LabelSelector()
    expressions = [
        {"key": expression.key, "operator": expression.operator, "values": list(expression.values)}
        for expression in selector.match_expressions
    ]
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
            "selector": {"matchLabels": dict(selector.match_labels), "matchExpressions": expressions},
            "template": workload.template,
        },
    }


def selector_differs(workload: Workload, form: Form) -> bool:
    """Return whether the local ReplicaSet selects other pods than the policy says; that cannot be changed in place."""
    return workload.selector is not None and _normal(workload.selector) != form.selector


def _selector_of(raw: Mapping[str, Any]) -> LabelSelector:
    expressions = raw.get("matchExpressions") or ()
    return LabelSelector(
        match_labels=tuple((raw.get("matchLabels") or {}).items()),
        match_expressions=tuple(
            LabelRequirement(expression["key"], expression["operator"], tuple(expression.get("values") or ()))
            for expression in expressions
        ),
    )


def _normal(selector: LabelSelector) -> tuple[Any, ...]:
    expressions = sorted(
        (expression.key, expression.operator, tuple(sorted(expression.values)))
        for expression in selector.match_expressions
    )
    return (sorted(selector.match_labels), expressions)


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


# Counts of the pods of one local workload: placed, available, unschedulable, crashing, late.


_BUILT_IN_GROUPS = ("", "apps")
ON_ITS_WAY = timedelta(minutes=1)
"""How long a replica may take until it runs; after that its cluster lags."""


class PodCounts(Struct, frozen=True):
    """Replicas of one local workload.

    `current` are placed on a node; `unschedulable` wait for one, or do not exist, for too long; `crashing` are placed
    but not ready for longer than the progress deadline. `late` should run for a minute by now and do not, whatever
    keeps them: no node, not made, an image, a crash; those that cannot be made count at once.
    """

    current: int
    available: int
    unschedulable: int = 0
    crashing: int = 0
    late: int = 0


def is_calm(workload: Workload) -> bool:
    """Return whether its status alone shows that every replica is placed and ready."""
    return (
        not is_lagging(workload)
        and (workload.ready_replicas or 0) == workload.spec_replicas
        and _failing_since(workload) is None
    )


def available_replicas(workload: Workload, ready: int | None = None) -> int:
    """Return how many replicas are available and stay so: never more than are asked for.

    An absent status field is 0 for built-in kinds; other kinds may have none, and their ready replicas count, or the
    pods counted as `ready`.
    """
    found = workload.available_replicas  # the API server leaves a 0 out
    if found is None and workload.ref.group not in _BUILT_IN_GROUPS:
        found = workload.ready_replicas if workload.ready_replicas is not None else ready
    return min(found or 0, workload.spec_replicas)


def pod_counts(workload: Workload, pods: Iterable[Pod], federated: FederatedReplicaSet, now: datetime) -> PodCounts:
    """Return the counts of `workload` from its `pods`."""
    active = [pod for pod in pods if pod.is_active]
    placed = [pod for pod in active if pod.node]
    waiting_since = _nanoseconds(now - federated.unschedulable_after)
    crashing_since = _nanoseconds(now - federated.progress_deadline)
    late_since = _nanoseconds(now - ON_ITS_WAY)
    missing = max(0, workload.spec_replicas - len(active))
    waiting = [pod for pod in active if not pod.node and pod.unschedulable]
    # Since when is not always known: then since they were made, or for long.
    waits = [pod.created_ns or 0 if pod.unscheduled_since_ns is None else pod.unscheduled_since_ns for pod in waiting]
    unschedulable = sum([since <= waiting_since for since in waits])
    return PodCounts(
        current=len(placed),
        available=available_replicas(workload, sum([pod.ready for pod in placed])),
        unschedulable=unschedulable
        + (missing if _not_made_since(workload, now - federated.unschedulable_after) else 0),
        crashing=sum([not pod.ready and (pod.created_ns or 0) <= crashing_since for pod in placed]),
        late=sum([not pod.ready and (pod.created_ns or 0) <= late_since for pod in active])
        + (missing if _failing_since(workload) or _not_made_since(workload, now - ON_ITS_WAY) else 0),
    )


def _nanoseconds(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def _not_made_since(workload: Workload, before: datetime) -> bool:
    """Return whether replicas that are missing should exist since `before` at the latest."""
    failing = _failing_since(workload)
    since = _asked_since(workload) if failing is None else failing
    return since is not None and since <= before


def _failing_since(workload: Workload) -> datetime | None:
    """Return since when pods of the workload cannot be created (quota, admission), None where they can."""
    failure = workload.condition("ReplicaFailure")
    if failure is None or failure.status != "True" or failure.reason != "FailedCreate":
        return None
    return failure.since or datetime.min.replace(tzinfo=UTC)


def _asked_since(workload: Workload) -> datetime | None:
    """Return a time since which the workload asks for its replicas, None where none is known.

    That is when its replicas were last written, or, for one never changed, when it was made. The age of one that was
    changed says nothing: its pods may just be on their way.
    """
    if workload.replicas_writer is not None and workload.replicas_writer.at is not None:
        return workload.replicas_writer.at
    if workload.generation in (None, 1):
        return workload.created_at or datetime.min.replace(tzinfo=UTC)
    return None
