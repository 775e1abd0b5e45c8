"""A ScaledObject on a real API server that is deleted while it is paused; the test plays KEDA."""

from __future__ import annotations

import pytest

from tests.live.one_namespace import OneNamespace
from tests.real.objects import SCALED_OBJECT, a_deployment, a_service, for_deployment, with_metadata
from tests.real.worlds import create, create_missing, wait_for_ready

PAUSED = "autoscaling.keda.sh/paused-replicas"


class Queue:
    """The Deployment web of a namespace, behind a Service, and the ScaledObject that scales it."""

    def __init__(self, own: OneNamespace) -> None:
        self._own = own
        self.web = own.path("web")
        self.service = f"/api/v1/namespaces/{own.namespace}/services/web"
        self.scaled_object = f"/apis/keda.sh/v1alpha1/namespaces/{own.namespace}/scaledobjects/queue"
        create_missing(own.api, [SCALED_OBJECT])
        scaled = with_metadata(for_deployment("keda.sh/v1alpha1", "ScaledObject", "web", triggers=[]), name="queue")
        create(own.api, [a_service("web"), a_deployment("web", 3), scaled], own.namespace)
        wait_for_ready(own.api, own.namespace, "web", 3)

    def keda(self) -> None:
        """Scale the target to what the ScaledObject is paused at, as the operator does."""
        paused = self._own.annotations(self.scaled_object).get(PAUSED)
        if paused is not None:
            count = int(paused)
            self._own.api.patch(self.web, {"spec": {"replicas": count}}, fieldManager="keda-operator")
            wait_for_ready(self._own.api, self._own.namespace, "web", count)

    def records(self, *paths: str) -> list[bool]:
        return ["idling.kubernetes.io/idled-at" in self._own.annotations(path) for path in paths]


@pytest.fixture
def queue(one_namespace: OneNamespace) -> Queue:
    return Queue(one_namespace)


def asleep(queue: Queue, own: OneNamespace) -> None:
    own.apply("2035-11-19T23:00:00Z")
    queue.keda()
    assert own.replicas("web") == [0]
    assert queue.records(queue.scaled_object, queue.web, queue.service) == [True, True, True]


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param("services: {}", id="its policy wakes it"),
        pytest.param("workloads: {kinds: [CronJob]}", id="its policy was removed with it"),
    ],
)
def test_the_target_of_a_deleted_scaled_object_wakes(queue: Queue, one_namespace: OneNamespace, policies: str) -> None:
    asleep(queue, one_namespace)
    one_namespace.api.delete(queue.scaled_object)
    one_namespace.apply("2035-11-19T23:10:00Z")
    assert one_namespace.replicas("web") == [0]
    one_namespace.write(selector=policies)
    one_namespace.apply("2035-11-20T07:30:00Z")
    assert one_namespace.replicas("web") == [3]
    assert queue.records(queue.web, queue.service) == [False, False]
    assert "No changes" in one_namespace.call("plan", "policies", "--now", "2035-11-20T07:40:00Z")


def test_it_is_given_back_by_hand_too(queue: Queue, one_namespace: OneNamespace) -> None:
    asleep(queue, one_namespace)
    one_namespace.api.delete(queue.scaled_object)
    one_namespace.call(
        "restore", f"member/{one_namespace.namespace}", "--auto-approve", "--now", "2035-11-19T23:30:00Z"
    )
    assert one_namespace.replicas("web") == [3]


def test_a_wake_leaves_the_target_to_keda_and_no_record_on_it(queue: Queue, one_namespace: OneNamespace) -> None:
    asleep(queue, one_namespace)
    one_namespace.apply("2035-11-20T07:30:00Z")
    assert PAUSED not in one_namespace.annotations(queue.scaled_object)
    assert one_namespace.replicas("web") == [0]
    assert queue.records(queue.scaled_object, queue.web, queue.service) == [False, False, False]
    assert "No changes" in one_namespace.call("plan", "policies", "--now", "2035-11-20T07:40:00Z")
