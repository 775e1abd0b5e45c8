"""A run with nothing to change writes nothing, takes no lock, and asks only what it must."""

from __future__ import annotations

from collections import Counter

from tests.live.stage import Stage
from tests.pipeline.manifests import TWO_CLUSTERS
from tests.real.api import Object
from tests.real.objects import a_deployment, a_service, within

NIGHT, MORNING = "2035-11-24T01:30:00Z", "2035-11-24T08:00:00Z"

ASKED = {
    "/apis": 1,
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clonesets.apps.kruise.io": 1,
    "/api/v1/namespaces/kube-system": 1,
    "/apis/apps/v1/deployments": 1,
    "/apis/apps/v1/statefulsets": 1,
    "/apis/apps/v1/replicasets": 1,
    "/api/v1/replicationcontrollers": 1,
    "/apis/batch/v1/cronjobs": 1,
    "/apis/apps.kruise.io/v1alpha1/clonesets": 1,
    "/api/v1/services": 1,
    "/api/v1/endpoints": 1,
    "/apis/discovery.k8s.io/v1/endpointslices": 1,
    "/api/v1/namespaces": 1,
    "/apis/autoscaling/v2/horizontalpodautoscalers": 1,
    "/api/v1/events": 1,
    "/api/v1/namespaces/reconciler/configmaps": 1,
    "/api/v1/pods": 1,
}
"""All requests of a plan to one cluster: another one costs every run of everybody."""

LEASE = {"/apis/coordination.k8s.io/v1/namespaces/reconciler/leases/reconciler": 1}
"""What an apply asks more: where nobody has the lock from then on until it is taken, nothing is read a second time."""


def test_all_requests_of_a_run_with_nothing_to_change(empty_stage):
    begin(empty_stage, {"east": shop("api"), "west": shop("api")})
    for run, asked in ((empty_stage.plan, ASKED), (empty_stage.apply, ASKED | LEASE)):
        said = run()
        assert (said.code, said.out.splitlines()[-1], said.err) == (
            0,
            "No changes. The clusters match the policies.",
            "",
        )
        assert empty_stage.writes() == []
        for proxy in empty_stage.proxies.values():
            assert proxy.counted() == Counter({("GET", path): count for path, count in asked.items()})
            lists = [one for one in proxy.requests if one.path.rsplit("/", 1)[-1].endswith("s") and one.path != "/apis"]
            pages = [one.query["limit"] for one in lists if "customresourcedefinitions" not in one.path]
            assert set(map(tuple, pages)) == {("500",)}
        empty_stage.clear()


def begin(stage: Stage, world: dict[str, list[Object]]) -> None:
    stage.write_policies(TWO_CLUSTERS)
    stage.fill(world)


def shop(name: str) -> list[Object]:
    return [within("dev", a_deployment(name, 1)), within("dev", a_service(name))]


def test_what_was_read_while_nobody_had_the_lock_is_written_by_and_events_come_last(empty_stage):
    """The first run makes the Lease, so it cannot know whether somebody had it, and reads twice."""
    begin(empty_stage, {"east": [*shop("api"), *shop("web")]})
    for now, read in ((NIGHT, 2), (MORNING, 1)):
        said = empty_stage.apply("--now", now)
        assert (said.code, "2 of 2 changes" in said.out) == (0, True), said.out + said.err
        east = empty_stage.proxies["east"]
        assert east.counted()["GET", "/apis/apps/v1/deployments"] == read
        written = [one.path.rsplit("/", 1)[-1] for one in east.writes() if "/namespaces/dev/" in one.path]
        first = written.index("events")
        assert (len(written[first:]), set(written[first:])) == (2, {"events"})
        empty_stage.settle()
        empty_stage.clear()
    begin(empty_stage, {})
