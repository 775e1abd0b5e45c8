"""What one run tells the next, kept in any cluster."""

from __future__ import annotations

import pytest

from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.backends.protocols import CONFIG_MAPS
from reconciler.errors import RefusedError, StaleError
from tests.backends.contract.conftest import Place


@pytest.fixture
def store(place: Place) -> ConfigMapStore:
    return ConfigMapStore(place.cluster, place.namespace, "reconciler-journal")


def test_nothing_was_written(store):
    assert store.read("downscale") is None


def test_what_was_written_is_read_by_another(place, store):
    store.write("downscale/shop/Deployment/web", '{"from": 3}', None)
    again = ConfigMapStore(place.again(), place.namespace, "reconciler-journal")
    assert again.read("downscale/shop/Deployment/web") == '{"from": 3}'
    assert again.read("downscale.shop.Deployment.web") is None


def test_a_value_is_replaced_and_removed(store):
    store.write("a", "1", None)
    store.write("b", "1", None)
    store.write("a", "2", "1")
    assert (store.read("a"), store.read("b")) == ("2", "1")
    store.write("a", None, "2")
    store.write("b", None, "1")
    assert (store.read("a"), store.read("b")) == (None, None)
    store.write("a", "3", None)
    assert store.read("a") == "3"


@pytest.mark.parametrize(
    ("held", "value", "expected"),
    [
        pytest.param("1", "2", None, id="somebody was first"),
        pytest.param("1", "2", "0", id="somebody changed it"),
        pytest.param(None, "2", "1", id="somebody removed it"),
        pytest.param("1", None, "0", id="removing what changed"),
    ],
)
def test_what_is_not_as_expected_stays(store, held, value, expected):
    store.write("other", "x", None)
    if held is not None:
        store.write("key", held, None)
    with pytest.raises(StaleError):
        store.write("key", value, expected)
    assert (store.read("key"), store.read("other")) == (held, "x")


def test_nothing_is_made_for_nothing(place, store):
    store.write("key", None, None)
    assert place.cluster.list(CONFIG_MAPS, namespace=place.namespace) == ()


def test_more_than_a_config_map_holds_is_refused_and_less_is_not(place, store):
    store.write("large", "x" * 900_000, None)
    with pytest.raises(RefusedError, match=r"would hold 1000[0-9]{3} bytes, expected at most 1000000"):
        store.write("more", "x" * 100_000, None)
    assert store.read("more") is None
    store.write("large", "x" * 800_000, "x" * 900_000)
    store.write("more", "x" * 100_000, None)
