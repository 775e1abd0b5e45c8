"""`reconciler import` and `reconciler adopt`: what another tool declares as policies, and what it has idled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.cli import policy_source
from reconciler.cli.approval import Approval
from reconciler.cli.exit_codes import exit_of_apply
from reconciler.cli.options import (
    argument,
    auto_approve_option,
    is_on_command_line,
    option,
    output_option,
    policies_option,
    terminal_or,
    verb,
)
from reconciler.cli.output import say, say_each, show
from reconciler.cli.progress import run_progress
from reconciler.cli.run_options import BY_HAND, BY_HAND_FORMATS, SERVER, RunOptions
from reconciler.cli.run_time_limit import cut_by_signals
from reconciler.decide.annotations import Key
from reconciler.decide.decisions import DesiredState, Notice
from reconciler.decide.idling.adoption import decide_adoption, is_asleep
from reconciler.errors import NotFoundError, UsageError
from reconciler.importing.downscaler import import_downscaler, replicas_before_downscaler
from reconciler.importing.karmada import import_karmada
from reconciler.importing.kube_green import MEMORY, SLEEP_INFO, asleep_by_kube_green, import_kube_green
from reconciler.importing.kubefed import import_kubefed
from reconciler.importing.manifests import (
    Imported,
    Manifest,
    Policy,
    fleet_document,
    manifests_of,
    policy_text,
    read_manifests,
)
from reconciler.messages import counted, shown
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.pipeline import apply
from reconciler.policy.types import Fleet, PolicySet
from reconciler.workload_kinds import PAUSED_REPLICAS
from reconciler.world import World
from reconciler.yaml.files import write_new

Reader = Callable[[Iterable[Manifest]], Imported]

_SCALED = (("apps", "Deployment"), ("apps", "StatefulSet"), ("batch", "CronJob"))
_CUSTOM = (
    ("argoproj.io", "Rollout"),
    ("kafka.strimzi.io", "KafkaBridge"),
    ("kafka.strimzi.io", "KafkaConnect"),
    ("kafka.strimzi.io", "KafkaMirrorMaker2"),
    ("keda.sh", "ScaledObject"),
    ("zalando.org", "Stack"),
)
_OTHERS = (
    ("acid.zalan.do", "postgresql"),
    ("apps", "DaemonSet"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("batch", "Job"),
    ("policy", "PodDisruptionBudget"),
)
_DOWNSCALER = (("", "Namespace"), ("", "ConfigMap"), *_SCALED, *_CUSTOM, *_OTHERS)
_KARMADA = (
    ("cluster.karmada.io", "Cluster"),
    *(
        ("policy.karmada.io", f"{scope}{kind}")
        for scope in ("", "Cluster")
        for kind in ("PropagationPolicy", "OverridePolicy")
    ),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
)
_KUBEFED = (
    ("core.kubefed.io", "KubeFedCluster"),
    ("scheduling.kubefed.io", "ReplicaSchedulingPreference"),
    ("types.kubefed.io", "FederatedDeployment"),
    ("types.kubefed.io", "FederatedReplicaSet"),
)
TOOLS: Mapping[str, tuple[Reader, tuple[tuple[str, str], ...]]] = {
    "kube-downscaler": (partial(import_downscaler, go=False), _DOWNSCALER),
    "go-kube-downscaler": (partial(import_downscaler, go=True), _DOWNSCALER),
    "kube-green": (import_kube_green, (SLEEP_INFO,)),
    "karmada": (import_karmada, _KARMADA),
    "kubefed": (import_kubefed, _KUBEFED),
}
"""What reads the manifests of each tool, and which kinds of a cluster it reads, by group and kind."""


class _ImportOptions(RunOptions):
    tool: str = argument("TOOL", type=click.Choice(list(TOOLS)))
    paths: tuple[str, ...] = argument("[PATH]...", nargs=-1, type=click.Path())
    fleet: bool = option(
        "Print a Fleet too; without it the policies are for one that is there.",
        "--fleet/--no-fleet",
        default=True,
        default_words="--fleet",
    )
    out: str | None = option("Write the policies to this new file, and print what became of them.", metavar="FILE")
    cluster_name: str | None = option("The name of the one cluster that the manifests are of.", metavar="NAME")


@verb("import", _ImportOptions, "context", *SERVER, "quiet")
def import_command(options: _ImportOptions) -> None:
    """Print the policies that do what the manifests of TOOL say, in PATH or on a cluster.

    TOOL is kube-downscaler, go-kube-downscaler, kube-green, karmada or kubefed. PATH is a file, a folder, or - for
    standard input. What has no counterpart is said on stderr, and as comments. No cluster is written to.

    # Print the policies that kube-green's SleepInfos amount to
    import kube-green sleepinfos.yaml --out policies/imported.yaml
    # Read the annotations and flags of kube-downscaler on a cluster
    import kube-downscaler --context dev
    """
    if options.paths and not is_on_command_line("context"):
        options = options.replace(context=None)
    imported = _imported(options)
    clusters = _clusters(imported, options.cluster_name, options.context)
    text = policy_text(imported, fleet_document(clusters) if options.fleet else None)
    if options.out is None:
        show(text)
    else:
        try:
            Path(options.out).parent.mkdir(parents=True, exist_ok=True)
            write_new(options.out, text, 0o644)
        except OSError as error:
            words = f"{error.strerror}, expected a new file that can be written"
            raise UsageError(f"--out: {options.out}: {words}") from None
    if not options.quiet:
        for loss in imported.losses.values():
            say(f"not carried over: {loss}")
        for line in _next(options.tool, imported, options.out):
            say(line)


def _imported(options: _ImportOptions) -> Imported:
    """Return the policies made of the manifests in the paths, or of a context.

    Raises:
        UsageError: there are none. ClusterError: some cannot be read. PolicyError: some are of another shape.
    """
    paths, context = options.paths, options.context
    if bool(paths) == bool(context):
        raise UsageError("import: expected either PATH, the manifests of the tool, or --context NAME")
    read, kinds = TOOLS[options.tool]
    if context:
        opened = options.live_backends(policy_source.fleet_of_contexts([context], None))
        served = next(iter(opened.values())).served
        assert served is not None
        manifests = manifests_of(context, chain.from_iterable(served.manifests(group, kind) for group, kind in kinds))
    else:
        manifests = read_manifests(paths, kinds)
    imported = read(manifests)
    if not imported.policies:
        say_each("warning", imported.losses.values())
        where, read_ = context or ", ".join(paths), counted(len(manifests), "object was", "objects were")
        raise UsageError(f"import: no policy can be made of {options.tool} in {where}: {read_} read")
    return imported


def _clusters(imported: Imported, name: str | None, context: str | None) -> list[Policy]:
    """Return the clusters of the Fleet, each reached by the context of its name."""
    if imported.clusters:
        return [
            {"name": one, **({"labels": dict(labels)} if labels else {})} for one, labels in imported.clusters.items()
        ]
    named = name or policy_source.cluster_name(context or "my-cluster")
    return [{"name": named, **({"connection": {"context": context}} if context not in (None, named) else {})}]


def _next(tool: str, imported: Imported, file: str | None) -> Iterable[str]:
    """Yield what was made, and what comes next."""
    made, lost = counted(len(imported.policies), "policy", "policies"), len(imported.losses)
    yield f"{file or 'standard output'}: {made}, {lost} not carried over"
    steps = ["`reconciler validate`", f"stop {tool}"]
    if tool in ADOPTABLE:
        steps.append(f"`reconciler adopt {tool}` takes over what it has idled")
    yield f"next: {', '.join(steps)}, `reconciler plan` has nothing to do"


ADOPTABLE = ("kube-downscaler", "go-kube-downscaler", "kube-green")
"""The tools that remember on the clusters what they idled."""


class _AdoptOptions(RunOptions):
    tool: str = argument("TOOL", type=click.Choice(ADOPTABLE))
    path: str = policies_option()
    auto_approve: bool = auto_approve_option()
    output: str = output_option(*BY_HAND_FORMATS)


@verb("adopt", _AdoptOptions, "context", *BY_HAND)
def adopt_command(options: _AdoptOptions) -> int:
    """Give what TOOL has idled the records with which the policies wake it, with the replicas that it had.

    TOOL is kube-downscaler, go-kube-downscaler or kube-green; stop it first. No replicas are changed. What the policies
    would not idle now is left as it is, and said.

    # Take over what kube-green has idled, once it is stopped
    adopt kube-green
    # Take over without a question what kube-downscaler has idled
    adopt kube-downscaler --auto-approve
    """
    terminal_or(options.auto_approve, "adopt")
    tool = options.tool
    options = options.replace(title="Adopt in Fleet", nothing=f"Nothing to adopt: {tool} has nothing idle.")
    found = replace(options.policies(), downscale=())  # they idle nothing, so what they select is not decided here
    if options.snapshot is not None and tool == "kube-green":
        raise UsageError("--snapshot: has no Secrets, in which kube-green remembers replicas; expected live clusters")
    approval = Approval(options.output, options, ask=not options.auto_approve)
    with run_progress(options) as (settings, shown), cut_by_signals(options.limit) as limit:
        world = options.world(found.fleet)
        remembered = _remembered(found.fleet, options, world) if tool == "kube-green" else {}

        def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
            if tool == "kube-green":
                return decide_adoption(policies, state, run, remembered, tool)
            workloads = (workload for cluster in state.clusters.values() for workload in cluster.workloads)
            annotated = {
                one.ref: before
                for one in workloads
                if one.owner is None
                and one.scale_target is None
                and Key.DOWNSCALER_ORIGINAL_REPLICAS in one.annotations
                if (before := replicas_before_downscaler(one.annotations[Key.DOWNSCALER_ORIGINAL_REPLICAS])) is not None
            }
            desired = decide_adoption(policies, state, run, annotated, tool)
            left = (Notice("notAdopted", str(ref), words, partial=True) for ref, words in _left_to_people(state))
            return replace(desired, notices=(*desired.notices, *left))

        control = replace(options.by_hand(approval.control(shown)), wakes_early=False)
        applied = apply(found, world, settings.request(), control, decide)
    approval.report(applied)
    return limit.ended(exit_of_apply(applied))


def _left_to_people(state: ObservedState) -> Iterator[tuple[ObjectRef, str]]:
    """Yield what kube-downscaler has changed that no record of ours can restore, and what to do."""
    for cluster in state.clusters.values():
        for hpa in cluster.autoscalers:
            if Key.DOWNSCALER_ORIGINAL_REPLICAS in hpa.annotations:
                had = hpa.annotations[Key.DOWNSCALER_ORIGINAL_REPLICAS]
                yield hpa.ref, f"its minReplicas were {had} before kube-downscaler; set them back"
        for workload in cluster.workloads:
            had = workload.annotations.get(Key.DOWNSCALER_ORIGINAL_REPLICAS, "0")
            if workload.scale_target is not None and had != "0":
                back = f"set its annotation {PAUSED_REPLICAS} back to {had}"
                back = f"remove its annotation {PAUSED_REPLICAS}" if had.startswith("-") else back
                yield workload.ref, f"kube-downscaler has paused it; {back}"
            elif workload.ref.kind == "DaemonSet" and had != "0":  # switched off in another way than by our switch
                yield workload.ref, "kube-downscaler has suspended it; remove what it added to its nodeSelector"
            elif workload.owner is None and replicas_before_downscaler(had) is None and is_asleep(workload, 1):
                key = f"{Key.DOWNSCALER_ORIGINAL_REPLICAS} is {shown(had)}"
                yield workload.ref, f"stays as kube-downscaler left it: {key}, no number of replicas; scale it up"


def _remembered(fleet: Fleet, options: RunOptions, world: World) -> Mapping[ObjectRef, int]:
    """Return what kube-green remembers of all clusters, from the Secret of each SleepInfo.

    Raises:
        ClusterError: a cluster does not say.
    """
    found: dict[ObjectRef, int] = {}
    for name, backend in options.live_backends(fleet).items():
        assert backend.served is not None
        for info in (Manifest(value, name) for value in backend.served.manifests(*SLEEP_INFO)):
            data: dict[str, str] = {}
            for key in MEMORY:
                with suppress(NotFoundError):
                    data[key] = world.access(name).cluster.secret(info.namespace, f"sleepinfo-{info.name}", key)
            for (group, kind, object_name), replicas in asleep_by_kube_green(data).items():
                found[ObjectRef(name, info.namespace, kind, object_name, group)] = replicas
    return found
