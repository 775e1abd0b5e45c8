"""Builders of decisions and plans; what a test does not care about is filled in."""

from __future__ import annotations

from typing import Any

from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb, replicas_change
from reconciler.model import ObjectRef
from reconciler.plan.model import Plan
from reconciler.plan.order import in_order, numbered_actions
from tests.builders import NOW, a_limit_use, a_ref, said

IDLE_DEV = Cause("idle-dev", "policies/dev.yaml:4", said("0 requests in 30m"), {"requests": 0, "window": "30m"})
PLACE_WEB = Cause("web", "policies/shop.yaml:9", said("weight 1 of 4", "max 2"))


def decision_of(
    verb: Verb, phase: Phase, ref: ObjectRef, cause: Cause, changes: tuple[FieldChange, ...] = (), **fields: Any
) -> Decision:
    defaults: dict[str, Any] = {
        "key": f"{verb}/{ref}",
        "job": "idling",
        "api_version": f"{ref.group}/v1" if ref.group else "v1",
        "uid": f"uid-{ref.cluster}-{ref.namespace}-{ref.kind}-{ref.name}",
        "group": f"idling/{ref}",
    }
    return Decision(verb=verb, phase=phase, ref=ref, cause=cause, changes=changes, **(defaults | fields))


def a_decision(name: str = "web", *, before: int = 3, after: int = 0, **fields: Any) -> Decision:
    """Idling of a Deployment from `before` to `after`, unless told otherwise."""
    ref: ObjectRef = fields.pop("ref", a_ref(name))
    policy = fields.pop("policy", "idle-dev")
    defaults: dict[str, Any] = {
        "key": f"idling/{ref}",
        "api_version": "apps/v1",
        "uid": f"uid-{name}",
        "replicas_before": before,
        "replicas_after": after,
        "idles": after < before,
        "verb": Verb.IDLE,
        "phase": Phase.DECREASE,
        "cause": Cause(policy, f"policies/{policy}.yaml:1", said("0 at most 0 in 30m")),
        "changes": (replicas_change(before, after),),
    }
    return decision_of(ref=ref, **(defaults | fields))


def an_idle(
    name: str = "api", *, replicas: int = 3, idle_replicas: int = 0, cause: Cause = IDLE_DEV, **fields: Any
) -> Decision:
    ref = fields.pop("ref", None) or a_ref(name, cluster="eu-west", namespace="dev-a")
    record = FieldChange(("metadata", "annotations", "idling.kubernetes.io/previous-scale"), None, str(replicas))
    defaults: dict[str, Any] = {
        "replicas_before": replicas,
        "replicas_after": idle_replicas,
        "idles": True,
        "event": "Idled",
        "group": f"idling/{ref.cluster}/{ref.namespace}/Service/{ref.name}",
    }
    changes = fields.pop("changes", (record, replicas_change(replicas, idle_replicas)))
    return decision_of(Verb.IDLE, Phase.DECREASE, ref, cause, changes, **(defaults | fields))


def a_wake(name: str = "api", *, cause: Cause = IDLE_DEV, **fields: Any) -> Decision:
    ref = fields.pop("ref", None) or a_ref(name, cluster="eu-west", namespace="dev-a")
    defaults: dict[str, Any] = {"replicas_before": 0, "replicas_after": 3, "event": "Woken"}
    return decision_of(Verb.WAKE, Phase.WAKE, ref, cause, (replicas_change(0, 3),), **(defaults | fields))


def a_record(name: str = "api", **fields: Any) -> Decision:
    ref = fields.pop("ref", None) or a_ref(name, cluster="eu-west", namespace="dev-a", kind="Service")
    at = FieldChange(("metadata", "annotations", "idling.kubernetes.io/idled-at"), None, "2026-11-20T15:41:23Z")
    defaults: dict[str, Any] = {"group": f"idling/{ref.cluster}/{ref.namespace}/Service/{ref.name}"}
    return decision_of(Verb.RECORD, Phase.DECREASE, ref, IDLE_DEV, (at,), **(defaults | fields))


def a_scale(before: int, after: int, name: str = "web", *, cluster: str = "eu-west", **fields: Any) -> Decision:
    ref = fields.pop("ref", None) or a_ref(name, cluster=cluster)
    phase = Phase.DECREASE if after < before else Phase.INCREASE
    defaults: dict[str, Any] = {
        "job": "placement",
        "replicas_before": before,
        "replicas_after": after,
        "group": f"placement/{ref.namespace}/{ref.name}",
    }
    cause = fields.pop("cause", PLACE_WEB)
    return decision_of(Verb.SCALE, phase, ref, cause, (replicas_change(before, after),), **(defaults | fields))


def a_create(replicas: int = 2, **fields: Any) -> Decision:
    ref = a_ref("web", cluster="ap-south", kind="ReplicaSet")
    defaults: dict[str, Any] = {
        "job": "placement",
        "uid": None,
        "manifest": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}},
        "replicas_after": replicas,
        "group": f"placement/{ref.namespace}/{ref.name}",
    }
    return decision_of(Verb.CREATE, Phase.INCREASE, ref, PLACE_WEB, (), **(defaults | fields))


def a_plan(*decisions: Decision, **fields: Any) -> Plan:
    """A plan over `decisions`, put in order; its clusters are those of the decisions."""
    clusters = sorted({decision.ref.cluster for decision in decisions} | {"eu-west"})
    defaults: dict[str, Any] = {
        "made_at": NOW,
        "run": "0123456789ab",
        "fleet": "production",
        "policy_digest": "aa" * 32,
        "input_digest": "bb" * 32,
        "clusters": {name: f"identity-{name}" for name in clusters},
        "actions": numbered_actions(in_order(decisions)),
        "limits": (
            a_limit_use("fleet default", "workloads", 1, 45, 180),
            a_limit_use("fleet default", "replicas", 7, 300, 1200),
        ),
    }
    return Plan(**(defaults | fields))
