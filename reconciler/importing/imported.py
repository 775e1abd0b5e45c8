"""What becomes of the manifests of another tool: policies, and what of them has no counterpart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.importing.manifests import Manifest
from reconciler.policy.kinds.fields import API_VERSION
from reconciler.yaml.writer import block_text

Policy = Mapping[str, Any]


class Loss(Struct, frozen=True):
    """What is not carried over: the object, the field or annotation of it, and what to do."""

    manifest: Manifest
    field: str
    words: str

    def __str__(self) -> str:
        return f"{self.manifest}: {self.field}: {self.words}"


class Imported(Struct, frozen=True):
    """The policies made of manifests. `clusters` are the clusters that they name, with their labels.

    `remarks` are the losses that concern a policy, by its kind and name.
    """

    policies: tuple[Policy, ...] = ()
    losses: tuple[Loss, ...] = ()
    clusters: Mapping[str, Mapping[str, str]] = {}
    remarks: Mapping[tuple[str, str], Sequence[Loss]] = {}


class Gathering:
    """Gathers policies and losses; what is lost of a policy stands above it as a comment."""

    def __init__(self) -> None:
        self._policies: dict[tuple[str, str], Policy] = {}
        self._losses: list[Loss] = []
        self._remarks: dict[tuple[str, str], list[Loss]] = {}

    def lose(self, manifest: Manifest, field: str, words: str) -> Loss:
        """Note, and return, what is not carried over."""
        loss = Loss(manifest, field, words)
        if loss not in self._losses:
            self._losses.append(loss)
        return loss

    def add(self, kind: str, name: str, spec: Policy, losses: Iterable[Loss] = (), namespace: str = "") -> None:
        """Add a policy under `name`, or under the next that is free; `losses` are those that concern it."""
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        key, number = (kind, f"{namespace}/{name}"), 2
        while key in self._policies:
            metadata["name"] = f"{name}-{number}"
            key, number = (kind, f"{namespace}/{metadata['name']}"), number + 1
        self._policies[key] = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        self._remarks[key] = [*losses]

    def imported(self, clusters: Mapping[str, Mapping[str, str]] | None = None) -> Imported:
        """Return all that was gathered."""
        return Imported(tuple(self._policies.values()), tuple(self._losses), clusters or {}, self._remarks)


def policy_name(*parts: str) -> str:
    """Return a name for a policy made of `parts`, as policies may have it."""
    return re.sub(r"[^a-z0-9.-]+", "-", "-".join(parts).lower()).strip("-.")[:200].strip("-.") or "imported"


def fleet_document(clusters: Sequence[Mapping[str, Any]]) -> Policy:
    """Return a Fleet of `clusters`, the first of which is its home."""
    spec = {"home": clusters[0]["name"], "clusters": list(clusters)}
    return {"apiVersion": API_VERSION, "kind": "Fleet", "metadata": {"name": "imported"}, "spec": spec}


def policy_text(imported: Imported, fleet: Policy | None) -> str:
    """Return the policies as YAML, behind `fleet` where one is given, each with what it does not say as comments."""
    parts = [] if fleet is None else [block_text(fleet)]
    for policy in imported.policies:
        metadata = policy["metadata"]
        key = (policy["kind"], f"{metadata.get('namespace', '')}/{metadata['name']}")
        lines = [f"# Not carried over: {_one_line(str(loss))}\n" for loss in imported.remarks.get(key, ())]
        parts.append("".join(lines) + block_text(policy))
    return "---\n".join(parts)


def _one_line(text: str) -> str:
    return " ".join(text.split())
