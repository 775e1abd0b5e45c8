"""One action carried out by whoever may: its tenant, and a wake by ourselves where the tenant may not."""

from __future__ import annotations

from msgspec.structs import replace

from reconciler.apply.access import Access, tenant_of, wakes_as_recorded
from reconciler.apply.outcomes import Outcome, OutcomeStatus, outcome_of
from reconciler.apply.scale_down import scale_down
from reconciler.decide.decisions import Phase
from reconciler.errors import ReconcilerError
from reconciler.model import Run
from reconciler.plan.json_patch import write_of
from reconciler.plan.model import Action
from reconciler.policy.types import Fleet


def attempted(action: Action, access: Access, fleet: Fleet | None, run: Run, namespace: str) -> tuple[Outcome, Access]:
    """Carry out `action`; return what became of it, and the access of who did: `access` is our own, and so is
    `namespace`.
    """
    own = access.of(action.decision, fleet)
    outcome = _tried(action, own, run, namespace)
    forbidden = outcome.failure.forbidden if outcome.failure else ""
    tenant = tenant_of(action.decision, fleet) if forbidden else None
    if tenant is not None and wakes_as_recorded(action.decision):
        return _tried(action, access, run, namespace), access  # whatever a tenant does with its rights, it wakes
    if tenant is not None and forbidden == "write":
        who = f"as serviceAccount {tenant.service_account} of tenant {tenant.name}, at {tenant.place}"
        fault = "" if action.decision.phase is Phase.WAKE else tenant.name  # what stays down is ours to tell
        outcome = replace(outcome, message=f"{outcome.message}; {who}", tenant=fault)
    return outcome, own


def _tried(action: Action, access: Access, run: Run, namespace: str) -> Outcome:
    try:
        if action.decision.downscale is not None:
            return scale_down(action, access, run, namespace)
        access.cluster.write(write_of(action.decision))
        return Outcome(action.id, OutcomeStatus.APPLIED)
    except ReconcilerError as error:
        return outcome_of(action, error)
