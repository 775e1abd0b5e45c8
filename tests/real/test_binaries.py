"""Where binaries come from, and what happens where they cannot; the `go` here is a script, for the sake of speed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.binaries import KWOK, MODULES, BinariesError, binary, built, main
from tests.real.fixtures import missing_part_skips

_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.26.0; exit; fi
echo "$@" >> {installs}
sleep 0.2
{does}
"""
_BUILDS = 'echo "#!/bin/sh" > $GOBIN/kwok; chmod +x $GOBIN/kwok'
_FAILS = "echo half > $GOBIN/kwok; echo no modules here; exit 1"


class Workshop:
    """An empty cache and a Go of our own."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache" / "reconciler-tests"
        self._folder = folder
        self._installs = folder / "installs"

    def go(self, does: str) -> None:
        command = self._folder / "bin" / "go"
        command.parent.mkdir(exist_ok=True)
        command.write_text(_GO.format(installs=self._installs, does=does))
        command.chmod(0o755)

    @property
    def installs(self) -> int:
        """How often something was built, or tried to be."""
        return len(self._installs.read_text().splitlines())


@pytest.fixture
def workshop(tmp_path, monkeypatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return Workshop(tmp_path)


def test_test_runs_at_once_build_once(workshop, repository):
    workshop.go(_BUILDS)
    ask = "from tests.real.binaries import binary; print(binary('kwok'))"
    runs = [subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, cwd=repository) for _ in range(3)]
    paths = {run.communicate()[0] for run in runs}
    assert (len(paths), workshop.installs) == (1, 1)
    assert os.access(paths.pop().decode().strip(), os.X_OK)


def test_what_a_killed_build_left_is_not_used_and_goes(workshop):
    workshop.go(_BUILDS)
    place = built(KWOK)
    half = place.rename(place.with_name(f"{place.name}.building-killed"))
    assert binary("kwok").is_file()
    assert not half.exists()
    assert workshop.installs == 2


def test_a_build_that_fails_says_where_its_log_is_and_is_not_tried_by_every_test(workshop):
    workshop.go(_FAILS)
    with pytest.raises(BinariesError, match="no modules here") as failed:
        built(KWOK)
    (log,) = workshop.cache.glob("kwok-*.log")
    assert str(log) in str(failed.value)
    assert not [found for found in workshop.cache.glob("kwok-*") if found.is_dir()]
    with pytest.raises(BinariesError, match="no modules here"):
        binary("kwok")
    assert workshop.installs == 1
    workshop.go(_BUILDS)
    assert built(KWOK, again=True).is_dir()


def test_building_all_tells_each_part_that_fails(workshop, capsys):
    workshop.go(_FAILS)
    assert main() == 1
    told = [line.split(":")[1].strip() for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert told == [f"tests/real/{one.name}" for one in MODULES]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_tests_that_need_a_part_say_that_they_build_it(workshop, repository, workers):
    """As somebody calls it who knows nothing of `make parts`; what is built here fails, so the tests are skipped."""
    workshop.go(_FAILS)
    call = [sys.executable, "-m", "pytest", "-n", workers, "tests/backends/kubernetes/test_lease.py"]
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    run = subprocess.run(call, cwd=repository, env=bare, capture_output=True, text=True, check=False)
    assert (run.returncode, workshop.installs) == (0, 1), run.stdout
    (told,) = [line for line in run.stderr.splitlines() if line.startswith("building ")]
    assert told.startswith(
        "building etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy: up to 7 minutes"
    )
    assert str(workshop.cache) in told


@pytest.mark.parametrize(
    ("ci", "outcome"),
    [
        pytest.param("", pytest.skip.Exception, id="skipped"),
        pytest.param("false", pytest.skip.Exception, id="skipped where CI is false"),
        pytest.param("true", pytest.fail.Exception, id="fails in CI"),
    ],
)
def test_tests_without_their_part(monkeypatch, ci, outcome):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no disk left"), missing_part_skips():
        raise BinariesError("tests/real/kwok: no disk left\nmore")


def test_assets_of_setup_envtest_come_first(workshop, tmp_path, monkeypatch):
    workshop.go(_FAILS)
    for name in ("etcd", "kube-apiserver", "kube-scheduler"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert (binary("etcd"), binary("kube-apiserver")) == (tmp_path / "etcd", tmp_path / "kube-apiserver")
    with pytest.raises(BinariesError, match="no modules here"):
        binary("kube-scheduler")
