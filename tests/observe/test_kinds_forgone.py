"""What a run does without where it may not read it: custom kinds that no policy can select."""

from __future__ import annotations

import pytest

from reconciler.observe.needed_objects import EVERYTHING, needed_objects
from reconciler.policy.kinds.selector import Selector, WorkloadSelector
from reconciler.workload_kinds import WorkloadKind
from tests.builders import a_policy_set, an_idling_policy


@pytest.mark.parametrize(
    ("named", "does_without"),
    [
        pytest.param(("StatefulSet.apps",), True, id="one that is called alike, with its group"),
        pytest.param(("Deployment",), True, id="another"),
        pytest.param((), True, id="none"),
        pytest.param(("StatefulSet",), False, id="by its name alone"),
        pytest.param(("statefulset.apps.kruise.io",), False, id="in lower case, with its group"),
    ],
)
def test_a_custom_kind_that_no_policy_names_is_done_without(named, does_without):
    selector = Selector(workloads=WorkloadSelector(named))
    policies = a_policy_set(idling=(an_idling_policy("nights", selector=selector),))
    kruise = WorkloadKind("apps.kruise.io", "v1beta1", "StatefulSet", "statefulsets")
    assert needed_objects(policies, "east", EVERYTHING, frozenset()).forgoes(kruise) is does_without
