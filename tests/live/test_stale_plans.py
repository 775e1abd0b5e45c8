"""What changes between plan and apply, or between the last look and the write, is stale; all else is done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.real import faults
from tests.real.api import Api
from tests.real.proxy import Request, is_write

API = "/apis/apps/v1/namespaces/dev/deployments/api"


def made_again(api: Api) -> None:
    """Another object of the same name that looks the same."""
    found = api.get(API)
    api.delete(API, gracePeriodSeconds=0)
    metadata = {key: found["metadata"][key] for key in ("name", "namespace", "labels")}
    api.create(API.rsplit("/", 1)[0], {**found, "metadata": metadata})


def excluded(api: Api) -> None:
    """Somebody wants it left alone: its replicas are as they were."""
    api.patch(API, {"metadata": {"annotations": {"reconciler/exclude": "true"}}})


STALE = [
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


@pytest.mark.parametrize("change", STALE)
def test_changed_between_the_last_look_and_the_write(stage, change):
    seen: list[Any] = []
    api = stage.planes["east"].api

    def interfere(_: Request) -> None:
        change(api)
        seen.append(api.find(API))

    stage.proxies["east"].rule(faults.before(interfere), matching=is_write_to_it)  # west has one of the same name
    said = stage.apply("-o", "json")
    told = outcomes(said.out)
    stale = told.pop("east/dev/Deployment/api")
    assert (said.code, stale["status"]) == (6, "stale")
    assert stale["message"].startswith("east")
    assert {one["status"] for one in told.values()} == {"applied"}, told
    assert api.find(API) == seen[0]
    assert stage.holders() == {"east": "", "west": ""}
