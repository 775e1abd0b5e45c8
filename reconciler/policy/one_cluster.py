"""Clusters that no Fleet names, each behind a context of the kubeconfig: a Fleet with all defaults is made for them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from reconciler.errors import PolicyError, UsageError
from reconciler.policy.load import Loaded, check_loaded, load
from reconciler.policy.types import Fleet, PolicySet
from reconciler.yaml.reader import read_documents

_WHERE = "--context"
_NOTHING = Loaded((), (), True, hashlib.sha256().hexdigest())


def read_one_cluster(context: str, path: str | None) -> PolicySet:
    """Return the policies below `path` (None: none) with a Fleet of the one cluster that `context` leads to.

    Raises:
        UsageError: there is a Fleet below `path`: which of the two is meant? PolicyError: with all problems.
    """
    given = _NOTHING if path is None else load(path)
    _refuse_fleet(given)
    text = _fleet_text(context)
    return _checked(given, text, _WHERE if path is None else str(Path(path)))


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
    return _checked(_NOTHING, _fleet_text(*named.values(), namespace=namespace), _WHERE).fleet


def _checked(given: Loaded, fleet: str, where: str) -> PolicySet:
    made = read_documents(_WHERE, fleet)
    loaded = Loaded(
        documents=(*made.found, *given.documents),
        problems=(*made.problems, *given.problems),
        complete=made.complete and given.complete,
        digest=hashlib.sha256(f"{given.digest}\n{fleet}".encode()).hexdigest(),
    )
    policies, wrong = check_loaded(loaded, where)
    if policies is None:
        raise PolicyError.of(wrong)
    return policies


def cluster_name(context: str) -> str:
    """Return the name of the cluster behind a context: contexts may hold what names and folders may not."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", context).strip("-_.")[:200] or "cluster"


def _fleet_text(*contexts: str, namespace: str | None = None) -> str:
    clusters = [{"name": cluster_name(context), "connection": {"context": context}} for context in contexts]
    home = str(clusters[0]["name"])
    fleet = {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "Fleet",
        "metadata": {"name": re.sub(r"[^a-z0-9]+", "-", home.lower()).strip("-")},
        "spec": {"home": home, "clusters": clusters, **({} if namespace is None else {"namespace": namespace})},
    }
    return json.dumps(fleet)


def _refuse_fleet(given: Loaded) -> None:
    for document in given.documents:
        if isinstance(document.value, dict) and document.value.get("kind") == "Fleet":
            raise UsageError(
                f"--context: {document.file}:{document.line} is a Fleet, expected policies without one; leave --context"
                " out and narrow with --cluster, or name a path without a Fleet"
            )
