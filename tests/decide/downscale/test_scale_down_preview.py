"""What `rank` says of a ReplicaSet: whether a Deployment owns it decides if pods on the same node count."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from reconciler.decide.desired_state import decide
from reconciler.decide.downscale.scale_down_preview import pod_ranking_of, pods_to_rank
from reconciler.model import OwnerReference, PodsQuestion, Workload
from reconciler.policy.types import DownscaleTarget
from tests.builders import NOW_NS, a_cluster, a_fleet, a_pod, a_policy_set, a_run, a_state, a_workload
from tests.cases import cases
from tests.decide.downscale.world import PICKER, a_downscale_policy
from tests.decide.idling.idling_policies import NIGHT, NOON, a_policy, workloads_selector

DEPLOYMENT = OwnerReference("apps/v1", "Deployment", "web", "u-web")
DAY = 86_400 * 10**9


def a_replica_set(name: str, owner: OwnerReference | None) -> Workload:
    return a_workload(name, kind="ReplicaSet", uid=f"u-{name}", owner=owner)


def a_pod_on(name: str, node: str, days: int):
    at = NOW_NS - days * DAY
    return a_pod(name, node=node, ready_since_ns=at, created_ns=at)


PODS = (a_pod_on("young", "x", 1), a_pod_on("old", "y", 99))
UNREADY = a_pod("x", ready=False)


@cases(
    "pods to target ranked",
    ("to zero, in order", PODS, 0, 0, [("young", "all pods go"), ("old", "all pods go")]),
    ("the only one", PODS[:1], None, 0, [("young", "all pods go")]),
    ("no pods", (), None, 0, []),
    ("none that is active", (replace(PODS[0], terminating=True),), None, 0, []),
)
def test_when_all_go_each_is_told(pods, to, target, ranked):
    web = a_replica_set("web", None)
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: pods}))
    ranking = pod_ranking_of(web, a_policy_set(a_fleet()), state, a_run(), to)
    assert (ranking.to, [(pod.name, pod.rule) for pod in ranking.pods if pod.goes]) == (target, ranked)
    assert len(ranking.pods) == len(ranked)


def test_a_replica_set_of_another_namespace_is_no_relative():
    ranked = a_replica_set("web-2", DEPLOYMENT)
    claiming = a_workload("web-1", kind="ReplicaSet", namespace="dev-evil", owner=DEPLOYMENT)
    state = a_state(a_cluster(workloads=(ranked, claiming)))
    assert pods_to_rank(ranked, state) == [PodsQuestion(ranked.ref)]


def test_a_replica_set_of_a_deployment_counts_its_own_pods_alone():
    ranked = a_replica_set("web-1", DEPLOYMENT)
    pods = (a_pod_on("young", "x", 1), *(a_pod_on(name, "y", 99) for name in ("a", "b")))
    state = a_state(a_cluster(workloads=(ranked,), pods={ranked.ref: pods}))
    ranking = pod_ranking_of(ranked, a_policy_set(a_fleet()), state, a_run(), None)
    assert [pod.rule for pod in ranking.pods if pod.goes] == ["order of the controller's cache"]
    assert not ranking.forecast.certain


def test_rank_promises_nothing_that_apply_refuses():
    web = a_workload("web", replicas=2)
    costly = tuple(replace(pod, deletion_cost="7") for pod in (a_pod_on("a", "x", 1), a_pod_on("b", "y", 9)))
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: costly}))
    policy = a_downscale_policy("Deployment", target=None, strategy="NewestFirst")
    ranking = pod_ranking_of(web, a_policy_set(a_fleet(), downscale=(policy,)), state, a_run(), None)
    assert [pod.goes for pod in ranking.pods] == [False, False]
    assert (ranking.forecast.count, ranking.forecast.certain) == (0, False)
    assert "foreign deletion costs on a (7), expected none" in ranking.forecast.note


@cases(
    "picker young first note",
    ("a picker that is not asked", PICKER, "r1", (True, "not Ready"), ""),
    ("pods of two ReplicaSets", None, "r2", (None, ""), "several of its ReplicaSets have pods"),
)
def test_what_is_not_known_is_neither_deleted_nor_kept(picker, young, first, note):
    owned = (replace(PODS[0], owner_uid=young), *(replace(pod, owner_uid="r1") for pod in (PODS[1], UNREADY)))
    web = a_workload("web", replicas=3)
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: owned}))
    policy = a_downscale_policy("Deployment", target=None, pod_picker=picker)
    ranking = pod_ranking_of(web, a_policy_set(a_fleet(), downscale=(policy,)), state, a_run(), 1)
    ranked = [("x", *first), ("young", None, ""), ("old", None, "")]
    assert [(pod.name, pod.goes, pod.rule) for pod in ranking.pods] == ranked
    assert (ranking.forecast.count, note in ranking.forecast.note) == (2, True)


@cases(
    "first there to going staying",
    ("by number, not by text", 0, range(8, 11), 9, "10 9", "8"),
    ("one that is missing is made, so that two go", 0, (0, 1, 3, 4), 3, "4 3", "1 0"),
    ("one goes, although as many as wanted are there", 0, (0, 1, 3, 4), 4, "4", "3 1 0"),
    ("the highest is missing", 0, (0, 1), 2, "", "1 0"),
    ("it starts elsewhere", 5, (5, 6, 7), 2, "7", "6 5"),
    ("below its start", 5, (4, 5, 6), 2, "4", "6 5"),
    ("no ordinal, which its controller ignores", 0, ("x", 0, 1), 1, "1", "0 x"),
    ("to zero", 0, (0, 2), 0, "2 0", ""),
)
def test_the_pods_of_a_stateful_set_go_by_their_ordinals(first, there, to, going, staying):
    web = a_workload("web", kind="StatefulSet", replicas=5, first_ordinal=first)
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: tuple(a_pod(f"web-{end}") for end in there)}))
    ranking = pod_ranking_of(web, a_policy_set(a_fleet()), state, a_run(), to)
    ranked = [(f"web-{end}", goes) for goes, ends in ((True, going), (False, staying)) for end in ends.split()]
    assert [(pod.name, pod.goes) for pod in ranking.pods] == ranked
    assert {pod.rule for pod in ranking.pods if pod.goes} <= {"ordinal out of range" if to else "all pods go"}
    assert (ranking.forecast.count, ranking.forecast.certain) == (len(going.split()), True)


def test_another_controller_of_stateful_sets_may_leave_ordinals_out():
    web = a_workload("web", kind="StatefulSet")
    kruise = structs.replace(web, ref=structs.replace(web.ref, group="apps.kruise.io"))
    pods = tuple(a_pod(f"web-{ordinal}") for ordinal in (0, 2, 3))
    state = a_state(a_cluster(workloads=(kruise,), pods={kruise.ref: pods}))
    ranking = pod_ranking_of(kruise, a_policy_set(a_fleet()), state, a_run(), 2)
    assert [pod.goes for pod in ranking.pods] == [None] * 3
    assert (ranking.forecast.count, ranking.forecast.certain) == (1, False)


@cases("now stays", ("by its target", NOON, []), ("by idling", NIGHT, [("idling", 1)]))
def test_of_what_apply_refuses_only_a_downscale_is_undecided(now, stays):
    """An IdlingPolicy of the same name decides about it too; what it decides stays, with a note."""
    web = a_workload("web", replicas=2)
    costly = tuple(replace(pod, deletion_cost="7") for pod in (a_pod_on("a", "x", 1), a_pod_on("b", "y", 9)))
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: costly}))
    policy = a_downscale_policy("Deployment", target=DownscaleTarget(replicas=1), strategy="NewestFirst")
    idling = a_policy(policy.name, selector=workloads_selector("Deployment"), idle_replicas=1)
    desired = decide(a_policy_set(a_fleet(), downscale=(policy,), idling=(idling,)), state, a_run(now))
    found = [(one.job, one.replicas_after) for one in desired.decisions if one.victims and one.victims.deferred]
    assert found == stays
    if stays:
        assert desired.undecided == ()
        return
    [undecided] = desired.undecided
    assert (undecided.subject, undecided.policy) == (str(web.ref), policy.name)
    assert undecided.why.startswith("deferred: foreign deletion costs on a (7)")
    told, other = sorted(desired.explanations, key=lambda one: one.job)
    assert (told.policy, other.policy, other.outcome) == ("shrink", "shrink", "stays awake")
    assert (told.outcome, told.reason_code) == ("stays at 2", "VictimsDeferred")
    assert told.why == f"{undecided.why}, the target is 1"
    assert str(told.change_if) == "onForeignCost is Override"


LOOK = ("--snapshot", "snapshot", "--now", "2026-11-20T22:00:00Z")


def test_a_balance_of_zones_names_the_zone_of_each_pod(quickstart):
    said = quickstart.call("rank", "eu-west/batch/deploy/worker", "--to", "4", *LOOK)
    zones = [line.split()[3] for line in said.out.splitlines()[1:]]
    assert zones == [f"eu-west-1{zone}" for zone in "aaaabbc"]


def test_pods_that_the_snapshot_lacks_are_not_said_to_be_none(quickstart):
    said = quickstart.call("rank", "eu-west/dev-a/deploy/api", *LOOK)
    words = "has 3 replicas, and none of its pods was found: which of them would go is unknown"
    assert said.out == f"eu-west/dev-a/Deployment/api: {words}\n"
    said = quickstart.call("rank", "eu-west/ci/statefulset/runner", *LOOK)
    words = "has 2 replicas, and none of its pods was found: the highest ordinals go first"
    assert said.out == f"eu-west/ci/StatefulSet/runner: {words}\n"
