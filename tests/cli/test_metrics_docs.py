"""The alerts of docs/how-to/monitor.md, judged by promtool over the metrics that a run writes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.real.fixtures import missing_part_skips


@pytest.fixture(scope="module")
def promtool() -> Path:
    from tests.real.binaries import binary

    with missing_part_skips():
        return binary("promtool")


def described(repository: Path, page: str) -> str:
    return (repository / "docs" / page).read_text()


def a_test(alert: str, series: dict[str, str], minutes: int, labels: dict[str, str], summary: str) -> dict[str, object]:
    fired = [{"exp_labels": labels, "exp_annotations": {"summary": summary}}]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": fired}],
    }


@pytest.mark.real
def test_the_alerts_fire(repository: Path, tmp_path: Path, promtool: Path) -> None:
    [rules] = re.findall(r"```yaml\n(groups:.*?)```", described(repository, "how-to/monitor.md"), re.DOTALL)
    (tmp_path / "alerts.yaml").write_text(rules)
    east = {"cluster": "east"}
    tests = [
        a_test(
            "ReconcilerStopped",
            {"reconciler_last_success_timestamp_seconds": "0x70"},
            61,
            {},
            "No run has ended well for an hour.",
        ),
        a_test(
            "ReconcilerWakesOverdue",
            {'reconciler_overdue_wakes{cluster="east"}': "2x20", 'reconciler_overdue_wakes{cluster="west"}': "0x20"},
            16,
            east,
            "2 workloads on east should be awake.",
        ),
        a_test(
            "ReconcilerPickerFailing",
            {
                'reconciler_picker_failures{cluster="east"}': "1x20",
                'reconciler_picker_failures{cluster="west"}': "0x20",
            },
            16,
            east,
            "Pod pickers of 1 workloads on east give no usable answer.",
        ),
        a_test(
            "ReconcilerClusterUnknown",
            {'reconciler_cluster_unknown_seconds{cluster="east"}': "1+60x40"},
            31,
            east,
            "east does not answer.",
        ),
    ]
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["alerts.yaml"], "tests": tests}))
    for arguments in (["check", "rules", "--lint-fatal", "alerts.yaml"], ["test", "rules", "tests.yaml"]):
        said = subprocess.run([promtool, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout + said.stderr


def test_every_metric_is_described(repository: Path) -> None:
    rooms = [repository / "reconciler" / room / "metrics.py" for room in ("report", "activator")]
    source = "".join(room.read_text() for room in rooms)
    names = set(re.findall(r'"((?:reconciler|sorting)_[a-z_]+[a-z])"', source))
    assert len(names) == 23
    assert set(re.findall(r"^\| `([a-z_]+)` \|", described(repository, "reference/metrics.md"), re.MULTILINE)) == names
