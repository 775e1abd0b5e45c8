"""`reconciler adopt`: what another tool has idled gets the records with which the policies wake it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click
from msgspec.structs import replace

from reconciler.cli.approval import Approval
from reconciler.cli.exit_of_run import exit_of_apply
from reconciler.cli.options import argument, auto_approve_option, output_option, policies_option, terminal_or, verb
from reconciler.cli.output import say
from reconciler.cli.progress import run_progress
from reconciler.cli.run_limit import cut_by_signals
from reconciler.cli.run_options import BY_HAND, RunOptions
from reconciler.decide.annotations import DOWNSCALER_ORIGINAL_REPLICAS
from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.adoption import decide_adoption
from reconciler.errors import NotFoundError, UsageError
from reconciler.importing.downscaler import asleep_by_downscaler
from reconciler.importing.kube_green import MEMORY, SLEEP_INFO, asleep_by_kube_green
from reconciler.importing.manifests import Manifest
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.pipeline import apply
from reconciler.policy.types import Fleet, PolicySet
from reconciler.world import World

ADOPTABLE = ("kube-downscaler", "go-kube-downscaler", "kube-green")
"""The tools that remember on the clusters what they idled."""


class AdoptOptions(RunOptions):
    tool: str = argument("TOOL", type=click.Choice(ADOPTABLE))
    path: str = policies_option()
    auto_approve: bool = auto_approve_option()
    output: str = output_option("text", "json", "yaml", "markdown")


@verb("adopt", AdoptOptions, "context", *BY_HAND)
def adopt_command(options: AdoptOptions) -> int:
    """Give what TOOL has idled the records with which the policies wake it, with the replicas that it had.

    TOOL is kube-downscaler, go-kube-downscaler or kube-green; stop it first. No replicas are changed. What the policies
    would not idle now is left as it is, and said.
    """
    terminal_or(options.auto_approve, "adopt")
    tool = options.tool
    options = options.replace(title="Adopt in Fleet", nothing=f"Nothing to adopt: {tool} has nothing idle.")
    found = options.policies()
    if options.snapshot is not None and tool == "kube-green":
        raise UsageError("--snapshot: has no Secrets, in which kube-green remembers replicas; expected live clusters")
    approval = Approval(options.output, options, ask=not options.auto_approve)
    with run_progress(options) as (settings, shown), cut_by_signals(options.limit) as limit:
        world = options.world(found.fleet)
        remembered = _remembered(found.fleet, options, world) if tool == "kube-green" else {}

        def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
            before = remembered if tool == "kube-green" else dict(_annotated(state))
            return decide_adoption(policies, state, run, before, tool)

        control = replace(options.by_hand(approval.control(shown)), wakes_early=False)
        applied = apply(found, world, settings.request(), control, decide)
    approval.report(applied)
    return limit.ended(exit_of_apply(applied))


def _annotated(state: ObservedState) -> Iterator[tuple[ObjectRef, int]]:
    """Yield what carries the annotation of kube-downscaler, and the replicas that it had."""
    for cluster in state.clusters.values():
        for workload in cluster.workloads:
            before = asleep_by_downscaler(workload.annotations, workload.spec_replicas)
            if before is not None and workload.owner is None:
                yield workload.ref, before
        for hpa in cluster.autoscalers:
            if DOWNSCALER_ORIGINAL_REPLICAS in hpa.annotations:
                had = hpa.annotations[DOWNSCALER_ORIGINAL_REPLICAS]
                say(f"warning: {hpa.ref}: its minReplicas were {had} before kube-downscaler; set them back")


def _remembered(fleet: Fleet, options: RunOptions, world: World) -> Mapping[ObjectRef, int]:
    """Return what kube-green remembers of all clusters, from the Secret of each SleepInfo.

    Raises:
        ClusterError: a cluster does not say.
    """
    found: dict[ObjectRef, int] = {}
    for name, backend in options.live_backends(fleet).items():
        assert backend.served is not None
        infos = [Manifest(value, name) for value in backend.served.manifests(*SLEEP_INFO)]
        secrets = [_secret(world, name, manifest) for manifest in infos]
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
