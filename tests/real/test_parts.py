"""The real parts themselves: that they are what tests of the run take them for, which fail where they are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3

from tests.real.api import Api, ApiError
from tests.real.objects import a_deployment, a_job, a_node, a_service
from tests.real.worlds import Refusal, create, pods_of, refuse, scale, wait_for_ready, wait_until

pytestmark = pytest.mark.soak

RECORDED_FROM = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def test_a_deployment_gets_its_pods_and_a_job_its_end(control_plane, namespace):
    api = control_plane.api
    create(api, [a_job("once", 2), a_service("web"), a_deployment("web", 3)], namespace)
    wait_for_ready(api, namespace, "web", 3)
    assert len(pods_of(api, namespace, "web", running=True)) == 3
    scale(api, namespace, "web", 1)
    wait_for_ready(api, namespace, "web", 1)
    job = f"/apis/batch/v1/namespaces/{namespace}/jobs/once"
    wait_until(lambda: api.get(job)["status"].get("succeeded") == 2, "a completed Job")


def test_a_full_node_leaves_pods_unschedulable(control_plane, namespace):
    api = control_plane.api
    create(api, [a_node(f"small-{namespace}", cpu="1", pool=namespace)])
    spec = {"nodeSelector": {"pool": namespace}}
    create(api, [a_deployment("web", 3, cpu="400m", spec=spec)], namespace)

    def reasons() -> list[str]:
        conditions = [condition for pod in pods_of(api, namespace) for condition in pod["status"].get("conditions", [])]
        return [found.get("reason", "") for found in conditions if found["type"] == "PodScheduled"]

    wait_until(lambda: sorted(reasons()) == ["", "", "Unschedulable"], "one unschedulable pod")


@pytest.mark.parametrize(
    ("labels", "annotations", "ready"),
    [
        pytest.param({"reconciler.test/unready": "true"}, {}, False, id="never ready"),
        pytest.param({"reconciler.test/crashing": "true"}, {}, False, id="crashing"),
        pytest.param({}, {"reconciler.test/ready-after": "1s"}, True, id="ready later"),
    ],
)
def test_pods_are_as_ready_as_a_test_wants(control_plane, namespace, labels, annotations, ready):
    api = control_plane.api
    create(api, [a_deployment("web", 1, labels=labels, annotations=annotations)], namespace)
    wait_until(lambda: len(pods_of(api, namespace, "web", running=True)) == 1, "a Running pod")
    (pod,) = pods_of(api, namespace, "web")
    conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
    assert conditions["Ready"] == str(ready)


def test_kinds_of_others_have_their_scale(api_server, api_namespace):
    shop = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "shop"}}
    status = {"replicas": 2, "labelSelector": "app=shop"}
    create(api_server.api, [{**shop, "spec": {"replicas": 3}, "status": status}], api_namespace)
    scaled = api_server.api.get(f"/apis/apps.kruise.io/v1alpha1/namespaces/{api_namespace}/clonesets/shop/scale")
    assert (scaled["spec"], scaled["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "app=shop"})


def test_a_policy_refuses_in_one_namespace(api_server, api_namespace):
    create(api_server.api, [a_deployment("web", 1)], api_namespace)
    refuse(api_server.api, api_namespace, Refusal("not on Fridays", when="object.spec.replicas > 1"))
    scale(api_server.api, api_namespace, "web", 0)
    with pytest.raises(ApiError, match="not on Fridays"):
        scale(api_server.api, api_namespace, "web", 2)


def test_a_service_account_without_a_role_may_not_read(api_server, api_namespace):
    token = api_server.service_account(api_namespace, "nobody")
    with pytest.raises(ApiError) as refused:
        Api(api_server.url, api_server.ca_file, token).items(f"/api/v1/namespaces/{api_namespace}/pods")
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_an_outage_keeps_address_and_objects(control_planes):
    from tests.real.control_plane import API_ONLY

    (plane,) = control_planes(1, parts=API_ONLY)
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    address, identity = plane.url, plane.identity()
    plane.stop_api_server()
    with pytest.raises(urllib3.exceptions.HTTPError):
        plane.identity()
    plane.start_api_server()
    assert (plane.url, plane.identity()) == (address, identity)
    assert plane.api.find("/api/v1/namespaces/shop")


def test_control_planes_are_different_ones_and_stop_without_a_trace(control_planes):
    planes = control_planes(2)
    assert len({plane.identity() for plane in planes}) == 2
    ids = [number for plane in planes for number in plane.process_ids]
    assert len(ids) == 10
    for plane in planes:
        plane.stop()
    assert not [number for number in ids if Path(f"/proc/{number}").exists()]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with the one that started them")
def test_processes_end_with_a_test_run_that_is_killed(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from tests.real.processes import Process\n"
        f"print(Process(Path('/bin/sleep'), ['600'], Path({str(tmp_path)!r}) / 'sleep.log').id, flush=True)\n"
        "time.sleep(600)"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert run.stdout
    number = int(run.stdout.readline())
    os.kill(number, 0)
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait_until(lambda: not _runs(number), "the end of what it started")


def _runs(number: int) -> bool:
    """Whether this process is there and no zombie that nobody has asked about yet."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_prometheus_answers_from_made_data(prometheus_server, tmp_path):
    from tests.real.prometheus import Series, demand_token, every
    from tests.real.proxy import Proxy

    quiet = every(60, since=RECORDED_FROM, values=[0.0] * 180)
    busy = every(60, since=RECORDED_FROM, values=[float(number) for number in range(180)])
    server = prometheus_server([Series("hits", {"app": "quiet"}, quiet), Series("hits", {"app": 'a "busy" one'}, busy)])
    result = server.query('hits{app!="quiet"}', RECORDED_FROM + 9000)
    assert [(one["metric"]["app"], one["value"][1]) for one in result] == [('a "busy" one', "150")]
    with Proxy(server.access(), tmp_path) as proxy, urllib3.PoolManager(ca_certs=str(proxy.ca_file)) as pool:
        demand_token(proxy, "secret")
        asked = f"{proxy.url}/api/v1/query?query=hits&time={RECORDED_FROM + 60}"
        assert pool.request("GET", asked).status == 401
        answer = pool.request("GET", asked, headers={"Authorization": "Bearer secret"})
        assert len(answer.json()["data"]["result"]) == 2
