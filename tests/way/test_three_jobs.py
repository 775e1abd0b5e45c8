"""The laws of all three jobs together, over random histories of one small Fleet.

Idling, placement and downscale decide over the same objects, in the world of the laws of idling with everything that
may happen there: crashes, refused writes, hands, other programs, autoscalers, clusters that freeze, vanish and return,
policies that come and go. Besides those laws, which hold here too:

1. It comes to rest: with nobody else about, some run has nothing to do, and one at the same moment neither.
2. What idling took down is scaled by idling alone, so no previous scale is lost.
3. A run never takes more replicas of a federated ReplicaSet away than there are above its total.
4. A federated ReplicaSet that is idle starts nowhere while it is.
5. A frozen cluster gets no decreases, one that is read only nothing, one that does not answer nothing.
6. The same inputs give the same plan, in whatever order clusters list their objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from msgspec.structs import replace

from reconciler.decide.decide import decide
from reconciler.decide.decisions import Decision, DesiredState, Verb
from reconciler.decide.schedule import open_until, opens_next
from reconciler.model import ObjectRef, ObservedCluster, ObservedState, Run, Workload
from reconciler.plan.build import in_order
from reconciler.policy.types import (
    ClusterPreference,
    DownscalePolicy,
    DownscaleTarget,
    FederatedReplicaSet,
    PolicySet,
    Selector,
    WorkloadSelector,
)
from tests.builders import a_downscale_policy, a_federated_replica_set, a_fleet, a_pod, a_policy_set, a_ref, a_service
from tests.idling.idling_policies import a_policy
from tests.idling.test_idling_laws import CALENDAR, HPA, Idling
from tests.placement.placements import a_federated

pytestmark = pytest.mark.laws

CLUSTERS = ("east", "west", "north")
EVERYWHERE = {"*": ClusterPreference(weight=1)}
SPREAD = {"app": "spread"}
TEMPLATE = {"metadata": {"labels": SPREAD}, "spec": {"containers": [{"name": "main", "image": "spread:1"}]}}
TICK = timedelta(minutes=11)  # longer than unschedulableAfter and clusterGracePeriod
RUNS = 16


@st.composite
def federations(draw: st.DrawFn) -> FederatedReplicaSet:
    """One that makes its local ReplicaSets, on all clusters, so that its whole total finds a place."""
    preferences = {
        name: ClusterPreference(draw(st.sampled_from([0, 0, 2])), None, draw(st.integers(1, 3)))
        for name in draw(st.lists(st.sampled_from(CLUSTERS), unique=True, max_size=3))
    }
    return a_federated(
        draw(st.integers(0, 9)),
        name="spread",
        selector={"matchLabels": SPREAD},
        template=TEMPLATE,
        clusters={**EVERYWHERE, **preferences},
        rebalance=draw(st.booleans()),
        rounding=draw(st.sampled_from(["Fair", "Fair", "KubeFed"])),
        paused=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def downscales(draw: st.DrawFn) -> DownscalePolicy:
    kinds = draw(st.sampled_from([("Deployment",), ("Deployment", "ReplicaSet"), ("ReplicaSet",)]))
    target = DownscaleTarget(replicas=draw(st.integers(0, 3)), direction=draw(st.sampled_from(["Down", "Both"])))
    mode = draw(st.sampled_from(["Enforce", "Enforce", "Observe"]))
    return a_downscale_policy("shrink", selector=Selector(workloads=WorkloadSelector(kinds)), target=target, mode=mode)


class ThreeJobs(Idling):
    """Everybody who may touch the world of idling, and two more jobs in it."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = a_fleet(*CLUSTERS)
        self.world.add(*(a_service("spread", cluster=cluster) for cluster in CLUSTERS))
        self.spread: FederatedReplicaSet | None = a_federated(
            6, name="spread", selector={"matchLabels": SPREAD}, template=TEMPLATE
        )
        self.downscale: tuple[DownscalePolicy, ...] = ()
        self.seen: dict[ObjectRef, int] = {}  # what the last run found of spread

    # our runs

    def _policy_set(self) -> PolicySet:
        chosen = tuple(self.policies[name] for name in sorted(self.policies))
        federated = (*self.federated, *((self.spread,) if self.spread else ()))
        return a_policy_set(self.fleet, idling=chosen, federated=federated, downscale=self.downscale)

    def _decide(self, allow: frozenset[str] = frozenset()) -> DesiredState:
        self.world.answers = dict(self._answers())
        run = Run(self.world.now, "run", "rev", allow)
        state = self.world.state()
        desired = decide(self._policy_set(), state, run)
        for _ in range(3):
            if not desired.questions:
                break
            state = self._answered(state, desired)
            desired = decide(self._policy_set(), state, run)
        assert not desired.questions
        self._judge(desired)
        return desired

    def _answered(self, state: ObservedState, desired: DesiredState) -> ObservedState:
        clusters = dict(state.clusters)
        for question in desired.questions:
            ref = question.workload
            known = clusters[ref.cluster]
            clusters[ref.cluster] = replace(known, pods={**known.pods, ref: self._pods(ref)})
        return replace(state, clusters=clusters)

    def _pods(self, ref: ObjectRef):
        owner = self.world.objects[ref].uid
        names = [f"{ref.name}-{number}" for number in range(self.world.replicas(ref))]
        return tuple(a_pod(name, cluster=ref.cluster, namespace=ref.namespace, owner_uid=owner) for name in names)

    # what no plan may hold

    def _judge(self, desired: DesiredState) -> None:
        states = {one.name: one.state for one in self.fleet.clusters}
        idle = {name for name in ("spread", "fed") if self._is_idle(name)}
        woken = {one.ref.name for one in desired.decisions if one.verb in (Verb.WAKE, Verb.RELEASE)}
        for decision in desired.decisions:
            where = decision.ref.cluster
            assert where not in self.world.unreachable, f"{decision.key} is on a cluster that does not answer"
            assert states[where] != "ReadOnly", f"{decision.key} is on a cluster that is read only"
            assert not (states[where] == "Frozen" and decision.removed), f"{decision.key} shrinks on a frozen cluster"
            starts = decision.job == "placement" and (decision.replicas_after or 0) > (decision.replicas_before or 0)
            assert not starts or decision.ref.name not in idle - woken, f"{decision.key} starts what is idle"
        self._judge_total(desired)

    def _locals(self, name: str) -> list[Workload]:
        return [
            found
            for ref, found in sorted(self.world.objects.items())
            if isinstance(found, Workload) and ref.name == name and ref.kind in ("ReplicaSet", "Deployment")
        ]

    def _is_idle(self, name: str) -> bool:
        """Whether something of a federated ReplicaSet that can be seen has a record of ours, and nothing of it runs."""
        found = [one.ref for one in self._locals(name)]
        seen = [ref for ref in found if ref.cluster not in self.world.unreachable]
        return any(self.world.recorded(ref) is not None for ref in seen) and all(
            self.world.stands_idle(ref) for ref in found
        )

    def _judge_total(self, desired: DesiredState) -> None:
        """However far a run comes, and whichever increase is refused: no more goes than there is above the total."""
        found = {one.ref: one.spec_replicas for one in self._locals("spread")}
        unseen = {ref: count for ref, count in found.items() if ref.cluster in self.world.unreachable}
        known = all(self.seen.get(ref) == count for ref, count in unseen.items())
        self.seen |= {ref: count for ref, count in found.items() if ref not in unseen}
        idle = any(self.world.recorded(ref) is not None for ref in found)
        if self.spread is None or not known or idle or self._idles_spread(desired):
            return
        ordered = in_order([one for one in desired.decisions if one.job == "placement"])
        needed = min(sum(found.values()), self.spread.replicas)
        raises = [one.key for one in ordered if (one.replicas_after or 0) > (one.replicas_before or 0)]
        for refused in ("", *raises):
            least = min(_totals(found, ordered, refused))
            assert least >= needed, f"{found} dips to {least} of {needed} without {refused or 'anything'} refused"

    def _idles_spread(self, desired: DesiredState) -> bool:
        return any(one.job == "idling" and one.ref.name == "spread" for one in desired.decisions)

    # the laws

    @rule()
    def a_second_run_writes_nothing(self) -> None:
        """It comes to rest; the world of idling alone does so at once."""
        for _ in range(RUNS):
            self.world.controllers()
            if not self._decide().decisions:
                break
            self._clean_run()
            self.world.now += TICK
        told = self._told(self._decide())
        assert not told, f"no rest after {RUNS} runs: {told}"
        self._nothing_is_missing()

    def _nothing_is_missing(self) -> None:
        found = self._locals("spread")
        if self.spread is None or self.spread.paused or self.world.unreachable:
            return
        idle = any(self.world.recorded(one.ref) is not None for one in found)
        if not idle and all(one.state == "Active" for one in self.fleet.clusters):
            total = sum(one.spec_replicas for one in found)
            assert total == self.spread.replicas, f"{total} at rest, {self.spread.replicas} are wanted"

    @rule()
    def the_order_of_what_is_read_does_not_matter(self) -> None:
        self.world.answers = dict(self._answers())
        state, run = self.world.state(), Run(self.world.now, "run", "rev")
        first = decide(self._policy_set(), state, run)
        clusters = {name: _reversed(state.clusters[name]) for name in reversed(state.clusters)}
        again = decide(self._policy_set(), replace(state, clusters=clusters), run)
        assert in_order(first.decisions) == in_order(again.decisions)
        assert set(first.questions) == set(again.questions)

    @rule(
        trouble=st.sampled_from(["Frozen", "Draining", "ReadOnly", "gone", "gone"]),
        name=st.sampled_from(CLUSTERS),
        over=st.booleans(),
        total=st.sampled_from([None, None, 1, 2, 5]),
    )
    def a_night_with_trouble(self, trouble: str, name: str, over: bool, total: int | None) -> None:
        """Trouble with one cluster while all is idle, for longer than anything waits."""
        if self.spread is not None and total is not None:
            self.spread = replace(self.spread, replicas=total)
            for cluster in CLUSTERS:  # so that it is not everywhere
                self.delete_what_is_spread(cluster)
            self._pass_until(self.world.now)
        self.policies["a"] = a_policy("a", priority=9)
        self.policies["b"] = a_policy("b", selector=Selector(workloads=WorkloadSelector(("ReplicaSet",))), priority=9)
        self._pass_until(opens_next(CALENDAR, self.world.now))
        self.clusters_go_or_come((name,) if trouble == "gone" else ())
        self.cluster_state(name, "Active" if trouble == "gone" else trouble)
        self._pass_until(self.world.now + 2 * TICK)
        if over:
            self.clusters_go_or_come(())
            self.cluster_state(name, "Active")
        self._pass_until(open_until(CALENDAR, self.world.now))

    def _pass_until(self, then: datetime | None) -> None:
        """Run at `then`, where that is still to come, and twice more."""
        self.world.now = max(self.world.now, then or self.world.now)
        for _ in range(3):
            self._clean_run()
            self.world.now += TICK

    # who else is about

    @rule(cluster=st.sampled_from(CLUSTERS), count=st.integers(0, 7))
    def hand_on_what_is_spread(self, cluster: str, count: int) -> None:
        ref = a_ref("spread", kind="ReplicaSet", cluster=cluster)
        if ref in self.world.objects and cluster not in self.world.unreachable:
            self.world.scale(ref, count)

    @rule(cluster=st.sampled_from(CLUSTERS))
    def delete_what_is_spread(self, cluster: str) -> None:
        ref = a_ref("spread", kind="ReplicaSet", cluster=cluster)
        if ref in self.world.objects and cluster not in self.world.unreachable and not self.world.is_listed(ref):
            self.world.had.pop(ref, None)
            del self.world.objects[ref]

    @rule(ref=st.sampled_from([a_ref("batch"), a_ref("fed"), a_ref("api")]), count=st.integers(1, 5))
    def somebody_fights(self, ref: ObjectRef, count: int) -> None:
        for _ in range(5):
            self._clean_run()
            self.world.controllers()
            self.world.scale(ref, count, "argocd-controller", timed=True)
            self.world.now += timedelta(minutes=5)

    @rule(low=st.integers(1, 3), more=st.integers(0, 5), whole=st.booleans(), replicas=st.booleans())
    def somebody_fights_for_the_bounds(self, low: int, more: int, whole: bool, replicas: bool) -> None:
        declared = replace(self.world.objects[HPA], minimum=low, maximum=low + more)
        for _ in range(5):
            self._clean_run()
            self.world.put_back(declared, whole=whole)
            if replicas:
                self.world.scale(a_ref("api"), low, "argocd-controller", timed=True)
            self.world.controllers()
            self.world.now += timedelta(minutes=5)

    @rule(minutes=st.sampled_from([1, 10, 90]))
    def run_with_a_clock_that_is_slow(self, minutes: int) -> None:
        right = self.world.now
        self.world.now -= timedelta(minutes=minutes)
        self._clean_run()
        self.world.now = right

    @rule()
    def a_month_goes_by(self) -> None:
        self.world.now += timedelta(days=30)

    @rule(down=st.sampled_from([(), (), *((name,) for name in CLUSTERS), ("east", "west"), CLUSTERS]))
    def clusters_go_or_come(self, down: tuple[str, ...]) -> None:
        self.world.unreachable = set(down)

    @rule(
        name=st.sampled_from(CLUSTERS),
        state=st.sampled_from(["Active", "Active", "Active", "Frozen", "ReadOnly", "Draining", "Leaving"]),
    )
    def cluster_state(self, name: str, state: str) -> None:
        clusters = (replace(one, state=state) if one.name == name else one for one in self.fleet.clusters)
        self.fleet = replace(self.fleet, clusters=tuple(clusters))

    @rule(spread=st.one_of(federations(), federations(), federations(), st.none()))
    def write_spread(self, spread: FederatedReplicaSet | None) -> None:
        self.spread = spread

    @rule(paused=st.booleans(), federate=st.booleans())
    def federation(self, paused: bool, federate: bool) -> None:
        one = a_federated_replica_set("fed", replicas=7, paused=paused, clusters=EVERYWHERE)
        self.federated = (one,) if federate else ()

    @rule(policies=st.lists(downscales(), max_size=1))
    def write_downscale(self, policies: list[DownscalePolicy]) -> None:
        self.downscale = tuple(policies)


def _totals(found: Mapping[ObjectRef, int], ordered: Sequence[Decision], refused: str) -> list[int]:
    """The total before a run and after each of its writes, `refused` and what needs it aside."""
    now = dict(found)
    totals = [sum(now.values())]
    failed = {refused}
    for decision in ordered:
        if decision.key in failed or failed.intersection(decision.needs):
            failed.add(decision.key)
        elif decision.ref.name == "spread" and decision.replicas_after is not None:
            now[decision.ref] = decision.replicas_after
            totals.append(sum(now.values()))
    return totals


def _reversed(cluster: ObservedCluster) -> ObservedCluster:
    return replace(
        cluster,
        workloads=cluster.workloads[::-1],
        services=cluster.services[::-1],
        autoscalers=cluster.autoscalers[::-1],
        config_maps=cluster.config_maps[::-1],
        namespaces=cluster.namespaces[::-1],
        events=cluster.events[::-1],
    )


def test_defect_21_the_laws_of_all_jobs_hold_over_random_histories():
    run_state_machine_as_test(ThreeJobs, settings=settings(max_examples=70, stateful_step_count=25))


@pytest.mark.soak
def test_the_laws_of_all_jobs_hold_over_ten_thousand_histories():
    run_state_machine_as_test(ThreeJobs, settings=settings(max_examples=10_000, stateful_step_count=30))
