"""Scale-downs that apply would leave to a later run, because something else set deletion costs on the pods."""

from __future__ import annotations

from msgspec.structs import replace

from reconciler.decide.change_codes import field_is
from reconciler.decide.decisions import Decision, DesiredState, PolicyExplanation, Undecided
from reconciler.decide.reasons import Reason, ReasonCode, reason


def without_deferred(desired: DesiredState) -> DesiredState:
    """Return `desired` without the downscales that apply would leave to a later run: they are undecided.

    What another job decides stays in the plan, with a note: its other decisions rest on it.
    """
    deferred = {
        decision.key: reason(ReasonCode.VICTIMS_DEFERRED, note=decision.victims.note)
        for decision in desired.decisions
        if decision.job == "downscale" and decision.victims is not None and decision.victims.deferred
    }
    gone = {(one.ref, one.cause.policy): one for one in desired.decisions if one.key in deferred}
    undecided = (Undecided(str(ref), "downscale", policy, (deferred[one.key],)) for (ref, policy), one in gone.items())
    explanations = (
        _stays(found, before, deferred[before.key]) if before is not None and found.job == "downscale" else found
        for found in desired.explanations
        for before in (gone.get((found.ref, found.policy)),)
    )
    return replace(
        desired,
        decisions=tuple(decision for decision in desired.decisions if decision.key not in deferred),
        undecided=(*desired.undecided, *undecided),
        explanations=tuple(explanations),
    )


def _stays(explanation: PolicyExplanation, before: Decision, why: Reason) -> PolicyExplanation:
    """Return `explanation` of what `before` would have scaled down, and `why` defers: only foreign costs do."""
    return replace(
        explanation,
        outcome=f"stays at {before.replicas_before}",
        reasons=(why, *explanation.reasons),
        change=field_is("onForeignCost", "Override"),
    )
