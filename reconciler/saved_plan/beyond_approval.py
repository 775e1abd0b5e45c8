"""What the policies, and the objects, must say of the changes of a saved plan; nobody can approve of anything else.

Each check yields the actions that are refused, and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from reconciler.decide.annotations import OUR_ANNOTATIONS, Key, read_time
from reconciler.decide.decisions import ANNOTATIONS, Decision, Verb
from reconciler.decide.placement.local_replica_sets import Form, form_of
from reconciler.decide.selectors import local_ref
from reconciler.errors import PlanFileError
from reconciler.messages import counted
from reconciler.model import Endpoints, HorizontalPodAutoscaler, ObjectRef, Service, Workload, pointer
from reconciler.plan.model import Action, Plan, json_value
from reconciler.policy.types import PolicySet
from reconciler.saved_plan.differences import WRITTEN, Compared
from reconciler.untrusted_text import short, whole_number_in
from reconciler.workload_kinds import PAUSED_REPLICAS, workload_kind

_KEEP_AWAKE = tuple(name for key in (Key.CONTESTED, Key.AWAKE_UNTIL) for name in (key, pointer((key,))))
_SINCE = (Key.AWAKE_SINCE, pointer((Key.AWAKE_SINCE,)))
_RECORDS = (
    *(Key.PREVIOUS_SCALE, Key.OPENSHIFT_PREVIOUS_SCALE, Key.SCALE_PREVIOUS, Key.IDLED_TO, Key.PLACED),
    *(Key.UNIDLE_TARGETS, Key.OPENSHIFT_UNIDLE_TARGETS, Key.PREVIOUS_BOUNDS, PAUSED_REPLICAS),
)


Refused = Iterator[tuple[Action, str]]


def refuse(refused: Iterable[tuple[Action, str]], where: str) -> None:
    """Let the plan go on in which nothing is `refused`; `where` names it.

    Raises:
        PlanFileError: something is.
    """
    for action, why in refused:
        raise PlanFileError(f"{where}: action {action.id} ({short(str(action.ref))}): {why}; plan again")


def not_as_stated(plan: Plan, policies: PolicySet) -> Refused:
    """Yield what gives local ReplicaSets anything else than `policies` say, but for replicas and our annotations."""
    forms = {
        (federated.namespace, federated.name): form_of(federated, policies.fleet) for federated in policies.federated
    }
    for action in plan.actions:
        ref = action.ref
        if ref.kind == "ReplicaSet" and not _is_as_stated(action.decision, forms.get((ref.namespace, ref.name))):
            parts = "template, labels, annotations or minReadySeconds"
            yield action, f"its {parts} are not those of the FederatedReplicaSet of its name in the policies"


def more_replicas(actions: Sequence[Action], policies: PolicySet, there: Mapping[ObjectRef, int]) -> Refused:
    """Yield what asks for more replicas than its object, or its FederatedReplicaSet, says, or records more for a later
    run: also in the list of a Service, where the objects of its namespace that are changed together with it count, and
    as a bound of an autoscaler.

    `there` is what the objects say now (`replicas_of`): what a plan says of them may be forged as well as the rest.
    """
    clusters = [cluster.name for cluster in policies.fleet.clusters]
    totals = {local_ref(federated, name): federated.replicas for federated in policies.federated for name in clusters}
    switched = {(kind.group, kind.kind) for kind in policies.fleet.switch_kinds}
    most: dict[int, int] = {}
    together: dict[tuple[str, ...], int] = {}
    for action in actions:
        ref, decision = action.ref, action.decision
        placed = totals.get(ref, 0) if decision.job == "placement" else 0
        counts = workload_kind(ref.kind).counts and (ref.group, ref.kind) not in switched
        most[action.id] = max(there.get(ref, 0), placed, 0 if counts else 1)
        beside = (decision.group, ref.cluster, ref.namespace)
        together[beside] = max(together.get(beside, 0), most[action.id])
    for action in actions:
        decision, ref = action.decision, action.ref
        lists = ref.is_service or ref.kind == "Endpoints"  # what lists the replicas of others
        allowed = together[decision.group, ref.cluster, ref.namespace] if lists else most[action.id]
        asked = max(decision.replicas_after or 0, *_asked(decision), 0)
        if asked > allowed:
            expected = f"expected at most {allowed}, which its record or its FederatedReplicaSet says"
            yield action, f"asks for {counted(asked, 'replica')}, {expected}"


def deletions_and_pickers(actions: Iterable[Action], policies: PolicySet) -> Refused:
    """Yield what deletes a workload, or asks another pod picker than the policies state: it is sent a Secret of the
    namespace.
    """
    stated = {*(policy.pod_picker for policy in policies.downscale), *(one.pod_picker for one in policies.federated)}
    for action in actions:
        settings = action.decision.downscale
        if action.decision.verb is Verb.DELETE and action.ref.kind == "ReplicaSet":
            yield action, "deletes a ReplicaSet, expected what a fresh plan deletes"
        if settings is not None and settings.picker is not None and settings.picker not in stated:
            yield action, f"asks {short(str(settings.picker))}, expected one as a policy states it"


def kept_awake(actions: Iterable[Action], compared: Compared, now: datetime) -> Refused:
    """Yield what would keep its object from being idled, but as a fresh plan does: that is for people to say, on the
    object. `now` is when the plan was made.
    """
    for action in actions:
        for difference in compared.fields.get(action.id, ()):
            kind, _, field = difference.field.partition(" ")
            if kind not in WRITTEN or difference.saved is None:
                continue
            is_kept = field.endswith(_KEEP_AWAKE)
            at = read_time(difference.saved) if field.endswith(_SINCE) else None
            if is_kept or (at is not None and at > now):
                yield action, f"{difference}; it would not be idled"


def replicas_of(found: Workload | HorizontalPodAutoscaler | Service | Endpoints) -> int:
    """Return the most replicas that an object says: those it has, its bounds, and those in its records."""
    counts = list(_recorded(found.annotations))
    if isinstance(found, Workload):
        counts.append(found.spec_replicas)
    elif isinstance(found, HorizontalPodAutoscaler):
        counts += [found.minimum or 0, found.maximum]
    return max(counts, default=0)


def _asked(decision: Decision) -> Iterator[int]:
    """Yield the replicas that `decision` writes as a record, or as the bounds of an autoscaler."""
    metadata = (decision.manifest or {}).get("metadata") or {}
    written = {change.path[-1]: change.after for change in decision.changes if change.path[:-1] == ANNOTATIONS}
    yield from _recorded({**(metadata.get("annotations") or {}), **written})
    if decision.ref.kind == "HorizontalPodAutoscaler":
        yield from (change.after for change in decision.changes if isinstance(change.after, int))


def _recorded(annotations: Mapping[str, Any]) -> Iterator[int]:
    """Yield every number of replicas in the records among `annotations`."""
    for key in _RECORDS:
        yield from _whole_numbers(annotations.get(key))


def _whole_numbers(text: Any) -> Iterator[int]:
    """Yield every whole number in the text of a record: a number, or JSON."""
    number = whole_number_in(str(text))
    waiting = [_json(text) if number is None else number]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict | list):
            waiting += found.values() if isinstance(found, dict) else found
        elif type(found) is int:
            yield found


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


def _is_as_stated(decision: Decision, form: Form | None) -> bool:
    written = {change.path: change.after for change in decision.changes if change.before != change.after}
    is_stated = all(_is_stated(path, after, form) for path, after in written.items())
    if decision.manifest is None or not is_stated:
        return is_stated
    annotations = (decision.manifest.get("metadata") or {}).get("annotations") or {}
    kept = {key: text for key, text in annotations.items() if key.startswith(OUR_ANNOTATIONS)}
    made = None if form is None or decision.replicas_after is None else form.manifest(decision.replicas_after, kept)
    return made is not None and json_value(made) == json_value(decision.manifest)


def _is_stated(path: tuple[str, ...], after: Any, form: Form | None) -> bool:
    """Return whether `form` says what is written at `path`, or it is ours to write."""
    *parent, key = path
    if path == ("spec", "template"):
        return form is not None and json_value(after) == json_value(form.federated.template)
    if path == ("spec", "minReadySeconds"):
        return bool(after == (form.federated.min_ready_seconds or None if form is not None else None))
    if after is None and key in (Key.FEDERATED_LABEL, Key.ON_DELETE):
        return True
    if parent == ["metadata", "labels"]:
        return after is not None and form is not None and form.labels.get(key) == after
    if tuple(parent) == ANNOTATIONS and (key == Key.ON_DELETE or not key.startswith(OUR_ANNOTATIONS)):
        return after is not None and form is not None and form.annotations.get(key) == after
    return True
