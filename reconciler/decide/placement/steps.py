"""The decisions that bring the local workloads of one federated ReplicaSet to their next step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.decide.placement.config_maps import Wish, forget, remember
from reconciler.decide.placement.facts import Local
from reconciler.decide.placement.local_replica_sets import (
    found_manifest,
    manifest,
    mark_changes,
    selector_differs,
    template_differences,
)
from reconciler.decide.placement.marks import CAPACITY, OWNER, compact, replaced_name
from reconciler.decide.placement.outlook import Outlook
from reconciler.decide.placement.reasons import cause
from reconciler.decide.placement.sites import Surroundings, local_api_version
from reconciler.decide.types import (
    Cause,
    Decision,
    FieldChange,
    Phase,
    Verb,
    annotation_changes,
    annotation_tests,
    replicas_change,
)
from reconciler.model import ConfigMap, ObjectRef, Workload


def group_of(key: str) -> str:
    """Return the group of everything decided for the federated ReplicaSet `key` ("namespace/name")."""
    return f"placement/{key}"


@dataclass(frozen=True, slots=True)
class Step:
    """One local workload and what it is to become."""

    local: Local
    view: Outlook
    around: Surroundings
    cause: Cause

    @property
    def asked(self) -> int:
        return self.view.step[self.local.cluster]

    def decision(self, verb: Verb, phase: Phase, *changes: FieldChange, needs: tuple[str, ...] = ()) -> Decision:
        """Return a decision about the workload as it is."""
        workload = self.local.workload
        return Decision(
            key=f"{group_of(self.view.federated.key)}/{self.local.cluster}/{verb}",
            job="placement",
            verb=verb,
            phase=phase,
            ref=self.local.ref,
            api_version=local_api_version(self.view.federated) if workload is None else workload.api_version,
            uid=None if workload is None else workload.uid,
            changes=changes,
            cause=self.cause,
            group=group_of(self.view.federated.key),
            needs=needs,
            has_annotations=workload is None or workload.has_annotations,
            has_labels=workload is None or workload.has_labels,
        )


def steps(view: Outlook, around: Surroundings) -> tuple[Decision, ...]:
    """Return the decisions of this run about the local workloads, in the order of the Fleet."""
    growing = any(view.step[local.cluster] > (local.asked or 0) for local in view.placed)
    shrinking = Phase.MOVE if growing else Phase.DECREASE
    return tuple(
        decision
        for local in view.placed
        for decision in _of_one(Step(local, view, around, cause(local, view)), shrinking)
    )


def _of_one(step: Step, shrinking: Phase) -> Iterator[Decision]:
    workload, federated = step.local.workload, step.view.federated
    if workload is None:
        if step.asked:
            yield _created(step)
        return
    if step.asked and federated.target is None and selector_differs(workload, federated):
        yield from _replaced(step, workload)
        return
    marks = mark_changes(workload, federated, step.around.fleet) if federated.target is None else ()
    different = template_differences(workload, federated)
    if different:
        yield _overwritten(step, workload, different, marks)
        marks = ()
    yield from _scaled(step, workload, marks, shrinking)
    if federated.target is None:
        yield from _journal_closed(step)


def _created(step: Step, needs: tuple[str, ...] = ()) -> Decision:
    whole = manifest(step.view.federated, step.around.fleet, step.asked)
    note = "Kubernetes adopts pods that match the selector and belong to nobody"
    made = step.decision(Verb.CREATE, Phase.INCREASE, needs=needs)
    return replace(
        made,
        uid=None,
        manifest=whole,
        api_version="apps/v1",
        replicas_before=0,
        replicas_after=step.asked,
        event="Created",
        cause=replace(step.cause, values={**step.cause.values, "note": note}),
    )


def _overwritten(
    step: Step, workload: Workload, different: tuple[str, ...], marks: tuple[FieldChange, ...]
) -> Decision:
    template = FieldChange(("spec", "template"), workload.template, step.view.federated.template)
    words = f"template differs at {', '.join(different)}; its {step.local.current} pods keep the old one"
    made = step.decision(Verb.OVERWRITE, Phase.REPAIR, template, *marks)
    return replace(made, event="Overwritten", cause=replace(step.cause, why=words))


def _scaled(step: Step, workload: Workload, marks: tuple[FieldChange, ...], shrinking: Phase) -> Iterator[Decision]:
    memory = step.view.memory[step.local.cluster]
    known = annotation_changes(workload.annotations, {CAPACITY: None if memory is None else memory.text})
    before, after = workload.wanted, step.asked
    if before != after:
        change = replicas_change(workload.replicas, after, workload.replicas_path)
        verb, phase = Verb.SCALE, Phase.INCREASE if after > before else shrinking
        tests = _tests(workload, (*marks, *known))
        made = step.decision(verb, phase, change, *marks, *known, *tests)
        event = "Moved" if phase is Phase.MOVE else "Scaled"
        yield replace(made, replicas_before=before, replicas_after=after, event=event)
    elif marks:
        words = replace(step.cause, why="our marks are put right")
        yield replace(step.decision(Verb.REPAIR, Phase.REPAIR, *marks, *known), cause=words)
    elif known:
        yield step.decision(Verb.REMEMBER, Phase.RECORD, *known)


def _tests(workload: Workload, changes: tuple[FieldChange, ...]) -> tuple[FieldChange, ...]:
    """Return tests of those of our annotations that a change of replicas rests on and does not change itself."""
    changed = {change.path[-1] for change in changes}
    return annotation_tests(workload.annotations, {OWNER, CAPACITY} - changed)


def _replaced(step: Step, workload: Workload) -> Iterator[Decision]:
    """Delete and create: a selector cannot be changed. What was there is written down until the new one exists."""
    words = replace(step.cause, why=f"selector differs; its {step.local.current} pods keep running")
    kept, group = _journal(step), group_of(step.view.federated.key)
    wish = Wish(_journal_ref(step), data={"manifest": compact(found_manifest(workload))})
    written = tuple(replace(one, phase=Phase.REPAIR) for one in remember(wish, kept, group, words))
    yield from written
    deleted = step.decision(Verb.DELETE, Phase.REPAIR, needs=tuple(one.key for one in written))
    deleted = replace(deleted, orphan=True, cause=words)
    yield deleted
    yield replace(_created(step, needs=(deleted.key,)), event="Overwritten")


def _journal_closed(step: Step) -> Iterator[Decision]:
    kept = _journal(step)
    if kept is not None:
        words = replace(step.cause, why="what it replaced is no longer needed")
        yield forget(kept, group_of(step.view.federated.key), words)


def _journal_ref(step: Step) -> ObjectRef:
    name = replaced_name(step.view.federated.key)
    return ObjectRef(step.local.cluster, step.around.fleet.namespace, "ConfigMap", name)


def _journal(step: Step) -> ConfigMap | None:
    return step.around.site(step.local.cluster).replaced.get(replaced_name(step.view.federated.key))
