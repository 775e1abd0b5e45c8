"""Real API servers: a plan over many objects beside `curl` of the same requests, replica patches, three clusters."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.bench.measure import Work, measured
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import UNLIMITED, documents, fleet, idling
from tests.real import faults
from tests.real.fixtures import missing_part_skips
from tests.real.kubeconfig import Access, write_kubeconfig

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane
    from tests.real.proxy import Proxy, Request

pytestmark = [pytest.mark.bench, pytest.mark.real]

SIZES = (200, 2_000)
PODS_OF_EACH = 5
DAY, NIGHT = "2030-11-20T12:00:00Z", "2030-11-20T23:00:00Z"
START = "import reconciler.cli.plan, kubernetes.config, kubernetes.client.rest"

NIGHTLY = idling("namespaces: {include: [load]}, workloads: {kinds: [Deployment]}")


class LiveFleet:
    """Policies that idle every Deployment of these clusters at night, and runs as processes of their own."""

    def __init__(self, folder: Path, planes: dict[str, ControlPlane]) -> None:
        self.folder, self.planes = folder, planes
        policies = documents(fleet(planes, UNLIMITED, name="load"), NIGHTLY)
        Folder(folder).write("policies/all.yaml", policies)
        self.connect({name: plane.access() for name, plane in planes.items()})

    def connect(self, accesses: dict[str, Access]) -> None:
        """Say how the clusters are reached: each by the context of its name."""
        write_kubeconfig(self.folder / "kubeconfig.yaml", accesses)

    def process(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Call the command line, as a person or a CronJob does."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("RECONCILER_")}
        variables = {**kept, "KUBECONFIG": str(self.folder / "kubeconfig.yaml")}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
        return subprocess.Popen(arguments, cwd=self.folder, env=variables, **streams)

    def plan(self, now: str) -> str:
        """The last line of a plan."""
        out, _ = self.process(*RECONCILER, "plan", "policies", "--now", now).communicate(timeout=300)
        return out.splitlines()[-1]


RECONCILER = (sys.executable, "-m", "reconciler")
NO_CHANGES = "No changes. The clusters match the policies."


def filled(plane: ControlPlane, deployments: int, replicas: int) -> None:
    from tests.real.cluster import create
    from tests.real.objects import a_namespace, a_node, many_deployments

    create(plane.api, [a_namespace("load"), a_namespace("reconciler"), a_node("node")])
    create(plane.api, many_deployments(deployments, replicas), "load")


@pytest.fixture(scope="module", params=SIZES)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveFleet, int]]:
    """A cluster with that many Deployments, and five times as many pods that run."""
    from tests.real.cluster import wait_for_pods
    from tests.real.control_plane import ControlPlane

    with missing_part_skips(), ControlPlane(tmp_path_factory.mktemp("loaded")) as plane:
        filled(plane, request.param, PODS_OF_EACH)
        wait_for_pods(plane.api, "load", request.param * PODS_OF_EACH, 900)
        yield LiveFleet(tmp_path_factory.mktemp("fleet"), {"east": plane}), request.param


@pytest.fixture(scope="module", params=SIZES)
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveFleet, int]]:
    """An API server with that many Deployments, and nothing that acts on them."""
    from tests.real.control_plane import API_ONLY, ControlPlane

    with missing_part_skips(), ControlPlane(tmp_path_factory.mktemp("bare"), API_ONLY) as plane:
        filled(plane, request.param, 3)
        yield LiveFleet(tmp_path_factory.mktemp("fleet"), {"east": plane}), request.param


@pytest.fixture(scope="module", params=[SIZES[0]])
def three(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, LiveFleet]]:
    """A Fleet of three API servers with as many Deployments each, and a Fleet of one of them."""
    from tests.real.control_plane import API_ONLY, ControlPlane, start_side_by_side

    planes = {name: ControlPlane(tmp_path_factory.mktemp(name), API_ONLY) for name in ("east", "north", "west")}
    with missing_part_skips():
        start_side_by_side(list(planes.values()))
    try:
        for plane in planes.values():
            filled(plane, request.param, 3)
        alone = {"east": planes["east"]}
        yield {len(some): LiveFleet(tmp_path_factory.mktemp("fleet"), some) for some in (alone, planes)}
    finally:
        for plane in planes.values():
            plane.stop()


CURL = "curl of the same requests, five times, and a start"


def test_plan(benchmark: Any, loaded: tuple[LiveFleet, int], tmp_path: Path) -> None:
    fleet, count = loaded
    with a_proxy(fleet, tmp_path) as proxy:
        fleet.connect({"east": proxy.access()})
        assert fleet.plan(DAY) == NO_CHANGES
        fleet.connect({"east": fleet.planes["east"].access()})
        assert proxy.writes() == []
        work = Work("plan of a live cluster, nothing to change", count, CURL, 1, rounds=5)
        said = measured(benchmark, work, lambda: fleet.plan(DAY))
        assert said == NO_CHANGES
        benchmark.extra_info["figures"] = (
            f"{count * PODS_OF_EACH:,} pods; {len(proxy.requests)} requests, {proxy.sent() / 1e6:.1f} MB, "
            f"{peak_megabytes(fleet):.0f} MB of memory"
        )


def test_curl(benchmark: Any, loaded: tuple[LiveFleet, int], tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl to measure beside")
    fleet, count = loaded
    with a_proxy(fleet, tmp_path) as proxy:
        fleet.connect({"east": proxy.access()})
        fleet.plan(DAY)
        fleet.connect({"east": fleet.planes["east"].access()})
        config = tmp_path / "curl.txt"
        config.write_text("next\n".join(curl_lines(fleet, proxy)))

    def asked() -> None:
        for _ in range(5):
            subprocess.run(["curl", "--silent", "--config", str(config)], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-c", START], check=True)

    measured(benchmark, Work(CURL, count, rounds=5), asked)


ASKED_WITH = ("Accept", "Accept-Encoding", "User-Agent")
"""Headers that change what is answered: to the User-Agent of curl or a browser an API server sends indented JSON."""


def curl_lines(fleet: LiveFleet, proxy: Proxy) -> Iterator[str]:
    """Yield each request as it was made, for curl's config file."""
    from urllib.parse import urlencode

    plane = fleet.planes["east"]
    for request in proxy.requests:
        query = urlencode(request.query, doseq=True)
        yield (
            f'url = "{plane.url}{request.path}{"?" + query if query else ""}"\n'
            f'cacert = "{plane.ca_file}"\n'
            f'header = "Authorization: Bearer {plane.admin_token}"\n'
            + "".join(f'header = "{name}: {request.headers[name]}"\n' for name in ASKED_WITH if name in request.headers)
        )


def a_proxy(fleet: LiveFleet, folder: Path) -> Proxy:
    from tests.real.proxy import Proxy

    return Proxy(fleet.planes["east"].access(), folder)


TWENTY = 20


def test_twenty_clusters(benchmark: Any, loaded: tuple[LiveFleet, int], tmp_path: Path) -> None:
    """One API server stands for twenty: each time behind a proxy that gives it an identity of its own."""
    one, count = loaded
    names = [f"cluster-{number:02}" for number in range(TWENTY)]
    with contextlib.ExitStack() as proxies:
        reached = {name: proxies.enter_context(a_proxy(one, tmp_path / name)) for name in names}
        for name, proxy in reached.items():
            proxy.rule(faults.replaced(identity(one).encode(), name.encode()), matching=is_identity, times=None)
        fleet = LiveFleet(tmp_path / "fleet", dict.fromkeys(names, one.planes["east"]))
        fleet.connect({name: proxy.access() for name, proxy in reached.items()})
        work = Work("plan of 20 live clusters, nothing to change", count, rounds=1)
        said = measured(benchmark, work, lambda: fleet.plan(DAY))
        assert said == NO_CHANGES
        benchmark.extra_info["figures"] = (
            f"{TWENTY * count * PODS_OF_EACH:,} pods; "
            f"{peak_megabytes(fleet):.0f} MB of memory; all of one server, through proxies of Python"
        )


def identity(fleet: LiveFleet) -> str:
    return fleet.planes["east"].identity()


def is_identity(request: Request) -> bool:
    return request.path == "/api/v1/namespaces/kube-system"


def peak_megabytes(fleet: LiveFleet) -> float:
    """How much memory one plan takes at most: of all children so far the largest, so asked of a process of its own."""
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    measuring = (sys.executable, "-c", script, *RECONCILER, "plan", "policies", "--now", DAY)
    out, _ = fleet.process(*measuring).communicate(timeout=300)
    return int(out) * (1 if sys.platform == "darwin" else 1024) / 1e6


BARE = "bare patches of the same objects, 16 at a time"


def test_patches(benchmark: Any, bare: tuple[LiveFleet, int]) -> None:
    """From the start of an apply until it has scaled the last Deployment; what it writes after that is not measured."""
    fleet, count = bare
    runs: list[subprocess.Popen[str]] = []
    times = cycle((NIGHT, DAY))

    def ended() -> None:
        for run in runs:
            run.communicate(timeout=300)
            assert run.returncode == 0

    def last_scaled() -> None:
        options = ("--now", next(times), "--auto-approve", "--qps", "0", "--progress", "json")
        run = fleet.process(*RECONCILER, "apply", "policies", *options, stdout=subprocess.DEVNULL)
        runs.append(run)
        applied = (line for line in run.stderr or () if '"status": "applied"' in line)
        assert len(list(islice(applied, count))) == count

    work = Work("apply, until the last of all Deployments is idle, or awake", count, BARE, 1.1, rounds=4)
    measured(benchmark, work, last_scaled, ended)
    ended()


def test_bare_patches(benchmark: Any, bare: tuple[LiveFleet, int]) -> None:
    from tests.real.cluster import scale

    fleet, count = bare
    api = fleet.planes["east"].api
    names = [found["metadata"]["name"] for found in api.items("/apis/apps/v1/namespaces/load/deployments")]
    replicas = cycle((0, 3))

    def patched() -> None:
        wanted = next(replicas)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: scale(api, "load", name, wanted), names))

    measured(benchmark, Work(BARE, count, rounds=4), patched)


@pytest.mark.parametrize("clusters", [1, 3])
def test_clusters(benchmark: Any, three: dict[int, LiveFleet], clusters: int) -> None:
    work = Work("plan over live clusters with 200 Deployments each", clusters, rounds=5)
    said = measured(benchmark, work, lambda: three[clusters].plan(DAY))
    assert said == NO_CHANGES
