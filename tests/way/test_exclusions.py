"""`exclude` the whole way: plan, explain, and the review of the change that adds it."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.way.calls import Folder

NIGHT = "2026-11-20T22:00:00Z"
POLICIES = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: one}
spec: {home: east, clusters: [{name: east}]}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: nights}
spec:
  selector: {namespaces: {include: [shop]}, services: {}, workloads: {kinds: [Deployment]}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Fri 20:00-07:00"]}}]
  minAge: 0s
---
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: workers}
spec:
  selector: {namespaces: {include: [batch]}, workloads: {}}
  target: {replicas: 1}
"""
EXCLUDE = "  exclude: [{workloads: {include: [cache]}}]\n"
OBJECT = """---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: {app}}}}}
  template: {{metadata: {{labels: {{app: {app}}}}}, spec: {{containers: [{{name: c, image: x}}]}}}}
"""
CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, uid: east-uid}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}}
"""


@pytest.fixture
def folder(tmp_path) -> Folder:
    made = Folder(tmp_path)
    made.write("policies/all.yaml", POLICIES.replace("  idleWhen", f"{EXCLUDE}  idleWhen"))
    objects = [("api", "shop", "web"), ("cache", "shop", "web"), ("alone", "shop", "alone"), ("jobs", "batch", "jobs")]
    texts = (OBJECT.format(name=name, namespace=namespace, app=app) for name, namespace, app in objects)
    made.write("snapshot/east/all.yaml", CLUSTER + "".join(texts))
    return made


def test_the_plan_leaves_a_service_awake_and_says_which_exclusion_does_that(folder):
    said = folder.plan(NIGHT)
    assert "east/shop/Deployment/alone" in said.out
    assert "Deployment/api   " not in said.out
    assert (
        "no workload behind it is idled: Deployment/cache behind Service/web stays awake: nights excludes it "
        "(exclude[0])" in " ".join(said.out.split())
    )


def test_explain_names_the_policy_that_excludes(folder):
    at = ("--snapshot", "snapshot", "--now", NIGHT)
    said = folder.call("explain", "east/shop/Deployment/cache", *at)
    assert (
        "IdlingPolicy nights (policies/all.yaml:6): stays awake\n  because: nights excludes it (exclude[0])" in said.out
    )
    behind = folder.call("explain", "east/shop/Deployment/api", *at, "-o", "json")
    (policy,) = json.loads(behind.out)["objects"][0]["policies"]
    assert (policy["reasonCode"], policy["selectedBy"]) == ("ServiceRuns", ["services (Service/web)", "workloads"])


def test_explain_of_what_a_downscale_policy_excludes_says_which_part_fails(folder):
    excluded = folder.path / "policies/all.yaml"
    more = "  exclude: [{workloads: {include: [jobs]}}]\n  target:"
    excluded.write_text(excluded.read_text().replace("  target:", more))
    assert "batch/Deployment/jobs" not in folder.plan(NIGHT).out
    said = folder.call("explain", "east/batch/Deployment/jobs", "--snapshot", "snapshot", "--now", NIGHT)
    assert "Closest is DownscalePolicy workers" in said.out
    assert "exclude[0]: excludes jobs" in said.out


def test_a_review_names_the_field_and_who_is_selected_no_more(folder):
    shutil.copytree(folder.path / "policies", folder.path / "base")
    base = folder.path / "base/all.yaml"
    base.write_text(base.read_text().replace(EXCLUDE, ""))
    said = folder.plan(NIGHT, "--base", "base", "-o", "json", "--max-snapshot-age", "999d")
    made = json.loads(said.out)
    (change,) = made["fields"]
    assert (change["policy"], change["field"], change["before"]) == ("IdlingPolicy nights", "spec.exclude", "[]")
    assert made["noLongerSelected"] == ["east/shop/Deployment/cache"]
