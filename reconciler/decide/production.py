"""Production, which a policy leaves as it is unless it says `production: true`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.decide.reasons import Counterfactual, CounterfactualCode, Reason, ReasonCode, change_if, reason


def left_out(what: str, policies: Iterable[str]) -> Reason:
    """Return that `what` is production, which `policies` leave as it is."""
    return reason(ReasonCode.PRODUCTION, what=what, policies=sorted(policies))


def named_by(policies: Sequence[str]) -> Counterfactual:
    """Return that `policies` may decide in production once they say so."""
    return change_if(CounterfactualCode.FIELD_IS, field="production", value=f"true in {' and '.join(policies)}")
