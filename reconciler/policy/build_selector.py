"""The selectors of IdlingPolicy and DownscalePolicy."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase

from reconciler.model import SCALABLE_KINDS
from reconciler.policy.building import Reading
from reconciler.policy.types import ObjectSelector, Selector, WorkloadSelector
from reconciler.yaml.words import Path, shown

_PATH = ("spec", "selector")
_SCALABLE = (*(kind for _, kind in SCALABLE_KINDS), "Rollout", "CloneSet")
_WITHOUT_SCALE = ("DaemonSet", "HorizontalPodAutoscaler", "Job", "Namespace", "Pod", "Service")
_SURELY_MEANT = 0.87  # likeness of two kinds from which on one is the other, misspelt


def build_selector(reading: Reading) -> Selector:
    """Return what a policy selects."""
    services, workloads = (*_PATH, "services"), (*_PATH, "workloads")
    return Selector(
        clusters=_objects(reading, (*_PATH, "clusters")),
        namespaces=_objects(reading, (*_PATH, "namespaces")),
        services=_objects(reading, services) if reading.get(services) is not None else None,
        workloads=WorkloadSelector(_kinds(reading, (*workloads, "kinds")), _objects(reading, workloads))
        if reading.get(workloads) is not None
        else None,
    )


def _objects(reading: Reading, path: Path) -> ObjectSelector:
    include, exclude = reading.texts((*path, "include"), ("*",)), reading.texts((*path, "exclude"))
    for position, name in enumerate(include):
        pattern = next((pattern for pattern in exclude if fnmatchcase(name, pattern)), None)
        if pattern is not None:
            reading.warn((*path, "include", position), f"is {shown(name)}, which exclude leaves out: {shown(pattern)}")
    return ObjectSelector(include, exclude, reading.label_selector(path))


def _kinds(reading: Reading, path: Path) -> tuple[str, ...]:
    """Return the kinds at `path`. Custom kinds are not known here; one letter off a known kind is none."""
    kinds = reading.texts(path)
    for position, kind in enumerate(kinds):
        fault = kind_fault(kind)
        if fault is not None:
            reading.add((*path, position), f"is {shown(kind)}, {fault}")
    return kinds


def kind_fault(kind: str) -> str | None:
    """Return why `kind` cannot be that of something that is scaled, None where it may be."""
    known = {name.lower(): name for name in (*_SCALABLE, *_WITHOUT_SCALE)}
    found = known.get(kind.lower())
    if found in _WITHOUT_SCALE:
        return "expected a kind with replicas, like Deployment"
    if found is not None:
        return None
    near = get_close_matches(kind.lower(), known, n=1, cutoff=_SURELY_MEANT)
    return f'expected a kind, did you mean "{known[near[0]]}"?' if near else None
