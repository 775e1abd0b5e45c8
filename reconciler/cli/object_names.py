"""Objects as people name them: CLUSTER/NAMESPACE/KIND/NAME; a prefix means all below it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from reconciler.errors import UsageError
from reconciler.messages import nearest
from reconciler.model import ObjectRef, ObservedState
from reconciler.policy.types import Fleet, FleetCluster, Writes
from reconciler.workload_kinds import KNOWN, kind_of, names_kind

EXPECTED = "CLUSTER/NAMESPACE/KIND/NAME or the first parts of it"
"""How an object is named."""


class ObjectArgument(Struct, frozen=True):
    """`namespace`, `kind` and `name` are "" where the name is a prefix, `group` where KIND is without one."""

    cluster: str
    namespace: str = ""
    kind: str = ""
    name: str = ""
    group: str = ""

    def matches(self, ref: ObjectRef) -> bool:
        """Return whether `ref` is the object named, or lies below the prefix.

        One that was read from a text has no group, but in the kind of a Service that is not one of Kubernetes.
        """
        kind, _, group = ref.kind.partition(".")
        group = ref.group or group
        return (
            self.cluster == ref.cluster
            and self.namespace in ("", ref.namespace)
            and (not self.kind or names_kind(self.kind, kind))
            and self.name in ("", ref.name)
            and (self.group in ("", group) or (not group and kind != "Service"))
        )


def object_name(text: str) -> ObjectArgument:
    """Return what `text` names; the case of KIND does not matter, kubectl's short names and plurals work.

    Raises:
        UsageError: it has no or too many parts.
    """
    parts = text.strip("/").split("/")
    if not parts[0] or len(parts) > 4 or not all(parts):
        raise UsageError(f'"{text}" does not name an object, expected {EXPECTED}')
    cluster, namespace, kind, name = (*parts, "", "", "")[:4]
    # As for kubectl, a version may stand before the group.
    group = re.sub(r"^v[0-9]+((alpha|beta)[0-9]+)?(\.|$)", "", kind.partition(".")[2].lower())
    return ObjectArgument(cluster, namespace, kind_of(kind), name, group)


def check_cluster(fleet: Fleet, name: ObjectArgument, text: str) -> None:
    """Refuse a name on a cluster that is not there, or that nothing is written to.

    Raises:
        UsageError: with the nearest name.
    """
    if known_cluster(fleet, name, text).writes is Writes.NOTHING:
        raise UsageError(f"{text}: {name.cluster} is ReadOnly, nothing is written there; change its state in the Fleet")


def known_cluster(fleet: Fleet, name: ObjectArgument, text: str) -> FleetCluster:
    """Return the cluster that `name` lies on.

    Raises:
        UsageError: there is none of that name; with the nearest one.
    """
    cluster = fleet.cluster(name.cluster)
    if cluster is None:
        known = [member.name for member in fleet.clusters]
        as_kubectl = text.count("/") == 1 and name.cluster.lower() in KNOWN  # KIND/NAME
        expected = f"CLUSTER/NAMESPACE/{text}" if as_kubectl else EXPECTED
        hint = nearest(name.cluster, known) or f", expected {expected}"
        raise UsageError(f'{text}: "{name.cluster}" is not a cluster of the Fleet{hint}')
    return cluster


def check_there(state: ObservedState, name: ObjectArgument, subject: str) -> None:
    """Check that `name` names anything that is there, as far as that can be seen.

    Raises:
        UsageError: with the nearest name.
    """
    cluster = state.clusters.get(name.cluster)
    if cluster is None:
        return
    found = (cluster.workloads, cluster.services, cluster.endpoints, cluster.autoscalers, cluster.namespaces)
    refs = {annotated.ref for objects in found for annotated in objects}
    if cluster.unreadable or any(map(name.matches, refs)):
        return
    meant = _meant(refs, subject)
    if meant:
        raise UsageError(f'{subject}: no such object was found, expected {EXPECTED}; did you mean "{meant}"?')
    namespaces = {ref.namespace for ref in refs} | {ref.name for ref in refs if ref.kind == "Namespace"}
    if name.namespace and name.namespace not in namespaces:
        hint = nearest(name.namespace, namespaces - {""})
        raise UsageError(f'{subject}: nothing was found in namespace "{name.namespace}" of {name.cluster}{hint}')
    like = {ref.name for ref in refs if ObjectArgument(name.cluster, name.namespace, name.kind).matches(ref)}
    raise UsageError(f"{subject}: no such Service or workload was found{nearest(name.name, sorted(like))}")


def _meant(refs: Iterable[ObjectRef], subject: str) -> str:
    """Return the name of the one object whose parts are in `subject`, in order but not all; "" for none or several."""
    found = set()
    for ref in refs:
        parts = iter((ref.cluster, ref.namespace, kind_of(ref.kind), ref.name))
        *before, last = subject.strip("/").split("/")
        asked = [*(part if kind_of(part) != kind_of(ref.kind) else kind_of(part) for part in before), last]
        if last == ref.name and all(part in parts for part in asked):
            found.add("/".join((ref.cluster, ref.namespace, ref.kind, ref.name)))
    scaled = sorted(path for path in found if path.split("/")[2] not in ("Service", "Endpoints")) or sorted(found)
    return scaled[0] if len(scaled) == 1 else ""
