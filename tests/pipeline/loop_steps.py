"""The steps of a history, played one after the other under the laws."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from msgspec.structs import replace

from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.schedule import is_open, open_until, opens_next
from reconciler.model import ObjectRef
from reconciler.policy.types import PolicySet
from tests.pipeline.loop_history import History
from tests.pipeline.loop_laws import (
    CALENDAR,
    HPA,
    IDLED_AT,
    JOBS,
    LISTED,
    QUEUE,
    REASON,
    LawBroken,
    Laws,
    check,
    stands_idle,
    told,
)
from tests.pipeline.loop_policies import a_downscale, a_front, a_spread, an_idling
from tests.pipeline.loop_world import CLUSTERS, Faults, a_manifest, a_service, ref_of


class ClosedLoop(Laws):
    """Plays a history."""

    def play(self, found: History) -> None:
        for step in found:
            getattr(self, f"step_{step[0]}")(*step[1:])
            self.all_have_a_way_back()
        self._ends()

    # steps: runs

    def step_run(self, minutes: int) -> None:
        self.world.now += timedelta(minutes=minutes)
        self.world.controllers()
        self.run()

    def step_crash(self, minutes: int, writes: int, lost: tuple[int, ...]) -> None:
        self.world.now += timedelta(minutes=minutes)
        self.run(Faults(crash=writes, lost=lost))

    def step_refuse(self, minutes: int, places: tuple[int, ...]) -> None:
        self.world.now += timedelta(minutes=minutes)
        self.run(Faults(refused=places))

    def step_meddle(self, minutes: int, place: int, cluster: str, kind: str, name: str, count: int) -> None:
        """Somebody scales a workload before that write of a run."""
        self.world.now += timedelta(minutes=minutes)
        self.run(Faults(meanwhile={place: lambda: self.step_scale(cluster, kind, name, count, "argocd-controller")}))

    def step_blind(self) -> None:
        """The policies cannot be read."""
        policies = PolicySet(self.git.fleet)
        made = self.world.plan(policies, how=lambda chosen, state, run: decide_wakes_due(chosen.fleet, state, run))
        self.applied(made, policies, Faults())

    def step_slow(self, minutes: int) -> None:
        """A run of a machine whose clock is behind."""
        right = self.world.now
        self.world.now -= timedelta(minutes=minutes)
        self.run()
        self.world.now = right

    def step_month(self) -> None:
        self.world.now += timedelta(days=30)

    def step_alone(self, runs: int) -> None:
        """Nobody else does anything, but for what it takes to come to rest first."""
        self.comes_to_rest()
        window = is_open(CALENDAR, self.world.now)
        self.idled, self.woken = [], []
        for _ in range(runs):
            self.world.now += timedelta(minutes=37)
            if is_open(CALENDAR, self.world.now) is not window:
                window = not window
                self.idled, self.woken = [], []
            self.step_run(0)
            for done in (self.idled, self.woken):
                check(11, len(done) == len(set(done)), f"twice in one window: {[str(ref) for ref in done]}")

    def step_fight(self, cluster: str, kind: str, name: str, count: int) -> None:
        """Another tool undoes what we do, again and again."""
        for _ in range(4):
            self.step_run(0)
            self.step_scale(cluster, kind, name, count, "argocd-controller")
            self.world.now += timedelta(minutes=5)

    def step_night(self) -> None:
        self._at(opens_next(CALENDAR, self.world.now))

    def step_morning(self) -> None:
        self._at(open_until(CALENDAR, self.world.now))

    def _at(self, moment: datetime | None) -> None:
        self.world.now = moment or self.world.now
        self.step_run(0)

    def step_rest(self) -> None:
        self.comes_to_rest()

    # steps: people and other programs

    def step_scale(self, cluster: str, kind: str, name: str, count: int, by: str) -> None:
        ref = ref_of(cluster, kind, name)
        if count or not self._is_doubtful(ref):
            self.others.add(ref)
            self.world.scale(ref, count, by)

    def _is_doubtful(self, ref: ObjectRef) -> bool:
        """Whether a Service lists what we did not idle: at zero nobody could tell."""
        entry = (ref.kind, ref.name)
        lists = [
            (one["kind"], one["name"])
            for at, texts in self.world.annotated().items()
            if at.cluster == ref.cluster and LISTED in texts
            for one in json.loads(texts[LISTED])
        ]
        recorded = IDLED_AT in self.world.annotations(ref)
        return ref not in self.had and (entry in lists or recorded)

    def step_oc_idle(self, name: str) -> None:
        """Somebody runs `oc idle` on something that runs."""
        ref, service = ref_of("east", "Deployment", name), ref_of("east", "Service", name)
        count = self.world.replicas(ref)
        if count and ref not in self.had and not self._is_doubtful(ref) and "east" not in self.world.down:
            entry = {"name": name, "kind": "Deployment", "replicas": count}
            self.step_scale("east", "Deployment", name, 0, "oc")
            self.world.annotate(service, "idling.alpha.openshift.io/idled-at", self.world.now.isoformat())
            self.world.annotate(service, "idling.alpha.openshift.io/unidle-targets", json.dumps([entry]))
            self.foreign[ref] = count

    def step_undo(self, name: str) -> None:
        ref = ref_of("east", "Deployment", name)
        if "east" not in self.world.down and self.world.revision(ref, -2) is not None:
            self.world.undo(ref)
            self.doubtful.add(ref)

    def step_need_pods(self, cluster: str, service: str) -> None:
        self.world.need_pods(cluster, service)

    def step_recreate(self, cluster: str, kind: str, name: str, count: int) -> None:
        ref = ref_of(cluster, kind, name)
        if cluster not in self.world.down:
            self._forget(ref)
            self.world.create(cluster, a_manifest(kind, name, count, ""))

    def step_delete(self, cluster: str, kind: str, name: str) -> None:
        if cluster not in self.world.down:
            self._forget(ref_of(cluster, kind, name))
            self.world.delete(ref_of(cluster, kind, name))

    def _forget(self, ref: ObjectRef) -> None:
        for known in (self.had, self.foreign, self.placed):
            known.pop(ref, None)
        self.doubtful.discard(ref)

    def step_keda(self, what: str) -> None:
        if "east" in self.world.down:
            return
        if what == "create":
            if self.world.workload(JOBS) is None:
                self.world.create("east", a_manifest("ScaledObject", "jobs", 0, ""))
            return
        self.had.pop(JOBS, None)
        self.world.delete(JOBS)
        queue = self.world.workload(QUEUE)
        if queue is not None and stands_idle(queue) and IDLED_AT in queue.annotations and QUEUE not in self.had:
            self.had[QUEUE] = self.queue_had

    def step_service(self, cluster: str, name: str) -> None:
        """Its record goes with it; that is no loss while everything idle carries its own."""
        self.world.create(cluster, a_service(name))

    def step_request(self, cluster: str, kind: str, name: str) -> None:
        ref = ref_of(cluster, kind, name)
        self.world.annotate(ref, "reconciler/wake-requested-at", self.world.now.isoformat())
        found = self.world.workload(ref)
        asleep = ref in self.had and found is not None and stands_idle(found)
        barred = cluster in self.world.down or self.git.states[cluster] == "ReadOnly"
        if asleep and not barred and not any(one.wake_order.per_run for one in self.git.idling.values()):
            self.run()
            self.run()
            found = self.world.workload(ref)
            check(
                7,
                found is None or ref not in self.had or not stands_idle(found),
                f"{ref} was asked for: {told(found)}",
            )

    def step_exclude(self, cluster: str, kind: str, name: str, text: str | None) -> None:
        self.world.annotate(ref_of(cluster, kind, name), "reconciler/exclude", text)

    def step_reason(self, cluster: str, kind: str, name: str, text: str | None) -> None:
        self.others.add(ref_of(cluster, kind, name))
        self.world.annotate(ref_of(cluster, kind, name), REASON, text)

    def step_traffic(self, service: str, value: float | None) -> None:
        self.world.traffic[service] = value

    def step_hpa(self, low: int, more: int) -> None:
        self.world.patch(HPA, {("spec", "minReplicas"): low, ("spec", "maxReplicas"): low + more})

    def step_rollout(self, cluster: str, kind: str, name: str, over: bool) -> None:
        """A new image; `over`: all pods have it already."""
        ref = ref_of(cluster, kind, name)
        found = self.world.workload(ref)
        if found is None:
            return
        image = f"{name}:{self.world.now.timestamp():.0f}"
        containers = [{"name": "main", "image": image}]
        self.world.patch(ref, {("spec", "template", "spec", "containers"): containers})
        self.world.revise(ref)
        if not over and found.spec_replicas:
            self.world.patch(ref, {("status", "updatedReplicas"): 0})

    def step_down(self, names: tuple[str, ...]) -> None:
        self.world.down = frozenset(names)

    def step_state(self, name: str, state: str) -> None:
        self.git.states[name] = state

    def step_production(self, names: tuple[str, ...]) -> None:
        self.git.production = frozenset(names)

    # steps: git

    def step_idling(self, name: str, variant: int | None) -> None:
        self.git.idling.pop(name, None)
        if variant is not None:
            self.git.idling[name] = an_idling(name, variant)

    def step_spread(self, variant: int | None, total: int) -> None:
        self.git.spread = None if variant is None else a_spread(variant, total)

    def step_rename(self, name: str, other: str) -> None:
        if name in self.git.idling:
            self.git.idling[other] = replace(self.git.idling.pop(name), name=other)

    def step_fleet(self, name: str) -> None:
        self.git.name = name

    def step_front(self, variant: int | None, total: int) -> None:
        self.git.front = None if variant is None else a_front(variant, total)

    def step_downscale(self, variant: int | None) -> None:
        self.git.downscale = None if variant is None else a_downscale(variant)

    def step_limits(self, limit: int | None) -> None:
        self.git.limit = limit

    # the end of every history

    def _ends(self) -> None:
        """All is well again, and then every policy is gone."""
        self.world.down = frozenset()
        self.git.states = dict.fromkeys(CLUSTERS, "Active")
        self.git.production = frozenset()
        self.git.limit = None
        for ref, texts in self.world.annotated().items():
            if "reconciler/exclude" in texts:
                self.world.annotate(ref, "reconciler/exclude", None)
        for ref, found in self.world.workloads().items():
            if found.updated_replicas not in (None, found.spec_replicas):
                self.world.patch(ref, {("status", "updatedReplicas"): found.spec_replicas})
        self.comes_to_rest()
        self.all_have_a_way_back()
        self.git.clear()
        self.comes_to_rest(allow=True)
        self.nothing_is_dark()


def broken_law(found: History) -> LawBroken | None:
    """Return which law the history breaks, None for none. What fails in another way is law 0."""
    try:
        ClosedLoop().play(found)
    except LawBroken as broken:
        return broken
    except Exception as error:  # noqa: BLE001 - a run never fails unexpectedly
        return LawBroken(0, f"{type(error).__name__}: {error}")
    return None
