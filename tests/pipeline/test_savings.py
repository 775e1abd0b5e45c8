"""What idling saved: a week that was really run agrees with its forecast; what others woke; a total over many days."""

from __future__ import annotations

import json
import random
import re
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.errors import ExitCode
from reconciler.history.changes import Change
from reconciler.history.config_maps import MOST_BYTES, Day, History, packed, unpacked
from reconciler.history.realised_savings import ended_periods
from reconciler.pod_requests import Hours, PodRequests
from tests.backends.folders import last_names_first
from tests.cases import cases
from tests.cli.situations import lost, without_metrics
from tests.laws import share_of
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import UNLIMITED, an_object, cron_job, documents, fleet, idling, workload
from tests.pipeline.week import IDLING, at, rfc3339, run, scale

START = at("2026-11-16T12:00")
REQUESTS = "{requests: {cpu: 500m, memory: 2Gi}}"
WEB = an_object(
    "Deployment",
    "web",
    "dev-1",
    "replicas: 3",
    "selector: {matchLabels: {app: web}}",
    f"template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: web, resources: {REQUESTS}}}]}}}}",
    version="apps/v1",
)


@pytest.fixture
def week(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("policies/fleet.yaml", fleet(["dev"], name="week"))
    folder.write(
        "policies/dev.yaml",
        IDLING.format(name="idle-dev", namespace="dev-1").replace("StatefulSet", "StatefulSet, Deployment"),
    )
    folder.write(
        "snapshot/dev/dev-1.yaml",
        documents(WEB, workload("db", "dev-1", 2, kind="StatefulSet"), cron_job("nightly", "dev-1")),
    )
    return folder


def saved(folder: Folder, now: datetime, *more: str) -> dict:
    said = folder.call("savings", "--snapshot", "snapshot", "--now", rfc3339(now), "-o", "json", *more)
    assert (said.code, said.err) == (0, ""), said
    return json.loads(said.out)


def totals(metrics: Path) -> dict[str, float]:
    lines = (line for line in metrics.read_text().splitlines() if line.startswith("reconciler_saved_"))
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_a_week_saved_what_its_forecast_said(week: Folder) -> None:
    shutil.copytree(week.path / "snapshot", week.path / "before")
    found = week.call(
        "forecast", "policies", "--snapshot", "before", "--now", rfc3339(START), "--days", "7", "-o", "json", "-q"
    )
    promised = json.loads(found.out)["savings"]["saved"]
    counted = []
    metrics = week.path / "metrics.prom"
    for hour in range(7 * 24 + 1):
        if (START.hour + hour) % 24 not in (7, 12, 20):  # nothing happens in between
            continue
        run(week, START + timedelta(hours=hour), "--metrics-file", str(metrics))
        counted.append(totals(metrics).get("reconciler_saved_replica_hours_total", 0.0))
    end = START + timedelta(days=7)
    kept = saved(week, end, "--since", "7d", "--price", "cpu=0.5")["all"]
    assert {key: kept[key] for key in promised} == pytest.approx(promised, rel=0.01)
    assert kept["replicaHours"] == 5 * (4 * 11 + 59)  # four nights of eleven hours, and a weekend
    assert kept["money"] == pytest.approx(0.5 * 0.5 * 3 * (4 * 11 + 59))
    assert counted == sorted(counted), "a total never becomes smaller"
    assert totals(metrics) == {
        "reconciler_saved_replica_hours_total": pytest.approx(kept["replicaHours"]),
        "reconciler_saved_cpu_core_hours_total": pytest.approx(kept["cpuHours"]),
        "reconciler_saved_memory_gib_hours_total": pytest.approx(kept["memoryGiBHours"]),
    }


NIGHTS = (
    ["20:00-07:00"],
    ["Mon-Thu 19:20-06:45", "Fri 18:00-Mon 08:00"],
    ["01:30-02:45", "04:10-05:00", "12:00-15:30"],
    ["Sat,Sun 00:00-24:00", "Mon-Fri 21:00-23:00"],
)
RANDOM_REQUESTS = {"cpu": ("250m", "1", "1500m"), "memory": ("64Mi", "2Gi", "1.5Gi")}
CLOCKS_GO_BACK = datetime(2026, 10, 25, 1, tzinfo=UTC)  # in Paris


def random_policy(name: str, chance: random.Random) -> str:
    """A policy for the namespace of that name."""
    return idling(
        f"namespaces: {{include: [{name}]}}, workloads: {{kinds: [Deployment, StatefulSet, CronJob]}}",
        f"idleReplicas: {chance.choice((0, 0, 1, 2))}",
        f"minAwake: {chance.choice(('0s', '90m', '5h'))}",
        f"minAge: {chance.choice(('0s', '30h'))}",
        name=name,
        downtime=", ".join(f'"{one}"' for one in chance.choice(NIGHTS)),
        zone=chance.choice(("Europe/Paris", "America/New_York", "UTC")),
    )


def random_workload(name: str, namespace: str, chance: random.Random) -> str:
    wanted = [f"{what}: {chance.choice(some)}" for what, some in RANDOM_REQUESTS.items() if chance.random() < 0.8]
    requests = f"resources: {{requests: {{{', '.join(wanted)}}}}}"
    containers = ", ".join(f"{{name: c{n}, {requests}}}" for n in range(chance.choice((1, 2))))
    created = rfc3339(CLOCKS_GO_BACK - timedelta(hours=chance.choice((45, 400))))
    return an_object(
        chance.choice(("Deployment", "StatefulSet")),
        name,
        namespace,
        f"replicas: {chance.choice((0, 1, 2, 3, 7))}",
        f"selector: {{matchLabels: {{app: {name}}}}}",
        f"template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{containers}]}}}}",
        metadata=f'creationTimestamp: "{created}"',
        version="apps/v1",
    )


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(share_of(3)))
def test_the_history_of_some_days_saved_what_their_forecast_said(tmp_path: Path, seed: int) -> None:
    """Within one per cent, in each namespace, whatever policies and workloads say; a run comes each hour."""
    chance, folder = random.Random(f"savings {seed}"), Folder(tmp_path)
    begin, end = CLOCKS_GO_BACK - timedelta(hours=30), CLOCKS_GO_BACK + timedelta(hours=18)
    names = [f"ns-{n}" for n in range(6)]
    folder.write("policies/fleet.yaml", fleet(["dev"], UNLIMITED, name="law"))
    folder.write("policies/nights.yaml", documents(*(random_policy(name, chance) for name in names)))
    for name in names:
        found = (random_workload(f"app-{n}", name, chance) for n in range(3))
        folder.write(f"snapshot/dev/{name}.yaml", documents(*found, cron_job("nightly", name)))
    asked = ("--snapshot", "snapshot", "--now", rfc3339(begin), "--days", "2", "--tick", "1h", "--by", "namespace")
    promised = json.loads(folder.call("forecast", "policies", *asked, "-o", "json", "-q").out)
    for hour in range(2 * 24):
        run(folder, begin + timedelta(hours=hour))
    kept = saved(folder, end, "--since", "2d", "--by", "namespace")
    found = {one["name"]: one for one in kept["groups"]}
    assert len(promised["groups"]) == len(names)
    for one in promised["groups"]:
        expected = one["saved"]
        assert {key: found.get(one["name"], {}).get(key, 0.0) for key in expected} == pytest.approx(expected, rel=0.01)
    assert kept["all"]["replicaHours"] > 100


def test_what_lasts_counts_until_now_and_what_is_older_only_from_then_on(week: Folder) -> None:
    run(week, at("2026-11-16T20:00"))
    by = saved(week, at("2026-11-16T22:00"), "--by", "namespace")
    assert [(one["name"], one["workloads"], one["replicaHours"]) for one in by["groups"]] == [("dev/dev-1", 3, 10.0)]
    assert saved(week, at("2026-11-16T22:00"), "--since", "1h")["all"]["replicaHours"] == 5.0


def test_a_total_is_that_of_the_tenant_whose_namespace_slept_also_by_the_platforms_policy(week: Folder) -> None:
    metrics = week.path / "metrics.prom"
    tenant = 'tenants: [{name: a, paths: ["teams/a/**"], namespaces: [dev-1]}]'
    week.write("policies/fleet.yaml", fleet(["dev"], tenant, name="week"))
    week.write("policies/dev.yaml", IDLING.format(name="idle-dev", namespace="dev-*"))
    week.write("snapshot/dev/dev-2.yaml", workload("db", "dev-2", 1, kind="StatefulSet"))
    for moment in ("2026-11-16T20:00", "2026-11-17T07:00", "2026-11-17T20:00", "2026-11-18T07:00"):
        run(week, at(moment), "--metrics-file", str(metrics))
    said = [line for line in metrics.read_text().splitlines() if line.startswith("reconciler_saved_replica_hours_t")]
    assert sorted(said) == [
        'reconciler_saved_replica_hours_total{cluster="dev",policy="idle-dev",tenant=""} 22',
        'reconciler_saved_replica_hours_total{cluster="dev",policy="idle-dev",tenant="a"} 44',
    ]
    groups = saved(week, at("2026-11-18T12:00"), "--by", "tenant")["groups"]
    assert [(one["name"], one["replicaHours"]) for one in groups] == [("a", 44.0), ("(none)", 22.0)]


def test_a_total_does_not_fall_where_an_idle_workload_is_deleted(week: Folder) -> None:
    metrics = week.path / "metrics.prom"
    counted = []
    for moment in ("2026-11-16T20:00", "2026-11-17T07:00", "2026-11-17T20:00", "2026-11-17T23:00", "2026-11-18T07:00"):
        if moment == "2026-11-17T23:00":
            (week.path / "snapshot/dev/dev-1-deployment-web.yaml").unlink()
        run(week, at(moment), "--metrics-file", str(metrics))
        counted.append(totals(metrics).get("reconciler_saved_replica_hours_total", 0.0))
    assert counted == [0.0, 55.0, 55.0, 55.0, 55.0 + 22.0]


def test_what_somebody_woke_counts_until_then(week: Folder) -> None:
    run(week, at("2026-11-16T20:00"))
    scale(week, "web", 3)
    run(week, at("2026-11-16T23:00"))
    run(week, at("2026-11-17T07:00"))
    kept = saved(week, at("2026-11-17T12:00"))["all"]
    assert kept["replicaHours"] == pytest.approx(3 * 3 + 2 * 11)
    assert kept["cpuHours"] == pytest.approx(0.5 * 3 * 3)


@pytest.mark.parametrize("policies", ["dev-1", "elsewhere"])
def test_what_another_fleet_idled_is_no_saving_of_ours(week: Folder, policies: str) -> None:
    """Nor where a policy of ours selects it."""
    week.write("policies/dev.yaml", IDLING.format(name="idle-dev", namespace=policies))
    theirs = {
        "reconciler/owner": "staging/IdlingPolicy/nights",
        "idling.kubernetes.io/previous-scale": "3",
        "idling.kubernetes.io/idled-at": "2026-11-16T20:00:00Z",
        "reconciler/wake-requested-at": "2026-11-17T06:30:00Z",
    }
    raw = yaml.safe_load(WEB.replace("replicas: 3", "replicas: 0"))
    raw["metadata"]["annotations"] = theirs
    week.write("snapshot/dev/dev-1.yaml", yaml.safe_dump(raw))
    run(week, at("2026-11-17T09:00"))
    told = week.call("history", "--snapshot", "snapshot", "--now", rfc3339(at("2026-11-17T12:00")), "-o", "json")
    assert [one["verb"] for one in json.loads(told.out)["changes"]] == ["wake"]
    assert saved(week, at("2026-11-17T12:00"))["groups"] == []


def test_who_wakes_changes_nothing_of_what_a_pod_requests(week: Folder) -> None:
    night, morning = at("2026-11-16T20:00"), at("2026-11-17T07:00")

    def by_saved_plan(moment: datetime) -> None:
        week.plan(rfc3339(moment), "--out", "saved.json")
        now = ("--snapshot", "snapshot", "--now", rfc3339(moment))
        assert week.call("apply", "saved.json", *now, "--auto-approve").code == ExitCode.DONE

    by_saved_plan(night)
    by_saved_plan(morning)
    expected = 0.5 * 3 * 11
    assert saved(week, morning)["all"]["cpuHours"] == pytest.approx(expected)
    for day in range(1, 3):
        run(week, night + timedelta(days=day))
        moment = rfc3339(morning + timedelta(days=day))
        if day == 1:
            assert week.restore(moment, "--all").code == ExitCode.DONE
        else:
            week.write("policies/broken.yaml", "kind: [")  # what is due is woken all the same
            assert week.apply(moment).code == ExitCode.MALFORMED
            (week.path / "policies/broken.yaml").unlink()
        assert saved(week, morning + timedelta(days=day))["all"]["cpuHours"] == pytest.approx(expected * (day + 1))


@cases(
    "flags expected",
    ("group", ("--by", "team"), "Invalid value for '--by': 'team' is not one of 'policy'"),
    ("time", ("--since", "36d"), '"36d" is out of range, expected something like'),
)
def test_what_cannot_be_counted_is_refused(week: Folder, flags: tuple[str, ...], expected: str) -> None:
    said = week.call("savings", "--snapshot", "snapshot", *flags)
    assert (said.code, said.out) == (ExitCode.USAGE, "")
    assert expected in said.err


def test_before_the_history_it_is_not_known_whether_anything_was_idle(week: Folder) -> None:
    run(week, at("2026-11-16T20:00"))
    idle = ("savings", "--snapshot", "snapshot", "--now", rfc3339(at("2026-11-15T12:00")))
    begins = "The history begins Mon 2026-11-16 20:00: whether anything was idle before is not known."
    assert week.call(*idle).out.splitlines()[1:] == [begins]
    run(week, at("2026-11-17T07:00"))
    assert week.call(*idle).out.splitlines()[1:] == [begins]


def test_what_has_no_replicas_is_said_below_the_table(week: Folder) -> None:
    """One of the three is a CronJob."""
    run(week, at("2026-11-16T20:00"))
    said = week.call("savings", "--snapshot", "snapshot", "--now", rfc3339(at("2026-11-16T22:00")))
    assert said.out.splitlines()[-2].split()[:3] == ["all", "3", "10"]
    assert said.out.splitlines()[-1].startswith("No replicas are counted of 1 workload: CronJobs, switches, ")


def test_a_fleet_in_which_nothing_was_idle_says_so(week: Folder) -> None:
    said = week.call("savings", "--snapshot", "snapshot", "--now", rfc3339(START))
    assert said.out.splitlines()[1:] == ["Nothing was idle."]


def test_queries_without_an_answer_leave_it_complete_and_clusters_do_not(quickstart: Folder) -> None:
    asked = ("savings", "--snapshot", "snapshot", "--now", "2026-11-20T22:00:00Z", "-o", "json")
    without_metrics(quickstart)
    said = quickstart.call(*asked)
    assert (said.code, json.loads(said.out)["complete"], said.err) == (ExitCode.DONE, True, "")
    lost(quickstart)
    said = quickstart.call(*asked)
    assert (said.code, json.loads(said.out)["complete"]) == (ExitCode.PARTIAL, False)
    others = (quickstart.call(*verb, *asked[1:]) for verb in (("forecast",), ("restore", "--all", "--auto-approve")))
    assert all(other.code == ExitCode.PARTIAL and other.err.endswith(said.err) for other in others)
    assert said.err == "error: us-east: no folder snapshot/us-east in the snapshot\n"


def test_a_day_that_cannot_be_read_is_named_and_the_others_count_and_none_does_not_pass_for_nothing_idle(
    week: Folder,
) -> None:
    run(week, at("2026-11-16T20:00"))
    run(week, at("2026-11-17T07:00"))
    asked = ("savings", "--snapshot", "snapshot", "--now", rfc3339(at("2026-11-17T12:00")))
    spoil_history(week, "2026-11-16")
    said = week.call(*asked, "-o", "json")
    assert (said.code, json.loads(said.out)["all"]["replicaHours"]) == (ExitCode.PARTIAL, 55.0)
    assert said.err.startswith(
        "error: dev/reconciler/ConfigMap/reconciler-history-2026-11-16: changes: not the lines of a day"
    )
    spoil_history(week, "2026-11-17")
    said = week.call(*asked)
    assert (said.code, said.out.splitlines()[1:]) == (ExitCode.PARTIAL, ["Whether anything was idle is not known."])
    assert said.err.count("not the lines of a day") == 2


def spoil_history(week: Folder, day: str) -> None:
    (file,) = (week.path / "snapshot" / "dev").glob(f"*reconciler-history-{day}*")
    file.write_text(re.sub("changes: .*", "changes: AAAA", file.read_text()))


def woken(name: str, hours: int, **more: object) -> Change:
    until = datetime(2026, 11, 20, 7, tzinfo=UTC)
    since = (until - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    values = {"since": since, "asleep": 2, "cpu": 0.5, "policy": "p", **more}
    return Change("2026-11-20T07:00:00Z", f"east/a/Deployment/{name}", "wake", "reconciler", **values)  # type: ignore[arg-type]


def test_a_wake_that_two_runs_recorded_counts_once_and_one_without_a_record_not() -> None:
    changes = [woken("a", 3), woken("a", 3), woken("b", 5, since="")]
    assert [(one.object, one.asleep) for one in ended_periods(changes)] == [("east/a/Deployment/a", 2)]


def test_a_day_carries_what_was_saved_before_also_in_changes_that_it_drops() -> None:
    day = Day(tuple(woken(f"{number}", 2, why="x" * 50 + str(number)) for number in range(30)))
    again = Day((woken("z", 1),), saved=day.saved_in_all())
    assert unpacked(packed(again)) == again
    expected = Hours(30 * 4 + 2, PodRequests(30 * 2 + 1, 0.0))
    assert [one.hours for one in again.saved_in_all()] == [expected]
    assert len(packed(again)) < MOST_BYTES


def test_what_a_run_across_midnight_records_counts_in_the_day_that_began_meanwhile() -> None:
    """The counter of every later day holds it, and never falls: also as the late run itself says it."""
    history = History(MemoryCluster("home", (), victim_order=last_names_first), "reconciler")
    today = date(2026, 11, 20)
    history.add([woken("a", 3)], today)
    history.add([woken("b", 5)], today + timedelta(days=1))
    history.add([woken("c", 7)], today)
    for day in (today, today + timedelta(days=1), today + timedelta(days=2)):
        assert [one.hours.replicas for one in history.last(day).saved_in_all()] == [2 * (3 + 5 + 7)]
    kept = {day: [change.object[-1] for change in found.changes] for day, found in history.kept()[0].items()}
    assert kept == {today: ["a"], today + timedelta(days=1): ["b", "c"]}
