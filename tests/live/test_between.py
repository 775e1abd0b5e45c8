"""What changes between plan and apply, or between the last look and the write, is stale; all else is done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.live.everything import NOW
from tests.live.stage import Stage
from tests.real import faults
from tests.real.api import Api
from tests.real.proxy import Request, is_write

API = "/apis/apps/v1/namespaces/dev/deployments/api"


def scaled(api: Api) -> None:
    api.patch(API, {"spec": {"replicas": 5}})


def deleted(api: Api) -> None:
    api.delete(API, gracePeriodSeconds=0)


def made_again(api: Api) -> None:
    """Another object of the same name that looks the same."""
    found = api.get(API)
    deleted(api)
    metadata = {key: found["metadata"][key] for key in ("name", "namespace", "labels")}
    api.create(API.rsplit("/", 1)[0], {**found, "metadata": metadata})


def excluded(api: Api) -> None:
    """Somebody wants it left alone: its replicas are as they were."""
    api.patch(API, {"metadata": {"annotations": {"reconciler/exclude": "true"}}})


def labelled(api: Api) -> None:
    api.patch(API, {"metadata": {"labels": {"seen": "yes"}}})


STALE = [
    pytest.param(scaled, id="scaled"),
    pytest.param(deleted, id="deleted"),
    pytest.param(made_again, id="deleted and made again"),
    pytest.param(excluded, id="excluded"),
]


def is_write_to_it(request: Request) -> bool:
    return is_write(request) and request.path.startswith(API)


def outcomes(text: str) -> dict[str, dict[str, Any]]:
    """Each action's outcome by cluster and object, of a report."""
    report = json.loads(text)
    named = {
        one["id"]: f"{one['cluster']}/{one['object'].get('namespace')}/{one['object']['kind']}/{one['object']['name']}"
        for one in report["plan"]["actions"]
    }
    return {named[one["action"]]: one for one in report["outcomes"]}


def check_stale(stage: Stage, before: Any, code: int, text: str, besides: tuple[str, ...] = ()) -> None:
    """Check that the Deployment was left as it is, what needs it too, and that all else was done but for `besides`."""
    told = outcomes(text)
    stale = told.pop("east/dev/Deployment/api")
    told = {name: one for name, one in told.items() if name not in besides}
    assert (code, stale["status"]) == (6, "stale")
    assert stale["message"].startswith("east")
    assert {one["status"] for one in told.values()} == {"applied"}, told
    assert stage.planes["east"].api.find(API) == before
    assert stage.holders() == {"east": "", "west": ""}


@pytest.mark.parametrize("change", STALE)
def test_changed_between_plan_and_apply(stage, change):
    """A fresh plan does something else with its Service, which lists its replicas, and what that has to be done for."""
    assert stage.plan("--out", "saved.json").code == 0
    api = stage.planes["east"].api
    change(api)
    before = api.find(API)
    said = saved(stage)
    check_stale(stage, before, said.code, said.out, besides=("east/dev/Service/api", "east/dev/StatefulSet/api-store"))


@pytest.mark.parametrize("change", STALE)
def test_changed_between_the_last_look_and_the_write(stage, change):
    seen: list[Any] = []
    api = stage.planes["east"].api

    def interfere(_: Request) -> None:
        change(api)
        seen.append(api.find(API))

    stage.proxies["east"].rule(faults.before(interfere), matching=is_write_to_it)  # west has one of the same name
    said = stage.apply("-o", "json")
    check_stale(stage, seen[0], said.code, said.out)


def test_what_else_changes_on_an_object_does_not_matter(stage):
    assert stage.plan("--out", "saved.json").code == 0
    labelled(stage.planes["east"].api)
    said = saved(stage)
    assert said.code == 0, said.out
    found = stage.planes["east"].api.get(API)
    assert (found["spec"]["replicas"], found["metadata"]["labels"]["seen"]) == (0, "yes")


def saved(stage: Stage) -> Any:
    words = (
        "apply",
        "saved.json",
        "--policies",
        "policies",
        "--now",
        NOW,
        "--allow-removed",
        "-q",
        "-o",
        "json",
    )
    return stage.folder.call(*words)
