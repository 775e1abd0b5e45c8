"""What is known of one Service and of one scalable before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reconciler.decide.idling.autoscalers import Hold
from reconciler.decide.idling.discovery import Found
from reconciler.decide.idling.evidence import Evidence
from reconciler.decide.idling.records import Reading, Record, awake_since
from reconciler.decide.idling.scales import Scale
from reconciler.decide.idling.service_marks import Entry, Mark, MarkReading
from reconciler.decide.idling.signals import Signal
from reconciler.decide.idling.wants import Bid, Want
from reconciler.decide.selectors import Exclusion
from reconciler.model import Endpoints, ObjectRef, Service
from reconciler.policy.types import FleetCluster


@dataclass(frozen=True, slots=True)
class Front:
    """A Service that a policy selects, that carries marks, that opts out, or that somebody asks to wake.

    `lost` are the bids of policies that others win over. `mark` is ours, from the Service or else from its Endpoints;
    `foreign` somebody else's; `problem` says why one of them cannot be read.
    """

    service: Service
    found: Found = Found()
    bids: tuple[Bid, ...] = ()
    lost: tuple[Bid, ...] = ()
    on_service: MarkReading | None = None
    on_endpoints: MarkReading | None = None
    endpoints: Endpoints | None = None
    signal: Signal | None = None
    exclusion: Exclusion | None = None

    @property
    def ref(self) -> ObjectRef:
        return self.service.ref

    @property
    def mark(self) -> Mark | None:
        for reading in (self.on_service, self.on_endpoints):
            if reading is not None and reading.ours and reading.mark is not None:
                return reading.mark
        return None

    @property
    def foreign(self) -> Mark | None:
        for reading in (self.on_service, self.on_endpoints):
            if reading is not None and not reading.ours and reading.mark is not None:
                return reading.mark
        return None

    @property
    def is_marked(self) -> bool:
        """Whether anybody's mark is on it, in a way that can be read or not."""
        return self.on_service is not None or self.on_endpoints is not None

    @property
    def problem(self) -> str:
        readings = (self.on_service, self.on_endpoints)
        return next((reading.problem for reading in readings if reading is not None and reading.problem), "")

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else marked it, in a way that can be read or not."""
        return any(reading is not None and not reading.ours for reading in (self.on_service, self.on_endpoints))


@dataclass(frozen=True, slots=True)
class Listing:
    """That our mark on `front` lists a scalable. `is_behind`: it is behind that Service, as far as can be told."""

    front: Front
    mark: Mark
    entry: Entry
    is_behind: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """One scalable with everything that bears on it.

    `fronts` are the Services it is behind or that list it; `strangers` those of them that list it and that it is not
    behind. `controller` names the autoscaler it is left to, "" for none. `unknown` says what could not be read that
    idling it would need, `protected` why it is left alone where it is not ours, "" where it need not be. `direct` are
    the policies that select it themselves, not just a Service it is behind.
    """

    scale: Scale
    want: Want
    cluster: FleetCluster
    fronts: tuple[Front, ...] = ()
    lost: tuple[Bid, ...] = ()
    reading: Reading | None = None
    hold: Hold | None = None
    controller: str = ""
    exclusion: Exclusion | None = None
    signal: Signal | None = None
    unknown: str = ""
    protected: str = ""
    strangers: frozenset[ObjectRef] = frozenset()
    evidence: Evidence = Evidence()
    direct: frozenset[str] = frozenset()

    @property
    def ref(self) -> ObjectRef:
        return self.scale.ref

    @property
    def behind(self) -> tuple[Front, ...]:
        """The Services that some policy selects and that it is behind."""
        return tuple(front for front in self.fronts if front.bids and front.ref not in self.strangers)

    @property
    def listings(self) -> tuple[Listing, ...]:
        """What our marks on its Services say of it."""
        return tuple(
            Listing(front, front.mark, entry, front.ref not in self.strangers)
            for front in self.fronts
            if front.mark is not None
            for entry in front.mark.entries
            if entry.ref(front.ref) == self.ref
        )

    @property
    def foreign(self) -> Record | None:
        """What somebody else wrote about it: on itself, or in the mark of one of its Services."""
        return self.own_foreign or self.listed_foreign

    @property
    def own_foreign(self) -> Record | None:
        """What somebody else wrote on it."""
        return self.reading.record if self.reading is not None and not self.reading.ours else None

    @property
    def listed_foreign(self) -> Record | None:
        """What somebody else wrote about it in the mark of one of its Services."""
        for front in self.fronts:
            for entry in front.foreign.entries if front.foreign is not None else ():
                if front.foreign is not None and entry.ref(front.ref) == self.ref:
                    return _record_of(front.foreign, entry)
        return None

    @property
    def awake_since(self) -> datetime | None:
        return awake_since(self.scale.written)


def _record_of(mark: Mark, entry: Entry) -> Record:
    return Record(
        mark.idled_at, entry.replicas, mark.idled_to, mark.fleet, mark.policy, mark.wake_due, None, mark.cause
    )


def record_of(listing: Listing) -> Record:
    """Return the record that a Service's mark holds of one of its scalables, as it stands there."""
    return _record_of(listing.mark, listing.entry)
