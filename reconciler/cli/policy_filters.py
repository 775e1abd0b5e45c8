"""Which part of the policies a run is about, by --tenant, --policy, --cluster and --shard."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from reconciler.decide.limits import policy_names
from reconciler.errors import PolicyError, UsageError
from reconciler.messages import nearest
from reconciler.plan.filters import Filters
from reconciler.policy.types import Fleet, PolicySet, Tenant


def check_identities(fleet: Fleet) -> None:
    """Refuse to divide a Fleet of which two clusters may be one by two names: no shard would see both.

    Raises:
        UsageError: with the clusters whose identity is not stated.
    """
    names = [one.name for one in fleet.clusters if not one.identity]
    if names:
        listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        counted = f"{len(names)} of {len(fleet.clusters)} clusters have no identity in {fleet.place}: {listed}"
        raise UsageError(f"--shard: {counted}; expected the uid of Namespace kube-system of each")


def tenant_named(fleet: Fleet, name: str) -> Tenant:
    """Return the tenant that --tenant names.

    Raises:
        UsageError: there is none.
    """
    found = fleet.tenant(name)
    if found is None:
        names = [tenant.name for tenant in fleet.tenants]
        raise UsageError(f'--tenant: "{name}" is none of {len(names)} tenants of the Fleet{nearest(name, names)}')
    return found


def only_of(policies: PolicySet, tenant: Tenant, *, partly: bool = False) -> PolicySet:
    """Return the part of `policies` that concerns `tenant`; with `partly` problems in its files only stop it.

    Raises:
        PolicyError: with all of these problems.
    """
    found = policies.of_tenant(tenant)
    if found.problems and not partly:
        raise PolicyError.of(one for inside in found.problems.values() for one in inside)
    return found


def check_names(policies: PolicySet, filters: Filters, allow_exceed: Iterable[str]) -> None:
    """Refuse filters and --allow-exceed names that match no known policy or cluster, or several.

    Raises:
        UsageError: with the nearest name.
    """
    policy_keys = policy_names(policies)
    names = sorted(policy_keys | {one.name for one in policies.federated})
    clusters = [cluster.name for cluster in policies.fleet.clusters]
    for flag, patterns, known, count in (
        ("--policy", filters.policies, names, len(policy_keys)),
        ("--cluster", filters.clusters, clusters, len(clusters)),
    ):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise UsageError(f'{flag}: "{pattern}" matches none of {count} known{nearest(pattern, known)}')
    for name in allow_exceed:
        if name not in names:
            words = "is not a policy, expected a policy's name"
            raise UsageError(f'--allow-exceed: "{name}" {words}{nearest(name, names)}')
        found = sorted(one.key for one in policies.federated if one.name == name)
        if len(found) > 1:
            raise UsageError(f'--allow-exceed: "{name}" is {len(found)} policies, expected one of {", ".join(found)}')
