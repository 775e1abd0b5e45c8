"""Write plan.txt and after/ of scenarios anew: `python -m tests.scenarios.write [NAME...]`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.scenarios.running import scenarios


def main(names: list[str]) -> None:
    for scenario in scenarios():
        if names and scenario.name not in names:
            continue
        with tempfile.TemporaryDirectory() as work:
            ran = scenario.run(Path(work))
        (scenario.path / "plan.txt").write_text(ran.plan)
        shutil.rmtree(scenario.path / "after", ignore_errors=True)
        for name, text in ran.after.items():
            target = scenario.path / "after" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        print(f"== {scenario.name}\n{ran.plan}-- again: {ran.again}")


if __name__ == "__main__":
    main(sys.argv[1:])
