"""`reconciler uninstall`: wakes everything, and takes everything of ours off the clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.apply.outcomes import OutcomeStatus
from reconciler.backends.protocols import CONFIG_MAPS, LEASES, OUR_CONFIG_MAPS
from reconciler.cli.approval import Approval
from reconciler.cli.exit_codes import exit_of_apply
from reconciler.cli.options import auto_approve_option, terminal_or, verb
from reconciler.cli.output import say
from reconciler.cli.progress import run_progress
from reconciler.cli.run_options import BY_HAND, ByHandOptions
from reconciler.cli.run_time_limit import cut_by_signals
from reconciler.decide.annotations import fleet_names
from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.restore import Restoration, decide_restore
from reconciler.decide.placement.removed_policies import decide_releases
from reconciler.decide.uninstall import AnnotatedObject, decide_uninstall
from reconciler.errors import (
    ClusterError,
    ExitCode,
    ForbiddenError,
    NotFoundError,
    UsageError,
    first_exit_code,
    reason_of,
)
from reconciler.model import OUR_LABELS, ObjectRef, ObservedState, Run, Workload, Write
from reconciler.pipeline import Applied, Decide, apply
from reconciler.policy.types import Fleet, PolicySet
from reconciler.workload_kinds import joined_version
from reconciler.world import World

_NEVER_ANNOTATED = frozenset({("", "events"), ("events.k8s.io", "events"), ("metrics.k8s.io", "pods")})
"""Kinds that carry no key of ours; metrics have the labels of their pods."""


class _UninstallOptions(ByHandOptions):
    auto_approve: bool = auto_approve_option()


@verb("uninstall", _UninstallOptions, *BY_HAND)
def uninstall_command(options: _UninstallOptions) -> int:
    """Wake everything that was idled, give back what placement scaled, and remove all that runs wrote on the clusters.

    Stop the runs and activators first. Local ReplicaSets stay and keep running. Of the policies only the Fleet is read.
    What stops half-way goes on when it is called again.

    # Show what would be woken and taken off, ask, and do it
    uninstall
    # Clean one cluster of which there are no policies any more
    uninstall --context dev
    """
    terminal_or(options.auto_approve, "uninstall")
    fleet = options.fleet()
    if options.snapshot is not None:
        raise UsageError("--snapshot: has only what runs read, expected live clusters, which list every object")
    removal = _Removal(options, fleet)
    with run_progress(options) as (settings, shown), cut_by_signals(options.limit) as limit:
        world = options.world(fleet)

        def done(decide: Decide, title: str, again: bool) -> Applied:
            asks = not options.auto_approve and not again
            nothing = f"{title.partition(' ')[0]}: nothing is to be done."
            approval = Approval(options.output, options.replace(title=title, nothing=nothing), ask=asks)
            control = options.by_hand(approval.control(shown))
            applied = apply(PolicySet(fleet), world, settings.request(), control, decide)
            approval.report(applied)
            return applied

        return limit.ended(_uninstalled(removal, done, world))


_MOST_PASSES = 5
"""So often keys are taken off: until the controller of a Deployment sees that, it copies them to its ReplicaSets."""


def _uninstalled(removal: _Removal, done: Callable[[Decide, str, bool], Applied], world: World) -> ExitCode:
    """Wake, then take the keys off, then delete what is ours alone, the locks last; what fails stops what follows."""
    codes: list[ExitCode] = []
    wake, clear = (removal.woken, "Wake in Fleet"), (removal.cleared, "Uninstall from Fleet")
    is_more = True
    # Woken twice: what was idle and placed gets the replicas of before placement once it is awake.
    for number, (decide, title) in enumerate((wake, wake, *[clear] * _MOST_PASSES)):
        if number == 1 and not is_more:
            continue
        applied = done(decide, title, number > 2)  # approved once, where controllers copied old keys
        codes.append(exit_of_apply(applied))
        undone = (outcome for outcome in applied.outcomes if outcome.status is not OutcomeStatus.APPLIED)
        if any(undone) or applied.dropped or applied.plan.unknown or applied.declined:
            say("error: not everything was done, so the records stay; call uninstall again")
            return first_exit_code([*codes, ExitCode.PARTIAL])
        is_more = bool(applied.plan.actions)
        if number > 1 and (not is_more or not any(removal.left())):
            break
    codes += [ExitCode.PARTIAL for _ in removal.own_objects(world)]
    for ref in removal.left():
        codes.append(ExitCode.PARTIAL)
        say(f"warning: {ref}: carries a key of ours")
    say("Next: remove what was installed, as `kubectl delete -k` of what was applied does.")
    return first_exit_code(codes)


class _Removal:
    """What is of ours on the clusters of `fleet`; where contexts stand in for it, that of every Fleet is."""

    def __init__(self, options: _UninstallOptions, fleet: Fleet) -> None:
        self._served = {
            name: backend.served for name, backend in options.live_backends(fleet).items() if backend.served is not None
        }
        self._fleet = fleet
        self._every_fleet = options.any_fleet
        self._fleets = None if options.any_fleet else fleet_names(fleet)

    def woken(self, policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        """Return what `restore --all` does, and the release of what placement leaves as it is."""
        restoration = Restoration(any_fleet=self._every_fleet, repairs=True)
        idle = decide_restore(policies.fleet, state, run, restoration)
        woken = {decision.ref for decision in idle.decisions}

        def is_left(_policy: str, workload: Workload) -> bool:
            return workload.ref not in woken

        return idle.joined(decide_releases(policies.fleet, state, is_left, any_fleet=self._every_fleet))

    def cleared(self, _policies: PolicySet, state: ObservedState, _run: Run) -> DesiredState:
        """Return what takes our keys off everything that the clusters of `state` serve."""
        found = [one for name in state.clusters for one in self._annotated(name)]
        return decide_uninstall(found, self._fleets)

    def own_objects(self, world: World) -> Iterator[ObjectRef]:
        """Delete the ConfigMaps and Leases that runs write, the locks last; yield what could not be deleted."""
        for name, access in world.accesses.items():
            for named in sorted(self._own(name), key=lambda ref: ref.kind):
                try:
                    version = LEASES.api_version if named.kind == LEASES.kind else CONFIG_MAPS.api_version
                    access.cluster.write(Write("delete", named, version))
                except NotFoundError:
                    continue
                except ClusterError as error:
                    say(f"warning: {reason_of(error)}")
                    yield named

    def left(self) -> Iterator[ObjectRef]:
        """Yield what still carries a key of ours."""
        for name in self._served:
            yield from (one.ref for one in self._annotated(name) if one.is_of(self._fleets))

    def _own(self, cluster: str) -> list[ObjectRef]:
        namespace = self._fleet.namespace
        found = [
            (resource.kind, _annotated_object(ref, resource.api_version, metadata))
            for resource in (CONFIG_MAPS, LEASES)
            for served in self._served[cluster].kinds()
            if (served.group, served.plural) == (resource.group, resource.plural)
            for metadata in self._served[cluster].metadata(served)
            if metadata.get("namespace") == namespace
            for ref in [ObjectRef(cluster, namespace, resource.kind, str(metadata["name"]), resource.group)]
        ]
        return [one.ref for kind, one in found if _is_own(kind, one) and one.is_of(self._fleets)]

    def _annotated(self, cluster: str) -> Iterator[AnnotatedObject]:
        """Yield what carries a key of ours outside of our own objects; a kind that may not be listed is said."""
        own = set(self._own(cluster))
        for served in self._served[cluster].kinds():
            if (served.group, served.plural) in _NEVER_ANNOTATED:
                continue
            try:
                listed = self._served[cluster].metadata(served)
            except ForbiddenError as error:
                say(f"warning: {reason_of(error)}")
                continue
            version = joined_version(served.group, served.version)
            for metadata in listed:
                ref = ObjectRef(cluster, metadata.get("namespace") or "", served.kind, metadata["name"], served.group)
                one = _annotated_object(ref, version, metadata)
                if one.has_our_metadata and ref not in own:
                    yield one


def _is_own(kind: str, annotated: AnnotatedObject) -> bool:
    ours = all(annotated.labels.get(key) == value for key, value in OUR_LABELS.items())
    return ours or (kind == CONFIG_MAPS.kind and annotated.ref.name.startswith(OUR_CONFIG_MAPS))


def _annotated_object(ref: ObjectRef, version: str, metadata: Mapping[str, Any]) -> AnnotatedObject:
    owners = metadata.get("ownerReferences") or ()
    return AnnotatedObject(
        ref,
        version,
        str(metadata.get("uid", "")),
        metadata.get("annotations") or {},
        metadata.get("labels") or {},
        any(owner.get("controller") for owner in owners),
    )
