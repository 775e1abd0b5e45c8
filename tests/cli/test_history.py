"""What `history` tells: every change of a simulated week, what others woke, and what is kept in which bound."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tracemalloc
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reconciler.apply.access import Access
from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.backends.protocols import CONFIG_MAPS, HISTORY_LABEL
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.cli.policy_source import commit_of
from reconciler.decide.decisions import Cause, Phase, Verb
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.errors import ClusterError, ForbiddenError, MalformedAnswerError, NotFoundError
from reconciler.history import config_maps
from reconciler.history.changes import Change, changes_of
from reconciler.history.config_maps import HISTORY_PREFIX, KEPT, MOST_BYTES, Day, History, packed, record, unpacked
from reconciler.history.realised_savings import SavedBefore
from reconciler.model import OUR_LABELS, ObjectRef, Run, Write
from reconciler.plan.model import Awake, Plan
from reconciler.plan.order import numbered_actions
from reconciler.pod_requests import Hours
from tests.builders import NOW, a_fleet
from tests.decide.downscale.world import controllers_order
from tests.fakes import Wrapped
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import fleet
from tests.pipeline.week import FLEET, a_week, at, rfc3339
from tests.plans import a_decision

COMMIT = "4f1c2d9b7a6e5f4c3b2a19080706050403020100"


def access_of(folder: Path) -> Access:
    cluster = SnapshotCluster(Store(folder, "east"), victim_order=controllers_order)
    return Access(cluster, ConfigMapStore(cluster, "reconciler", "j"), None, None, None)  # type: ignore[arg-type]


def a_plan(run: Run, *awake: Awake) -> Plan:
    return Plan(run.now, run.id, "production", "", "", {"east": "identity"}, awake=awake)


def night(run: Run, names: list[str], *, idles: bool, policy: int):
    """Return the actions of one run that idles or wakes `names`, and their outcomes."""
    cause = Cause(f"nights-{policy}", f"policies/idling.yaml:{policy}", (reason(ReasonCode.WAKE_DUE, due=run.now),))
    size = {name: 1 + position % 9 for position, name in enumerate(names)}
    verb = {"verb": Verb.IDLE, "idles": True} if idles else {"verb": Verb.WAKE, "phase": Phase.WAKE}
    actions = numbered_actions(
        [
            a_decision(
                name,
                before=size[name] if idles else 0,
                after=0 if idles else size[name],
                cause=cause,
                key=name,
                group=name,
                **verb,
            )
            for name in names
        ]
    )
    return actions, tuple(Outcome(one.id, OutcomeStatus.APPLIED) for one in actions)


def test_a_week_of_10_000_changes_is_told_whole_and_within_its_bound(tmp_path: Path) -> None:
    folder = tmp_path / "snapshot" / "east"
    folder.mkdir(parents=True)
    expected: list[Change] = []
    for half_day in range(14):
        start = NOW - timedelta(days=7) + timedelta(hours=12 * half_day, minutes=1)
        run = Run(start, f"run-{half_day}", COMMIT)
        names = [f"app-{number:04}" for number in range(715)]
        actions, outcomes = night(run, names, idles=half_day % 2 == 0, policy=half_day % 3)
        changes = changes_of(actions, outcomes, run, a_fleet())
        assert record(changes, a_plan(run), {"east": access_of(folder)}, a_fleet(), run)[1] == ""
        expected += changes
    assert len(expected) == 10_010
    Folder(tmp_path).write("policies/fleet.yaml", fleet(["east"], name="production"))
    said = Folder(tmp_path).call("history", "--snapshot", "snapshot", "--now", rfc3339(NOW), "-o", "json")
    assert (said.code, said.err) == (0, "")
    told = json.loads(said.out)["changes"]
    assert len(told) == len(expected)
    fields = ("at", "object", "verb", "from", "to", "policy", "place", "run", "why")
    assert {tuple(one[name] for name in fields) for one in told} == {
        (one.at, one.object, one.verb, one.before, one.after, one.policy, one.place, one.run, one.why)
        for one in expected
    }
    assert {(one["by"], one["commit"]) for one in told} == {("reconciler", COMMIT)}
    sizes = [
        len(base64.b64decode(yaml.safe_load(file.read_text())["binaryData"]["changes"]))
        for file in sorted(folder.glob(f"*{HISTORY_PREFIX}*"))
    ]
    assert len(sizes) == 8
    assert sum(sizes) < 277_000


def test_a_day_of_too_many_changes_keeps_the_newest_and_says_how_many_are_gone() -> None:
    def change(number: int) -> Change:  # a digest does not compress well
        why = hashlib.sha512(str(number).encode()).hexdigest()
        return Change("2026-11-20T00:00:00Z", f"east/a/b/{number}", "idle", "reconciler", why=why)

    changes = tuple(map(change, range(12_000)))
    text = packed(Day(changes))
    assert len(base64.b64decode(text)) <= MOST_BYTES
    day = unpacked(text)
    assert day.dropped > 0
    assert day.changes == changes[day.dropped :]
    assert unpacked(packed(Day(day.changes, 5))).dropped == 5


def test_of_too_much_that_was_saved_before_the_most_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_maps, "MOST_BYTES", 5_000)
    before = tuple(SavedBefore(f"c{number:04}", "nights", Hours(number)) for number in range(1_000))
    day = unpacked(packed(Day(saved=before)))
    assert 100 < len(day.saved) < 1_000
    assert set(day.saved) == set(before[-len(day.saved) :])


def test_a_day_whose_many_changes_are_all_alike_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_maps, "MOST_UNPACKED_BYTES", 100_000)
    change = Change("2026-11-20T00:00:00Z", "east/a/Deployment/web", "idle", "reconciler")
    day = unpacked(packed(Day((change,) * 3_000)))
    assert 500 < len(day.changes) == 3_000 - day.dropped < 3_000


def compressed(lines: bytes) -> str:
    return base64.b64encode(zlib.compress(lines)).decode()


def test_a_small_config_map_that_unpacks_to_very_much_is_refused_before_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config_maps, "MOST_UNPACKED_BYTES", 1 << 20)
    bomb = compressed(b"\n" * (64 << 20))
    tracemalloc.start()
    with pytest.raises(MalformedAnswerError, match="changes: more than 1 MiB, expected a history"):
        unpacked(bomb)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


def test_a_history_that_was_cut_off_is_no_shorter_history() -> None:
    with pytest.raises(MalformedAnswerError, match="changes: cut off, expected a history"):
        unpacked(compressed(b'{"dropped":1}')[:12])


WITHOUT_KIND = compressed(b'{"at":"2026-11-20T21:00:00Z","object":"east/web","verb":"idle","by":"reconciler"}')


@pytest.mark.parametrize("text", ["", "bm8=", "=", base64.b64encode(b"\0" * 20).decode(), WITHOUT_KIND])
def test_what_is_no_history_is_refused(text: str) -> None:
    with pytest.raises(MalformedAnswerError, match="expected a history"):
        unpacked(text)


@pytest.mark.parametrize("back", [0, 1])
def test_a_day_that_cannot_be_read_is_named_and_the_next_one_is_written_all_the_same(tmp_path: Path, back: int) -> None:
    access, run = access_of(tmp_path), Run(NOW, "run-1")
    spoiled = ObjectRef("east", "reconciler", "ConfigMap", f"reconciler-history-{NOW.date() - timedelta(days=back)}")
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": spoiled.name, "namespace": spoiled.namespace, "labels": {HISTORY_LABEL: "changes"}},
        "binaryData": {"changes": "bm8="},
    }
    access.cluster.write(Write("create", spoiled, "v1", manifest=manifest))
    ours = (Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0),)
    woken = Awake(ObjectRef("east", "shop", "Deployment", "api"), NOW, 2)
    words = record(ours, a_plan(run, woken), {"east": access}, a_fleet(), run)[1]
    if back:
        assert (words, History(access.cluster, "reconciler").last(NOW.date()).changes) == ("", ours)
    else:
        assert words.startswith(f"history: not written: {spoiled}: changes: not the lines of a day")


def test_a_history_that_cannot_be_written_is_said_and_fails_nothing(tmp_path: Path) -> None:
    run = Run(NOW, "run-1")
    actions, outcomes = night(run, ["web"], idles=True, policy=1)
    changes = changes_of(actions, outcomes, run, a_fleet())
    gone = access_of(tmp_path / "gone")
    assert "history: not written: " in record(changes, a_plan(run), {"east": gone}, a_fleet(), run)[1]
    assert "no cluster may be written to" in record(changes, a_plan(run), {}, a_fleet(), run)[1]
    assert record((), a_plan(run), {}, a_fleet(), run) == ((), "")


@pytest.mark.parametrize("days", [1, 3, 20])
def test_what_an_activator_woke_is_recorded_by_the_next_run_once(tmp_path: Path, days: int) -> None:
    access = access_of(tmp_path)
    evening, morning = Run(NOW, "run-1"), Run(NOW + timedelta(days=days), "run-2")
    actions, outcomes = night(evening, ["web", "api"], idles=True, policy=1)
    record(changes_of(actions, outcomes, evening, a_fleet()), a_plan(evening), {"east": access}, a_fleet(), evening)
    woken = Awake(actions[0].ref, morning.now - timedelta(hours=2), 1, "reconciler")
    never_idle = Awake(replace(actions[0].ref, name="other"), morning.now - timedelta(hours=2), 4, "kubectl")
    for minutes in (0, 10):
        run = replace(morning, now=morning.now + timedelta(minutes=minutes))
        actions_now, done = night(run, ["api"], idles=False, policy=1)
        changes = changes_of(actions_now, done, run, a_fleet())
        record(changes, a_plan(run, woken, never_idle), {"east": access}, a_fleet(), run)
    kept, _ = History(access.cluster, "reconciler").kept()
    (found,) = [one for day in kept.values() for one in day.changes if one.by != "reconciler"]
    assert (found.by, found.verb, found.before, found.after) == ("activator", "wake", 0, 1)
    assert found.at == rfc3339(woken.since)


def files(folder: Folder) -> dict[str, str]:
    return {path.name: path.read_text() for path in (folder.path / "snapshot" / "dev").glob("*.yaml")}


@pytest.fixture
def week(tmp_path: Path) -> Folder:
    folder = a_week(tmp_path)
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    folder.write(".git/HEAD", "ref: refs/heads/main\n")
    folder.write(".git/refs/heads/main", f"{COMMIT}\n")
    return folder


def test_runs_write_their_history_with_the_commit_and_a_run_without_changes_writes_nothing(week: Folder) -> None:
    week.apply(rfc3339(at("2026-11-16 20:05")))
    before = files(week)
    week.apply(rfc3339(at("2026-11-16 21:05")))
    assert files(week) == before
    week.apply(rfc3339(at("2026-11-17 07:00")))
    now = rfc3339(at("2026-11-17 09:00"))
    told = json.loads(week.call("history", "--snapshot", "snapshot", "--now", now, "-o", "json").out)["changes"]
    seen = sorted((one["object"].split("/", 2)[2], one["verb"], one["from"], one["to"]) for one in told)
    assert seen == sorted(
        change
        for name, had in (("CronJob/nightly", 1), ("Deployment/api", 7), ("Deployment/web", 3), ("StatefulSet/db", 2))
        for change in ((name, "idle", had, 0), (name, "wake", 0, had))
    )
    assert {(one["policy"], one["place"], one["commit"]) for one in told} == {
        ("idle-dev", "policies/dev.yaml:1", COMMIT)
    }
    one_object = week.call("history", "dev/dev-1/deploy/web", "--snapshot", "snapshot", "--now", now).out
    head, *lines = one_object.splitlines()
    assert head.split() == ["TIME", "(UTC)", "REPLICAS", "CHANGE", "OBJECT"]
    assert [re.split("  +", line) for line in lines if not line.startswith(" ")] == [
        ["Tue 2026-11-17 06:00", "0 -> 3", "wake", "dev/dev-1/Deployment/web"],
        ["Mon 2026-11-16 19:05", "3 -> 0", "idle", "dev/dev-1/Deployment/web"],
    ], "the latest first"
    assert lines[1].startswith(f"    by reconciler, idle-dev (policies/dev.yaml:1), commit {COMMIT[:12]}, run ")
    assert max(map(len, lines)) <= 100
    cron = week.call("history", "dev/dev-1/cronjob/nightly", "--snapshot", "snapshot", "--now", now).out
    scales = [re.split("  +", line)[1] for line in cron.splitlines()[1:] if not line.startswith(" ")]
    assert scales == ["suspend true -> false", "suspend false -> true"]
    last_hour = week.call("history", "--since", "1h", "--snapshot", "snapshot", "--now", now).out
    assert last_hour == "No changes recorded.\n"
    just_now = ("--since", "1s", "--snapshot", "snapshot", "--now", now)
    assert week.call("history", "dev/dev-1/deploy/web", *just_now).out == "No changes recorded.\n"
    unknown = week.call("history", "dev/dev-1/deploy/wbe", *just_now)
    assert (unknown.code, unknown.out, 'no such Service or workload was found, did you mean "web"?' in unknown.err) == (
        64,
        "",
        True,
    )
    assert week.call("history", "dev/nope", *just_now).code == 64
    custom = week.call("history", "dev/dev-1/Widget/gone", *just_now)
    assert custom.out == "No changes recorded.\n", "only policies name its kind"


@pytest.mark.parametrize("name", ["dev/dev-1/deploy/web", "dev/dev-1/deploy/wbe", "dev/dev-1"])
def test_what_has_no_history_is_looked_for_in_its_namespace_alone(
    week: Folder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large cluster all else would be read for the sake of one name."""
    asked: set[str] = set()
    listed = SnapshotCluster.list

    def noted(cluster: SnapshotCluster, resource: Any, *, namespace: str = "", labels: str = "") -> Any:
        asked.add(namespace)
        return listed(cluster, resource, namespace=namespace, labels=labels)

    monkeypatch.setattr(SnapshotCluster, "list", noted)
    week.call("history", name, "--snapshot", "snapshot", "--now", rfc3339(at("2026-11-16 12:00")))
    assert asked == {"dev-1", "reconciler"}


def test_a_cluster_that_had_another_name_has_its_history_under_that(week: Folder) -> None:
    week.apply(rfc3339(at("2026-11-16 20:05")))
    week.write("policies/fleet.yaml", FLEET.replace("dev", "new"))
    (week.path / "snapshot/dev").rename(week.path / "snapshot/new")
    look = ("--snapshot", "snapshot", "--now", rfc3339(at("2026-11-16 21:00")))
    assert "dev/dev-1/Deployment/web" in week.call("history", "dev", *look).out
    assert week.call("history", "old", *look).code == 64


def test_where_a_history_cannot_be_read_nothing_is_said_to_be_unknown(week: Folder) -> None:
    name = f"name: reconciler-history-2026-11-16, namespace: reconciler, labels: {{{HISTORY_LABEL}: changes}}"
    day = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{{name}}}\nbinaryData: {{changes: bm8=}}\n"
    week.write("snapshot/dev/day.yaml", day)
    look = ("--snapshot", "snapshot", "--now", rfc3339(at("2026-11-16 21:00")))
    said = week.call("history", "dev/dev-1/deploy/gone", *look)
    assert (said.code, "changes: not the lines of a day" in said.err) == (6, True), said


def test_a_wake_by_hand_is_in_the_history_of_the_run_that_releases_it(week: Folder) -> None:
    week.apply(rfc3339(at("2026-11-16 20:05")))
    file = week.path / "snapshot" / "dev" / "dev-1-deployment-web.yaml"
    file.write_text(file.read_text().replace("replicas: 0", "replicas: 2", 1))
    week.apply(rfc3339(at("2026-11-16 21:05")))
    now = rfc3339(at("2026-11-16 22:00"))
    said = week.call("history", "dev/dev-1/deploy/web", "--snapshot", "snapshot", "--now", now, "-o", "json")
    _, wake = json.loads(said.out)["changes"]
    assert (wake["verb"], wake["by"], wake["from"], wake["to"]) == ("wake", "somebody", 0, 2)


def test_a_plan_reads_no_history(week: Folder) -> None:
    week.write("snapshot/dev/own.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: reconciler}\n")
    week.apply(rfc3339(at("2026-11-16 20:05")))
    made = json.loads(week.plan(rfc3339(at("2026-11-16 21:05")), "-o", "json").out)["digests"]["inputs"]
    for file in (week.path / "snapshot" / "dev").glob("*history*"):
        file.unlink()
    assert json.loads(week.plan(rfc3339(at("2026-11-16 21:05")), "-o", "json").out)["digests"]["inputs"] == made


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({".git/HEAD": COMMIT}, COMMIT, id="detached"),
        pytest.param(
            {".git/HEAD": "ref: refs/heads/a", ".git/packed-refs": f"# x\n{COMMIT} refs/heads/a"}, COMMIT, id="packed"
        ),
        pytest.param(
            {
                ".git": "gitdir: elsewhere/worktrees/w",
                "elsewhere/worktrees/w/HEAD": "ref: refs/heads/a",
                "elsewhere/worktrees/w/commondir": "../..",
                "elsewhere/refs/heads/a": COMMIT,
            },
            COMMIT,
            id="a linked worktree",
        ),
        pytest.param({".git/HEAD": "ref: refs/heads/new"}, "", id="no commit yet"),
        pytest.param(
            {".git/HEAD": "ref: refs/heads/a", ".git/refs/heads/a": "ref: refs/heads/main"}, "", id="another's name"
        ),
        pytest.param({".git/other": ""}, "", id="not git's"),
    ],
)
def test_the_commit_is_read_without_git(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    for name, text in files.items():
        Folder(tmp_path).write(name, text)
    (tmp_path / "policies").mkdir()
    assert commit_of(tmp_path / "policies") == expected


class Interrupted(Wrapped):
    """A cluster in which another run writes its history just before each of our first `times` writes."""

    def __init__(self, cluster: SnapshotCluster, times: int) -> None:
        super().__init__(cluster, self._interrupt)
        self._left = times
        self.others: list[Change] = []

    def _interrupt(self, _: Write) -> None:
        if self._left:
            self._left -= 1
            self.others.append(Change(rfc3339(NOW), f"east/shop/Deployment/other-{self._left}", "idle", "reconciler"))
            History(self.inside, "reconciler").add(self.others[-1:], NOW.date())


@pytest.mark.parametrize("before", [(), ("kept",)], ids=["the first of the day", "beside others"])
@pytest.mark.parametrize("times", [1, 4])
def test_two_runs_that_write_at_once_lose_nothing_although_neither_has_a_lock(
    tmp_path: Path, before: tuple[str, ...], times: int
) -> None:
    cluster = access_of(tmp_path).cluster
    kept = [Change(rfc3339(NOW), f"east/shop/Deployment/{name}", "idle", "reconciler") for name in before]
    if kept:
        History(cluster, "reconciler").add(kept, NOW.date())
    ours = [Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0)]
    both = Interrupted(cluster, times)
    History(both, "reconciler").add(ours, NOW.date())
    assert History(cluster, "reconciler").kept()[0][NOW.date()].changes == (*kept, *both.others, *ours)


def test_a_history_that_others_write_all_the_time_is_said_to_be_unwritten_and_loses_nothing_of_theirs(
    tmp_path: Path,
) -> None:
    both = Interrupted(access_of(tmp_path).cluster, 99)
    access = replace(access_of(tmp_path), cluster=both)
    ours = [Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0)]
    run = Run(NOW, "run-1")
    assert "history: not written: " in record(ours, a_plan(run), {"east": access}, a_fleet(), run)[1]
    assert History(access_of(tmp_path).cluster, "reconciler").kept()[0][NOW.date()].changes == tuple(both.others)


@pytest.mark.parametrize("error", [NotFoundError("gone"), ForbiddenError("forbidden")], ids=["gone", "forbidden"])
def test_what_is_too_old_and_cannot_be_deleted_makes_no_change_of_the_day_twofold_or_untold(
    tmp_path: Path, error: ClusterError
) -> None:
    access = access_of(tmp_path)
    ours = [Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0)]
    History(access.cluster, "reconciler").add(ours, NOW.date() - KEPT - timedelta(days=1))

    def refuse(write: Write) -> None:
        if write.verb == "delete":
            raise error

    refusing = replace(access, cluster=Wrapped(access.cluster, refuse))
    run = Run(NOW, "run-1")
    assert record(ours, a_plan(run), {"east": refusing}, a_fleet(), run) == (tuple(ours), "")
    assert History(access.cluster, "reconciler").kept()[0][NOW.date()].changes == tuple(ours)


class CountedReads(Wrapped):
    """A cluster that counts the objects that are asked for one by one, and the lists."""

    count = lists = 0

    def get(self, *asked: Any) -> Any:
        self.count += 1
        return self.inside.get(*asked)

    def list(self, *asked: Any, **how: Any) -> Any:
        self.lists += 1
        return self.inside.list(*asked, **how)


@pytest.mark.parametrize("back", [1, 20, 100], ids=["yesterday", "weeks ago", "too long ago"])
def test_the_first_change_of_a_day_looks_for_no_other_day_by_itself_and_takes_what_is_too_old_away(
    tmp_path: Path, back: int
) -> None:
    counted = CountedReads(access_of(tmp_path).cluster)
    ours, before = [Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0)], timedelta(days=back)
    for days in (timedelta(days=200), before, timedelta()):
        counted.count = 0
        History(counted, "reconciler").add(ours, NOW.date() - days)
        assert counted.count == 2
    kept = {NOW.date(), NOW.date() - before} if before <= KEPT else {NOW.date()}
    assert History(counted, "reconciler").kept()[0].keys() == kept


@pytest.mark.parametrize(("back", "lists"), [(-1, 0), (0, 0), (1, 0), (3, 1)])
def test_what_idling_saved_is_told_without_a_list_of_all_days_until_a_day_has_its_first_change(
    tmp_path: Path, back: int, lists: int
) -> None:
    counted = CountedReads(access_of(tmp_path).cluster)
    ours = [Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0)]
    History(counted, "reconciler").add(ours, NOW.date() - timedelta(days=back))
    counted.lists = 0
    assert History(counted, "reconciler").last(NOW.date()).changes == tuple(ours)
    assert counted.lists == lists


@pytest.mark.parametrize("name", ["reconciler-history-2026-11-20-backup", "reconciler-history-20261120", "other"])
def test_a_copy_that_somebody_made_of_a_day_is_none(tmp_path: Path, name: str) -> None:
    cluster = access_of(tmp_path).cluster
    ours = [Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0)]
    History(cluster, "reconciler").add(ours, NOW.date())
    before = History(cluster, "reconciler").kept()
    metadata = {"name": name, "namespace": "reconciler", "labels": {**OUR_LABELS, HISTORY_LABEL: "changes"}}
    copy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    cluster.write(Write("create", ObjectRef("east", "reconciler", "ConfigMap", name), "v1", manifest=copy))
    assert History(cluster, "reconciler").kept() == before


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({}, id="with nothing in it"),
        pytest.param({"data": {"note": "x"}}, id="with a text of somebody"),
        pytest.param({"binaryData": {"other": "eA=="}}, id="with another key"),
    ],
)
@pytest.mark.parametrize("times", [0, 1])
def test_a_day_without_its_key_is_written_and_what_others_keep_there_stays(
    tmp_path: Path, content: dict[str, Any], times: int
) -> None:
    cluster = access_of(tmp_path).cluster
    ref = ObjectRef("east", "reconciler", "ConfigMap", f"{HISTORY_PREFIX}{NOW.date().isoformat()}")
    metadata = {"name": ref.name, "namespace": "reconciler", "labels": {**OUR_LABELS, HISTORY_LABEL: "changes"}}
    emptied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}
    cluster.write(Write("create", ref, "v1", manifest=emptied))
    both = Interrupted(cluster, times)
    ours = [Change(rfc3339(NOW), "east/shop/Deployment/web", "idle", "reconciler", 3, 0)]
    run = Run(NOW, "run-1")
    access = replace(access_of(tmp_path), cluster=both)
    assert record(ours, a_plan(run), {"east": access}, a_fleet(), run) == (tuple(ours), "")
    assert History(cluster, "reconciler").kept()[0][NOW.date()].changes == (*both.others, *ours)
    (found,) = (one for one in cluster.list(CONFIG_MAPS, namespace="reconciler") if one.ref.name == ref.name)
    assert content.get("data", {}).items() <= found.data.items()
    assert content.get("binaryData", {}).items() <= found.binary_data.items()
