"""Freezes: what a person stopped without git. Nothing that an active freeze covers is idled, moved, created or scaled.

Each is an entry of the ConfigMap `freeze` in our namespace, key `freezes`, a JSON list: cluster and namespace that it
covers ("" for all), until when, why, and who says so. That of the home cluster speaks for all clusters, any other one
for its own, so that no cluster that hangs keeps another one from being frozen. What cannot be read counts as frozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from reconciler.decide.annotations import compact, format_time, parsed, read_time
from reconciler.decide.change_codes import ChangeIfCode, Fact, change_if, fact
from reconciler.decide.decisions import DesiredState, Notice
from reconciler.decide.reasons import Reason, ReasonCode, reason
from reconciler.errors import AnnotationError
from reconciler.model import ObservedCluster, ObservedState, by_key
from reconciler.policy.types import Fleet, FleetCluster, Freeze

CONFIG_MAP = "freeze"
KEY = "freezes"


def read_freezes(data: Mapping[str, str]) -> tuple[Freeze, ...]:
    """Return the freezes in the data of the ConfigMap, also those that are over.

    Raises:
        AnnotationError: they cannot be read.
    """
    found = parsed(data.get(KEY) or "[]", f"{CONFIG_MAP}/{KEY}")
    if not isinstance(found, list):
        raise AnnotationError(f"{CONFIG_MAP}/{KEY} is no list, expected one of freezes")
    return tuple(map(_freeze, found))


def _freeze(entry: Any) -> Freeze:
    parts = entry if isinstance(entry, dict) else {}
    texts = {key: parts.get(key, "") for key in ("cluster", "namespace", "reason", "by")}
    until = read_time(parts.get("until"))
    if until is None or not all(isinstance(text, str) for text in texts.values()):
        raise AnnotationError(f"{CONFIG_MAP}/{KEY} has {compact(entry)}, expected a freeze with a time in until")
    return Freeze(until=until, **texts)


def freeze_values(freeze: Freeze) -> dict[str, str]:
    """Return `freeze` as JSON values."""
    until = "" if freeze.until is None else format_time(freeze.until)
    values = {"cluster": freeze.cluster, "namespace": freeze.namespace, "until": until}
    return {**values, "reason": freeze.reason, "by": freeze.by}


def freezes_text(freezes: Iterable[Freeze]) -> str:
    """Return `freezes` as the ConfigMap holds them."""
    return compact(list(map(freeze_values, freezes)))


def freezes_in_force(data: Mapping[str, str], now: datetime) -> tuple[Freeze, ...]:
    """Return the freezes that are not over `now`; what cannot be read is one of everything."""
    try:
        return tuple(freeze for freeze in read_freezes(data) if freeze.until is not None and now < freeze.until)
    except AnnotationError as error:
        return (unreadable(str(error)),)


def unreadable(why: str) -> Freeze:
    """Return the freeze of everything, where it cannot be read whether there is one."""
    return Freeze("", "", None, f"the ConfigMap {CONFIG_MAP} cannot be read: {why}")


def frozen(fleet: Fleet, state: ObservedState, now: datetime) -> Fleet:
    """Return `fleet` with the freezes that are in force on each of its clusters."""
    home = state.clusters.get(fleet.home)
    everywhere = () if home is None else _said(fleet, home, now)
    clusters = []
    for cluster in fleet.clusters:
        observed = state.clusters.get(cluster.name)
        own = () if observed is None else _said(fleet, observed, now)
        listed = (*(freeze for freeze in everywhere if freeze.until is not None), *own)
        found = tuple(dict.fromkeys(freeze for freeze in listed if freeze.cluster in ("", cluster.name)))
        clusters.append(replace(cluster, freezes=found) if found else cluster)
    return replace(fleet, clusters=tuple(clusters))


def _said(fleet: Fleet, observed: ObservedCluster, now: datetime) -> tuple[Freeze, ...]:
    """Return the freezes in force that are recorded in one cluster."""
    if "configmaps" in observed.unreadable:
        return () if fleet.from_context else (unreadable(observed.unreadable["configmaps"]),)
    named = {(config_map.ref.namespace, config_map.ref.name): config_map for config_map in observed.config_maps}
    found = named.get((fleet.namespace, CONFIG_MAP))
    return () if found is None else freezes_in_force(found.data, now)


def restriction(cluster: FleetCluster, namespace: str) -> Fact | None:
    """Return why not everything may be written in `namespace` of `cluster`, None where everything may."""
    if cluster.restriction:
        lift = change_if(ChangeIfCode.CLUSTER_STATE)
        return fact(ReasonCode.CLUSTER_RESTRICTED, lift, restriction=cluster.restriction)
    found = cluster.freeze_of(namespace)
    return None if found is None else Fact((freeze_reason(found),), change_if(ChangeIfCode.UNFROZEN))


def freeze_reason(freeze: Freeze) -> Reason:
    """Return who froze, until when, and why."""
    return reason(ReasonCode.FROZEN, by=freeze.by, until=freeze.until, reason=freeze.reason)


def freeze_notices(fleet: Fleet) -> DesiredState:
    """Return a notice for each freeze that is in force, only one where it covers several clusters."""
    found = by_key((freeze, cluster.name) for cluster in fleet.clusters for freeze in cluster.freezes)
    notices = []
    for freeze, clusters in found.items():
        why = freeze_reason(freeze)
        for subject in clusters if freeze.until is None else [scope_of(freeze, fleet)]:
            text = f"{subject}: {why}; wakes go on, nothing is idled, moved, created or scaled"
            notices.append(Notice("frozen", subject, text, reasons=(why,)))
    return DesiredState(notices=tuple(notices))


def scope_of(freeze: Freeze, fleet: Fleet) -> str:
    """Return what a freeze covers, as people name it."""
    where = freeze.cluster or f"Fleet {fleet.name}"
    return f"{where}/{freeze.namespace}" if freeze.cluster and freeze.namespace else freeze.namespace or where
