"""Wrong policies, and those that are probably a mistake: what is told of each is in `wrong_policies.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pipeline.manifests import fleet, idling
from tests.policy.base import FILES, edited, problems_in, warnings

CASES = yaml.safe_load(Path(__file__).with_name("wrong_policies.yaml").read_text())


def cases(part: str) -> list[Any]:
    """Return the file, the change and what is told of each case."""
    return [
        pytest.param(file, one["old"], one["new"], one["told"], id=name)
        for file, found in CASES[part].items()
        for name, one in found.items()
    ]


@pytest.mark.every_case
@pytest.mark.parametrize(("file", "old", "new", "told"), cases("wrong"))
def test_a_wrong_policy_is_told_with_its_place(tmp_path, file, old, new, told):
    assert problems_in(tmp_path, edited(file, old, new)) == ([told] if isinstance(told, str) else told)


@pytest.mark.parametrize(("file", "old", "new", "told"), cases("mistakes"))
def test_what_is_allowed_but_probably_a_mistake_is_a_warning(tmp_path, file, old, new, told):
    assert told in warnings(tmp_path, edited(file, old, new))


WITHOUT_SWITCH = (
    "nights.yaml:5: spec.selector.workloads.kinds[%s, expected %s in spec.switches of the Fleet; without it such a "
    "kind is idled only where it has /scale"
)
CLUSTER = WITHOUT_SWITCH % ('0]: is "cluster"', "Cluster.postgresql.cnpg.io")
NAMED = WITHOUT_SWITCH % ('1]: is "Cluster.postgresql.cnpg.io"', "Cluster.postgresql.cnpg.io")
SERVICE = WITHOUT_SWITCH % ('2]: is "Service.serving.knative.dev"', "Service.serving.knative.dev")


@pytest.mark.parametrize(
    ("switches", "told"),
    [
        pytest.param("[]", (CLUSTER, NAMED, SERVICE), id="none"),
        pytest.param("[{apiVersion: postgresql.cnpg.io/v1, kind: Cluster}]", (SERVICE,), id="named"),
        pytest.param(
            "[{apiVersion: a.b/v1, kind: Cluster, path: spec.on, off: false}]", (NAMED, SERVICE), id="another group"
        ),
    ],
)
def test_a_kind_whose_switch_is_known_and_that_the_fleet_does_not_name_is_a_warning(tmp_path, switches, told):
    kinds = "[cluster, Cluster.postgresql.cnpg.io, Service.serving.knative.dev, Rollout, GameServerSet]"
    files = {
        "fleet.yaml": fleet(["east"], f"switches: {switches}"),
        "nights.yaml": idling(f"workloads: {{kinds: {kinds}}}"),
    }
    assert warnings(tmp_path, files) == tuple(f"policies/{one}" for one in told)


def test_the_set_that_the_cases_break_is_valid(tmp_path):
    assert problems_in(tmp_path, FILES) == []
