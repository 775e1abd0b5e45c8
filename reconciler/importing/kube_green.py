"""kube-green: SleepInfos -> IdlingPolicies, and what its Secrets remember of what is idle.

Source: kube-green, api/v1alpha1/sleepinfo_types.go, internal/controller/sleepinfo/sleepinfodata.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Struct
from msgspec.json import decode

from reconciler.backends.patched_values import value_below
from reconciler.importing.manifests import Imported, Loss, Manifest, mappings, policy_name, stated
from reconciler.importing.periods import PeriodError, check_zone, downtimes, min_awake
from reconciler.model import pointer
from reconciler.policy.kinds.calendar import MINUTES_A_DAY, MINUTES_A_WEEK, moment
from reconciler.untrusted_text import MOST_REPLICAS
from reconciler.workload_kinds import BY_KIND, SWITCHES
from reconciler.yaml.reader import marked

SLEEP_INFO = ("kube-green.com", "SleepInfo")
MEMORY = ("operation-type", "original-resource-info", "deployment-replicas", "cronjobs-info")
"""The keys of the Secret of a SleepInfo."""

_KINDS = (("Deployment", "suspendDeployments", True), ("StatefulSet", "suspendStatefulSets", True))
_STEPS = re.compile(r"(\*|\d{1,4}(?:-\d{1,4})?)(?:/(\d{1,4}))?", re.ASCII)
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY = re.compile(rf"\b({'|'.join(_DAYS)})\b", re.ASCII | re.IGNORECASE)
_MOST_WINDOWS = 50
_PATCHED = {kind: BY_KIND[kind] for kind in ("Deployment", "StatefulSet", "ReplicaSet", "CronJob")}
"""The kinds of which a patch may do what a policy does."""
_WITH_SWITCH = {f"{kind}.{group}" for group, kind in SWITCHES}


def import_kube_green(manifests: Iterable[Manifest]) -> Imported:
    """Return the policies of SleepInfos; those of one namespace and selection are one, idle while any of them is."""
    gathering = Imported()
    together: dict[str, list[Manifest]] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) == SLEEP_INFO:
            wakes = "" if manifest.at("spec", "wakeUpAt") else manifest.name
            alike = [manifest.namespace, wakes, manifest.at("spec", "timeZone"), _selection(manifest)]
            together.setdefault(json.dumps(alike, sort_keys=True, default=str), []).append(manifest)
    of_namespace: dict[str, int] = {}
    for alike in together.values():
        first = alike[0]
        number = of_namespace.setdefault(first.namespace, 0)
        of_namespace[first.namespace] += 1
        _add(gathering, alike, number)
    return gathering


def _selection(manifest: Manifest) -> Mapping[str, Any]:
    spec = manifest.at("spec") or {}
    keys = ("excludeRef", "includeRef", "patches", "suspendCronJobs", *(key for _, key, _ in _KINDS))
    return {key: spec[key] for key in keys if key in spec}


def _add(gathering: Imported, alike: Sequence[Manifest], number: int) -> None:
    """Add the policies of SleepInfos that differ only in their times. `number` others of the namespace came before."""
    losses = [
        loss
        for manifest in alike
        for loss in (*gathering.lose_namespace(manifest), *_without_counterpart(gathering, manifest))
    ]
    windows: dict[str, None] = {}
    for manifest in alike:
        try:
            windows |= dict.fromkeys(_windows(manifest))
        except PeriodError as error:
            gathering.lose(manifest, "spec", f"{error}; it is left out")
    if not windows:
        return
    first = alike[0]
    if number:
        words = "selects beside another SleepInfo of its namespace; what both select follows the highest priority"
        losses.append(gathering.lose(first, "spec", words))
    for selector in _selectors(first):
        if not selector["kinds"]:
            gathering.lose(first, "spec", "selects nothing; no policy is made of it")
            continue
        schedule = {"schedule": {"timeZone": _zone(first), "downtime": [*windows]}}
        spec = stated(
            priority=number,
            selector={"namespaces": {"include": [first.namespace]}, "workloads": selector},
            exclude=_excluded_by_kind(first),
            idleWhen=[schedule],
            minAge="0s",
            **(min_awake(schedule) if first.at("spec", "wakeUpAt") else {"wake": "OnSignal"}),
        )
        gathering.add("IdlingPolicy", policy_name(first.namespace, first.name), spec, losses)


def _without_counterpart(gathering: Imported, manifest: Manifest) -> Iterator[Loss]:
    for kind, idles in _patches(manifest):
        if not idles:
            words = "has no counterpart: a policy sets replicas to 0, or suspends CronJobs"
            if kind in _WITH_SWITCH:
                words = "needs spec.switches of the Fleet, and the kind in workloads.kinds"
            yield gathering.lose(manifest, "spec.patches", f"a patch of {kind.removesuffix('.')} {words}")


def _patches(manifest: Manifest) -> Iterator[tuple[str, bool]]:
    """Yield the kind that each patch changes, and whether it only does to it what a policy does."""
    for patch in mappings(manifest.at("spec", "patches")):
        kind, group = (str(value_below(patch, ("target", key)) or "") for key in ("kind", "group"))
        steps, _ = marked(str(patch.get("patch", "")))
        known = _PATCHED.get(kind)
        if known is None or known.group != group:
            yield f"{kind}.{group}", False
            continue
        does = [(step.get("path"), step.get("value")) for step in mappings(steps)]
        yield kind, does == [(pointer(known.replicas_path), known.value_at(0))]


# Times. A SleepInfo is two moments a day, a policy is a state: from each moment to sleep to the next one to wake.


def _windows(one: Manifest) -> tuple[str, ...]:
    """Return when a SleepInfo sleeps; what never wakes by itself does from each moment on, for an hour.

    Raises:
        PeriodError: its times cannot be read.
    """
    check_zone(_zone(one))
    sleeps = _moments(one, "sleepAt")
    hour_later = {(at + 60) % MINUTES_A_WEEK for at in sleeps} - sleeps
    wakes = _moments(one, "wakeUpAt") if one.at("spec", "wakeUpAt") else hour_later
    if sleeps & wakes:
        raise PeriodError(f"sleepAt and wakeUpAt both name {moment(min(sleeps & wakes))}, expected different times")
    found = downtimes(sleeps, wakes)
    if not found or len(found) > _MOST_WINDOWS:
        raise PeriodError(f"its times are {len(found)} windows a week, expected 1 to {_MOST_WINDOWS}")
    return tuple(found)


def _zone(manifest: Manifest) -> str:
    return str(manifest.at("spec", "timeZone") or "UTC")


def _moments(manifest: Manifest, field: str) -> set[int]:
    """Return the moments of a week that `field` names on the weekdays of the SleepInfo, in minutes since Monday."""
    hours, _, minutes = str(manifest.at("spec", field) or "").partition(":")
    weekdays = _DAY.sub(lambda day: str(_DAYS.index(day[0].lower())), str(manifest.at("spec", "weekdays") or ""))
    days = {(day - 1) % 7 for day in _cron(weekdays, 6, "weekdays")}
    found = {(hour, minute) for hour in _cron(hours, 23, field) for minute in _cron(minutes, 59, field)}
    return {day * MINUTES_A_DAY + hour * 60 + minute for day in days for hour, minute in found}


def _cron(text: str, most: int, field: str) -> set[int]:
    """Return the numbers that a field of cron stands for.

    Raises:
        PeriodError: it is none.
    """
    found = set[int]()
    for part in text.split(","):
        match = _STEPS.fullmatch(part)
        if match is None:
            raise PeriodError(f'{field} "{text}" cannot be read as cron does')
        start, _, end = match[1].partition("-")
        first = 0 if start == "*" else int(start)
        last = int(end) if end else most if start == "*" or match[2] else first
        if not first <= last <= most:
            raise PeriodError(f'{field} "{text}" is out of range, expected 0 to {most}')
        found |= set(range(first, last + 1, int(match[2] or 1) or 1))
    return found


# What is selected.


def _selectors(manifest: Manifest) -> list[dict[str, Any]]:
    """Return what is selected. A name in includeRef narrows its kind only; two names of a kind match nothing."""
    spec = manifest.at("spec") or {}
    kinds = [kind for kind, key, default in _KINDS if spec.get(key, default)]
    kinds += ["CronJob"] if spec.get("suspendCronJobs") else []
    idled = {**dict.fromkeys(kinds, True), **dict(_patches(manifest))}  # of the patches of a kind the last one is made
    kinds = [kind for kind, idles in idled.items() if idles]
    included, excluded = mappings(spec.get("includeRef")), mappings(spec.get("excludeRef"))
    labels: dict[str, str] = {}
    expressions = [
        {"key": key, "operator": operator, "values": [value]}
        for refs, operator in ((included, "In"), (excluded, "NotIn"))
        for ref in refs
        for key, value in (ref.get("matchLabels") or {}).items()
        if operator == "NotIn" or labels.setdefault(key, value) != value
    ]
    by_labels = stated(matchLabels=labels, matchExpressions=expressions)
    names = {
        kind: {str(ref["name"]) for ref in included if ref.get("name") and ref.get("kind") == kind} for kind in kinds
    }
    rest = [kind for kind in kinds if not names[kind]]
    narrowed = [{"kinds": [kind], "include": sorted(names[kind])} for kind in kinds if len(names[kind]) == 1]
    whole = [{"kinds": rest}] if rest or not narrowed else []
    return [{**selector, **by_labels} for selector in (*whole, *narrowed)]


def _excluded_by_kind(manifest: Manifest) -> list[dict[str, Any]]:
    by_kind: dict[str, list[str]] = {}
    for ref in mappings(manifest.at("spec", "excludeRef")):
        if ref.get("name") and ref.get("kind"):
            by_kind.setdefault(str(ref["kind"]), []).append(str(ref["name"]))
    return [{"workloads": {"kinds": [kind], "include": names}} for kind, names in by_kind.items()]


# What is idle: a Secret of each SleepInfo remembers how it was.


class _Spec(Struct, frozen=True):
    replicas: Annotated[int, Meta(ge=0, le=MOST_REPLICAS)] | None = None
    suspend: bool | None = None


class _Patch(Struct):
    spec: _Spec = _Spec()


class _Idled(_Spec, frozen=True, kw_only=True):
    name: str


def asleep_by_kube_green(secret: Mapping[str, str]) -> dict[tuple[str, str, str], int]:
    """Return the replicas that objects had by (group, kind, name), as the Secret of a SleepInfo says; a CronJob has 1.

    What is not in the form of kube-green says nothing.
    """
    if secret.get("operation-type") != "SLEEP":
        return {}
    found: list[tuple[str, str, _Spec]] = []
    for target, of_kind in _decoded(secret.get("original-resource-info", "{}"), dict[str, dict[str, str]], {}).items():
        kind = target.partition(".")[0]
        patches = ((name, _decoded(patch, _Patch, None)) for name, patch in of_kind.items() if kind in _PATCHED)
        found += [(kind, name, patch.spec) for name, patch in patches if patch is not None]
    for key, kind in (("deployment-replicas", "Deployment"), ("cronjobs-info", "CronJob")):
        found += [(kind, one.name, one) for one in _decoded(secret.get(key, "[]"), list[_Idled], [])]
    return {
        (_PATCHED[kind].group, kind, name): 1 if kind == "CronJob" or spec.replicas is None else spec.replicas
        for kind, name, spec in found
        if not (kind == "CronJob" and spec.suspend)
    }


def _decoded(text: str, shape: Any, otherwise: Any) -> Any:
    """Return what `text` says as a `shape`, `otherwise` where it is none."""
    try:
        return decode(text, type=shape)
    except (DecodeError, RecursionError):
        return otherwise
