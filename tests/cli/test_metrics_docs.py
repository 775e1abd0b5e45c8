"""The alerts that are deployed, judged by promtool over the metrics that runs write."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.real.fixtures import missing_part_skips
from tests.report.metrics_in_source import metrics_in_source


@pytest.fixture(scope="module")
def promtool() -> Path:
    from tests.real.binaries import binary

    with missing_part_skips():
        return binary("promtool")


def described(repository: Path, page: str) -> str:
    return (repository / "docs" / page).read_text()


def alerts(repository: Path) -> dict[str, Any]:
    """Return the groups of rules that are deployed, as Prometheus reads them."""
    rule = yaml.safe_load((repository / "deploy/components/monitoring/prometheus-rule.yaml").read_text())
    return dict(rule["spec"])


def test_the_page_has_the_alerts_that_are_deployed(repository: Path) -> None:
    page = described(repository, "how-to/monitor.md")
    [rules] = re.findall(r"```yaml\n(groups:.*?)```", page, re.DOTALL)
    assert yaml.safe_load(rules) == alerts(repository)
    named = {rule["alert"] for group in alerts(repository)["groups"] for rule in group["rules"]}
    assert set(re.findall(r"`(Reconciler\w+)`", page)) == named


HELD = 'reconciler_held_back_workloads{cluster="east",policy="idle-dev"}'
SUCCESS = 'reconciler_last_success_timestamp_seconds{verb="apply"}'
NIGHT, EASY = "0x15 3x21 0x9", "0x47"
"""The samples of a day that begins at noon, one each half an hour: three are held back from eight to seven, or none."""


@dataclass(frozen=True)
class Case:
    """An alert over some series: whether it fires by the time, with which labels and summary."""

    alert: str
    series: dict[str, str]
    fires: dict[str, bool]
    summary: str
    labels: dict[str, str] = field(default_factory=dict)
    interval: str = "1m"

    def as_promtool_takes_it(self, severity: str) -> dict[str, Any]:
        fired = [
            {
                "exp_labels": {"severity": severity, **self.labels},
                "exp_annotations": {"summary": self.summary},
            }
        ]
        return {
            "interval": self.interval,
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "alert_rule_test": [
                {"eval_time": time, "alertname": self.alert, "exp_alerts": fired if fires else []}
                for time, fires in self.fires.items()
            ],
        }


def on_east(name: str, values: str) -> dict[str, str]:
    """Return the series of the metric `name` on east, beside that of west, where all is well, and that of a plan."""
    of_a_plan = f'{name}{{cluster="north",verb="plan"}}'  # pushed once, and at the gateway for ever
    return {f'{name}{{cluster="east"}}': values, f'{name}{{cluster="west"}}': "0x100", of_a_plan: "1x100"}


STOPPED, EAST = "No run has ended well for an hour.", {"cluster": "east"}
TWICE = "idle-dev is held back on east for the second night (3 workloads)."
POLICY = {**EAST, "policy": "idle-dev"}
CASES = [
    Case("ReconcilerStopped", {SUCCESS: "0x90"}, {"60m": False, "75m": True}, STOPPED, {"verb": "apply"}),
    Case("ReconcilerStopped", {"up": "1x90"}, {"5m": False, "15m": True}, STOPPED),
    Case("ReconcilerStopped", {SUCCESS.replace("apply", "plan"): "0x20"}, {"15m": True}, STOPPED),
    Case(
        "ReconcilerWakesOverdue",
        on_east("reconciler_overdue_wakes", "2x20"),
        {"14m": False, "16m": True},
        "2 workloads on east should be awake.",
        EAST,
    ),
    Case(
        "ReconcilerPickerFailing",
        on_east("reconciler_picker_failures", "1x20"),
        {"16m": True},
        "Pod pickers of 1 workloads on east give no usable answer.",
        EAST,
    ),
    Case(
        "ReconcilerTenantForbidden",
        {
            'reconciler_tenant_forbidden_changes{cluster="east",tenant="a"}': "2x90",
            'reconciler_tenant_forbidden_changes{cluster="east",tenant="b",verb="diff"}': "2x90",
        },
        {"50m": False, "65m": True},
        "Tenant a may not make 2 changes on east.",
        {**EAST, "tenant": "a"},
    ),
    Case(
        "ReconcilerObjectFaults",
        on_east("reconciler_object_faults", "1x90"),
        {"50m": False, "65m": True},
        "1 objects on east cannot be read, and stay as they are.",
        EAST,
    ),
    Case(
        "ReconcilerClusterUnknown",
        on_east("reconciler_cluster_unknown_seconds", "1+60x40"),
        {"29m": False, "31m": True},
        "east does not answer.",
        EAST,
    ),
    Case(
        "ReconcilerPolicyConflict",
        {"reconciler_policy_conflicts": "1x90", 'reconciler_policy_conflicts{verb="plan"}': "2x90"},
        {"50m": False, "65m": True},
        "Policies of equal priority select the same workloads (1 times).",
    ),
    Case(
        "ReconcilerHeldBack",
        {HELD: f"{NIGHT} {EASY}"},
        {"10h": False, "20h": False, "34h": False},
        TWICE,
        interval="30m",
    ),
    Case(
        "ReconcilerHeldBack",
        {HELD: f"{NIGHT} {NIGHT} {EASY}"},
        {"12h": False, "31h": False, "33h": True, "42h": True, "50h": True, "60h": False},
        TWICE,
        POLICY,
        interval="30m",
    ),
    Case(
        "ReconcilerHeldBack",
        {
            HELD: f"{NIGHT} {EASY}",
            HELD.replace("dev", "ci"): f"{EASY} {NIGHT}",
            HELD.replace("}", ',verb="plan"}'): f"{NIGHT} {NIGHT}",
        },
        {"33h": False, "42h": False},
        TWICE,
        interval="30m",
    ),
]


@pytest.mark.real
def test_the_alerts_fire(repository: Path, tmp_path: Path, promtool: Path) -> None:
    rules = alerts(repository)
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))
    severities = {rule["alert"]: rule["labels"]["severity"] for group in rules["groups"] for rule in group["rules"]}
    tests = [case.as_promtool_takes_it(severities[case.alert]) for case in CASES]
    assert {case.alert for case in CASES} == severities.keys()
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["alerts.yaml"], "tests": tests}))
    for arguments in (["check", "rules", "--lint-fatal", "alerts.yaml"], ["test", "rules", "tests.yaml"]):
        said = subprocess.run([promtool, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout + said.stderr


def test_every_metric_is_described(repository: Path) -> None:
    names = metrics_in_source(repository)
    assert len(names) == len({name.removesuffix("_total") for name in names}) == 29  # a family has one type
    assert set(re.findall(r"^\| `([a-z_]+)` \|", described(repository, "reference/metrics.md"), re.MULTILINE)) == names
