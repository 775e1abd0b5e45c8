"""Whether a namespace is protected: in one that is, nothing is idled, placed or scaled down, whatever policies say.

Which ones are is `protected` of the Fleet (`policy/kinds/fleet.py`), which checks of policies read too.
"""

from __future__ import annotations

from reconciler.decide.change_codes import ChangeIfCode, Fact, change_if, fact
from reconciler.decide.reasons import ReasonCode
from reconciler.policy.types import Fleet


def protection(fleet: Fleet, namespace: str) -> Fact | None:
    """Return that `namespace` is protected, None where it is not. What the Fleet does not list itself always is."""
    if namespace not in fleet.protected:
        return None
    is_listed = namespace in fleet.protected_namespaces
    lift = change_if(ChangeIfCode.UNPROTECTED) if is_listed else None
    return fact(ReasonCode.NAMESPACE_PROTECTED, lift, namespace=namespace)
