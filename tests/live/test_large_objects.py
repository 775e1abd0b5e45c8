"""One namespace full of large objects keeps nobody else from being read and woken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pipeline.manifests import TWO_CLUSTERS
from tests.real.cluster import create, create_missing, replicas_of
from tests.real.objects import a_deployment, a_namespace

if TYPE_CHECKING:
    from tests.live.stage import Stage

DUE = {
    "idling.kubernetes.io/idled-at": "2026-11-20T20:00:00Z",
    "idling.kubernetes.io/previous-scale": "3",
    "reconciler/idled-to": "0",
    "reconciler/owner": "small/IdlingPolicy/idle-dev",
    "reconciler/wake-due": "2026-11-20T21:00:00Z",
}


@pytest.mark.soak
@pytest.mark.parametrize("count", [160, 400])
def test_deployments_of_250_kilobytes_are_read_and_others_are_woken(empty_stage: Stage, count: int) -> None:
    empty_stage.clear()  # the test before it on these clusters may have left a fault
    api = empty_stage.planes["east"].api
    create_missing(api, [a_namespace("fat"), a_namespace("asleep")])
    try:
        large = [a_deployment(f"large-{number:03}", 0) for number in range(count)]
        for one in large:
            one["metadata"]["annotations"] = {"example.com/large": "x" * 250_000}
        create(api, large, "fat")
        asleep = a_deployment("web", 0)
        asleep["metadata"]["annotations"] = dict(DUE)
        create(api, [asleep], "asleep")
        empty_stage.write_policies(TWO_CLUSTERS)
        said = empty_stage.apply()
        assert said.code in (0, 6), said  # 6 where another cluster of the stage could not be read whole
        assert replicas_of(api, "asleep", "web") == 3, said.out + said.err
        pages = [
            one.query["limit"][0]
            for one in empty_stage.proxies["east"].requests
            if one.path == "/apis/apps/v1/deployments"
        ]
        assert pages[:2] == ["500", "250"]
        assert min(map(int, pages)) == 125
    finally:
        for namespace in ("fat", "asleep"):
            api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments")
        empty_stage.clear()
