"""The switches of a Fleet: kinds that are idled by one value of an object, and where that stands."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import UNSET, UnsetType, structs

from reconciler.messages import Path, shown
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fields import ApiVersion, Fields, Kind, Text, given, matching
from reconciler.workload_kinds import SCALABLE_KINDS, SWITCHES, Ready, Scalar, WorkloadKind, switch_kind

_ScalarField = bool | int | str
FieldPath = Annotated[
    str,
    matching(
        r"^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*(\[[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?\])?\Z",
        "a path like spec.suspend or metadata.annotations[example.com/paused]",
    ),
]
PLURAL = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?\Z"
_OURS = ("reconciler/", "idling.", "scale.kubernetes.io/", "kustomize.toolkit.fluxcd.io/")
_BEFORE_KEY = r"([^[]*)(?:\[(.*)\])?"


class _ReadyFields(Fields, frozen=True, kw_only=True):
    """How an object shows that it runs again: a value at a path, or the status of a condition."""

    path: FieldPath | UnsetType = UNSET
    """path is where the value stands, for example status.phase. It requires value."""
    value: _ScalarField | UnsetType = UNSET
    """value is what stands at path once the object runs."""
    type: Text | UnsetType = UNSET
    """type is the type of a condition in status.conditions."""
    status: Text = "True"
    """status is the status of that condition once the object runs."""

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {"required": ["path", "value"], "properties": {"type": False, "status": False}},
            {"required": ["type"], "properties": {"path": False, "value": False}},
        ],
        "x-expected": 'either "path" and "value", or "type"',
    }


class SwitchFields(Fields, frozen=True, kw_only=True):
    """A kind that is switched off in place of being scaled."""

    api_version: ApiVersion
    """apiVersion is that of the objects, for example batch/v1."""
    kind: Kind
    """kind is that of the objects, for example Job. IdlingPolicies select it by this name, or by KIND.GROUP."""
    plural: Annotated[str, matching(PLURAL, "a plural like jobs")] | UnsetType = UNSET
    """plural is what the kind is called in roles. The default is kind in lower case with an s."""
    path: FieldPath | UnsetType = UNSET
    """path is where the value stands that switches an object off: below spec, or an annotation. A part in brackets is a
    key of a map, which is made where it is absent. If it is not set, the kind is one whose switch is known."""
    off: _ScalarField | UnsetType = UNSET
    """off is the value that switches an object off. The value of before is recorded in the same write, and restored as
    it was. It is required with path."""
    ready: _ReadyFields | UnsetType = UNSET
    """ready says how an object shows that it runs again after it was switched on. Wakes of later tiers wait for that.
    If it is not set, the switch alone counts."""

    json_schema: ClassVar[dict[str, Any]] = {"dependentRequired": {"path": ["off"], "off": ["path"]}}


def switches_of(document: PolicyDocument, fields: Sequence[SwitchFields]) -> tuple[WorkloadKind, ...]:
    """Return the kinds that a Fleet switches off; problems are gathered in `document`."""
    found: dict[tuple[str, str], int] = {}
    kinds: list[WorkloadKind] = []
    for position, switch in enumerate(fields):
        here: Path = ("spec", "switches", position)
        group, _, version = switch.api_version.rpartition("/")
        if not document.is_readable(here):
            continue
        first = found.setdefault((group, switch.kind), position)
        if first != position:
            words = f"is {shown(switch.kind)} of {group} a second time, expected each kind once"
            document.add((*here, "kind"), f"{words}; the first is spec.switches[{first}]")
            continue
        fault = next(_faults(switch, group), None)
        if fault is not None:
            document.add((*here, fault[0]) if fault[0] else here, fault[1])
            continue
        kinds.append(_kind_of(switch, group, version))
    return tuple(kinds)


def _faults(switch: SwitchFields, group: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a switch, each with its field, "" for the whole."""
    key, ready = (group, switch.kind), given(switch.ready)
    if key in SCALABLE_KINDS:
        yield "kind", f"is {shown(switch.kind)}, expected a kind that is not idled already"
    if not group:
        yield "apiVersion", f"is {shown(switch.api_version)}, expected that of an API group, like batch/v1"
    if (switch.path is UNSET) is not (switch.off is UNSET):
        yield "", f"has no {'path' if switch.path is UNSET else 'off'}, expected path and off, or neither"
    if ready is not None and (ready.path is UNSET, ready.value is UNSET) != (ready.type is not UNSET,) * 2:
        yield "ready", 'is a mapping, expected either "path" and "value", or "type"'
    if switch.path is not UNSET:
        yield from _faults_at(switch.path, given(switch.off))
    elif key not in SWITCHES:
        known = ", ".join(sorted(f"{kind}.{group}" for group, kind in SWITCHES))
        yield "", f"has no path, expected path and off; without them the kinds are known {known}"


def _faults_at(text: str, off: Any) -> Iterator[tuple[str, str]]:
    path = _path_of(text)
    if len(path) < 2 or path[0] not in ("spec", "metadata"):
        yield "path", f"is {shown(text)}, expected a path below spec, or an annotation"
    elif path[0] == "metadata" and (path[1] != "annotations" or len(path) != 3 or "[" not in text):
        yield "path", f"is {shown(text)}, expected metadata.annotations[KEY], or a path below spec"
    elif path[0] == "metadata" and path[-1].startswith(_OURS):
        yield "path", f"is {shown(text)}, expected an annotation that the reconciler does not write itself"
    elif path == ("spec", "replicas"):
        yield "path", f"is {shown(text)}, expected no number of replicas; a kind with /scale needs no switch"
    elif "[" in text and not isinstance(off, str):
        yield "off", f"is {shown(off)}, expected a text, as all values of that map are"


def _kind_of(switch: SwitchFields, group: str, version: str) -> WorkloadKind:
    known = SWITCHES.get((group, switch.kind))
    text, plural, ready = given(switch.path), given(switch.plural), given(switch.ready)
    if text is not None:
        path, in_map = _path_of(text), "[" in text
        off: Scalar = None if switch.off is UNSET else switch.off
        kind = switch_kind(switch.api_version, f"{switch.kind} {switch.kind.lower()}s", path, off, in_map=in_map)
        if known is not None:
            kind = structs.replace(kind, plural=known.plural, ready=known.ready, finished=known.finished)
        known = kind
    assert known is not None
    more: dict[str, Any] = {"version": version}
    more |= {} if plural is None else {"plural": plural}
    more |= {} if ready is None else {"ready": _ready_of(ready)}
    return structs.replace(known, **more)


def _ready_of(fields: _ReadyFields) -> Ready:
    path = given(fields.path)
    value: Scalar = None if fields.value is UNSET else fields.value
    return Ready(() if path is None else _path_of(path), value, given(fields.type) or "", fields.status)


def _path_of(text: str) -> tuple[str, ...]:
    """Return the parts of a path as policies write it: metadata.annotations[example.com/paused]."""
    found = re.fullmatch(_BEFORE_KEY, text)
    before, key = ("", None) if found is None else found.groups()
    return (*before.split("."), *(() if key is None else (key,)))
