"""What of a Fleet is production: whole clusters, namespaces, and what has labels."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, field

from reconciler.model import NOTHING
from reconciler.policy.kinds.cluster import FleetCluster
from reconciler.policy.kinds.fields import Fields, Labels, NamespacePattern

PRODUCTION = Meta(
    description="production is true for a policy that selects what is production too. Without it, production is left "
    "as it is, and no policy of lower priority decides there."
)


class Production(Fields, frozen=True):
    """What is production. Each of these fields adds to it."""

    namespaces: Annotated[
        tuple[NamespacePattern, ...],
        Meta(description="namespaces lists namespaces, or patterns of their names, in which everything is production."),
    ] = ("prod", "prod-*", "*-prod", "*-prod-*", "production", "production-*", "*-production")
    cluster_labels: Annotated[
        Labels,
        Meta(
            description="clusterLabels are labels of clusters. In a cluster that has all of them, everything is "
            "production. An empty map means none."
        ),
    ] = field(default_factory=dict)
    namespace_labels: Annotated[
        Labels,
        Meta(
            description="namespaceLabels are labels of Namespaces. In a Namespace that has all of them, or that "
            "cannot be read, everything is production. An empty map means none."
        ),
    ] = field(default_factory=dict)
    workload_labels: Annotated[
        Labels,
        Meta(
            description="workloadLabels are labels of workloads. A workload that has all of them is production. An "
            "empty map means none."
        ),
    ] = field(default_factory=dict)
    except_namespaces: Annotated[
        tuple[NamespacePattern, ...],
        Meta(
            description="exceptNamespaces lists namespaces, or patterns of their names, in which a workload is "
            "production only by its own labels, for example the test namespaces of a production cluster."
        ),
    ] = ()

    def why(
        self, cluster: FleetCluster, namespace: str, space_labels: Mapping[str, str] | None, *labels: Mapping[str, str]
    ) -> str:
        """Return what makes a workload in `namespace` of `cluster` production, "" where nothing does.

        `space_labels` are those of its Namespace; None: they are not known, which counts as production where they
        matter. `labels` are those of the workload, and of what scales it.
        """
        if not _is_named(namespace, self.except_namespaces):
            if cluster.production or _has(cluster.labels, self.cluster_labels):
                return f"cluster {cluster.name}"
            if _is_named(namespace, self.namespaces):
                return f"namespace {namespace}"
            if self.namespace_labels and space_labels is None:
                return f"namespace {namespace}, whose labels are not known,"
            if _has(space_labels or NOTHING, self.namespace_labels):
                return f"namespace {namespace} with {_text(self.namespace_labels)}"
        if any(_has(one, self.workload_labels) for one in labels):
            return f"a workload with {_text(self.workload_labels)}"
        return ""


def _is_named(namespace: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(namespace, pattern) for pattern in patterns)


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return bool(wanted) and wanted.items() <= labels.items()


def _text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
