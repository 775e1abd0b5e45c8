"""The five laws of idling, over random histories of a small world.

1. What stands at its idled count because of us always has a record that restores exactly what it had.
2. After a signal, or once no policy wants it idle, it is up within two runs that can reach it.
3. Without a change from outside, nothing is idled or woken twice in one window, and the second run writes nothing.
4. What we never idled is never scaled by us.
5. No Service is marked, and nothing is added to its list, while anything that ran behind it goes on running.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.decide import decide_idling, decide_wakes_due
from reconciler.decide.schedule import is_open
from reconciler.model import (
    Endpoints,
    HorizontalPodAutoscaler,
    ObjectRef,
    QueryAnswer,
    QueryKey,
    Run,
    Sample,
    Service,
    Workload,
)
from reconciler.policy.types import (
    AllOf,
    AnyOf,
    ClusterPreference,
    FederatedReplicaSet,
    FleetCluster,
    IdlingPolicy,
    ObjectSelector,
    Place,
    Selector,
    WakeMetric,
    WakeOrder,
    WorkloadSelector,
)
from tests.builders import a_federated_replica_set, a_fleet, a_policy_set, a_ref, a_service, a_workload
from tests.decide.idling.idling_policies import REQUESTS, a_metric, a_policy, a_schedule, office_hours_off
from tests.decide.idling.world import World
from tests.laws import tries

pytestmark = pytest.mark.laws

BEGIN = datetime(2026, 10, 23, 15, 0, tzinfo=UTC)  # a Friday; clocks are set back in the night to Sunday
QUEUE = "queue_length"
TIER = {"tier": "app"}
PAUSED = "autoscaling.keda.sh/paused-replicas"
TARGETS = "idling.kubernetes.io/unidle-targets"
NAMES = ("all", "api", "fed", "queue", "web")
CALENDAR = office_hours_off()


HPA = a_ref("api", kind="HorizontalPodAutoscaler")


def _deployment(name: str, replicas: int, cluster: str = "east", **fields: Any) -> Workload:
    labels = {"app": name, **(TIER if name in ("web", "api") else {})}
    defaults = {"template_labels": labels, "created_at": BEGIN - timedelta(days=1)}
    return a_workload(name, replicas=replicas, cluster=cluster, **(defaults | fields))


def _new_world() -> World:
    scaled = a_workload("jobs", kind="ScaledObject", replicas=None, scale_target=("Deployment", "queue"), selector=None)
    hpa = HorizontalPodAutoscaler(HPA, "uid-hpa", ("Deployment", "api"), maximum=6, minimum=2)
    world = World(BEGIN)
    world.behind[a_ref("web", kind="Service")] = {a_ref("batch")}
    return world.add(
        _deployment("web", 3), _deployment("api", 4), _deployment("batch", 2), _deployment("queue", 2),
        _deployment("fed", 2), _deployment("fed", 5, "west"), scaled, hpa,
        a_workload("nightly", kind="CronJob", replicas=None, suspend=False),
        a_service("web"), a_service("api"), a_service("all", selector=TIER), a_service("queue"),
        a_service("fed"), a_service("fed", cluster="west"),
        Endpoints(ObjectRef("east", "shop", "Endpoints", "web"), "uid-endpoints-web"),
    )  # fmt: skip


DEPLOYMENTS = [a_ref(name) for name in ("api", "batch", "fed", "queue", "web")] + [a_ref("fed", cluster="west")]
HANDS = [ref for ref in DEPLOYMENTS if ref.name != "queue"]
SERVICES = [a_ref(name, kind="Service") for name in NAMES]
SCALABLES = [*DEPLOYMENTS, a_ref("nightly", kind="CronJob"), a_ref("jobs", kind="ScaledObject")]

SELECTORS = [
    Selector(services=ObjectSelector()),
    Selector(services=ObjectSelector()),
    Selector(services=ObjectSelector(), workloads=WorkloadSelector(("CronJob", "Deployment"))),
    Selector(workloads=WorkloadSelector()),
    Selector(workloads=WorkloadSelector(("Deployment", "ScaledObject", "CronJob"))),
    Selector(services=ObjectSelector(), namespaces=ObjectSelector(("other",))),
]
CRITERIA = [
    AllOf((a_schedule(),)),
    AllOf((a_schedule(),)),
    AllOf((a_metric(),)),
    AllOf((a_schedule(), a_metric())),
    AllOf((AnyOf((a_schedule(), a_metric())),)),
]


@st.composite
def policies(draw: st.DrawFn) -> IdlingPolicy:
    """Mostly policies that idle something: each oddity is rare."""
    name = draw(st.sampled_from("abcd"))
    odd = draw(st.integers(0, 11))
    floor = draw(st.sampled_from([0, 0, 0, 1, 2]))
    return a_policy(
        name,
        selector=draw(st.sampled_from(SELECTORS)),
        idle_when=draw(st.sampled_from(CRITERIA)),
        idle_replicas=floor,
        priority=1 if odd == 0 else ord(name),
        mode="Observe" if odd == 1 else "Enforce",
        wake="OnSignal" if odd in (2, 3) else "Automatic",
        hpa="Leave" if odd == 4 else "Idle",
        keda="Leave" if odd == 4 else "Pause",
        mark_endpoints=odd in (5, 6),
        wake_when=(WakeMetric(QUEUE, 0, "5m"),) if odd in (7, 8) else (),
        min_age=timedelta(hours=1),
        min_awake=timedelta(0) if odd in (9, 10) else timedelta(hours=2),
        wake_order=WakeOrder("shop", tier=floor * 10, per_run=None),
    )


values = st.sampled_from([0.0, 0.0, 0.0, 0.0, 5.0, None, math.nan])
waits = st.sampled_from([0, 1, 5, 20, 60, 130, 400, 900, 1500, 4000])  # minutes


class Idling(RuleBasedStateMachine):
    """Everybody who may touch the world, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = _new_world()
        self.fleet = a_fleet("east", "west")
        self.policies: dict[str, IdlingPolicy] = {}
        self.federated: tuple[FederatedReplicaSet, ...] = ()
        self.values: dict[str, float | None] = dict.fromkeys(NAMES, 0.0)
        self.queue: dict[str, float | None] = dict.fromkeys(NAMES, 0.0)

    # our runs

    def _decide(self, *, allow: bool = False):
        chosen = tuple(self.policies[name] for name in sorted(self.policies))
        self.world.answers = dict(self._answers())
        policy_set = a_policy_set(self.fleet, idling=chosen, federated=self.federated)
        run = Run(self.world.now, "run", "rev", allow_removed=allow)
        return decide_idling(policy_set, self.world.state(), run).desired

    def _told(self, desired: DesiredState) -> list[tuple[str, str]]:
        return [(decision.key, decision.cause.why) for decision in desired.decisions]

    def _answers(self):
        for cluster in (one.name for one in self.fleet.clusters):
            for name in self.policies:
                yield QueryKey(cluster, name, REQUESTS, "30m"), _answer(self.values)
                yield QueryKey(cluster, name, QUEUE, "5m"), _answer(self.queue)

    def _clean_run(self, *, allow: bool = False) -> int:
        """One run without faults; every write finds what it expects."""
        before = self._runs_and_lists()
        decisions = self._decide(allow=allow).decisions
        applied = self.world.apply(decisions)
        reachable = {decision.key for decision in decisions}
        assert applied == reachable, f"not applied: {sorted(reachable - applied)}"
        self._nothing_runs_behind_what_is_marked_now(before)
        return len(decisions)

    def _runs_and_lists(self) -> tuple[dict[ObjectRef, bool], dict[ObjectRef, set[str]]]:
        """What runs, and the names that each Service lists, itself or on its Endpoints, which may outlive its marks."""
        workloads = [one for one in self.world.objects.values() if isinstance(one, Workload)]
        running = {one.ref: one.ref.kind == "Deployment" and self._runs(one) for one in workloads}
        marked = [one for one in self.world.objects.values() if isinstance(one, Service | Endpoints)]
        names: dict[ObjectRef, set[str]] = {}
        for one in marked:
            names.setdefault(replace(one.ref, kind="Service"), set()).update(listed(one))
        return running, names

    def _runs(self, found: Workload) -> bool:
        if found.ref.name == "queue" and PAUSED in self.world.objects[a_ref("jobs", kind="ScaledObject")].annotations:
            return False
        return found.spec_replicas > int(found.annotations.get("reconciler/idled-to", "0"))

    def _nothing_runs_behind_what_is_marked_now(
        self, before: tuple[dict[ObjectRef, bool], dict[ObjectRef, set[str]]]
    ) -> None:
        running, lists = self._runs_and_lists()
        for ref, names in lists.items():
            if names - before[1][ref]:
                floor = int(self.world.objects[ref].annotations.get("reconciler/idled-to", "0"))
                up = [one for one in self.world.targets(self.world.objects[ref]) if running[one] and before[0][one]]
                up = [one for one in up if self.world.replicas(one) > floor]
                assert not up, f"{ref} lists {names - before[1][ref]} while {up} run"

    @rule(minutes=waits)
    def time_passes(self, minutes: int) -> None:
        self.world.now += timedelta(minutes=minutes)

    @initialize(policies=st.lists(policies(), min_size=1, max_size=3), hours=st.sampled_from([0, 4, 6, 8, 20, 40]))
    def the_first_evening(self, policies: list[IdlingPolicy], hours: int) -> None:
        self.policies = {policy.name: policy for policy in policies}
        self.world.now += timedelta(hours=hours)
        self._clean_run()

    @rule(minutes=waits)
    def run(self, minutes: int) -> None:
        self.world.now += timedelta(minutes=minutes)
        self._clean_run()

    @rule(writes=st.integers(0, 6))
    def run_that_crashes(self, writes: int) -> None:
        self.world.apply(self._decide().decisions, crash_after=writes)

    @rule(refused=st.frozensets(st.integers(0, 8), max_size=3))
    def run_that_is_refused_some_writes(self, refused: frozenset[int]) -> None:
        self.world.apply(self._decide().decisions, refuse=refused)

    @rule(place=st.integers(0, 5), ref=st.sampled_from(HANDS), count=st.integers(0, 7), key=st.integers(0, 2))
    def run_while_somebody_writes(self, place: int, ref: ObjectRef, count: int, key: int) -> None:
        def meanwhile(now: int) -> None:
            if now == place:
                self._meddle(ref, count, key)

        self.world.apply(self._decide().decisions, between=meanwhile)

    def _meddle(self, ref: ObjectRef, count: int, key: int) -> None:
        if key == 0:
            self.world.scale(ref, count, "argocd-controller", timed=True)
        elif key == 1:
            self.world.annotate(ref, "reconciler/exclude", "true" if count else None)
        else:
            self.world.controllers()

    @rule()
    def run_with_broken_policies(self) -> None:
        desired = decide_wakes_due(self.fleet, self.world.state(), Run(self.world.now, "run"))
        self.world.apply(desired.decisions)

    # people and other programs

    @rule(ref=st.sampled_from(HANDS), count=st.integers(0, 7))
    def hand(self, ref: ObjectRef, count: int) -> None:
        self.world.scale(ref, count)

    @rule(ref=st.sampled_from(HANDS), count=st.integers(1, 5))
    def gitops(self, ref: ObjectRef, count: int) -> None:
        self.world.scale(ref, count, "argocd-controller", timed=True)

    @rule(ref=st.sampled_from(SCALABLES), reason=st.sampled_from(["Maintenance", None]))
    def somebody_gives_a_reason(self, ref: ObjectRef, reason: str | None) -> None:
        self.world.annotate(ref, "scale.kubernetes.io/scale-reason", reason)

    @rule(suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        self.world.scale(a_ref("nightly", kind="CronJob"), 0 if suspend else 1)

    @rule(ref=st.sampled_from(DEPLOYMENTS))
    def deploy(self, ref: ObjectRef) -> None:
        self.world.deploy(ref)

    @rule(ref=st.sampled_from([a_ref("web"), a_ref("api")]))
    def rollout_undo(self, ref: ObjectRef) -> None:
        if self.world.is_listed(ref) or ref not in self.world.had:  # without a Service nothing else remembers
            self.world.undo(ref)

    @rule(name=st.sampled_from(NAMES))
    def service_is_made_anew(self, name: str) -> None:
        """Its marks go with it; that is no loss while everything idle carries its own record."""
        ref = a_ref(name, kind="Service")
        if all(self.world.recorded(other) == had for other, had in self.world.had.items()):
            self.world.add(a_service(name, selector=dict(self.world.objects[ref].selector), uid=f"new-{name}"))

    @rule(ref=st.sampled_from(HANDS), count=st.integers(0, 4))
    def workload_is_made_anew(self, ref: ObjectRef, count: int) -> None:
        self.world.add(_deployment(ref.name, count, ref.cluster, uid=f"new-{ref.name}", created_at=self.world.now))
        self.world.forget(ref)

    @rule(low=st.integers(1, 3), more=st.integers(0, 5), whole=st.booleans())
    def other_bounds(self, low: int, more: int, whole: bool) -> None:
        self.world.put_back(replace(self.world.objects[HPA], minimum=low, maximum=low + more), whole=whole)

    @rule(name=st.sampled_from(["web", "fed"]))
    def oc_idle(self, name: str) -> None:
        self.world.oc_idle(a_ref(name), a_ref(name, kind="Service"))

    @rule()
    def controllers(self) -> None:
        self.world.controllers()

    @rule(ref=st.sampled_from(SERVICES), ago=st.sampled_from([0, 1, 30, 300]))
    def need_pods(self, ref: ObjectRef, ago: int) -> None:
        self.world.need_pods(ref, ago=timedelta(minutes=ago))

    @rule(ref=st.sampled_from([*SERVICES, *SCALABLES]))
    def request(self, ref: ObjectRef) -> None:
        self.world.annotate(ref, "reconciler/wake-requested-at", self.world.now.isoformat())

    @rule(ref=st.sampled_from([*SERVICES, *SCALABLES]), text=st.sampled_from(["true", "yes", None, None, None, None]))
    def exclude(self, ref: ObjectRef, text: str | None) -> None:
        self.world.annotate(ref, "reconciler/exclude", text)

    @rule(service=st.sampled_from(NAMES), value=values)
    def traffic(self, service: str, value: float | None) -> None:
        self.values[service] = value

    @rule(value=values)
    def queue_grows(self, value: float | None) -> None:
        self.queue = dict.fromkeys(NAMES, value)

    @rule(down=st.sampled_from([(), (), ("east",), ("west",), ("east", "west")]))
    def clusters_go_or_come(self, down: tuple[str, ...]) -> None:
        self.world.unreachable = set(down)

    # policies

    @rule(policy=policies())
    def write_policy(self, policy: IdlingPolicy) -> None:
        self.policies[policy.name] = policy

    @rule(name=st.sampled_from(["a", "b", "c", "d"]))
    def lose_policy(self, name: str) -> None:
        self.policies.pop(name, None)

    @rule(name=st.sampled_from(["a", "b"]), other=st.sampled_from(["e", "f"]))
    def rename_policy(self, name: str, other: str) -> None:
        if name in self.policies:
            self.policies[other] = replace(self.policies.pop(name), name=other, place=Place(f"{other}.yaml", 9))

    @rule(state=st.sampled_from(["Active", "Active", "Active", "Frozen", "ReadOnly", "Leaving"]))
    def cluster_state(self, state: str) -> None:
        clusters = tuple(_with_state(cluster, state) for cluster in self.fleet.clusters)
        self.fleet = replace(self.fleet, clusters=clusters)

    @rule(name=st.sampled_from(["production", "staging"]))
    def rename_fleet(self, name: str) -> None:
        self.fleet = replace(self.fleet, name=name, former_names=("production", "staging"))

    @rule(paused=st.booleans(), federate=st.booleans())
    def federation(self, paused: bool, federate: bool) -> None:
        one = a_federated_replica_set("fed", replicas=7, paused=paused, clusters={"*": ClusterPreference(weight=1)})
        self.federated = (one,) if federate else ()

    # the laws

    @invariant()
    def what_is_idle_can_be_restored(self) -> None:
        for ref, had in self.world.had.items():
            if self.world.stands_idle(ref) and ref not in self.world.doubtful and ref.kind != "CronJob":
                assert self.world.remembered(ref) == had, f"{ref} had {had}"

    @invariant()
    def what_we_never_idled_is_never_scaled(self) -> None:
        assert not self.world.wrongs, self.world.wrongs

    @rule()
    def a_second_run_writes_nothing(self) -> None:
        first = self._told(self._decide())
        self._clean_run()
        again = self._told(self._decide())
        assert not again, f"first {first}, then {again}"

    @precondition(lambda self: self.world.had)
    @rule(place=st.integers(0, 20))
    def a_signal_wakes(self, place: int) -> None:
        ref = sorted(self.world.had)[place % len(self.world.had)]
        if not self.world.stands_idle(ref) or not self._can_reach(ref.cluster):
            return
        self.world.annotate(ref, "reconciler/wake-requested-at", self.world.now.isoformat())
        self._clean_run()
        self._clean_run()
        assert not self.world.stands_idle(ref) or ref not in self.world.had

    @rule()
    def no_policy_wants_anything_idle(self) -> None:
        self.policies.clear()
        for _ in range(2):
            self._clean_run(allow=True)
        left = [ref for ref in self.world.had if self._can_reach(ref.cluster)]
        assert not [ref for ref in left if self.world.stands_idle(ref)]
        self._nothing_is_left_behind()

    @rule(steps=st.integers(1, 60))
    def nobody_touches_anything(self, steps: int) -> None:
        """The reconciler runs on its own: in one window of the schedule nothing is idled or woken twice."""
        self._clean_run()
        seen: dict[bool, tuple[int, int]] = {}
        idles, wakes = len(self.world.idles), len(self.world.wakes)
        window = is_open(CALENDAR, self.world.now)
        for _ in range(steps):
            self.world.now += timedelta(minutes=37)
            self._clean_run()
            if is_open(CALENDAR, self.world.now) is not window:
                window = not window
                idles, wakes = len(self.world.idles), len(self.world.wakes)
            assert _at_most_once(self.world.idles[idles:]), "idled twice"
            assert _at_most_once(self.world.wakes[wakes:]), "woken twice"
        assert not seen

    def _can_reach(self, cluster: str) -> bool:
        found = self.fleet.cluster(cluster)
        return cluster not in self.world.unreachable and found is not None and found.state != "ReadOnly"

    def _nothing_is_left_behind(self) -> None:
        for ref, found in self.world.objects.items():
            if self._can_reach(ref.cluster) and ref not in self.world.foreign and hasattr(found, "annotations"):
                left = [key for key in found.annotations if key.startswith("idling.kubernetes.io/")]
                assert not left or self._lists_only_what_nobody_can_tell(found), f"{ref} keeps {left}"
                assert "reconciler/previous-bounds" not in found.annotations

    def _lists_only_what_nobody_can_tell(self, found: Any) -> bool:
        """A hand took it to zero just when its Service was marked: it is left, and so is the list, for a person."""
        if not isinstance(found, Service | Endpoints):
            return False
        refs = [ref for ref in DEPLOYMENTS if ref.cluster == found.ref.cluster and ref.name in listed(found)]
        left = all(ref in self.world.doubtful and self.world.stands_idle(ref) for ref in refs)
        return left and len(refs) == len(listed(found)) > 0


def listed(marked: Service | Endpoints) -> list[str]:
    return [entry["name"] for entry in json.loads(marked.annotations.get(TARGETS, "[]"))]


def _answer(values: dict[str, float | None]) -> QueryAnswer:
    return QueryAnswer(
        tuple(
            Sample({"namespace": "shop", "service": name}, value)
            for name, value in sorted(values.items())
            if value is not None
        )
    )


def _at_most_once(refs: list[ObjectRef]) -> bool:
    return max(Counter(refs).values(), default=0) <= 1


def _with_state(cluster: FleetCluster, state: str) -> FleetCluster:
    return replace(cluster, state=state) if cluster.name == "east" else cluster  # type: ignore[arg-type]


def test_the_laws_hold_over_random_histories():
    run_state_machine_as_test(Idling, settings=tries(150, stateful_step_count=25))


@pytest.mark.soak
def test_the_laws_hold_over_ten_thousand_histories():
    run_state_machine_as_test(Idling, settings=settings(max_examples=10_000, stateful_step_count=30))
