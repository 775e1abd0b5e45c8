"""The history in files: the same changes as in the clusters, whole lines or none, and never a run that fails for it."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.policy_source import user_of_this_machine
from reconciler.errors import ReconcilerError
from reconciler.history.changes import Change
from reconciler.history.files import MAX_LINE, read_changes, write_changes
from reconciler.model import Run
from tests.builders import NOW
from tests.pipeline.calls import Folder
from tests.pipeline.week import a_week, at, rfc3339
from tests.report.validators import validator_of

COMMIT = "4f1c2d9b7a6e5f4c3b2a19080706050403020100"
EVENING, LATER, MORNING = (rfc3339(at(text)) for text in ("2026-11-16 20:05", "2026-11-16 22:00", "2026-11-17 07:00"))
RUN = Run(NOW, "run-1")
LINE = {"at": "2026-11-16T19:05:00Z", "object": "dev/dev-1/Deployment/web", "verb": "idle", "by": "reconciler"}
DS = [f"d.jsonl:{number}" for number in (1, 2, 3)]
CHANGE = Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0, run="run-1")


@pytest.fixture
def week(tmp_path: Path) -> Folder:
    folder = a_week(tmp_path)
    folder.write(".git/HEAD", f"{COMMIT}\n")
    return folder


def changes(folder: Folder, *more: str) -> list[dict[str, Any]]:
    said = folder.call("history", "--now", rfc3339(at("2026-11-17 09:00")), "-o", "json", *more)
    assert said.code == 0, said.err
    return list(json.loads(said.out)["changes"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_files_hold_the_same_changes_as_the_clusters_and_are_read_without_any(week: Folder) -> None:
    reports = week.path / "logs" / "scaling"
    for now in (EVENING, LATER, MORNING):
        week.apply(now, "--report-dir", str(reports))
    kept = changes(week, "--snapshot", "snapshot")
    assert changes(week, "--from", str(reports)) == kept
    assert changes(week, "dev/dev-1/deploy/web", "--from", str(reports)) == [
        one for one in kept if one["object"] == "dev/dev-1/Deployment/web"
    ]
    assert [name.partition("-")[0] for name in names(reports)] == ["20261116T190500Z", "20261117T060000Z"]
    (week.path / "policies" / "fleet.yaml").write_text("{")
    assert changes(week, "--from", str(reports)) == kept


def test_each_line_is_as_its_schema_says(week: Folder) -> None:
    week.apply(EVENING, "--report-dir", "reports")
    (file,) = (week.path / "reports").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [list(validator_of("change.schema.json").iter_errors(line)) for line in lines] == [[]] * 4


def test_a_folder_that_cannot_be_written_is_said_and_changes_nothing_else(week: Folder) -> None:
    week.write("reports", "a file")
    said = week.apply(EVENING, "--report-dir", "reports")
    words = "warning: --report-dir: reports: not written: File exists, expected a folder that can be written"
    assert (said.code, words in said.err.splitlines()) == (0, True)
    assert len(changes(week, "--snapshot", "snapshot")) == 4


def test_a_run_that_dies_while_it_writes_leaves_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def power_cut(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", power_cut)
        with pytest.raises(KeyboardInterrupt):
            write_changes(str(tmp_path), [CHANGE], RUN)
    assert names(tmp_path) == []

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert "No space left on device" in write_changes(str(tmp_path), [CHANGE], RUN)
    assert names(tmp_path) == []


def test_what_is_being_written_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".20261120T154123Z-run-1.7.tmp").write_text('{"at": "half a li')
    (tmp_path / "20261120T154123Z-run-2.jsonl").touch()
    assert read_changes(str(tmp_path), NOW) == read_changes(str(tmp_path), NOW - timedelta(days=1))
    assert read_changes(str(tmp_path), NOW)[1] == []


def test_a_run_that_writes_twice_replaces_nothing(tmp_path: Path) -> None:
    other = Change(rfc3339(NOW), "east/shop/Deployment/api", "wake", "reconciler", 0, 2)
    for change in (CHANGE, other):
        assert write_changes(str(tmp_path), [change], RUN) == ""
    assert set(read_changes(str(tmp_path), NOW)[0]) == {CHANGE, other}
    assert len(names(tmp_path)) == 2


def test_what_another_pod_of_the_same_process_id_left_or_is_writing_stands_in_no_way(tmp_path: Path) -> None:
    assert write_changes(str(tmp_path), [CHANGE], RUN) == ""
    [name] = names(tmp_path)
    (tmp_path / f".{name.removesuffix('.jsonl')}.{os.getpid()}.tmp").touch()
    assert write_changes(str(tmp_path), [CHANGE], RUN) == ""
    assert read_changes(str(tmp_path), NOW)[0] == (CHANGE, CHANGE)


@pytest.mark.parametrize("name", ["../../etc/passwd", "x" * 5000, "", "a\nb\x00c", "-", "ü" * 300])
def test_the_name_of_a_file_is_short_and_in_its_folder_whatever_a_saved_plan_calls_its_run(
    tmp_path: Path, name: str
) -> None:
    reports = tmp_path / "reports"
    assert write_changes(str(reports), [CHANGE], Run(NOW, name)) == ""
    (written,) = names(reports)
    assert (len(written) < 70, names(tmp_path)) == (True, ["reports"])


def test_no_changes_write_no_file(tmp_path: Path) -> None:
    assert write_changes(str(tmp_path / "reports"), [], RUN) == ""
    assert names(tmp_path) == []


def test_what_is_no_change_is_named_by_its_line_and_hides_no_other(week: Folder) -> None:
    week.apply(EVENING, "--report-dir", "reports")
    week.write("reports/a.jsonl", '{"at": "2026-11-16T19:05:00Z"\n')
    week.write("reports/b.jsonl", "x" * (MAX_LINE + 1))
    (week.path / "reports" / "c.jsonl").write_bytes(b"\xff\n")
    odd = [{"at": "yesterday"}, {"at": "2026-11-16T19:05:00"}, {"object": "web"}]
    week.write("reports/d.jsonl", "\n".join(json.dumps({**LINE, **one}) for one in odd))
    week.write("reports/e.jsonl", json.dumps({**LINE, "more": 0})[:-2] + "[" * 100_000 + "]" * 100_000 + "}")
    for subject in ((), ("dev/dev-1/deploy/web",)):
        said = week.call("history", *subject, "--from", "reports", "--now", LATER)
        assert (said.code, sum(not line.startswith(" ") for line in said.out.splitlines())) == (6, 2 if subject else 5)
        assert [line.split(": ")[1] for line in said.err.splitlines()[:7]] == [
            f"reports/{place}" for place in ("a.jsonl:1", "b.jsonl:1", "c.jsonl:1", *DS, "e.jsonl:1")
        ]
        assert "unexpected" not in said.err


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReconcilerError, match="expected a folder with files of --report-dir"):
        read_changes(str(tmp_path / "nowhere"), NOW)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(("wake", "dev/dev-1/deploy/web"), id="wake"),
        pytest.param(("restore", "dev/dev-1/deploy/web", "--auto-approve"), id="restore"),
    ],
)
def test_what_a_person_wakes_or_restores_tells_who_and_at_which_commit(week: Folder, call: tuple[str, ...]) -> None:
    week.apply(EVENING)
    assert week.call(*call, "--snapshot", "snapshot", "--now", LATER, "--report-dir", "reports").code == 0
    *_, last = changes(week, "dev/dev-1/deploy/web", "--snapshot", "snapshot")
    assert (last["verb"], last["by"], last["user"]) == ("wake", "reconciler", user_of_this_machine())
    assert (last["commit"], last["policy"]) == (COMMIT, "idle-dev")
    assert changes(week, "--from", "reports") == [last]
    assert "user" not in changes(week, "--snapshot", "snapshot")[0], "what a run does by itself names nobody"
    text = week.call("history", "dev/dev-1/deploy/web", "--from", "reports", "--now", LATER).out
    assert f"    by {user_of_this_machine()}, idle-dev (policies/dev.yaml:1), " in text
