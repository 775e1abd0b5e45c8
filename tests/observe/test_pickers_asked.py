"""What a plan takes of the answers of pod pickers that it asks."""

from __future__ import annotations

from threading import Barrier

import pytest
from msgspec.structs import replace

from reconciler.backends.protocols import PodPickerClient
from reconciler.connection_settings import PickerAnswer
from reconciler.decide.decide import decide, with_picked_pods
from reconciler.decide.decisions import DesiredState
from reconciler.decide.downscale.planned_victims import picker_requests
from reconciler.model import ObservedState
from reconciler.observe.pods import answers_of_pickers
from reconciler.policy.types import DownscaleTarget, PolicySet
from reconciler.worker_pool import WorkerPool
from tests.builders import a_cluster, a_fleet, a_pod, a_policy_set, a_run, a_state, a_workload
from tests.decide.downscale.world import PICKER, a_downscale_policy
from tests.fakes import FakePicker


def _picked(policies: PolicySet, state: ObservedState, picker: PodPickerClient, pool: WorkerPool) -> DesiredState:
    desired, run = decide(policies, state, a_run()), a_run()
    requests = picker_requests(desired.decisions, policies, state, run)
    answers = answers_of_pickers(requests, {"east": picker}, pool)
    return with_picked_pods(desired, policies, state, run, answers)


@pytest.mark.parametrize(
    ("on_too_few", "on_error", "notices", "chosen"),
    [
        pytest.param("fill", "skip", [], ("a", "b"), id="filled"),
        pytest.param("reject", "skip", [("picker", True)], (), id="rejected, partial where apply defers"),
        pytest.param("reject", "fallback", [("picker", False)], (), id="rejected, where apply falls back"),
    ],
)
def test_too_few_are_a_failed_call_as_at_apply(on_too_few, on_error, notices, chosen):
    web = a_workload(kind="ReplicaSet")
    picker = replace(PICKER, on_too_few=on_too_few, on_error=on_error)
    policy = a_downscale_policy("ReplicaSet", target=DownscaleTarget(replicas=1), pod_picker=picker)
    policies = a_policy_set(a_fleet(), downscale=(policy,))
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: tuple(map(a_pod, "abc"))}))
    client = FakePicker(PickerAnswer(("a",)))
    desired = _picked(policies, state, client, WorkerPool(0))
    assert len(client.asked) == 1
    assert [(notice.kind, notice.partial) for notice in desired.notices] == notices
    [decision] = desired.decisions
    assert (decision.victims.pods, decision.victims.chosen_at_apply) == (chosen, not chosen)


def test_workloads_are_asked_about_side_by_side():
    both = Barrier(2, timeout=60)

    class Slow:
        def pick(self, request):
            both.wait()  # until the other one is asked about
            return PickerAnswer(request.candidates[: request.count])

    workloads = tuple(a_workload(kind="ReplicaSet", name=name) for name in ("api", "web"))
    policy = a_downscale_policy("ReplicaSet", target=DownscaleTarget(replicas=1), pod_picker=PICKER)
    policies = a_policy_set(a_fleet(), downscale=(policy,))
    state = a_state(a_cluster(workloads=workloads, pods={web.ref: tuple(map(a_pod, "abc")) for web in workloads}))
    desired = _picked(policies, state, Slow(), WorkerPool())
    assert [len(decision.victims.pods) for decision in desired.decisions if decision.victims] == [2, 2]
    assert desired.notices == ()
