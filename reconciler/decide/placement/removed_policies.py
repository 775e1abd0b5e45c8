"""FederatedReplicaSets that are gone from git: their local ReplicaSets are released or deleted, as recorded on them.

Those in a cluster that the tenant of their policy lost are released: the policy says nothing of them any more, and it
was not removed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import Key, fleet_names, placement_owner, read_placed
from reconciler.decide.decisions import (
    Cause,
    Decision,
    DesiredState,
    FieldChange,
    HeldBack,
    Phase,
    Verb,
    annotation_changes,
    replicas_change,
)
from reconciler.decide.freeze import restriction
from reconciler.decide.placement.home_config_maps import config_map_deleted
from reconciler.decide.placement.ownership import is_about, owner_of, placed_by, why_not_placed
from reconciler.decide.placement.placement_inputs import ClusterPlacement, PlacementInputs
from reconciler.decide.placement.recorded_status import STATUS_PREFIX, placement_group
from reconciler.decide.protected_namespaces import protection
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.decide.removal_guard import FleetGuards, removal_guards
from reconciler.decide.selectors import local_ref
from reconciler.model import ObjectRef, ObservedState, Workload
from reconciler.policy.types import FederatedReplicaSet, Fleet, PolicySet, Writes

_MARKS = (Key.OWNER, Key.POLICY_DIGEST, Key.ON_DELETE, Key.OBSERVED_CAPACITY, Key.PLACED)


class _Owned(Struct, frozen=True):
    """A workload with annotations of ours.

    `key` is "namespace/name" of the federated ReplicaSet that they name; where another one places it now (`is_placed`),
    of that one. `autoscaler` is what controls it, "" for nothing; it `waits` to get its replicas back where that could
    not be read. What is `asleep` is released once it is awake.
    """

    key: str
    workload: Workload
    is_placed: bool = False
    autoscaler: str = ""
    waits: bool = False
    asleep: bool = False


def removed_policies(policies: PolicySet, inputs: PlacementInputs, *, with_statuses: bool = True) -> DesiredState:
    """Return the releases and deletes of local workloads whose federated ReplicaSet was removed, and of its status.

    Nothing is, however long it takes, where too many of a namespace are gone at once: a repository that lost a folder
    must not delete anything. For deletes the guard is stricter. What a stopped tenant states was not removed.
    """
    federated = {one.key: one for one in policies.federated}

    def is_known(key: str) -> bool:
        return key in federated or not policies.is_stopped(key.partition("/")[0])

    marked = [owned for owned in _owned(policies.federated, inputs) if is_known(owned.key)]
    owners = [(owned.workload.ref.namespace, owned.key) for owned in marked]
    names, allow = frozenset(federated), inputs.run.allow_removed
    guards, strict = removal_guards(owners, names, allow), removal_guards(owners, names, allow, left_out=0)
    statuses = _statuses(federated, inputs, is_known) if with_statuses else ()
    decisions = [*_left(marked, federated, inputs.fleet), *statuses]
    deleted = {one.group for one in decisions if one.verb is Verb.DELETE and one.ref.kind != "ConfigMap"}
    held = _held_groups(guards) | (_held_groups(strict) & deleted)
    tripped = guards if guards.together.tripped else strict
    guarded = tuple(decision for decision in decisions if decision.group in held)
    free = tuple(decision for decision in decisions if decision.group not in held)
    return DesiredState(decisions=free, held_back=(HeldBack("", tripped.together.words, guarded),) if guarded else ())


def _held_groups(guards: FleetGuards) -> set[str]:
    """Return the groups of the federated ReplicaSets that `guards` hold, each in its own namespace."""
    gone = {(name, key) for name, guard in guards.by_namespace.items() if guard.tripped for key in guard.gone}
    return {placement_group(key) for name, key in gone if key.startswith(f"{name}/")}


def _owned(federated: Iterable[FederatedReplicaSet], inputs: PlacementInputs) -> Iterator[_Owned]:
    """Yield every workload with our annotations that may be written to."""
    clusters = [placement.name for placement in inputs.placements]
    placed = {local_ref(policy, name): policy for policy in federated for name in clusters if policy.is_on(name)}
    for placement, workload, key in _marked(inputs):
        settled = inputs.settled(workload.ref)
        asleep = settled is not None and settled.state in ("Asleep", "Foreign")
        now = placed.get(workload.ref)
        is_its = now is not None and is_about(now, workload.ref.cluster, workload, inputs.ours)
        if now is not None and is_its and (now.key == key or why_not_placed(workload, now, inputs.ours) is None):
            yield _Owned(now.key, workload, is_placed=True, asleep=asleep)
        else:
            waits = scale_to_restore(workload) is not None and bool(placement.unread_autoscalers)
            autoscaler = placement.autoscalers.name_of(workload.ref) or ""
            yield _Owned(key, workload, autoscaler=autoscaler, waits=waits, asleep=asleep)


def _marked(inputs: PlacementInputs) -> Iterator[tuple[ClusterPlacement, Workload, str]]:
    """Yield every workload with our annotations that may be written to, and the key that they name. What is copied to
    an owned object does not count.
    """
    for placement in inputs.placements:
        if placement.observed is None:
            continue
        for workload in placement.observed.workloads:
            annotations = workload.annotations
            if annotations.keys().isdisjoint((Key.OWNER, Key.OBSERVED_CAPACITY, Key.PLACED)):
                continue
            owner = owner_of(workload)
            # Annotations of a Deployment are copied to its ReplicaSets, which are not ours to release or delete.
            settled = inputs.settled(workload.ref)
            idling = settled is not None and settled.is_decided
            untouched = idling or workload.owner is not None or workload.terminating
            if owner is None or owner[0] not in inputs.ours or untouched:
                continue
            space = workload.ref.namespace
            if protection(inputs.fleet, space) or restriction(placement.cluster, space):
                continue
            yield placement, workload, owner[1]


def _left(marked: Iterable[_Owned], federated: Mapping[str, FederatedReplicaSet], fleet: Fleet) -> Iterator[Decision]:
    """Yield what becomes of the workloads that no federated ReplicaSet is about any more."""
    for owned in marked:
        policy = federated.get(owned.key)
        if owned.waits:
            continue
        if policy is None:
            left = _decision(owned)
            if left.verb is Verb.DELETE or not owned.asleep:  # else it would wake, only to be deleted
                yield left
        elif not owned.is_placed and not owned.asleep and not policy.paused:
            yield _released(owned, Cause(policy.name, *_why_left(policy, owned.workload.ref, fleet)))


def _why_left(policy: FederatedReplicaSet, ref: ObjectRef, fleet: Fleet) -> tuple[str, Reasons]:
    """Return where it is stated that `policy` is not about `ref` any more, and in words."""
    tenant, about = fleet.tenant(policy.tenant), local_ref(policy, ref.cluster)
    if about != ref:
        return str(policy.place), (reason(ReasonCode.TARGET_CHANGED, target=f"{about.kind}/{about.name}"),)
    if tenant is not None and not policy.is_within(ref.cluster):
        return str(tenant.place), (reason(ReasonCode.NOT_OF_TENANT, tenant=tenant.name),)
    return str(policy.place), (reason(ReasonCode.NOT_NAMED, cluster=ref.cluster),)


def _decision(owned: _Owned) -> Decision:
    workload = owned.workload
    placed = workload.ref.kind == "ReplicaSet" and placement_owner(workload.annotations) is not None
    made_by_us = placed and Key.PLACED not in workload.annotations
    delete = made_by_us and workload.annotations.get(Key.ON_DELETE) == "delete"
    released = _released(owned, _cause(owned.key, "delete" if delete else "orphan"))
    if not delete:
        return released
    return replace(
        released,
        key=released.key.removesuffix(Verb.RELEASE) + Verb.DELETE,
        verb=Verb.DELETE,
        phase=Phase.DECREASE,
        changes=(),
        replicas_before=workload.spec_replicas,
        replicas_after=0,
        event="",
    )


def _released(owned: _Owned, cause: Cause) -> Decision:
    """Return the decision that takes all of ours off a workload, and leaves it running.

    What placement scaled down and did not create gets the replicas back that it had, unless somebody else has scaled it
    since, or an autoscaler controls it now.
    """
    workload, back = owned.workload, scale_to_restore(owned.workload)
    if back is not None and owned.autoscaler:
        controlled = reason(ReasonCode.AUTOSCALED, autoscaler=owned.autoscaler)
        back, cause = None, replace(cause, reasons=(*cause.reasons, controlled))
    label = FieldChange(("metadata", "labels", Key.FEDERATED_LABEL), workload.labels.get(Key.FEDERATED_LABEL), None)
    keys = [key for key in _MARKS if key != Key.OWNER or placement_owner(workload.annotations)]  # one of idling stays
    keys += [] if back is None else [Key.SCALE_PREVIOUS, Key.SCALE_REASON]
    annotations = annotation_changes(workload.annotations, dict.fromkeys(keys))
    released = Decision(
        key=f"{placement_group(owned.key)}/{workload.ref.cluster}/{workload.ref.kind}/{workload.ref.name}/{Verb.RELEASE}",
        job="placement",
        verb=Verb.RELEASE,
        phase=Phase.REPAIR,
        ref=workload.ref,
        api_version=workload.api_version,
        uid=workload.uid,
        changes=(*annotations, *([label] if Key.FEDERATED_LABEL in workload.labels else [])),
        cause=cause,
        group=placement_group(owned.key),
        event="Released",
    )
    if back is None:
        return released
    change = replicas_change(workload.replicas, back, workload.replicas_path)
    why = (*cause.reasons, reason(ReasonCode.SCALE_RESTORED, replicas=back))
    return replace(
        released,
        phase=Phase.INCREASE,
        changes=(change, *released.changes),
        cause=replace(cause, reasons=why),
        replicas_before=workload.spec_replicas,
        replicas_after=back,
    )


def scale_to_restore(workload: Workload) -> int | None:
    """Return the replicas that `workload` had before placement lowered them, None where it did not, or where somebody
    else has scaled it since.
    """
    # Annotations of a Deployment are copied to its ReplicaSets, which nobody but the Deployment scales.
    if workload.owner is not None or workload.terminating:
        return None
    placed = read_placed(workload.annotations)
    if placed is None or workload.spec_replicas != placed.replicas or placed.previous <= placed.replicas:
        return None
    return placed.previous


def decide_releases(
    fleet: Fleet, state: ObservedState, is_meant: Callable[[str, Workload], bool], *, any_fleet: bool
) -> DesiredState:
    """Return the decisions that release what placement scaled and did not create, and give it the replicas back that it
    had before.

    Only what `is_meant`, by the name of its federated ReplicaSet and as it is; with `any_fleet` also what other Fleets
    placed. What is idle is woken first, by its own record. Who asks for it by hand gets it, whatever an autoscaler
    makes of it.
    """
    return DesiredState(
        decisions=tuple(
            _released(owned, Cause(policy, "", (reason(ReasonCode.RESTORED),)))
            for owned in _placed(fleet, state, any_fleet)
            for policy in [owned.key.partition("/")[2]]
            if is_meant(policy, owned.workload)
        )
    )


def _placed(fleet: Fleet, state: ObservedState, any_fleet: bool) -> Iterator[_Owned]:
    """Yield what placement scaled and did not create, where that may be written to, but what is idle."""
    for cluster in fleet.clusters:
        if cluster.writes is Writes.NOTHING or cluster.name not in state.clusters:
            continue
        for workload in state.clusters[cluster.name].workloads:
            owner = placed_by(workload) if workload.annotations and Key.IDLED_AT not in workload.annotations else None
            if owner is None or not (any_fleet or owner[0] in fleet_names(fleet)):
                continue
            is_left = workload.owner is not None or workload.terminating
            if not is_left and protection(fleet, workload.ref.namespace) is None:
                yield _Owned(owner[1], workload)


def _statuses(
    federated: Container[str], inputs: PlacementInputs, is_known: Callable[[str], bool]
) -> Iterator[Decision]:
    for found in (*inputs.home.own.values(), *inputs.home.others):
        cluster = inputs.fleet.cluster(found.ref.cluster)
        if not found.ref.name.startswith(STATUS_PREFIX) or cluster is None or cluster.writes is Writes.NOTHING:
            continue
        owner = placement_owner(found.annotations)
        if owner is not None and owner[0] in inputs.ours and owner[1] not in federated and is_known(owner[1]):
            yield config_map_deleted(found, placement_group(owner[1]), _cause(owner[1]))


def _cause(key: str, on_delete: str = "") -> Cause:
    return Cause(key.partition("/")[2], "", (reason(ReasonCode.POLICY_REMOVED, onDelete=on_delete),))


# What they give back is no more than a downscale target leaves in the next run.


def restored_scales(placement: DesiredState) -> dict[ObjectRef, Decision]:
    """Return the releases that give replicas back, by workload."""
    return {
        decision.ref: decision
        for decision in placement.decisions
        if decision.verb is Verb.RELEASE and decision.replicas_after is not None
    }


def within_targets(
    placement: DesiredState, state: ObservedState, downscale: Callable[[ObservedState], DesiredState]
) -> DesiredState:
    """Return `placement` where no workload gets more replicas back than `downscale` would leave it in the next run.

    Where that is not known yet, the workload keeps its replicas and its record until it is.
    """
    restored = restored_scales(placement)
    if not restored:
        return placement
    after = downscale(_as_restored(state, restored))
    unknown = {undecided.subject for undecided in after.undecided}
    released = {ref: decision for ref, decision in restored.items() if str(ref) not in unknown}
    released |= {
        decision.ref: _at_most(released[decision.ref], decision)
        for decision in after.decisions
        if decision.ref in released
    }
    decided = {decision.key: released.get(ref) for ref, decision in restored.items()}
    decisions = (decided.get(decision.key, decision) for decision in placement.decisions)
    return replace(placement, decisions=tuple(decision for decision in decisions if decision is not None))


def _as_restored(state: ObservedState, restored: Mapping[ObjectRef, Decision]) -> ObservedState:
    clusters = dict(state.clusters)
    for name in {ref.cluster for ref in restored}:
        workloads = (
            replace(workload, replicas=restored[workload.ref].replicas_after) if workload.ref in restored else workload
            for workload in clusters[name].workloads
        )
        clusters[name] = replace(clusters[name], workloads=tuple(workloads))
    return replace(state, clusters=clusters)


def _at_most(released: Decision, scaled: Decision) -> Decision:
    """Return `released` with the replicas that `scaled` leaves; without any where those it has are as many, or more."""
    path = scaled.changes[0].path
    metadata = tuple(change for change in released.changes if change.path != path)
    why = tuple(why for why in released.cause.reasons if why.code != ReasonCode.SCALE_RESTORED)
    cause = replace(released.cause, reasons=(*why, reason(ReasonCode.DECIDED_BY, policy=scaled.cause.policy)))
    before, after = released.replicas_before or 0, scaled.replicas_after or 0
    if after <= before:
        kept = replace(released, phase=Phase.REPAIR, replicas_before=None, replicas_after=None)
        return replace(kept, changes=metadata, cause=cause)
    changes = (replace(released.changes[0], after=after), *metadata)
    return replace(released, changes=changes, cause=cause, replicas_after=after)
