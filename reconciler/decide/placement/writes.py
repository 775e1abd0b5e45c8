"""The decisions that bring the local workloads of one federated ReplicaSet to their next replicas."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import OUR_ANNOTATIONS, Key, PlacedScale, compact, placement_owner, read_placed
from reconciler.decide.decisions import (
    Decision,
    FieldChange,
    Phase,
    Verb,
    annotation_changes,
    annotation_tests,
    replicas_change,
)
from reconciler.decide.freeze import restriction
from reconciler.decide.placement.desired_replicas import PlacementResult
from reconciler.decide.placement.explanations import cause
from reconciler.decide.placement.home_config_maps import (
    REPLACED,
    ConfigMapContent,
    config_map_deleted,
    config_map_name,
    config_map_written,
)
from reconciler.decide.placement.local_replica_sets import Form, found_manifest, metadata_changes, selector_differs
from reconciler.decide.placement.ownership import is_ours
from reconciler.decide.placement.placement_inputs import LocalWorkload, PlacementCase, production_of_pattern
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.model import ObjectRef, Workload

_ADOPTED = reason(ReasonCode.ADOPTED)


class _LocalWrite(Struct, frozen=True):
    """One local workload and what it is to become; `form` None: what others make is only placed."""

    local: LocalWorkload
    result: PlacementResult
    form: Form | None
    shrinking: Phase = Phase.DECREASE

    @property
    def case(self) -> PlacementCase:
        return self.result.case

    @property
    def spec_replicas(self) -> int:
        return 0 if self.local.idle_by else self.result.next_replicas[self.local.cluster]

    @property
    def kept(self) -> dict[str, str]:
        """The annotations that stay on one that is created in its place: how to wake it, and the scale before us."""
        workload = self.local.workload
        if workload is None or not self.local.idle_by:
            return _way_back(self, adopts=self.adopts)
        return {key: text for key, text in workload.annotations.items() if key.startswith(OUR_ANNOTATIONS)}

    @property
    def adopts(self) -> bool:
        """Whether the workload was made by somebody else, and is ours after this write."""
        workload = self.local.workload
        return workload is not None and not is_ours(workload, self.case.federated, self.case.inputs.ours)

    def decision(self, verb: Verb, phase: Phase, *changes: FieldChange, why: Reasons = ()) -> Decision:
        """Return a decision about the workload as it is; `why` in place of the reason for its replicas."""
        workload, grounds = self.local.workload, cause(self.local, self.result)
        return Decision(
            key=f"{self.case.group}/{self.local.cluster}/{verb}",
            job="placement",
            verb=verb,
            phase=phase,
            ref=self.local.ref,
            api_version="apps/v1" if workload is None else workload.api_version,
            uid=None if workload is None else workload.uid,
            changes=changes,
            cause=replace(grounds, reasons=why) if why else grounds,
            group=self.case.group,
            has_annotations=workload is None or workload.has_annotations,
            has_labels=workload is None or workload.has_labels,
        )


def local_writes(result: PlacementResult, form: Form | None) -> tuple[Decision, ...]:
    """Return the decisions of this run about the local workloads, in the order of the Fleet."""
    growing = any(result.next_replicas[local.cluster] > (local.spec_replicas or 0) for local in result.placed)
    shrinking = Phase.MOVE if growing else Phase.DECREASE
    writes = (_LocalWrite(local, result, form, shrinking) for local in result.placed)
    return tuple(decision for write in writes for decision in _of_one(write))


def asleep_writes(result: PlacementResult, form: Form | None) -> tuple[Decision, ...]:
    """Return the decisions that bring local ReplicaSets that are asleep, at no replicas, to what the policy states now.

    Without pods the change is free; after the wake, the pods of the old template or selector would be replaced. A
    change that was refused waits for the wake: what cannot be changed is better awake than dark. Production that is
    left out stays as it is.
    """
    if form is None:
        return ()
    case = result.case
    return tuple(
        decision
        for local in result.locals
        if local.workload is not None and local.workload.spec_replicas == 0
        if local.wakes or (local.idle_by and local.replicas == 0)
        if is_ours(local.workload, case.federated, case.inputs.ours) and case.inputs.rejection(local.ref) is None
        if not _is_left_as_it_is(local, case)
        for decision in _while_asleep(_LocalWrite(local, result, form), local.workload, form)
    )


def _is_left_as_it_is(local: LocalWorkload, case: PlacementCase) -> bool:
    """Return whether its cluster is restricted, or it is production that the policy leaves out."""
    placement = next(placement for placement in case.inputs.placements if placement.name == local.cluster)
    is_restricted = restriction(placement.cluster, local.ref.namespace) is not None
    return is_restricted or bool(production_of_pattern(case, placement, local.workload))


def _while_asleep(write: _LocalWrite, workload: Workload, form: Form) -> Iterator[Decision]:
    if selector_differs(workload, form):
        yield from _replaced(write, workload, form)
    elif form.template_differences(workload):
        yield _overwritten(write, workload, form, Phase.WAKE if write.local.wakes else Phase.REPAIR, running=0)


def _overwritten(write: _LocalWrite, workload: Workload, form: Form, phase: Phase, running: int) -> Decision:
    """Return the decision that gives `workload` the pod template of the policy; `running` pods keep the old one."""
    different = ", ".join(form.template_differences(workload))
    why = reason(ReasonCode.TEMPLATE_DIFFERS, fields=different, replicas=running)
    template = FieldChange(("spec", "template"), workload.template, form.federated.template)
    made = write.decision(Verb.OVERWRITE, phase, template, *metadata_changes(workload, form), why=(why,))
    return replace(made, event="Overwritten")


def _of_one(write: _LocalWrite) -> Iterator[Decision]:
    workload, form = write.local.workload, write.form
    if workload is None:
        if write.spec_replicas and form is not None:
            yield _created(write, form)
        return
    if form is None:
        yield from _scaled(write, workload, tuple(_taken_over(write, workload)))
        return
    another = selector_differs(workload, form)
    if write.spec_replicas and another:
        yield from _replaced(write, workload, form)
        return
    metadata, adopts = metadata_changes(workload, form), write.adopts
    # No API server takes a template that the selector does not match: what runs nothing keeps both until it runs again.
    if not another and form.template_differences(workload):
        yield _overwritten(write, workload, form, Phase.REPAIR, running=write.local.pods.current)
        # What follows finds our annotations there already, and no request adds a map that is there.
        workload, metadata = _marked(workload, form), ()
        write = replace(write, local=replace(write.local, workload=workload))
    yield from _scaled(write, workload, metadata, adopts=adopts)
    yield from _journal_closed(write)


def _marked(workload: Workload, form: Form) -> Workload:
    """Return a local ReplicaSet as it is once our annotations are on it."""
    return replace(
        workload,
        labels={**workload.labels, **form.labels},
        annotations={**workload.annotations, **form.annotations},
        has_labels=True,
        has_annotations=True,
    )


def _created(write: _LocalWrite, form: Form, needs: tuple[str, ...] = ()) -> Decision:
    grounds = cause(write.local, write.result).reasons
    replaced = (reason(ReasonCode.REPLACES), *grounds)
    made = write.decision(Verb.CREATE, Phase.INCREASE, why=replaced if needs else ())
    note = "Kubernetes adopts pods that match the selector and belong to nobody"
    return replace(
        made,
        uid=None,
        needs=needs,
        manifest=form.manifest(write.spec_replicas, write.kept),
        replicas_before=0,
        replicas_after=write.spec_replicas,
        event="Overwritten" if needs else "Created",
        cause=replace(made.cause, values={**made.cause.values, "note": note}),
    )


def _scaled(
    write: _LocalWrite, workload: Workload, metadata: tuple[FieldChange, ...], *, adopts: bool = False
) -> Iterator[Decision]:
    memory = write.result.memory[write.local.cluster]
    known = annotation_changes(workload.annotations, {Key.OBSERVED_CAPACITY: None if memory is None else memory.text})
    before, after = write.local.replicas, write.spec_replicas
    if before != after:
        # A scale of ours has no reason; a previous scale that stayed would keep the workload down after the next one.
        annotations = {Key.SCALE_PREVIOUS: None, Key.SCALE_REASON: None, **_way_back(write, adopts=adopts)}
        metadata = (
            *(change for change in metadata if change.path[-1] not in annotations),
            *annotation_changes(workload.annotations, annotations),
        )
        change = replicas_change(workload.replicas, after, workload.replicas_path)
        phase = Phase.INCREASE if after > before else write.shrinking
        tests = _tests(workload, (*metadata, *known))
        made = write.decision(Verb.SCALE, phase, change, *metadata, *known, *tests)
        event = "Moved" if phase is Phase.MOVE else "Scaled"
        if adopts:
            event = "Adopted"
            made = replace(made, cause=replace(made.cause, reasons=(_ADOPTED, *made.cause.reasons)))
        yield replace(made, replicas_before=before, replicas_after=after, event=event)
    elif metadata and adopts:
        metadata = (*metadata, *annotation_changes(workload.annotations, _way_back(write, adopts=True)))
        made = write.decision(Verb.REPAIR, Phase.REPAIR, *metadata, *known, why=(_ADOPTED,))
        yield replace(made, event="Adopted")
    elif metadata:
        updated = (reason(ReasonCode.TRACKING_UPDATED),)
        yield write.decision(Verb.REPAIR, Phase.REPAIR, *metadata, *known, why=updated)
    elif known:
        yield write.decision(Verb.REMEMBER, Phase.RECORD, *known)


def _way_back(write: _LocalWrite, *, adopts: bool) -> dict[str, str]:
    """Return the annotation with the replicas of before placement, {} for what placement made itself.

    The first number stays, whatever placement sets later.
    """
    workload = write.local.workload
    known = None if workload is None else read_placed(workload.annotations)
    if workload is None or (known is None and write.form is not None and not adopts):
        return {}
    previous = workload.spec_replicas if known is None else known.previous
    return {Key.PLACED: PlacedScale(previous, write.spec_replicas, write.case.owner).text}


def _taken_over(write: _LocalWrite, workload: Workload) -> Iterator[FieldChange]:
    """Yield the changes that make a target ours alone that another federated ReplicaSet of ours placed, or made, or
    this one under a former name of the Fleet.
    """
    inputs, owner = write.case.inputs, write.case.owner
    known, maker = read_placed(workload.annotations), placement_owner(workload.annotations)
    if known is not None and known.key is not None and known.key[0] in inputs.ours and known.owner != owner:
        yield from annotation_changes(workload.annotations, {Key.PLACED: replace(known, owner=owner).text})
    if maker is not None and maker[0] in inputs.ours:
        yield from annotation_changes(
            workload.annotations, dict.fromkeys((Key.OWNER, Key.POLICY_DIGEST, Key.ON_DELETE))
        )
        if Key.FEDERATED_LABEL in workload.labels:
            yield FieldChange(("metadata", "labels", Key.FEDERATED_LABEL), workload.labels[Key.FEDERATED_LABEL], None)


def _tests(workload: Workload, changes: tuple[FieldChange, ...]) -> tuple[FieldChange, ...]:
    """Return tests of those of our annotations that a change of replicas rests on and does not change itself."""
    changed = {change.path[-1] for change in changes}
    tested = {Key.OWNER, Key.OBSERVED_CAPACITY, *({Key.PLACED} & workload.annotations.keys())}
    return annotation_tests(workload.annotations, tuple(tested - changed))


def _replaced(write: _LocalWrite, workload: Workload, form: Form) -> Iterator[Decision]:
    """Delete and create: a selector cannot be changed. What was there is written down until the new one exists.

    One without our label gets it first: what does not carry it is never deleted.
    """
    differs = (reason(ReasonCode.SELECTOR_DIFFERS, replicas=write.local.pods.current),)
    deleted = replace(write.decision(Verb.DELETE, Phase.REPAIR, why=differs), orphan=True)
    replaced = write.case.inputs.replaced
    content = ConfigMapContent(_journal_ref(write), data={"manifest": compact(found_manifest(workload))})
    written = tuple(
        replace(decision, phase=Phase.REPAIR)
        for decision in config_map_written(content, replaced.get(content.ref), write.case.group, deleted.cause)
    )
    yield from written
    first = [decision.key for decision in written]
    if Key.FEDERATED_LABEL not in workload.labels:
        marked = write.decision(Verb.REPAIR, Phase.REPAIR, *metadata_changes(workload, form), why=differs)
        yield replace(marked, needs=tuple(first), event="Adopted" if write.adopts else "")
        first = [marked.key]
    yield replace(deleted, needs=tuple(first))
    yield _created(write, form, needs=(deleted.key,))


def _journal_closed(write: _LocalWrite) -> Iterator[Decision]:
    kept = write.case.inputs.replaced.get(_journal_ref(write))
    if kept is not None:
        words = replace(cause(write.local, write.result), reasons=(reason(ReasonCode.REPLACED),))
        yield config_map_deleted(kept, write.case.group, words)


def _journal_ref(write: _LocalWrite) -> ObjectRef:
    name = config_map_name(REPLACED, write.case.federated.key)
    return ObjectRef(write.local.cluster, write.case.inputs.fleet.namespace, "ConfigMap", name)
