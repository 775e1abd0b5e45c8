"""Decisions for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from reconciler.decide.decisions import Cause, Decision, Phase, Verb, replicas_change
from reconciler.model import ObjectRef
from tests.builders import a_ref, said


def a_decision(name: str = "web", *, before: int = 3, after: int = 0, **fields: Any) -> Decision:
    """Idling of a Deployment from `before` to `after`, unless told otherwise."""
    ref: ObjectRef = fields.pop("ref", a_ref(name))
    policy = fields.pop("policy", "idle-dev")
    defaults: dict[str, Any] = {
        "key": f"idling/{ref}",
        "job": "idling",
        "verb": Verb.IDLE,
        "phase": Phase.DECREASE,
        "ref": ref,
        "api_version": "apps/v1",
        "uid": f"uid-{name}",
        "changes": (replicas_change(before, after),),
        "cause": Cause(policy, f"policies/{policy}.yaml:1", said("0 at most 0 in 30m")),
        "group": f"idling/{ref}",
        "replicas_before": before,
        "replicas_after": after,
        "idles": after < before,
    }
    return Decision(**(defaults | fields))
