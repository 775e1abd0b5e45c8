"""kube-downscaler, py-kube-downscaler and GoKubeDownscaler: annotations and flags -> IdlingPolicies.

Source: py-kube-downscaler, kube_downscaler/scaler.py, autoscale_resource; GoKubeDownscaler,
internal/pkg/values/scope.go.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, ValidationError, convert

from reconciler.importing.downscaler_flags import controller_of
from reconciler.importing.manifests import Imported, Loss, Manifest, policy_name, stated
from reconciler.importing.periods import (
    WORDS,
    Criterion,
    Dialect,
    PeriodError,
    Periods,
    all_of,
    any_of,
    during,
    min_awake,
    outside,
    paired,
    parse_periods,
)
from reconciler.policy.kinds.fields import MOST_DURATION, Labels, parse_duration, spelt_duration
from reconciler.untrusted_text import MOST_REPLICAS, whole_number_in

_PREFIX = "downscaler/"
_EXCLUDE = f"{_PREFIX}exclude"

_KINDS = {
    "cronjobs": "CronJob",
    "deployments": "Deployment",
    "kafkabridges": "KafkaBridge",
    "kafkaconnects": "KafkaConnect",
    "kafkamirrormaker2s": "KafkaMirrorMaker2",
    "rollouts": "Rollout",
    "scaledobjects": "ScaledObject",
    "stacks": "Stack",
    "statefulsets": "StatefulSet",
}
_NOT_SCALED = {
    "daemonsets": "need spec.switches of the Fleet",
    "horizontalpodautoscalers": "autoscalers are idled with their targets, or their minimum lowered; "
    "see autoscalers.hpa",
    "jobs": "need spec.switches of the Fleet",
    "poddisruptionbudgets": "are not scaled here",
    "postgresqls": "need spec.switches of the Fleet",
}
"""What becomes of other kinds that are annotated, or named in a flag."""
_PERIODS = ("upscale-period", "downscale-period")
_TIMES = {**dict.fromkeys(_PERIODS, "never"), "uptime": "always", "downtime": "never"}
_FORCED = ("force-uptime", "force-downtime")
_REPLICAS = ("downtime-replicas", "downscale-replicas")
_SETTINGS = (*_TIMES, *_FORCED, *_REPLICAS, "grace-period")
_WITHOUT_COUNTERPART = {
    "scale-children": "has no counterpart: a policy selects each kind that it scales",
    "upscale-excluded": "has no counterpart: what is excluded is woken",
}
_FLAGS_WITHOUT_COUNTERPART = {
    "admission-controller": "has no counterpart: Jobs are not refused at admission",
    "deployment-time-annotation": "has no counterpart; let what deploys write reconciler/exclude-until",
    "upscale-target-only": "has no counterpart: what no policy selects any more is woken",
}
_WIDER = "the policies would select more, so they only observe; select what is meant, and take mode out"
_OBSERVED = {"dry-run": "the policies only observe, too; take mode out to scale", "explicit-include": _WIDER}
_LITERAL = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)


class _Setting(Struct, frozen=True):
    """What one object is told. `criterion` None: it is never scaled down. `wakes`: also up, by the same."""

    criterion: Criterion | None
    wakes: bool
    replicas: int = 0
    min_age: str = "15m"

    @property
    def key(self) -> str:
        return json.dumps([self.criterion, self.wakes, self.replicas, self.min_age], sort_keys=True)


class _Selection(Struct, frozen=True):
    """What a policy selects; `workloads` None: all of the kinds that the tool scales."""

    priority: int
    namespaces: Mapping[str, Any]
    left_out: Sequence[Mapping[str, Any]] = ()
    workloads: Mapping[str, Any] | None = None


Scope = Mapping[str, str]
"""What a workload, its Namespace or the flags say, by the name of the annotation without its prefix."""


def import_downscaler(manifests: Iterable[Manifest], *, go: bool) -> Imported:
    """Return the policies that do what the tool does by the annotations and flags in `manifests`."""
    return _DownscalerImport(list(manifests), go).imported()


class _DownscalerImport:
    def __init__(self, manifests: Sequence[Manifest], go: bool) -> None:
        self._go = go
        self._gathering = Imported()
        controller = self._controller = controller_of(manifests, go)
        self._dialect = Dialect(go, controller.flag("default-timezone"), controller.flag("default-weekframe"))
        self._namespaces = {manifest.name: manifest for manifest in manifests if manifest.kind == "Namespace"}
        self._workloads = [one for one in manifests if one.kind in _KINDS.values() and not one.owned]
        self._others = [one for one in manifests if f"{one.kind.lower()}s" in _NOT_SCALED and not one.owned]
        self._narrowed = self._scope()
        self._excluded = self._patterns("exclude-namespaces")
        self._excluded_names = self._patterns("exclude-deployments")
        self._kinds = self._included_kinds()

    def imported(self) -> Imported:
        for manifest in (*self._namespaces.values(), *self._workloads):
            self._check_annotations(manifest)
        self._lose_others()
        left_out: list[Mapping[str, Any]] = []
        if not self._kinds:
            return self._gathering  # nothing that it scales is scaled here
        of_workloads = self._of_workloads(left_out)
        of_namespaces = self._of_namespaces(left_out)
        self._default(left_out)
        for names, setting in of_namespaces:
            name = names[0] if len(names) == 1 else f"{names[0]}-and-{len(names) - 1}-more"
            inside = [one for one in left_out if "workloads" in one and one["namespaces"]["include"][0] in names]
            self._add(name, setting, _Selection(10, {"include": names}, inside))
        for (namespace, kind, objects), setting in of_workloads:
            selector = {"kinds": [kind], "include": objects}
            self._add(f"{namespace}-{objects[0]}", setting, _Selection(20, {"include": [namespace]}, (), selector))
        return self._gathering

    def _add(self, name: str, setting: _Setting, selection: _Selection) -> None:
        criterion = setting.criterion
        assert criterion is not None
        labels = {key: value for key, value in self._narrowed.items() if key == "matchLabels"}
        workloads = {**labels, **(selection.workloads or {"kinds": self._kinds, **self._narrowed})}
        spec = stated(
            mode="Observe" if self._observed else "",
            priority=selection.priority,
            selector={"namespaces": selection.namespaces, "workloads": workloads},
            exclude=[*selection.left_out],
            idleWhen=criterion.get("allOf", [criterion]),
            minAge=setting.min_age,
            idleReplicas=setting.replicas,
            **(min_awake(criterion) if setting.wakes else {"wake": "OnSignal"}),
        )
        self._gathering.add("IdlingPolicy", policy_name(name), spec, self._observed)

    # What the tool looks at: kinds, namespaces and names, from its flags.

    def _included_kinds(self) -> list[str]:
        controller = self._controller
        if controller.manifest is None:
            scaled = {one.kind for one in self._workloads if f"{_PREFIX}original-replicas" in one.annotations}
            annotated = {one.kind for one in self._workloads if self._scope_of(one.annotations)}
            return sorted({"Deployment", *annotated, *scaled})
        kinds = []
        for plural in controller.listed("include-resources"):
            if plural in _KINDS:
                kinds.append(_KINDS[plural])
            else:
                words = _NOT_SCALED.get(plural, "are not scaled here")
                self._lose_flag("include-resources", f"{plural}: {words}")
        return sorted(kinds)

    def _scope(self) -> dict[str, Any]:
        """Return how policies narrow their workloads."""
        controller = self._controller
        self._observed: list[Loss] = []
        for flag, words in {**_WITHOUT_COUNTERPART, **_FLAGS_WITHOUT_COUNTERPART}.items():
            if controller.is_set(flag):
                self._lose_flag(flag, words)
        for flag, words in _OBSERVED.items():
            if controller.is_set(flag):
                self._observed.append(self._lose_flag(flag, words))
        narrowed: dict[str, Any] = {}
        labels = controller.listed("matching-labels")
        if len(labels) == 1 and (label := _label_in(labels[0])):
            narrowed["matchLabels"] = label
        elif labels:
            self._observed.append(self._lose_flag("matching-labels", f'"{",".join(labels)}": {_WIDER}'))
        names = self._globs("exclude-deployments")
        if names:
            narrowed["exclude"] = names
        return narrowed

    def _patterns(self, flag: str) -> list[re.Pattern[str]]:
        found = []
        for name in self._controller.listed(flag):
            try:
                with warnings.catch_warnings(action="ignore"):  # what a later Python may read otherwise
                    found.append(re.compile(name))
            except re.error as error:
                self._lose_flag(flag, f'"{name}" is no regular expression: {error}')
        return found

    def _globs(self, flag: str) -> list[str]:
        """Return the values of a flag as patterns of names; a regular expression that is none is lost."""
        globs = []
        for name in self._controller.listed(flag):
            glob = name.strip("^$").replace(".*", "*").replace(".", "?")
            if self._go:  # there a pattern is looked for anywhere in the name
                glob = re.sub(r"\*+", "*", "*" * (name[:1] != "^") + glob + "*" * (name[-1:] != "$"))
            if _LITERAL.fullmatch(re.sub(r"[*?]", "x", glob)):
                globs.append(glob)
            else:
                self._observed.append(self._lose_flag(flag, f'"{name}" is no pattern of names: {_WIDER}'))
        return globs

    def _lose_others(self) -> None:
        """Note the annotated objects of kinds that no policy is made of, where the tool scales them."""
        controller = self._controller
        for one in self._others:
            plural = f"{one.kind.lower()}s"
            scaled = controller.manifest is None or plural in controller.listed("include-resources")
            if scaled and self._scope_of(one.annotations) and not self._is_excluded(one.namespace):
                self._gathering.lose(one, "annotations", f"{plural}: {_NOT_SCALED[plural]}")

    def _lose_flag(self, flag: str, words: str) -> Loss:
        assert self._controller.manifest is not None
        return self._gathering.lose(self._controller.manifest, f"--{flag}", words)

    def _is_excluded(self, namespace: str) -> bool:
        only = self._controller.listed("namespace")
        return self._matches(self._excluded, namespace) or bool(only and namespace not in only)

    def _matches(self, patterns: Iterable[re.Pattern[str]], name: str) -> bool:
        match = re.Pattern.search if self._go else re.Pattern.fullmatch
        return any(match(pattern, name) for pattern in patterns)

    # Three levels: what the flags say of everything, a Namespace of what is in it, a workload of itself.

    def _default(self, left_out: Sequence[Mapping[str, Any]]) -> None:
        controller = self._controller
        if controller.manifest is None:
            return
        setting = self._setting(controller.manifest, self._flags)
        if setting is None or setting.criterion is None:
            return
        namespaces: dict[str, Any] = {}
        if controller.listed("namespace"):
            namespaces["include"] = list(filter(_LITERAL.fullmatch, controller.listed("namespace")))
            if namespaces["include"] != controller.listed("namespace"):
                self._lose_flag("namespace", f'"{controller.flag("namespace")}" has what is no name of a Namespace')
            if not namespaces["include"]:
                return
        excluded = self._globs("exclude-namespaces")
        if excluded:
            namespaces["exclude"] = excluded
        self._add("default", setting, _Selection(0, namespaces, left_out))

    def _of_namespaces(self, left_out: list[Mapping[str, Any]]) -> list[tuple[list[str], _Setting]]:
        found: dict[str, tuple[list[str], _Setting]] = {}
        for manifest in self._namespaces.values():
            scope = self._scope_of(manifest.annotations)
            if not scope or self._is_excluded(manifest.name):
                continue
            setting = self._setting(manifest, [scope, *self._flags])
            if setting is None or setting.criterion is None:
                left_out.append({"namespaces": {"include": [manifest.name]}})
            else:
                found.setdefault(setting.key, ([], setting))[0].append(manifest.name)
        return list(found.values())

    def _of_workloads(self, left_out: list[Mapping[str, Any]]) -> list[tuple[tuple[str, str, list[str]], _Setting]]:
        found: dict[tuple[str, str, str], tuple[tuple[str, str, list[str]], _Setting]] = {}
        for manifest in self._workloads:
            scope = self._scope_of(manifest.annotations)
            if not scope or self._is_excluded(manifest.namespace) or manifest.kind not in self._kinds:
                continue
            if self._matches(self._excluded_names, manifest.name):
                continue
            space = self._namespaces.get(manifest.namespace)
            self._gathering.lose_namespace(manifest)
            setting = self._setting(manifest, [scope, self._scope_of(space.annotations) if space else {}, *self._flags])
            if setting is None or setting.criterion is None:
                workloads = {"kinds": [manifest.kind], "include": [manifest.name]}
                left_out.append({"namespaces": {"include": [manifest.namespace]}, "workloads": workloads})
                continue
            key = (manifest.namespace, manifest.kind, setting.key)
            found.setdefault(key, ((manifest.namespace, manifest.kind, []), setting))[0][2].append(manifest.name)
        return list(found.values())

    @property
    def _flags(self) -> list[Scope]:
        names = {"uptime": "default-uptime", "downtime": "default-downtime"}
        return [
            {key: flags[name] for key in _SETTINGS if (name := names.get(key, key)) in flags}
            for flags in self._controller.scopes
        ]

    # One object: what its scopes say, the closest first.

    def _setting(self, manifest: Manifest, scopes: Sequence[Scope]) -> _Setting | None:
        """Return what `scopes` say together, None where that cannot be carried over; it is left out then."""
        try:
            criterion, wakes = self._criterion(scopes)
            unforced = [{key: text for key, text in scope.items() if key != "force-uptime"} for scope in scopes]
            if criterion is None and unforced[0] != scopes[0] and self._criterion(unforced)[0] is not None:
                words = "keeps it up, so its hours are left out; annotate it with reconciler/exclude and take this off"
                self._gathering.lose(manifest, f"{_PREFIX}force-uptime", words)
            return _Setting(criterion, wakes, self._replicas(scopes), self._grace_period(scopes))
        except PeriodError as error:
            field = "flags" if manifest is self._controller.manifest else "annotations"
            self._gathering.lose(manifest, field, f"{error}; it is left out")
            return None

    def _criterion(self, scopes: Sequence[Scope]) -> tuple[Criterion | None, bool]:
        merged: Scope = {key: value for scope in reversed(scopes) for key, value in scope.items()}
        forced: Scope = merged
        if self._go:  # there the closest scope that says any of them decides alone
            for scope in scopes:
                self._check(scope)
            merged, forced = _closest(scopes, _TIMES), _closest(scopes, _FORCED)
        elif len(scopes) == 3:
            forced = scopes[1]  # read on Namespaces only
        idle, wakes = self._times(merged)
        idle = any_of([during(self._forced(forced, "force-downtime")), idle])
        up = self._forced(forced, "force-uptime")
        if up.windows and not wakes:
            raise PeriodError("force-uptime wakes, expected an upscale-period too, without which only requests wake")
        return idle if up.never else all_of([outside(up), idle]), wakes

    def _check(self, scope: Scope) -> None:
        for key in (*_TIMES, *_FORCED):
            parse_periods(scope.get(key, "never"), self._dialect)
        if len({"uptime", "downtime"} & scope.keys()) + any(key in scope for key in _PERIODS) > 1:
            raise PeriodError("uptime, downtime, and periods to scale in exclude each other")

    def _forced(self, scope: Scope, key: str) -> Periods:
        text = scope.get(key, "never")
        return parse_periods(WORDS.get(text.lower(), text), self._dialect)

    def _times(self, merged: Scope) -> tuple[Criterion | None, bool]:
        up, down, uptime, downtime = (
            parse_periods(merged.get(key, otherwise), self._dialect) for key, otherwise in _TIMES.items()
        )
        if all(merged.get(key, "never") == "never" for key in _PERIODS):
            return any_of([during(downtime), outside(uptime)]), True
        return paired(up, down)

    def _replicas(self, scopes: Sequence[Scope]) -> int:
        text = next((scope[key] for scope in scopes for key in _REPLICAS if key in scope), "0")
        number = whole_number_in(text if self._go else text.strip())
        if number is None or number > MOST_REPLICAS:
            raise PeriodError(f'downtime-replicas "{text}" is no number of replicas')
        return number

    def _grace_period(self, scopes: Sequence[Scope]) -> str:
        said = [scope["grace-period"] for scope in scopes if "grace-period" in scope]
        text = said[0] if said else "900"
        if not self._go:  # there a workload only shortens what the flags say, and a Namespace says nothing of it
            text, own = (scopes[at].get("grace-period", none).strip() for at, none in ((-1, "900"), (0, "")))
            shorter, seconds = whole_number_in(own), whole_number_in(text)
            if len(scopes) == 3 and shorter and seconds is not None and shorter < seconds:
                text = own
        seconds = whole_number_in(text)
        if seconds is not None:
            minutes, rest = divmod(seconds, 60)
            text = f"{minutes}m" if minutes and not rest else f"{seconds}s"
        if parse_duration(text) is None:
            raise PeriodError(f'grace-period "{text}" is no duration of at most {spelt_duration(MOST_DURATION)}')
        return text

    def _scope_of(self, annotations: Mapping[str, str]) -> Scope:
        foreign = "downtime-replicas" if self._go else "downscale-replicas"  # an annotation of the other tool alone
        known = (key for key in _SETTINGS if key != foreign)
        return {key: annotations[_PREFIX + key] for key in known if _PREFIX + key in annotations}

    def _check_annotations(self, manifest: Manifest) -> None:
        for key, value in manifest.annotations.items():
            name = key.removeprefix(_PREFIX)
            if key.startswith(_PREFIX) and name in _WITHOUT_COUNTERPART:
                self._gathering.lose(manifest, key, _WITHOUT_COUNTERPART[name])
            if self._go and key == _EXCLUDE:
                around = self._namespaces.get(manifest.namespace, manifest).annotations.get(key, "false")
                if value.lower() not in ("true", "false", "always"):
                    self._gathering.lose(manifest, key, "is read as a whole: it is excluded at all times")
                elif value.lower() == "false" != around.lower():
                    self._gathering.lose(manifest, key, "has no counterpart: its Namespace is excluded as a whole")


def _label_in(text: str) -> Mapping[str, str]:
    """Return the label that `text` stands for, none where it is a regular expression."""
    key, _, value = text.partition("=")
    try:
        return convert({key: value}, Labels) if value else {}
    except ValidationError:
        return {}


def _closest(scopes: Sequence[Scope], keys: Iterable[str]) -> Mapping[str, str]:
    return next((scope for scope in scopes if any(key in scope for key in keys)), {})


def replicas_before_downscaler(text: str) -> int | None:
    """Return how many replicas the tool says that something had, None where that is no number.

    A CronJob had 1 where it was not suspended.
    """
    return {"false": 1, "true": 0}.get(text, whole_number_in(text))
