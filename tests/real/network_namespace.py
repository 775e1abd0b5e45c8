"""A network namespace of its own on this machine: a test enters it, and so does every process that it starts meanwhile.

Loopback is up, and a veth pair carries the addresses of nodes and pods, so that the cluster's own proxy (nftables) can
lead a Service's address to a process. Nothing of it is seen outside; it is gone when the last process in it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from tests.real import processes

NODE = "198.18.0.1"
NODE_V6 = "fd00:198:18::1"
DEVICE = "node0"

_CLONE_NEWNET = 0x40000000


class NamespaceMissingError(Exception):
    """This machine, or whoever runs the tests, has no network namespaces with nftables."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _enter(descriptor: int) -> None:
    if _libc().setns(descriptor, _CLONE_NEWNET) != 0:
        raise NamespaceMissingError(f"setns: {os.strerror(ctypes.get_errno())}")


def _leave_for_new() -> None:
    if _libc().unshare(_CLONE_NEWNET) != 0:
        raise NamespaceMissingError(f"unshare: {os.strerror(ctypes.get_errno())}")


def run(*arguments: str) -> str:
    """What a command prints.

    Raises:
        NamespaceMissingError: it failed; with its words.
    """
    found = shutil.which(arguments[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise NamespaceMissingError(f"there is no command {arguments[0]}")
    done = subprocess.run([found, *arguments[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NamespaceMissingError(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def network_namespace(*, with_nftables: bool = True) -> Iterator[None]:
    """Let this thread, what it starts, and what the threads start that it makes, be in a new network namespace.

    Without nftables no Service leads anywhere there.

    Raises:
        NamespaceMissingError: that is not possible here, with the reason.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise NamespaceMissingError("network namespaces need root")
    for command in ("ip", "nft") if with_nftables else ("ip",):
        if shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            raise NamespaceMissingError(f"there is no command {command}")
    try:
        before = open("/proc/thread-self/ns/net", "rb")  # noqa: SIM115 - closed by the next statement
    except OSError as error:
        raise NamespaceMissingError(f"the network namespace of a thread is unknown: {error}") from error
    with before:
        _leave_for_new()
        try:
            with open("/proc/thread-self/ns/net", "rb") as inside:
                _set_up(with_nftables=with_nftables)
                # Processes are started by a thread of their own, which is in the old namespace.
                processes.in_starter(lambda: _enter(inside.fileno()))
                try:
                    yield
                finally:
                    processes.in_starter(lambda: _enter(before.fileno()))
        finally:
            _enter(before.fileno())


def _set_up(*, with_nftables: bool) -> None:
    lines = (
        "ip link set lo up",
        f"ip link add {DEVICE} type veth peer name {DEVICE}-peer",
        f"ip link set {DEVICE} up",
        f"ip link set {DEVICE}-peer up",
        f"ip addr add {NODE}/32 dev {DEVICE}",
        f"ip -6 addr add {NODE_V6}/128 dev {DEVICE} nodad",
        f"ip route add default dev {DEVICE}",
        f"ip -6 route add default dev {DEVICE}",
        "nft add table inet probe",
        "nft add chain inet probe nat { type nat hook output priority -100 ; }",
        "nft delete table inet probe",
    )
    for line in lines:
        if with_nftables or not line.startswith("nft "):
            run(*_words(line))


def _words(line: str) -> Sequence[str]:
    """The words of a command; what stands in braces is one."""
    head, brace, rest = line.partition("{")
    return [*head.split(), *([brace + rest] if brace else [])]


def add_address(address: str) -> None:
    """Give the node one more address: that of a pod."""
    run("ip", "addr", "add", *_on_device(address), *(["nodad"] if ":" in address else []))


def remove_address(address: str) -> None:
    """Take an address of a pod away: connections to it get no answer any more."""
    run("ip", "addr", "del", *_on_device(address))


def _on_device(address: str) -> tuple[str, str, str]:
    return (f"{address}/{128 if ':' in address else 32}", "dev", DEVICE)
