"""As whom a decision is carried out: as the ServiceAccount of a tenant, or as the run itself.

What our own checks of tenants should let through by mistake is then refused by the API server.
"""

from __future__ import annotations

from reconciler.decide.annotations import OPENSHIFT_PREVIOUS_SCALE, PREVIOUS_SCALE
from reconciler.decide.decisions import Decision, Phase
from reconciler.decide.reasons import ReasonCode
from reconciler.model import ServiceAccount
from reconciler.policy.types import Fleet, Tenant
from reconciler.untrusted_text import whole_number_in

_RECORDED = tuple(("metadata", "annotations", key) for key in (PREVIOUS_SCALE, OPENSHIFT_PREVIOUS_SCALE))


def tenant_of(decision: Decision, fleet: Fleet | None) -> Tenant | None:
    """Return the tenant as which `decision` is carried out, None for the run itself; without a Fleet that does all.

    It is the tenant whose policy decides, or that of the namespace where the policy is the platform's, or there is none
    (any more). Annotations have no say in it. ConfigMaps are what a run tells the next one.
    """
    if fleet is None or decision.ref.kind == "ConfigMap":
        return None
    found = fleet.tenant(decision.cause.tenant) or fleet.tenant_at(decision.ref.cluster, decision.ref.namespace)
    return None if found is None or found.service_account is None else found


def account_of(decision: Decision, fleet: Fleet | None) -> ServiceAccount | None:
    """Return the ServiceAccount that is impersonated to carry out `decision`, None for none."""
    tenant = tenant_of(decision, fleet)
    if fleet is None or tenant is None or tenant.service_account is None:
        return None
    return ServiceAccount(fleet.namespace, tenant.service_account)


def wakes_as_recorded(decision: Decision) -> bool:
    """Return whether `decision` is part of a wake, and asks for no other replicas than records say.

    The record on its object is tested with the write, and its number counts also where the bounds of the autoscaler
    keep from it: the autoscaler would do the same. Where none can be read there, that of its Services counts, as far as
    the object bears it out. The bounds of an autoscaler, and what suspends or pauses, are those of records in
    any wake; a template is none of it.
    """
    if decision.job != "idling" or decision.phase is not Phase.WAKE:
        return False
    numbers = (whole_number_in(str(one.before)) for one in decision.changes if one.path in _RECORDED)
    recorded = [one for one in numbers if one is not None]
    bounded = [one.values["recorded"] for one in decision.cause.reasons if one.code is ReasonCode.WITHIN_HPA_BOUNDS]
    return decision.replicas_after is None or not recorded or (*bounded, decision.replicas_after)[0] in recorded
