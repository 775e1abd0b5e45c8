"""`reconciler import`: the manifests of another tool as policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import click

from reconciler.cli import policy_source
from reconciler.cli.adopt import ADOPTABLE
from reconciler.cli.options import argument, is_on_command_line, option, verb
from reconciler.cli.output import say, say_each, show
from reconciler.cli.run_options import SERVER, RunOptions
from reconciler.errors import ExitCode, UsageError
from reconciler.importing.downscaler import import_downscaler
from reconciler.importing.karmada import import_karmada
from reconciler.importing.kube_green import SLEEP_INFO, import_kube_green
from reconciler.importing.kubefed import import_kubefed
from reconciler.importing.manifests import Imported, Manifest, Policy, fleet_document, policy_text, read_manifests
from reconciler.messages import counted
from reconciler.yaml.files import write_new

Reader = Callable[[Iterable[Manifest]], Imported]

_SCALED = (("apps", "Deployment"), ("apps", "StatefulSet"), ("batch", "CronJob"))
_CUSTOM = (("argoproj.io", "Rollout"), ("keda.sh", "ScaledObject"), ("zalando.org", "Stack"))
_DOWNSCALER = (("", "Namespace"), ("", "ConfigMap"), *_SCALED, *_CUSTOM)
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


class ImportOptions(RunOptions):
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


@verb("import", ImportOptions, "context", *SERVER, "quiet")
def import_command(options: ImportOptions) -> int:
    """Print the policies that do what the manifests of TOOL say, in PATH or on a cluster.

    TOOL is kube-downscaler, go-kube-downscaler, kube-green, karmada or kubefed. PATH is a file, a folder, or - for
    standard input. What has no counterpart is said on stderr, and as comments. No cluster is written to.
    """
    if options.paths and not is_on_command_line("context"):
        options = options.replace(context=None)
    imported = _imported(options)
    clusters = _clusters(imported, options.cluster_name, options.context)
    text = policy_text(imported, fleet_document(clusters) if options.fleet else None)
    if options.out is None:
        show(text)
    else:
        _write(options.out, text)
    if not options.quiet:
        for loss in imported.losses:
            say(f"not carried over: {loss}")
        for line in _next(options.tool, imported, options.out):
            say(line)
    return ExitCode.DONE


def _imported(options: ImportOptions) -> Imported:
    """Return the policies made of the manifests in the paths, or of a context.

    Raises:
        UsageError: there are none.
    """
    paths, context = options.paths, options.context
    if bool(paths) == bool(context):
        raise UsageError("import: expected either PATH, the manifests of the tool, or --context NAME")
    read, kinds = TOOLS[options.tool]
    manifests = _of_context(context, options, kinds) if context else read_manifests(paths)
    imported = read(manifests)
    if not imported.policies:
        say_each("warning", imported.losses)
        where = context or ", ".join(paths)
        raise UsageError(
            f"import: no policy can be made of {options.tool} in {where}: {len(manifests)} objects were read"
        )
    return imported


def _write(file: str, text: str) -> None:
    """Write a new file.

    Raises:
        UsageError: it cannot be written, or is there.
    """
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        write_new(file, text, 0o644)
    except OSError as error:
        raise UsageError(f"--out: {file}: {error.strerror}, expected a new file that can be written") from None


def _clusters(imported: Imported, name: str | None, context: str | None) -> list[Policy]:
    """Return the clusters of the Fleet, each reached by the context of its name."""
    if imported.clusters:
        return [
            {"name": one, **({"labels": dict(labels)} if labels else {})} for one, labels in imported.clusters.items()
        ]
    named = name or policy_source.cluster_name(context or "my-cluster")
    return [{"name": named, **({"connection": {"context": context}} if context not in (None, named) else {})}]


def _of_context(context: str, options: ImportOptions, kinds: Iterable[tuple[str, str]]) -> list[Manifest]:
    """Return the objects of `kinds` on the cluster of a context.

    Raises:
        ClusterError: some cannot be read.
    """
    opened = options.live_backends(policy_source.fleet_of_contexts([context], None))
    served = next(iter(opened.values())).served
    assert served is not None
    return [
        Manifest(value, f"{context}/{value['metadata'].get('namespace', '')}".rstrip("/"))
        for group, kind in kinds
        for value in served.manifests(group, kind)
    ]


def _next(tool: str, imported: Imported, file: str | None) -> Iterable[str]:
    """Yield what was made, and what comes next."""
    made, lost = counted(len(imported.policies), "policy", "policies"), len(imported.losses)
    yield f"{file or 'standard output'}: {made}, {lost} not carried over"
    steps = ["`reconciler validate`", f"stop {tool}"]
    if tool in ADOPTABLE:
        steps.append(f"`reconciler adopt {tool}` takes over what it has idled")
    yield f"next: {', '.join(steps)}, `reconciler plan` has nothing to do"
