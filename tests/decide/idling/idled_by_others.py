"""Marks of others: what the seed, oc idle and another Fleet write, and a world with them."""

from __future__ import annotations

from tests.builders import a_ref, a_service, a_workload
from tests.decide.idling.idling_policies import NIGHT
from tests.decide.idling.world import World, a_world

WEB = a_ref("web")
AT = "2026-11-20T21:00:00Z"
LIST = '[{"kind":"Deployment","name":"web","group":"apps","replicas":4}]'
OC_IDLE = {"idling.alpha.openshift.io/idled-at": AT, "idling.alpha.openshift.io/unidle-targets": LIST}
STAGING = {"reconciler/owner": "staging/IdlingPolicy/night", "reconciler/wake-due": "2026-11-20T21:30:00Z"}
OC_RECORD = {"idling.alpha.openshift.io/idled-at": AT, "idling.alpha.openshift.io/previous-scale": "4"}
RECORD = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/previous-scale": "4"}


def a_foreign_world(service=None, workload=None, endpoints=None, replicas: int = 0) -> World:
    world = a_world(
        a_service(annotations=service or {}), a_workload(replicas=replicas, annotations=workload or {}), now=NIGHT
    )
    if endpoints is not None:
        world.add(endpoints)
    return world
