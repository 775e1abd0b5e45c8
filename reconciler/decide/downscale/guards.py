"""What keeps a DownscalePolicy's target from changing a workload, one check after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.decide.annotations import IDLED_AT, IDLED_TO, OPENSHIFT_PREVIOUS_SCALE, PREVIOUS_SCALE
from reconciler.decide.autoscalers import Autoscalers
from reconciler.decide.decisions import Considered, Decision, Notice, Overridden, Undecided
from reconciler.decide.downscale.wishes import Wish
from reconciler.decide.selectors import exclusion, key_of
from reconciler.decide.workload_status import replaces_replica_sets
from reconciler.model import HorizontalPodAutoscaler, ObjectRef, ObservedCluster, ObservedState, Run, Workload
from reconciler.policy.types import Fleet, FleetCluster
from reconciler.whole_numbers import whole_number_in

Finding = Decision | Undecided | Overridden | Notice | Considered


@dataclass(frozen=True, slots=True)
class Scene:
    """One cluster, and everything that is looked at beside a workload in it."""

    fleet: Fleet
    cluster: FleetCluster
    observed: ObservedCluster
    state: ObservedState
    run: Run
    claims: Mapping[ObjectRef, str]
    autoscalers: Autoscalers
    namespaces: Mapping[str, Mapping[str, str]]  # annotations by name


@dataclass(frozen=True, slots=True)
class Case:
    """One workload, and what one policy wants of it."""

    scene: Scene
    workload: Workload
    wish: Wish

    @property
    def ref(self) -> ObjectRef:
        return self.workload.ref

    @property
    def policy(self) -> str:
        return self.wish.policy.name

    @property
    def autoscaler(self) -> HorizontalPodAutoscaler | None:
        """The HorizontalPodAutoscaler that leaves scaling down to us, None where none does."""
        found = self.scene.autoscalers.horizontal.get(key_of(self.ref))
        return found if found is not None and found.scale_down_disabled else None

    @property
    def wanted(self) -> int:
        """The replicas wanted, not below what an autoscaler would put back; those there are where none are known."""
        if self.wish.replicas is None:
            return self.workload.wanted
        least = 0 if self.autoscaler is None else max(1, self.autoscaler.minimum or 1)
        return max(self.wish.replicas, least)

    @property
    def changes(self) -> bool:
        """Whether the wish differs from what is there, in a direction that the policy takes."""
        if self.wanted > self.workload.wanted:
            return self.wish.target.direction == "Both" and self.autoscaler is None
        return self.wanted < self.workload.wanted

    def stays(self, why: str, flip: str = "") -> Considered:
        """Return that the workload keeps its replicas because of `why`."""
        return Considered(self.ref, "downscale", self.policy, f"stays at {self.workload.wanted}", why, flip)

    def undecided(self, why: str) -> Undecided:
        return Undecided(str(self.ref), "downscale", self.policy, why)

    def overridden(self, winner: str, why: str) -> Overridden:
        return Overridden(self.ref, "downscale", self.policy, f"{self.wanted} replicas", winner, why)


Guard = Callable[[Case], Iterator[Finding]]


def _restricted(case: Case) -> Iterator[Finding]:
    if case.scene.cluster.restriction:
        yield case.stays(case.scene.cluster.restriction, "its state")


def _protected(case: Case) -> Iterator[Finding]:
    if case.ref.namespace in case.scene.fleet.protected:
        yield case.stays(f"the namespace {case.ref.namespace} is protected")


def _unread(case: Case) -> Iterator[Finding]:
    """Opt-outs and autoscalers that could not be read may be there."""
    for what in ("namespaces", "horizontalpodautoscalers", "scaledobjects"):
        if what in case.scene.observed.unreadable:
            why = f"the {what} of {case.ref.cluster} could not be read"
            yield case.undecided(why)
            yield case.stays(why)
            return


def _excluded(case: Case) -> Iterator[Finding]:
    space = f"{case.ref.cluster}/{case.ref.namespace}"
    marks = {str(case.ref): case.workload.annotations, space: case.scene.namespaces.get(case.ref.namespace, {})}
    for subject, inside in marks.items():
        found = exclusion(inside, case.scene.run.now)
        if found is None:
            continue
        if found.unreadable:
            yield Notice("exclusion", subject, f"{found.why}; it counts as excluded", case.policy)
        yield case.stays(found.why, f"the annotation on {subject}")
        return


def _claimed(case: Case) -> Iterator[Finding]:
    winner = case.scene.claims.get(case.ref)
    if winner is None:
        return
    if case.changes:
        yield case.overridden(winner, f"{winner} decides its replicas")
    yield case.stays(f"{winner} decides its replicas")


def _idle(case: Case) -> Iterator[Finding]:
    annotations = case.workload.annotations
    if not any(key in annotations for key in (PREVIOUS_SCALE, IDLED_AT, OPENSHIFT_PREVIOUS_SCALE)):
        return
    floor = whole_number_in(annotations.get(IDLED_TO, "0"))
    if floor is None or case.workload.wanted <= floor:
        why = "it is idle, as its record says"
        if case.changes:
            yield case.overridden("idling", why)
        yield case.stays(why, "its wake")


def _going(case: Case) -> Iterator[Finding]:
    if case.workload.terminating:
        yield case.stays("it is being deleted")


def _autoscaled(case: Case) -> Iterator[Finding]:
    name = case.scene.autoscalers.name_of(case.ref)
    if name is not None and case.autoscaler is None:
        why = f"{name} controls its replicas"
        yield Notice("autoscaler", str(case.ref), why, case.policy)
        yield case.stays(why, "behavior.scaleDown.selectPolicy: Disabled on its HorizontalPodAutoscaler")


def _unknown(case: Case) -> Iterator[Finding]:
    if case.wish.replicas is None:
        yield case.undecided(case.wish.why)
        yield Notice("unknownQuery", case.ref.cluster, case.wish.why, case.policy, partial=True)
        yield case.stays(case.wish.why)


def _settled(case: Case) -> Iterator[Finding]:
    if case.changes:
        return
    if case.wanted > case.workload.wanted:
        beside = "direction: both" if case.autoscaler is None else "its autoscaler"
        yield case.stays(f"{case.wish.why}, and the policy takes only the way down", beside)
    else:
        yield case.stays(case.wish.why, f"anything but {case.workload.wanted}")


def _rolling(case: Case) -> Iterator[Finding]:
    if case.wanted < case.workload.wanted and replaces_replica_sets(case.workload):
        why = "it is in the middle of a rollout"
        yield case.undecided(why)
        yield case.stays(why, "the end of the rollout")


GUARDS: tuple[Guard, ...] = (
    _restricted,
    _protected,
    _unread,
    _excluded,
    _claimed,
    _idle,
    _going,
    _autoscaled,
    _unknown,
    _settled,
    _rolling,
)
"""In this order; the first that finds something ends the matter."""
