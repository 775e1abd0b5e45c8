"""`exclude` the whole way: plan, explain, and the review of the change that adds it."""

from __future__ import annotations

import json

import pytest

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, downscale, fleet, identity, idling, service, workload

NIGHT = "2026-11-20T22:00:00Z"
EXCLUDE = "exclude: [{workloads: {include: [cache]}}]"


def policies(*idling_more: str, downscale_more: tuple[str, ...] = ()) -> str:
    return documents(
        fleet(["east"], name="one"),
        idling(
            "namespaces: {include: [shop]}, services: {}, workloads: {kinds: [Deployment]}", "minAge: 0s", *idling_more
        ),
        downscale("namespaces: {include: [batch]}, workloads: {}", 1, *downscale_more, name="workers"),
    )


@pytest.fixture
def folder(tmp_path) -> Folder:
    made = Folder(tmp_path)
    made.write("policies/all.yaml", policies(EXCLUDE))
    objects = [("api", "shop", "web"), ("cache", "shop", "web"), ("alone", "shop", "alone"), ("jobs", "batch", "jobs")]
    found = (workload(name, namespace, app=app) for name, namespace, app in objects)
    made.write("snapshot/east/all.yaml", documents(identity("east"), service("web", "shop"), *found))
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
    said = folder.explain("east/shop/Deployment/cache", NIGHT)
    assert (
        "IdlingPolicy nights (policies/all.yaml:8): stays awake\n  because: nights excludes it (exclude[0])" in said.out
    )
    behind = folder.explain("east/shop/Deployment/api", NIGHT, "-o", "json")
    text = folder.explain("east/shop/Deployment/api", NIGHT).out
    assert "\n  selected by services (Service/web) and workloads\n" in text
    (policy,) = json.loads(behind.out)["objects"][0]["policies"]
    assert (policy["reasonCode"], policy["selectedBy"]) == ("ServiceRuns", ["services (Service/web)", "workloads"])


def test_a_review_names_the_field_and_who_is_selected_no_more(folder):
    folder.write("base/all.yaml", policies())
    said = folder.plan(NIGHT, "--base", "base", "-o", "json", "--max-snapshot-age", "999d")
    made = json.loads(said.out)
    (change,) = made["fields"]
    assert (change["policy"], change["field"], change["before"]) == ("IdlingPolicy nights", "spec.exclude", "[]")
    assert made["noLongerSelected"] == ["east/shop/Deployment/cache"]
