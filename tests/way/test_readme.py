"""What the README shows of the demo is what the demo prints."""

from __future__ import annotations

import shlex

from tests.way.calls import Folder


def test_the_readme_shows_the_real_output_of_the_demo(repository, tmp_path):
    folder = Folder.copied(repository / "examples" / "quickstart", tmp_path / "quickstart")
    readme = (repository / "README.md").read_text()
    shown = readme.split("$ make demo\n")[1].split("\n```")[0]
    steps = [step.partition("\n") for step in shown.split("\n$ reconciler ")[1:]]
    assert len(steps) == 4
    for command, _, output in steps:
        said = folder.call(*shlex.split(command))
        assert said.code == 0
        assert said.out.rstrip("\n") == output.rstrip("\n")
