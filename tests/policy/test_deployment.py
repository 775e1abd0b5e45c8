"""A Deployment with a pod picker is another form of a DownscalePolicy."""

from __future__ import annotations

import pytest

from reconciler.policy.compiled import compile_policies
from reconciler.policy.load import read_policies
from tests.pipeline.calls import inside
from tests.policy.base import DEPLOYMENT, FLEET, problems_in


def deployment(old: str = "", new: str = "") -> dict[str, str]:
    assert not old or DEPLOYMENT.count(old) == 1
    return {"fleet.yaml": FLEET, "deployment.yaml": DEPLOYMENT.replace(old, new) if old else DEPLOYMENT}


def test_a_deployment_with_a_pod_picker_is_a_downscale_policy_for_it_alone(tmp_path):
    assert problems_in(tmp_path, deployment()) == []
    with inside(tmp_path):
        (policy,) = read_policies("policies").downscale
        (rule,) = [one for one in compile_policies(read_policies("policies"))["rules"] if one["kind"] != "Fleet"]
    assert (policy.name, policy.target, policy.mode) == ("deployment.sorting.sorter", None, "Enforce")
    assert policy.pod_picker is not None
    assert policy.pod_picker.host == "sorter.sorting.svc"
    assert (rule["kind"], rule["spec"]["podPicker"]["http"]["port"]) == ("DownscalePolicy", 443)
    assert rule["spec"]["selector"]["namespaces"]["include"] == ["sorting"]
    workloads = rule["spec"]["selector"]["workloads"]
    assert (workloads["kinds"], workloads["include"]) == (["Deployment"], ["sorter"])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "  downscalePodPicker:\n    http: {host: sorter.sorting.svc, path: /downscale-pod-picker}\n",
            "",
            "policies/deployment.yaml:5:3: spec.downscalePodPicker: is missing, expected a mapping",
            id="without one",
        ),
        pytest.param(
            "sorter.sorting.svc",
            "sorter.example",
            "policies/deployment.yaml:11:18: spec.downscalePodPicker.http.host: is",
            id="a host that the Fleet does not allow",
        ),
        pytest.param(
            "{name: sorter, namespace: sorting}",
            "{name: Sorter, namespace: sorting}",
            "policies/deployment.yaml:3:18: metadata.name: is",
            id="no name of a Deployment",
        ),
    ],
)
def test_a_deployment_that_says_nothing_or_too_much_is_refused(tmp_path, old, new, expected):
    (problem,) = problems_in(tmp_path, deployment(old, new))
    assert problem.startswith(expected)


DOWNSCALE = """\
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: NAME}
spec: {selector: {workloads: {kinds: [Deployment]}}, target: {replicas: 3}}
"""


def test_no_other_policy_has_the_name_of_its_policy(tmp_path):
    files = {**deployment(), "other.yaml": DOWNSCALE.replace("NAME", "deployment.sorting.sorter")}
    assert problems_in(tmp_path, files) == [
        'policies/other.yaml:3:18: metadata.name: is "deployment.sorting.sorter" a second time, expected a name of its '
        "own; the first is at policies/deployment.yaml:1"
    ]


@pytest.mark.parametrize("file", ["a.yaml", "z.yaml"])
def test_a_conflict_is_said_where_the_priority_can_be(tmp_path, file):
    problems_in(tmp_path, {**deployment(), file: DOWNSCALE.replace("NAME", "other")})
    with inside(tmp_path):
        (conflict,) = read_policies("policies").conflicts
    assert (conflict.file, conflict.field) == (f"policies/{file}", "spec.priority")
    assert "of DownscalePolicy deployment.sorting.sorter at policies/deployment.yaml:1" in conflict.message
