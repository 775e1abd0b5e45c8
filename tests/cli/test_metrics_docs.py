"""The alerts that are deployed, judged by promtool over the metrics that runs write."""

from __future__ import annotations

import re
import subprocess
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


@pytest.mark.real
def test_the_alerts_fire(repository: Path, tmp_path: Path, promtool: Path) -> None:
    """Each of them, as `alerts_test.yaml` says."""
    rules = alerts(repository)
    tests = Path(__file__).with_name("alerts_test.yaml").read_text()
    names = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert {one["alertname"] for test in yaml.safe_load(tests)["tests"] for one in test["alert_rule_test"]} == names
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(rules))
    (tmp_path / "tests.yaml").write_text(tests)
    for arguments in (["check", "rules", "--lint-fatal", "alerts.yaml"], ["test", "rules", "tests.yaml"]):
        said = subprocess.run([promtool, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout + said.stderr


def test_every_metric_is_described(repository: Path) -> None:
    names = metrics_in_source(repository)
    assert len(names) == len({name.removesuffix("_total") for name in names}) == 29  # a family has one type
    assert set(re.findall(r"^\| `([a-z_]+)` \|", described(repository, "reference/metrics.md"), re.MULTILINE)) == names
