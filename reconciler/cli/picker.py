"""`reconciler picker`: runs in a cluster until it is stopped, and chooses the pods of decreases that others ask for."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from reconciler.backends.http.server import serve
from reconciler.backends.kubernetes.auth import Connection
from reconciler.cli.options import option, path_argument, seconds, server_options, verb
from reconciler.cli.output import say
from reconciler.cli.run import RunOptions
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import ExitCode, UsageError
from reconciler.messages import nearest
from reconciler.picker.picker import Picker, ReviewedCluster
from reconciler.picker.webhook import CertificateFiles, Webhook
from reconciler.policy.types import Fleet

_TLS = "/var/run/secrets/picker/tls"


@verb("picker")
@path_argument()
@option(
    "--cluster",
    metavar="NAME",
    group="Clusters",
    default_words="the one that is connected with inCluster",
    help="This cluster of the Fleet.",
)
@option("--address", metavar="ADDRESS", default_words="all", help="The address to listen on.")
@option("--port", type=click.IntRange(1, 65_535), default=8443, help="The port of the admission webhook.")
@option(
    "--tls-cert",
    type=click.Path(),
    metavar="FILE",
    default=f"{_TLS}.crt",
    help="Its certificate, read again when it changes.",
)
@option("--tls-key", type=click.Path(), metavar="FILE", default=f"{_TLS}.key", help="The key of the certificate.")
@option("--deadline", type=seconds, default=1.5, help="After so long a decrease goes through without a choice.")
@option("--at-once", type=click.IntRange(1, 1_000), default=16, help="Most reviews at a time; others pass at once.")
@option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME",
    help="A user as whom runs write, besides our ServiceAccounts; may be repeated.",
)
@option("--grace", type=seconds, default=20.0, help="How long reviews have after SIGTERM.")
@option("--http-port", type=click.IntRange(1, 65_535), default=8080, help="The port of metrics and health.")
@option("--context", metavar="NAME", help="A context of the kubeconfig, in place of the Pod's own ServiceAccount.")
@server_options
def picker_command(path: str, context: str | None, **flags: Any) -> int:
    """Choose the pods that go when an autoscaler or a hand scales down what a DownscalePolicy selects.

    An admission webhook: it gives the chosen pods deletion costs before the decrease is stored, and admits every one.
    Runs in the cluster until SIGTERM, with the rights of its Pod; with --context as the kubeconfig says.
    """
    gc.enable()  # it is off for verbs that end soon
    options = RunOptions.of(path, {**{name: one for name, one in flags.items() if name != "cluster"}, "qps": 0.0})
    policies = options.policies(partly=True)
    name = _cluster_of(policies.fleet, flags["cluster"])
    reached = ClusterConnection(name, in_cluster=context is None, context=context, sources=options.sources)
    connection = Connection(reached)
    picker = Picker(
        policies,
        name,
        lambda limit: ReviewedCluster(name, connection, replace(options.settings, limit=limit)),
        flags["users"],
    )
    webhook = Webhook(
        picker=picker,
        files=CertificateFiles(flags["tls_cert"], flags["tls_key"]),
        limit=options.limit,
        renew=_renewal(picker, options),
        tell=say,
        address=flags["address"],
        port=flags["port"],
        deadline=flags["deadline"],
        at_once=flags["at_once"],
        grace=flags["grace"],
    )
    asyncio.run(_run(webhook, flags["http_port"]))
    return ExitCode.DONE


async def _run(webhook: Webhook, http_port: int) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    answers = {"/healthz": webhook.health, "/readyz": webhook.readiness, "/metrics": webhook.metrics_text}
    try:
        await serve(answers, webhook.address, http_port)
    except OSError as error:
        raise UsageError(f"--http-port: {http_port}: {error.strerror}, expected a free port") from error
    await webhook.run(ended)
    say("picker ended")


def _cluster_of(fleet: Fleet, name: str | None) -> str:
    """Return the cluster that this runs in.

    Raises:
        UsageError: the Fleet has none of that name, or does not say which one it is.
    """
    names = [one.name for one in fleet.clusters]
    if name is not None:
        if name not in names:
            raise UsageError(f"--cluster: {name} is no cluster of the Fleet{nearest(name, names)}")
        return name
    inside = [one.name for one in fleet.clusters if one.connection.in_cluster] or names
    if len(inside) != 1:
        raise UsageError(f"--cluster: expected the one that this runs in, of {', '.join(names)}")
    return inside[0]


def _renewal(picker: Picker, options: RunOptions) -> Callable[[], None]:
    """Return what reads the policies again where their files changed."""

    def stamp() -> frozenset[tuple[str, int, int]]:
        top = Path(options.path)
        files = [one for one in (top, *top.rglob("*")) if one.is_file()]
        return frozenset((str(one), one.stat().st_mtime_ns, one.stat().st_ino) for one in files)

    seen = stamp()

    def renew() -> None:
        nonlocal seen
        now = stamp()
        if now != seen:
            picker.policies = options.policies(partly=True)
            seen = now
            say("the policies were read again")

    return renew
