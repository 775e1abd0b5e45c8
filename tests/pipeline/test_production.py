"""Production the whole way: 5 clusters, 3 of them production, each with 3 Deployments of 1 replica."""

from __future__ import annotations

import json

import pytest

from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import an_object, documents, downscale, idling, placed, target_ref, template, workload
from tests.pipeline.manifests import fleet as fleet_of

FRIDAY_NIGHT, MONDAY_NIGHT = "2026-11-20T22:00:00Z", "2026-11-23T22:00:00Z"
AT_NIGHT = ("--snapshot", "snapshot", "--now", FRIDAY_NIGHT)
CLUSTERS = ["c01", "c02", "c03", "c11", "c12"]
PRODUCTION = CLUSTERS[:3]
TEAMS = ["team-a", "team-b", "team-c"]
WEB = "c01/team-a/Deployment/web"
LEFT_OUT = "cluster c01 is production, left out by nights without production: true"
SELECTOR = 'namespaces: {include: ["team-*"]}, workloads: {kinds: [%s]}'


def nights(*more: str, kind: str = "Deployment", downtime: str = '"20:00-07:00"', **names: str) -> str:
    return idling(SELECTOR % kind, "minAge: 0s", *(more or ("priority: 1",)), downtime=downtime, **names)


POLICY = nights()
BELOW = nights("priority: 0", "production: true", name="below")
WITH_THE_WORD = nights("priority: 1", "production: true")


def fleet(production: list[str], *more: str) -> str:
    listed = (f"{{name: {name}, production: {str(name in production).lower()}}}" for name in CLUSTERS)
    return fleet_of(listed, *more, home="c11")


@pytest.fixture
def folder(tmp_path) -> Folder:
    made = Folder(tmp_path)
    made.write("policies/fleet.yaml", fleet(PRODUCTION))
    made.write("policies/nights.yaml", POLICY)
    for cluster in CLUSTERS:
        made.write(f"snapshot/{cluster}/all.yaml", documents(*(workload("web", team, 1) for team in TEAMS)))
    return made


def down(folder: Folder) -> set[str]:
    """Return the clusters in which something has no replicas."""
    return {
        key[0] for key, one in folder.objects().items() if one["kind"] == "Deployment" and not one["spec"]["replicas"]
    }


def explained(folder: Folder, name: str, now: str = FRIDAY_NIGHT) -> str:
    return folder.explain(name, now, "--policies", "policies").out


def test_production_stays_as_it_is_and_explain_says_why(folder):
    planned = folder.plan(FRIDAY_NIGHT, "--allow-exceed", "nights").out
    assert {name for name in CLUSTERS if f"{name}/" in planned} == set(CLUSTERS) - set(PRODUCTION)
    folder.applied(FRIDAY_NIGHT, "--allow-exceed", "nights")
    assert down(folder) == set(CLUSTERS) - set(PRODUCTION)

    said = explained(folder, WEB)
    assert f"  because: {LEFT_OUT}\n  It would change if production is true in nights.\n" in said
    assert "Next run: no change" in said


def test_a_policy_that_leaves_out_all_is_not_said_to_select_nothing(folder):
    folder.write("policies/fleet.yaml", fleet(CLUSTERS))
    words = "No workload outside production is selected by IdlingPolicy nights (policies/nights.yaml:1)."
    assert folder.plan(FRIDAY_NIGHT).out.splitlines()[-1] == words
    said = folder.call("validate", "policies", *AT_NIGHT)
    assert said.out.endswith("  IdlingPolicy nights (policies/nights.yaml:1): 15 workloads\n")
    assert "selects no workload" not in said.err


@cases(
    "word named",
    ("as the one above", "production: false", "days (policies/days.yaml:1), IdlingPolicy nights"),
    ("which that one alone leaves out", "production: true", "nights"),
)
def test_so_it_is_where_another_overrides_it(folder, word, named):
    folder.write("policies/fleet.yaml", fleet(CLUSTERS))
    folder.write("policies/days.yaml", nights("priority: 0", word, name="days"))
    words = f"No workload outside production is selected by IdlingPolicy {named} (policies/nights.yaml:1)."
    assert folder.plan(FRIDAY_NIGHT).out.splitlines()[-1] == words
    assert "selects no workload" not in folder.call("validate", "policies", *AT_NIGHT).err


def test_a_policy_of_lower_priority_does_not_take_what_is_left_out(folder):
    folder.write("policies/below.yaml", BELOW)
    folder.applied(FRIDAY_NIGHT, "--allow-exceed", "nights", "--allow-exceed", "below")
    assert down(folder).isdisjoint(PRODUCTION)


@cases(
    "policy wakes",
    ("as its schedule ends", POLICY, "2026-11-21T07:00:00Z"),
    ("as its record says", nights(downtime='"00:00-24:00"'), "2026-11-21T07:00:00Z"),
)
def test_what_became_production_while_idle_wakes_at_its_usual_time_and_sleeps_no_more(folder, policy, wakes):
    folder.write("policies/fleet.yaml", fleet([]))
    folder.applied(FRIDAY_NIGHT, "--allow-exceed", "nights")
    assert down(folder) == set(CLUSTERS)
    before = folder.objects()

    folder.write("policies/fleet.yaml", fleet(PRODUCTION))
    folder.write("policies/nights.yaml", policy)
    folder.applied("2026-11-20T23:00:00Z", "--allow-exceed", "nights")
    production = {key: one for key, one in folder.objects().items() if key[0] in PRODUCTION and key[2] == "Deployment"}
    assert production == {key: before[key] for key in production}
    assert "stays idle" in explained(folder, WEB, "2026-11-20T23:00:00Z")

    folder.applied(wakes, "--allow-exceed", "nights")
    assert down(folder).isdisjoint(PRODUCTION)
    folder.applied(MONDAY_NIGHT, "--allow-exceed", "nights")
    assert down(folder).isdisjoint(PRODUCTION)


# What is production

SPACE = an_object("Namespace", "team-a", metadata="labels: {stage: live}")
CALLED = [
    ("a namespace by its name", "production: {namespaces: [team-a]}", "", "namespace team-a"),
    ("its labels", "production: {namespaceLabels: {stage: live}}", SPACE, "namespace team-a with stage=live"),
    ("labels of its own", "production: {workloadLabels: {tier: gold}}", "", "a workload with tier=gold"),
    (
        "labels of its own where the namespace is an exception",
        "production: {namespaces: [team-a], exceptNamespaces: [team-*], workloadLabels: {tier: gold}}",
        "",
        "a workload with tier=gold",
    ),
    ("nothing of it", "production: {exceptNamespaces: [team-b]}", "", None),
    ("an exception", "production: {namespaces: [team-a], exceptNamespaces: [team-a]}", "", None),
    (
        "other labels",
        "production: {namespaceLabels: {stage: live}, workloadLabels: {tier: silver}}",
        SPACE.replace("live", "dev"),
        None,
    ),
]


@cases("stated more expected", *CALLED)
def test_what_is_production(folder, stated, more, expected):
    folder.write("policies/fleet.yaml", fleet([], stated))
    labels = "labels: {tier: gold}" if "Labels: {tier: gold" in stated else ""
    found = workload("web", "team-a", 1, metadata=labels)
    folder.write("snapshot/c01/all.yaml", documents(more, found) if more else found)
    said = explained(folder, WEB)
    left_out = "without production: true" in said
    assert left_out == (expected is not None)
    assert expected is None or f"because: {expected} is production" in said


# The other jobs

TARGET = downscale(SELECTOR % "Deployment", 0, name="shrink")


def web(replicas: int, preferences: str, *more: str, word: bool = False) -> str:
    return placed(replicas, preferences, *more, *(["production: true"] if word else []), namespace="team-a")


@pytest.mark.parametrize("word", [False, True])
def test_a_target_changes_production_only_where_its_policy_says_so(folder, word):
    folder.write("policies/nights.yaml", TARGET + ("  production: true\n" if word else ""))
    folder.applied(FRIDAY_NIGHT, "--allow-exceed", "shrink")
    assert down(folder) == (set(CLUSTERS) if word else set(CLUSTERS) - set(PRODUCTION))
    if not word:
        said = explained(folder, WEB)
        assert "because: cluster c01 is production, left out by shrink without production: true" in said
        assert "It would change if production is true in shrink." in said


def test_a_pattern_of_placement_stands_for_no_production_and_a_name_does(folder):
    folder.write("policies/nights.yaml", web(30, 'clusters: {"*": {weight: 1}, c02: {weight: 9}}', target_ref()))
    folder.applied(FRIDAY_NIGHT, "--allow-exceed", "web")
    replicas = {name: folder.replicas(name, "team-a", "Deployment", "web") for name in CLUSTERS}
    assert {name: number for name, number in replicas.items() if number != 1 and name in PRODUCTION} == {
        "c02": replicas["c02"]
    }
    assert sum(replicas.values()) == 30
    said = explained(folder, WEB)
    assert "because: cluster c01 is production, left out by web without production: true" in said
    assert "It would change if production is true in team-a/web." in said


@pytest.mark.parametrize("word", [False, True])
def test_what_sleeps_in_production_keeps_its_template_unless_the_policy_says_so(folder, word):
    made, everywhere = "policies/web.yaml", 'clusters: {"*": {weight: 1}}'
    folder.write("policies/fleet.yaml", fleet([]))
    folder.write(made, web(5, everywhere, template(image="old")))
    folder.write("policies/nights.yaml", nights(kind="ReplicaSet"))
    for hour in ("12:00", "22:00"):
        folder.applied(f"2026-11-20T{hour}:00Z", "--allow-exceed", "nights")

    folder.write("policies/fleet.yaml", fleet(PRODUCTION))
    folder.write(made, web(5, everywhere, template(image="new"), word=word))
    folder.applied("2026-11-20T23:00:00Z", "--allow-exceed", "nights")
    changed = {
        key[0]
        for key, one in folder.objects().items()
        if key[2] == "ReplicaSet" and "new" in str(one["spec"]["template"])
    }
    assert changed == (set(CLUSTERS) if word else set(CLUSTERS) - set(PRODUCTION))


@pytest.mark.parametrize("word", [False, True])
def test_a_target_ref_takes_running_pods_of_production_away_only_with_the_word(folder, word):
    preferences = "rebalance: true, clusters: {c01: {maxReplicas: 1, weight: 1}, c11: {weight: 1}}"
    folder.write("policies/nights.yaml", web(5, preferences, target_ref(), word=word))
    for cluster in ("c01", "c11"):
        folder.write(f"snapshot/{cluster}/all.yaml", workload("web", "team-a", 3))
    for hour in range(3):
        folder.applied(f"2026-11-20T{12 + hour}:00:00Z", "--allow-exceed", "web")
    assert folder.replicas("c01", "team-a", "Deployment", "web") == (1 if word else 3)
    at = ("--snapshot", "snapshot", "--now", "2026-11-20T15:00:00Z")
    last = folder.call("plan", "policies", "--policy", "web", *at).out
    assert ("clusters match" in last, "keeps 3 replicas, 2 more than its share" in last) == (word, not word)


# Teams, migration, and tests


@pytest.mark.parametrize("allowed", [False, True])
def test_production_is_the_platforms_to_give(folder, allowed):
    tenant = f"{{name: a, paths: [a/**], namespaces: [team-a], production: {str(allowed).lower()}}}"
    folder.write("policies/fleet.yaml", fleet(PRODUCTION, f"tenants: [{tenant}]"))
    own = 'namespaces: {include: ["*"]}, workloads: {kinds: [Deployment]}'
    folder.write("policies/a/nights.yaml", idling(own, "production: true", name="own"))
    said = folder.call("validate", "policies")
    assert said.code == (0 if allowed else 3)
    assert allowed or "policies/a/nights.yaml:7:" in said.err
    assert allowed or "expected no production in a policy of tenant a at policies/fleet.yaml:7" in said.err


def test_validate_lists_the_policies_that_need_the_word(folder):
    said = folder.call("validate", "policies", *AT_NIGHT)
    assert said.out.endswith(
        "Production that policies leave out; to select it they need spec.production: true\n"
        "  IdlingPolicy nights (policies/nights.yaml:1): 9 workloads\n"
    )
    value = json.loads(folder.call("validate", "policies", *AT_NIGHT, "-o", "json").out)
    assert value["firstNight"]["productionLeftOut"] == {"IdlingPolicy nights": 9}


def test_init_writes_tests_that_fail_once_production_is_selected(folder):
    said = folder.call("init", "policies", *AT_NIGHT)
    assert said.code == 0, said
    assert "  c01: 0 of 3 workloads; of production 0 of 3\n" in said.out
    assert "  c11: 3 of 3 workloads\n" in said.out
    assert said.out.endswith(
        "policies/production_test.yaml: written, guards 9 workloads of production; run: reconciler test\n"
    )
    assert folder.call("test", "policies").code == 0

    folder.write("policies/nights.yaml", WITH_THE_WORD)
    found = folder.call("test", "policies")
    assert found.code == 1
    assert "got       selected by IdlingPolicy nights" in found.out

    folder.write("policies/nights.yaml", POLICY)
    folder.write("policies/fleet.yaml", fleet(PRODUCTION[1:]))
    assert folder.call("test", "policies").code == 1

    assert folder.call("init", "policies", *AT_NIGHT).code == 64
    again = folder.call("init", "policies", *AT_NIGHT, "--overwrite")
    assert "guards 6 workloads" in again.out
    assert folder.call("test", "policies").code == 0


def test_init_names_the_namespaces_and_workloads_of_other_production(folder):
    stated = "production: {namespaces: [team-a, team-c], exceptNamespaces: [team-b], workloadLabels: {tier: gold}}"
    folder.write("policies/fleet.yaml", fleet([], stated))
    gold = workload("web", "team-b", 1, metadata="labels: {tier: gold}")
    folder.write("snapshot/c03/all.yaml", documents(gold, workload("api", "team-b", 1)))
    said = folder.call("init", "policies", *AT_NIGHT)
    assert said.code == 0, said
    written = (folder.path / "policies" / "production_test.yaml").read_text()
    assert "object: c03/team-b/Deployment/web" in written
    assert "team-c" in written
    assert folder.call("test", "policies").code == 0


@cases(
    "arguments expected",
    ("no snapshot", (), "--snapshot: is missing, expected a snapshot"),
    ("a snapshot elsewhere", ("--snapshot", ".."), "expected a folder below the working directory"),
)
def test_init_refuses(folder, arguments, expected):
    said = folder.call("init", "policies", *arguments)
    assert said.code == 64
    assert expected in said.err
