"""A change of policies in a pull request: its scope, whatever state the objects are in."""

from __future__ import annotations

import shutil

import pytest

from tests.pipeline.calls import Folder

NOW = "2026-11-20T22:00:00Z"


def scope(folder: Folder, include: str) -> list[str]:
    """The scope of a change of what idle-dev includes."""
    shutil.copytree(folder.path / "policies", folder.path / "head")
    file = folder.path / "head" / "idling.yaml"
    file.write_text(file.read_text().replace('include: ["dev-*"]', f"include: [{include}]"))
    compared = ("head", "--base", "policies", "--snapshot", "snapshot", "--now", NOW, "--days", "1")
    said = folder.call("plan", *compared, "-o", "markdown", "-q")
    block = said.out.partition("<summary>Selection</summary>")[2].partition("</details>")[0]
    return [line for line in block.splitlines() if line and not line.startswith("```")]


GONE = ["**1 workload no longer selected**", "us-east/dev-b/Deployment/reports"]


@pytest.mark.parametrize("replicas", [0, 2], ids=["asleep", "awake"])
def test_what_is_dropped_is_told(quickstart, replicas):
    if replicas:
        assert quickstart.apply(NOW).code == 0
    assert quickstart.replicas("us-east", "dev-b", "Deployment", "reports") == replicas
    assert scope(quickstart, "dev-a") == GONE


def test_what_another_job_selects_already_is_newly_selected_by_idling(quickstart):
    quickstart.write(
        "snapshot/eu-west/front.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: front, namespace: shop}\nspec: {selector: {app: web}}\n",
    )
    assert "eu-west/shop/ReplicaSet/web" in scope(quickstart, '"dev-*", shop')
