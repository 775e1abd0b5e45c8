"""The rights that runs with given policies need, and the roles that grant them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from reconciler.backends.kubernetes.rbac import RIGHTS, Right, custom_rights
from reconciler.model import ServiceAccount
from reconciler.policy.types import ObjectSelector, PolicySet
from reconciler.workload_kinds import WorkloadKind

RBAC = "rbac.authorization.k8s.io"


class PickerSecret(Struct, frozen=True, order=True):
    """A Secret that a pod picker of `policy` wants, in the namespace of each workload that it is asked about."""

    policy: str
    name: str
    namespaces: ObjectSelector


def needed_rights(
    policies: PolicySet, served: Iterable[WorkloadKind], *, keda: bool, activator: bool
) -> tuple[Right, ...]:
    """Return what a plan and an apply need with `policies` where `served` are the kinds with a scale: of custom ones
    only those that policies name. `keda`: ScaledObjects are served; `activator`: one runs there.
    """
    custom = custom_rights(kind for kind in served if kind.kind in policies.kinds)
    uses = {
        "": True,
        "custom": bool(custom),
        "keda": keda,
        "placement": any(policy.target is None for policy in policies.federated),
        "victims": bool(policies.federated or policies.downscale),
        "ZoneBalanced": any(policy.strategy == "ZoneBalanced" for policy in policies.downscale),
        "activator": activator,
    }
    return tuple(right for right in (*RIGHTS, *custom) if uses[right.use])


def picker_secrets(policies: PolicySet) -> list[PickerSecret]:
    """Return the Secrets that headers of pod pickers name, sorted."""
    pickers = [(policy.name, policy.pod_picker, policy.selector.namespaces) for policy in policies.downscale]
    pickers += [(one.name, one.pod_picker, ObjectSelector((one.namespace,))) for one in policies.federated]
    found = {
        (name, header.secret.name, namespaces)
        for name, picker, namespaces in pickers
        if picker is not None
        for header in picker.headers
        if header.secret is not None
    }
    return [PickerSecret(*one) for one in sorted(found, key=lambda one: one[:2])]


def role(name: str, namespace: str, rules: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a Role in `namespace`, or with "" a ClusterRole."""
    return _object("Role" if namespace else "ClusterRole", name, namespace) | {"rules": list(rules)}


def binding(of: Mapping[str, Any], accounts: Iterable[ServiceAccount]) -> dict[str, Any]:
    """Return the binding of a role to `accounts`, of the same name and in the same namespace."""
    kind, metadata = of["kind"], of["metadata"]
    return _object(f"{kind}Binding", metadata["name"], metadata.get("namespace", "")) | {
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "namespace": one.namespace, "name": one.name} for one in accounts],
    }


def _object(kind: str, name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}


def manifest_lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a role or binding as YAML, each rule and each subject on a line of its own."""
    from reconciler.yaml.writer import block_text, flow_text

    for key, value in manifest.items():
        if key in ("rules", "subjects"):
            yield f"{key}:"
            yield from (f"  - {flow_text(dict(one))}" for one in value)
        else:
            yield from block_text({key: value}).rstrip().split("\n")
