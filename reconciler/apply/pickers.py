"""Asking the pod pickers for a plan, where a person wants to see their choice before it is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.apply.outcomes import Access
from reconciler.decide.decide import without_postponed
from reconciler.decide.decisions import DesiredState, Notice
from reconciler.decide.downscale.forecast import picker_requests, with_victims
from reconciler.errors import PickerError, reason_of
from reconciler.model import ObjectRef, ObservedState, PickerAnswer, Run
from reconciler.policy.types import PolicySet


def asked_pickers(
    desired: DesiredState, policies: PolicySet, state: ObservedState, run: Run, accesses: Mapping[str, Access]
) -> DesiredState:
    """Return `desired` with the victims that the pickers name now; apply asks them again right before it marks."""
    answers: dict[ObjectRef, PickerAnswer] = {}
    notices: list[Notice] = []
    for ref, request in picker_requests(desired.decisions, policies, state, run).items():
        try:
            answers[ref] = accesses[ref.cluster].picker.pick(request)
        except PickerError as error:
            notices.append(Notice("picker", str(ref), str(error), partial=request.picker.on_error == "skip"))
        except Exception as error:  # noqa: BLE001 - the one place where a picker fails unexpectedly: it alone is unknown
            notices.append(Notice("picker", str(ref), reason_of(error), partial=True))
    decisions, _, _ = with_victims(desired.decisions, policies, state, run, answers)
    return without_postponed(replace(desired, decisions=decisions, notices=(*desired.notices, *notices)))
