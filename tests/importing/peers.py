"""Manifests of other tools as text -> the policies that the verb prints, checked as `validate` checks them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.pipeline.calls import Folder

_LOST = "not carried over: in/peer.yaml:"


def imported(folder: Path, peer: str, manifests: str) -> tuple[dict[str, Any], list[str]]:
    """Return the specs of the policies by name, and what is not carried over, without the file; they validate."""
    cli = Folder(folder)
    cli.write("in/peer.yaml", manifests)
    said = cli.call("import", peer, "in")
    assert said.code == 0, said.err
    cli.write("policies/all.yaml", said.out)
    valid = cli.call("validate")
    assert valid.code == 0, (valid.err, said.out)
    specs = {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(said.out)}
    return specs, [line.split(": ", 2)[2] for line in said.err.splitlines() if line.startswith(_LOST)]


def sleep_info(name: str = "nights", namespace: str = "dev", **spec: Any) -> str:
    value = {
        "apiVersion": "kube-green.com/v1alpha1",
        "kind": "SleepInfo",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"weekdays": "1-5", "sleepAt": "20:00", "wakeUpAt": "08:00", **spec},
    }
    return yaml.safe_dump(value) + "---\n"
