"""What waits, what another Fleet idled, and what those read who come from other tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.calls import Folder, Said
from tests.pipeline.manifests import an_object, documents, fleet, policy, workload

NIGHT = "2026-11-20T22:00:00Z"
NIGHTS = policy(
    "IdlingPolicy",
    "nights",
    "selector: {namespaces: {include: [team-a]}, workloads: {kinds: [Deployment]}}",
    'idleWhen: [{schedule: {timeZone: UTC, uptime: ["Mon-Fri 07:00-20:00"]}}]',
)


def made_at(name: str, time: str) -> str:
    metadata = f'labels: {{app: {name}}}, creationTimestamp: "2026-11-20T{time}:00Z"'
    return workload(name, "team-a", 3, metadata=metadata)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """One cluster with three Deployments, the oldest made half an hour ago."""
    made = Folder(tmp_path)
    made.write("policies/fleet.yaml", fleet(["dev"], name="first"))
    made.write("policies/nights.yaml", NIGHTS)
    ages = {"api": "21:30", "search": "21:40", "web": "21:50"}
    made.write("snapshot/dev/team-a.yaml", documents(*(made_at(name, time) for name, time in ages.items())))
    return made


def last(said: Said) -> str:
    return said.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param((), "3 workloads wait for minAge, the last for another 50m.", id="all"),
        pytest.param(("-n", "team-*"), "3 workloads wait for minAge, the last for another 50m.", id="in a namespace"),
        pytest.param(("-l", "app=api"), "1 workload waits for minAge for another 30m.", id="one by its label"),
        pytest.param(("-l", "app=none"), "The clusters match the policies.", id="none that filters leave"),
    ],
)
def test_what_waits_for_min_age_alone_is_told_where_nothing_else_is_to_do(folder, more, expected):
    assert last(folder.plan(NIGHT, *more)) == last(folder.apply(NIGHT, *more)) == f"No changes. {expected}"


def test_a_saved_plan_says_what_waits(folder):
    planned = folder.plan(NIGHT, "--out", "plan.json")
    assert folder.call("show", "plan.json").out == planned.out
    kept_up = {"by": "minAge", "number": 3, "until": "2026-11-20T22:50:00Z"}
    assert json.loads(folder.plan(NIGHT, "-o", "json").out)["keptUp"] == [kept_up]


def test_what_waits_is_not_told_beside_changes(folder):
    """At 22:31 the oldest goes idle, and the others are left for later runs."""
    assert "minAge" not in folder.plan("2026-11-20T22:31:00Z").out


@pytest.fixture
def of_another_fleet(folder) -> Folder:
    """What the Fleet "first" idled, and the Fleet "second", whose policy has the name of the first one's."""
    old = folder.path / "snapshot" / "dev" / "team-a.yaml"
    old.write_text(old.read_text().replace("2026-11-20T", "2026-11-01T"))
    assert "3 of 3 changes (3 idle)" in folder.apply(NIGHT).out
    folder.write("second/fleet.yaml", fleet(["dev"], name="second"))
    folder.write("second/nights.yaml", NIGHTS)
    folder.write("alone/fleet.yaml", fleet(["dev"], name="second"))
    return folder


LATER = ("--snapshot", "snapshot", "--now", "2026-11-20T23:00:00Z")
API = "dev/team-a/Deployment/api"


def test_what_another_fleet_idled_is_said_in_the_same_words_by_all_verbs(of_another_fleet):
    call = of_another_fleet.call
    assert f"  {API}     was idled by Fleet first\n" in call("plan", "second", *LATER).out
    why = call("explain", API, "--policies", "second", *LATER).out
    assert "\n  because: was idled by Fleet first\n" in why
    assert "\nIdle since Fri 2026-11-20 22:00 (60m) by IdlingPolicy nights of Fleet first, previous scale 3. " in why
    assert "(3 by Fleet first)" in call("restore", "--all", "--auto-approve", "--policies", "second", *LATER).out


@pytest.mark.parametrize("policies", ["second", "alone"])
def test_the_wake_of_it_names_no_policy_and_no_place_of_the_fleet_that_idled_it(of_another_fleet, policies):
    said = of_another_fleet.call("wake", API, "--policies", policies, *LATER)
    assert f"No policy: requested 0s ago\n  ~ {API}  replicas  0 -> 3  wake\n" in said.out
    assert f"  {API}  was idled by Fleet first\n" in said.out
    told = json.loads(of_another_fleet.call("history", "--policies", policies, *LATER, "-o", "json").out)["changes"][-1]
    assert (told["object"], told["verb"], "policy" in told, "place" in told) == (API, "wake", False, False)


def test_who_idled_it_is_told_where_another_policy_selects_it_now(of_another_fleet):
    folder = of_another_fleet
    folder.write("policies/nights.yaml", NIGHTS.replace("name: nights", "name: evenings"))
    said = folder.call("explain", API, *LATER).out
    assert "(60m) by IdlingPolicy nights, previous scale 3." in said
    assert "\nIdlingPolicy evenings (policies/nights.yaml:1): stays idle\n" in said


def test_times_have_one_form_for_people_and_another_in_json(of_another_fleet):
    """The weekday, the day and the minute, and the zone above; RFC 3339 in UTC where a program reads."""
    call = of_another_fleet.call
    history = call("history", *LATER).out
    assert history.splitlines()[1].startswith("Fri 2026-11-20 22:00  ")
    assert 'outside uptime "Mon-Fri 07:00-20:00" until Mon 2026-11-23 07:00' in " ".join(history.split())
    assert json.loads(call("history", *LATER, "-o", "json").out)["changes"][0]["at"] == "2026-11-20T22:00:00Z"
    stands = call("status", "dev", *LATER)
    assert "Fri 2026-11-20 22:00 (60m)  Mon 2026-11-23 07:00" in stands.out
    assert json.loads(call("status", *LATER, "-o", "json").out)["idle"][0]["until"] == "2026-11-23T07:00:00Z"
    assert call("plan", *LATER, "--out", "saved.json").code == 0
    late = call("apply", "saved.json", "--auto-approve", "--snapshot", "snapshot", "--now", "2026-11-22T23:00:00Z")
    assert "was made 2d ago, expected at most 1h ago; plan again" in late.err


BY_CONTEXT = [
    ("wake", API),
    ("restore", "--all", "--auto-approve"),
    ("freeze", "dev", "--for", "1h", "--reason", "x"),
    ("history",),
]


@pytest.fixture
def lost(of_another_fleet) -> Folder:
    """The policies are gone; what remains of their runs are Leases in the namespaces that a test adds."""
    for name in ("fleet", "nights"):
        (of_another_fleet.path / "policies" / f"{name}.yaml").unlink()
    return of_another_fleet


def leases(folder: Folder, *found: tuple[str, str, str]) -> None:
    texts = (
        an_object(
            "Lease",
            name,
            where,
            metadata=f"labels: {{app.kubernetes.io/managed-by: {manager}}}",
            version="coordination.k8s.io/v1",
        )
        for name, where, manager in found
    )
    folder.write("snapshot/dev/leases.yaml", documents(*texts))


@pytest.mark.parametrize("verb", BY_CONTEXT, ids=lambda verb: verb[0])
def test_a_context_takes_no_lock_beside_that_of_the_lost_fleet(lost, verb):
    leases(lost, ("reconciler", "ops", "reconciler"), ("reconciler", "reconciler", "reconciler"))
    before = lost.objects()
    said = lost.call(*verb, "--context", "dev", *LATER)
    assert (said.code, lost.objects() == before) == (64, True)
    assert said.err.splitlines()[-1] == (
        "error: --context: dev has Leases of the reconciler in ops and reconciler, expected --own-namespace with the "
        "namespace of the Fleet whose place it takes"
    )
    assert lost.call(*verb, "--context", "dev", "--own-namespace", "ops", *LATER).code == 0


@pytest.mark.parametrize(
    "found",
    [
        pytest.param((), id="no Lease"),
        pytest.param((("reconciler", "reconciler", "reconciler"),), id="one in the namespace that is used"),
        pytest.param((("reconciler", "ops", "Helm"),), id="one of something else"),
    ],
)
def test_a_context_needs_no_namespace_where_there_is_no_other(lost, found):
    leases(lost, *found)
    assert lost.call("wake", API, "--context", "dev", *LATER).code == 0


NARROW = "narrow with --policy, --cluster, --namespace or --selector"
PATH_IS = "the policy directory is PATH without a flag, `--policies PATH` where a verb has an OBJECT"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("plan -out=f", "-out=f: long options begin with two dashes, expected --out=f"),
        (
            "plan -detailed-exitcode",
            "-detailed-exitcode: long options begin with two dashes, expected --detailed-exitcode",
        ),
        ("apply -auto-approve", "-auto-approve: long options begin with two dashes, expected --auto-approve"),
        ("plan -target=web", f"No such option '-target'; {NARROW}"),
        ("plan --target web", f"No such option '--target'; {NARROW}"),
        ("explain dev policies", "Got unexpected extra argument (policies); the policies are named by --policies"),
        ("plan -A", "No such option '-A'; all namespaces are looked at, unless --namespace names some"),
        (
            "apply --dry-run=server",
            "No such option '--dry-run'; `reconciler plan` shows what would change, and writes nothing",
        ),
        ("plan --dry-run", "No such option '--dry-run'; it changes nothing on clusters"),
        (
            "restore --all -dry-run",
            "No such option '-dry-run'; without --yes it shows what it would do, and asks first",
        ),
        ("wake dev --dry-run", "No such option '--dry-run'; `reconciler status` shows what is idle below an OBJECT"),
        ("plan --kubeconfig f", "No such option '--kubeconfig'; the environment variable KUBECONFIG names the file"),
        ("apply -y", "No such option '-y'; approve with --yes"),
        ("plan -y", "No such option '-y'."),
        ("apply -force", "No such option '-force'; --allow-exceed NAME lifts a limit once"),
        ("snapshot out --force", "No such option '--force'; --overwrite replaces what is there"),
        ("wake dev -target=web", "No such option '-target'"),
        ("wake dev --target web", "No such option '--target'."),
        (
            "plan -lock-timeout=30s",
            "No such option '-lock-timeout'; `reconciler apply --lock-timeout SECONDS` says how long it waits",
        ),
        (
            "apply -lock=false",
            "No such option '-lock'; `reconciler apply --lock-timeout SECONDS` says how long it waits",
        ),
        ("plan -no-color", "No such option '-no-color'; --color never prints none"),
        ("apply -input=false", "No such option '-input'; --auto-approve asks nothing"),
        ("show -json plan.json", "No such option '-json'; -o json prints it as JSON, where the verb has -o"),
        ("plan --all", "No such option '--all'."),
        (
            "wake --all",
            "No such option '--all'; name a CLUSTER to wake everything there; "
            "`reconciler restore --all` restores everything",
        ),
        (
            "wake api -n dev",
            "No such option '-n'; an OBJECT names it, CLUSTER/NAMESPACE/KIND/NAME, where the verb has one",
        ),
        (
            "plan -f policies",
            f"No such option '-f'; {PATH_IS}",
        ),
        ("destroy", "No such command 'destroy'; here it is restore --all"),
        ("get deployments", "No such command 'get'; here it is status"),
        ("version", "No such command 'version'; here it is --version"),
        ("fmt", "No such command 'fmt'; `reconciler --help` lists them"),
    ],
)
def test_habits_of_kubectl_and_terraform_are_answered_with_what_it_is_called_here(folder, call, said):
    answer = folder.call(*call.split())
    assert (answer.code, answer.out, answer.err) == (64, "", f"error: {said}\n")


@pytest.mark.parametrize("form", [("-ojson",), ("-o", "json"), ("-nteam-a",), ("-lapp=api",), ("--", "policies")])
def test_short_options_with_their_value_are_no_habit_of_others(folder, form):
    assert folder.call("plan", "--snapshot", "snapshot", "--now", NIGHT, *form).code == 0


def test_no_option_is_answered_with_something_else_where_the_verb_has_it(folder):
    """Verbs that know --namespace, --all or --yes take them."""
    assert folder.plan(NIGHT, "-n", "team-a").code == 0
    assert folder.call("restore", "--all", "--yes", "--snapshot", "snapshot", "--now", NIGHT).code == 0


def test_a_tab_is_called_a_tab(folder):
    folder.write("policies/nights.yaml", NIGHTS.replace("spec:\n  selector", "spec:\n\tselector"))
    said = folder.call("validate").err
    assert said == "error: policies/nights.yaml:5:1: is no YAML: found a tab, expected spaces\n"


def test_a_kubeconfig_that_is_not_there_is_named(folder, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere/a:/nowhere/b")
    said = folder.call("plan")
    assert said.code == 1
    assert "? dev  kubeconfig as KUBECONFIG says: there is no file /nowhere/a or /nowhere/b, expected" in said.out
