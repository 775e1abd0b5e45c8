"""The policies of Fleets that have little to do."""

from __future__ import annotations

from tests.pipeline.manifests import documents, fleet, idling

NIGHTS = idling("namespaces: {include: [app]}, services: {}", name="idle-nights")


POLICIES = documents(fleet(["east"], name="mine"), NIGHTS)


SMALL = documents(
    fleet(["east", "west"], name="small"),
    idling("namespaces: {include: [dev]}, services: {}", name="idle-dev", downtime='"Sat 01:00-02:00"'),
)
