"""The lock file: waiting, dying holders, files that are pulled away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.backends.snapshot.file_lock import LOCK_FILE, FileLock
from reconciler.errors import ClusterError, LockHeldError
from reconciler.time_limit import TimeLimit
from tests.fakes import FakeClock

HOLD = """
import sys, time
from reconciler.backends.snapshot.file_lock import FileLock
from reconciler.time_limit import TimeLimit
lock = FileLock(sys.argv[1], "the other process")
lock.acquire(TimeLimit(10))
print("held", flush=True)
time.sleep(60)
"""


def test_a_dead_process_frees_its_lock(tmp_path):
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], cwd=root, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        lock = FileLock(tmp_path, "we")
        with pytest.raises(LockHeldError, match="held by the other process, expected it free"):
            lock.acquire(TimeLimit(0.2))
        other.kill()
        other.wait()
    assert (tmp_path / LOCK_FILE).read_text() == "the other process\n"
    lock.acquire(TimeLimit(0))
    assert (tmp_path / LOCK_FILE).read_text() == "we\n"
    lock.release()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("make", ["link", "link to nothing", "pipe", "folder"])
def test_a_lock_is_never_taken_through_a_link_or_on_what_is_no_file(tmp_path, make):
    (tmp_path / "precious").write_text("s3cr3t")
    folder = tmp_path / "east"
    folder.mkdir()
    if make == "pipe":
        os.mkfifo(folder / LOCK_FILE)
    elif make == "folder":
        (folder / LOCK_FILE).mkdir()
    else:
        (folder / LOCK_FILE).symlink_to("../precious" if make == "link" else "../made")
    with pytest.raises(ClusterError, match=r"\.reconciler\.lock: ") as raised:
        FileLock(folder, "we").acquire(TimeLimit(0))
    assert "s3cr3t" not in str(raised.value)
    assert (tmp_path / "precious").read_text() == "s3cr3t"
    assert sorted(os.listdir(tmp_path)) == ["east", "precious"]


def test_who_holds_a_lock_is_told_on_one_line(tmp_path):
    holder, other = FileLock(tmp_path, "we\x1b[2J\nnobody"), FileLock(tmp_path, "b")
    holder.acquire(TimeLimit(0))
    with pytest.raises(LockHeldError) as raised:
        other.acquire(TimeLimit(0))
    assert str(raised.value).isprintable()
    holder.release()


def test_waiting_takes_as_long_as_it_may(tmp_path):
    first, clock = FileLock(tmp_path, "first"), FakeClock()
    first.acquire(TimeLimit(0))
    with pytest.raises(LockHeldError):
        FileLock(tmp_path, "second").acquire(TimeLimit(30, clock))
    assert clock.now == pytest.approx(30)
    first.release()


def test_waiting_ends_when_the_lock_is_given_back(tmp_path):
    first = FileLock(tmp_path, "first")

    class Releasing(FakeClock):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.now > 5:
                first.release()

    clock = Releasing()
    second = FileLock(tmp_path, "second")
    first.acquire(TimeLimit(0))
    second.acquire(TimeLimit(30, clock))
    assert second.held() is True
    assert 5 < clock.now < 6
    second.release()


def test_a_lock_whose_file_was_removed_is_lost(tmp_path):
    first, second = (FileLock(tmp_path, name) for name in ("first", "second"))
    first.acquire(TimeLimit(0))
    (tmp_path / LOCK_FILE).unlink()
    assert first.held() is False
    second.acquire(TimeLimit(0))
    first.release()
    assert second.held() is True
    with pytest.raises(LockHeldError, match="second"):
        first.acquire(TimeLimit(0))
    second.release()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ClusterError, match="No such file or directory"):
        FileLock(tmp_path / "nowhere", "we").acquire(TimeLimit(0))
