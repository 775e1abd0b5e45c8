"""What any user may write into a custom resource, or a server may answer: it makes its own kind unreadable, no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from reconciler.backends.kubernetes.errors import refusal_status
from reconciler.backends.kubernetes.pages import decoded
from reconciler.backends.kubernetes.request_form import Operation
from reconciler.backends.protocols import NAMESPACES, workloads_of
from reconciler.errors import MalformedAnswerError
from reconciler.http.client import HttpResponse
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind
from tests.backends.kubernetes.live import opened
from tests.real import faults
from tests.real.cluster import create, served_meanwhile
from tests.real.objects import a_crd, a_deployment, an_object, with_metadata
from tests.real.proxy import Proxy, Request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.control_plane import ControlPlane

GROUP = "odd.example"
ODD = WorkloadKind(GROUP, "v1alpha1", "Odd", "odds")
SECRETS = Operation("east", "get", "secrets", "shop", "a")


@pytest.fixture(scope="module")
def odd(api_server: ControlPlane) -> Iterator[ControlPlane]:
    crd = a_crd("Odd", GROUP, scale=True)
    with served_meanwhile(api_server.api, [crd]):
        yield api_server


def test_maps_nested_a_thousand_deep_make_their_kind_unreadable_and_no_other(odd: ControlPlane, tmp_path: Path) -> None:
    text = '{"metadata": {"name": "web"}, "spec": ' + '{"a": ' * 3000 + "1" + "}" * 3001
    cluster_path = f"/apis/{GROUP}/v1alpha1/odds"
    with Proxy(odd.access(), tmp_path) as proxy:
        body = ('{"items": [' + text + "]}").encode()
        proxy.rule(faults.answer(200, body), matching=lambda asked: asked.path == cluster_path, times=None)
        cluster = opened(proxy.kubeconfig("east"))
        with pytest.raises(MalformedAnswerError, match=r"^east: list odds\.odd\.example: the answer is not JSON \("):
            cluster.list(workloads_of(ODD))
        assert len(cluster.list(NAMESPACES)) > 0


def test_a_count_written_as_a_very_long_text_is_none(odd: ControlPlane, api_namespace: str) -> None:
    status = {"observedGeneration": "9" * 5000, "replicas": 2}
    create(odd.api, [an_object(f"{GROUP}/v1alpha1", "Odd", "web", spec={"replicas": 2})], api_namespace)
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{api_namespace}/odds/web/status"
    odd.api.patch(path, {"status": status})
    (found,) = opened(odd.kubeconfig("east")).list(workloads_of(ODD), namespace=api_namespace)
    assert (found.status_replicas, found.observed_generation) == (2, None)


@pytest.mark.parametrize("time", ["0000-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_time_that_anybody_may_write_keeps_nobody_from_reading_a_list(
    api_server: ControlPlane, api_namespace: str, time: str
) -> None:
    """Whoever may create a Deployment states who wrote it when, and the lists are those of the cluster."""
    entry = {"manager": "any", "operation": "Update", "apiVersion": "apps/v1", "time": time, "fieldsType": "FieldsV1"}
    made = with_metadata(
        a_deployment("web"), managedFields=[{**entry, "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}]
    )
    create(api_server.api, [made], api_namespace)
    resource = workloads_of(SCALABLE_KINDS["apps", "Deployment"])
    assert len(opened(api_server.kubeconfig("east")).list(resource, namespace=api_namespace)) == 1


def test_an_answer_that_is_no_utf_8(api_server: ControlPlane, tmp_path: Path) -> None:
    def is_list(request: Request) -> bool:
        return request.path == "/api/v1/namespaces"

    with Proxy(api_server.access(), tmp_path) as proxy:
        proxy.rule(faults.answer(200, b'{"items": [{"metadata": {"name": "\xff"}}]}'), matching=is_list, times=None)
        with pytest.raises(MalformedAnswerError, match=r"^east: list namespaces: the answer is not JSON \("):
            opened(proxy.kubeconfig("east")).list(NAMESPACES)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"message": "\xff"}', id="no UTF-8"),
        pytest.param(b'{"message": ' * 3000, id="nested too deep"),
    ],
)
def test_an_object_and_a_refusal_that_cannot_be_decoded(body: bytes) -> None:
    with pytest.raises(MalformedAnswerError, match=r"^east: get secrets a in shop: the answer is (malformed|not JSON)"):
        decoded(body, dict, SECRETS)
    assert (refusal_status(HttpResponse(403, {}, body)).message or "").startswith('{"message": ')
