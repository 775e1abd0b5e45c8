"""Receivers of notifications, and what their vendors say a message looks like, as JSON Schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, FormatChecker
from pytest_httpserver import HTTPServer

from tests.pipeline.calls import Folder

SCHEMAS = {
    form: Draft202012Validator(schema, format_checker=FormatChecker())
    for form, schema in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()).items()
}
MOST_BYTES = {"CloudEvents": 64 << 10, "Slack": 64 << 10, "Teams": 28 << 10}
"""Source: CloudEvents 1.0.2, "Size Limits"; Microsoft Learn, Create an Incoming Webhook. Slack states no size."""
CONTENT_TYPES = {
    "CloudEvents": "application/cloudevents+json",
    "Slack": "application/json",
    "Teams": "application/json",
}

EVERYTHING = "[Idled, Woken, Overdue, HeldBack, Conflict, Failed]"


def told(folder: Folder, *receivers: str, tenant: str = "") -> Folder:
    """Write `receivers` into the Fleet, or into one of its tenants."""
    path = folder.path / "policies" / "fleet.yaml"
    fleet = yaml.safe_load(path.read_text())
    spec = fleet["spec"]
    place = next(one for one in spec["tenants"] if one["name"] == tenant) if tenant else spec
    place["notify"] = [yaml.safe_load(one) for one in receivers]
    path.write_text(yaml.safe_dump(fleet, sort_keys=False))
    return folder


def events_to(server: HTTPServer, path: str = "/events", on: str = EVERYTHING) -> str:
    """Return a receiver of CloudEvents at `path` of `server`, which takes them."""
    server.expect_request(path, method="POST").respond_with_data("")
    return f"{{format: CloudEvents, url: '{server.url_for(path)}', 'on': {on}}}"


def received(server: HTTPServer, path: str = "/events") -> list[dict[str, Any]]:
    """Return what was sent to `path` since the last time."""
    found = [request.get_json() for request, _ in server.log if request.path == path]
    server.clear_log()
    return found
