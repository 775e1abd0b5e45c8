"""`reconciler adopt`: takes over what another tool has asleep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
from msgspec.structs import replace

from reconciler.backends.live import LiveSettings, open_live
from reconciler.cli.approval import Approval
from reconciler.cli.exit_codes import exit_of_apply
from reconciler.cli.fleet_source import user_of_this_machine
from reconciler.cli.options import context_option, option, policies_option, terminal_or, verb
from reconciler.cli.output import say
from reconciler.cli.progress import by_hand_options, run_progress
from reconciler.cli.run import RunOptions, cut_by_signals
from reconciler.decide.annotations import DOWNSCALER_ORIGINAL_REPLICAS
from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.adoption import decide_adoption
from reconciler.errors import NotFoundError, UsageError
from reconciler.importing.downscaler import asleep_by_downscaler
from reconciler.importing.kube_green import MEMORY, SLEEP_INFO, asleep_by_kube_green
from reconciler.importing.manifests import Manifest
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.pipeline import Control, apply
from reconciler.policy.checkout import commit_of
from reconciler.policy.types import Fleet, PolicySet
from reconciler.world import World

_TOOLS = ("kube-downscaler", "go-kube-downscaler", "kube-green")


@verb("adopt")
@click.argument("tool", metavar="TOOL", type=click.Choice(_TOOLS))
@policies_option()
@context_option
@option("--auto-approve", "--yes", is_flag=True, help="Do not ask for approval; required without a terminal.")
@by_hand_options
def adopt_command(tool: str, policies: str, output: str, **flags: Any) -> int:
    """Give what TOOL has asleep the records with which the policies wake it, with the replicas that it had.

    TOOL is kube-downscaler, go-kube-downscaler or kube-green; stop it first. No replicas are changed. What the policies
    would not idle now is left as it is, and said.
    """
    terminal_or(flags["auto_approve"], "adopt")
    options = RunOptions.of(policies, flags)
    options = replace(options, title="Adopt in Fleet", nothing=f"Nothing to adopt: {tool} has nothing asleep.")
    found = options.policies()
    if options.snapshot is not None and tool == "kube-green":
        raise UsageError("--snapshot: has no Secrets, in which kube-green remembers replicas; expected live clusters")
    approval = Approval(output, options, ask=not flags["auto_approve"])
    with run_progress(options, flags) as (tracked_run, shown), cut_by_signals(options.limit) as limit:
        world = options.world(found.fleet)
        remembered = _remembered(found.fleet, options, world) if tool == "kube-green" else {}

        def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
            before = remembered if tool == "kube-green" else dict(_annotated(state))
            return decide_adoption(policies, state, run, before, tool)

        control = Control(
            shown.counted(approval.choose),
            shown.writing,
            approval.approve,
            wakes_early=False,
            caller=user_of_this_machine(),
            commit=commit_of(policies),
            report_dir=flags["report_dir"],
        )
        applied = apply(found, world, tracked_run.request(), control, decide)
    approval.report(applied)
    return limit.ended(exit_of_apply(applied))


def _annotated(state: ObservedState) -> Iterator[tuple[ObjectRef, int]]:
    """Yield what carries the annotation of kube-downscaler, and the replicas that it had."""
    for cluster in state.clusters.values():
        for one in cluster.workloads:
            before = asleep_by_downscaler(one.annotations, one.spec_replicas)
            if before is not None and one.owner is None:
                yield one.ref, before
        for hpa in cluster.autoscalers:
            if DOWNSCALER_ORIGINAL_REPLICAS in hpa.annotations:
                had = hpa.annotations[DOWNSCALER_ORIGINAL_REPLICAS]
                say(f"warning: {hpa.ref}: its minReplicas were {had} before kube-downscaler; set them back")


def _remembered(fleet: Fleet, options: RunOptions, world: World) -> Mapping[ObjectRef, int]:
    """Return what kube-green remembers of all clusters, from the Secret of each SleepInfo.

    Raises:
        ClusterError: a cluster does not say.
    """
    live = LiveSettings(options.now, fleet.namespace, options.settings)
    opened = open_live((one.connection for one in options.bounded(fleet).clusters), live)
    found: dict[ObjectRef, int] = {}
    for name, backend in opened.backends.items():
        assert backend.served is not None
        infos = [Manifest(one, name) for one in backend.served.manifests(*SLEEP_INFO)]
        secrets = [_secret(world, name, one) for one in infos]
        for (namespace, group, kind, object_name), replicas in asleep_by_kube_green(secrets).items():
            found[ObjectRef(name, namespace, kind, object_name, group)] = replicas
    return found


def _secret(world: World, cluster: str, info: Manifest) -> Manifest:
    name = f"sleepinfo-{info.name}"
    data: dict[str, str] = {}
    for key in MEMORY:
        try:
            data[key] = world.access(cluster).cluster.secret(info.namespace, name, key)
        except NotFoundError:
            continue
    return Manifest({"metadata": {"namespace": info.namespace, "name": name}, "stringData": data}, cluster)
