"""Kinds as people write them: in any case, as a plural, or by kubectl's short name."""

from __future__ import annotations

_SHORT = {
    "deploy": "deployment",
    "sts": "statefulset",
    "rs": "replicaset",
    "rc": "replicationcontroller",
    "cj": "cronjob",
    "svc": "service",
    "hpa": "horizontalpodautoscaler",
    "so": "scaledobject",
    "ep": "endpoints",
    "cm": "configmap",
    "po": "pod",
    "clone": "cloneset",
    "ro": "rollout",
}


def kind_of(text: str) -> str:
    """Return the kind that `text` names, in lower case; a custom kind may be in the plural still."""
    lower = text.lower().split(".")[0]
    return KNOWN.get(lower, lower)


def names_kind(text: str, kind: str) -> bool:
    """Return whether `text` names `kind`, which is as in a manifest."""
    return kind_of(text) in _forms(kind.lower())


def _forms(kind: str) -> tuple[str, ...]:
    """Return how people write a kind: itself and its plurals. One that ends in "s", like Redis, is no plural."""
    return (kind, f"{kind}s", f"{kind}es", f"{kind.removesuffix('y')}ies")


KNOWN = {form: kind for short, kind in _SHORT.items() for form in (*_forms(kind), short, f"{short}s")}
"""The kind in lower case by each way to write it, of the kinds that have a short name."""
