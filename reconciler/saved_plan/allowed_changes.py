"""What a plan may change: a closed list of kinds, and of the fields of each.

A saved plan is a file that somebody else may have written to. What is not on this list no run ever plans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from reconciler.decide.annotations import FLUX_DISABLED, OUR_ANNOTATIONS, Key
from reconciler.decide.decisions import ANNOTATIONS, Decision, Verb
from reconciler.decide.placement.home_config_maps import MEMORY, REPLACED
from reconciler.decide.placement.recorded_status import STATUS_PREFIX
from reconciler.errors import PlanFileError
from reconciler.model import DELETION_COST, JOURNAL, pointer
from reconciler.plan.json_patch import missing_maps
from reconciler.plan.model import Plan
from reconciler.policy.types import Writes
from reconciler.untrusted_text import MOST_REPLICAS, short
from reconciler.workload_kinds import SCALABLE_KINDS, SWITCHES, GroupKind, Scalar, WorkloadKind, same_scalar

_Path = tuple[str, ...]
_Check = Callable[[Any], bool]

_LABELS: _Path = ("metadata", "labels")
_TEMPLATE: _Path = ("spec", "template")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_VERSION = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_RUN = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", re.ASCII)
_CONFIG_MAP_PREFIXES = (REPLACED, STATUS_PREFIX)


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value <= MOST_REPLICAS)


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values()))


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Scalar)


def _is_switch_map(value: Any) -> bool:
    """Return whether it may be the map that a switch stands in, with nothing beside it; None: there is no such map."""
    return _is_texts(value) and (value is None or len(value) == 1)


def _of_scale(kind: WorkloadKind) -> Mapping[_Path, _Check]:
    """Return what may be written where a kind has its scale."""
    of_type = {"Pause": _is_text, "Switch": _is_flag, "Replicas": _is_count}  # the one switch that is always there
    return {kind.replicas_path: of_type[kind.scaled_by]}


def _of_switch(kind: WorkloadKind, path: _Path, *, is_wake: bool) -> _Check | None:
    """Return what may be written at `path` of what a Fleet switches off: what is off, and back what was recorded."""
    *parents, key = kind.replicas_path
    if path == kind.replicas_path:
        back = _is_text if kind.in_map else _is_scalar
        return back if is_wake else lambda value: same_scalar(value, kind.off)
    if not kind.in_map or parents[0] != "spec" or path != tuple(parents):
        return _ONLY_TESTED.get(path)
    return (lambda value: value is None) if is_wake else lambda value: value == {key: kind.off}


_OF_KIND: Mapping[GroupKind, Mapping[_Path, _Check]] = {
    key: {**_of_scale(kind), **({(*_LABELS, Key.FEDERATED_LABEL): _is_text} if kind.counts else {})}
    for key, kind in SCALABLE_KINDS.items()
}
_FIELDS: Mapping[GroupKind, Mapping[_Path, _Check]] = {
    ("", "Service"): {},
    ("", "Endpoints"): {},
    ("discovery.k8s.io", "EndpointSlice"): {},
    ("", "ConfigMap"): {("data",): _is_texts, ("data", "*"): _is_text},
    ("", "Pod"): {(*ANNOTATIONS, DELETION_COST): _is_text, (*_LABELS, Key.VICTIM_LABEL): _is_text},
    **_OF_KIND,
    ("apps", "ReplicaSet"): {  # what a FederatedReplicaSet states; `checks` holds it against the policies
        **_OF_KIND["apps", "ReplicaSet"],
        (*_LABELS, "*"): _is_text,
        (*ANNOTATIONS, "*"): _is_text,
        ("spec", "minReadySeconds"): _is_count,
        _TEMPLATE: lambda value: isinstance(value, Mapping),
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {
        ("spec", "minReplicas"): _is_count,
        ("spec", "maxReplicas"): _is_count,
        # Kept from scaling up while it is idle; of what was absent nothing else is stated.
        ("spec", "behavior"): lambda value: value in (None, {"scaleUp": {"selectPolicy": "Disabled"}}),
        ("spec", "behavior", "scaleUp"): lambda value: value == {"selectPolicy": "Disabled"},
        ("spec", "behavior", "scaleUp", "selectPolicy"): lambda value: value in ("Disabled", "Max", "Min"),
    },
}
_FLUX = (*ANNOTATIONS, Key.FLUX_RECONCILE)
_ACTIVATORS = "-activator-"
"""What is in the names of activators' EndpointSlices."""

_NO_ANNOTATIONS = frozenset({("", "Pod"), ("discovery.k8s.io", "EndpointSlice")})
"""Kinds on which none of our annotations stand."""


_ONLY_TESTED = dict.fromkeys(
    ((*ANNOTATIONS, key) for key in (Key.DOWNSCALER_EXCLUDE, Key.DOWNSCALER_EXCLUDE_UNTIL)), lambda _value: False
)
"""Annotations of others: that they are still the same may be a condition, another value may not be written."""

_OF_PEOPLE = frozenset({Key.EXCLUDE, Key.EXCLUDE_UNTIL})
"""Annotations of ours that only people write; a run may test them."""


_Switches = Mapping[GroupKind, WorkloadKind] | None
"""The switches by (group, kind); None: nobody knows them yet."""


def _may_be_switch(key: GroupKind, switches: _Switches) -> bool:
    """Return whether a kind is, or may be, switched off."""
    return key in SWITCHES or is_custom(*key) if switches is None else key in switches


def check_allowed(plan: Plan, where: str, switches: Iterable[WorkloadKind] | None = ()) -> None:
    """Check that every action of `plan` is one that a run may plan; `where` names the plan in errors.

    `switches` are those of the Fleet; None: nobody knows yet, so that what looks like one is let through.

    Raises:
        PlanFileError: one is not; it names the action and the path.
    """
    if not _RUN.fullmatch(plan.run):
        raise PlanFileError(f'{where}: $.run is "{short(plan.run)}", expected the id of a run; plan again')
    known = None if switches is None else {(kind.group, kind.kind): kind for kind in switches}
    for action in plan.actions:
        for path, what in _overreaches(action.decision, known):
            raise PlanFileError(f"{where}: action {action.id} ({short(str(action.ref))}): {path}{what}; plan again")


def is_custom(group: str, kind: str) -> bool:
    """Return whether a kind is none that is known by name: what a CustomResourceDefinition may define, if anything."""
    return (group, kind) not in _FIELDS and "." in group and not f".{group}".endswith(".k8s.io")


def _overreaches(decision: Decision, switches: _Switches) -> Iterator[tuple[str, str]]:
    """Yield what a run would never do, each as its path and what is wrong with it."""
    ref = decision.ref
    key = (ref.group, ref.kind)
    if key not in _FIELDS and not _may_be_switch(key, switches) and not is_custom(*key):
        yield "object", f" is a {short(ref.kind)} of {short(ref.group) or 'the core group'}, which no plan changes"
        return
    yield from _names(decision)
    if decision.verb is Verb.CREATE or decision.manifest is not None:
        yield from _creation(decision)
    elif decision.verb is Verb.DELETE:
        yield from _deletion(decision)
    else:
        if decision.uid is None:
            yield "object.uid", " is null, expected that of an object that is there"
        yield from _changes(decision, switches)
    if decision.removed and decision.writes is Writes.WAKES:
        phase = decision.phase.name.lower()  # a frozen cluster lets it through
        yield "phase", f' is "{phase}", expected "move" or "decrease" where replicas are taken away'
    if decision.orphan and decision.verb is not Verb.DELETE:
        yield "orphan", " is true, expected that of a deletion only"


def _names(decision: Decision) -> Iterator[tuple[str, str]]:
    ref = decision.ref
    for path, name in (("object.namespace", ref.namespace), ("object.name", ref.name)):
        if not _NAME.fullmatch(name):
            yield path, f' is "{short(name)}", expected a name as Kubernetes takes it'
    group, _, version = decision.api_version.rpartition("/")
    if group != ref.group or not _VERSION.fullmatch(version):
        yield "object.apiVersion", f' is "{short(decision.api_version)}", expected a version of its group'
    is_our_config_map = ref.name in (JOURNAL, MEMORY) or ref.name.startswith(_CONFIG_MAP_PREFIXES)
    if ref.kind == "ConfigMap" and not is_our_config_map:
        yield "object.name", f' is "{short(ref.name)}", expected a ConfigMap that runs write'


def _changes(decision: Decision, switches: _Switches) -> Iterator[tuple[str, str]]:
    missing = missing_maps(decision)
    for change in decision.changes:
        check, path = _check_of(decision, change.path, switches), short(pointer(change.path))
        if check is None:
            yield f"after {path}", f" is no field of a {decision.ref.kind} that {decision.verb} changes"
        elif change.before is not None and change.path[:-1] in missing:
            # The write tests the map alone, and what is "unchanged" in it would be written.
            words = f"expected null in an object without {change.path[-2]}"
            yield f"before {path}", f" is {short(repr(change.before))}, {words}"
        elif change.before != change.after and not check(change.after):
            yield f"after {path}", f" is {short(repr(change.after))}, expected what belongs there"
    if not _may_be_switch((decision.ref.group, decision.ref.kind), switches):
        yield from _replicas(decision)


def _check_of(decision: Decision, path: _Path, switches: _Switches) -> _Check | None:
    """Return what the value at `path` must be, None where nothing is ever written there."""
    ref = decision.ref
    key = (ref.group, ref.kind)
    switch = (switches or {}).get(key)
    if switches is None and _may_be_switch(key, None) and (path[0] == "spec" or path[:-1] == ANNOTATIONS):
        return lambda value: _is_scalar(value) or _is_switch_map(value)
    if switch is None and is_custom(*key) and path[0] == "spec" and len(path) > 1:
        return _is_count
    if path == _TEMPLATE and decision.verb is not Verb.OVERWRITE:
        return None
    if path == _FLUX and decision.job == "idling":
        return lambda value: value in (None, FLUX_DISABLED)
    if path[:-1] == ANNOTATIONS and path[-1] in _OF_PEOPLE:
        return lambda _value: False
    if path[:-1] == ANNOTATIONS and path[-1].startswith(OUR_ANNOTATIONS):
        return None if key in _NO_ANNOTATIONS else _is_text
    if switch is not None:
        return _of_switch(switch, path, is_wake=decision.verb is Verb.WAKE)
    fields = _FIELDS.get(key, _OF_KIND["apps", "Deployment"])
    return fields.get(path) or fields.get((*path[:-1], "*")) or _ONLY_TESTED.get(path)


def _replicas(decision: Decision) -> Iterator[tuple[str, str]]:
    """Yield where the number that is shown is not the one that is written."""
    ref = decision.ref
    kind, may_count = SCALABLE_KINDS.get((ref.group, ref.kind)), is_custom(ref.group, ref.kind)
    for change in decision.changes:
        if not (kind.counts and change.path == kind.replicas_path if kind else may_count and change.path[0] == "spec"):
            continue
        shown = (decision.replicas_before, decision.replicas_after)
        written = (1 if change.before is None else change.before, change.after)
        if change.before != change.after and shown != written:
            yield "replicas", f" say {shown[0]} to {shown[1]}, expected {written[0]} to {written[1]} as in after"


def _creation(decision: Decision) -> Iterator[tuple[str, str]]:
    ref, manifest = decision.ref, decision.manifest or {}
    creates = {("apps", "ReplicaSet"): Verb.CREATE, ("", "ConfigMap"): Verb.REMEMBER}
    if creates.get((ref.group, ref.kind)) is not decision.verb or decision.uid is not None or decision.changes:
        yield "manifest", f" makes a {ref.kind}, expected a local ReplicaSet or a ConfigMap that runs write"
        return
    if ref.kind == "ReplicaSet":
        yield from _replica_set(decision, manifest)
    else:
        yield from _misfits(manifest, {"apiVersion": "v1", "kind": "ConfigMap"}, {"metadata", "data"}, "manifest")
        if not _is_texts(manifest.get("data")):
            yield "manifest.data", " holds other things than texts"
    yield from _metadata(decision, manifest.get("metadata"))


def _replica_set(decision: Decision, manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _misfits(manifest, {"apiVersion": "apps/v1", "kind": "ReplicaSet"}, {"metadata", "spec"}, "manifest")
    spec = manifest.get("spec")
    stated = {"minReadySeconds", "selector", "template"}
    yield from _misfits(spec, {"replicas": decision.replicas_after}, stated, "manifest.spec")
    if not _is_count(decision.replicas_after) or decision.replicas_before != 0:
        yield "replicas", f" say {decision.replicas_before} to {decision.replicas_after}, expected 0 to a count"


def _metadata(decision: Decision, metadata: Any) -> Iterator[tuple[str, str]]:
    fixed = {"name": decision.ref.name, "namespace": decision.ref.namespace}
    yield from _misfits(metadata, fixed, {"labels", "annotations"}, "manifest.metadata")
    if isinstance(metadata, Mapping):
        annotations = metadata.get("annotations")
        if not _is_texts(annotations) or not _is_texts(metadata.get("labels")):
            yield "manifest.metadata", " holds other things than texts"
        elif any(key in _OF_PEOPLE for key in annotations or ()):
            yield "manifest.metadata.annotations", " holds some that only others write"
        elif decision.ref.kind == "ConfigMap" and not all(key.startswith(OUR_ANNOTATIONS) for key in annotations or ()):
            yield "manifest.metadata.annotations", " holds some that are not ours"


def _misfits(found: Any, fixed: Mapping[str, Any], free: set[str], path: str) -> Iterator[tuple[str, str]]:
    """Yield where `found` is not an object with the values of `fixed` and nothing beside the keys of `free`."""
    if not isinstance(found, Mapping):
        yield path, " is no object"
        return
    for key, value in fixed.items():
        if found.get(key) != value or type(found.get(key)) is not type(value):
            yield f"{path}.{key}", f" is {short(repr(found.get(key)))}, expected {short(repr(value))}"
    for key in found:
        if key not in fixed and key not in free:
            yield f"{path}.{short(str(key))}", " is no field that a plan states"


def _deletion(decision: Decision) -> Iterator[tuple[str, str]]:
    ref = decision.ref
    done_with = (ref.group, ref.kind) == ("", "ConfigMap") and ref.name.startswith(_CONFIG_MAP_PREFIXES)
    left_behind = ref.kind == "EndpointSlice" and _ACTIVATORS in ref.name
    if (ref.group, ref.kind) != ("apps", "ReplicaSet") and not done_with and not left_behind:
        what = "a local ReplicaSet, a ConfigMap that is no longer needed or an EndpointSlice of an activator"
        yield "verb", f" deletes a {ref.kind}, expected {what}"
    if decision.uid is None:
        yield "object.uid", " is null, expected that of the object to delete"
    if decision.changes:
        yield "after", " holds fields, expected none in a deletion"
