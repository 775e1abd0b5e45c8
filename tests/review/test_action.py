"""The action, run step by step on a checkout, against a server that plays GitHub's API and checks every request."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.review.code_hosts import NUMBER, REPOSITORY, SHA, TOKEN, CodeHost, a_later_event, an_event
from tests.review.pipeline import Runner, git

CLUSTERS = ("eu-west", "us-east", "ap-south")
SNAPSHOTS = {"snapshot-branch": "clusters"}


@dataclass
class Repository:
    """A repository with policies on main and a snapshot on a branch, and a checkout of a pull request."""

    runner: Runner
    checkout: Path

    def commit(self) -> None:
        git(self.checkout, "add", "--all", "--force")
        git(self.checkout, "commit", "--quiet", "--message", "change")

    def edit(self, old: str, new: str, file: str = "policies/idling.yaml") -> None:
        text = (self.checkout / file).read_text()
        assert old in text
        (self.checkout / file).write_text(text.replace(old, new, 1))

    @property
    def server(self) -> Path:
        return self.checkout.parent / "server"


@pytest.fixture
def pull_request(repository: Path, tmp_path: Path, host: CodeHost) -> Repository:
    """The checkout has one commit only, as a runner's has, and the action is already installed."""
    example = repository / "examples" / "quickstart"
    server = tmp_path / "server"
    server.mkdir()
    git(server, "init", "--quiet", "--initial-branch", "clusters")
    shutil.copytree(example / "snapshot", server, dirs_exist_ok=True)
    git(server, "add", "--all")
    git(server, "commit", "--quiet", "--message", "snapshot")
    git(server, "checkout", "--quiet", "--orphan", "main")
    git(server, "rm", "-r", "--quiet", "--force", ".")
    shutil.copytree(example / "policies", server / "policies")
    git(server, "add", "--all")
    git(server, "commit", "--quiet", "--message", "policies")
    base = git(server, "rev-parse", "HEAD")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{server}", "checkout")
    event = an_event()
    event["pull_request"]["base"]["sha"] = base
    runner = Runner(repository, tmp_path / "checkout", tmp_path / "temp", host.url, event)
    installed = runner.temp / "reconciler" / "bin"
    installed.mkdir(parents=True)
    (installed / "reconciler").symlink_to(Path(sys.executable).parent / "reconciler")
    return Repository(runner, tmp_path / "checkout")


def test_a_comment_is_created_then_updated(pull_request, host):
    """The base and the snapshot are fetched from where the checkout came from."""
    pull_request.edit('include: ["dev-*"]', "include: [dev-a]")
    pull_request.commit()
    runner = pull_request.runner
    assert runner.run(without="Install", **SNAPSHOTS) == 0, runner.said
    [comment] = host.comments
    assert comment["body"].startswith("<!-- reconciler review of policies -->\n## ")
    assert "us-east/dev-b/Deployment/reports" in comment["body"]
    assert runner.summary in comment["body"]
    pull_request.edit("kind: IdlingPolicy", "kind: IdlingPolicies")
    pull_request.commit()
    assert runner.run(without="Install", **SNAPSHOTS) == 3
    assert "::error file=policies/idling.yaml,line=3,col=7::kind: " in runner.said
    assert [one["id"] for one in host.comments] == [comment["id"]]
    assert "cannot be used: 1 problem" in host.comments[0]["body"]
    path = f"/repos/{REPOSITORY}/issues"
    assert host.requests == [
        f"GET {path}/{NUMBER}/comments",
        f"POST {path}/{NUMBER}/comments",
        f"GET {path}/{NUMBER}/comments",
        f"PATCH {path}/comments/{comment['id']}",
    ]
    assert TOKEN not in runner.said + runner.summary


def test_without_policies_in_the_base_the_change_is_planned_alone(pull_request, host):
    """The first policies of a repository have no base."""
    runner, server = pull_request.runner, pull_request.server
    git(server, "rm", "-r", "--quiet", "policies")
    git(server, "commit", "--quiet", "--all", "--message", "none")
    runner.event["pull_request"]["base"]["sha"] = git(server, "rev-parse", "HEAD")
    assert runner.run(without="Install", **SNAPSHOTS) == 0, runner.said
    body = host.comments[0]["body"]
    assert "this is the plan of the change alone" in body
    assert "## Plan for Fleet `quickstart`" in body


@dataclass
class Branches:
    """On the server main moved on after the pull request was opened, and GitHub merged its head with that for a try."""

    repository: Repository
    opened_at: str
    merge: str
    head: str

    def check_out(self, commit: str, *depth: str) -> None:
        checkout = self.repository.checkout
        shutil.rmtree(checkout)
        checkout.mkdir()
        git(checkout, "init", "--quiet")
        git(checkout, "remote", "add", "origin", f"file://{self.repository.server}")
        git(checkout, "fetch", "--quiet", *depth, "origin", "main", commit)
        git(checkout, "checkout", "--quiet", "--detach", commit)

    def fetched_base(self) -> str:
        """What of the Fleet and of the policies the change is compared with."""
        runner = self.repository.runner
        assert runner.run(without=("Install", "Review")) == 0, runner.said
        folder = runner.temp / "base" / "policies"
        return "".join((folder / name).read_text() for name in ("fleet.yaml", "idling.yaml"))


@pytest.fixture
def branches(pull_request: Repository) -> Branches:
    server = pull_request.server
    opened_at = git(server, "rev-parse", "main")

    def committed(branch: str, old: str, new: str, file: str) -> str:
        git(server, "checkout", "--quiet", branch)
        text = (server / "policies" / file).read_text()
        assert old in text
        (server / "policies" / file).write_text(text.replace(old, new, 1))
        git(server, "commit", "--quiet", "--all", "--message", "change")
        return git(server, "rev-parse", "HEAD")

    git(server, "branch", "change")
    head = committed("change", 'include: ["dev-*"]', "include: [dev-a]", "idling.yaml")
    committed("main", "name: quickstart", "name: of-others", "fleet.yaml")
    git(server, "checkout", "--quiet", "--detach", "main")
    git(server, "merge", "--quiet", "--no-ff", "--no-edit", "change")
    merge = git(server, "rev-parse", "HEAD")
    git(server, "update-ref", f"refs/pull/{NUMBER}/merge", merge)
    pull_request.runner.event["pull_request"]["head"]["sha"] = head
    return Branches(pull_request, opened_at, merge, head)


OTHERS = "merged by others since the pull request was opened may be shown as undone"


@pytest.mark.parametrize("depth", ["--depth=1", "--depth=100"])
def test_a_change_is_compared_with_what_it_is_merged_into_not_with_the_older_base_of_the_event(branches, depth):
    branches.check_out(branches.merge, depth)
    base = branches.fetched_base()
    assert "name: of-others" in base
    assert 'include: ["dev-*"]' in base
    assert OTHERS not in branches.repository.runner.said


@pytest.mark.parametrize("policies", [".", "./"])
def test_the_policies_of_the_base_are_where_they_are_in_the_checkout(pull_request, policies):
    runner = pull_request.runner
    assert runner.run(without=("Install", "Review"), policies=policies) == 0, runner.said
    assert (runner.temp / "base" / "policies" / "fleet.yaml").is_file()


@pytest.mark.parametrize("hidden_by", ["attributes", "sparse checkout"])
def test_all_policies_of_the_base_count(branches, hidden_by):
    """Of a policy that is missing in the base, the review would say that the change adds it."""
    server, checkout = branches.repository.server, branches.repository.checkout
    if hidden_by == "attributes":
        git(server, "checkout", "--quiet", "--detach", "main")
        (server / ".gitattributes").write_text("policies/idling.yaml export-ignore\n")
        git(server, "add", "--all")
        git(server, "commit", "--quiet", "--message", "attributes")
        git(server, "merge", "--quiet", "--no-ff", "--no-edit", "change")
        branches.check_out(git(server, "rev-parse", "HEAD"), "--depth=1")
    else:
        branches.check_out(branches.merge, "--depth=1")
        git(checkout, "sparse-checkout", "set", "--no-cone", "policies/fleet.yaml")
    assert 'include: ["dev-*"]' in branches.fetched_base()


def test_a_checkout_may_belong_to_another_user(branches):
    """Jobs with a container run as root on a checkout of the runner's user."""
    branches.check_out(branches.merge, "--depth=100")
    branches.repository.runner.variables["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"
    assert "name: of-others" in branches.fetched_base()


def test_a_merge_queue_is_compared_with_what_it_merges_into(branches):
    server, runner = branches.repository.server, branches.repository.runner
    runner.event = {"merge_group": {"base_sha": git(server, "rev-parse", "main"), "head_sha": branches.merge}}
    branches.check_out(branches.merge, "--depth=1")
    base = branches.fetched_base()
    assert "name: of-others" in base
    assert 'include: ["dev-*"]' in base


def test_the_action_may_be_used_twice_in_a_job(pull_request):
    runner = pull_request.runner
    for _ in range(2):
        assert runner.run(without=("Install", "Review"), **SNAPSHOTS) == 0, runner.said


def test_a_head_with_its_history_is_compared_with_the_merge_base(branches):
    git(branches.repository.server, "checkout", "--quiet", "main")
    branches.repository.runner.event["pull_request"]["base"]["sha"] = git(
        branches.repository.server, "rev-parse", "main"
    )
    branches.check_out(branches.head)
    base = branches.fetched_base()
    assert "name: quickstart" in base
    assert 'include: ["dev-*"]' in base
    assert OTHERS not in branches.repository.runner.said


def test_a_head_without_its_history_is_compared_with_the_base_of_the_event_and_that_is_said(branches):
    branches.check_out(branches.head, "--depth=1")
    base = branches.fetched_base()
    assert "name: quickstart" in base
    assert OTHERS in branches.repository.runner.said


def test_a_merge_that_a_stranger_made_does_not_choose_its_base(branches):
    """Only of a merge of the very head is it GitHub that made it."""
    server = branches.repository.server
    git(server, "checkout", "--quiet", "--detach", branches.merge)
    git(server, "commit", "--quiet", "--amend", "--no-edit", "--author", "stranger <s@example>")
    made = git(server, "rev-parse", "HEAD")
    git(server, "update-ref", "refs/heads/change", made)
    branches.repository.runner.event["pull_request"]["head"]["sha"] = made
    branches.check_out(made, "--depth=1")
    assert "name: quickstart" in branches.fetched_base()
    assert OTHERS in branches.repository.runner.said


def test_what_cannot_be_fetched_is_said(pull_request, host):
    runner = pull_request.runner
    git(pull_request.checkout, "remote", "set-url", "origin", f"file://{pull_request.server}-gone")
    runner.event["pull_request"]["base"]["sha"] = SHA
    assert runner.run(without="Install", **SNAPSHOTS) == 3
    for words in ("the base cannot be fetched", "the branch with the snapshot cannot be fetched"):
        assert f"::warning title=reconciler::{words}\n" in runner.said
    assert "There is no plan of this change." in host.comments[0]["body"]


def test_a_later_workflow_comments_for_a_fork(pull_request, host):
    runner = pull_request.runner
    base = runner.event["pull_request"]["base"]["sha"]
    runner.event = a_later_event()
    runner.event["workflow_run"]["base_sha"] = base
    host.pulls = [{"number": NUMBER, "head": {"label": "stranger:a change/ö", "sha": SHA}}]
    pull_request.edit('include: ["dev-*"]', "include: [dev-a]")
    assert runner.run(without="Install", **SNAPSHOTS) == 0, runner.said
    assert "us-east/dev-b/Deployment/reports" in host.comments[0]["body"]


# A pull request of a stranger

MARKUP = "x</code></details><img src=http://127.0.0.1/>@acme/owners [a](http://127.0.0.1) `b"


def hostile(checkout: Path, address: str, ran: Path) -> None:
    """Let a pull request hold what made earlier states run a program, read a file outside or reach an address."""
    plugin = checkout / "policies" / "plugin"
    plugin.write_text(f"#!/bin/sh\necho x >>'{ran}'\n")
    plugin.chmod(0o755)
    user = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    }
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in CLUSTERS],
        "current-context": "eu-west",
    }
    (checkout / "policies" / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    fleet = yaml.safe_load((checkout / "policies" / "fleet.yaml").read_text())
    for cluster in fleet["spec"]["clusters"]:
        cluster["connection"] = {"kubeconfig": str(checkout / "policies" / "kubeconfig"), "context": cluster["name"]}
        cluster["prometheus"] = {"url": address, "bearerTokenFile": "/etc/hostname", "allowInsecureAuth": True}
    (checkout / "policies" / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    for name in ("reconciler", "yaml", "venv", "pip", "sitecustomize", "encodings"):
        (checkout / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('x')\n")
    (checkout / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (checkout / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = {address}\n')
    (checkout / "policies" / f"{MARKUP.replace('/', '')}.yaml").write_text(f"kind: {MARKUP!r}\nmetadata: {{name: x}}\n")


def test_a_hostile_pull_request_reads_runs_and_reaches_nothing(pull_request, host, tmp_path):
    secret = tmp_path / "secret.yaml"
    secret.write_text("password: the-secret-word\n")
    ran = tmp_path / "ran"
    runner, checkout = pull_request.runner, pull_request.checkout
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hostile(checkout, f"http://127.0.0.1:{listener.getsockname()[1]}", ran)
        (checkout / "policies" / "linked.yaml").symlink_to(secret)
        (checkout / "policies" / "root").symlink_to("/")
        (checkout / "policies" / "up.yaml").symlink_to("../../secret.yaml")
        pull_request.commit()
        assert runner.run(without="Install", **SNAPSHOTS) == 3, runner.said
        body = host.comments[0]["body"]
        for name in ("linked.yaml", "root", "up.yaml"):
            assert f"policies/{name}:1:1: " in body
        assert "fleet.yaml" not in body
        assert "img src=" in body, "its name is told"
        prose = re.sub(r"^(`{3,})text$.*?^\1$", "", body, flags=re.M | re.S)
        assert not [one for one in ("<img", "@acme", "http://", "</code></details>") if one in prose]
        for file in (checkout / "policies").glob("*"):  # without what is no policy there is a plan
            if file.is_symlink() or "<" in file.name:
                os.unlink(file)
        pull_request.commit()
        assert runner.run(without="Install", **SNAPSHOTS) == 0, runner.said
        body += host.comments[0]["body"]
        assert "**Fleet" in host.comments[0]["body"], host.comments[0]["body"]
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not ran.exists()
    assert "the-secret-word" not in body + runner.said + runner.summary
    assert "root:x:0" not in body + runner.said
    assert TOKEN not in body + runner.said + runner.summary


def test_a_snapshot_of_the_change_itself_reads_nothing_outside(pull_request, host, tmp_path):
    """A repository may keep its snapshot beside the policies, where a pull request can change it."""
    secret = tmp_path / "secret.yaml"
    secret.write_text("kind: the-secret-word\n")
    snapshot = pull_request.checkout / "snapshot"
    shutil.copytree(pull_request.runner.action / "examples" / "quickstart" / "snapshot", snapshot)
    (snapshot / "eu-west" / "linked.yaml").symlink_to(secret)
    (snapshot / "us-east" / "root").symlink_to("/")
    pull_request.commit()
    assert pull_request.runner.run(without="Install", snapshot="snapshot") == 3
    body = host.comments[0]["body"]
    assert "snapshot/eu-west/linked.yaml:1:1: is a link that leads out of " in body
    assert "snapshot/us-east/root:1:1: is a link that leads out of " in body
    assert "the-secret-word" not in body + pull_request.runner.said


def test_an_input_is_a_value_and_no_script(pull_request, host, tmp_path):
    ran = tmp_path / "ran"
    script = f"$(touch {ran}); `touch {ran}`\" ' -- ; touch {ran}"
    inputs = {"policies": script, "snapshot": script, "base": script, "token": TOKEN}
    assert pull_request.runner.run(without="Install", **inputs) == 3
    assert not ran.exists()
    assert "does not exist" in host.comments[0]["body"]
    bad = {"policies": "policies", "snapshot": "x\nRECONCILER_BASE=/etc"}
    assert pull_request.runner.run(without="Install", **bad) == 1
    assert "snapshot has a line break" in pull_request.runner.said


@pytest.mark.soak
def test_the_action_installs_its_own_revision(repository, tmp_path, host):
    """As `make` does, from the package index of the machine."""
    git(tmp_path, "clone", "--quiet", f"file://{repository}", "action")
    checkout = tmp_path / "checkout"
    shutil.copytree(repository / "examples" / "quickstart", checkout)
    for name in ("venv", "pip", "ensurepip", "sitecustomize"):
        (checkout / f"{name}.py").write_text("raise SystemExit('from the pull request')\n")
    runner = Runner(tmp_path / "action", checkout, tmp_path / "temp", host.url, an_event())
    assert runner.run(policies="policies", snapshot="snapshot", base="policies") == 0, runner.said
    assert [result.name for result in runner.results] == ["Install", "Fetch the base and the snapshot", "Review"]
    assert host.comments[0]["body"].startswith("<!-- reconciler review of policies -->\n## ")
