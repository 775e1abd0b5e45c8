"""What cannot be read counts as production, but only where it matters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from reconciler.connection_settings import ClusterConnection
from reconciler.policy.kinds.fleet import Production
from reconciler.policy.types import FleetCluster
from tests.builders import a_fleet

EAST = FleetCluster(name="east", labels={"stage": "live"}, connection=ClusterConnection("east"))
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


class Counted(tuple[FleetCluster, ...]):
    """Clusters that count how often somebody goes through them."""

    looked = 0

    def __iter__(self) -> Iterator[FleetCluster]:
        type(self).looked += 1
        return super().__iter__()


def test_the_clusters_of_a_fleet_are_gone_through_once_however_many_objects_ask_for_theirs() -> None:
    east, west = a_fleet("east", "west").clusters
    fleet = replace(a_fleet(), clusters=Counted((east, west)))
    assert [fleet.cluster(name) for name in ("east", "west", "north") * 3] == [east, west, None] * 3
    assert Counted.looked == 1
