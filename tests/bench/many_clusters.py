"""What a Fleet of 200 clusters needs, in one process and in 8 shards, with two that are killed in the middle.

`python -m tests.bench.many_clusters [WORKLOADS] [--full]`: the workloads of each of 200 simulated API servers; --full
also plans with 5,000 each, which is 50,000 pods each. A run takes its processor time and its largest memory
from the system, so that others on the machine do not count.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.many_servers import DEV_SHARE
from tests.pipeline.manifests import UNLIMITED, fleet, idling

CLUSTERS, SHARDS = 200, 8
NIGHT = "2026-11-20T23:00:00Z"
IDLING = idling("namespaces: {include: [dev]}, workloads: {kinds: [Deployment]}")


@dataclass(frozen=True)
class Used:
    """What one process used: seconds of processor, MiB, and what it exited with."""

    seconds: float
    mebibytes: float
    code: int

    def __str__(self) -> str:
        return f"{self.seconds:8.1f} s  {self.mebibytes:7.0f} MiB  exit {self.code}"


def write_policies(folder: Path, port: int) -> None:
    names = [f"c{number:03}" for number in range(CLUSTERS)]
    clusters = (f"{{name: {name}, identity: {name}, connection: {{kubeconfig: policies/config}}}}" for name in names)
    (folder / "policies").mkdir()
    (folder / "policies" / "fleet.yaml").write_text(fleet(clusters, UNLIMITED, name="many", home=names[0]))
    (folder / "policies" / "nights.yaml").write_text(IDLING)
    entries = [{"name": name, "cluster": {"server": f"http://127.0.0.1:{port}/{name}"}} for name in names]
    contexts = [{"name": name, "context": {"cluster": name, "user": "u"}} for name in names]
    config = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "u", "user": {"token": "t"}}]}
    text = json.dumps({**config, "clusters": entries, "contexts": contexts})
    (folder / "policies" / "config").write_text(text)


@contextmanager
def servers(workloads: int) -> Iterator[int]:
    command = [sys.executable, "-m", "tests.bench.many_servers", "0", str(workloads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def counts(port: int) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/c000/counts") as answer:
        found: dict[str, int] = json.load(answer)
    return found


def used(folder: Path, verb: str, *more: str, killed_after: int = 0, port: int = 0) -> Used:
    """Run `verb` there; with `killed_after` it is killed once so many writes were taken since."""
    approve = ("--auto-approve", "--lock-timeout", "60") if verb == "apply" else ()
    words = [verb, "policies", "--now", NIGHT, "--qps", "0", "--summary", "--credentials-dir", "policies"]
    command = [sys.executable, "-m", "reconciler", *words, *approve, *more]
    path = os.pathsep.join((str(Path.cwd()), os.environ.get("PYTHONPATH", "")))
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    begun = counts(port)["writes"] if killed_after else 0
    while killed_after and process.poll() is None:
        if counts(port)["writes"] - begun > killed_after:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.01)
    _, status, usage = os.wait4(process.pid, 0) if process.returncode is None else (0, 0, None)
    if usage is None:
        return Used(0, 0, process.returncode)
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status))


def shown(title: str, found: Any, before: dict[str, int], after: dict[str, int]) -> None:
    requests, mebibytes = after["requests"] - before["requests"], (after["bytes"] - before["bytes"]) / 2**20
    writes = after["writes"] - before["writes"]
    print(f"{title:24} {found}  {requests:6} requests {mebibytes:7.0f} MiB {writes:6} writes", flush=True)


def measured(folder: Path, port: int, title: str, *arguments: str, killed_after: int = 0) -> Used:
    before = counts(port)
    found = used(folder, *arguments, killed_after=killed_after, port=port)
    shown(title, found, before, counts(port))
    return found


def shard(index: int) -> tuple[str, str]:
    return ("--shard", f"{index}/{SHARDS}")


def small(folder: Path, workloads: int) -> None:
    print(f"{CLUSTERS} clusters, {workloads} workloads and {workloads * 10} pods each", flush=True)
    to_idle = CLUSTERS * -(-workloads // DEV_SHARE)
    with servers(workloads) as port:
        write_policies(folder, port)
        one = measured(folder, port, "plan, one process", "plan")
        parts = [measured(folder, port, f"plan, shard {n}", "plan", *shard(n)) for n in range(SHARDS)]
        total = sum(part.seconds for part in parts)
        print(f"{'sum of the shards':24} {total:8.1f} s, {total / one.seconds:.2f} of one process", flush=True)
        for index in range(SHARDS):
            killed = 60 if index in (2, 5) else 0
            measured(folder, port, f"apply, shard {index}", "apply", *shard(index), killed_after=killed)
        print(f"idle: {counts(port)['idled']} of {to_idle}, two shards were killed", flush=True)
        for index in range(SHARDS):
            measured(folder, port, f"next run, shard {index}", "apply", *shard(index))
        print(f"idle: {counts(port)['idled']} of {to_idle}", flush=True)
        assert counts(port)["idled"] == to_idle


def full(folder: Path) -> None:
    print(f"{CLUSTERS} clusters, 5,000 workloads and 50,000 pods each", flush=True)
    with servers(5_000) as port:
        write_policies(folder, port)
        parts = [measured(folder, port, f"plan, shard {n}", "plan", *shard(n)) for n in range(SHARDS)]
        one = measured(folder, port, "plan, one process", "plan")
        total = sum(part.seconds for part in parts)
        print(f"{'sum of the shards':24} {total:8.1f} s, {total / one.seconds:.2f} of one process", flush=True)


def main(arguments: list[str]) -> None:
    numbers = [int(one) for one in arguments if one.isdecimal()]
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        if numbers or "--full" not in arguments:
            small(Path(first), numbers[0] if numbers else 250)
        if "--full" in arguments:
            full(Path(second))


if __name__ == "__main__":
    main(sys.argv[1:])
