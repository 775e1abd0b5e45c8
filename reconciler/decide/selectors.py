"""Which objects a policy selects or names, and what opts out of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Generic, TypeVar

from msgspec.structs import replace

from reconciler.decide.annotations import Key, parse_kube_downscaler_time, parse_time
from reconciler.decide.change_codes import ChangeIfCode, Fact, after, change_if, fact, field_is
from reconciler.decide.decisions import Notice
from reconciler.decide.reasons import Reason, ReasonCode, reason
from reconciler.messages import first_of
from reconciler.model import ObjectRef, ObservedCluster, Service, Workload
from reconciler.policy.globs import is_pattern
from reconciler.policy.types import (
    DownscalePolicy,
    FederatedReplicaSet,
    FleetCluster,
    IdlingPolicy,
    ObjectSelector,
    Selector,
    WorkloadSelector,
)
from reconciler.workload_kinds import SCALABLE_KINDS

Ranked = TypeVar("Ranked", bound=IdlingPolicy | DownscalePolicy)
Chosen = TypeVar("Chosen")


def selects_kind(selector: WorkloadSelector, workload: Workload) -> bool:
    """Return whether `workload` is of a kind that is selected; one owned by another controller never is.

    Custom kinds are selected by name only: what a scale means there, Prometheus shards for instance, nobody knows.
    """
    ref = workload.ref
    named = names_kind(selector, ref.kind, ref.group) if selector.kinds else (ref.group, ref.kind) in SCALABLE_KINDS
    return named and workload.owner is None  # the ReplicaSet of a Deployment has its labels


def names_kind(selector: WorkloadSelector | None, kind: str, group: str = "") -> bool:
    """Return whether `selector` has `kind` among its kinds, alone or with its group as kubectl writes it."""
    return selector is not None and _is_among(selector.kinds, kind, group)


@lru_cache(1024)
def _is_among(kinds: tuple[str, ...], kind: str, group: str) -> bool:
    return not {kind.lower(), f"{kind}.{group}".lower()}.isdisjoint(named.lower() for named in kinds)


class SelectorIndex(Generic[Chosen]):
    """Many selectors, each with what it is of. Finds those that match an object without asking all of them.

    So the time that a plan takes grows with its policies and with its objects, not with their product.
    """

    def __init__(self, entries: Iterable[tuple[ObjectSelector, Chosen]]) -> None:
        self._entries = tuple(entries)
        self._everything: list[int] = []
        self._by_name: dict[str, list[int]] = {}
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []
        used = Counter(pair for selector, _ in self._entries for pair in selector.labels.match_labels)
        for position, (selector, _) in enumerate(self._entries):
            if selector == _EVERYTHING:
                self._everything.append(position)
            elif not any(map(is_pattern, selector.include)):
                for name in dict.fromkeys(selector.include):
                    self._by_name.setdefault(name, []).append(position)
            elif selector.labels.match_labels:
                rarest = min(selector.labels.match_labels, key=used.__getitem__)
                self._by_label.setdefault(rarest, []).append(position)
            else:
                self._others.append(position)
        self._always = [self._entries[position][1] for position in self._everything]

    def matching(self, name: str, labels: Mapping[str, str]) -> list[Chosen]:
        """Return what selects an object called `name` that has `labels`, in the order of the entries; it is shared."""
        asked = [*self._others, *self._by_name.get(name, ())]
        if self._by_label:
            for pair in labels.items():
                asked += self._by_label.get(pair, ())
        if not asked:
            return self._always
        found = [position for position in asked if self._entries[position][0].matches(name, labels)]
        return [self._entries[position][1] for position in sorted([*self._everything, *found])]


_EVERYTHING = ObjectSelector()


class SelectingPolicies(Generic[Ranked]):
    """Policies of one kind, to be found by what they select on a cluster, and by what they exclude there, whether they
    select it or not.

    `reaching` are those that may select anything there.
    """

    def __init__(self, policies: Iterable[Ranked], fleet_cluster: FleetCluster, cluster: ObservedCluster) -> None:
        self.reaching: tuple[Ranked, ...] = tuple(
            policy for policy in policies if policy.selector.selects_cluster(fleet_cluster)
        )
        self._by_namespace: SelectorIndex[Ranked] = SelectorIndex(
            (policy.selector.namespaces, policy) for policy in self.reaching
        )
        self._excluding: SelectorIndex[tuple[Selector, tuple[Ranked, str]]] = SelectorIndex(
            (selector.namespaces, (_whole(selector), (policy, f"exclude[{position}]")))
            for policy in self.reaching
            for position, selector in enumerate(policy.exclude)
            if selector.selects_cluster(fleet_cluster)
        )
        self._excluded: dict[str, _InNamespace[tuple[Ranked, str]]] = {}
        self._labels = namespace_labels(cluster)
        self._inside: dict[str, _InNamespace[Ranked]] = {}
        self._shared: dict[tuple[str, ...], _InNamespace[Ranked]] = {}

    def on_service(self, service: Service) -> list[Ranked]:
        """Return those that select `service`."""
        return self._in(service.ref.namespace).services.matching(service.ref.name, service.labels)

    def on_workload(self, workload: Workload) -> list[Ranked]:
        """Return those that select `workload` itself."""
        found = self._in(workload.ref.namespace).workloads.matching(workload.ref.name, workload.labels)
        return [policy for selector, policy in found if selects_kind(selector, workload)]

    def excluding(self, found: Workload | Service) -> list[tuple[Ranked, str]]:
        """Return those that exclude a workload or a Service by itself, with the field that does, "exclude[0]"; one with
        several such fields comes once for each.

        A workload behind an excluded Service is excluded with it, which is for the caller to know. Custom kinds need
        not be named to be excluded.
        """
        ref = found.ref
        if ref.namespace not in self._excluded:
            inside = self._excluding.matching(ref.namespace, self._labels.get(ref.namespace, {}))
            self._excluded[ref.namespace] = _InNamespace(inside)
        excluded = self._excluded[ref.namespace]
        if isinstance(found, Service):
            return excluded.services.matching(ref.name, found.labels)
        workloads = excluded.workloads.matching(ref.name, found.labels)
        return [by for selector, by in workloads if not selector.kinds or names_kind(selector, ref.kind, ref.group)]

    def _in(self, namespace: str) -> _InNamespace[Ranked]:
        """Return the policies of `namespace`; namespaces that the same policies select share them."""
        if namespace not in self._inside:
            policies = self._by_namespace.matching(namespace, self._labels.get(namespace, {}))
            names = tuple(policy.name for policy in policies)
            if names not in self._shared:
                self._shared[names] = _InNamespace((policy.selector, policy) for policy in policies)
            self._inside[namespace] = self._shared[names]
        return self._inside[namespace]


def _whole(selector: Selector) -> Selector:
    """Return an exclusion where both are stated: neither means everything."""
    if selector.services is None and selector.workloads is None:
        return replace(selector, services=_EVERYTHING, workloads=WorkloadSelector())
    return selector


class _InNamespace(Generic[Chosen]):
    """What selectors select in one namespace, by itself."""

    def __init__(self, selectors: Iterable[tuple[Selector, Chosen]]) -> None:
        found = list(selectors)
        self.services: SelectorIndex[Chosen] = SelectorIndex(
            (selector.services, chosen) for selector, chosen in found if selector.services is not None
        )
        self.workloads: SelectorIndex[tuple[WorkloadSelector, Chosen]] = SelectorIndex(
            (selector.workloads.objects, (selector.workloads, chosen))
            for selector, chosen in found
            if selector.workloads is not None
        )


def of_highest_priority(policies: Sequence[Ranked]) -> list[Ranked]:
    """Return those of the highest rank: one, unless priorities are equal; none of none."""
    if len(policies) < 2:
        return list(policies)
    highest = max(policy.rank for policy in policies)
    return [policy for policy in policies if policy.rank == highest]


def equal_priorities(found: Iterable[tuple[Sequence[str], ObjectRef]], undone: str) -> Iterator[Notice]:
    """Yield one notice for each set of policies that select the same objects with equal priority.

    `found` are the policies and each object, () for no policies; none of the objects is `undone`.
    """
    together: dict[tuple[str, ...], set[ObjectRef]] = {}
    for policies, ref in found:
        if policies:
            together.setdefault(tuple(policies), set()).add(ref)
    for names, refs in sorted(together.items()):
        subject, shown = " and ".join(names), first_of([str(ref) for ref in sorted(refs)], 3)
        text = f"{subject} have the same priority, so what they select together is not {undone}: {shown}"
        yield Notice("equalPriorities", subject, f"{text}; give one of them another priority", names[0])


def namespace_labels(cluster: ObservedCluster) -> dict[str, Mapping[str, str]]:
    """Return the labels of each namespace that was read, by name."""
    return {namespace.ref.name: namespace.labels for namespace in cluster.namespaces}


def namespace_annotations(cluster: ObservedCluster) -> dict[str, Mapping[str, str]]:
    """Return the annotations of each namespace that was read, by name."""
    return {namespace.ref.name: namespace.annotations for namespace in cluster.namespaces}


class Exclusion(Fact, frozen=True):
    """An opt-out that holds now, for one reason. `unreadable`: its value cannot be read. `on`: what has it."""

    unreadable: bool = False
    on: str = ""


OPT_OUTS = frozenset({Key.EXCLUDE, Key.EXCLUDE_UNTIL, Key.DOWNSCALER_EXCLUDE, Key.DOWNSCALER_EXCLUDE_UNTIL})
"""The annotations that `exclusions` looks at."""


def exclusions(annotations: Mapping[str, str], now: datetime, *, kube_downscaler: bool = False) -> Iterator[Exclusion]:
    """Yield the opt-outs that `annotations` state and that are not over; of several the first is the reason.

    A value that cannot be read counts as excluded. With `kube_downscaler` the annotations of kube-downscaler count
    too: any value of its flag but "false" is an opt-out.

    Source: kube-downscaler kube_downscaler/scaler.py, ignore_resource.
    """
    flag = annotations.get(Key.EXCLUDE, "false")
    if flag != "false":
        yield _excluded(Key.EXCLUDE, flag, is_readable=flag == "true")
    if Key.EXCLUDE_UNTIL in annotations:
        until = annotations[Key.EXCLUDE_UNTIL]
        yield from _excluded_until(Key.EXCLUDE_UNTIL, until, parse_time(until), now)
    if not kube_downscaler:
        return
    flag = annotations.get(Key.DOWNSCALER_EXCLUDE, "false")
    if flag.lower() != "false":
        yield _excluded(Key.DOWNSCALER_EXCLUDE, flag)
    if annotations.get(Key.DOWNSCALER_EXCLUDE_UNTIL):
        until = annotations[Key.DOWNSCALER_EXCLUDE_UNTIL]
        yield from _excluded_until(Key.DOWNSCALER_EXCLUDE_UNTIL, until, parse_kube_downscaler_time(until), now)


def _excluded(annotation: str, value: str, *, is_readable: bool = True) -> Exclusion:
    why = reason(ReasonCode.ANNOTATION_SET, annotation=annotation, value=value)
    if not is_readable:
        why = _unreadable(annotation, value, '"true" or "false"')
    gone = change_if(ChangeIfCode.ANNOTATION_REMOVED, annotation=annotation)
    return Exclusion((why,), gone, unreadable=not is_readable)


def _excluded_until(annotation: str, value: str, at: datetime | None, now: datetime) -> Iterator[Exclusion]:
    """Yield the opt-out until `at`, where that has not passed; `at` None: `value` cannot be read."""
    if at is None:
        why = _unreadable(annotation, value, "a time as in RFC 3339")
        yield Exclusion((why,), change_if(ChangeIfCode.TIME_READABLE), unreadable=True)
    elif now < at:
        why = reason(ReasonCode.ANNOTATION_UNTIL, annotation=annotation, value=value)
        yield Exclusion((why,), after(at, annotation))


def _unreadable(annotation: str, value: str, expected: str) -> Reason:
    return reason(ReasonCode.ANNOTATION_UNREADABLE, annotation=annotation, value=value, expected=expected)


# Production, which a policy leaves as it is unless it says `production: true`.


def left_out(what: str, policies: Sequence[str], called: Sequence[str] = ()) -> Fact:
    """Return that `what` is production, which `policies` leave as it is until they say so; they are `called` so."""
    lift = field_is("production", f"true in {' and '.join(called or policies)}")
    return fact(ReasonCode.PRODUCTION, lift, what=what, policies=sorted(policies))


# Federated ReplicaSets name their local workloads.

LocalKey = tuple[str, str, str]
"""(namespace, kind, name) of the local workload of a federated ReplicaSet, the same in every cluster."""


def local_key(federated: FederatedReplicaSet) -> LocalKey:
    """Return the key of the local workloads of `federated`."""
    if federated.target is not None:
        return (federated.namespace, federated.target.kind, federated.target.name)
    return (federated.namespace, "ReplicaSet", federated.name)


def federated_by_local_key(federated: Iterable[FederatedReplicaSet]) -> dict[LocalKey, FederatedReplicaSet]:
    """Return the federated ReplicaSets by the key of their local workloads."""
    return {local_key(policy): policy for policy in federated}


def key_of(ref: ObjectRef) -> LocalKey:
    """Return the local key of an object."""
    return (ref.namespace, ref.kind, ref.name)


def local_ref(federated: FederatedReplicaSet, cluster: str) -> ObjectRef:
    """Return the name of the local workload of `federated` on `cluster`."""
    namespace, kind, name = local_key(federated)
    group = "apps" if federated.target is None else federated.target.api_version.rpartition("/")[0]
    return ObjectRef(cluster, namespace, kind, name, group)
