"""Bad input of any kind: one clear line for each problem, the right exit code, and nothing changes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from reconciler.cli.policy_source import check_names
from reconciler.errors import UsageError
from reconciler.plan.filters import Filters
from tests.builders import a_downscale_policy, a_federated_replica_set, a_policy_set
from tests.pipeline.calls import Folder

NOW = "2026-11-20T22:00:00Z"
LOOK = ("--snapshot", "snapshot", "--now", NOW)


def contents(folder: Folder) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.path.rglob("*")) if path.is_file()}


def test_a_file_of_its_own_that_was_cut_is_no_interrupt(quickstart, monkeypatch):
    """As of a module that was compiled onto a full disk."""

    def cut(*_):
        raise EOFError("marshal data too short")

    monkeypatch.setattr("reconciler.cli.rbac.read_policies", cut)
    said = quickstart.call("rbac", "policies")
    assert (said.code, "EOFError: marshal data too short" in said.err) == (1, True), said.err


ON = "policies --snapshot snapshot --now"
LOOKING = f"--snapshot snapshot --now {NOW}"
NO_TIME = "is not a time, expected RFC 3339 with a zone and a year from 1970 to 9000"
MARS = "mars/batch/deploy/worker"
WORKER = "eu-west/batch/Deployment/worker"
NO_FOLDER = "nowhere: No such file or directory, expected a folder with a folder for each cluster"
MISSPELT = "eu-wst/dev-a/deploy/api"
WRONG_CALLS = {
    "misspelt verb": ("plann", 64, "error: No such command 'plann', did you mean \"plan\"?"),
    "misspelt flag": ("plan --snapshto x", 64, "error: No such option"),
    "an option without its value, at the end": (
        "apply policies --auto-approve --snapshot",
        64,
        "'--snapshot' requires an argument",
    ),
    "an option without its value, before another": ("plan --timeout --summary", 64, '"--summary" is not a number of'),
    "a time limit below zero": ("plan --timeout=-1", 64, '"-1" is not a number of seconds'),
    "a time limit that is no number": (
        "apply policies --auto-approve --timeout nan",
        64,
        '"nan" is not a number of seconds',
    ),
    "a wait without end": ("apply policies --auto-approve --lock-timeout inf", 64, '"inf" is not a number of seconds'),
    "a run id that is a path": ("plan --run-id ../../x", 64, "--run-id: "),
    "a run id that is too long": (f"plan --run-id {'x' * 41}", 64, "--run-id: "),
    "a revision that is no UTF-8": ("plan --source-revision \udcff", 64, "--source-revision"),
    "a moment that is no time": (
        f"plan {ON} yesterday",
        64,
        f'--now: "yesterday" {NO_TIME}, like 2026-11-20T15:41:23Z',
    ),
    "the end of the calendar": (f"plan {ON} 9999-12-30T00:00:00Z", 64, f'--now: "9999-12-30T00:00:00Z" {NO_TIME}'),
    "a moment without a zone": (f"plan {ON} 2026-11-20T22:00:00", 64, '--now: "2026-11-20T22:00:00" is not a time'),
    "a tick, although nothing is compared": ("plan policies --tick bogus", 64, "bogus"),
    "an age of snapshots, although nothing is": ("plan policies --max-snapshot-age bogus", 64, "bogus"),
    "an age of plans without one": ("apply policies --auto-approve --max-plan-age bogus", 64, "bogus"),
    "other policies than those that are applied": (
        f"apply --policies others {LOOKING} --auto-approve",
        64,
        "error: --policies: policies is no saved plan, expected it beside one; what is applied is PATH",
    ),
    "an age of files": ("history --from . --since bogus", 64, "bogus"),
    "days that only calendar takes": ("plan policies --days 100", 64, "100"),
    "a freeze without its length": ("freeze", 64, "error: Missing option '--for'.\n"),
    "a freeze without its reason": ("freeze --for 4h", 64, "error: Missing option '--reason'.\n"),
    "an activator without a Pod": ("activator --pod-name a --pod-uid u", 64, "error: Missing option '--pod-ips'.\n"),
    "unknown cluster": (
        f"plan policies {LOOKING} --cluster eu-wst",
        64,
        'matches none of 3 known, did you mean "eu-west"?',
    ),
    "unknown policy": (
        f"plan policies {LOOKING} --policy idle-dve",
        64,
        'matches none of 5 known, did you mean "idle-dev"?',
    ),
    "unknown namespace": (f"plan policies {LOOKING} -n dev-z", 64, '--namespace: "dev-z" matches none of'),
    "malformed label selector": (f"plan policies {LOOKING} -l a=b=c", 64, '--selector: "a=b=c" is no label selector'),
    "limits of an unknown policy": (
        f"plan policies {LOOKING} --allow-exceed flet",
        64,
        '"flet" is not a policy, expected a policy',
    ),
    "nobody to ask": (f"apply policies {LOOKING}", 64, "there is no terminal to ask on, expected --auto-approve"),
    "policies that do not exist": (
        f"plan nowhere {LOOKING}",
        3,
        "nowhere: does not exist, expected a directory with policy files",
    ),
    "a folder of manifests in place of policies": (
        f"plan snapshot/ap-south {LOOKING}",
        3,
        "has objects of Kubernetes and no policy in it, expected",
    ),
    "a snapshot that does not exist": (f"plan policies --snapshot nowhere --now {NOW}", 3, NO_FOLDER),
    "a saved plan to show that does not exist": ("show nowhere.json", 5, "nowhere.json: No such file or directory"),
    "a saved plan to apply that does not exist": ("apply nowhere.json", 5, "nowhere.json: No such file or directory"),
    "a plan that is none": ("show policies/fleet.yaml", 5, "policies/fleet.yaml: is not JSON"),
    "a name without its place": ("explain api", 64, "; an OBJECT is CLUSTER/NAMESPACE/KIND/NAME or the first"),
    "a schema of no kind": ("schema Pod", 64, '"Pod" is no kind, expected one of'),
    "what else has a schema": ("schema Pod", 64, "Report, Change, Policy, catalog"),
    "an object on no cluster": (
        f"explain {MISSPELT} {LOOKING}",
        64,
        'of the Fleet, did you mean "eu-west"?',
    ),
    "several to rank": (
        f"rank eu-west/batch {LOOKING}",
        64,
        f"names {WORKER}, eu-west/batch/ReplicaSet/worker-",
    ),
    "nothing to rank": (f"rank eu-west/batch/deploy/wroker {LOOKING}", 64, 'was found, did you mean "worker"?'),
    "no cluster to rank": (f"rank {MARS} {LOOKING}", 64, f'{MARS}: "mars" is not a cluster of the Fleet'),
    "a kind without replicas to rank": (
        f"rank eu-west/ci/cronjob/nightly {LOOKING}",
        64,
        "is a CronJob, expected a workload with",
    ),
    "an object of too many parts": (
        f"rank a/b/c/d/e {LOOKING}",
        64,
        "does not name an object, expected CLUSTER/NAMESPACE",
    ),
    "restore nothing": (f"restore {LOOKING} --auto-approve", 64, "restore: expected an OBJECT, --policy"),
    "a wake for no duration": (
        f"wake eu-west/dev-a --for long {LOOKING}",
        64,
        "like 90s, 30m, 1h30m or 2d, from 1m to 999d",
    ),
}


@pytest.mark.every_case
@pytest.mark.parametrize(("call", "code", "line"), WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_a_wrong_call(quickstart, monkeypatch, call, code, line):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    before = contents(quickstart)
    said = quickstart.call(*call.split())
    assert said.code == code, said
    assert line in said.err
    assert "Traceback" not in said.err
    assert contents(quickstart) == before


def test_with_json_asked_for_an_error_is_one_json_document_too(quickstart):
    file = quickstart.path / "policies" / "idling.yaml"
    file.write_text(file.read_text().replace("idleWhen", "idelWhen", 1))
    said = quickstart.call("plan", "policies", *LOOK, "-o", "json")
    found = json.loads(said.out)
    assert (said.code, found["kind"], found["exitCode"]) == (3, "Error", 3)
    assert found["problems"] == [
        {
            "file": "policies/idling.yaml",
            "line": 9,
            "column": 3,
            "field": "spec.idelWhen",
            "message": 'unknown field, did you mean "idleWhen"?',
        }
    ]


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        pytest.param(lambda plan: plan | {"more": 1}, "more", id="an unknown field"),
        pytest.param(lambda plan: plan | {"madeAt": "2026-11-20T20:00:00Z"}, "plan again", id="too old"),
        pytest.param(lambda plan: plan | {"madeAt": "2026-11-21T00:00:00Z"}, "plan again", id="of the future"),
        pytest.param(
            lambda plan: plan | {"clusters": dict.fromkeys(plan["clusters"], "another")},
            "it is another cluster now",
            id="of other clusters",
        ),
        pytest.param(lambda plan: plan | {"clusters": {}}, "expected one of $.clusters", id="of no clusters"),
        pytest.param(lambda plan: plan | {"fleet": "other"}, 'is of Fleet "other", expected "quickstart"', id="Fleet"),
    ],
)
def test_a_saved_plan_that_does_not_fit_is_refused_as_a_whole(quickstart, edit, line):
    assert quickstart.plan(NOW, "--out", "plan.json").code == 0
    file = quickstart.path / "plan.json"
    file.write_text(json.dumps(edit(json.loads(file.read_text()))))
    before = contents(quickstart)
    said = quickstart.call("apply", "plan.json", *LOOK)
    assert said.code == 5, said
    assert line in said.err
    assert contents(quickstart) == before


def test_half_a_character_in_a_saved_plan_is_refused(quickstart):
    """JSON can spell it, UTF-8 cannot."""
    (quickstart.path / "plan.json").write_text('{"kind": "\\ud800"}')
    said = quickstart.call("show", "plan.json")
    assert said.code == 5
    assert "plan.json: is not JSON" in said.err


def test_a_saved_plan_does_exactly_what_an_apply_does_and_only_once(quickstart, repository, tmp_path):
    other = Folder.copied(repository / "examples" / "quickstart", tmp_path / "other")
    other.apply(NOW)
    quickstart.plan(NOW, "--out", "plan.json")
    assert quickstart.call("apply", "plan.json", *LOOK, "-q").code == 0
    assert quickstart.objects() == other.objects()
    again = quickstart.call("apply", "plan.json", *LOOK, "-q")
    assert again.code == 5
    assert quickstart.objects() == other.objects()


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        pytest.param("web.yaml", "kind: [", "snapshot/eu-west/web.yaml:2:1: ", id="no YAML"),
        pytest.param("metrics.yaml", "result: []\n", 'did you mean "results"?', id="a misspelt field of the metrics"),
    ],
)
def test_a_malformed_snapshot(quickstart, file, text, line):
    quickstart.write(f"snapshot/eu-west/{file}", text)
    before = contents(quickstart)
    for verb in ("plan", "apply"):
        said = quickstart.call(verb, "policies", *LOOK, *(["--auto-approve"] if verb == "apply" else []))
        assert said.code == 3, said
        assert line in said.err
        assert "Traceback" not in said.err
    assert contents(quickstart) == before


def test_one_cluster_that_is_named_twice_in_a_fleet(quickstart):
    east = quickstart.path / "snapshot" / "us-east" / "cluster.yaml"
    east.write_text((quickstart.path / "snapshot" / "eu-west" / "cluster.yaml").read_text())
    said = quickstart.plan(NOW, "--fail-on", "unknown")
    assert said.code == 6
    assert re.search("[?] eu-west +kube-system has uid ", said.out)
    assert "as us-east has, expected each cluster once" in said.out


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param('[[".new.yaml.reconciler-new", "new.yaml"]]', id="a new file"),
        pytest.param('[["../../hook", "../../hooks/post-checkout"], [null, "../../policies/fleet.yaml"]]', id="out"),
    ],
)
def test_nobody_carries_out_what_a_hidden_file_of_a_snapshot_says(quickstart, steps):
    """Earlier versions wrote down there what they were about to change."""
    new = "{apiVersion: v1, kind: Namespace, metadata: {name: new}}"
    quickstart.write("snapshot/eu-west/.new.yaml.reconciler-new", new)
    quickstart.write("snapshot/eu-west/.reconciler-pending.json", steps)
    quickstart.write("hook", "x")
    before = contents(quickstart)
    assert quickstart.plan(NOW).code == 0
    assert contents(quickstart) == before
    assert quickstart.apply(NOW).code == 0
    assert ("eu-west", "", "Namespace", "new") not in quickstart.objects()
    snapshot = quickstart.path / "snapshot"
    after = contents(quickstart)
    assert {path: after.get(path) for path in before if not path.is_relative_to(snapshot)} == {
        path: data for path, data in before.items() if not path.is_relative_to(snapshot)
    }
    assert all(path.is_relative_to(snapshot) for path in after.keys() - before.keys())


def test_a_token_behind_a_link_is_never_shown(quickstart):
    quickstart.write("token", "s3cr3t-token")
    (quickstart.path / "policies" / "token.yaml").symlink_to("../token")
    (quickstart.path / "snapshot" / "eu-west" / "token.yaml").symlink_to("../../token")
    for said in (quickstart.call("validate", "policies"), quickstart.plan(NOW), quickstart.plan(NOW, "-o", "json")):
        assert said.code == 3
        assert "policies/token.yaml" in said.out + said.err
        assert "s3cr3t" not in said.out + said.err
    (quickstart.path / "policies" / "token.yaml").unlink()
    said = quickstart.plan(NOW)
    assert said.code == 3
    assert "snapshot/eu-west/token.yaml:1:1: is a link that leads out of" in said.err
    assert "s3cr3t" not in said.err


def test_a_name_of_two_federated_replica_sets_lifts_no_limit():
    both = a_policy_set(federated=tuple(a_federated_replica_set(namespace=one) for one in ("news", "shop")))
    check_names(both, Filters(policies=("web", "shop/web")), {"shop/web": None})
    with pytest.raises(UsageError, match='"web" is 2 policies, expected one of news/web, shop/web'):
        check_names(both, Filters(), {"web": None})


def test_a_name_of_policies_of_two_kinds_lifts_the_limits_of_neither_altogether():
    both = a_policy_set(federated=(a_federated_replica_set(),), downscale=(a_downscale_policy("web"),))
    check_names(both, Filters(), {"web": 5, "shop/web": None})
    with pytest.raises(UsageError, match='"web" is the name of policies of several kinds, expected NAME=NUMBER'):
        check_names(both, Filters(), {"web": None})
