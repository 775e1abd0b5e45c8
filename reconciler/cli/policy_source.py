"""The policies of a run: those of a Fleet or of contexts of the kubeconfig, at which commit, and which part of them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconciler.decide.limit_amounts import policy_names
from reconciler.errors import PolicyError, UsageError
from reconciler.messages import nearest
from reconciler.plan.filters import Filters
from reconciler.policy.kinds.fields import API_VERSION
from reconciler.policy.load import check_documents
from reconciler.policy.policy_files import PolicyDocuments, load
from reconciler.policy.types import Fleet, PolicySet, Tenant
from reconciler.workload_kinds import SWITCHES
from reconciler.yaml.reader import read_documents

if TYPE_CHECKING:
    from pathlib import Path


def user_of_this_machine() -> str:
    """Return the name of the user who calls, or the number where it has none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


_WHERE = "--context"
_NOTHING = PolicyDocuments((), (), True, hashlib.sha256().hexdigest(), _WHERE)


def read_one_cluster(context: str, path: str | None) -> PolicySet:
    """Return the policies below `path` (None: none) with a Fleet of the one cluster that `context` leads to.

    Raises:
        UsageError: there is a Fleet below `path`: which of the two is meant? PolicyError: with all problems.
    """
    given = _NOTHING if path is None else load(path)
    for document in given.documents:
        if isinstance(document.value, dict) and document.value.get("kind") == "Fleet":
            raise UsageError(
                f"--context: {document.file}:{document.line} is a Fleet, expected policies without one; leave --context"
                " out and narrow with --cluster, or name a path without a Fleet"
            )
    return _checked(given, _fleet_text(context))


def fleet_of_contexts(contexts: Sequence[str], namespace: str | None) -> Fleet:
    """Return a Fleet of the clusters that `contexts` lead to; its own namespace is `namespace`, None: the default.

    Raises:
        UsageError: two of them would have the same name. PolicyError: one has no name that a cluster may have.
    """
    named: dict[str, str] = {}
    for context in dict.fromkeys(contexts):
        name = cluster_name(context)
        if name in named:
            raise UsageError(
                f'{_WHERE}: "{named[name]}" and "{context}" would both be called {name}, expected one of them at a time'
            )
        named[name] = context
    fleet = _checked(_NOTHING, _fleet_text(*named.values(), namespace=namespace)).fleet
    return replace(fleet, switch_kinds=tuple(SWITCHES.values()))  # what another Fleet switched off is woken here


def _checked(given: PolicyDocuments, fleet: str) -> PolicySet:
    stated = read_documents(_WHERE, fleet)
    documents = PolicyDocuments(
        documents=(*stated.found, *given.documents),
        problems=(*stated.problems, *given.problems),
        complete=stated.complete and given.complete,
        digest=hashlib.sha256(f"{given.digest}\n{fleet}".encode()).hexdigest(),
        path=given.path,
    )
    policies, wrong = check_documents(documents)
    if policies is None:
        raise PolicyError.of(wrong)
    return replace(policies, fleet=replace(policies.fleet, from_context=True))


def cluster_name(context: str) -> str:
    """Return the name of the cluster behind a context: contexts may hold what names and folders may not."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", context).strip("-_.")[:200] or "cluster"


def _fleet_text(*contexts: str, namespace: str | None = None) -> str:
    clusters = [{"name": cluster_name(context), "connection": {"context": context}} for context in contexts]
    home = str(clusters[0]["name"])
    fleet = {
        "apiVersion": API_VERSION,
        "kind": "Fleet",
        "metadata": {"name": re.sub(r"[^a-z0-9]+", "-", home.lower()).strip("-")},
        "spec": {"home": home, "clusters": clusters, **({} if namespace is None else {"namespace": namespace})},
    }
    return json.dumps(fleet)


# The commit at which a folder is checked out, read from the files of git: images of CronJobs have no git.


_COMMIT = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"


def commit_of(path: str | Path) -> str:
    """Return the commit of the checkout that `path` is in, "" where it is in none or that cannot be read.

    What was changed since does not show: a run that must know is given --source-revision.
    """
    from pathlib import Path

    try:
        root = repository_of(path)
        return "" if root is None else _head_of(_folder(Path(root) / ".git"))
    except (OSError, ValueError):
        return ""


def repository_of(path: str | Path) -> str | None:
    """Return the root of the checkout that `path` is in, None where it is in none."""
    from pathlib import Path

    here = Path(path).resolve()
    return next((str(folder) for folder in (here, *here.parents) if (folder / ".git").exists()), None)


def _folder(found: Path) -> Path:
    """Return the folder of git: in a linked worktree `.git` is a file that names it."""
    if found.is_dir():
        return found
    named = found.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    return found.parent / named


def _head_of(folder: Path) -> str:
    text = (folder / "HEAD").read_text(encoding="utf-8").strip()
    if not text.startswith("ref:"):
        return text if re.fullmatch(_COMMIT, text) else ""
    name = text.removeprefix("ref:").strip()
    common = folder / "commondir"
    shared = folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder
    for top in (folder, shared):
        if (top / name).is_file():
            text = (top / name).read_text(encoding="utf-8").strip()
            return text if re.fullmatch(_COMMIT, text) else ""
    packed = shared / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else ()
    return next((commit for commit, _, ref in (line.partition(" ") for line in lines) if ref == name), "")


# Which part of the policies a run is about, by --tenant, --policy, --cluster and --shard.


def check_identities(fleet: Fleet) -> None:
    """Refuse to divide a Fleet of which two clusters may be one by two names: no shard would see both.

    Raises:
        UsageError: with the clusters whose identity is not stated.
    """
    names = [cluster.name for cluster in fleet.clusters if not cluster.identity]
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
        raise PolicyError.of(problem for inside in found.problems.values() for problem in inside)
    return found


def check_names(policies: PolicySet, filters: Filters, allow_exceed: Mapping[str, int | None]) -> None:
    """Refuse filters and --allow-exceed names that match no known policy or cluster, or several.

    A name that policies of several kinds have is taken with a number alone: it would lift the limits of all.

    Raises:
        UsageError: with the nearest name.
    """
    policy_keys = policy_names(policies)
    names = sorted(policy_keys | {policy.name for policy in policies.federated})
    clusters = [cluster.name for cluster in policies.fleet.clusters]
    for flag, patterns, known, count in (
        ("--policy", filters.policies, names, len(policy_keys)),
        ("--cluster", filters.clusters, clusters, len(clusters)),
    ):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise UsageError(f'{flag}: "{pattern}" matches none of {count} known{nearest(pattern, known)}')
    for name, bound in allow_exceed.items():
        if name not in names:
            words = "is not a policy, expected a policy's name"
            raise UsageError(f'--allow-exceed: "{name}" {words}{nearest(name, names)}')
        found = sorted(policy.key for policy in policies.federated if policy.name == name)
        if len(found) > 1:
            raise UsageError(f'--allow-exceed: "{name}" is {len(found)} policies, expected one of {", ".join(found)}')
        by_kind = (
            {policy.name for policy in policies.idling},
            {policy.name for policy in policies.downscale},
            {one for policy in policies.federated for one in (policy.name, policy.key)},
        )
        if bound is None and sum(name in known for known in by_kind) > 1:
            words = "is the name of policies of several kinds, expected NAME=NUMBER, which lifts the limits of none"
            raise UsageError(f'--allow-exceed: "{name}" {words}')
