"""SleepInfos of kube-green, and the Secrets in which it remembers -> policies that validate, and replicas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.importing.kube_green import asleep_by_kube_green
from tests.importing.peers import imported, lost, sleep_info
from tests.pipeline.calls import Folder


def schedule(*downtime: str, zone: str = "UTC") -> list[dict[str, object]]:
    return [{"schedule": {"timeZone": zone, "downtime": [*downtime]}}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"timeZone": "Europe/Rome"}, schedule("Mon-Thu 20:00-08:00", "Fri 20:00-Mon 08:00", zone="Europe/Rome")),
        ({"weekdays": "*"}, schedule("20:00-08:00")),
        ({"weekdays": "sat,SUN"}, schedule("Sat 20:00-08:00", "Sun 20:00-Sat 08:00")),
        ({"weekdays": "MON-Fri"}, schedule("Mon-Thu 20:00-08:00", "Fri 20:00-Mon 08:00")),
        ({"weekdays": "0,6"}, schedule("Sat 20:00-08:00", "Sun 20:00-Sat 08:00")),
        ({"weekdays": "*/2", "sleepAt": "1:30", "wakeUpAt": "05:00"}, schedule("Tue,Thu,Sat-Sun 01:30-05:00")),
        (
            {"weekdays": "1", "sleepAt": "10,14:00", "wakeUpAt": "12,16:00"},
            schedule("Mon 10:00-12:00", "Mon 14:00-16:00"),
        ),
    ],
)
def test_two_moments_are_the_time_between_them(tmp_path, spec, expected):
    specs, said = imported(tmp_path, "kube-green", sleep_info(**spec))
    assert specs["dev-nights"]["idleWhen"] == expected
    assert "wake" not in specs["dev-nights"]
    assert lost(said) == []


def test_what_is_up_for_less_than_two_hours_is_idled_again_when_that_is_over(tmp_path):
    specs, _ = imported(tmp_path, "kube-green", sleep_info(weekdays="*", sleepAt="09:00", wakeUpAt="08:00"))
    assert specs["dev-nights"]["minAwake"] == "60m"


def test_what_never_wakes_by_itself_waits_for_a_signal(tmp_path):
    specs, _ = imported(tmp_path, "kube-green", sleep_info(wakeUpAt=None))
    assert specs["dev-nights"]["wake"] == "OnSignal"
    assert specs["dev-nights"]["idleWhen"] == schedule("Mon-Fri 20:00-21:00")


@pytest.mark.parametrize(
    ("spec", "workloads"),
    [
        ({}, {"kinds": ["Deployment", "StatefulSet"]}),
        ({"suspendCronJobs": True, "suspendStatefulSets": False}, {"kinds": ["Deployment", "CronJob"]}),
        (
            {"includeRef": [{"matchLabels": {"green": "yes"}}]},
            {"kinds": ["Deployment", "StatefulSet"], "matchLabels": {"green": "yes"}},
        ),
        (
            {"excludeRef": [{"matchLabels": {"green": "no"}}]},
            {
                "kinds": ["Deployment", "StatefulSet"],
                "matchExpressions": [{"key": "green", "operator": "NotIn", "values": ["no"]}],
            },
        ),
        (
            {"includeRef": [{"matchLabels": {"green": "a"}}, {"matchLabels": {"green": "b"}}]},
            {
                "kinds": ["Deployment", "StatefulSet"],
                "matchLabels": {"green": "a"},
                "matchExpressions": [{"key": "green", "operator": "In", "values": ["b"]}],  # together nothing, as there
            },
        ),
    ],
)
def test_what_is_selected(tmp_path, spec, workloads):
    specs, _ = imported(tmp_path, "kube-green", sleep_info(**spec))
    assert specs["dev-nights"]["selector"] == {"namespaces": {"include": ["dev"]}, "workloads": workloads}


def test_a_name_is_excluded_in_its_kind_only(tmp_path):
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gateway"}
    specs, _ = imported(tmp_path, "kube-green", sleep_info(excludeRef=[ref]))
    assert specs["dev-nights"]["exclude"] == [{"workloads": {"kinds": ["Deployment"], "include": ["gateway"]}}]


def test_a_name_is_included_in_its_kind_only(tmp_path):
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    specs, _ = imported(tmp_path, "kube-green", sleep_info(includeRef=[ref]))
    assert specs["dev-nights"]["selector"]["workloads"] == {"kinds": ["StatefulSet"]}
    assert specs["dev-nights-2"]["selector"]["workloads"] == {"kinds": ["Deployment"], "include": ["web"]}


def test_sleep_infos_of_one_selection_are_one_policy_of_all_their_moments(tmp_path):
    manifests = sleep_info(weekdays="5", wakeUpAt="23:00") + sleep_info("more", weekdays="1", sleepAt="12:00")
    specs, _ = imported(tmp_path, "kube-green", manifests)
    assert specs["dev-nights"]["idleWhen"] == schedule("Fri 20:00-23:00", "Mon 12:00-Mon 08:00")
    assert set(specs) == {"imported", "dev-nights"}


def test_what_has_no_counterpart_is_said(tmp_path):
    patch = {"target": {"group": "apps", "kind": "ReplicaSet"}, "patch": "- {op: remove, path: /spec}"}
    _, said = imported(tmp_path, "kube-green", sleep_info(patches=[patch]) + sleep_info("odd", sleepAt="25:00"))
    first, second = lost(said)
    assert first.startswith("SleepInfo nights: spec.patches: a patch of ReplicaSet has no counterpart")
    assert second.startswith('SleepInfo odd: spec: sleepAt "25" is out of range, expected 0 to 23; it is left out')


def test_a_moment_that_both_sleeps_and_wakes_is_left_out(tmp_path):
    """kube-green does what it did not do last."""
    _, said = imported(tmp_path, "kube-green", sleep_info() + sleep_info("odd", sleepAt="8,20:00"))
    words = "sleepAt and wakeUpAt both name Mon 08:00, expected different times; it is left out"
    assert lost(said) == [f"SleepInfo odd: spec: {words}"]


def test_a_patch_that_only_does_what_a_policy_does_selects_its_kind(tmp_path):
    replicas = {
        "target": {"group": "apps", "kind": "StatefulSet"},
        "patch": "- {op: add, path: /spec/replicas, value: 0}",
    }
    suspend = {
        "target": {"group": "batch", "kind": "CronJob"},
        "patch": "- {op: replace, path: /spec/suspend, value: true}",
    }
    bare = {**replicas, "target": {"group": "apps", "kind": "ReplicaSet"}}
    patches = [replicas, suspend, bare]
    specs, said = imported(tmp_path, "kube-green", sleep_info(suspendStatefulSets=False, patches=patches))
    kinds = ["Deployment", "StatefulSet", "CronJob", "ReplicaSet"]
    assert specs["dev-nights"]["selector"]["workloads"]["kinds"] == kinds
    assert lost(said) == []


def test_a_patch_that_does_something_else_is_made_in_place_of_scaling_its_kind_down(tmp_path):
    fewer = {
        "target": {"group": "apps", "kind": "Deployment"},
        "patch": "- {op: add, path: /spec/replicas, value: 1}",
    }
    foreign = {**fewer, "target": {"group": "apps.kruise.io", "kind": "StatefulSet"}}
    specs, said = imported(tmp_path, "kube-green", sleep_info(patches=[fewer, foreign]))
    assert specs["dev-nights"]["selector"]["workloads"]["kinds"] == ["StatefulSet"]
    assert [line.split(" has no")[0] for line in lost(said)] == [
        "SleepInfo nights: spec.patches: a patch of Deployment",
        "SleepInfo nights: spec.patches: a patch of StatefulSet.apps.kruise.io",
    ]


def test_hours_of_sleep_that_follow_one_another_are_one(tmp_path):
    specs, _ = imported(tmp_path, "kube-green", sleep_info(sleepAt="20,21:00", wakeUpAt=None))
    assert specs["dev-nights"]["idleWhen"][0]["schedule"]["downtime"] == ["Mon-Fri 20:00-22:00"]


def test_a_control_character_is_written_as_its_escape(tmp_path):
    patch = {"target": {"group": "x\x1b[31m", "kind": "Foo"}, "patch": ""}
    cli = Folder(tmp_path)
    cli.write("in/peer.yaml", sleep_info(patches=[patch]))
    assert "a patch of Foo.x\\x1b[31m has no counterpart" in cli.call("import", "kube-green", "in").out


def remembered(**data: Any) -> dict[tuple[str, str, str], int]:
    return asleep_by_kube_green({"operation-type": "SLEEP"} | {key.replace("_", "-"): data[key] for key in data})


PATCHES = {
    "Deployment.apps": {"web": '{"spec":{"replicas":3}}', "one": '{"spec":{"replicas":null}}'},
    "CronJob.batch": {"nightly": '{"spec":{"suspend":null}}', "off": '{"spec":{"suspend":true}}'},
    "ReplicaSet.apps": {"other": '{"spec":{"replicas":2}}'},
    "Job.batch": {"once": "{}"},
}


def test_what_a_secret_remembers_is_how_it_was():
    assert remembered(original_resource_info=json.dumps(PATCHES)) == {
        ("apps", "Deployment", "web"): 3,
        ("apps", "Deployment", "one"): 1,
        ("batch", "CronJob", "nightly"): 1,
        ("apps", "ReplicaSet", "other"): 2,
    }
    assert remembered(
        deployment_replicas='[{"name":"web","replicas":4}]',
        cronjobs_info='[{"name":"nightly","suspend":false},{"name":"off","suspend":true}]',
    ) == {("apps", "Deployment", "web"): 4, ("batch", "CronJob", "nightly"): 1}
    assert remembered(operation_type="WAKE_UP", original_resource_info=json.dumps(PATCHES)) == {}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("original_resource_info", '{"Deployment.apps": {"web": {}}}', id="a patch that is no text"),
        pytest.param("original_resource_info", '{"Deployment.apps": {"web": "{\\"spec\\": null}"}}', id="no spec"),
        pytest.param("original_resource_info", '{"Deployment.apps": null}', id="no patches"),
        pytest.param("original_resource_info", "[", id="no JSON"),
        pytest.param("deployment_replicas", '[{"name": "web", "replicas": "4"}]', id="replicas that are a text"),
        pytest.param("deployment_replicas", '[{"replicas": 4}]', id="no name"),
        pytest.param("deployment_replicas", '[{"name": "web", "replicas": -3}]', id="fewer replicas than none"),
        pytest.param("cronjobs_info", '["nightly"]', id="a CronJob that is a text"),
    ],
)  # fmt: skip
def test_what_no_kube_green_writes_is_not_remembered(key, text):
    beside = json.dumps({"StatefulSet.apps": {"db": '{"spec":{"replicas":2}}'}, "Job.batch": {"once": '{"spec":null}'}})
    assert remembered(**{key: text}) == {}
    if key != "original_resource_info":
        assert remembered(**{key: text}, original_resource_info=beside) == {("apps", "StatefulSet", "db"): 2}
