"""Validated policies as JSON values: the desired-state rules after all defaults, in the words of the policy language.

Each rule is a policy again, called as it was written, so it can be read, compared and even applied like one. Only its
place, and the tenant whose it is, are added.
"""

from __future__ import annotations

from typing import Any

import msgspec

from reconciler.policy.kinds.fields import API_VERSION, scalar_text
from reconciler.policy.policy_kinds import OWN_KINDS, policies_of
from reconciler.policy.types import FederatedReplicaSet, Fleet, IdlingPolicy, PolicySet
from reconciler.version import OUTPUT_VERSION

_Json = dict[str, Any]


def compile_policies(policies: PolicySet) -> dict[str, Any]:
    """Return every rule with every default filled in: the Fleet, then each kind by name, each with its place.

    Both forms of a federated ReplicaSet become one. What is absent where a choice is offered is left out.
    """
    first = ("Fleet", "Calendar")
    kinds = (*first, *(kind for kind in OWN_KINDS if kind not in first))
    rules = [_rule(kind, one, policies.specs[one.place]) for kind in kinds for one in policies_of(policies, kind)]
    head = {"schemaVersion": OUTPUT_VERSION, "kind": "Rules", "digest": policies.digest}
    return {
        **head,
        "rules": rules,
        "warnings": [str(warning) for warning in sorted((*policies.warnings, *policies.conflicts))],
    }


def _rule(kind: str, policy: Any, fields: msgspec.Struct) -> _Json:
    spec: _Json = msgspec.json.decode(msgspec.json.encode(fields, enc_hook=scalar_text, order="deterministic"))
    _complete(spec, policy)
    tenant, _, name = policy.name.rpartition("/")  # as written: "a/sleep" is no name of an object
    metadata: _Json = {"name": name}
    if isinstance(policy, FederatedReplicaSet):
        tenant = policy.tenant
        metadata |= {
            "namespace": policy.namespace,
            "labels": dict(sorted(policy.labels.items())),
            "annotations": dict(sorted(policy.annotations.items())),
        }
    owner = {"tenant": tenant} if tenant else {}
    head = {"at": str(policy.place), **owner, "apiVersion": API_VERSION, "kind": kind}
    return {**head, "metadata": metadata, "spec": spec}


def _complete(spec: _Json, policy: Any) -> None:
    """Put into `spec`, the policy as JSON, the defaults that other values decide, and take out clusters of others.

    A selector and a template stand as they are written: they may have fields that only Kubernetes knows.
    """
    if isinstance(policy, Fleet):
        contexts = {cluster.name: cluster.connection.context for cluster in policy.clusters}
        spec["clusters"] = [stated for stated in spec["clusters"] if stated["name"] in contexts]
        for stated in spec["clusters"]:
            stated["connection"]["context"] = contexts[stated["name"]]
    if isinstance(policy, IdlingPolicy):
        spec["wakeOrder"]["group"] = (policy.wake_order.group or policy.name).rpartition("/")[2]
    if isinstance(policy, FederatedReplicaSet) and policy.target is None:
        spec |= {"selector": policy.selector, "template": policy.template}
    for name in {"podPicker", "downscalePodPicker"} & spec.keys():
        spec[name]["http"]["port"] = policy.pod_picker.port
