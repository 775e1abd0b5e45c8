"""`reconciler import`: what another tool is told, as policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from reconciler.backends.live import LiveSettings, open_live
from reconciler.cli import fleet_source
from reconciler.cli.options import context_option, option, quiet_option, server_options, verb
from reconciler.cli.output import say, show
from reconciler.cli.run import RunOptions
from reconciler.errors import ExitCode, UsageError
from reconciler.importing.downscaler import import_downscaler
from reconciler.importing.imported import Imported, Policy, fleet_document, policy_text
from reconciler.importing.karmada import import_karmada
from reconciler.importing.kube_green import SLEEP_INFO, import_kube_green
from reconciler.importing.kubefed import import_kubefed
from reconciler.importing.manifests import Manifest, read_manifests
from reconciler.report.wording import counted
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
PEERS: Mapping[str, tuple[Reader, tuple[tuple[str, str], ...]]] = {
    "kube-downscaler": (partial(import_downscaler, go=False), _DOWNSCALER),
    "go-kube-downscaler": (partial(import_downscaler, go=True), _DOWNSCALER),
    "kube-green": (import_kube_green, (SLEEP_INFO,)),
    "karmada": (import_karmada, _KARMADA),
    "kubefed": (import_kubefed, _KUBEFED),
}
"""What reads the manifests of each tool, and which kinds of a cluster it reads, by group and kind."""


@verb("import")
@click.argument("peer", metavar="TOOL", type=click.Choice(list(PEERS)))
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@option(
    "--fleet/--no-fleet",
    default=True,
    help="Print a Fleet too; without it the policies are for one that is there.",
    default_words="--fleet",
)
@option("--out", metavar="FILE", help="Write the policies to this new file, and print what became of them.")
@option("--cluster-name", metavar="NAME", help="The name of the one cluster that the manifests are of.")
@context_option
@server_options
@quiet_option
def import_command(peer: str, paths: tuple[str, ...], fleet: bool, cluster_name: str | None, **flags: Any) -> int:
    """Print the policies that do what TOOL is told to do by the manifests in PATH, or on a cluster.

    TOOL is kube-downscaler, go-kube-downscaler, kube-green, karmada or kubefed. PATH is a file, a folder, or - for
    standard input. What has no counterpart is said on stderr, and as comments. No cluster is written to.
    """
    if paths and click.get_current_context().get_parameter_source("context") is ParameterSource.ENVIRONMENT:
        flags["context"] = None
    imported = _imported(peer, paths, flags)
    document = fleet_document(_clusters(imported, cluster_name, flags["context"])) if fleet else None
    text = policy_text(imported, document)
    if flags["out"] is None:
        show(text)
    else:
        _write(flags["out"], text)
    if not flags["quiet"]:
        for loss in imported.losses:
            say(f"not carried over: {loss}")
        for line in _next(peer, imported, flags["out"]):
            say(line)
    return ExitCode.DONE


def _imported(peer: str, paths: tuple[str, ...], flags: Mapping[str, Any]) -> Imported:
    """Return the policies made of the manifests in `paths`, or of a context.

    Raises:
        UsageError: there are none.
    """
    context = flags["context"]
    if bool(paths) == bool(context):
        raise UsageError("import: expected either PATH, the manifests of the tool, or --context NAME")
    read, kinds = PEERS[peer]
    manifests = _of_context(flags, kinds) if context else read_manifests(paths)
    imported = read(manifests)
    if not imported.policies:
        for loss in imported.losses:
            say(f"warning: {loss}")
        where = context or ", ".join(paths)
        raise UsageError(f"import: no policy can be made of {peer} in {where}: {len(manifests)} objects were read")
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
    named = name or fleet_source.cluster_name(context or "my-cluster")
    return [{"name": named, **({"connection": {"context": context}} if context not in (None, named) else {})}]


def _of_context(flags: Mapping[str, Any], kinds: Iterable[tuple[str, str]]) -> list[Manifest]:
    """Return the objects of `kinds` on the cluster of a context.

    Raises:
        ClusterError: some cannot be read.
    """
    context = flags["context"]
    options = RunOptions.of("", {**flags, "context": None})
    fleet = options.bounded(fleet_source.fleet_of_contexts([context], None))
    live = LiveSettings(options.now, fleet.namespace, options.settings)
    opened = open_live((cluster.connection for cluster in fleet.clusters), live)
    served = next(iter(opened.backends.values())).served
    assert served is not None
    return [
        Manifest(one, f"{context}/{one['metadata'].get('namespace', '')}".rstrip("/"))
        for group, kind in kinds
        for one in served.manifests(group, kind)
    ]


_ADOPTED = ("kube-downscaler", "go-kube-downscaler", "kube-green")


def _next(peer: str, imported: Imported, file: str | None) -> Iterable[str]:
    """Yield what was made, and what comes next."""
    made, lost = counted(len(imported.policies), "policy", "policies"), len(imported.losses)
    yield f"{file or 'standard output'}: {made}, {lost} not carried over"
    steps = ["`reconciler validate`", f"stop {peer}"]
    if peer in _ADOPTED:
        steps.append(f"`reconciler adopt {peer}` takes over what it has asleep")
    yield f"next: {', '.join(steps)}, `reconciler plan` has nothing to do"
