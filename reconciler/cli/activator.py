"""`reconciler activator`: runs in a cluster until it is stopped, and wakes what traffic comes for."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import re
import resource
import signal

import click
from msgspec.structs import replace

from reconciler.activator.activation_context import ActivatorPod
from reconciler.activator.activator import Activator
from reconciler.activator.connection_limits import ActivatorSettings
from reconciler.activator.publication import Publication
from reconciler.activator.wake import CLUSTER, Waker, WakeView
from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.cli.option_values import seconds, this_second
from reconciler.cli.options import option, verb
from reconciler.cli.output import say
from reconciler.cli.run_options import SERVER, RunOptions
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import UsageError
from reconciler.http.server import serve

_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)
_MOST = 1_000_000
_DESCRIPTORS_BESIDE = 512


class _ActivatorOptions(RunOptions):
    pod_namespace: str = option("The namespace of this Pod, and of its Lease.", metavar="NAME", default="reconciler")
    pod_name: str = option("The name of this Pod.", metavar="NAME", required=True)
    pod_uid: str = option("The uid of this Pod.", metavar="UID", required=True)
    pod_ips: str = option("The addresses of this Pod, separated by commas.", metavar="IPS", required=True)
    port_range: str = option("The ports to listen on for idle Services.", metavar="FIRST-LAST", default="20000-29999")
    held: int = option("Most connections that wait for a pod.", type=click.IntRange(1, _MOST), default=10_000)
    held_per_service: int = option("Most of them of one Service.", type=click.IntRange(1, _MOST), default=100)
    spliced: int = option("Most connections that are proxied to pods.", type=click.IntRange(1, _MOST), default=10_000)
    hold_timeout: float = option("After so long a waiting connection is reset.", type=seconds, default=60.0)
    splice: str = option(
        "Auto hands connections to pods, except where a NetworkPolicy may select them.",
        type=click.Choice(["Auto", "Never"]),
        default="Auto",
    )
    proxy_protocol: bool = option("Tell pods who the client is, with the PROXY protocol, version 2.", default=False)
    read_only: bool = option("Wake nothing: only write that pods are needed.", default=False)
    grace: float = option("How long connections have after SIGTERM.", type=seconds, default=30.0)
    http_port: int = option("The port of metrics and health.", type=click.IntRange(1, 65_535), default=8080)


@verb("activator", _ActivatorOptions, "context", *SERVER)
def activator_command(options: _ActivatorOptions) -> None:
    """Hold the connections to idle Services, wake what is behind them, and hand the connections to the first ready pod.

    Runs in the cluster until SIGTERM, with the rights of its Pod; with --context as the kubeconfig says. It reads no
    policies: what is idle, and how it is woken, is written on the Services and workloads.

    # Run in a Pod, as deploy/components/activator does
    activator --pod-name NAME --pod-uid UID --pod-ips 10.1.2.3
    # Only report which Services need pods
    activator --pod-name NAME --pod-uid UID --pod-ips 10.1.2.3 --read-only
    """
    gc.enable()  # it is off for verbs that end soon; what an outage raises in an hour is made of cycles
    context = options.context
    reached = ClusterConnection(CLUSTER, in_cluster=context is None, context=context, sources=options.sources)
    connection = ApiServerConnection(reached)
    settings = replace(options.settings, qps=0.0)
    client, wakes = (ApiClient(connection, settings) for _ in range(2))  # wakes wait for nothing else
    pod = ActivatorPod(options.pod_namespace, options.pod_name, options.pod_uid, _addresses(options.pod_ips))
    ports = _ports(options.port_range, options.http_port)
    wanted = ActivatorSettings(
        held=options.held,
        held_per_service=options.held_per_service,
        spliced=options.spliced,
        listeners=len(ports),
        hold_timeout=options.hold_timeout,
        ports=ports,
        grace=options.grace,
        proxy_protocol=options.proxy_protocol,
        never_splices=options.splice == "Never",
    )
    activator = Activator(
        client,
        Waker(WakeView(wakes), pod.namespace, this_second, read_only=options.read_only),
        Publication(client, pod),
        within_descriptors(wanted, len(pod.addresses)),
        say,
    )
    asyncio.run(_run(activator, options.http_port))


async def _run(activator: Activator, http_port: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    answers = {"/healthz": activator.health, "/readyz": activator.readiness, "/metrics": activator.metrics_text}
    for address in activator.pod.addresses:
        await serve(answers, address, http_port, "--pod-ips")
    loop.set_exception_handler(activator.unexpected)
    say(f"activator of Pod {activator.pod.name}, {', '.join(activator.pod.addresses)}")
    await activator.run(ended)
    say("activator ended")


def _addresses(text: str) -> tuple[str, ...]:
    """Return the addresses given to --pod-ips.

    Raises:
        UsageError: one is none.
    """
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        versions = [ipaddress.ip_address(one).version for one in found]
    except ValueError as error:
        raise UsageError(f"--pod-ips: {error}, expected addresses separated by commas") from error
    if not found or len(set(versions)) < len(versions):
        raise UsageError(f'--pod-ips: "{text}", expected one address of IPv4, of IPv6, or one of each')
    return found


def _ports(text: str, http_port: int) -> range:
    """Return the ports given to --port-range.

    Raises:
        UsageError: it is no range, or holds the port of metrics and health.
    """
    found = _PORTS.fullmatch(text)
    first, last = map(int, found.groups()) if found else (0, 0)
    if not 1024 <= first <= last <= 65_535:
        raise UsageError(f'--port-range: "{text}" is no range, expected FIRST-LAST from 1024 to 65535')
    if first <= http_port <= last:
        raise UsageError(f"--port-range: {text} holds {http_port}, expected another --http-port or range")
    return range(first, last + 1)


def within_descriptors(wanted: ActivatorSettings, addresses: int) -> ActivatorSettings:
    """Let this process have all descriptors it may, and return `wanted` so that some of them are always left.

    A connection takes one while it waits, a second one while it is proxied to a pod; a port takes one for each of the
    `addresses`, and one more for a moment when its pods are ready. Those that are left are for the API server, that is
    the wakes, the Lease and the watches, and for health.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * (wanted.held + wanted.spliced) + wanted.listeners * (addresses + 1)
    most = needed + _DESCRIPTORS_BESIDE if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    left = max(most - _DESCRIPTORS_BESIDE, most // 2)
    if left >= needed:
        return wanted
    # An idle Service without a port is never woken, and a connection beyond the limit is only closed: ports come first.
    listeners = max(1, min(wanted.listeners, left * 3 // 4 // (addresses + 1)))
    rest = left - listeners * (addresses + 1)
    held, spliced = (
        max(1, min(most, most * rest // (2 * (wanted.held + wanted.spliced)))) for most in (wanted.held, wanted.spliced)
    )
    say(
        f"warning: this process may have {most} open files, expected {needed + _DESCRIPTORS_BESIDE}: at most {held} "
        f"connections wait, {spliced} are proxied to pods, and {listeners} ports are listened on"
    )
    return replace(wanted, held=held, spliced=spliced, listeners=listeners)
