"""`reconciler diff`: the plan's changes and exit codes, and nothing else on stdout."""

from __future__ import annotations

import json
import re

from tests.pipeline.calls import Folder

NOW = "2026-11-20T22:00:00Z"


def diff(folder: Folder, *more: str):
    return folder.call("diff", "policies", "--snapshot", "snapshot", "--now", NOW, *more)


def test_it_names_each_object_that_the_plan_writes(quickstart):
    actions = json.loads(quickstart.plan(NOW, "-o", "json").out)["actions"]
    planned = {
        "/".join((one["cluster"], *(one["object"][part] for part in ("namespace", "kind", "name")))) for one in actions
    }
    shown = diff(quickstart).out
    named = set(re.findall(r"^(?:---|\+\+\+) (?:current|desired)/(.*)$", shown, re.MULTILINE))
    assert named == planned
    assert shown.startswith("--- ")
