"""A signal wakes what is behind a Service, on a real API server, with the rights of the component."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.activator.wake import CLUSTER, Waker, WakeView
from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.protocols import RequestSettings, workloads_of
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import ForbiddenError, RefusedError
from tests.activator.in_cluster import OWN, always_idle, install
from tests.pipeline.calls import Folder
from tests.real.api import JSON_PATCH, ApiError
from tests.real.cluster import create, deployment_path, replicas_of
from tests.real.control_plane import ControlPlane
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_deployment, a_service, an_object

IDLED_AT = "idling.kubernetes.io/idled-at"
TARGETS = "idling.kubernetes.io/unidle-targets"
REQUESTED = "reconciler/wake-requested-at"
AWAKE_SINCE = "reconciler/awake-since"


class IdledNamespace:
    """A namespace in which a run has idled Deployments web (3) and api (2), each with its Service."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path) -> None:
        self.plane = plane
        self.api = plane.api
        self.namespace = namespace
        self.folder = Folder(folder)
        kubeconfig = write_kubeconfig(folder / "kubeconfig.yaml", {"member": plane.access()})
        self.folder.write("policies/all.yaml", always_idle(kubeconfig, namespace))
        objects = [a_deployment("web", 3), a_service("web"), a_deployment("api", 2), a_service("api")]
        create(self.api, objects, namespace)
        self.idle()

    def idle(self) -> None:
        said = self.folder.call(
            "apply", "policies", "--auto-approve", "--quiet", "--credentials-dir", str(self.folder.path)
        )
        assert said.code == 0, said.out + said.err
        assert self.replicas() == [0, 0]

    def replicas(self) -> list[int]:
        return [replicas_of(self.api, self.namespace, name) for name in ("web", "api")]

    def service(self, name: str = "web") -> Mapping[str, str]:
        """The annotations of a Service."""
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/services/{name}")
        return found["metadata"].get("annotations", {})

    def deployment(self, name: str = "web") -> Mapping[str, str]:
        """The annotations of a Deployment."""
        return self.api.get(deployment_path(self.namespace, name))["metadata"].get("annotations", {})

    def events(self, reason: str) -> list[str]:
        events = self.api.items(f"/api/v1/namespaces/{self.namespace}/events", fieldSelector=f"reason={reason}")
        return sorted(one["involvedObject"]["name"] for one in events)

    def view(self, account: str = "reconciler-activator") -> WakeView:
        path = self.folder.path / "activator.yaml"
        write_kubeconfig(path, {CLUSTER: self.plane.access(self.plane.service_account(OWN, account))})
        reached = ClusterConnection(CLUSTER, kubeconfig=str(path))
        return WakeView(ApiClient(ApiServerConnection(reached), RequestSettings()))

    def waker(self, *, read_only: bool = False, account: str = "reconciler-activator", behind: float = 0) -> Waker:
        """A waker under a ServiceAccount; its clock is so many seconds `behind`."""

        def now() -> datetime:
            return datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=behind)

        return Waker(self.view(account), OWN, now, read_only=read_only)


@pytest.fixture
def idled(api_server: ControlPlane, api_namespace: str, tmp_path: Path) -> IdledNamespace:
    install(api_server)
    return IdledNamespace(api_server, api_namespace, tmp_path)


def test_what_is_behind_the_service_is_restored_and_nothing_else(idled: IdledNamespace) -> None:
    assert idled.waker().wake(idled.namespace, {"web"}) == {"web": ""}
    assert idled.replicas() == [3, 0]
    assert IDLED_AT not in idled.service("web")
    assert TARGETS not in idled.service("web")
    assert IDLED_AT in idled.service("api")
    assert IDLED_AT not in idled.deployment("web")
    assert idled.deployment("web")[AWAKE_SINCE] <= idled.service("web")[REQUESTED]
    assert (idled.events("NeedPods"), idled.events("Woken")) == (["web"], ["web"])
    assert idled.events("") == [], "that a mark went is told by no Event"
    before = idled.api.get(deployment_path(idled.namespace, "web"))
    assert idled.waker().wake(idled.namespace, {"web", "gone"}) == {}, "what is awake or gone is left alone"
    assert idled.api.get(deployment_path(idled.namespace, "web")) == before


def test_a_clock_that_is_behind_that_of_the_run_wakes_all_the_same(idled: IdledNamespace) -> None:
    assert idled.waker(behind=3600).wake(idled.namespace, {"web", "api"}) == {"web": "", "api": ""}
    assert idled.replicas() == [3, 2]


def test_replicas_that_wake_at_once_wake_once(idled: IdledNamespace) -> None:
    wakers = [idled.waker() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda one: one.wake(idled.namespace, {"web"}), wakers))
    assert wakers[0].wake(idled.namespace, {"web"}) == {}
    assert idled.replicas() == [3, 0]
    assert (idled.events("NeedPods"), idled.events("Woken")) == (["web"], ["web"])


def test_where_the_replicas_of_a_custom_kind_are_may_be_read(idled: IdledNamespace) -> None:
    found = idled.view().scale_kinds()
    assert ("apps.kruise.io", "CloneSet") in {(kind.group, kind.kind) for kind in found}
    with pytest.raises(ForbiddenError, match="list clonesets"):
        idled.view().list(workloads_of(next(kind for kind in found if kind.kind == "CloneSet")))


def test_read_only_tells_and_wakes_nothing(idled: IdledNamespace) -> None:
    assert idled.waker(read_only=True).wake(idled.namespace, {"web"}) == {"web": ""}
    assert idled.replicas() == [0, 0]
    assert REQUESTED in idled.service("web")
    assert (idled.events("NeedPods"), idled.events("Woken")) == (["web"], [])


def test_what_may_not_be_read_is_told(idled: IdledNamespace) -> None:
    [problem] = idled.waker(account="nobody").wake(idled.namespace, {"web"}).values()
    assert "forbidden" in problem
    assert idled.replicas() == [0, 0]


def marked_only(idled: IdledNamespace) -> None:
    """Make it as a run leaves it between its mark on the Service and the scale of the Deployment."""
    path = deployment_path(idled.namespace, "web")
    found = idled.api.get(path)
    ours = [key for key in found["metadata"]["annotations"] if "reconciler/" in key or "kubernetes.io/" in key]
    cleared = dict.fromkeys(key for key in ours if not key.startswith("deployment."))
    idled.api.patch(path, {"metadata": {"annotations": cleared}, "spec": {"replicas": 3}})


def test_a_signal_between_mark_and_scale_makes_the_scale_of_the_run_stale(idled: IdledNamespace) -> None:
    marked_only(idled)
    marked_at = idled.service("web")[IDLED_AT]
    assert idled.waker().wake(idled.namespace, {"web"}) == {"web": ""}
    assert idled.replicas() == [3, 0]
    assert idled.deployment("web")[AWAKE_SINCE] >= marked_at
    # What the run would write now tests that nobody woke it meanwhile.
    idle = [
        {"op": "test", "path": "/metadata/annotations/reconciler~1awake-since", "value": None},
        {"op": "replace", "path": "/spec/replicas", "value": 0},
    ]
    with pytest.raises(ApiError) as refused:
        idled.api.patch(deployment_path(idled.namespace, "web"), idle, JSON_PATCH)
    assert refused.value.status == 422
    before = idled.deployment("web")
    assert idled.waker().wake(idled.namespace, {"web"}) == {}
    assert idled.deployment("web") == before


def test_what_keeps_one_service_of_a_group_back_is_said_of_all_of_it(
    idled: IdledNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are tried again: neither was woken."""
    another = a_service("web")
    another["metadata"]["name"] = "web-too"
    create(idled.api, [another], idled.namespace)
    idled.idle()
    waker, left = idled.waker(), [RefusedError("refused")]

    def refuse_once(*_: object) -> None:
        if left:
            raise left.pop()

    monkeypatch.setattr(waker, "_keep_awake", refuse_once)
    assert waker.wake(idled.namespace, {"web", "web-too"}) == {"web": "refused", "web-too": "refused"}
    assert idled.replicas() == [0, 0]
    assert waker.wake(idled.namespace, {"web", "web-too"}) == {"web": "", "web-too": ""}
    assert idled.replicas() == [3, 0]


def test_what_says_it_is_idle_as_oc_idle_writes_it_goes_with_our_record(idled: IdledNamespace) -> None:
    marked_only(idled)
    theirs = {key.replace("kubernetes", "alpha.openshift"): idled.service("web")[key] for key in (IDLED_AT, TARGETS)}
    path = f"/api/v1/namespaces/{idled.namespace}/services/web"
    idled.api.patch(path, {"metadata": {"annotations": theirs}})  # markPrefix: openshift
    assert idled.waker().wake(idled.namespace, {"web"}) == {"web": ""}
    assert not {IDLED_AT, TARGETS, *theirs} & idled.service("web").keys()


def of_oc_idle(idled: IdledNamespace) -> None:
    """Make a Deployment and a Service as `oc idle` leaves them."""
    at = {"idling.alpha.openshift.io/idled-at": "2026-01-01T00:00:00Z"}
    former = {**at, "idling.alpha.openshift.io/previous-scale": "4"}
    targets = '[{"kind":"Deployment","name":"old","replicas":4}]'
    deployment = a_deployment("old", 0)
    deployment["metadata"]["annotations"] = former
    service = an_object(
        "v1",
        "Service",
        "old",
        metadata={"annotations": {**at, "idling.alpha.openshift.io/unidle-targets": targets}},
        spec={"selector": {"app": "old"}, "ports": [{"port": 80}]},
    )
    create(idled.api, [deployment, service], idled.namespace)


def test_what_oc_idle_idled_is_woken(idled: IdledNamespace) -> None:
    of_oc_idle(idled)
    assert idled.waker().wake(idled.namespace, {"old"}) == {"old": ""}
    assert replicas_of(idled.api, idled.namespace, "old") == 4
    assert "idling.alpha.openshift.io/idled-at" not in idled.service("old")
