"""The selectors of IdlingPolicy and DownscalePolicy."""

from __future__ import annotations

from reconciler.policy.building import Reading
from reconciler.policy.types import ClusterSelector, NamespaceSelector, Selector, WorkloadSelector

_PATH = ("spec", "selector")


def build_selector(reading: Reading) -> Selector:
    """Return what a policy selects."""
    services, workloads = (*_PATH, "services"), (*_PATH, "workloads")
    return Selector(
        clusters=ClusterSelector(
            reading.texts((*_PATH, "clusters", "names"), ("*",)), reading.label_selector((*_PATH, "clusters"))
        ),
        namespaces=NamespaceSelector(
            include=reading.texts((*_PATH, "namespaces", "include"), ("*",)),
            exclude=reading.texts((*_PATH, "namespaces", "exclude")),
            labels=reading.label_selector((*_PATH, "namespaces")),
        ),
        services=reading.label_selector(services) if reading.get(services) is not None else None,
        workloads=WorkloadSelector(reading.texts((*workloads, "kinds")), reading.label_selector(workloads))
        if reading.get(workloads) is not None
        else None,
    )
