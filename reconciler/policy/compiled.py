"""Validated policies as JSON values: the desired-state rules after all defaults, in the words of the policy language.

Each rule is a policy again, so it can be read, compared and even applied like one. Only its place is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from reconciler.model import PodPicker
from reconciler.policy.kinds.fields import API_VERSION, scalar_text
from reconciler.policy.types import DownscalePolicy, FederatedReplicaSet, Fleet, IdlingPolicy, PolicySet

_Json = dict[str, Any]


def compile_policies(policies: PolicySet) -> dict[str, Any]:
    """Return every rule with every default filled in: the Fleet, then each kind by name, each with its place.

    Both forms of a federated ReplicaSet become one. What is absent where a choice is offered is left out.
    """
    kinds: dict[str, tuple[Any, ...]] = {
        "Fleet": (policies.fleet,),
        "Calendar": policies.calendars,
        "IdlingPolicy": policies.idling,
        "FederatedReplicaSet": policies.federated,
        "DownscalePolicy": policies.downscale,
    }
    rules = [_rule(kind, one, policies.specs[one.place]) for kind, found in kinds.items() for one in found]
    head = {"schemaVersion": API_VERSION, "kind": "Rules", "digest": policies.digest}
    return {**head, "rules": rules, "warnings": [str(warning) for warning in policies.warnings]}


def _rule(kind: str, policy: Any, fields: msgspec.Struct) -> _Json:
    spec: _Json = msgspec.json.decode(msgspec.json.encode(fields, enc_hook=scalar_text, order="deterministic"))
    if kind in _ELSEWHERE:
        _ELSEWHERE[kind](spec, policy)
    metadata = {"name": policy.name}
    if isinstance(policy, FederatedReplicaSet):
        metadata |= {
            "namespace": policy.namespace,
            "labels": dict(sorted(policy.labels.items())),
            "annotations": dict(sorted(policy.annotations.items())),
        }
    return {"at": str(policy.place), "apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _fleet(spec: _Json, fleet: Fleet) -> None:
    for stated, cluster in zip(spec["clusters"], fleet.clusters, strict=True):
        stated["connection"]["context"] = cluster.connection.context


def _idling(spec: _Json, policy: IdlingPolicy) -> None:
    spec["wakeOrder"]["group"] = policy.wake_order.group


def _federated(spec: _Json, policy: FederatedReplicaSet) -> None:
    """Put in the selector and template as they are written: they may have fields that only Kubernetes knows."""
    for name, manifest in (("selector", policy.selector), ("template", policy.template)):
        if manifest is not None:
            spec[name] = dict(manifest)
    _port(spec.get("downscalePodPicker"), policy.pod_picker)


def _downscale(spec: _Json, policy: DownscalePolicy) -> None:
    _port(spec.get("podPicker"), policy.pod_picker)


def _port(spec: _Json | None, picker: PodPicker | None) -> None:
    if spec is not None and picker is not None:
        spec["http"]["port"] = picker.port


_ELSEWHERE: dict[str, Callable[[_Json, Any], None]] = {
    "Fleet": _fleet,
    "IdlingPolicy": _idling,
    "FederatedReplicaSet": _federated,
    "DownscalePolicy": _downscale,
}
"""Defaults that other values decide: the name of the policy or cluster, the scheme of a request."""
