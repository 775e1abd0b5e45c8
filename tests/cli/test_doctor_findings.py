"""What doctor finds without asking a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.live import open_live
from reconciler.backends.protocols import RequestSettings
from reconciler.cli.doctor_findings import ClusterCheck, metrics_findings
from reconciler.connection_settings import ClusterConnection
from reconciler.observe.needed_objects import EVERYTHING
from reconciler.policy.types import IdlingPolicy
from tests.backends.kubernetes.kubeconfigs import a_kubeconfig
from tests.builders import NOW, a_cluster, a_policy_set, a_state
from tests.decide.idling.idling_policies import a_metric, a_policy


@pytest.mark.parametrize(
    ("policy", "state", "words"),
    [
        pytest.param(a_policy(), "OK", "and no policy has queries", id="none asks"),
        pytest.param(a_policy("asks", a_metric()), "FAIL", "but policies have queries", id="one asks"),
    ],
)
def test_a_cluster_without_prometheus(tmp_path: Path, policy: IdlingPolicy, state: str, words: str) -> None:
    kubeconfig = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"server": "https://127.0.0.1:1"})
    backend = open_live(
        [ClusterConnection("east", kubeconfig=kubeconfig)], NOW, "reconciler", RequestSettings()
    ).backends["east"]
    policies, observed = a_policy_set(idling=(policy,)), a_state(a_cluster("east"))
    (found,) = metrics_findings(ClusterCheck("east", backend, policies, observed, EVERYTHING, NOW, True))
    assert (found.state, found.text) == (state, f"no Prometheus is configured, {words}")
