"""`reconciler adopt` on snapshots: records without a change of replicas, and what is left as it is."""

from __future__ import annotations

import pytest

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import an_object, autoscaler, documents, downscale, fleet, policy, service, workload

NIGHT, MORNING = "2026-11-20T22:00:00Z", "2026-11-23T07:30:00Z"
POLICIES = documents(
    fleet(["east"], name="mine"),
    policy(
        "IdlingPolicy",
        "nights",
        "selector: {namespaces: {include: [dev]}, services: {}, workloads: {kinds: [Deployment, CronJob]}}",
        'idleWhen: [{schedule: {timeZone: UTC, uptime: ["Mon-Fri 07:00-20:00"]}}]',
    ),
)
REMEMBERED = (
    service("web", "dev"),
    workload("web", "dev", 0, metadata='annotations: {downscaler/original-replicas: "3"}'),
    autoscaler("web", "dev", least=2),
    an_object(
        "CronJob",
        "nightly",
        "dev",
        "suspend: true",
        metadata='annotations: {downscaler/original-replicas: "1"}',
        version="batch/v1",
    ),
)
WORKLOADS = documents(*REMEMBERED, workload("off", "dev", 0))


@pytest.fixture
def folder(tmp_path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", POLICIES)
    folder.write("snapshot/east/dev.yaml", WORKLOADS)
    return folder


def call(folder: Folder, verb: str, now: str, *more: str):
    return folder.call(verb, *more, "--snapshot", "snapshot", "--now", now)


def test_what_is_adopted_is_idle_until_the_morning_and_then_as_it_was(folder):
    said = call(folder, "adopt", NIGHT, "kube-downscaler", "--auto-approve")
    assert said.code == 0, said
    assert said.out.startswith(
        "Adopt in Fleet mine (snapshot, Fri 2026-11-20 22:00, times in UTC)\n\nNo scale changes."
    )
    assert call(folder, "plan", NIGHT, "--detailed-exitcode").code == 0, call(folder, "plan", NIGHT, "-v").out
    woken = call(folder, "apply", MORNING, "--auto-approve")
    assert "CronJob/nightly  suspend   true -> false  wake" in woken.out, woken
    assert "Deployment/web   replicas  0 -> 3         wake" in woken.out, woken
    assert "off" not in woken.out


def test_what_is_adopted_counts_in_no_limit(folder):
    asleep = [
        workload(f"old-{number}", "dev", 0, metadata='annotations: {downscaler/original-replicas: "3"}')
        for number in range(5)
    ]
    folder.write("snapshot/east/more.yaml", documents(*asleep, workload("new", "dev", 2)))
    assert call(folder, "adopt", NIGHT, "kube-downscaler", "--auto-approve").code == 0
    assert "Deployment/new  replicas  2 -> 0  idle" in call(folder, "plan", NIGHT).out


def test_what_no_record_can_restore_is_said_once_and_the_run_is_partial(folder):
    scaled_object = an_object(
        "ScaledObject",
        "web",
        "dev",
        "scaleTargetRef: {name: web}",
        metadata='annotations: {autoscaling.keda.sh/paused-replicas: "0", downscaler/original-replicas: "-1"}',
        version="keda.sh/v1alpha1",
    )
    had = autoscaler("api", "dev").replace(
        "{name: api,", '{annotations: {downscaler/original-replicas: "3"}, name: api,'
    )
    broken = [
        workload(name, "dev", replicas, metadata=f'annotations: {{downscaler/original-replicas: "{text}"}}')
        for name, replicas, text in (("x", 0, "x"), ("y", 0, ""), ("woken", 1, "x"))
    ]
    owner = "{apiVersion: apps/v1, kind: Deployment, name: x, uid: x, controller: true}"
    copied = f'annotations: {{downscaler/original-replicas: "x"}}, ownerReferences: [{owner}]'
    broken.append(workload("x-5d4f", "dev", 0, kind="ReplicaSet", metadata=copied))  # as its Deployment does it
    folder.write("snapshot/east/dev.yaml", documents(workload("web", "dev", 0), scaled_object, had, *broken))
    said = call(folder, "adopt", NIGHT, "kube-downscaler", "--auto-approve")
    left = "stays as kube-downscaler left it: downscaler/original-replicas is"
    assert said.code == 6
    assert [" ".join(line.split()) for line in said.out.splitlines() if "kube-downscaler" in line] == [
        "east/dev/HorizontalPodAutoscaler/api its minReplicas were 3 before kube-downscaler; set them back",
        f'east/dev/Deployment/x {left} "x", no number of replicas; scale it up',
        f'east/dev/Deployment/y {left} "", no number of replicas; scale it up',
        "east/dev/ScaledObject/web kube-downscaler has paused it; "
        "remove its annotation autoscaling.keda.sh/paused-replicas",
    ]


def test_what_it_suspended_and_paused_in_another_way_than_here_is_said(folder):
    had = 'annotations: {downscaler/original-replicas: "%d"}'
    target = "scaleTargetRef: {name: off}"
    paused = an_object("ScaledObject", "web", "dev", target, metadata=had % 5, version="keda.sh/v1alpha1")
    suspended = an_object("DaemonSet", "agent", "dev", "template: {}", metadata=had % 1, version="apps/v1")
    folder.write("snapshot/east/dev.yaml", documents(paused, suspended))
    switched = POLICIES.replace("home: east", "home: east\n  switches: [{apiVersion: apps/v1, kind: DaemonSet}]")
    folder.write("policies/all.yaml", switched.replace("CronJob]", "DaemonSet]"))
    said = call(folder, "adopt", NIGHT, "kube-downscaler", "--auto-approve")
    assert said.code == 6
    assert "kube-downscaler has suspended it; remove what it added to its nodeSelector" in said.out, said
    assert "kube-downscaler has paused it; set its annotation autoscaling.keda.sh/paused-replicas back to 5" in said.out


def test_what_the_policies_would_not_idle_now_is_left_and_said(folder):
    said = call(folder, "adopt", "2026-11-20T12:00:00Z", "kube-downscaler", "--auto-approve")
    assert said.code == 6
    notice = "stays as kube-downscaler left it (3 replicas before), as it would not be idled now by itself: it stays"
    assert notice in said.out
    assert "metadata update" not in said.out


def test_what_goes_idle_only_with_something_that_runs_is_left(folder):
    folder.write("snapshot/east/dev.yaml", documents(*REMEMBERED, workload("api", "dev", app="web")))
    said = call(folder, "adopt", NIGHT, "kube-downscaler", "--auto-approve")
    assert said.code == 6, said
    assert "by itself: with it east/dev/Deployment/api would be" in said.out


def test_what_was_woken_here_is_no_longer_what_the_tool_remembers(folder):
    call(folder, "adopt", NIGHT, "kube-downscaler", "--auto-approve")
    call(folder, "apply", MORNING, "--auto-approve")
    said = call(folder, "adopt", "2026-11-23T22:00:00Z", "kube-downscaler", "--auto-approve")
    assert said.out.endswith("Nothing to adopt: kube-downscaler has nothing idle.\n")


def test_of_policies_that_idle_nothing_nothing_is_said(folder):
    """What they select is not looked for: it was said that they select no workload."""
    folder.write("policies/less.yaml", downscale("namespaces: {include: [dev]}, workloads: {}", 1))
    folder.write("snapshot/east/dev.yaml", workload("api", "dev"))
    said = call(folder, "adopt", NIGHT, "kube-downscaler", "--auto-approve")
    assert "less" not in said.out


def test_the_secrets_of_kube_green_are_in_no_snapshot(folder):
    said = call(folder, "adopt", NIGHT, "kube-green", "--auto-approve")
    assert said.code == 64
    assert "--snapshot: has no Secrets" in said.err


def test_without_a_terminal_it_asks_for_approval_beforehand(folder):
    assert "there is no terminal to ask on" in call(folder, "adopt", NIGHT, "kube-downscaler").err
    assert "there is no terminal to ask on" in folder.call("uninstall").err
    assert (
        "--snapshot: has only what runs read, expected live clusters" in call(folder, "uninstall", NIGHT, "--yes").err
    )
