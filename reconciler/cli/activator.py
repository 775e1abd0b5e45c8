"""`reconciler activator`: runs in a cluster until it is stopped, and wakes what traffic comes for."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import re
import resource
import signal
from datetime import UTC, datetime
from typing import Any

import click
from msgspec.structs import replace

from reconciler.activator.activator import Activator
from reconciler.activator.limits import ActivatorLimits
from reconciler.activator.metrics import serve
from reconciler.activator.publication import ActivatorPod, Publication
from reconciler.activator.wake import CLUSTER, Waker, WakeView
from reconciler.backends.kubernetes.auth import Connection
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.cli.options import context_option, option, seconds, server_options, verb
from reconciler.cli.output import say
from reconciler.cli.run import RunOptions
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import ExitCode, UsageError

_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)
_MOST = 1_000_000
_DESCRIPTORS_BESIDE = 512


@verb("activator")
@option("--pod-namespace", metavar="NAME", default="reconciler", help="The namespace of this Pod, and of its Lease.")
@option("--pod-name", metavar="NAME", required=True, help="The name of this Pod.")
@option("--pod-uid", metavar="UID", required=True, help="The uid of this Pod.")
@option("--pod-ips", metavar="IPS", required=True, help="The addresses of this Pod, separated by commas.")
@option("--port-range", metavar="FIRST-LAST", default="20000-29999", help="The ports to listen on for idle Services.")
@option("--held", type=click.IntRange(1, _MOST), default=10_000, help="Most connections that wait for a pod.")
@option("--held-per-service", type=click.IntRange(1, _MOST), default=100, help="Most of them of one Service.")
@option("--spliced", type=click.IntRange(1, _MOST), default=10_000, help="Most connections that are joined with pods.")
@option("--hold-timeout", type=seconds, default=60.0, help="After so long a waiting connection is reset.")
@option(
    "--splice",
    type=click.Choice(["Auto", "Never"]),
    default="Auto",
    help="Auto hands connections to pods, except where a NetworkPolicy may select them.",
)
@option("--proxy-protocol", is_flag=True, help="Tell pods who the client is, with the PROXY protocol, version 2.")
@option("--read-only", is_flag=True, help="Wake nothing: only write that pods are needed.")
@option("--grace", type=seconds, default=30.0, help="How long connections have after SIGTERM.")
@option("--http-port", type=click.IntRange(1, 65_535), default=8080, help="The port of metrics and health.")
@context_option
@server_options
def activator_command(context: str | None, **flags: Any) -> int:
    """Hold the connections to idle Services, wake what is behind them, and hand the connections to the first ready pod.

    Runs in the cluster until SIGTERM, with the rights of its Pod; with --context as the kubeconfig says. It reads no
    policies: what is idle, and how it is woken, is written on the Services and workloads.
    """
    gc.enable()  # it is off for verbs that end soon; what an outage raises in an hour is made of cycles
    options = RunOptions.of("", {**flags, "context": context, "qps": 0.0})
    reached = ClusterConnection(CLUSTER, in_cluster=context is None, context=context, sources=options.sources)
    connection = Connection(reached)
    client, wakes = (ApiClient(connection, options.settings) for _ in range(2))  # wakes wait for nothing else
    pod = ActivatorPod(flags["pod_namespace"], flags["pod_name"], flags["pod_uid"], _addresses(flags["pod_ips"]))
    ports = _ports(flags["port_range"], flags["http_port"])
    limits = ActivatorLimits(
        held=flags["held"],
        held_per_service=flags["held_per_service"],
        spliced=flags["spliced"],
        listeners=len(ports),
        hold_timeout=flags["hold_timeout"],
        ports=ports,
    )
    activator = Activator(
        client=client,
        waker=Waker(WakeView(wakes), pod.namespace, _now, read_only=flags["read_only"]),
        publication=Publication(client, pod),
        limit=options.limit,
        pod=pod,
        limits=within_descriptors(limits, len(pod.addresses)),
        tell=say,
        proxy_protocol=flags["proxy_protocol"],
        never_splices=flags["splice"] == "Never",
        grace=flags["grace"],
    )
    asyncio.run(_run(activator, flags["http_port"]))
    return ExitCode.DONE


async def _run(activator: Activator, http_port: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    answers = {"/healthz": activator.health, "/readyz": activator.readiness, "/metrics": activator.metrics_text}
    for address in activator.pod.addresses:
        try:
            await serve(answers, address, http_port)
        except OSError as error:
            raise UsageError(f"--http-port: {address}:{http_port}: {error.strerror}, expected a free port") from error
    loop.set_exception_handler(activator.unexpected)
    say(f"activator of Pod {activator.pod.name}, {', '.join(activator.pod.addresses)}")
    await activator.run(ended)
    say("activator ended")


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


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


def within_descriptors(limits: ActivatorLimits, addresses: int) -> ActivatorLimits:
    """Let this process have all descriptors it may, and return `limits` so that some of them are always left.

    A connection takes one while it waits, a second one while it is joined with a pod; a port takes one for each of the
    `addresses`, and one more for a moment when its pods are ready. Those that are left are for the API server, that is
    the wakes, the Lease and the watches, and for health.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * (limits.held + limits.spliced) + limits.listeners * (addresses + 1)
    most = needed + _DESCRIPTORS_BESIDE if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    left = max(most - _DESCRIPTORS_BESIDE, most // 2)
    if left >= needed:
        return limits
    # An idle Service without a port is never woken, and a connection beyond the limit is only closed: ports come first.
    listeners = max(1, min(limits.listeners, left * 3 // 4 // (addresses + 1)))
    rest = left - listeners * (addresses + 1)
    held, spliced = (
        max(1, min(one, one * rest // (2 * (limits.held + limits.spliced)))) for one in (limits.held, limits.spliced)
    )
    say(
        f"warning: this process may have {most} open files, expected {needed + _DESCRIPTORS_BESIDE}: at most {held} "
        f"connections wait, {spliced} are joined with pods, and {listeners} ports are listened on"
    )
    return replace(limits, held=held, spliced=spliced, listeners=listeners)
