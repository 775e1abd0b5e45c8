"""What a plan takes of the answers of pod pickers that it asks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.connection_settings import PickerAnswer
from reconciler.decide.decide import decide
from reconciler.observe.pods import asked_pickers
from reconciler.policy.types import DownscaleTarget
from tests.builders import a_cluster, a_fleet, a_pod, a_policy_set, a_run, a_state, a_workload
from tests.decide.downscale.world import PICKER, Picker, a_downscale_policy


@pytest.mark.parametrize(
    ("on_too_few", "on_error", "notices", "chosen"),
    [
        pytest.param("fill", "skip", [], ("a", "b"), id="filled"),
        pytest.param("reject", "skip", [("picker", True)], (), id="rejected, partial where apply defers"),
        pytest.param("reject", "fallback", [("picker", False)], (), id="rejected, where apply falls back"),
    ],
)
def test_too_few_are_a_failed_call_as_at_apply(
    on_too_few: Any, on_error: Any, notices: list[tuple[str, bool]], chosen: tuple[str, ...]
) -> None:
    web = a_workload(kind="ReplicaSet")
    picker = replace(PICKER, on_too_few=on_too_few, on_error=on_error)
    policy = a_downscale_policy("ReplicaSet", target=DownscaleTarget(replicas=1), pod_picker=picker)
    policies = a_policy_set(a_fleet(), downscale=(policy,))
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: tuple(map(a_pod, "abc"))}))
    client = Picker(PickerAnswer(("a",)))
    desired = asked_pickers(decide(policies, state, a_run()), policies, state, a_run(), {"east": client})
    assert len(client.asked) == 1
    assert [(notice.kind, notice.partial) for notice in desired.notices] == notices
    [decision] = desired.decisions
    assert decision.victims is not None
    assert (decision.victims.pods, decision.victims.chosen_at_apply) == (chosen, not chosen)
