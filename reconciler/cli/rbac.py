"""`reconciler rbac`: the least rights that runs with given policies need, and the roles that grant them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
from msgspec import Struct

from reconciler.backends.kubernetes.rights import (
    RIGHTS,
    Right,
    custom_rights,
    impersonation_right,
    role_rules,
    secret_right,
    token_right,
)
from reconciler.cli.option_values import written_as
from reconciler.cli.options import GENERAL, Options, option, path_argument, verb
from reconciler.cli.output import say, show
from reconciler.errors import UsageError
from reconciler.model import ServiceAccount
from reconciler.policy.globs import is_pattern
from reconciler.policy.load import read_policies
from reconciler.policy.types import ObjectSelector, PolicySet, Writes
from reconciler.workload_kinds import BY_KIND, WorkloadKind

_PLAN, RUN = "reconciler-plan", "reconciler"
"""The ServiceAccounts of deploy/member."""

_APPLY, _SECRETS, _TOKEN = "reconciler-apply", "reconciler-picker-secrets", "reconciler-own-token"
_KIND = re.compile(r"([A-Z][A-Za-z0-9]*)=([a-z][a-z0-9]*)\.([a-z0-9][-a-z0-9.]*)", re.ASCII)


def activator_option() -> Any:
    """Return the field of whether there are activators."""
    return option("With the rights that runs need where activators are.", default=False)


@written_as("KIND=PLURAL.GROUP")
def custom_kind(text: str) -> WorkloadKind:
    """Return the kind that KIND=PLURAL.GROUP says."""
    found = _KIND.fullmatch(text)
    if found is None:
        raise click.BadParameter(f'"{text}" is not a kind, expected KIND=PLURAL.GROUP, WebApp=webapps.example.com')
    kind, plural, group = found.groups()
    return WorkloadKind(group, "", kind, plural)


class _RbacOptions(Options):
    path: str = path_argument()
    cluster: str | None = option(
        "For this cluster of the Fleet only: less than what all need together.", metavar="NAME", group=GENERAL
    )
    kinds: tuple[WorkloadKind, ...] = option(
        "Where a custom kind that policies name is served; may be repeated. "
        f"Known are {', '.join(kind.kind for kind in BY_KIND.values() if kind.custom)}.",
        "--kind",
        type=custom_kind,
        multiple=True,
    )
    activator: bool = activator_option()
    own_token: bool = option("With the right to renew its own token, for `connect --rotate`.", default=False)
    no_keda: bool = option("Without the rights on ScaledObjects, which no cluster has.", default=False)


@verb("rbac", _RbacOptions)
def rbac_command(options: _RbacOptions) -> None:
    """Print the least rights that plan and apply need with the policies below PATH. No cluster is read.

    The roles and their bindings have the names of those in deploy/member, and are applied in place of them, to each
    cluster of the Fleet. The bindings are for its ServiceAccounts reconciler-plan, which may only plan, and reconciler.

    # Give a member cluster the rights that the policies need, and no more
    rbac | kubectl apply -f -
    # Print those for one cluster
    rbac --cluster eu-west
    # With a custom kind that they name
    rbac --kind WebApp=webapps.example.com
    """
    policies, writes = read_policies(options.path), True
    if options.cluster is not None:
        cluster = policies.fleet.cluster(options.cluster)
        if cluster is None:
            known = ", ".join(member.name for member in policies.fleet.clusters)
            raise UsageError(f"--cluster: the Fleet has no cluster {options.cluster}, expected one of {known}")
        policies, writes = policies.on(cluster), cluster.writes is not Writes.NOTHING
    served = [*BY_KIND.values(), *policies.fleet.switch_kinds, *options.kinds]
    names = {name for kind in served for name in kind.names}
    unknown = sorted(kind for kind in policies.kinds if kind.lower() not in names)
    if unknown:
        parts = (kind.partition(".") for kind in unknown)
        flags = " ".join(f"--kind {kind}=PLURAL.{group or 'GROUP'}" for kind, _, group in parts)
        raise UsageError(f"--kind: policies name {', '.join(unknown)}, expected {flags}")
    rights = needed_rights(policies, served, keda=not options.no_keda, activator=options.activator)
    found = roles(policies, rights, writes=writes, own_token=options.own_token)
    show(line for manifest in found for line in ("---", *manifest_lines(manifest)))


def roles(
    policies: PolicySet, rights: Iterable[Right], *, writes: bool = True, own_token: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the roles that grant `rights`, and those to read Secrets and impersonate tenants, each with its binding.

    What a plan needs is granted to both ServiceAccounts, and where nothing is written nothing else but, with
    `own_token`, to renew that. A Secret that no Role can be made for is said.
    """
    own = policies.fleet.namespace
    run = ServiceAccount(own, RUN)
    tenants = {tenant.service_account for tenant in policies.fleet.tenants if tenant.service_account is not None}
    impersonated = [impersonation_right(ServiceAccount(own, name)) for name in sorted(tenants)]
    every = [*rights, *impersonated]
    granted = [(_PLAN, (ServiceAccount(own, _PLAN), run), False), *([(_APPLY, (run,), True)] if writes else [])]
    for name, accounts, applies in granted:
        for namespace in ("", own):
            chosen = [right for right in every if (right.apply, right.own) == (applies, bool(namespace))]
            yield from _bound(name, namespace, chosen, accounts)
    for namespace, secrets in (_secrets_by_namespace(policies) if writes else {}).items():
        readers = (run, ServiceAccount(own, "reconciler-picker"))  # where deploy/components/picker is
        yield from _bound(_SECRETS, namespace, [secret_right(name) for name in sorted(secrets)], readers)
    if own_token:
        yield from _bound(_TOKEN, own, [token_right(run)], (run,))


def _bound(
    name: str, namespace: str, rights: Iterable[Right], accounts: Iterable[ServiceAccount]
) -> Iterator[dict[str, Any]]:
    granted = role(name, namespace, role_rules(rights))
    yield granted
    yield binding(granted, accounts)


def _secrets_by_namespace(policies: PolicySet) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for secret in picker_secrets(policies):
        include = secret.namespaces.include
        patterns = any(map(is_pattern, include))
        if patterns:
            say(
                f"warning: DownscalePolicy {secret.policy}: its pod picker wants Secret {secret.name} in namespaces "
                "that are selected by patterns; bind a Role in each, as deploy/components/picker-secrets does"
            )
        for namespace in () if patterns else filter(secret.namespaces.names, include):
            found.setdefault(namespace, set()).add(secret.name)
    return {namespace: found[namespace] for namespace in sorted(found)}


# What is needed, and its manifests.


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
    named = {kind.lower() for kind in policies.kinds}
    custom = custom_rights(kind for kind in served if not named.isdisjoint(kind.names))
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
    return [PickerSecret(*row) for row in sorted(found, key=lambda one: one[:2])]


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
            yield from (f"  - {flow_text(dict(entry))}" for entry in value)
        else:
            yield from block_text({key: value}).rstrip().split("\n")
