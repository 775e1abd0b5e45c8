"""What placement knows of one federated ReplicaSet on one cluster, and in which way that cluster takes part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from reconciler.decide.idling.records import read_record
from reconciler.decide.placement.local_replica_sets import is_ours, names_another
from reconciler.decide.placement.marks import ObservedCapacity, read_capacity
from reconciler.decide.placement.memory import IN_A_ROW, Rejection
from reconciler.decide.placement.pods import Counts, calm_counts, counted, is_calm, is_rolling_out
from reconciler.decide.placement.sites import Site, Surroundings, local_ref
from reconciler.decide.placement.status import Status
from reconciler.decide.selection import format_time
from reconciler.decide.types import Notice, Undecided
from reconciler.model import ObjectRef, PodsQuestion, Workload
from reconciler.policy.types import FederatedReplicaSet

Limit = Literal["", "learned", "refused", "draining", "leaving", "missing"]


@dataclass(frozen=True, slots=True)
class Local:
    """One federated ReplicaSet on one cluster.

    `part`: "placed" takes part in the allocation; "held" is left out, its replicas (`asked`) taken off the total; "out"
    is left out and counts as nothing. `asked` is what it asks for now, None where that is unknown. `limit` says where
    `capacity` comes from. `idle_by` names what keeps it idle.
    """

    cluster: str
    ref: ObjectRef
    part: Literal["placed", "held", "out"] = "placed"
    workload: Workload | None = None
    asked: int | None = 0
    current: int = 0
    available: int = 0
    stuck: int = 0
    crashing: int = 0
    capacity: int | None = None
    limit: Limit = ""
    remembered: ObservedCapacity | None = None
    rejection: Rejection | None = None
    idle_by: str = ""
    why: str = ""

    @property
    def kept(self) -> int:
        """The replicas that belong there already: those placed, and those that do not wait for too long."""
        return max(0, (self.asked or 0) - self.stuck)


@dataclass(frozen=True, slots=True)
class Finding:
    """A `Local`, and what is to be asked or told about it."""

    local: Local
    question: PodsQuestion | None = None
    undecided: Undecided | None = None
    notice: Notice | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One federated ReplicaSet on one cluster, before it is known in which way it takes part."""

    federated: FederatedReplicaSet
    site: Site
    around: Surroundings
    status: Status | None
    blank: Local

    @property
    def workload(self) -> Workload | None:
        return self.blank.workload

    def undecided(self, local: Local) -> Finding:
        """Return a finding that says nothing could be decided there, and why."""
        return Finding(local, undecided=Undecided(str(local.ref), "placement", self.federated.name, local.why))

    def told(self, local: Local, kind: str) -> Finding:
        """Return a finding with a notice of why nothing is done there."""
        return Finding(local, notice=Notice(kind, str(local.ref), local.why, self.federated.name))


def find(federated: FederatedReplicaSet, site: Site, around: Surroundings, status: Status | None) -> Finding:
    """Return what is known of `federated` on one cluster: the first rule that fits says how it takes part."""
    ref = local_ref(federated, site.name)
    workload = site.workloads.get(ref)
    asked = 0 if workload is None else workload.wanted
    case = Case(federated, site, around, status, Local(site.name, ref, workload=workload, asked=asked))
    for rule in _RULES:
        finding = rule(case)
        if finding is not None:
            return finding
    return _placed(case)


def _unreachable(case: Case) -> Finding | None:
    site = case.site
    if site.observed is not None:
        return None
    asked = None if case.status is None else case.status.asked(site.name)
    since = site.lost_since
    if since is None or site.cluster.state == "frozen":
        return Finding(replace(case.blank, part="held", asked=asked, why="does not answer"))
    if case.around.run.now - since < case.federated.cluster_grace_period:
        return Finding(replace(case.blank, part="held", asked=asked, why=f"does not answer since {format_time(since)}"))
    why = f"does not answer since {format_time(since)}, its replicas go elsewhere"
    return Finding(replace(case.blank, part="out", asked=asked, why=why))


def _unreadable(case: Case) -> Finding | None:
    """What could not be listed is unknown: the workload itself, or what else might steer it."""
    unreadable = case.site.observed.unreadable if case.site.observed is not None else {}
    if not unreadable:
        return None
    own = case.site.plural(case.blank.ref.group, case.blank.ref.kind)
    found = next((name for name in (own, "horizontalpodautoscalers", "scaledobjects") if name in unreadable), None)
    if found is None:
        return None
    asked = case.blank.asked if found != own else None if case.status is None else case.status.asked(case.site.name)
    why = f"{found} cannot be read: {unreadable[found]}"
    return case.undecided(replace(case.blank, part="held", asked=asked, why=why))


def _not_ours(case: Case) -> Finding | None:
    """One that another controller owns is never touched, nor one that belongs to somebody else."""
    workload, federated = case.workload, case.federated
    if workload is None:
        return None
    out = replace(case.blank, part="out")
    if workload.owner is not None:
        owner = f"{workload.owner.kind}/{workload.owner.name}"
        return case.told(replace(out, why=f"belongs to {owner}, which is never touched"), "conflict")
    if federated.target is not None:
        return None
    other = names_another(workload, federated, case.around.ours)
    if other:
        return case.told(replace(out, why=f"is marked as {other}, left alone"), "foreignMark")
    if federated.on_conflict == "abort" and not is_ours(workload, federated, case.around.ours):
        return case.told(replace(out, why="is not ours, left alone (onConflict: abort)"), "conflict")
    return None


def _idle(case: Case) -> Finding | None:
    """What idling decides, or keeps idle, is left alone; what it had is taken off the total."""
    workload = case.workload
    if workload is None:
        return None
    claimed = case.around.claims.get(workload.ref, "")
    reading = read_record(workload, case.around.ours)
    record = None if reading is None else reading.record
    asleep = record is not None and workload.wanted <= record.idled_to
    set_aside = reading is not None and record is None
    if not (claimed or asleep or set_aside):
        return None
    winner = claimed or (record.policy if record is not None else "") or "its idle record"
    asked = record.replicas if record is not None and asleep else workload.wanted
    why = f"idle, {winner} decides"
    return Finding(replace(_observed(case), part="held", asked=asked, idle_by=winner, why=why))


def _observed(case: Case) -> Local:
    """Return the local of a workload that is left alone, with what its status says."""
    workload = case.workload
    return case.blank if workload is None else replace(case.blank, available=calm_counts(workload).available)


def _frozen(case: Case) -> Finding | None:
    if case.site.cluster.state != "frozen":
        return None
    return Finding(replace(_observed(case), part="held", why="the cluster is frozen"))


def _autoscaled(case: Case) -> Finding | None:
    controller = None if case.workload is None else case.site.autoscalers.name_of(case.blank.ref)
    if controller is None:
        return None
    return case.told(replace(_observed(case), part="held", why=f"{controller} controls it, left alone"), "autoscaler")


def _moving(case: Case) -> Finding | None:
    workload = case.workload
    if workload is None:
        return None
    if workload.terminating:
        return Finding(replace(_observed(case), part="held", why="is being deleted"))
    if is_rolling_out(workload):
        return Finding(replace(_observed(case), part="held", why="in the middle of a rollout"))
    return None


def _missing(case: Case) -> Finding | None:
    if case.workload is not None:
        return None
    if case.federated.target is None:
        return Finding(_limited(case, case.blank))
    why = f"there is no {case.blank.ref.kind} {case.blank.ref.name}"
    return case.undecided(replace(case.blank, capacity=0, limit="missing", why=why))


def _placed(case: Case) -> Finding:
    """Return the counts of a workload that takes part, or the question that must be answered first."""
    workload = case.workload
    assert workload is not None
    assert case.site.observed is not None
    remembered = read_capacity(workload.annotations)
    if is_calm(workload) and remembered is None:
        return Finding(_limited(case, _with_counts(case.blank, calm_counts(workload), None)))
    ref = workload.ref
    failed = case.site.observed.unreadable.get(f"pods of {ref.namespace}/{ref.kind}/{ref.name}")
    if failed is not None:
        return case.undecided(replace(_observed(case), part="held", why=f"its pods cannot be read: {failed}"))
    pods = case.site.observed.pods.get(ref)
    if pods is None:
        return Finding(case.blank, PodsQuestion(ref))
    counts = counted(workload, pods, case.federated, case.around.run.now)
    return Finding(_limited(case, _with_counts(case.blank, counts, remembered)))


def _with_counts(local: Local, counts: Counts, remembered: ObservedCapacity | None) -> Local:
    return replace(
        local,
        current=counts.current,
        available=counts.available,
        stuck=counts.stuck,
        crashing=counts.crashing,
        remembered=remembered,
    )


def _limited(case: Case, local: Local) -> Local:
    """Return `local` with what is known of the room there."""
    state = case.site.cluster.state
    if state in ("draining", "leaving"):
        return replace(local, capacity=0, limit="draining" if state == "draining" else "leaving")
    rejection = case.around.rejection(local.ref)
    if rejection is not None:
        local = replace(local, rejection=rejection)
    if rejection is not None and rejection.count >= IN_A_ROW and rejection.in_force(case.around.run.now):
        return replace(local, capacity=local.current, limit="refused")
    if local.stuck > 0:
        return replace(local, capacity=local.current, limit="learned")
    if local.remembered is not None and local.current <= local.remembered.replicas:
        return replace(local, capacity=local.remembered.replicas, limit="learned")
    return local


_RULES: tuple[Callable[[Case], Finding | None], ...] = (
    _unreachable,
    _unreadable,
    _not_ours,
    _frozen,
    _idle,
    _autoscaled,
    _moving,
    _missing,
)
