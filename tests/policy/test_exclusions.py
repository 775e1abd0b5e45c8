"""`exclude` of a policy: its shape, its clusters, and what is hardly meant."""

from __future__ import annotations

import pytest

from reconciler.policy.load import read_policies
from reconciler.policy.types import ObjectSelector, Selector, WorkloadSelector
from tests.policy.base import FILES, edited, problems_in
from tests.way.calls import inside

ONLY_CLUSTERS = "  idleWhen:\n"


def excluding(text: str) -> dict[str, str]:
    return edited("idling.yaml", ONLY_CLUSTERS, f"  exclude:\n{text}{ONLY_CLUSTERS}")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(excluding("    - workloads: {include: [db]}\n"), [], id="workloads"),
        pytest.param(excluding("    - services: {matchLabels: {keep: up}}\n"), [], id="services"),
        pytest.param(excluding("    - namespaces: {include: [dev-shared]}\n"), [], id="namespaces alone"),
        pytest.param(
            excluding("    - {}\n"),
            [
                "policies/idling.yaml:11:7: spec.exclude[0]: excludes everything, expected clusters, namespaces, "
                "services or workloads; to switch the policy off, say mode: Observe"
            ],
            id="everything",
        ),
        pytest.param(
            excluding("    - clusters: {include: [eu-wst]}\n"),
            [
                'policies/idling.yaml:11:28: spec.exclude[0].clusters.include[0]: is "eu-wst", expected a cluster of '
                'the Fleet, did you mean "eu-west"?'
            ],
            id="an unknown cluster",
        ),
        pytest.param(
            excluding("    - namespace: {include: [dev-shared]}\n"),
            ['policies/idling.yaml:11:7: spec.exclude[0].namespace: unknown field, did you mean "namespaces"?'],
            id="a misspelt part, which alone is no exclusion of everything",
        ),
        pytest.param(
            excluding("    - workloads: {kinds: [DaemonSet]}\n"),
            [
                'policies/idling.yaml:11:27: spec.exclude[0].workloads.kinds[0]: is "DaemonSet", expected a kind with '
                "replicas, like Deployment"
            ],
            id="a kind without replicas",
        ),
        pytest.param(
            edited("downscale.yaml", "  target:\n", "  exclude: [{services: {}}]\n  target:\n"),
            ["policies/downscale.yaml:8:14: spec.exclude[0].services: unknown field"],
            id="a DownscalePolicy selects no Services, and excludes none",
        ),
    ],
)
def test_what_may_be_excluded(tmp_path, files, expected):
    assert problems_in(tmp_path, files) == expected


def test_the_policy_has_its_exclusions_and_keeps_its_selector(tmp_path):
    assert not problems_in(tmp_path, excluding("    - workloads: {include: [db]}\n"))
    with inside(tmp_path):
        policy = read_policies("policies").idling[0]
    assert policy.exclude == (Selector(workloads=WorkloadSelector(objects=ObjectSelector(include=("db",)))),)
    assert policy.selector.workloads is None


def test_an_exclusion_that_reaches_no_cluster_is_a_warning(tmp_path):
    assert not problems_in(tmp_path, excluding("    - clusters: {matchLabels: {region: asia}}\n"))
    with inside(tmp_path):
        warnings = read_policies("policies").warnings
    assert "policies/idling.yaml:11:17: spec.exclude[0].clusters: selects no cluster of the Fleet" in map(str, warnings)


def test_without_exclusions_nothing_is_said_of_them(tmp_path):
    assert not problems_in(tmp_path, FILES)
    with inside(tmp_path):
        assert read_policies("policies").idling[0].exclude == ()
