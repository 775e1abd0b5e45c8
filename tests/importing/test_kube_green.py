"""SleepInfos of kube-green, and the Secrets in which it remembers -> policies that validate, and replicas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.importing.kube_green import asleep_by_kube_green
from tests.importing.peers import imported, sleep_info
from tests.pipeline.calls import Folder

_TIMES = ("idleWhen", "minAwake", "wake")


def schedule(*downtime: str, zone: str = "UTC") -> dict[str, object]:
    return {"idleWhen": [{"schedule": {"timeZone": zone, "downtime": [*downtime]}}]}


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
        ({"weekdays": "*", "sleepAt": "09:00"}, schedule("09:00-08:00") | {"minAwake": "60m"}),
        ({"wakeUpAt": None}, schedule("Mon-Fri 20:00-21:00") | {"wake": "OnSignal"}),
        ({"sleepAt": "20,21:00", "wakeUpAt": None}, schedule("Mon-Fri 20:00-22:00") | {"wake": "OnSignal"}),
    ],
)
def test_two_moments_are_the_time_between_them(tmp_path, spec, expected):
    """What is up for less than two hours is idled again when that is over, and what has no wakeUpAt waits."""
    specs, lost = imported(tmp_path, "kube-green", sleep_info(**spec))
    assert {key: specs["dev-nights"][key] for key in specs["dev-nights"] if key in _TIMES} == expected
    assert lost == []


BOTH = ["Deployment", "StatefulSet"]


@pytest.mark.parametrize(
    ("spec", "workloads"),
    [
        ({}, {"kinds": BOTH}),
        ({"suspendCronJobs": True, "suspendStatefulSets": False}, {"kinds": ["Deployment", "CronJob"]}),
        ({"includeRef": [{"matchLabels": {"green": "yes"}}]}, {"kinds": BOTH, "matchLabels": {"green": "yes"}}),
        (
            {"excludeRef": [{"matchLabels": {"green": "no"}}]},
            {"kinds": BOTH, "matchExpressions": [{"key": "green", "operator": "NotIn", "values": ["no"]}]},
        ),
        (
            {"includeRef": [{"matchLabels": {"green": "a"}}, {"matchLabels": {"green": "b"}}]},
            {
                "kinds": BOTH,
                "matchLabels": {"green": "a"},
                "matchExpressions": [{"key": "green", "operator": "In", "values": ["b"]}],  # together nothing, as there
            },
        ),
    ],
)
def test_what_is_selected(tmp_path, spec, workloads):
    specs, _ = imported(tmp_path, "kube-green", sleep_info(**spec))
    assert specs["dev-nights"]["selector"] == {"namespaces": {"include": ["dev"]}, "workloads": workloads}


def test_a_name_is_excluded_and_included_in_its_kind_only(tmp_path):
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    by_name = {"kinds": ["Deployment"], "include": ["web"]}
    specs, _ = imported(tmp_path, "kube-green", sleep_info(excludeRef=[ref]) + sleep_info("some", includeRef=[ref]))
    assert specs["dev-nights"]["exclude"] == [{"workloads": by_name}]
    assert specs["dev-some"]["selector"]["workloads"] == {"kinds": ["StatefulSet"]}
    assert specs["dev-some-2"]["selector"]["workloads"] == by_name


def test_sleep_infos_of_one_selection_are_one_policy_of_all_their_moments(tmp_path):
    manifests = sleep_info(weekdays="5", wakeUpAt="23:00") + sleep_info("more", weekdays="1", sleepAt="12:00")
    specs, _ = imported(tmp_path, "kube-green", manifests)
    assert schedule("Fri 20:00-23:00", "Mon 12:00-Mon 08:00").items() <= specs["dev-nights"].items()
    assert set(specs) == {"imported", "dev-nights"}


def a_patch(group: str, kind: str, patch: str = "- {op: add, path: /spec/replicas, value: 0}") -> dict[str, Any]:
    return {"target": {"group": group, "kind": kind}, "patch": patch}


def test_what_has_no_counterpart_is_said(tmp_path):
    """Of a moment that both sleeps and wakes kube-green does what it did not do last."""
    patch = a_patch("apps", "ReplicaSet", "- {op: remove, path: /spec}")
    manifests = sleep_info(patches=[patch]) + sleep_info("odd", sleepAt="25:00") + sleep_info("both", sleepAt="8,20:00")
    manifests += sleep_info("late", wakeUpAt="8:60")
    _, (first, *others) = imported(tmp_path, "kube-green", manifests)
    assert first.startswith("SleepInfo nights: spec.patches: a patch of ReplicaSet has no counterpart")
    assert others == [
        'SleepInfo odd: spec: sleepAt "25" is out of range, expected 0 to 23; it is left out',
        "SleepInfo both: spec: sleepAt and wakeUpAt both name Mon 08:00, expected different times; it is left out",
        'SleepInfo late: spec: wakeUpAt "60" is out of range, expected 0 to 59; it is left out',
    ]


def test_a_patch_that_only_does_what_a_policy_does_selects_its_kind(tmp_path):
    suspend = a_patch("batch", "CronJob", "- {op: replace, path: /spec/suspend, value: true}")
    patches = [a_patch("apps", "StatefulSet"), suspend, a_patch("apps", "ReplicaSet")]
    specs, lost = imported(tmp_path, "kube-green", sleep_info(suspendStatefulSets=False, patches=patches))
    assert specs["dev-nights"]["selector"]["workloads"]["kinds"] == [*BOTH, "CronJob", "ReplicaSet"]
    assert lost == []


def test_a_patch_that_does_something_else_is_made_in_place_of_scaling_its_kind_down(tmp_path):
    fewer = "- {op: add, path: /spec/replicas, value: 1}"
    patches = [a_patch("apps", "Deployment", fewer), a_patch("apps.kruise.io", "StatefulSet", fewer)]
    specs, lost = imported(tmp_path, "kube-green", sleep_info(patches=patches))
    assert specs["dev-nights"]["selector"]["workloads"]["kinds"] == ["StatefulSet"]
    assert [line.split(" has no")[0] for line in lost] == [
        "SleepInfo nights: spec.patches: a patch of Deployment",
        "SleepInfo nights: spec.patches: a patch of StatefulSet.apps.kruise.io",
    ]


def test_a_patch_of_what_a_switch_does_names_it(tmp_path):
    _, lost = imported(tmp_path, "kube-green", sleep_info(patches=[a_patch("ray.io", "RayCluster", "")]))
    words = "a patch of RayCluster.ray.io needs spec.switches of the Fleet, and the kind in workloads.kinds"
    assert lost == [f"SleepInfo nights: spec.patches: {words}"]


def test_a_manifest_without_a_namespace_is_read_as_of_default(tmp_path):
    """So are the examples of kube-green, whose Namespace stands on the command line of kubectl."""
    specs, lost = imported(tmp_path, "kube-green", sleep_info(namespace=""))
    assert specs["default-nights"]["selector"]["namespaces"] == {"include": ["default"]}
    missing = "metadata.namespace: is missing, read as default; expected the Namespace that it is applied to"
    assert lost == [f"SleepInfo nights: {missing}"]


def test_a_control_character_is_written_as_its_escape(tmp_path):
    cli = Folder(tmp_path)
    cli.write("in/peer.yaml", sleep_info(patches=[a_patch("x\x1b[31m", "Foo", "")]))
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
