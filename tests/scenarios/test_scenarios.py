"""Scenarios as files: policies, a snapshot before, the plan's text, the snapshot after. A bug report becomes one.

`python -m tests.scenarios.write NAME...` writes plan.txt and after/ anew; read the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.running import Scenario, scenarios


@pytest.mark.every_case
@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario, tmp_path: Path):
    ran = scenario.run(tmp_path)
    assert ran.plan == scenario.expected_plan
    assert ran.after == scenario.expected_after
    assert ran.again == scenario.again
