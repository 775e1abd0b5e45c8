"""The picker on a real API server: a real HorizontalPodAutoscaler, people and a Deployment that rolls out."""

from __future__ import annotations

import base64
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.backends.servers import PickerServer, says
from tests.live import deployed
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, policy
from tests.real import certificates
from tests.real.api import MERGE_PATCH, Api, Object
from tests.real.cluster import create, pods_of, replicas_of, scale, wait_for_ready, wait_until
from tests.real.control_plane import ControlPlane
from tests.real.external_metrics import ExternalMetrics, an_external_autoscaler
from tests.real.fixtures import started
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_deployment, a_namespace, a_node, manifests
from tests.real.processes import Process, answers, free_port

pytestmark = pytest.mark.real
COST = "controller.kubernetes.io/pod-deletion-cost"
ACCOUNT = "reconciler-picker"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class PickerProcess:
    """`reconciler picker` with the rights of deploy/components/picker, and the webhook that leads there."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self.folder = plane, folder
        self.port, self.http_port = free_port(), free_port()
        self._process: Process | None = None

    def start(self) -> None:
        certificate, key = certificates.write_server_pair(self.folder / "tls")
        access = self.plane.access(self.plane.service_account(deployed.OWN, ACCOUNT, seconds=4 * 3600))
        kubeconfig = write_kubeconfig(self.folder / "picker.yaml", {"member": access})
        flags = ["--context", "member", "--address", "127.0.0.1", "--port", str(self.port)]
        flags += ["--http-port", str(self.http_port), "--tls-cert", str(certificate), "--tls-key", str(key)]
        arguments = ["-m", "reconciler", "picker", str(self.folder / "policies"), *flags, "--grace", "4"]
        environment = {"KUBECONFIG": str(kubeconfig), "RECONCILER_CREDENTIALS_DIR": str(self.folder)}
        log = self.plane.logs / "picker.log"
        self._process = Process(Path(sys.executable), arguments, log, environment)
        self._process.wait_until(lambda: answers(f"http://127.0.0.1:{self.http_port}/readyz"), "readiness")

    def stop(self) -> int:
        assert self._process is not None
        self._process.send(signal.SIGTERM)
        return self._process.ends_with()

    def register(self) -> None:
        """Make the webhook configuration that is deployed, for this process."""
        [made] = [one for one in manifests(deployed.PICKER_WEBHOOK) if one["kind"].startswith("Validating")]
        bundle = base64.b64encode(self.plane.ca_file.read_bytes()).decode()
        made["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{self.port}/", "caBundle": bundle}
        self.plane.api.create(WEBHOOKS, made)


class PickerCluster:
    """A cluster with the picker of the component, runs as a CronJob makes them, and the service that picks."""

    def __init__(self, plane: ControlPlane, folder: Path, service: PickerServer) -> None:
        self.plane, self.api, self.service, self.folder = plane, plane.api, service, folder
        self.picker = PickerProcess(plane, folder)
        runs = write_kubeconfig(folder / "runs.yaml", {"member": plane.access(deployed.token(plane))})
        self.cli = Folder(folder, runs)
        self.names = 0

    def write_policies(self) -> None:
        http = f"http: {{host: 127.0.0.1, port: {self.service.port}, scheme: http, path: /}}"
        everywhere = "selector: {namespaces: {include: ['*']}, workloads: {kinds: [Deployment, ReplicaSet]}}"
        asked = (everywhere, f"podPicker: {{{http}, maxRetries: 0}}", "settleSeconds: 1")
        mine = fleet(["member"], "podPickers: {allowedHosts: [127.0.0.1]}", name="fleet")
        self.cli.write("policies/all.yaml", documents(mine, policy("DownscalePolicy", "workers", *asked)))

    def apply(self) -> str:
        said = self.cli.call("apply", "policies", "--auto-approve", "--quiet")
        assert said.code == 0, said.out + said.err
        return said.out

    def namespace(self) -> str:
        self.names += 1
        create(self.api, [a_namespace(f"shop-{self.names}", **{"reconciler/picker": "enabled"})])
        return f"shop-{self.names}"

    def events(self, namespace: str, reason: str) -> list[Object]:
        found = self.api.items(f"/api/v1/namespaces/{namespace}/events")
        return [one for one in found if one["reason"] == reason]

    def journal(self) -> dict[str, str]:
        found = self.api.get(f"/api/v1/namespaces/{deployed.OWN}/configmaps/reconciler-journal")
        return {key: text for key, text in found.get("data", {}).items() if key != "picker"}

    def metrics(self) -> str:
        with urllib3.PoolManager() as pool:
            return pool.request("GET", f"http://127.0.0.1:{self.picker.http_port}/metrics").data.decode()


def names(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def costs(pods: list[Object]) -> dict[str, str]:
    marks = {pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get(COST) for pod in pods}
    return {name: cost for name, cost in marks.items() if cost is not None}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PickerCluster]:
    folder = tmp_path_factory.mktemp("picker")
    plane = ControlPlane(folder / "plane")
    service = PickerServer()
    with started(plane), service:
        # What the controller would keep: of pods that are alike it deletes those with smaller uids.
        def chosen(connection: Any) -> None:
            asked = service.received[-1].json
            there = {pod["metadata"]["name"]: pod for pod in plane.api.items("/api/v1/pods")}
            last = sorted(asked["candidate_pods"], key=lambda name: there[name]["metadata"]["uid"], reverse=True)
            says(last[: asked["number_of_pods_requested"]])(connection)

        service._answers = (chosen,)
        create(plane.api, [a_node("n-1")])
        deployed.install(plane.api)
        create(plane.api, manifests(deployed.PICKER_RIGHTS))
        made = PickerCluster(plane, folder, service)
        made.write_policies()
        made.picker.start()
        made.picker.register()
        yield made


def those_that_the_picker_names(api: Api, namespace: str, name: str, count: int) -> set[str]:
    pods = sorted(pods_of(api, namespace, name), key=lambda pod: pod["metadata"]["uid"], reverse=True)
    return names(pods[:count])


def in_force(cluster: PickerCluster, namespace: str) -> None:
    """Wait until the API server asks the picker."""
    create(cluster.api, [a_deployment("probe", 3)], namespace)
    wait_for_ready(cluster.api, namespace, "probe", 3)

    def asked() -> bool:
        scale(cluster.api, namespace, "probe", 2)
        scale(cluster.api, namespace, "probe", 3)
        return bool(cluster.events(namespace, "VictimsPicked") or cluster.events(namespace, "DecreasedWithoutPicker"))

    wait_until(asked, "the webhook to be asked")
    api = cluster.api
    api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/probe")
    wait_until(lambda: not pods_of(api, namespace, "probe"), "no pods of the probe")


def test_a_real_hpa_lowers_6_to_3_and_the_pods_that_the_picker_named_go_and_without_the_webhook_it_goes_through(
    cluster: PickerCluster, tmp_path: Path
) -> None:
    api, namespace = cluster.api, cluster.namespace()
    in_force(cluster, namespace)
    with ExternalMetrics(cluster.plane, tmp_path) as metrics:
        metrics.values["queue"] = 6
        create(api, [a_deployment("web", 6)], namespace)
        wait_for_ready(api, namespace, "web", 6)
        create(api, [an_external_autoscaler("web", "queue", 1, 10)], namespace)
        named = those_that_the_picker_names(api, namespace, "web", 3)
        before = names(pods_of(api, namespace, "web"))

        metrics.values["queue"] = 3
        wait_for_ready(api, namespace, "web", 3)

        left = pods_of(api, namespace, "web")
        assert names(left) == before - named
        assert costs(left) == {}
        [event] = [one for one in cluster.events(namespace, "VictimsPicked") if one["involvedObject"]["name"] == "web"]
        print(event["message"])
        assert event["message"].startswith("replicas 6 -> 3 by admin; deletes ")  # its controllers' credentials
        assert all(name in event["message"] for name in named)
        assert len(cluster.journal()) >= 1
        cluster.apply()
        assert cluster.journal() == {}
        assert "No changes" in cluster.apply()

        assert cluster.picker.stop() == 0
        metrics.values["queue"] = 2
        wait_for_ready(api, namespace, "web", 2)
        assert cluster.events(namespace, "DecreasedWithoutPicker") == []
        cluster.apply()
        [event] = cluster.events(namespace, "DecreasedWithoutPicker")
        print(event["message"])
        assert event["message"].startswith("replicas 3 -> 2; decreased without a picker")
        assert event["involvedObject"]["name"] == "web"
        cluster.apply()
        [event] = cluster.events(namespace, "DecreasedWithoutPicker")
        assert event["count"] == 1
        api.delete(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/web")
    cluster.picker.start()


@pytest.mark.parametrize("sub", ["/scale", ""], ids=["scale", "spec"])
def test_when_somebody_scales_a_replica_set_down_the_pods_that_the_picker_named_go(
    cluster: PickerCluster, sub: str
) -> None:
    """Deployments are scaled down so by the HPA above, and by their spec wherever `in_force` asks."""
    api, namespace, kind = cluster.api, cluster.namespace(), "replicasets"
    in_force(cluster, namespace)
    create(api, [a_deployment("web", 5, kind="ReplicaSet")], namespace)
    wait_for_ready(api, namespace, "web", 5, kind)
    before, named = names(pods_of(api, namespace, "web")), those_that_the_picker_names(api, namespace, "web", 2)
    path = f"/apis/apps/v1/namespaces/{namespace}/{kind}/web{sub}"
    api.request("PATCH", path, {"spec": {"replicas": 3}}, "application/merge-patch+json", dryRun="All")
    assert costs(pods_of(api, namespace, "web")) == {}
    api.patch(path, {"spec": {"replicas": 3}})
    wait_for_ready(api, namespace, "web", 3, kind)
    assert names(pods_of(api, namespace, "web")) == before - named
    api.patch(path, {"spec": {"replicas": 4}})
    cluster.apply()
    assert cluster.journal() == {}


def test_in_a_rollout_it_goes_through_and_an_event_says_why(cluster: PickerCluster) -> None:
    api, namespace = cluster.api, cluster.namespace()
    in_force(cluster, namespace)
    create(api, [a_deployment("web", 4)], namespace)
    wait_for_ready(api, namespace, "web", 4)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    labels = {"reconciler.test/unready": "true"}
    api.patch(path, {"spec": {"template": {"metadata": {"labels": labels}}}})
    wait_until(lambda: len(pods_of(api, namespace, "web")) > 4, "the rollout to begin")
    scale(api, namespace, "web", 2)
    assert replicas_of(api, namespace, "web") == 2

    def told() -> list[Object]:
        found = cluster.events(namespace, "DecreasedWithoutPicker")
        return [one for one in found if one["involvedObject"]["name"] == "web"]

    assert "in the middle of a rollout" in wait_until(told, "an Event")[0]["message"]
    cluster.apply()
    assert ["in the middle of a rollout" in one["message"] for one in told()] == [True], "no second one by the run"
    api.delete(path)


def test_what_a_stolen_token_of_it_may_do(cluster: PickerCluster) -> None:
    api, namespace = cluster.api, cluster.namespace()
    create(api, [a_deployment("web", 1)], namespace)
    wait_for_ready(api, namespace, "web", 1)
    [pod] = pods_of(api, namespace, "web")
    own, token = deployed.OWN, cluster.plane.service_account(deployed.OWN, ACCOUNT)
    thief = Api(cluster.plane.url, cluster.plane.ca_file, token)
    pods = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}?dryRun=All"
    web = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    own_maps = f"/api/v1/namespaces/{own}/configmaps"

    def refused(method: str, path: str, body: Object | None = None) -> bool:
        return (
            deployed.refusal(thief, method, path, body, MERGE_PATCH if method == "PATCH" else "application/json") != ""
        )

    assert not refused("PATCH", pods, {"metadata": {"annotations": {COST: "-2147483647"}}})
    assert refused("PATCH", pods, {"metadata": {"annotations": {"other": "text"}}})
    assert refused("PATCH", pods, {"spec": {"containers": [{"name": "main", "image": "evil:1"}]}})
    assert refused("DELETE", pods)
    assert refused("PATCH", f"{web}?dryRun=All", {"spec": {"replicas": 0}})
    assert refused("PATCH", f"{web}/scale?dryRun=All", {"spec": {"replicas": 0}})
    assert refused("GET", f"/api/v1/namespaces/{namespace}/secrets")
    assert refused("GET", f"{own_maps}/reconciler-policies")
    assert refused("POST", f"{own_maps}?dryRun=All", {"metadata": {"name": "reconciler-policies"}})
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": namespace}, "reportingComponent": "somebody"}
    assert refused("POST", f"/api/v1/namespaces/{namespace}/events?dryRun=All", event)


@deployed.needs_kubectl
def test_the_commands_of_the_page(cluster: PickerCluster) -> None:
    api, page = cluster.api, deployed.DEPLOY.parent / "docs" / "how-to" / "picker.md"
    create(api, [a_namespace("ci")])
    create(api, [a_deployment("runner", 5)], "ci")
    wait_for_ready(api, "ci", "runner", 5)
    label, scaling, removal = deployed.blocks_of(page, "sh")
    admin = cluster.plane.kubeconfig()
    deployed.shell(label, cluster.folder, admin)
    in_force(cluster, "ci")
    scale_only, events = scaling.splitlines()
    deployed.shell(scale_only, cluster.folder, admin)
    wait_until(lambda: len(cluster.events("ci", "VictimsPicked")) > 1, "the Event")
    assert "VictimsPicked" in deployed.shell(events, cluster.folder, admin)
    deployed.shell(removal, cluster.folder, admin)
    found = api.get(f"/api/v1/namespaces/{deployed.OWN}/configmaps/reconciler-journal")
    assert "picker" not in found.get("data", {})


def test_metrics_and_what_is_no_review(cluster: PickerCluster) -> None:
    text = cluster.metrics()
    assert 'reconciler_picker_reviews_total{result="picked"}' in text
    assert "reconciler_picker_review_seconds_bucket" in text
    assert text.endswith("# EOF\n")
