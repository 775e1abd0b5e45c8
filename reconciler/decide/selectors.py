"""Which objects a policy selects or names, and what opts out of being selected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from reconciler.decide.annotations import (
    DOWNSCALER_EXCLUDE,
    DOWNSCALER_EXCLUDE_UNTIL,
    EXCLUDE,
    EXCLUDE_UNTIL,
    parse_kube_downscaler_time,
    parse_time,
)
from reconciler.decide.reasons import Counterfactual, CounterfactualCode, Reason, ReasonCode, change_if, reason
from reconciler.model import SCALABLE_KINDS, ObjectRef, ObservedCluster, Workload
from reconciler.policy.types import DownscalePolicy, FederatedReplicaSet, IdlingPolicy, WorkloadSelector

Ranked = TypeVar("Ranked", IdlingPolicy, DownscalePolicy)


def selects_workload(selector: WorkloadSelector, workload: Workload) -> bool:
    """Return whether kind, name and labels of `workload` are selected; one owned by another controller never is.

    Custom kinds are selected by name only: what a scale means there, Prometheus shards for instance, nobody knows.
    """
    if workload.owner is not None:  # the ReplicaSet of a Deployment has its labels, and is not to be scaled beside it
        return False
    ref = workload.ref
    named = names_kind(selector, ref.kind) if selector.kinds else (ref.group, ref.kind) in SCALABLE_KINDS
    return named and selector.objects.matches(ref.name, workload.labels)


def names_kind(selector: WorkloadSelector | None, kind: str) -> bool:
    """Return whether `selector` has `kind` among its kinds."""
    return selector is not None and kind.lower() in {one.lower() for one in selector.kinds}


def of_highest_priority(policies: Sequence[Ranked]) -> list[Ranked]:
    """Return those of the highest priority: one, unless priorities are equal; none of none."""
    highest = max((policy.priority for policy in policies), default=0)
    return [policy for policy in policies if policy.priority == highest]


def namespace_labels(cluster: ObservedCluster) -> dict[str, Mapping[str, str]]:
    """Return the labels of each namespace that was read, by name."""
    return {namespace.ref.name: namespace.labels for namespace in cluster.namespaces}


def namespace_annotations(cluster: ObservedCluster) -> dict[str, Mapping[str, str]]:
    """Return the annotations of each namespace that was read, by name."""
    return {namespace.ref.name: namespace.annotations for namespace in cluster.namespaces}


class Exclusion(Struct, frozen=True):
    """An opt-out that holds now. `until` None: until the annotation goes. `unreadable`: its value cannot be read.

    `counterfactual` is what would end it, None where nothing in our hands does. `on` is what carries it, "Namespace/x".
    """

    reason: Reason
    until: datetime | None = None
    unreadable: bool = False
    counterfactual: Counterfactual | None = None
    on: str = ""


def exclusion(annotations: Mapping[str, str], now: datetime, *, kube_downscaler: bool = False) -> Exclusion | None:
    """Return the opt-out that `annotations` state, None where there is none (any more).

    A value that cannot be read counts as excluded. With `kube_downscaler` the annotations of kube-downscaler count too.
    """
    flag = annotations.get(EXCLUDE)
    if flag == "true":
        return _excluded(EXCLUDE, flag)
    if flag not in (None, "false"):
        gone = change_if(CounterfactualCode.ANNOTATION_REMOVED, annotation=EXCLUDE)
        return Exclusion(_unreadable(EXCLUDE, flag, '"true" or "false"'), unreadable=True, counterfactual=gone)
    until = annotations.get(EXCLUDE_UNTIL)
    found = None if until is None else _excluded_until(EXCLUDE_UNTIL, until, parse_time(until), now)
    return _by_kube_downscaler(annotations, now) if found is None and kube_downscaler else found


def _by_kube_downscaler(annotations: Mapping[str, str], now: datetime) -> Exclusion | None:
    """Return the opt-out that the annotations of kube-downscaler state: any value but "false" is one.

    Source: kube-downscaler kube_downscaler/scaler.py, ignore_resource.
    """
    flag = annotations.get(DOWNSCALER_EXCLUDE, "false")
    if flag.lower() != "false":
        return _excluded(DOWNSCALER_EXCLUDE, flag)
    until = annotations.get(DOWNSCALER_EXCLUDE_UNTIL)
    if not until:
        return None
    return _excluded_until(DOWNSCALER_EXCLUDE_UNTIL, until, parse_kube_downscaler_time(until), now)


def _excluded(annotation: str, value: str) -> Exclusion:
    gone = change_if(CounterfactualCode.ANNOTATION_REMOVED, annotation=annotation)
    return Exclusion(reason(ReasonCode.ANNOTATION_SET, annotation=annotation, value=value), counterfactual=gone)


def _excluded_until(annotation: str, value: str, at: datetime | None, now: datetime) -> Exclusion | None:
    """Return the opt-out until `at`, None where that has passed; `at` None: `value` cannot be read."""
    if at is None:
        why = _unreadable(annotation, value, "a time as in RFC 3339")
        return Exclusion(why, unreadable=True, counterfactual=change_if(CounterfactualCode.TIME_READABLE))
    if now >= at:
        return None
    why = reason(ReasonCode.ANNOTATION_UNTIL, annotation=annotation, value=value)
    return Exclusion(why, until=at, counterfactual=change_if(CounterfactualCode.AFTER, at=at, annotation=annotation))


def _unreadable(annotation: str, value: str, expected: str) -> Reason:
    return reason(ReasonCode.ANNOTATION_UNREADABLE, annotation=annotation, value=value, expected=expected)


# Federated ReplicaSets name their local workloads.

LocalKey = tuple[str, str, str]
"""(namespace, kind, name) of the local workload of a federated ReplicaSet, the same in every cluster."""


def local_key(federated: FederatedReplicaSet) -> LocalKey:
    """Return the key of the local workloads of `federated`."""
    if federated.target is not None:
        return (federated.namespace, federated.target.kind, federated.target.name)
    return (federated.namespace, "ReplicaSet", federated.name)


def federated_by_local_key(federated: Iterable[FederatedReplicaSet]) -> dict[LocalKey, FederatedReplicaSet]:
    """Return the federated ReplicaSets by the key of their local workloads."""
    return {local_key(one): one for one in federated}


def key_of(ref: ObjectRef) -> LocalKey:
    """Return the local key of an object."""
    return (ref.namespace, ref.kind, ref.name)


def local_ref(federated: FederatedReplicaSet, cluster: str) -> ObjectRef:
    """Return the name of the local workload of `federated` on `cluster`."""
    namespace, kind, name = local_key(federated)
    group = "apps" if federated.target is None else federated.target.api_version.rpartition("/")[0]
    return ObjectRef(cluster, namespace, kind, name, group)
