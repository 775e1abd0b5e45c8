"""`reconciler ci`: what it writes, where, and that it always says something, whatever is wrong."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.pull_request_comment import RestApi, github_comments, publish
from reconciler.errors import CommentError, Problem
from reconciler.report.code_host import ReviewComment, marker_of, render_review, shortened
from tests.cases import cases
from tests.pipeline.calls import Folder, Said
from tests.review.code_hosts import NUMBER, REPOSITORY, SHA, TOKEN, CodeHost, a_later_event, an_event

NOW = "2026-11-20T22:00:00Z"
CHECK = ("ci", "github", "policies", "--base", "base")
PLAN = (*CHECK, "--snapshot", "snapshot")
LISTED, POSTED = (
    f"GET /repos/{REPOSITORY}/issues/{NUMBER}/comments",
    f"POST /repos/{REPOSITORY}/issues/{NUMBER}/comments",
)
MARKER = "<!-- reconciler review of policies -->"


@pytest.fixture
def folder(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: CodeHost) -> Folder:
    """The quickstart with a base, and the variables of a run on GitHub."""
    found = Folder.copied(repository / "examples" / "quickstart", tmp_path / "checkout")
    shutil.copytree(found.path / "policies", found.path / "base")
    event(found, an_event())
    for name, value in {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": host.url,
        "GITHUB_EVENT_PATH": str(found.path / "event.json"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_STEP_SUMMARY": str(found.path / "summary.md"),
        "GITHUB_TOKEN": TOKEN,
        "RECONCILER_DAYS": "1",
        "RECONCILER_NOW": NOW,
    }.items():
        monkeypatch.setenv(name, value)
    return found


def event(folder: Folder, value: dict[str, Any]) -> None:
    folder.write("event.json", json.dumps(value))


def summary(folder: Folder) -> str:
    return (folder.path / "summary.md").read_text()


def edited(folder: Folder, old: str, new: str, file: str = "policies/idling.yaml") -> None:
    text = (folder.path / file).read_text()
    assert old in text
    folder.write(file, text.replace(old, new, 1))


def check_no_token(folder: Folder, said: Said) -> None:
    assert TOKEN not in said.out + said.err
    assert not (folder.path / "summary.md").exists() or TOKEN not in summary(folder)


# What is written


def test_a_comment_is_created_then_updated_then_left(folder, host):
    edited(folder, 'include: ["dev-*"]', "include: [dev-a]")
    said = folder.call(*PLAN)
    assert (said.code, said.err.splitlines()[-1]) == (0, "the comment was created")
    [comment] = host.comments
    assert comment["body"].startswith(f"{MARKER}\n## ")
    assert "us-east/dev-b/Deployment/reports" in comment["body"]
    assert summary(folder) == comment["body"].removeprefix(f"{MARKER}\n")
    assert folder.call(*PLAN).err.splitlines()[-1] == "the comment says so already"
    edited(folder, "include: [dev-a]", "include: [dev-b]")
    assert folder.call(*PLAN).err.splitlines()[-1] == "the comment was updated"
    assert [one["id"] for one in host.comments] == [comment["id"]]
    assert [line.partition(" ")[0] for line in host.requests] == ["GET", "POST", "GET", "GET", "PATCH"]
    check_no_token(folder, said)


def test_the_comment_replays_the_past_with_the_base_and_with_the_change(repository, tmp_path, host):
    """All of it is in the checkout: no kubeconfig, no credentials of a cluster, and no Prometheus is asked."""
    folder = Folder.copied(repository / "examples" / "replay", tmp_path / "checkout")
    shutil.copytree(folder.path / "policies", folder.path / "base")
    edited(folder, "19:00-07:00", "21:00-07:00")
    event(folder, an_event())
    bare = {
        "GITHUB_API_URL": host.url,
        "GITHUB_EVENT_PATH": str(folder.path / "event.json"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "HOME": str(tmp_path / "nobody"),
        "RECONCILER_DAYS": "1",
        "RECONCILER_NOW": NOW,
    }
    said = subprocess.run(
        [sys.executable, "-I", "-m", "reconciler", *PLAN], cwd=folder.path, env=bare, capture_output=True, check=False
    )
    assert said.returncode == 0, said
    [comment] = host.comments
    lines = html.unescape(comment["body"]).splitlines()
    past = "all policies: 1,690 replica-hours saved (39 %) -> 1,484 replica-hours saved (34 %)"
    assert f"<br>The last 30 days replayed: {past}." in lines
    begin = lines.index("### The last 30 days replayed")
    assert [line for line in lines[begin + 1 : lines.index("**Measured**")] if line] == [
        "**before -> after**",
        f"- {past}",
        "- IdlingPolicy idle-dev: 1,690 replica-hours saved -> 1,484 replica-hours saved; "
        "quiet in 29 of 30 nights -> quiet in 30 of 30 nights; woken by traffic 1 time -> never woken by traffic; "
        "1 request waited -> 0 requests waited",
    ]


def test_an_invalid_change_is_a_comment_and_annotations_with_all_problems(folder, host):
    edited(folder, "kind: IdlingPolicy", "kind: IdlingPolicies")
    folder.write("policies/wrong.yaml", "kind: [\n")
    said = folder.call(*CHECK)
    assert said.code == 3
    lines = [line for line in said.out.splitlines() if line.startswith("::error ")]
    assert [line.split("::")[1].split(",col=")[0] for line in lines] == [
        "error file=policies/idling.yaml,line=3",
        "error file=policies/wrong.yaml,line=2",
    ]
    [comment] = host.comments
    assert "**The policies in `policies` cannot be used: 2 problems.**" in comment["body"]
    for place in ("policies/idling.yaml:3:7: kind: ", "policies/wrong.yaml:2:1: "):
        assert place in comment["body"]
        assert place in summary(folder)


def test_warnings_are_annotations_too(folder):
    edited(folder, 'include: ["dev-*"]', 'include: ["dev-*", dev-shared]')
    said = folder.call(*CHECK)
    assert said.code == 0, said
    assert said.out.startswith("::warning file=policies/idling.yaml,line=")


@pytest.mark.parametrize("wrong", ["broken", "missing"])
def test_with_an_invalid_base_the_change_is_planned_alone_and_that_is_said(folder, host, wrong):
    if wrong == "broken":
        edited(folder, "kind: IdlingPolicy", "kind: Idling", "base/idling.yaml")
    else:
        shutil.rmtree(folder.path / "base")
    said = folder.call(*PLAN)
    assert said.code == 0, said
    assert "::error" not in said.out, "the change is not to blame"
    body = host.comments[0]["body"]
    assert "nothing is compared: this is the plan of the change alone" in body
    assert ("base/idling.yaml:3:7: kind: " if wrong == "broken" else "base: does not exist") in body
    assert "## Plan for Fleet `quickstart`" in body


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        pytest.param((*CHECK, "--snapshot", "gone"), 3, "gone: No such file or directory, expected", id="no snapshot"),
        pytest.param((*PLAN, "--plan-timeout", "0"), 1, "there was no plan within 0 s", id="no plan in time"),
        pytest.param(
            (*CHECK, "--check-timeout", "0"),
            1,
            "the policies were not checked within 0 s, expected",
            id="no check in time",
        ),
        pytest.param(
            CHECK, 0, "no snapshot was given, so the policies were checked and not planned", id="not asked for"
        ),
    ],
)
def test_why_there_is_no_plan_is_a_comment_too(folder, host, call, code, words):
    assert folder.call(*call).code == code
    assert words in host.comments[0]["body"]


# Who may not comment


@pytest.mark.parametrize(
    ("changes", "event_value", "reason"),
    [
        pytest.param({"GITHUB_TOKEN": ""}, an_event(), "there is no token", id="no token"),
        pytest.param({}, an_event(fork=True), "comes from a fork, whose token may only read", id="fork"),
        pytest.param({}, an_event(deleted=True), "comes from a fork, whose token may only read", id="fork, deleted"),
        pytest.param({}, {"ref": "refs/heads/main"}, "this run is of no pull request", id="push"),
        pytest.param({"RECONCILER_COMMENT": "never"}, an_event(), "no comment is wanted", id="not wanted"),
        pytest.param({}, a_later_event(event="push"), "the run before is of no pull request", id="after a push"),
    ],
)
def test_without_a_comment_there_are_summary_and_annotations(folder, host, monkeypatch, changes, event_value, reason):
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    event(folder, event_value)
    edited(folder, "kind: IdlingPolicy", "kind: IdlingPolicies")
    said = folder.call(*CHECK)
    assert said.code == 3
    assert reason in said.err
    assert said.out.startswith("::error file=policies/idling.yaml,line=3,col=7::kind: ")
    assert "1 problem" in summary(folder)
    assert host.requests == []


@pytest.mark.parametrize(("fail_on", "code"), [("invalid", 0), ("held-back", 0), ("held-back,unknown", 6)])
def test_a_token_that_may_only_read_is_a_warning(folder, host, fail_on, code):
    host.refuses, host.after = (403, {"message": "Resource not accessible by\nintegration"}), "POST"
    said = folder.call(*CHECK, "--fail-on", fail_on)
    assert said.code == code
    words = f"the comment cannot be written: POST {host.url}/repos/{REPOSITORY}/issues/{NUMBER}/comments: status 403"
    assert f"warning: {words} (Resource not accessible by integration), expected success\n" in said.err
    assert f"::warning title=reconciler::{words}" in said.out
    assert "not planned" in summary(folder)
    assert host.requests == [LISTED, POSTED], "what creates something is not sent twice"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param((200, {"not": "a list"}), "the answer is not what the API documents", id="another shape"),
        pytest.param((401, {"message": 5}), "status 401, expected success", id="no words"),
        pytest.param((200, [{"id": 1, "user": {"type": 3}}]), "is not what the API documents", id="another type"),
    ],
)
def test_odd_answers_are_a_warning(folder, host, answer, words):
    host.refuses = answer
    said = folder.call(*CHECK)
    assert said.code == 0
    assert words in said.err


def test_a_redirect_is_not_followed(folder, host):
    with CodeHost() as elsewhere:
        host.redirects_to = elsewhere.url
        said = folder.call(*CHECK)
    assert elsewhere.requests == []
    assert "status 307" in said.err


def test_a_later_workflow_comments_on_the_pull_request_of_its_commit(folder, host):
    event(folder, a_later_event())
    label = "stranger:a change/ö"
    host.pulls = [
        {"number": 3, "head": {"label": label, "sha": "0" * 40}},
        {"number": NUMBER, "head": {"label": label, "sha": SHA}},
    ]
    assert "the comment was created" in folder.call(*CHECK).err
    host.pulls = host.pulls[:1]
    assert f"has 0 open pull requests from {label} at {SHA}" in folder.call(*CHECK).err


@cases(
    "variable value words",
    (
        "address without TLS",
        "GITHUB_API_URL",
        "http://api.github.example",
        "GITHUB_API_URL: is no address that a token may be sent to",
    ),
    (
        "address of another scheme",
        "GITHUB_API_URL",
        "ftp://127.0.0.1",
        "GITHUB_API_URL: is no address that a token may be sent to",
    ),
    (
        "address with a user",
        "GITHUB_API_URL",
        "https://a@b.example",
        "GITHUB_API_URL: has a user, a query or a fragment",
    ),
    ("malformed address", "GITHUB_API_URL", "https://[", "GITHUB_API_URL: is no address"),
    ("repository outside its owner", "GITHUB_REPOSITORY", "acme/..", "GITHUB_REPOSITORY: is not OWNER/NAME"),
    ("repository with a query", "GITHUB_REPOSITORY", "acme/x?y", "GITHUB_REPOSITORY: is not OWNER/NAME"),
    ("event file missing", "GITHUB_EVENT_PATH", "nothing.json", "GITHUB_EVENT_PATH: names no event that can be read"),
)
def test_variables_that_are_not_those_of_github(folder, host, monkeypatch, variable, value, words):
    monkeypatch.setenv(variable, value)
    said = folder.call(*CHECK)
    assert said.code == 64
    assert words in said.err
    assert host.requests == []


def test_a_proxy_that_is_no_address_is_told(folder, monkeypatch):
    monkeypatch.setenv("GITHUB_API_URL", "https://api.github.example")
    monkeypatch.setenv("HTTPS_PROXY", "socks4://me:secret@proxy.example")
    said = folder.call(*CHECK)
    assert said.code == 64
    words = 'HTTPS_PROXY: the proxy "socks4://proxy.example" is no URL with http, https or socks5, such as '
    assert words + "http://proxy:3128" in said.err


# Whose comment it is


def test_a_comment_of_somebody_else_with_our_marker_is_not_ours(host):
    """Who wrote a comment may change it, after we did."""
    host.has(f"{MARKER}\nAll is well.", id=7, login="stranger", type="User")
    host.has(f"hi {MARKER}")
    comments = github_comments(an_api(host), REPOSITORY, NUMBER)
    assert publish(comments, MARKER, "text") == "created"
    assert host.comments[0]["body"] == f"{MARKER}\nAll is well."
    assert publish(comments, MARKER, "other") == "updated"
    assert host.comments[-1]["body"] == f"{MARKER}\nother"
    assert len(host.comments) == 3


def an_api(host: CodeHost) -> RestApi:
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    return RestApi(host.url, headers, "GITHUB_API_URL")


def test_ours_is_found_among_many(host):
    for number in range(75):
        host.has(f"comment {number}", login="somebody", type="User")
    ours = host.has(f"{MARKER}\nold")
    assert publish(github_comments(an_api(host), REPOSITORY, NUMBER), MARKER, "new") == "updated"
    assert ours["body"] == f"{MARKER}\nnew"
    assert [line.partition(" ")[0] for line in host.requests] == ["GET", "GET", "GET", "PATCH"]


def test_an_api_that_is_busy_is_asked_again(host):
    first = [(503, {"message": "busy"}), None]
    real = host.answer

    def answer(*request: Any) -> Any:
        host.refuses = first.pop(0) if first else None
        return real(*request)

    host.answer = answer  # type: ignore[method-assign]
    assert github_comments(an_api(host), REPOSITORY, NUMBER).own(MARKER) is None
    assert len(host.requests) == 2


def test_nobody_answers():
    with pytest.raises(CommentError, match="the connection was refused, expected an answer"):
        github_comments(RestApi("http://127.0.0.1:1", {}, "X"), REPOSITORY, NUMBER).write("x")


def test_two_folders_of_policies_have_two_comments():
    markers = {marker_of(path) for path in ("policies", "a--b/-->", "a-b", "ö x")}
    assert len(markers) == 4
    assert all(marker[5:-4].count("--") == 0 and marker.endswith(" -->") for marker in markers)


# GitLab


@pytest.fixture
def gitlab(folder, host, monkeypatch) -> Folder:
    for name, value in {
        "CI_API_V4_URL": host.url,
        "CI_PROJECT_ID": "6",  # of a fork
        "CI_MERGE_REQUEST_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": str(NUMBER),
        "GITLAB_TOKEN": TOKEN,
    }.items():
        monkeypatch.setenv(name, value)
    return folder


def test_a_note_of_gitlab_is_created_then_updated(gitlab, host):
    host.has(f"{MARKER}\nAll is well.", id=7)
    call = ("ci", "gitlab", "policies", "--base", "base")
    said = gitlab.call(*call)
    assert (said.code, said.err) == (0, "the comment was created\n")
    assert "not planned" in said.out, "there is no summary, so it is printed"
    edited(gitlab, "kind: IdlingPolicy", "kind: IdlingPolicies")
    said = gitlab.call(*call)
    assert (said.code, said.err) == (3, "the comment was updated\n")
    assert "::error" not in said.out
    assert "cannot be used: 1 problem" in host.comments[1]["body"]
    assert host.comments[0]["body"] == f"{MARKER}\nAll is well."


@cases(
    "variable code words",
    ("no merge request", "CI_MERGE_REQUEST_IID", 0, "this pipeline is of no merge request"),
    ("no token", "GITLAB_TOKEN", 0, "there is no token in GITLAB_TOKEN"),
    ("no project", "CI_PROJECT_ID", 64, "CI_PROJECT_ID: is no number"),
    ("no address of the API", "CI_API_V4_URL", 64, "CI_API_V4_URL: is no address that a token may be sent to"),
)
def test_variables_of_gitlab_that_are_missing(gitlab, host, monkeypatch, variable, code, words):
    monkeypatch.delenv(variable)
    said = gitlab.call("ci", "gitlab", "policies")
    assert said.code == code
    assert words in said.err
    assert host.requests == []


# What fails the check


def held_back(folder: Folder, *, by_the_change: bool = True) -> None:
    """Limits let nothing go idle, in the base too."""
    limits = "fleet: {share: 10%, atLeast: 10}"
    edited(folder, limits, "fleet: {share: 0%, atLeast: 0}", "policies/fleet.yaml")
    shutil.copy(folder.path / "policies" / "fleet.yaml", folder.path / "base" / "fleet.yaml")
    if by_the_change:
        (folder.path / "base" / "idling.yaml").unlink()


def test_what_limits_hold_back_of_a_change_fails_unless_that_is_not_wanted(folder, host, monkeypatch):
    held_back(folder)
    said = folder.call(*PLAN)
    assert said.code == 4
    words = "exit code 4: limits hold back what this change does, see the comment or the summary"
    assert said.err.splitlines() == ["the comment was created", words]
    assert folder.call(*PLAN, "--fail-on", "invalid").code == 0
    assert "**Held back: 4 workloads in eu-west, us-east (idle-dev, idle-runners).**" in host.comments[0]["body"]
    monkeypatch.setenv("RECONCILER_NOW", "2026-11-20T15:00:00Z")
    assert folder.call(*PLAN).code == 4, "in a night to come too"


def test_what_limits_hold_back_without_the_change_is_not_its_fault(folder, host):
    held_back(folder, by_the_change=False)
    assert folder.call(*PLAN).code == 0
    assert "limits hold back what they hold back without this change" in host.comments[0]["body"]


def test_what_is_wrong_on_a_cluster_does_not_hide_what_limits_hold_back(folder):
    held_back(folder)
    journal = {"name": "reconciler-journal", "namespace": "reconciler"}
    broken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": journal, "data": {"1f": "no entry"}}
    folder.write("snapshot/us-east/journal.yaml", json.dumps(broken))
    assert folder.call(*PLAN).code == 4
    assert "the journal entry cannot be read" in summary(folder)


@pytest.mark.parametrize("words", ["partial", "held_back", "", "never,invalid", "invalid,"])
def test_what_fails_the_check_is_one_of_some_words(folder, words):
    said = folder.call(*CHECK, "--fail-on", words)
    assert said.code == 64
    assert f'"{words}" is not what a check fails on' in said.err


def test_with_on_effect_there_is_a_comment_where_there_is_something_to_say(folder, host):
    call = (*PLAN, "--comment", "on-effect")
    assert folder.call(*call).err == "no comment is written: there is nothing to say\n"
    assert (host.comments, "**No effect in the next day.**" in summary(folder)) == ([], True)
    (folder.path / "policies" / "downscale.yaml").rename(folder.path / "downscale.yaml")
    assert folder.call(*call).err == "the comment was created\n"
    (folder.path / "downscale.yaml").rename(folder.path / "policies" / "downscale.yaml")
    assert folder.call(*call).err == "the comment was updated\n"
    assert "**No effect in the next day.**" in host.comments[0]["body"], "what was said no longer holds"


@cases(
    "old new first",
    (
        "production namespaces removed",
        'namespaces: [payments, "*-prod"]',
        "namespaces: []",
        "Production: 1 workload in eu-west no longer production.",
    ),
    ("limit raised", "share: 10%", "share: 90%", "With the Fleet of the base nothing changes in the next day."),
)
def test_a_fleet_that_nobody_judged_is_something_to_say(folder, host, old, new, first):
    edited(folder, old, new, "policies/fleet.yaml")
    assert folder.call(*PLAN, "--comment", "on-effect").err == "the comment was created\n"
    assert f"**{first}**" in host.comments[0]["body"]


def test_nothing_fails_where_that_is_wanted(folder):
    edited(folder, "kind: IdlingPolicy", "kind: IdlingPolicies")
    assert folder.call(*CHECK, "--fail-on", "never").code == 0


# What a change may not do


def test_the_plan_is_made_without_token_and_without_what_the_change_brings(folder, host, tmp_path, monkeypatch):
    """Python imports from the folder it is started in, and hands its variables on."""
    for name in ("yaml", "reconciler", "sitecustomize", "msgspec"):
        folder.write(f"{name}.py", f"open({str(tmp_path / 'ran')!r}, 'w').write('x')\n")
    seen = tmp_path / "seen.json"
    program = tmp_path / "python"
    program.write_text(
        f"#!/bin/sh\nenv >'{seen}'\nexec '{sys.executable}' \"$@\"\n",
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("PYTHONPATH", str(folder.path))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", TOKEN)
    said = folder.call(*PLAN)
    assert said.code == 0, said
    assert "## " in host.comments[0]["body"]
    assert not (tmp_path / "ran").exists()
    variables = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    known = {"PATH", "LANG", "LC_ALL", "TMPDIR", "PWD", "_", "SHLVL", "OLDPWD"}
    assert {one for one in variables if not one.startswith("RECONCILER_")} <= known
    assert TOKEN not in seen.read_text()


@pytest.mark.parametrize("what", ["policies", "snapshot"])
def test_a_folder_that_is_a_link_is_not_followed(folder, host, tmp_path, what):
    outside = tmp_path / "outside"
    (folder.path / what).rename(outside)
    (folder.path / what).symlink_to(outside)
    said = folder.call(*PLAN)
    assert said.code == 3
    assert f"{what}: is a symbolic link, expected a folder of the change itself" in host.comments[0]["body"]


# What fits


def test_a_review_that_is_too_long_is_cut_with_everything_closed():
    long = [f"line {n} ```" for n in range(9000)]
    lines = ["## Title", "", "<details>", "<summary>x</summary>", "", "````text", *long, "````"]
    text = shortened("\n".join([*lines, "", "</details>", "", "end"]), 10_000)
    assert 9_000 < len(text) <= 10_000
    assert text.count("````") == 2
    assert text.count("<details>") == text.count("</details>") == 1
    assert text.endswith("\n</details>\n\nThe rest is left out, because a comment holds no more.\n")
    assert shortened("short\n", 10_000) == "short\n"


@pytest.mark.parametrize("longest", [65_536, 20_000])
def test_a_huge_change_fits(longest):
    problems = [Problem(f"policies/{'x' * 240}{n}.yaml", n + 1, 1, "spec", "y" * 3000) for n in range(3000)]
    for review in (
        ReviewComment("policies", problems),
        ReviewComment("policies", (), problems, plan="## Plan\n" + "z" * 59_000 + "\n"),
        ReviewComment("policies", (), problems, failure=["e" * 5000] * 3000),
    ):
        text = render_review(review, longest)
        assert 0 < len(text) <= longest


def test_a_change_with_very_many_problems_is_one_comment_that_fits(folder, host):
    """The server refuses a longer one."""
    for number in range(300):
        folder.write(f"policies/{'x' * 200}-{number:03}.yaml", "kind: X\n---\nkind: Y\n")
    said = folder.call(*CHECK)
    assert said.code == 3
    assert said.out.count("::error ") == 50
    assert "cannot be used: 600 problems" in host.comments[0]["body"]
    assert "more; the JSON form has them all." in host.comments[0]["body"]
    assert len(host.comments[0]["body"]) <= 65_536


def test_no_line_is_a_quick_action_of_gitlab():
    plan = "/approve\n  /close x\n`````text\n```\n/merge\n`````\n/label ~x\n1/2\n"
    text = render_review(ReviewComment("policies", plan=plan), 60_000)
    assert text == "&#47;approve\n&#47;close x\n`````text\n```\n/merge\n`````\n&#47;label ~x\n1/2\n"


def test_names_are_no_markup():
    name = "a`b</code><img src=x>@team ::error::x](http://x) ```\n\x1b[2J"
    text = render_review(ReviewComment(name, [Problem(f"{name}.yaml", 1, 1, name, name)], ()), 60_000)
    outside = "".join(text.split("````")[::2])
    assert not {"<img", "@team", "http://", "\x1b"} & set(outside.split())
    assert "\x1b" not in text
    assert "@team" not in outside
    assert "<img" not in outside
