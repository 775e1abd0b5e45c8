"""Objects that are switched off in place of being scaled, on snapshots: off, on, each exactly as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from reconciler.workload_kinds import SWITCHES, WorkloadKind
from tests.pipeline.calls import Folder

EVENING, NIGHT, MORNING = "2026-11-26T22:00:00Z", "2026-11-26T23:00:00Z", "2026-11-27T07:10:00Z"
OURS = ("reconciler/", "idling.", "scale.kubernetes.io/")
WIDGETS = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "path": "spec.power.level",
    "off": 0,
    "ready": {"path": "status.up", "value": True},
}
ADDED = {"apiVersion": "example.com/v1", "kind": "Gadget", "path": "spec.labels[example.com/off]", "off": "yes"}


def an_object(kind: WorkloadKind, name: str = "it", *, holder: Any = None, value: Any = None) -> dict[str, Any]:
    """Return an object with `value` at its switch; `holder` {}: with the map that would hold it."""
    manifest: dict[str, Any] = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "dev"},
        "spec": {"template": {"spec": {}}, "syncPolicy": {"automated": {"prune": True}}, "other": 1},
    }
    if value is not None or holder is not None:
        at = manifest
        for key in kind.replicas_path[:-1]:
            at = at.setdefault(key, {})
        at |= holder or {}
        if value is not None:
            at[kind.replicas_path[-1]] = value
    return manifest


@pytest.fixture
def folder(tmp_path) -> Folder:
    return Folder(tmp_path)


def put(folder: Folder, *objects: dict[str, Any], switches: tuple[dict[str, Any], ...] = (), kinds: str = "") -> None:
    stated = [{"apiVersion": one["apiVersion"], "kind": one["kind"]} for one in objects]
    stated = list(switches) or [one for at, one in enumerate(stated) if one not in stated[:at]]
    groups = {one["kind"]: one["apiVersion"].rpartition("/")[0] for one in objects}
    named = kinds or ", ".join(f"{kind}.{group}" for kind, group in groups.items())
    folder.write("policies/all.yaml", POLICIES % (json.dumps(stated), named))
    folder.write("snapshot/east/objects.yaml", yaml.safe_dump_all(objects))


POLICIES = """
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: mine}
spec: {home: east, clusters: [{name: east}], switches: %s}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: nights}
spec:
  selector: {workloads: {kinds: [%s]}}
  idleWhen: [{schedule: {timeZone: UTC, uptime: ["Mon-Fri 07:00-20:00"]}}]
  minAge: 0s
"""


def stored(folder: Folder) -> list[dict[str, Any]]:
    """Return the objects, without annotations of ours."""
    found = [
        one
        for file in sorted((folder.path / "snapshot" / "east").glob("*.yaml"))
        for one in yaml.safe_load_all(file.read_text())
        if one["kind"] not in ("ConfigMap", "Event")
    ]
    for one in found:
        kept = {key: text for key, text in one["metadata"].pop("annotations", {}).items() if not key.startswith(OURS)}
        one["metadata"] |= {"annotations": kept} if kept else {}
    return sorted(found, key=lambda one: (one["kind"], one["metadata"]["name"]))


def edit(folder: Folder, old: str, new: str) -> None:
    for file in (folder.path / "snapshot" / "east").glob("*.yaml"):
        file.write_text(file.read_text().replace(old, new))


def value_in(manifest: Any, kind: WorkloadKind) -> Any:
    for key in kind.replicas_path:
        manifest = manifest.get(key) if isinstance(manifest, dict) else None
    return manifest


def others(kind: WorkloadKind) -> list[Any]:
    """Return values with which an object of `kind` runs."""
    return [] if kind.off_at_any else {bool: [not kind.off], int: [3], str: ["something else"]}[type(kind.off)]


@pytest.mark.parametrize("kind", SWITCHES.values(), ids=lambda kind: kind.kind)
def test_each_known_kind_goes_off_and_comes_back_exactly_as_it_was(folder, kind):
    absent = [an_object(kind, "absent")] if kind.absent is None else []
    objects = [*absent, *(an_object(kind, f"v{n}", value=one) for n, one in enumerate(others(kind)))]
    objects += [an_object(kind, "with-map", holder={"example.com/x": "y"})] if kind.in_map and absent else []
    put(folder, *objects)
    before = stored(folder)
    folder.applied(EVENING, "--allow-exceed", "nights")
    assert [value_in(one, kind) for one in stored(folder)] == [kind.off] * len(objects)
    assert folder.plan(NIGHT, "--detailed-exitcode").code == 0
    folder.applied(MORNING)
    assert stored(folder) == before


@pytest.mark.parametrize(
    ("switch", "spec"),
    [
        pytest.param(WIDGETS, {"power": {}}, id="absent"),
        *(pytest.param(WIDGETS, {"power": {"level": one, "colour": "red"}}, id=repr(one)) for one in (7, "7", True)),
        pytest.param(ADDED, {}, id="no map"),
        pytest.param(ADDED, {"labels": {"example.com/off": "7"}}, id="a key of a map"),
    ],
)
def test_a_value_of_any_type_comes_back_as_it_was(folder, switch, spec):
    one = {"apiVersion": "example.com/v1", "kind": switch["kind"], "metadata": {"name": "w", "namespace": "dev"}}
    put(folder, {**one, "spec": spec}, switches=(switch,))
    before = stored(folder)
    folder.applied(EVENING)
    assert stored(folder) != before
    assert folder.plan(MORNING, "--out", "plan.json").code == 0
    said = folder.call("apply", "plan.json", "--snapshot", "snapshot", "--now", MORNING, "--policies", "policies")
    assert said.code == 0, "a saved plan brings it back too"
    assert stored(folder) == before


A_SCALAR = "expected a text, a whole number, true or false"
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "dev"}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "it has no spec.power, where its switch would stand"),
        ({"power": "on"}, 'spec.power is "on", expected a mapping with its switch'),
        ({"power": {"level": None}}, f"spec.power.level is null, {A_SCALAR}"),
        ({"power": {"level": [1]}}, f"spec.power.level is a list, {A_SCALAR}"),
        ({"power": {"level": 1.5}}, f"spec.power.level is 1.5, {A_SCALAR}"),
        ({"power": {"level": False}}, "spec.power.level is false, expected 0 where it is off"),
        ({"power": {"level": 0}}, "No changes."),
    ],
    ids=["no object to hold it", "a text holds it", "null", "a list", "a fraction", "no, but not 0", "off already"],
)
def test_what_cannot_be_switched_off_is_left_as_it_is(folder, spec, words):
    put(folder, {**WIDGET, "spec": spec}, switches=(WIDGETS,))
    before = stored(folder)
    assert words in folder.plan(EVENING).out
    assert "No changes." in words or "It would change if the manifest is corrected.\n" in explained(folder)
    folder.apply(EVENING)
    assert stored(folder) == before


def test_who_switches_it_on_by_hand_keeps_it_on(folder):
    put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    folder.applied(EVENING)
    edit(folder, "level: 0", "level: 5")
    folder.applied(NIGHT)
    assert stored(folder)[0]["spec"] == {"power": {"level": 5}}
    assert folder.plan("2026-11-26T23:30:00Z", "--detailed-exitcode").code == 0


@pytest.mark.parametrize("power", ["{}", "null", "{level: [1]}"])
def test_what_has_no_place_for_its_switch_any_more_is_released_once(folder, power):
    put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    folder.applied(EVENING)
    edit(folder, "power:\n    level: 0", f"power: {power}")
    assert "switched on by somebody" in folder.applied(NIGHT).out
    assert folder.plan(MORNING, "--detailed-exitcode").code == 0
    assert "previous-value" not in (folder.path / "snapshot" / "east" / "objects.yaml").read_text()


def explained(folder: Folder) -> str:
    return folder.call(
        "explain", "east/dev/Widget/w", "--snapshot", "snapshot", "--policies", "policies", "--now", NIGHT
    ).out


def test_words_are_of_switches_and_not_of_replicas(folder):
    put(folder, {**WIDGET, "spec": {"power": {"level": 0}}}, switches=(WIDGETS,))
    said = explained(folder)
    assert "because: switched off already, without a record\n" in said
    assert "It would change if it is switched on." in said
    edit(folder, "level: 0", "level: 7")
    folder.applied(EVENING)
    edit(folder, "level: 0", "level: 5")
    assert "switched on by somebody" in folder.applied(NIGHT).out
    told = folder.call("history", "--snapshot", "snapshot", "--policies", "policies", "--now", NIGHT)
    assert [line.split("  ")[1].strip() for line in told.out.splitlines() if "Widget" in line] == [
        "off -> on",
        "on -> off",
    ]


def test_it_is_woken_by_hand(folder):
    put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    folder.applied(EVENING)
    at = ("--snapshot", "snapshot", "--policies", "policies", "--now", NIGHT)
    said = folder.call("wake", "east/dev/Widget/w", *at, "--auto-approve")
    assert (said.code, "0 -> 7  wake" in said.out) == (0, True), said
    assert stored(folder)[0]["spec"] == {"power": {"level": 7}}


def test_a_record_that_cannot_be_read_is_reported_and_nothing_is_changed(folder):
    put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    folder.applied(EVENING)
    edit(folder, 'reconciler/previous-value: "7"', 'reconciler/previous-value: "[7]"')
    assert "expected a value of spec.power.level" in folder.plan(MORNING).out
    folder.apply(MORNING)
    assert stored(folder)[0]["spec"] == {"power": {"level": 0}}


@pytest.mark.parametrize("change", [{"off": 1}, {"path": "spec.power.speed"}], ids=["off", "path"])
def test_a_switch_that_was_changed_while_it_is_off_loses_nothing(folder, change):
    widget = {**WIDGET, "spec": {"power": {"level": 7}}}
    put(folder, widget, switches=(WIDGETS,))
    before, former = stored(folder), (folder.path / "policies" / "all.yaml").read_text()
    folder.applied(EVENING)
    folder.write("policies/all.yaml", former.replace(json.dumps([WIDGETS]), json.dumps([WIDGETS | change])))
    for now in (NIGHT, MORNING):
        assert 'reconciler/switched-at is "spec.power.level=0"' in folder.apply(now).out
    folder.write("policies/all.yaml", former)
    folder.applied(MORNING)
    assert stored(folder) == before


def test_status_names_what_is_off_and_of_a_kind_that_the_fleet_has_no_more(folder):
    put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    before, former = stored(folder), (folder.path / "policies" / "all.yaml").read_text()
    folder.applied(EVENING)
    folder.write("policies/all.yaml", former.replace(json.dumps([WIDGETS]), "[]"))
    at = ("--policies", "policies", "--snapshot", "snapshot", "--now", NIGHT)
    words = "east/dev/Widget/w was idled, and nothing of its kind is read; if switches of the Fleet had it, put it back"
    assert words in folder.call("status", *at).err
    folder.write("policies/all.yaml", former)
    assert words not in folder.call("status", *at).err
    folder.applied(MORNING)
    assert stored(folder) == before


def saved(folder: Folder) -> dict[str, Any]:
    put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    assert folder.plan(EVENING, "--out", "plan.json").code == 0
    return json.loads((folder.path / "plan.json").read_text())


def test_a_saved_plan_switches_it_off(folder):
    saved(folder)
    assert folder.call("show", "plan.json").code == 0
    said = folder.call("apply", "plan.json", "--snapshot", "snapshot", "--now", EVENING, "--policies", "policies")
    assert said.code == 0, said
    assert stored(folder)[0]["spec"] == {"power": {"level": 0}}


@pytest.mark.parametrize(
    ("path", "value"),
    [("/spec/power/level", "off"), ("/spec/power/colour", "red"), ("/spec/power", {"a": "b"})],
)
def test_a_saved_plan_writes_nothing_but_the_switch(folder, path, value):
    made = saved(folder)
    (action,) = made["actions"]
    action["before"].setdefault(path, None)
    action["after"][path] = value
    (folder.path / "plan.json").write_text(json.dumps(made))
    at = ("--snapshot", "snapshot", "--now", EVENING, "--policies", "policies", "--approve-differences")
    assert folder.call("apply", "plan.json", *at).code == 5
    assert stored(folder)[0]["spec"] == {"power": {"level": 7}}


@pytest.mark.parametrize("added", [{"example.com/off": "no"}, {"example.com/off": "yes", "b": "c"}])
def test_a_saved_plan_makes_no_map_but_the_one_with_the_switch(folder, added):
    put(folder, {**WIDGET, "kind": "Gadget", "spec": {}}, switches=(ADDED,))
    folder.plan(EVENING, "--out", "plan.json")
    made = json.loads((folder.path / "plan.json").read_text())
    made["actions"][0]["after"]["/spec/labels"] = added
    folder.write("plan.json", json.dumps(made))
    at = ("--snapshot", "snapshot", "--now", EVENING, "--policies", "policies", "--approve-differences")
    assert folder.call("apply", "plan.json", *at).code == 5
    assert stored(folder)[0]["spec"] == {}


def test_what_a_switched_object_owns_is_not_idled_by_traffic_but_undecided(folder):
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": "it", "uid": "u-1", "controller": True}
    notebook = an_object(SWITCHES["kubeflow.org", "Notebook"])
    notebook["metadata"]["uid"] = "u-1"
    labels = {"app": "it"}
    owned = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "it", "namespace": "dev", "ownerReferences": [owner]},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "it", "namespace": "dev"}}
    switches = ({"apiVersion": "kubeflow.org/v1", "kind": "Notebook"},)
    put(folder, notebook, owned, {**service, "spec": {"selector": labels}}, switches=switches, kinds="StatefulSet")
    text = (folder.path / "policies" / "all.yaml").read_text()
    folder.write("policies/all.yaml", text.replace("selector: {workloads:", "selector: {services: {}, workloads:"))
    assert "Notebook/it has a switch and is not woken by traffic; select it by its kind" in folder.plan(EVENING).out


NOT_IDLED = [
    pytest.param("kubeflow.org", "Notebook", "2026-11-26T12:00:00Z", "switched off already", id="culler stopped it"),
    pytest.param("serving.knative.dev", "Service", None, "switched off already", id="goes to zero without traffic"),
    pytest.param(
        "kubevirt.io", "VirtualMachine", None, "spec.running is true, expected spec.runStrategy", id="running"
    ),
    pytest.param("kubevirt.io", "VirtualMachine", None, "switched off already", id="does not run"),
    pytest.param("batch", "Job", [True], "Current suspend not known", id="nobody knows"),
]


@pytest.mark.parametrize(("group", "kind", "value", "why"), NOT_IDLED)
def test_why_it_is_not_switched_off(folder, group, kind, value, why):
    made = an_object(SWITCHES[group, kind], value=value)
    made["spec"] |= {"running": "running" in why} if kind == "VirtualMachine" else {}
    put(folder, made)
    planned = folder.plan(EVENING).out
    assert ("1 undecided" in planned) is (why != "switched off already")
    assert "0 to change" in planned or "No changes." in planned
    at = ("--snapshot", "snapshot", "--policies", "policies", "--now", EVENING)
    assert why in folder.call("explain", f"east/dev/{kind}.{group}/it", *at).out


COMPLETE = {"type": "Complete", "status": "True"}
CRON_JOB = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u-1", "controller": True}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param({"status": {"conditions": [COMPLETE]}}, "it has finished", id="done"),
        pytest.param({"ownerReferences": [CRON_JOB]}, "", id="of a CronJob"),
    ],
)
def test_a_job_that_is_left_alone(folder, more, why):
    job = an_object(SWITCHES["batch", "Job"])
    job["metadata"] |= {key: value for key, value in more.items() if key == "ownerReferences"}
    put(folder, job | {key: value for key, value in more.items() if key == "status"})
    assert "No changes." in folder.plan(EVENING).out
    at = ("--snapshot", "snapshot", "--policies", "policies", "--now", EVENING)
    assert not why or f"because: {why}\n" in folder.call("explain", "east/dev/Job/it", *at).out


TIERS = """
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: later}
spec:
  selector: {workloads: {kinds: [Job]}}
  idleWhen: [{schedule: {timeZone: UTC, uptime: ["Mon-Fri 07:00-20:00"]}}]
  minAge: 0s
  wakeOrder: {group: shop, tier: 10}
"""


@pytest.mark.parametrize("up", [True, False])
def test_a_later_tier_waits_until_it_is_ready(folder, up):
    widget = {**WIDGET, "spec": {"power": {"level": 7}}, "status": {"up": up}}
    switches = (WIDGETS, {"apiVersion": "batch/v1", "kind": "Job"})
    put(folder, widget, an_object(SWITCHES["batch", "Job"]), switches=switches, kinds="Widget")
    text = (folder.path / "policies" / "all.yaml").read_text()
    text = text.replace("  minAge: 0s", "  minAge: 0s\n  wakeOrder: {group: shop, tier: 0}")
    folder.write("policies/all.yaml", text + TIERS)
    folder.applied(EVENING)
    said = folder.apply(MORNING)
    assert ("not ready" in said.out) is not up, said.out


def test_policies_that_cannot_be_used_still_wake_what_is_due(folder):
    put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    folder.applied(EVENING)
    text = (folder.path / "policies" / "all.yaml").read_text()
    folder.write("policies/all.yaml", text.replace("minAge: 0s", "minAge: soon"))
    assert folder.apply(MORNING).code == 3
    assert stored(folder)[0]["spec"] == {"power": {"level": 7}}


def test_a_forecast_counts_no_replicas_of_it(folder):
    put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    said = folder.call("forecast", "policies", "--snapshot", "snapshot", "--now", EVENING, "--days", "2")
    assert said.code == 0, said
    assert "Widget" in said.out


POLICY_TEST = """
snapshot: ../snapshot
cases:
  - name: off at night, on by hand
    at: 2026-11-26T22:00:00Z
    expect: [{object: east/dev/Widget/w, state: idle, replicas: 0, policy: nights}]
    then:
      - at: 2026-11-26T23:00:00Z
        given: [{scale: east/dev/Widget/w, replicas: 1}]
        expect: [{object: east/dev/Widget/w, state: awake, replicas: 1}]
"""


@pytest.mark.parametrize("kind", ["Widget", "VirtualMachine"])
def test_a_policy_test_says_that_it_is_off_and_that_somebody_switches_it_on(folder, kind):
    """A VirtualMachine is off without a value."""
    if kind == "Widget":
        put(folder, {**WIDGET, "spec": {"power": {"level": 7}}}, switches=(WIDGETS,))
    else:
        put(folder, an_object(SWITCHES["kubevirt.io", kind], "w", value="Always"))
    folder.write("policies/any_test.yaml", POLICY_TEST.replace("Widget", kind))
    said = folder.call("test", "policies")
    assert (said.code, "1 passed, 0 failed" in said.out) == (0, True), said
