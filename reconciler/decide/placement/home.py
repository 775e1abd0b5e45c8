"""What one run tells the next about the whole Fleet: ConfigMaps in the home cluster, or in whoever stands in for it.

They are written to home; while it does not answer, to the first cluster of the Fleet that does and is not
read-only. They are read from every cluster. Each carries the annotations reconciler/recorded-at and
reconciler/fleet, and of several copies the newest counts. Once home holds what the newest says, the others are
deleted. What another Fleet records on a cluster that both have is left alone, and that cluster stands in for nobody
else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from reconciler.decide.annotations import RECORDED_AT, RECORDED_BY, STATUS, fleet_names, format_time, read_time
from reconciler.decide.decisions import Cause, Decision
from reconciler.decide.placement.config_maps import Wish, forget, remember
from reconciler.decide.placement.memory import MEMORY
from reconciler.model import NOTHING, ConfigMap, ObjectRef, ObservedState
from reconciler.policy.types import Fleet, Writes

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Home:
    """`cluster` is where it is written, "" for nowhere. `own` are our ConfigMaps there, `newest` the newest on any
    cluster, both by name; `others` those on clusters other than `cluster`.

    `is_whole`: home itself could be read, so what is not there is nowhere.
    """

    fleet: Fleet
    cluster: str
    is_whole: bool
    own: Mapping[str, ConfigMap] = NOTHING
    newest: Mapping[str, ConfigMap] = NOTHING
    others: tuple[ConfigMap, ...] = ()

    def is_current(self, name: str) -> bool:
        """Return whether nothing newer than what is in `cluster` is known."""
        return self.newest.get(name) is self.own.get(name)

    def written(
        self, wish: Wish, now: datetime, group: str, cause: Cause, needs: tuple[str, ...] = ()
    ) -> tuple[Decision, ...]:
        """Return the decisions that make the ConfigMap in `cluster` say what the newest and `wish` say, and that delete
        the copies on other clusters once home says it; () where it does.
        """
        name = wish.ref.name
        found, newest = self.own.get(name), self.newest.get(name)
        if not self.is_current(name) and newest is not None:
            gone = dict.fromkeys(() if found is None else found.data)
            wish = replace(wish, data={**gone, **newest.data, **wish.data})
        changed = not self.is_current(name) or bool(remember(wish, found, group, cause))
        made: tuple[Decision, ...] = ()
        if changed:
            stamp = {RECORDED_AT: format_time(now), RECORDED_BY: self.fleet.name}
            stamped = replace(wish, annotations={**wish.annotations, **stamp})
            made = remember(stamped, found, group, cause, needs)
        return (*made, *self._copies_deleted(name, group, cause, tuple(one.key for one in made)))

    def _copies_deleted(self, name: str, group: str, cause: Cause, needs: tuple[str, ...]) -> Iterator[Decision]:
        if self.cluster != self.fleet.home:
            return
        words = replace(cause, why="the home cluster answers again")
        for copy in self.others:
            if copy.ref.name == name and _is_written_to(self.fleet, copy.ref.cluster):
                yield forget(copy, group, words, needs)

    def ref(self, name: str) -> ObjectRef:
        """Return the name of our ConfigMap `name` where it is written."""
        return ObjectRef(self.cluster, self.fleet.namespace, "ConfigMap", name)


def home_of(fleet: Fleet, state: ObservedState) -> Home:
    """Return what is recorded about the Fleet, and where it is written in this run."""
    readable = {
        name: {found.ref.name: found for found in observed.config_maps if _is_recorded(found, fleet)}
        for name, observed in state.clusters.items()
        if "configmaps" not in observed.unreadable
    }
    foreign = {name for name, maps in readable.items() if any(not is_recorded_by(fleet, one) for one in maps.values())}
    keeper = keeper_of(fleet, lambda name: name in readable and name not in foreign)
    newest: dict[str, ConfigMap] = {}
    for name in _home_first(fleet, keeper):
        for found in readable.get(name, {}).values():
            if not is_recorded_by(fleet, found):
                continue
            known = newest.get(found.ref.name)
            if known is None or _recorded_at(found) > _recorded_at(known):
                newest[found.ref.name] = found
    copies = [found for name, maps in readable.items() if name != keeper for found in maps.values()]
    return Home(
        fleet=fleet,
        cluster=keeper,
        is_whole=fleet.home in readable,
        own=readable.get(keeper, {}),
        newest=newest,
        others=tuple(found for found in copies if is_recorded_by(fleet, found)),
    )


def keeper_of(fleet: Fleet, answers: Callable[[str], bool]) -> str:
    """Return the cluster where what belongs in home is written, "" where there is none.

    A home that answers and is read-only is not replaced: it has all there is to know.
    """
    if answers(fleet.home):
        return fleet.home if _is_written_to(fleet, fleet.home) else ""
    names = [cluster.name for cluster in fleet.clusters]
    return next((name for name in names if answers(name) and _is_written_to(fleet, name)), "")


def is_recorded_by(fleet: Fleet, found: ConfigMap) -> bool:
    """Return whether `fleet` wrote this. In home itself everything counts as its own."""
    return found.ref.cluster == fleet.home or found.annotations.get(RECORDED_BY) in fleet_names(fleet)


def _home_first(fleet: Fleet, first: str) -> list[str]:
    """Return the clusters of the Fleet; of copies that are equally new the first one counts."""
    return sorted((cluster.name for cluster in fleet.clusters), key=lambda name: name != first)


def _is_written_to(fleet: Fleet, name: str) -> bool:
    cluster = fleet.cluster(name)
    return cluster is not None and cluster.writes is not Writes.NOTHING


def _is_recorded(found: ConfigMap, fleet: Fleet) -> bool:
    return found.ref.namespace == fleet.namespace and (found.ref.name == MEMORY or STATUS in found.annotations)


def _recorded_at(found: ConfigMap) -> datetime:
    return read_time(found.annotations.get(RECORDED_AT)) or _NEVER
