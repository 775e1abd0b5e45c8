"""How the three jobs are joined: what placement looks at, whose workloads are whose, and what cannot wait."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from reconciler.decide.annotations import Key, format_time
from reconciler.decide.decisions import Decision, DesiredState, FieldChange, Phase, Verb
from reconciler.decide.desired_state import decide, urgent
from reconciler.decide.idling.decide import IdlingOutcome
from reconciler.decide.owners_and_rollouts import Settled
from reconciler.decide.placement.ownership import placed_workloads
from reconciler.policy.types import ClusterPreference, DownscaleTarget, ObjectSelector
from tests.builders import (
    a_cluster,
    a_downscale_policy,
    a_fleet,
    a_picker,
    a_policy_set,
    a_ref,
    a_run,
    a_state,
    a_workload,
)
from tests.cases import cases
from tests.decide.idling.idling_policies import NIGHT, workloads_selector
from tests.decide.placement.placements import a_placed
from tests.plans import a_decision

WEB = a_ref("web")
UNTIL = datetime(2026, 11, 24, 7, tzinfo=UTC)
RECORD = {
    Key.IDLED_AT: "2026-11-23T20:00:00Z",
    Key.PREVIOUS_SCALE: "3",
    Key.IDLED_TO: "0",
    Key.WAKE_DUE: format_time(UNTIL),
    Key.OWNER: "production/IdlingPolicy/idle-dev",
}
OURS, THEIRS = RECORD, RECORD | {Key.OWNER: "other/IdlingPolicy/idle-dev"}
OPENSHIFT = {Key.OPENSHIFT_PREVIOUS_SCALE: "5", Key.OPENSHIFT_IDLED_AT: "2026-11-23T20:00:00Z"}


class TestTenantsWithOneNamespaceInDifferentClusters:
    """Of team a a federated ReplicaSet in east, of team b a Deployment of that name in west."""

    placed = a_placed(
        3,
        tenant="a",
        within=("east",),
        clusters={"east": ClusterPreference(weight=1)},
        pod_picker=a_picker("a.shop.svc"),
    )

    def test_what_is_theirs_is_not_claimed(self):
        claimed = placed_workloads(a_policy_set(a_fleet("east", "west"), federated=(self.placed,)), self.state)
        assert [ref.cluster for ref in claimed] == ["east"]

    theirs = a_workload("web", replicas=6, cluster="west")
    state = a_state(a_cluster("east", workloads=(a_workload("web"),)), a_cluster("west", workloads=(theirs,)))

    def decided(self, **policies: Any) -> list[Decision]:
        found = a_policy_set(a_fleet("east", "west"), federated=(self.placed,), **policies)
        return [one for one in decide(found, self.state, a_run(NIGHT)).decisions if one.ref == self.theirs.ref]

    def test_their_policy_scales_down_what_is_theirs_and_the_picker_of_others_is_not_asked(self):
        selector = replace(workloads_selector("Deployment"), clusters=ObjectSelector(("west",)))
        [scaled] = self.decided(
            downscale=(a_downscale_policy("less", selector=selector, target=DownscaleTarget(replicas=2)),)
        )
        assert (scaled.replicas_after, scaled.downscale) == (2, None)


def idled(*changes: FieldChange, to: int | None = 0) -> Decision:
    return replace(a_decision(), ref=WEB, changes=changes, replicas_before=3, replicas_after=to)


def annotation(key: str, before: str | None, after: str | None) -> FieldChange:
    return FieldChange(("metadata", "annotations", key), before, after)


class TestWhatIdlingLeaves:
    """What placement and downscale know of a workload that idling decides."""

    def after(self, *decisions: Decision, claimed: bool = True, **fields: Any) -> Settled | None:
        """Of a Deployment with three replicas."""
        state = a_state(a_cluster(workloads=(a_workload(**fields), a_workload("api"), a_workload(namespace="other"))))
        outcome = IdlingOutcome(DesiredState(decisions=decisions), {WEB: "nights"} if claimed else {})
        found = outcome.after(state, frozenset({"production"}))
        assert (found(a_ref("api")), found(a_ref(namespace="other"))) == (None, None)
        return found(WEB)

    def test_what_is_woken_now_wakes_and_had_what_is_recorded(self):
        marks = [annotation(key, text, None) for key, text in RECORD.items()]
        decision = idled(FieldChange(("spec", "replicas"), 0, 3), *marks, to=3)
        assert self.after(decision, replicas=0, annotations=RECORD) == Settled(
            "Waking", 3, 3, "nights", UNTIL, (decision.key,)
        )

    @cases(
        "marks claimed expected",
        ("decided, without a record", {}, True, ("HandsOff", 0, 0, "nights")),
        ("none of it", {}, False, None),
        ("asleep by us", OURS, True, ("Asleep", 0, 3, "nights")),
        ("asleep by us, and nobody claims it", OURS, False, ("Asleep", 0, 3, "idle-dev")),
        ("asleep by another Fleet", THEIRS, False, ("Foreign", 0, 3, "idle-dev")),
        ("an unreadable record", OURS | {Key.PREVIOUS_SCALE: "odd"}, True, ("Asleep", 0, 0, "nights")),
        ("asleep by oc", OPENSHIFT, False, ("Foreign", 0, 5, "its idle record")),
    )
    def test_what_is_not_changed_is_as_its_record_says(self, marks, claimed, expected):
        found = self.after(claimed=claimed, replicas=0, annotations=marks)
        assert (found and (found.state, found.replicas, found.awake_replicas, found.owner)) == expected


@cases(
    "fields is_urgent",
    ("the wake", {"verb": Verb.WAKE, "phase": Phase.WAKE}, True),
    ("a repair of its group", {"verb": Verb.REPAIR, "phase": Phase.REPAIR}, True),
    ("a decrease in its group", {"verb": Verb.IDLE, "phase": Phase.DECREASE}, False),
    ("a repair elsewhere", {"verb": Verb.REPAIR, "phase": Phase.REPAIR, "group": "other"}, False),
    ("a wake that is not due", {"verb": Verb.WAKE, "phase": Phase.WAKE, "group": "other"}, False),
    ("the template of what wakes", {"verb": Verb.OVERWRITE, "group": "other", "ref": WEB}, True),
    ("the template of another", {"verb": Verb.OVERWRITE, "group": "other"}, False),
)
def test_what_cannot_wait_is_what_is_due_and_the_repairs_of_its_group(fields, is_urgent):
    due = replace(a_decision(), key="due", verb=Verb.WAKE, phase=Phase.WAKE, ref=WEB, group="web")
    other = replace(a_decision(), **({"key": "other", "ref": a_ref("api"), "group": "web"} | fields))
    kept = urgent(DesiredState(decisions=(due, other)), DesiredState(decisions=(due,))).decisions
    assert kept == ((due, other) if is_urgent else (due,))
