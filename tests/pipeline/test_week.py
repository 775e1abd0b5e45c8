"""A week of a development cluster, run after run: dark when it should be, awake with exactly what it had."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from reconciler.decide.annotations import SCALE_TIME
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import UNLIMITED, cron_job, documents, fleet, service, workload

pytestmark = pytest.mark.laws

PARIS = ZoneInfo("Europe/Paris")
FLEET = fleet(["dev"], UNLIMITED, name="week")
IDLING = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {{name: {name}}}
spec:
  selector:
    namespaces: {{include: ["{namespace}"]}}
    services: {{}}
    workloads: {{kinds: [StatefulSet, CronJob]}}
  idleWhen:
    - schedule:
        timeZone: Europe/Paris
        downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]
"""
REPLICAS = {"web": 3, "api": 7, "db": 2}


def manifests(namespace: str) -> str:
    return documents(
        *(service(name, namespace) for name in ("web", "api")),
        *(workload(name, namespace, REPLICAS[name]) for name in ("web", "api")),
        workload("db", namespace, REPLICAS["db"], kind="StatefulSet"),
        cron_job("nightly", namespace, "startingDeadlineSeconds: 60"),
    )


def a_week(path: Path) -> Folder:
    """Return a folder with one development namespace under one policy."""
    folder = Folder(path)
    folder.write("policies/fleet.yaml", FLEET)
    folder.write("policies/dev.yaml", IDLING.format(name="idle-dev", namespace="dev-1"))
    folder.write("snapshot/dev/dev-1.yaml", manifests("dev-1"))
    return folder


@pytest.fixture
def week(tmp_path: Path) -> Folder:
    return a_week(tmp_path)


def at(text: str) -> datetime:
    """Return the wall-clock time `text` in Paris."""
    return datetime.fromisoformat(text).replace(tzinfo=PARIS)


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run(folder: Folder, moment: datetime, *flags: str, code: int = 0) -> None:
    said = folder.apply(rfc3339(moment), *flags)
    assert said.code == code, f"{moment}: {said.out}{said.err}"


def state(folder: Folder, namespace: str = "dev-1") -> str:
    """Return "awake" (exactly as it was), "dark" (all at zero, suspended), or what stands there."""
    objects = folder.objects()
    kinds = {"web": "Deployment", "api": "Deployment", "db": "StatefulSet"}
    numbers = {name: objects["dev", namespace, kind, name]["spec"]["replicas"] for name, kind in kinds.items()}
    suspended = objects["dev", namespace, "CronJob", "nightly"]["spec"].get("suspend", False)
    if numbers == REPLICAS and not suspended:
        return "awake"
    if set(numbers.values()) == {0} and suspended:
        return "dark"
    return f"{numbers}, suspended {suspended}"


def becomes(folder: Folder, moment: datetime, expected: str, code: int = 0) -> None:
    """Run at `moment`; what stands there then is `expected`."""
    run(folder, moment, code=code)
    assert state(folder) == expected, str(moment)


def leftovers(folder: Folder) -> list[str]:
    """Return our idling marks that are still on anything; the time of the last scale stays."""
    return [
        f"{key}: {annotation}"
        for key, one in folder.objects().items()
        for annotation in one["metadata"].get("annotations", {})
        if annotation.startswith(("idling.", "scale.")) or annotation in ("reconciler/owner", "reconciler/wake-due")
        if annotation != SCALE_TIME
    ]


def test_a_week_around_each_edge(week):
    start = at("2026-11-16T00:00")
    for hour in range(7 * 24 + 8):
        moment = (start.astimezone(UTC) + timedelta(hours=hour)).astimezone(PARIS)
        if moment.hour not in (6, 7, 13, 19, 20):
            continue
        run(week, moment)
        weekend = moment.weekday() >= 5
        dark = weekend or moment.hour >= 20 or moment.hour < 7
        if moment.weekday() == 0 and hour < 24 and moment.hour < 7:
            dark = True
        assert state(week) == ("dark" if dark else "awake"), str(moment)
        if not dark:
            assert leftovers(week) == [], str(moment)


@pytest.mark.parametrize(
    ("friday", "still_dark", "awake"),
    [
        pytest.param("2026-10-23T20:00", "2026-10-26T05:59:00+00:00", "2026-10-26T06:00:00+00:00", id="autumn"),
        pytest.param("2027-03-26T20:00", "2027-03-29T04:59:00+00:00", "2027-03-29T05:00:00+00:00", id="spring"),
    ],
)
def test_a_weekend_with_a_daylight_saving_change_ends_at_seven_on_the_wall(week, friday, still_dark, awake):
    becomes(week, at(friday) - timedelta(minutes=1), "awake")
    becomes(week, at(friday), "dark")
    becomes(week, datetime.fromisoformat(still_dark), "dark")
    becomes(week, datetime.fromisoformat(awake), "awake")
    assert leftovers(week) == []


def scale(folder: Folder, name: str, replicas: int, namespace: str = "dev-1") -> None:
    """Scale by hand, as `kubectl scale` does."""
    file = folder.path / "snapshot" / "dev" / f"{namespace}-deployment-{name}.yaml"
    file.write_text(re.sub(r"^  replicas: \d+$", f"  replicas: {replicas}", file.read_text(), flags=re.M))


def test_when_the_policy_is_deleted_everything_is_up_again(week):
    week.write("policies/other.yaml", IDLING.format(name="idle-other", namespace="qa-*"))
    becomes(week, at("2026-11-17T20:00"), "dark")
    (week.path / "policies" / "dev.yaml").unlink()
    becomes(week, at("2026-11-17T22:00"), "awake")
    assert leftovers(week) == []


def test_a_typo_on_monday_at_ten_to_seven_does_not_keep_the_morning_dark(week):
    becomes(week, at("2026-11-20T20:00"), "dark")
    file = week.path / "policies" / "dev.yaml"
    file.write_text(file.read_text().replace("idleWhen", "idelWhen"))
    becomes(week, at("2026-11-23T06:50"), "dark", code=3)
    said = week.apply(rfc3339(at("2026-11-23T07:00")))
    assert said.code == 3
    assert 'policies/dev.yaml:9:3: spec.idelWhen: unknown field, did you mean "idleWhen"?' in said.err
    assert state(week) == "awake"
