"""`reconciler test`: each thing that can be given and expected, what fails, and all that is wrong with a test file."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.pipeline.calls import Folder, Said

HERE = Path(__file__).parent / "policies"
POLICIES = (HERE / "all.yaml").read_text()
CLUSTERS = (HERE / "holds_test.yaml").read_text().partition("cases:")[0]
API, WORKER, QUEUE, SHOP = (
    f"east/{name}"
    for name in ("dev-a/Deployment/api", "jobs/Deployment/worker", "batch/Deployment/queue", "prod/Deployment/shop")
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.write("policies/all.yaml", POLICIES)
    return found


def cases(folder: Folder, text: str, *more: str, head: str = CLUSTERS) -> Said:
    """Run `text`, the cases of one file."""
    folder.write("policies/x_test.yaml", f"{head}cases:\n{textwrap.indent(textwrap.dedent(text), '  ')}")
    return folder.call("test", "policies", *more)


NIGHT, DAY = "at: 2026-11-20T22:00:00Z", "at: 2026-11-21T12:00:00Z"


@pytest.mark.parametrize(("name", "code"), [("holds", 0), ("fails", 1)])
def test_each_case_of_a_file_ends_as_the_file_beside_it_says(folder, name, code):
    folder.write(f"policies/{name}_test.yaml", (HERE / f"{name}_test.yaml").read_text())
    said = folder.call("test", "policies")
    assert (said.code, said.out) == (code, (HERE / f"{name}.txt").read_text())


def test_a_failure_has_the_first_reason_with_file_and_line(folder):
    said = cases(folder, f"- {{name: a case, {NIGHT}, expect: [{{object: {API}, replicas: 3}}]}}")
    because = 'IdlingPolicy nights (policies/all.yaml:10): idle: "20:00-06:00" until Sat 2026-11-21 06:00'
    assert f"  policies/x_test.yaml:17: {API} at Fri 2026-11-20 22:00, times in UTC\n" in said.out
    assert f"    because   {because}" in said.out


def test_of_several_workloads_the_earliest_failure_is_told_with_their_number(folder):
    said = cases(
        folder,
        "- {name: a, during: {from: 2026-11-21T12:00:00Z, days: 1}, "
        "expect: [{namespaces: [dev-a, jobs], never: idle}]}",
    )
    assert f"{WORKER}, and 1 more, at Sat 2026-11-21 12:00, times in UTC\n" in said.out


def test_cases_are_independent_and_the_snapshot_stays(folder):
    folder.write(
        "snapshot/east/all.yaml", "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: d, namespace: dev-a}\n"
    )
    folder.write("snapshot/west/all.yaml", "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: d, namespace: x}\n")
    before = folder.objects()
    said = cases(
        folder,
        f"""
        - {{name: one, {NIGHT}, given: [{{scale: east/dev-a/Deployment/d, replicas: 7}}],
           expect: [{{object: east/dev-a/Deployment/d, replicas: 7}}]}}
        - {{name: two, {NIGHT}, expect: [{{object: east/dev-a/Deployment/d, replicas: 1}}]}}
        """,
        head="snapshot: ../snapshot\n",
    )
    assert said.code == 0, said
    assert folder.objects() == before
    assert {path.name for path in (folder.path / "snapshot" / "east").iterdir()} == {"all.yaml"}


def test_a_cluster_that_was_not_read_holds_nothing(folder):
    folder.write(
        "snapshot/east/all.yaml", "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: d, namespace: dev-a}\n"
    )
    said = cases(
        folder,
        f"- {{name: a, {NIGHT}, expect: [{{namespaces: [dev-a], policy: nights}}]}}",
        head="snapshot: ../snapshot\n",
    )
    assert "cluster west at " in said.out
    assert "expected  a cluster that can be read" in said.out
    assert said.code == 1


@pytest.mark.parametrize("name", ["shop/web", "web"])
def test_a_federated_replica_set_is_called_with_its_namespace(repository, tmp_path, name):
    found = Folder.copied(repository / "examples" / "quickstart", tmp_path / "quickstart")
    found.write(
        "policies/web_test.yaml",
        "snapshot: ../snapshot\ncases:\n  - name: web\n    at: 2026-11-20T22:00:00Z\n"
        f"    expect: [{{object: us-east/shop/ReplicaSet/web, policy: {name}}}]\n",
    )
    said = found.call("test", "policies/web_test.yaml", "--coverage")
    assert said.code == 0, said
    assert "FederatedReplicaSet shop/web (" in said.out
    assert "shop/web (policies/placement.yaml:2): no scale down" in said.out


# Coverage


def test_coverage_lists_what_no_case_looks_at(folder):
    said = cases(
        folder,
        f"""
        - {{name: one, {NIGHT}, expect: [{{object: {API}, replicas: 0}}, {{object: {SHOP}, replicas: 4}}]}}
        - {{name: two, {NIGHT}, expect: [{{object: {QUEUE}, replicas: 2}}]}}
        """,
        "--coverage",
    )
    assert said.out.split("\n\n")[1].splitlines() == [
        "Coverage: cases for 2 of 3 policies.",
        "  IdlingPolicy nights (policies/all.yaml:10): no wake",
        "  IdlingPolicy unused (policies/all.yaml:19): no case",
    ]


# What is printed


def test_junit_and_json_say_the_same(folder):
    text = f"""
        - {{name: "one \\e[2J <&>", {NIGHT}, expect: [{{object: {API}, replicas: 3}}]}}
        - {{name: two, {NIGHT}, expect: [{{object: {API}, replicas: 0}}]}}
        """
    root = ElementTree.fromstring(cases(folder, text, "-o", "junit").out)
    value = json.loads(cases(folder, text, "-o", "json").out)
    counts = {"tests": "2", "failures": "1", "errors": "0", "skipped": "0"}
    assert root.attrib == counts
    (suite,) = root
    assert suite.attrib == {"name": "policies/x_test.yaml", **counts}
    assert [one.get("name") for one in suite] == ["one \\x1b[2J <&>", "two"]
    assert [one.get("line") for one in suite] == [str(one["line"]) for one in value["cases"]]
    assert [one.find("failure") is None for one in suite] == [one["passed"] for one in value["cases"]] == [False, True]
    failure = suite[0].find("failure")
    assert failure is not None
    assert failure.get("message") == "expected replicas 3, got replicas 0"
    assert "because   IdlingPolicy nights (policies/all.yaml:10)" in str(failure.text)
    assert (value["passed"], value["failed"]) == (1, 1)


JOBS = """
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: jobs}
spec:
  minAge: 0s
  minAwake: 2h
  selector: {namespaces: {include: [cron]}, workloads: {kinds: [CronJob]}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["20:00-06:00"]}}]
"""
OTHER_KINDS = """
clusters:
  east:
    - {apiVersion: batch/v1, kind: CronJob, metadata: {name: tick, namespace: cron}, spec: {schedule: "* * * * *"}}
    - {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: dev-a}, spec: {replicas: 2,
       selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}}
    - {apiVersion: v1, kind: Service, metadata: {name: web, namespace: dev-a}, spec: {selector: {app: web}}}
    - {apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: events, namespace: dev-a},
       spec: {scaleTargetRef: {name: web}}}
"""


@pytest.mark.parametrize(
    "ref",
    ["east/cron/CronJob/tick", "east/dev-a/Deployment/web", "east/dev-a/so/events"],
    ids=["a CronJob", "KEDA", "a ScaledObject"],
)
def test_what_has_no_scale_of_its_own_is_idle_at_the_run_that_idles_it(folder, ref):
    folder.write("policies/jobs.yaml", JOBS)
    morning = f"then: [{{at: 2026-11-21T06:00:00Z, expect: [{{object: {ref}, state: awake}}]}}]"
    state = f"expect: [{{object: {ref}, state: idle}}]"
    idle = cases(folder, f"- {{name: one, {NIGHT}, {state}, {morning}}}", head=OTHER_KINDS)
    assert (idle.code, idle.err) == (0, ""), idle.out
    never = cases(folder, f"- {{name: one, {NIGHT}, expect: [{{object: {ref}, never: idle}}]}}", head=OTHER_KINDS)
    assert never.code == 1, never.out


# Exit codes and places


def test_one_file_alone_is_run_with_the_policies_of_its_folder(folder):
    cases(folder, f"- {{name: one, {NIGHT}, expect: [{{object: {API}, replicas: 0}}]}}")
    folder.write("policies/y_test.yml", "cases: 3\n")
    assert folder.call("test", "policies/x_test.yaml").code == 0
    assert folder.call("test", "policies").code == 3


def test_one_file_of_a_subfolder_is_run_with_the_policies_that_are_named(folder):
    case = f"- {{name: one, {NIGHT}, expect: [{{object: {API}, replicas: 0}}]}}"
    folder.write("policies/team/x_test.yaml", f"{CLUSTERS}cases:\n  {case}\n")
    assert folder.call("test", "policies/team").code == 3
    said = folder.call("test", "policies/team/x_test.yaml", "--policies", "policies")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("PASS  policies/team/x_test.yaml:17  one\n")


def test_a_path_that_is_given_wins_over_the_variable_of_the_policy_directory(folder, monkeypatch):
    cases(folder, f"- {{name: one, {NIGHT}, expect: [{{object: {API}, replicas: 0}}]}}")
    monkeypatch.setenv("RECONCILER_POLICIES", "nowhere")
    assert folder.call("test", "policies").code == 0
    monkeypatch.setenv("RECONCILER_POLICIES", "policies")
    assert folder.call("test").code == 0


def test_test_files_are_no_policies(folder):
    cases(folder, f"- {{name: one, {NIGHT}, expect: [{{object: {API}, replicas: 0}}]}}")
    before = json.loads(folder.call("compile", "policies", "-o", "json").out)["digest"]
    folder.write("policies/z_test.yml", "no: policy\n")
    assert folder.call("validate", "policies").code == 0
    assert json.loads(folder.call("compile", "policies", "-o", "json").out)["digest"] == before


A_TEST = "a file named *_test.yaml, or a folder with some"
NO_POLICIES = "is a test of policies, expected a directory with policy files; `reconciler test` runs it"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(
            ("test", "policies"),
            64,
            "policies: has no tests, expected a file named *_test.yaml",
            id="folder without tests",
        ),
        pytest.param(("test", "nowhere"), 64, f"nowhere: does not exist, expected {A_TEST}", id="path does not exist"),
        pytest.param(
            ("test", "policies/all.yaml"),
            64,
            f"policies/all.yaml: is no test of policies, expected {A_TEST}",
            id="policies in place of tests",
        ),
        pytest.param(
            ("test", "run.sh"), 64, f"run.sh: is no test of policies, expected {A_TEST}", id="script in place of tests"
        ),
        pytest.param(("test", "policies", "-o", "markdown"), 64, "'markdown'", id="unknown output format"),
        pytest.param(("validate", "small_test.yaml"), 64, f"small_test.yaml: {NO_POLICIES}", id="validate of tests"),
        pytest.param(
            ("validate", "small_test.yaml", "-o", "sarif"),
            64,
            f"small_test.yaml: {NO_POLICIES}",
            id="validate of tests as SARIF",
        ),
        pytest.param(("plan", "small_test.yaml"), 64, f"small_test.yaml: {NO_POLICIES}", id="plan of tests"),
        pytest.param(
            ("apply", "small_test.yaml", "--auto-approve"), 64, f"small_test.yaml: {NO_POLICIES}", id="apply of tests"
        ),
    ],
)
def test_calls_that_run_nothing(folder, arguments, code, words):
    folder.write("run.sh", "set -eu\n")
    folder.write("small_test.yaml", "cases: []\n")
    said = folder.call(*arguments)
    assert said.code == code, said
    assert said.out == ""
    *_, last = said.err.splitlines()
    assert words in last


def test_all_problems_of_tests_and_policies_are_told_at_once(folder):
    folder.write("policies/wrong.yaml", "kind: Idling\n")
    folder.write("policies/y_test.yaml", "- x\n")
    said = cases(folder, "- {name: one}")
    assert said.code == 3
    places = [line.removeprefix("error: ").rsplit(": ", 1)[0] for line in said.err.splitlines()]
    assert any(place.startswith("policies/wrong.yaml:1:7: kind") for place in places)
    assert any(place.startswith("policies/x_test.yaml:17:") for place in places)
    assert any(place.startswith("policies/y_test.yaml:1:1") for place in places)


WRONG = {
    "no code": ("expect: [{object: a/b/c/d, reason: InDowntim}]", 'did you mean "InDowntime"?'),
    "no case": ("cases: []", "2:8: cases: is an empty list"),
    "no name": ("cases: [{}]", "cases[0].name: is missing"),
    "nothing": ("{x}", "1:1: cases: is missing"),
    "no clusters": ("{}", "has none of snapshot, clusters, expected exactly one"),
    "both": ("snapshot: s, clusters: {}", "has snapshot and clusters, expected exactly one"),
    "outside": ("snapshot: /etc", 'snapshot: is "/etc", expected a folder below the working directory'),
    "above": ("snapshot: ../../..", "expected a folder below the working directory"),
    "a link": ("snapshot: ../linked", "expected a folder below the working directory"),
    "no folder": ("snapshot: nowhere", "expected a folder; there is no policies/nowhere"),
    "a null byte": ('snapshot: "a\\0b"', "expected a folder; no path has a null byte"),
    "tick": ("tick: 30s", "tick: is less than a minute, expected at least 1m"),
    "start": ("start: 2026-11-22T00:00:00Z", "start: is after the first time"),
    "no time": ("at: 2026-11-20", 'at: is "2026-11-20", expected a time with a zone'),
    "no month": ("at: 2026-13-20T00:00:00Z", 'at: is "2026-13-20T00:00:00Z", expected a time'),
    "two times": ("during: {from: 2026-11-20T00:00:00Z, days: 1}", "has at and during, expected exactly one"),
    "no event": ("given: [{}]", "has none of annotate, scale, patch, query"),
    "half an event": ("given: [{scale: a/b/c/d}]", "has one of scale and replicas, expected both"),
    "annotates nothing": ("given: [{annotate: a/b/c/d}]", "has one of annotate and what it sets"),
    "soon": ("given: [{annotate: a/b/c/d, wake-requested-at: soon}]", "wake-requested-at: is"),
    "a number": ("given: [{annotate: a/b/c/d, wake-requested-at: 5}]", "wake-requested-at: is"),
    "no object": ("given: [{scale: a/b, replicas: 1}]", "expected an object: CLUSTER/NAMESPACE/KIND/NAME"),
    "of nobody": ("expect: [{replicas: 1}]", "has none of object, namespaces"),
    "kinds of one object": (
        "expect: [{object: a/b/c/d, kinds: [Deployment], replicas: 1}]",
        "kinds: stands without namespaces, expected it beside namespaces",
    ),
    "clusters of one object": (
        "expect: [{object: a/b/c/d, clusters: [x], replicas: 1}]",
        "clusters: stands without namespaces, expected it beside namespaces",
    ),
    "a cluster of what is scaled": (
        "given: [{scale: a/b/c/d, replicas: 1, cluster: east}]",
        "cluster: stands without query, expected it beside query",
    ),
    "expects nothing": ("expect: [{object: a/b/c/d}]", "expects nothing, expected at least one of replicas"),
    "until before": ("expect: [{object: a/b/c/d, replicas: 1, until: 2026-11-20T00:00:00Z}]", "until: is not after"),
    "backwards": (
        "then: [{at: 2026-11-20T00:00:00Z, expect: [{object: a/b/c/d, replicas: 1}]}]",
        "then[0].at: is not after the time before",
    ),
    "a year that was mistyped": (
        "then: [{at: 2126-11-20T00:00:00Z, expect: [{object: a/b/c/d, replicas: 1}]}]",
        "days, expected 366 at most",
    ),
    "typo": ("expect: [{object: a/b/c/d, replica: 1}]", 'replica: unknown field, did you mean "replicas"?'),
}


def wrong_file(part: str) -> str:
    """Return a test file that is right but for `part`."""
    case = {"name": "one", "at": "2026-11-21T00:00:00Z", "expect": "[{object: a/b/c/d, replicas: 1}]"}
    name, _, value = part.partition(": ")
    if name == "{x}":
        return "{}\n"
    top = {"clusters": "{}"} if name not in ("snapshot", "{}") else {}
    if name in ("snapshot", "tick", "cases"):
        top[name] = value
    elif name != "{}":
        case[name] = value
    top.setdefault("cases", f"[{{{', '.join(f'{key}: {text}' for key, text in case.items())}}}]")
    return "\n".join(f"{key}: {text}" for key, text in top.items()).replace("s, clusters: {}", "s\nclusters: {}") + "\n"


def test_what_is_wrong_with_a_test_file_is_told_at_its_place(folder, tmp_path):
    (tmp_path.parent / f"{tmp_path.name}-outside").mkdir()
    (folder.path / "linked").symlink_to(tmp_path.parent / f"{tmp_path.name}-outside")
    files = {f"policies/{number:02}_test.yaml": name for number, name in enumerate(WRONG)}
    for file, name in files.items():
        folder.write(file, wrong_file(WRONG[name][0]))
    said = folder.call("test", "policies")
    assert said.code == 3, said
    told: dict[str, str] = {}
    for line in said.err.splitlines():
        file = line.removeprefix("error: ").partition(":")[0]
        told[files[file]] = told.get(files[file], "") + line
    assert [name for name, (_, words) in WRONG.items() if words not in told.get(name, "")] == [], said.err


@pytest.mark.parametrize(
    ("head", "case", "place"),
    [
        pytest.param("clusters: {easst: []}\n", "", "1:12: clusters.easst", id="clusters"),
        pytest.param(
            "clusters: {}\nseries: [{query: q, value: 0}, {query: q, value: 0, cluster: easst}]\n",
            "",
            "2:62: series[1].cluster",
            id="series",
        ),
        pytest.param(
            "clusters: {}\n",
            "given: [{query: q, series: [], cluster: easst}], ",
            "3:83: cases[0].given[0].cluster",
            id="given",
        ),
    ],
)
def test_a_cluster_that_the_fleet_does_not_have_is_told_at_its_place(folder, head, case, place):
    """It would be read as a cluster that nothing is asked of, and the case would rest on that."""
    one = f"- {{name: one, {NIGHT}, {case}expect: [{{object: {API}, policy: none}}]}}"
    said = cases(folder, one, head=head)
    words = 'is "easst", expected a cluster of the Fleet: "east" or "west", did you mean "east"?'
    assert (said.code, said.err) == (3, f"error: policies/x_test.yaml:{place}: {words}\n")


def test_names_of_clusters_are_not_judged_by_a_fleet_that_cannot_be_read(folder):
    folder.write("policies/all.yaml", POLICIES.replace("home: east", "home: north"))
    one = f"- {{name: one, {NIGHT}, expect: [{{object: {API}, policy: none}}]}}"
    said = cases(folder, one, head="clusters: {easst: []}\n")
    assert (said.code, "x_test.yaml" in said.err, "spec.home" in said.err) == (3, False, True)


def test_manifests_that_are_none(folder):
    one = f"- {{name: one, {NIGHT}, expect: [{{object: {API}, replicas: 0}}]}}"
    said = cases(folder, one, head="clusters: {east: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: 3}}]}\n")
    assert said.code == 3
    assert said.err.startswith("error: policies/x_test.yaml:1:76: clusters.east[0].metadata.name: ")


def test_the_tests_of_this_repository_pass(repository):
    """Those of the quickstart are run by README.md."""
    said = Folder(repository).call("test", "policies", "--coverage")
    assert said.code == 0, said.out
    assert "Coverage: cases for " in said.out
