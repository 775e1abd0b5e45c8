"""Receivers of notifications, and what their vendors say a message looks like, as JSON Schemas."""

from __future__ import annotations

from typing import Any

import yaml
from jsonschema import Draft202012Validator, FormatChecker
from pytest_httpserver import HTTPServer

from tests.pipeline.calls import Folder

# Source: cloudevents/spec v1.0.2, cloudevents/spec.md, "Required Attributes", "Optional Attributes", "Size Limits";
# formats/json-format.md, "Envelope".
CLOUD_EVENTS = """
type: object
required: [specversion, id, source, type, data]
additionalProperties: false
properties:
  specversion: {const: "1.0"}
  id: {type: string, minLength: 1}
  source: {type: string, minLength: 1, format: uri-reference}
  type: {type: string, minLength: 1}
  time: {type: string, format: date-time, pattern: "Z$"}
  datacontenttype: {const: application/json}
  data: {type: object}
"""

# Source: docs.slack.dev, Sending messages using incoming webhooks; Header block (150 characters), Section block (3000),
# Context block (10 elements), Blocks (50 in a message); Text object.
SLACK = """
type: object
required: [text, blocks]
additionalProperties: false
properties:
  text: {type: string, minLength: 1, maxLength: 4000}
  blocks:
    type: array
    minItems: 1
    maxItems: 50
    items:
      oneOf:
        - additionalProperties: false
          required: [type, text]
          properties:
            type: {const: header}
            text:
              additionalProperties: false
              required: [type, text]
              properties:
                type: {const: plain_text}
                text: {type: string, minLength: 1, maxLength: 150}
                emoji: {const: false}
        - additionalProperties: false
          required: [type, text]
          properties:
            type: {const: section}
            text:
              additionalProperties: false
              required: [type, text]
              properties:
                type: {const: plain_text}
                text: {type: string, minLength: 1, maxLength: 3000}
                emoji: {const: false}
        - additionalProperties: false
          required: [type, elements]
          properties:
            type: {const: context}
            elements:
              maxItems: 10
              items:
                additionalProperties: false
                required: [type, text]
                properties: {type: {const: plain_text}, emoji: {const: false}, text: {type: string, minLength: 1}}
"""

# Source: Microsoft Learn, Create incoming webhooks with Workflows for Microsoft Teams; adaptivecards.io, AdaptiveCard,
# RichTextBlock, TextRun (version 1.2).
TEAMS = """
type: object
required: [type, attachments]
additionalProperties: false
properties:
  type: {const: message}
  attachments:
    minItems: 1
    maxItems: 1
    items:
      required: [contentType, contentUrl, content]
      additionalProperties: false
      properties:
        contentType: {const: application/vnd.microsoft.card.adaptive}
        contentUrl: {type: "null"}
        content:
          required: [$schema, type, version, body]
          additionalProperties: false
          properties:
            $schema: {const: "http://adaptivecards.io/schemas/adaptive-card.json"}
            type: {const: AdaptiveCard}
            version: {const: "1.2"}
            body:
              minItems: 1
              items:
                required: [type, inlines]
                additionalProperties: false
                properties:
                  type: {const: RichTextBlock}
                  inlines:
                    items:
                      required: [type, text]
                      additionalProperties: false
                      properties:
                        type: {const: TextRun}
                        text: {type: string, minLength: 1}
                        weight: {enum: [Lighter, Default, Bolder]}
                        size: {enum: [Default, Small, Medium, Large, ExtraLarge]}
                        isSubtle: {type: boolean}
"""

SCHEMAS = {
    form: Draft202012Validator(yaml.safe_load(text), format_checker=FormatChecker())
    for form, text in {"CloudEvents": CLOUD_EVENTS, "Slack": SLACK, "Teams": TEAMS}.items()
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
