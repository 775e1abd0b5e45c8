"""Progress and metrics of runs over a real API server, beside a cluster that does not answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.pipeline.calls import Folder
from tests.real.kubeconfig import Access, write_kubeconfig

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane


@pytest.fixture
def closed() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"https://127.0.0.1:{reserved.getsockname()[1]}"


@pytest.fixture
def folder(api_server: ControlPlane, closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A Fleet of a cluster that answers, east, and one that does not, west; its kubeconfig lies beside its policies."""
    monkeypatch.setenv("RECONCILER_CREDENTIALS_DIR", str(tmp_path))
    gone = Access(closed, api_server.access().authority, {"token": "none"})
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"east": api_server.access(), "west": gone})
    clusters = [
        {"name": name, "connection": {"kubeconfig": str(kubeconfig), "context": name}} for name in ("east", "west")
    ]
    fleet = {"apiVersion": "reconciler/v1alpha1", "kind": "Fleet", "metadata": {"name": "test"}}
    found = Folder(tmp_path)
    found.write("policies/fleet.yaml", yaml.safe_dump({**fleet, "spec": {"home": "east", "clusters": clusters}}))
    return found


def test_one_line_for_each_cluster_that_was_read_and_its_requests_in_the_metrics(folder: Folder) -> None:
    said = folder.call(
        "plan",
        "policies",
        "--fail-on",
        "unknown",
        "--request-timeout",
        "2",
        "--metrics-file",
        "metrics.prom",
        "--progress",
        "json",
    )
    assert said.code == 6
    *progress, meaning = said.err.splitlines()
    assert meaning.startswith("exit code 6: ")
    lines = {line["cluster"]: line for line in map(json.loads, progress)}
    assert len(progress) == 2
    east, west = lines["east"], lines["west"]
    assert east["status"] == "read"
    assert east["lists"] >= 10
    assert east["objects"] >= 4  # the namespaces that every cluster has
    assert west["status"] == "unknown"
    assert west["message"]

    families = text_string_to_metric_families((folder.path / "metrics.prom").read_text())
    samples = {(one.name, one.labels.get("cluster")): one.value for family in families for one in family.samples}
    assert samples["reconciler_request_duration_seconds_count", "east"] >= east["lists"]
    assert samples["reconciler_request_duration_seconds_sum", "east"] > 0
    assert samples["reconciler_cluster_unknown_seconds", "east"] == 0
    assert samples["reconciler_cluster_unknown_seconds", "west"] >= 1
    assert ("reconciler_last_success_timestamp_seconds", None) not in samples


def test_quiet_is_quiet_and_the_plan_is_the_same(folder: Folder) -> None:
    arguments = ("plan", "policies", "--request-timeout", "2", "--now", "2026-11-20T22:00:00Z", "-o", "json")
    quiet = folder.call(*arguments, "-q")
    assert quiet.err == ""
    assert quiet.out == folder.call(*arguments, "--progress", "plain").out
