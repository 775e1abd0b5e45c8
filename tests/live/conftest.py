"""The two API servers that fault tests share, and a stage on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.errors import FailOn
from tests.real.fixtures import started

if TYPE_CHECKING:
    from tests.live.one_namespace import OneNamespace
    from tests.live.stage import Stage
    from tests.real.control_plane import ControlPlane


@pytest.fixture(scope="session", autouse=True)
def kubeconfigs_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The Fleets here name kubeconfigs beside their policies."""
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("RECONCILER_CREDENTIALS_DIR", str(tmp_path_factory.getbasetemp()))
        yield


@pytest.fixture(scope="session")
def empty_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The clusters east and west behind two proxies: API servers only, shared by the fault tests of this worker."""
    from tests.live.stage import Stage
    from tests.real.control_plane import API_ONLY, ControlPlane
    from tests.real.proxy import Proxy

    folder = tmp_path_factory.mktemp("stage")
    planes = {name: ControlPlane(tmp_path_factory.mktemp(name), API_ONLY) for name in ("east", "west")}
    with (
        started(*planes.values()),
        Proxy(planes["east"].access(), folder / "east") as east,
        Proxy(planes["west"].access(), folder / "west") as west,
    ):
        stage = Stage.set_up(planes, {"east": east, "west": west}, folder)
        yield stage
        stage.stop()


@pytest.fixture(scope="session")
def member_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with the roles and the admission policies of deploy/, shared by the tests of what these allow."""
    from tests.live import deployed
    from tests.real.control_plane import API_ONLY, ControlPlane

    with started(ControlPlane(tmp_path_factory.mktemp("member"), API_ONLY)) as plane:
        deployed.install(plane.api)
        yield plane


@pytest.fixture(scope="session")
def three_planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ControlPlane]]:
    """Three whole control planes, shared by tests that use names of their own; they have no nodes yet."""
    from tests.real.control_plane import ControlPlane

    planes = [ControlPlane(tmp_path_factory.mktemp("plane")) for _ in range(3)]
    with started(*planes):
        yield planes


@pytest.fixture
def stage(empty_stage: Stage) -> Stage:
    """The world of everything.py, made anew where anything was written since, and its policies."""
    from tests.live import everything

    empty_stage.write_policies(everything.policies())
    empty_stage.filled()
    empty_stage.clear()
    return empty_stage


@pytest.fixture(scope="session")
def ends() -> dict[str, Any]:
    """The ends of worlds that tests of this worker came to, see `end_state`."""
    return {}


@pytest.fixture
def one_namespace(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OneNamespace:
    """A namespace whose Services are idle at night, and the command line that idles them."""
    from tests.live.one_namespace import OneNamespace
    from tests.pipeline.calls import Folder

    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig("member")))
    return OneNamespace(control_plane, namespace, Folder(tmp_path))


@pytest.fixture(autouse=True)
def fails_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left alone shows in the exit code, so that no fault passes for a success."""
    monkeypatch.setenv("RECONCILER_FAIL_ON", ",".join(FailOn))
