"""Valid policies -> values, with every default filled in; and what about them is worth a warning."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import astuple

from reconciler.connection_settings import ClusterConnection, PickerHeader, PrometheusConnection, SecretKey
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.policy.kinds.cluster import PrometheusFields
from reconciler.policy.kinds.federated_replica_set import TargetRef
from reconciler.policy.load import read_policies
from reconciler.policy.types import (
    AbsoluteWindow,
    AllOf,
    AnyOf,
    ClusterPreference,
    DownscaleTarget,
    FleetCluster,
    Limits,
    MetricCriterion,
    ObjectSelector,
    Place,
    PolicySet,
    ScheduleCriterion,
    Selector,
    WakeMetric,
    WakeOrder,
    WeeklyWindow,
    WorkloadSelector,
)
from tests.builders import a_picker
from tests.pipeline.calls import inside
from tests.policy.base import FILES, FLEET, SAMPLES, edited, warnings


def read(folder: Path, files: dict[str, str]) -> PolicySet:
    for name, text in files.items():
        (folder / name).write_text(text)
    with inside(folder):
        return read_policies(".")


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> PolicySet:
    return read(tmp_path_factory.mktemp("policies"), SAMPLES)


def test_the_documentation_as_values(samples):
    assert samples.fleet.clusters == (
        FleetCluster(
            name="eu-west",
            labels={"region": "eu"},
            prometheus=PrometheusFields(
                url="https://prometheus.eu:9090", bearer_token_file="/var/run/secrets/prom/token"
            ),
            connection=ClusterConnection(
                "eu-west",
                in_cluster=True,
                prometheus=PrometheusConnection(
                    "https://prometheus.eu:9090", bearer_token_file="/var/run/secrets/prom/token"
                ),
            ),
        ),
        FleetCluster(
            name="us-east", labels={"region": "us"}, connection=ClusterConnection("us-east", context="us-east")
        ),
        FleetCluster(name="C", connection=ClusterConnection("C", context="C")),
    )
    policy = samples.idling[0]
    assert policy.selector == Selector(
        ObjectSelector(("*",), labels=LabelSelector((("region", "eu"),))),
        ObjectSelector(("dev-*",), ("dev-shared",)),
        ObjectSelector(labels=LabelSelector((("tier", "web"),), (LabelRequirement("app", "NotIn", ("db",)),))),
        WorkloadSelector(("Deployment", "StatefulSet")),
    )
    metric, schedule = policy.idle_when.criteria
    assert metric == MetricCriterion(
        query="sum by (namespace, service) (increase(nginx_ingress_controller_requests[{{ window }}]))",
        at_most=0,
        window="30m",
        no_series="Unknown",
        coverage="min by (namespace, service) (count_over_time(up[{{ window }}]))",
        coverage_at_least=50,
    )
    assert schedule == ScheduleCriterion(samples.calendars[0])
    assert policy.wake_when == (WakeMetric("...", 0, "5m"),)
    assert (policy.wake_order, policy.limits) == (WakeOrder("shop"), Limits(workloads=5))
    assert policy.place == Place("idling.yaml", 1)


def test_calendars_as_values(samples):
    calendar = samples.calendars[0]
    assert (calendar.name, calendar.zone_name, calendar.zone) == (
        "office-hours-off",
        "Europe/Paris",
        ZoneInfo("Europe/Paris"),
    )
    nights = tuple(WeeklyWindow(day, 20 * 60, 1, 7 * 60) for day in range(4))
    assert calendar.windows == (*nights, WeeklyWindow(4, 20 * 60, 3, 7 * 60))
    assert calendar.texts == ("Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00")
    assert calendar.exceptions == (AbsoluteWindow(datetime(2026, 12, 1), datetime(2026, 12, 4)),)
    assert calendar.place == Place("idling.yaml", 33)


def test_criteria_nest(samples):
    (any_of,) = samples.idling[1].idle_when.criteria
    assert isinstance(any_of, AnyOf)
    own, all_of = any_of.criteria
    assert isinstance(all_of, AllOf)
    assert (own.calendar.name, own.calendar.zone_name) == ("", "UTC")
    assert [inner.calendar.name for inner in all_of.criteria] == ["office-hours-off", ""]


def test_federated_replica_sets_as_values(samples):
    cache, docs, web = samples.federated
    assert [one.key for one in samples.federated] == ["default/cache", "default/docs", "shop/web"]
    assert web.clusters == {"*": ClusterPreference(weight=1), "C": ClusterPreference(0, 20, 1)}
    assert (web.replicas, web.rebalance, web.target) == (50, True, None)
    assert (docs.target, docs.selector, docs.template) == (TargetRef("apps/v1", "Deployment", "docs"), None, None)
    assert docs.pod_picker == a_picker("picker.docs.svc")
    assert docs.clusters == {"*": ClusterPreference(weight=1)}
    assert cache.clusters == {"eu-west": ClusterPreference(0, 9, 2), "*": ClusterPreference(1, None, 0)}
    assert (cache.replicas, cache.rebalance, cache.labels) == (6, True, {"team": "shop"})
    assert cache.selector == {"matchLabels": {"app": "cache"}}


def test_downscale_policies_as_values(samples):
    workers, runners = samples.downscale
    assert workers.target == DownscaleTarget("ceil(sum(airflow_running_tasks) / 8)", minimum=2, maximum=40)
    assert workers.pod_picker == a_picker(
        "my-app.my-namespace.svc.cluster.local",
        path="/downscale-pod-picker",
        headers=(
            PickerHeader("authentication", None, SecretKey("my-secret", "authentication-token")),
            PickerHeader("x-team", "data", None),
        ),
    )
    assert (runners.strategy, runners.target) == ("ZoneBalanced", DownscaleTarget(replicas=4))


ANNOTATION = '{"rebalance": true, "clusters": {"eu-west": {"Weight": 2}, "*": {"weight": 1}}}'
PREFERENCES = [
    pytest.param('{"Clusters": {"*": {"Weight": 1}}}', False, {"*": (0, None, 1)}, id="Go's field names"),
    pytest.param(
        '{"rebalance": true, "clusters": {"*": {"maxReplicas": 2, "weight": 1}}}', True, {"*": (0, 2, 1)}, id="two each"
    ),
    pytest.param('{"clusters": {"*": {"minReplicas": 20}}}', False, {"*": (20, None, 0)}, id="20 each"),
    pytest.param('{"Rebalance": true}', True, {"*": (0, None, 1)}, id="no clusters"),
    pytest.param("{}", False, {"*": (0, None, 1)}, id="nothing"),
    pytest.param(
        '{"clusters": {"eu-west": {"weight": 1000000}, "us-east": {"weight": 1, "maxReplicas": null}}}',
        False,
        {"eu-west": (0, None, 1_000_000), "us-east": (0, None, 1)},
        id="clusters by name",
    ),
    pytest.param('{"clusters": {"*": {"weight": 2.0}}}', False, {"*": (0, None, 2)}, id="a whole number with a point"),
]


@pytest.mark.parametrize(("annotation", "rebalance", "clusters"), PREFERENCES)
def test_preferences_in_the_annotation(tmp_path, annotation, rebalance, clusters):
    (found,) = [
        one
        for one in read(tmp_path, edited("replicaset.yaml", ANNOTATION, annotation)).federated
        if one.name == "cache"
    ]
    assert found.rebalance == rebalance
    assert {name: astuple(one) for name, one in found.clusters.items()} == clusters
    assert all(isinstance(number, int | None) for one in clusters.values() for number in one)


def test_the_digest_of_a_federated_replica_set_is_of_its_values(tmp_path):
    def digests(number: int, files: dict[str, str]) -> list[str]:
        (tmp_path / str(number)).mkdir()
        return [one.digest for one in read(tmp_path / str(number), files).federated]

    first = digests(1, FILES)
    assert all(len(digest) == 12 for digest in first)
    moved = digests(2, edited("federated.yaml", "rebalance: true", "rebalance:   true   # a word"))
    assert moved == first
    live = "spec:\n  replicas: 6\n"
    tolerated = edited("replicaset.yaml", live, "status: {replicas: 6}\n" + live)
    assert digests(3, tolerated) == first
    changed = digests(4, edited("federated.yaml", "weight: 1}\n  selector", "weight: 2}\n  selector"))
    assert [before == after for before, after in zip(first, changed, strict=True)] == [True, False]


UNION = (
    "policies/idling.yaml:8: spec.selector: has services and workloads, which add up: what workloads selects is idled, "
    "and what is behind a selected Service too, whether workloads selects that or not"
)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(FILES, (), id="one of each"),
        pytest.param(SAMPLES, (UNION,), id="documentation, with both parts of a selector"),
    ],
)
def test_usual_policies_have_no_warnings_but_that_services_and_workloads_add_up(tmp_path, files, expected):
    assert warnings(tmp_path, files) == expected


def test_a_policy_has_its_exclusions_and_keeps_its_selector(tmp_path):
    excluded = "  exclude: [{workloads: {include: [db]}}, {services: {matchLabels: {keep: up}}}]\n  idleWhen:\n"
    policy = read(tmp_path, edited("idling.yaml", "  idleWhen:\n", excluded)).idling[0]
    assert policy.exclude == (
        Selector(workloads=WorkloadSelector(objects=ObjectSelector(include=("db",)))),
        Selector(services=ObjectSelector(labels=LabelSelector((("keep", "up"),)))),
    )
    assert policy.selector.workloads is None


def test_a_duration_of_nothing_is_no_default(tmp_path):
    assert read(tmp_path, edited("idling.yaml", "minAge: 1h", "minAge: 0s")).idling[0].min_age == timedelta(0)


@pytest.mark.parametrize(("scheme", "port"), [("https", 443), ("http", 80)])
def test_the_port_of_a_picker_goes_by_its_scheme(tmp_path, scheme, port):
    secret = "allowInsecureAuth: true\n      "
    files = edited("downscale.yaml", "host: picker.airflow.svc\n", f"host: p.svc\n      {secret}scheme: {scheme}\n")
    assert read(tmp_path, files).downscale[0].pod_picker.port == port


def test_a_value_of_a_switch_that_is_whole_is_no_fraction(tmp_path):
    switch = (
        "  switches: [{apiVersion: a.io/v1, kind: Db, path: spec.on, off: 3.0, ready: {path: status.x, value: 1e3}}]\n"
    )
    policies = read(tmp_path, {"fleet.yaml": FLEET + switch})
    (kind,) = policies.fleet.switch_kinds
    assert (type(kind.off), kind.off) == (int, 3)
    assert (type(kind.ready.value), kind.ready.value) == (int, 1000)
