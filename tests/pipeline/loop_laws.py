"""The laws of the closed loop.

1. Every `needs` exists: in what is decided, and in the plan.
2. What idling takes down has a record of what it had, in the same write, for as long as it stands there; a wake
   restores just that; what we never idled is not woken, and nobody but idling scales what is idle.
3. The status of a federated ReplicaSet is what is: `idle` only where a workload is idle, `asked` what it has.
4. A second plan is empty: at the same moment idling has nothing more to do, and after a few runs nobody has.
5. At rest the replicas of a federated ReplicaSet are its total, and on the way there they never go below it.
6. A frozen cluster gets no decrease, one that is read only nothing.
7. What somebody asks for is awake after two runs that can reach it.
8. Nothing stays dark, and no record of idling, after every policy is gone.
9. The same inputs give the same plan, in whatever order clusters list their objects.
10. Placement leaves Deployments alone in clusters that its preferences do not name, and local ReplicaSets that it did
    not make; once its policy is gone, Deployments that nobody else scaled since have no fewer replicas than before.
11. While nobody else does anything, nothing is idled or woken twice within one window of its schedule.
12. What is behind a Service goes idle together: its list gets no longer while anything behind it runs.
13. In a production cluster nothing loses replicas that is not idle already, but by a policy that names the cluster.
14. A minimum of an autoscaler that is lowered has a record of what it was, in the same write, and a wake restores it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.decide.decisions import Decision, DesiredState, Verb
from reconciler.decide.desired_state import decide
from reconciler.errors import NotFoundError
from reconciler.model import ObjectRef, ObservedCluster, Run, Workload, Write
from reconciler.plan.model import Plan
from reconciler.plan.order import in_order
from reconciler.policy.types import PolicySet
from tests.decide.idling.idling_policies import office_hours_off
from tests.pipeline.loop_policies import Policies
from tests.pipeline.loop_world import CLUSTERS, PAUSED, TICK, Faults, LoopWorld, all_applied, ref_of

BEGIN = datetime(2026, 10, 23, 15, 0, tzinfo=UTC)  # a Friday; clocks are set back in the night to Sunday
CALENDAR = office_hours_off()
RUNS = 16
IDLED_AT = "idling.kubernetes.io/idled-at"
PREVIOUS = "idling.kubernetes.io/previous-scale"
LISTED = "idling.kubernetes.io/unidle-targets"
IDLED_TO = "reconciler/idled-to"
OWNER = "reconciler/owner"
BY_OTHERS = "scale.kubernetes.io/previous-scale"
REASON = "scale.kubernetes.io/scale-reason"
STATUS = "reconciler/status"
JOBS, QUEUE = ref_of("east", "ScaledObject", "jobs"), ref_of("east", "Deployment", "queue")


class LawBroken(AssertionError):
    """`law` is its number."""

    def __init__(self, law: int, text: str) -> None:
        super().__init__(f"law {law}: {text}")
        self.law = law


def check(law: int, holds: object, text: str) -> None:
    if not holds:
        raise LawBroken(law, text)


class Laws:
    """Plays a history. `had` is what each workload had that idling took down, as an independent observer saw it."""

    def __init__(self) -> None:
        self.world = LoopWorld(BEGIN, self)
        self.git = Policies()
        self.had: dict[ObjectRef, int] = {}
        self.foreign: dict[ObjectRef, int] = {}  # what `oc idle` took down, and what it had
        self.doubtful: set[ObjectRef] = set()  # what has annotations of an earlier revision again
        self.placed: dict[ObjectRef, int] = {}  # what a Deployment had before placement scaled it
        self.others: set[ObjectRef] = set()  # those of them that somebody else scaled last
        self.queue_had = 0  # what KEDA's target had before it was idled last
        self.minimum: int | None = None  # of the autoscaler before it was lowered
        self._minimum_now = 0
        self.idled: list[ObjectRef] = []
        self.woken: list[ObjectRef] = []
        self._deciding: dict[ObjectRef, list[Decision]] = {}
        self._faulty = False
        self._refused: frozenset[str] = frozenset()
        self._broken: list[LawBroken] = []
        self._least = 0  # replicas that all local ReplicaSets of spread have at least in this run

    # our runs

    def run(self, faults: Faults | None = None, *, allow: bool = False) -> Plan:
        """One run; without faults, everything in its plan is done."""
        policies, self._faulty = self.git.all, faults is not None
        made = self.world.plan(policies, allow=allow)
        self._judge_needs(self.world.desired, made)
        before, lists, idled = self._statuses(), self._lists(), len(self.idled)
        self._refused = self._refusals()
        applied = self.applied(made, policies, faults or Faults())
        if faults is None:
            wrong = [f"{one.status}: {one.message}" for one in applied.outcomes if one.status != "applied"]
            check(4, all_applied(applied), f"not everything was done: {wrong}")
        self._judge_lists(lists)
        self._judge_neighbours(self.idled[idled:])
        self._judge_statuses(before, whole=faults is None and not made.held_back)
        others = any(one.decision.job != "idling" and one.decision.verb is not Verb.REMEMBER for one in made.actions)
        if faults is None and not others and not any(policy.wake_order.per_run for policy in policies.idling):
            again = [
                line_of(one) for one in self.world.plan(policies, allow=allow).actions if one.decision.job == "idling"
            ]
            check(4, not again, f"after {[line_of(one) for one in made.actions]} idling would {again}")
        return made

    def applied(self, made: Plan, policies: PolicySet, faults: Faults) -> Any:
        self._deciding = {}
        self._minimum_now = self._manifest(HPA)["spec"]["minReplicas"]
        for action in made.actions:
            self._deciding.setdefault(action.ref, []).append(action.decision)
        total = self._total()
        placed = self.git.spread
        active = set(self.git.states.values()) == {"Active"} and not self.git.production
        roomy = placed is not None and ("*" in placed.clusters or active)  # else a frozen cluster may be all there is
        settled = roomy and not self._asleep("spread") and not self.world.down
        idles = any(one.decision.job == "idling" and one.ref.name == "spread" for one in made.actions)
        replaced = any(one.decision.verb is Verb.DELETE and one.ref.name == "spread" for one in made.actions)
        kept = placed is not None and settled and not idles and not replaced
        self._least = min(total, placed.replicas) if placed is not None and kept else 0
        applied = self.world.apply(made, policies, faults)
        if self._broken:
            raise self._broken[0]
        return applied

    def _judge_needs(self, desired: DesiredState, made: Plan) -> None:
        known = {one.key for one in desired.decisions}
        for decision in desired.decisions:
            check(1, known.issuperset(decision.needs), f"{decision.key} needs {decision.needs}, decided is {known}")
        planned = {one.decision.key for one in made.actions}
        for action in made.actions:
            missing = set(action.decision.needs) - planned
            check(1, not missing, f"{action.decision.key} needs {missing}, which is not in the plan")

    # what is written

    def wrote(self, write: Write, before: Workload | None, after: Workload | None) -> None:
        """Judge one write of ours. The run goes on: it takes what is raised for a failure of that write."""
        try:
            self._judge_write(write, before, after)
        except LawBroken as broken:
            self._broken.append(broken)

    def _judge_write(self, write: Write, before: Workload | None, after: Workload | None) -> None:
        try:
            self._judge_one(write, before, after)
        finally:
            self.doubtful.discard(write.ref)

    def _judge_one(self, write: Write, before: Workload | None, after: Workload | None) -> None:
        ref, state = write.ref, self.git.states[write.ref.cluster]
        check(6, state != "ReadOnly", f"{ref} is written on a cluster that is read only")
        if before is not None and after is not None:
            lowered = scale_of(after) < scale_of(before)
            check(6, not (state == "Frozen" and lowered), f"{ref} shrinks on a frozen cluster")
            self._judge_production(ref, before, lowered=lowered)
            self._judge_scale(ref, before, after)
        elif after is not None and IDLED_AT not in after.annotations:
            self.had.pop(ref, None)  # made anew
        elif after is not None and ref in self.had:
            self._has_a_way_back(ref, after)  # replaced while it is idle
        if ref == HPA:
            self._judge_minimum()
        if ref.name == "spread" and ref.kind == "ReplicaSet":
            self._judge_local(ref, before, after)
            total = self._total()
            check(5, total >= self._least, f"{ref}: {total} replicas are left, {self._least} are needed")

    def _judge_minimum(self) -> None:
        found, marks = self._manifest(HPA)["spec"], self.world.annotations(HPA)
        least, verbs = found["minReplicas"], {one.verb for one in self._deciding.get(HPA, ())}
        if IDLED_AT in marks and self.minimum is None:
            self.minimum = self._minimum_now
            lowered = marks.get(PREVIOUS) == str(self.minimum) and least < self.minimum
            check(14, lowered, f"the minimum was {self.minimum}, and is {least}: {marks}")
        elif IDLED_AT not in marks and self.minimum is not None:
            restored = Verb.WAKE not in verbs or least == min(self.minimum, found["maxReplicas"])
            check(14, restored, f"the minimum was {self.minimum}, and is restored to {least}")
            self.minimum = None

    def _judge_local(self, ref: ObjectRef, before: Workload | None, after: Workload | None) -> None:
        """What placement did not make, nor took over, it neither scales nor deletes where no preference names it."""
        placed, jobs = self.git.spread, {one.job for one in self._deciding.get(ref, ())}
        theirs = before is not None and OWNER not in before.annotations and jobs == {"placement"}
        if before is not None and theirs and (placed is None or placed.preference(ref.cluster) is None):
            same = after is not None and scale_of(after) == scale_of(before)
            check(10, same, f"{ref} is not ours, no preference names its cluster, it was {told(before)}: {told(after)}")

    def _judge_production(self, ref: ObjectRef, before: Workload, *, lowered: bool) -> None:
        placed = self.git.spread if ref.name == "spread" else None
        named = ref.name == "spread" and (placed is None or placed.is_named(ref.cluster) or "*" not in placed.clusters)
        free = ref.cluster not in self.git.production or IDLED_AT in before.annotations or named
        check(13, free or not lowered, f"{ref} in a production cluster loses replicas: {told(before)}")

    def _judge_scale(self, ref: ObjectRef, before: Workload, after: Workload) -> None:
        decisions = self._deciding.get(ref, ())
        verbs, jobs = {one.verb for one in decisions}, {one.job for one in decisions}
        moved = scale_of(after) != scale_of(before)
        if "placement" in jobs and ref.name == "front" and moved:
            front, count = self.git.front, scale_of(after)
            self.others.discard(ref)
            if front is None or front.preference(ref.cluster) is None:
                had = self.placed.pop(ref, None)
                check(10, count == had, f"{ref} is scaled to {count} without a policy for it, it had {had}")
            else:
                self.placed.setdefault(ref, scale_of(before))
        if "placement" in jobs and Verb.RELEASE in verbs:
            self.placed.pop(ref, None)  # what was only raised stays
        if "idling" not in jobs:
            check(2, not (moved and ref in self.had and stands_idle(before)), f"{jobs} scales {ref}, which is idle")
            return
        if Verb.RECORD in verbs and not stands_idle(before):  # KEDA scaled it since, and its ScaledObject is idled
            self.had.pop(ref, None)
        if Verb.IDLE in verbs and scale_of(after) < scale_of(before):
            self.had[ref] = self.world.replicas(ref) if ref.kind == "ScaledObject" else scale_of(before)
            self._has_a_way_back(ref, after)
            self.idled.append(ref)
            self.queue_had = self.had.get(JOBS, self.queue_had)
        if Verb.WAKE in verbs and moved:
            had = self.had.get(ref, self.foreign.get(ref))
            check(2, had is not None or ref in self.doubtful, f"{ref} is woken, and was never idled")
            self.woken.append(ref)
            right = ref.kind == "ScaledObject" or had is None or scale_of(after) in {had, self._within_bounds(ref, had)}
            check(2, right, f"{ref} wakes to {scale_of(after)}, it had {had}")
        if IDLED_AT in before.annotations and IDLED_AT not in after.annotations:
            theirs = before.annotations.get(REASON) != "Idled"
            woken = Verb.WAKE in verbs  # which may find that the bounds allow no more
            forgets = ref in self.had and not moved and stands_idle(before) and not theirs and not woken
            check(2, not forgets, f"{ref} stands idle and its record is taken off")
            self.had.pop(ref, None)

    def _within_bounds(self, ref: ObjectRef, count: int) -> int:
        if (ref.cluster, ref.name) != ("east", "api"):
            return count
        spec = self._manifest(HPA)["spec"]
        return min(max(count, spec["minReplicas"]), spec["maxReplicas"])

    def _has_a_way_back(self, ref: ObjectRef, found: Workload) -> None:
        recorded = found.annotations.get(PREVIOUS, "1" if found.ref.kind == "CronJob" else "")
        right = IDLED_AT in found.annotations and recorded == str(self.had[ref])
        check(2, right, f"{ref} had {self.had[ref]}, its record says {recorded!r}: {dict(found.annotations)}")

    def all_have_a_way_back(self) -> None:
        for ref in self.had:
            found = self.world.workload(ref)
            if found is not None and stands_idle(found) and ref not in self.doubtful:
                self._has_a_way_back(ref, found)

    # Services

    def _lists(self) -> dict[ObjectRef, frozenset[str]]:
        """The names that each Service lists."""
        return {
            ref: frozenset(one["name"] for one in json.loads(texts.get(LISTED, "[]")))
            for ref, texts in self.world.annotated().items()
            if ref.kind == "Service"
        }

    def _judge_lists(self, before: Mapping[ObjectRef, frozenset[str]]) -> None:
        if self._faulty:
            return
        for ref, names in self._lists().items():
            if names <= before.get(ref, frozenset()):
                continue
            idled_to = int(self.world.annotations(ref).get(IDLED_TO, "0"))
            apps = ("web", "api") if ref.name == "all" else (ref.name,)
            found = [self.world.workload(ref_of(ref.cluster, kind, name)) for kind in BEHIND for name in apps]
            paused = PAUSED in self.world.annotations(JOBS)
            up = [one for one in found if one is not None and one.spec_replicas > idled_to]
            up = [one for one in up if not (paused and one.ref == QUEUE)]
            check(12, not up, f"{ref} lists {names} while {[told(one) for one in up]} run")

    def _judge_neighbours(self, idled: Sequence[ObjectRef]) -> None:
        """What one Service has behind it was idled for that Service, so nothing else behind it runs."""
        for ref in [] if self._faulty else idled:
            found = self.world.workload(ref)
            policy = None if found is None else self.git.idling.get(found.annotations.get(OWNER, "").rpartition("/")[2])
            if found is None or policy is None or policy.selector.services is None or ref.name not in ("web", "api"):
                continue
            for name in {"web", "api"} - {ref.name}:
                other = self.world.workload(ref_of(ref.cluster, "Deployment", name))
                idled_to = int(found.annotations[IDLED_TO])
                runs = other is not None and other.spec_replicas > idled_to and IDLED_AT not in other.annotations
                check(12, not runs, f"{ref} goes idle behind Service/all while {name} runs: {told(other)}")

    # federated ReplicaSets

    def _locals(self, name: str) -> dict[str, Workload]:
        kind = "ReplicaSet" if name == "spread" else "Deployment"
        found = {cluster: self.world.workload(ref_of(cluster, kind, name)) for cluster in CLUSTERS}
        return {cluster: one for cluster, one in found.items() if one is not None}

    def _total(self) -> int:
        return sum(one.spec_replicas for one in self._locals("spread").values())

    def _asleep(self, name: str) -> bool:
        return any(IDLED_AT in one.annotations for one in self._locals(name).values())

    def _statuses(self) -> dict[str, dict[str, Any]]:
        """The newest status of each federated ReplicaSet, by its name."""
        found: dict[str, tuple[str, dict[str, Any]]] = {}
        for ref, texts in self.world.annotated().items():
            if ref.kind == "ConfigMap" and STATUS in texts and ref.cluster not in self.world.down:
                name, at = ref.name.rpartition(".")[2], texts["reconciler/recorded-at"]
                if name not in found or at >= found[name][0]:
                    found[name] = (at, json.loads(texts[STATUS]))
        return {name: status["clusters"] for name, (_, status) in found.items()}

    def _refusals(self) -> frozenset[str]:
        """The objects of which a run recorded that a write was refused."""
        memories = [ObjectRef(cluster, "reconciler", "ConfigMap", "reconciler-memory") for cluster in CLUSTERS]
        texts = [text for ref in memories for text in self._manifest(ref).get("data", {}).values()]
        return frozenset(json.loads(text).get("object", "") for text in texts)

    def _judge_statuses(self, before: Mapping[str, Mapping[str, Any]], *, whole: bool) -> None:
        """`whole`: nothing was held back or went wrong, so all of it holds; else what this run wrote."""
        for name, entries in self._statuses().items():
            policy = self.git.spread if name == "spread" else self.git.front
            if policy is None:
                continue
            found, kind = self._locals(name), "ReplicaSet" if name == "spread" else "Deployment"
            for cluster, entry in entries.items():
                if cluster in self.world.down or before.get(name, {}).get(cluster) == entry:
                    continue
                local = found.get(cluster)
                idle = local is not None and IDLED_AT in local.annotations and stands_idle(local)
                others = local is not None and BY_OTHERS in local.annotations
                said = f"the status of {name} in {cluster} says {entry}, "
                check(3, idle or others or "idle" not in entry, f"{said}it is {told(local)}")
                refused = str(ref_of(cluster, kind, name)) in self._refused  # it says what it had: it may be so again
                if whole and entry["asked"] is not None and not others and not refused:
                    has = 0 if local is None else int(local.annotations[PREVIOUS]) if idle else local.spec_replicas
                    check(3, entry["asked"] == has, f"{said}it has {has}: {told(local)}")

    def comes_to_rest(self, *, allow: bool = False) -> None:
        for _ in range(RUNS):
            self.world.controllers()
            if not self.run(allow=allow).actions:
                break
            self.world.now += TICK
        left = [line_of(one) for one in self.world.plan(self.git.all, allow=allow).actions]
        check(4, not left, f"no rest after {RUNS} runs: {left}")
        self._nothing_is_missing()
        self._order_does_not_matter()

    def _nothing_is_missing(self) -> None:
        placed = self.git.spread
        trouble = self.world.down or set(self.git.states.values()) != {"Active"} or self.git.limit is not None
        trouble = trouble or self.git.production
        if placed is not None and not placed.paused and not trouble and not self._asleep("spread"):
            # What others made, or an earlier policy released, stays where the preferences do not name its cluster.
            about = [
                one
                for cluster, one in self._locals("spread").items()
                if placed.preference(cluster) is not None or OWNER in one.annotations
            ]
            total = sum(one.spec_replicas for one in about)
            check(5, total == placed.replicas, f"{total} at rest, {placed.replicas} are wanted")

    def _order_does_not_matter(self) -> None:
        state, run = self.world.seen, Run(self.world.now, "run")
        first = decide(self.git.all, state, run)
        clusters = {name: reversed_order(state.clusters[name]) for name in reversed(state.clusters)}
        again = decide(self.git.all, replace(state, clusters=clusters), run)
        check(9, in_order(first.decisions) == in_order(again.decisions), "another order of objects, another plan")

    def nothing_is_dark(self) -> None:
        for ref, count in self.had.items():
            found = self.world.workload(ref)
            check(8, found is None or not stands_idle(found), f"{ref} had {count}, and stays {told(found)}")
        for ref, texts in self.world.annotated().items():
            left = [key for key in texts if key.startswith("idling.kubernetes.io/") or key in (PAUSED, BOUNDS)]
            copies = ref.kind == "ReplicaSet" and ref.name != "spread"  # which the controller of their Deployment keeps
            check(8, copies or not left, f"{ref} keeps {left}")
        for ref, count in self.placed.items():
            found = self.world.workload(ref)
            same = found is None or ref in self.others or scale_of(found) >= count
            check(10, same, f"{ref} had {count} before it was placed: {told(found)}")

    def _manifest(self, ref: ObjectRef) -> Any:
        cluster: MemoryCluster = self.world.clusters[ref.cluster]
        try:
            return cluster.manifest(ref)
        except NotFoundError:
            return {}


BEHIND = ("Deployment", "ReplicaSet")
BOUNDS = "reconciler/previous-bounds"
HPA = ObjectRef("east", "shop", "HorizontalPodAutoscaler", "api", "autoscaling")


def scale_of(found: Workload) -> int:
    """What a write changes of it; a ScaledObject that is paused counts as 0, else as 1."""
    if found.ref.kind == "ScaledObject":
        return 0 if PAUSED in found.annotations else 1
    return found.spec_replicas


def stands_idle(found: Workload) -> bool:
    return scale_of(found) <= int(found.annotations.get(IDLED_TO, "0"))


def told(found: Workload | None) -> str:
    return "not there" if found is None else f"at {scale_of(found)}, {dict(found.annotations)}"


def line_of(action: Any) -> str:
    one = action.decision
    return f"{one.verb} {one.ref} {one.replicas_before}->{one.replicas_after} ({one.cause.why})"


def reversed_order(cluster: ObservedCluster) -> ObservedCluster:
    lists = ("workloads", "services", "endpoints", "autoscalers", "config_maps", "namespaces")
    return replace(cluster, **{name: getattr(cluster, name)[::-1] for name in lists})
