"""`reconciler picker`: runs in a cluster until it is stopped, and chooses the pods of decreases that others ask for."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.cli.option_values import seconds
from reconciler.cli.options import option, verb
from reconciler.cli.output import say
from reconciler.cli.run_options import SERVER, RunOptions
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import UsageError
from reconciler.http.server import serve
from reconciler.messages import nearest
from reconciler.picker_webhook.picker import Picker, ReviewedCluster
from reconciler.picker_webhook.webhook import CertificateFiles, Webhook
from reconciler.policy.types import Fleet

_TLS = "/var/run/secrets/picker/tls"
_PORT = click.IntRange(1, 65_535)


class _PickerOptions(RunOptions):
    own_cluster: str | None = option(
        "This cluster of the Fleet.",
        "--cluster",
        metavar="NAME",
        group="Clusters",
        default_words="the one that is connected with inCluster",
    )
    own_context: str | None = option(
        "A context of the kubeconfig, in place of the Pod's own ServiceAccount.", "--context", metavar="NAME"
    )
    address: str | None = option("The address to listen on.", metavar="ADDRESS", default_words="all")
    port: int = option("The port of the admission webhook.", type=_PORT, default=8443)
    tls_cert: str = option(
        "Its certificate, read again when it changes.", type=click.Path(), metavar="FILE", default=f"{_TLS}.crt"
    )
    tls_key: str = option("The key of the certificate.", type=click.Path(), metavar="FILE", default=f"{_TLS}.key")
    deadline: float = option("After so long a decrease goes through without a choice.", type=seconds, default=1.5)
    at_once: int = option("Most reviews at a time; others pass at once.", type=click.IntRange(1, 1_000), default=16)
    users: tuple[str, ...] = option(
        "A user as whom runs write, besides our ServiceAccounts; may be repeated.",
        "--user",
        multiple=True,
        metavar="NAME",
    )
    grace: float = option("How long reviews have after SIGTERM.", type=seconds, default=20.0)
    http_port: int = option("The port of metrics and health.", type=_PORT, default=8080)


@verb("picker", _PickerOptions, "path", *SERVER)
def picker_command(options: _PickerOptions) -> None:
    """Choose the pods that go when an autoscaler or a person scales down what a DownscalePolicy selects.

    An admission webhook: it gives the chosen pods deletion costs before the decrease is stored, and admits every one.
    Runs in the cluster until SIGTERM, with the rights of its Pod; with --context as the kubeconfig says.

    # Run in a Pod, as deploy/components/picker does
    picker /policies --cluster eu-west
    # Run elsewhere, where certificate and key are
    picker --cluster eu-west --context eu-west --tls-cert tls.crt --tls-key tls.key --port 9443
    """
    gc.enable()  # it is off for verbs that end soon
    policies = options.policies(partly=True)
    name, context = _cluster_of(policies.fleet, options.own_cluster), options.own_context
    reached = ClusterConnection(name, in_cluster=context is None, context=context, sources=options.sources)
    connection = ApiServerConnection(reached)
    settings = replace(options.settings, qps=0.0)
    picker = Picker(
        policies,
        name,
        lambda limit: ReviewedCluster(name, connection, replace(settings, limit=limit)),
        options.users,
    )
    webhook = Webhook(
        picker=picker,
        files=CertificateFiles(options.tls_cert, options.tls_key),
        limit=options.limit,
        renew=_renewal(picker, options),
        tell=say,
        address=options.address,
        port=options.port,
        deadline=options.deadline,
        at_once=options.at_once,
        grace=options.grace,
    )
    asyncio.run(_run(webhook, options.http_port))


async def _run(webhook: Webhook, http_port: int) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    answers = {"/healthz": webhook.health, "/readyz": webhook.readiness, "/metrics": webhook.metrics_text}
    await serve(answers, webhook.address, http_port, "--address")
    await webhook.run(ended)
    say("picker ended")


def _cluster_of(fleet: Fleet, name: str | None) -> str:
    """Return the cluster that this runs in.

    Raises:
        UsageError: the Fleet has none of that name, or does not say which one it is.
    """
    names = [cluster.name for cluster in fleet.clusters]
    if name is not None:
        if name not in names:
            raise UsageError(f"--cluster: {name} is no cluster of the Fleet{nearest(name, names)}")
        return name
    inside = [cluster.name for cluster in fleet.clusters if cluster.connection.in_cluster] or names
    if len(inside) != 1:
        raise UsageError(f"--cluster: expected the one that this runs in, of {', '.join(names)}")
    return inside[0]


def _renewal(picker: Picker, options: _PickerOptions) -> Callable[[], None]:
    """Return what reads the policies again where their files changed."""

    def stamp() -> frozenset[tuple[str, int, int]]:
        top = Path(options.path)
        files = [path for path in (top, *top.rglob("*")) if path.is_file()]
        return frozenset((str(path), path.stat().st_mtime_ns, path.stat().st_ino) for path in files)

    seen = stamp()

    def renew() -> None:
        nonlocal seen
        now = stamp()
        if now != seen:
            picker.policies = options.policies(partly=True)
            seen = now
            say("the policies were read again")

    return renew
