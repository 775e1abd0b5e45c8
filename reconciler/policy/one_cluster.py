"""Policies for one cluster that no Fleet names: a Fleet with all defaults is made for it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from reconciler.errors import PolicyError, UsageError
from reconciler.policy.load import Loaded, load
from reconciler.policy.types import PolicySet
from reconciler.policy.validate import check_loaded
from reconciler.yaml.reader import read_documents

_WHERE = "--context"


def read_one_cluster(context: str, path: str | None) -> PolicySet:
    """Return the policies below `path` (None: none) with a Fleet of the one cluster that `context` leads to.

    Raises:
        UsageError: there is a Fleet below `path`: which of the two is meant? PolicyError: with all problems.
    """
    given = Loaded((), (), True, hashlib.sha256().hexdigest()) if path is None else load(path)
    _refuse_fleet(given)
    text = _fleet_text(context)
    made = read_documents(_WHERE, text)
    loaded = Loaded(
        documents=(*made.found, *given.documents),
        problems=(*made.problems, *given.problems),
        complete=made.complete and given.complete,
        digest=hashlib.sha256(f"{given.digest}\n{text}".encode()).hexdigest(),
    )
    policies, wrong = check_loaded(loaded, _WHERE if path is None else str(Path(path)))
    if policies is None:
        raise PolicyError.of(wrong)
    return policies


def cluster_name(context: str) -> str:
    """Return the name of the cluster behind a context: contexts may hold what names and folders may not."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", context).strip("-_.")[:200] or "cluster"


def _fleet_text(context: str) -> str:
    cluster = cluster_name(context)
    name = re.sub(r"[^a-z0-9]+", "-", cluster.lower()).strip("-")
    fleet = {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "Fleet",
        "metadata": {"name": name},
        "spec": {"home": cluster, "clusters": [{"name": cluster, "connection": {"context": context}}]},
    }
    return json.dumps(fleet)


def _refuse_fleet(given: Loaded) -> None:
    for document in given.documents:
        if isinstance(document.value, dict) and document.value.get("kind") == "Fleet":
            raise UsageError(
                f"--context: {document.file}:{document.line} is a Fleet, expected policies without one; leave --context"
                " out and narrow with --cluster, or name a path without a Fleet"
            )
