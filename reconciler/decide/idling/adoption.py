"""What another tool has idled -> the records that it would have, had the policies idled it in this run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.decide.annotations import Key
from reconciler.decide.decisions import Decision, DesiredState, FieldChange, Notice, Phase, Verb
from reconciler.decide.idling.decide import decide_idling
from reconciler.messages import counted
from reconciler.model import ObjectRef, ObservedCluster, ObservedState, Run, Workload
from reconciler.policy.types import PolicySet
from reconciler.workload_kinds import workload_kind


def decide_adoption(
    policies: PolicySet, state: ObservedState, run: Run, before: Mapping[ObjectRef, int], tool: str
) -> DesiredState:
    """Return the records of what `tool` has idled, and what goes with them on Services and autoscalers.

    `before` is how many replicas each had, a CronJob 1. No replicas are changed. What no policy wants idle now, or only
    with something that runs, is left as it is and the run is partial. What was ever idled here is not the tool's.
    Nothing goes down, so no limit counts it, neither now nor in the next 24 hours.
    """
    run = replace(run, allow_exceed=dict.fromkeys(policy.name for policy in policies.idling))
    seen = {workload.ref: workload for cluster in state.clusters.values() for workload in cluster.workloads}
    asleep = {ref: count for ref, count in before.items() if ref in seen and is_asleep(seen[ref], count)}
    before_it: dict[str, ObservedCluster] = {}
    for name, cluster in state.clusters.items():
        workloads = (_awake(one, asleep[one.ref]) if one.ref in asleep else one for one in cluster.workloads)
        before_it[name] = replace(cluster, workloads=tuple(workloads))
    desired = decide_idling(policies, replace(state, clusters=before_it), run).desired
    running = {
        decision.group: decision.ref for decision in desired.decisions if decision.idles and decision.ref not in asleep
    }
    idled = {
        decision.group for decision in desired.decisions if decision.idles and decision.ref in asleep
    } - running.keys()
    decisions = tuple(_recorded(decision, seen) for decision in desired.decisions if decision.group in idled)
    left = asleep.keys() - {decision.ref for decision in decisions}
    whys = {
        **{explanation.ref: f"it {explanation.outcome}: {explanation.why}" for explanation in desired.explanations},
        **{
            decision.ref: f"with it {running[decision.group]} would be"
            for decision in desired.decisions
            if decision.group in running
        },
    }
    notices = tuple(_left(sorted(left), asleep, whys, tool))
    return DesiredState(decisions, notices=notices, explanations=desired.explanations)


def is_asleep(workload: Workload, before: int) -> bool:
    """Return whether another tool has idled `workload`, which had so many replicas `before`."""
    known = (Key.IDLED_AT, Key.LAST_IDLED, Key.AWAKE_SINCE)
    return workload.spec_replicas < before and not any(key in workload.annotations for key in known)


def _awake(workload: Workload, replicas: int) -> Workload:
    """Return `workload` as it was with `replicas`: all of them ready, and older than any minAge."""
    if workload.switch is not None:
        on = workload.kind.value_at(1)
        return replace(workload, switch=replace(workload.switch, value=on), created_at=None)
    counts = ("status_replicas", "ready_replicas", "available_replicas", "updated_replicas")
    settled = {name: replicas for name in counts if getattr(workload, name) is not None}
    seen = workload.generation
    return replace(workload, replicas=replicas, observed_generation=seen, created_at=None, conditions=(), **settled)


def _recorded(decision: Decision, seen: Mapping[ObjectRef, Workload]) -> Decision:
    """Return `decision` without any change of replicas: they are down already."""
    if not decision.idles:
        return replace(decision, phase=Phase.REPAIR, wait_activator=False)
    changes = tuple(_kept(change, seen[decision.ref]) for change in decision.changes)
    return replace(
        decision,
        verb=Verb.REPAIR,
        phase=Phase.REPAIR,
        changes=changes,
        replicas_before=None,
        replicas_after=None,
        victims=None,
        downscale=None,
        wait_activator=False,
        event="",
        idles=False,
    )


def _kept(change: FieldChange, workload: Workload) -> FieldChange:
    """Return a change of replicas as a test that they are what was seen, and the record with at least so many."""
    if change.path == ("metadata", "annotations", Key.IDLED_TO):
        return replace(change, after=str(max(int(change.after), workload.spec_replicas)))
    if change.path[:1] != ("spec",):
        return change
    now = workload.replicas if workload.switch is None else workload.switch.value
    return replace(change, before=now, after=now)


def _left(
    left: Iterable[ObjectRef], before: Mapping[ObjectRef, int], whys: Mapping[ObjectRef, str], tool: str
) -> Iterator[Notice]:
    for ref in left:
        why = whys.get(ref, "no policy selects it")
        had = "it ran" if workload_kind(ref.kind).is_switch else f"{counted(before[ref], 'replica')} before"
        text = f"stays as {tool} left it ({had}), as it would not be idled now by itself: {why}"
        yield Notice("notAdopted", str(ref), text, partial=True)
