"""What cannot be read counts as production, but only where it matters."""

from __future__ import annotations

import pytest

from reconciler.connection_settings import ClusterConnection
from reconciler.policy.types import FleetCluster, Production

EAST = FleetCluster("east", {"stage": "live"}, ClusterConnection("east"))
LABELS = {"stage": "live"}


@pytest.mark.parametrize(
    ("production", "namespace", "expected"),
    [
        pytest.param(
            Production(namespace_labels=LABELS), "a", "namespace a, whose labels are not known,", id="matters"
        ),
        pytest.param(Production(), "a", "", id="no labels of Namespaces are stated"),
        pytest.param(Production(namespace_labels=LABELS, except_namespaces=("a",)), "a", "", id="an exception by name"),
        pytest.param(Production(cluster_labels=LABELS), "a", "cluster east", id="labels of the cluster"),
        pytest.param(Production(), "shop-prod", "namespace shop-prod", id="a usual name"),
    ],
)
def test_a_namespace_whose_labels_are_not_known(production: Production, namespace: str, expected: str) -> None:
    assert production.why(EAST, namespace, None, {}) == expected
