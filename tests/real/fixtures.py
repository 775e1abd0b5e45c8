"""Fixtures of real parts, known to all tests; what each gives is shown in `control_plane.py`.

Nothing is imported, built or started before a test asks. A test that asks gets the marker `real`, so `-m "not real"`
leaves these tests out. Where a part cannot be built the test is skipped with the reason; under CI=true it fails.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane
    from tests.real.prometheus import Prometheus, Series
    from tests.real.service_network import ServiceNetwork

REAL = frozenset(
    (
        "api_server",
        "api_namespace",
        "control_plane",
        "namespace",
        "control_planes",
        "three_planes",
        "empty_stage",
        "member_plane",
        "prometheus_server",
        "service_network",
    )
)


SHARED = ("empty_stage", "three_planes", "member_plane", "control_plane", "api_server")
"""The fixtures that are started once: the tests of each are a group, which has one worker."""


def mark_real_parts(items: list[pytest.Item]) -> None:
    """Mark the tests with real parts, and say which of them one worker runs, where a test has no group."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})  # a parameter may be called as a fixture is
        fixtures = set(getattr(item, "fixturenames", ())).difference(given)
        if REAL.intersection(fixtures):
            item.add_marker("real")
        if item.get_closest_marker("real") and not item.get_closest_marker("xdist_group"):
            shared = (name for name in SHARED if name in fixtures)
            item.add_marker(pytest.mark.xdist_group(next(shared, item.nodeid.partition("::")[0])))


_last_of: dict[str, pytest.Item] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    _last_of.update({_group(item): item for item in session.items})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """End what the tests of a group share after the last of them: idle control planes would slow the others down."""
    yield
    group = _group(item)
    if group in SHARED and _last_of[group] is item:
        for fixture in item.session._fixturemanager.getfixturedefs(group, item) or ():
            fixture.finish(item._request)  # type: ignore[attr-defined]


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    processes = sys.modules.get("tests.real.processes")
    if report.failed and processes and item.get_closest_marker("real"):
        report.sections.append(("logs of real parts", "\n".join(map(str, processes.log_folders))))
    return report


_capture: list[Any] = []


def pytest_configure(config: pytest.Config) -> None:
    _capture[:] = [config.pluginmanager.getplugin("capturemanager")]


def _not_captured() -> contextlib.AbstractContextManager[None]:
    manager = next(iter(_capture), None)
    return contextlib.nullcontext() if manager is None else manager.global_and_fixture_disabled()


@contextlib.contextmanager
def missing_part_skips() -> Iterator[None]:
    """Skip the test where a binary cannot be built; in CI it fails.

    Nothing is captured meanwhile: a build takes minutes, and says so on stderr.
    """
    from tests.real.binaries import BinariesError

    try:
        with _not_captured():
            yield
    except BinariesError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error).splitlines()[0])


@contextlib.contextmanager
def started(*planes: ControlPlane) -> Iterator[ControlPlane]:
    """Start control planes side by side, and stop them in the end; the first one is for where there is one."""
    from tests.real.control_plane import start_side_by_side

    with missing_part_skips():
        start_side_by_side(list(planes))
    try:
        yield planes[0]
    finally:
        for plane in planes:
            plane.stop()


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with its etcd, shared by the tests of this worker: objects stay as they are written.

    It serves CloneSets from the beginning, so that no test depends on which others ran before it.
    """
    from tests.real.cluster import create
    from tests.real.control_plane import API_ONLY, ControlPlane
    from tests.real.objects import CLONE_SET

    with started(ControlPlane(tmp_path_factory.mktemp("api-server"), API_ONLY)) as plane:
        create(plane.api, [CLONE_SET])
        yield plane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A whole control plane, shared by the tests of this worker, with a large node in each of three zones."""
    from tests.real.cluster import create
    from tests.real.control_plane import ControlPlane
    from tests.real.objects import a_node

    with started(ControlPlane(tmp_path_factory.mktemp("control-plane"))) as plane:
        create(plane.api, [a_node(f"shared-{zone}", **{"topology.kubernetes.io/zone": zone}) for zone in "abc"])
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of its own on the shared control plane; deleted, with all in it, after the test."""
    name = _new_namespace(control_plane)
    yield name
    control_plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def api_namespace(api_server: ControlPlane) -> str:
    """A namespace of its own on the shared API server; it stays, as nothing there could clean it up."""
    return _new_namespace(api_server)


@pytest.fixture
def control_planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[ControlPlane]]]:
    """`control_planes(count, parts=..., flags=...)`: that many of its own, started side by side."""
    from tests.real.control_plane import EVERYTHING, ControlPlane, start_side_by_side

    with contextlib.ExitStack() as started:

        def start(count: int, parts: Collection[str] = EVERYTHING, flags: Sequence[str] = ()) -> list[ControlPlane]:
            planes = [ControlPlane(tmp_path_factory.mktemp("plane"), parts, flags) for _ in range(count)]
            with missing_part_skips():
                start_side_by_side(planes)
            for plane in planes:
                started.callback(plane.stop)
            return planes

        yield start


@pytest.fixture
def prometheus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Prometheus]]:
    """`prometheus_server(series)`: a Prometheus that has these series."""
    from tests.real.prometheus import Prometheus

    with contextlib.ExitStack() as started:

        def start(series: Iterable[Series] = ()) -> Prometheus:
            server = Prometheus(tmp_path_factory.mktemp("prometheus"), series)
            with missing_part_skips():
                server.start()
            started.callback(server.stop)
            return server

        yield start


@pytest.fixture(scope="module")
def service_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceNetwork]:
    """A cluster whose Services lead to processes; the tests of the module are in its network namespace.

    Where this machine has no such namespaces the tests are skipped with the reason, also in CI: that may run where
    nobody can have them.
    """
    from tests.real.binaries import binary
    from tests.real.network_namespace import NamespaceMissingError, network_namespace
    from tests.real.service_network import ServiceNetwork

    with contextlib.ExitStack() as entered:
        with missing_part_skips():
            binary("kube-proxy")
        try:
            entered.enter_context(network_namespace())
        except NamespaceMissingError as error:
            pytest.skip(str(error))
        network = ServiceNetwork(tmp_path_factory.mktemp("service-network"))
        entered.callback(network.stop)
        try:
            with missing_part_skips():
                network.start()
        except NamespaceMissingError as error:
            pytest.skip(str(error))
        why = network.problem()
        if why:
            pytest.skip(why)
        yield network


def _new_namespace(plane: ControlPlane) -> str:
    name = f"test-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name
