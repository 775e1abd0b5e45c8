"""Validated policies as JSON values: the desired-state rules after all defaults, in the words of the policy language.

Each rule is a policy again, called as it was written, so it can be read, compared and even applied like one. Only its
place, and the tenant whose it is, are added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from reconciler.connection_settings import PodPicker
from reconciler.policy.kinds.fields import API_VERSION, scalar_text
from reconciler.policy.types import DownscalePolicy, FederatedReplicaSet, Fleet, IdlingPolicy, PolicySet
from reconciler.version import OUTPUT_VERSION

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
    head = {"schemaVersion": OUTPUT_VERSION, "kind": "Rules", "digest": policies.digest}
    return {**head, "rules": rules, "warnings": [str(warning) for warning in policies.warnings]}


def _rule(kind: str, policy: Any, fields: msgspec.Struct) -> _Json:
    spec: _Json = msgspec.json.decode(msgspec.json.encode(fields, enc_hook=scalar_text, order="deterministic"))
    if kind in _ELSEWHERE:
        _ELSEWHERE[kind](spec, policy)
    tenant, name = _tenant_and_name(policy)
    metadata: _Json = {"name": name}
    if isinstance(policy, FederatedReplicaSet):
        metadata |= {
            "namespace": policy.namespace,
            "labels": dict(sorted(policy.labels.items())),
            "annotations": dict(sorted(policy.annotations.items())),
        }
    owner = {"tenant": tenant} if tenant else {}
    return {
        "at": str(policy.place),
        **owner,
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def _tenant_and_name(policy: Any) -> tuple[str, str]:
    """Return whose a policy is ("": the platform's), and its name as written: "a/sleep" is no name of an object."""
    if isinstance(policy, FederatedReplicaSet):
        return policy.tenant, policy.name
    tenant, _, name = policy.name.rpartition("/")
    return tenant, name


def _fleet(spec: _Json, fleet: Fleet) -> None:
    contexts = {cluster.name: cluster.connection.context for cluster in fleet.clusters}
    spec["clusters"] = [stated for stated in spec["clusters"] if stated["name"] in contexts]  # those of one tenant
    for stated in spec["clusters"]:
        stated["connection"]["context"] = contexts[stated["name"]]


def _idling(spec: _Json, policy: IdlingPolicy) -> None:
    spec["wakeOrder"]["group"] = policy.wake_order.group.rpartition("/")[2]


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
