"""A world of objects that keeps what idling writes into it, with autoscalers and other writers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import Any

from msgspec.structs import replace

from reconciler.decide.decisions import Decision, FieldChange, Verb
from reconciler.labels import LabelSelector
from reconciler.model import (
    ConfigMap,
    Endpoints,
    EndpointSlice,
    Event,
    FieldWriter,
    HorizontalPodAutoscaler,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    OwnerReference,
    Pod,
    QueryAnswer,
    QueryKey,
    Service,
    Workload,
)
from reconciler.plan.order import in_order
from tests.builders import a_namespace, a_workload

OURS = "reconciler"
IDLED_AT = "idling.kubernetes.io/idled-at"


class Stale(Exception):
    """The object is not what the plan saw."""


@dataclass
class World:
    """Objects by name. `idled` are those that were idled, in order, each with the replicas that it had."""

    now: datetime
    objects: dict[ObjectRef, Any] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)
    answers: dict[QueryKey, QueryAnswer] = field(default_factory=dict)
    unreachable: set[str] = field(default_factory=set)
    copies: dict[ObjectRef, list[dict[str, str]]] = field(default_factory=dict)  # on ReplicaSets, the newest last
    idled: list[tuple[ObjectRef, int]] = field(default_factory=list)
    writes: int = 0

    def add(self, *objects: Any) -> World:
        self.objects.update({found.ref: found for found in objects})
        return self

    def of(self, kind: type, cluster: str) -> tuple[Any, ...]:
        refs = sorted(ref for ref, found in self.objects.items() if isinstance(found, kind) and ref.cluster == cluster)
        return tuple(self.objects[ref] for ref in refs)

    def state(self) -> ObservedState:
        """What an observation of the world gives."""
        clusters = sorted({ref.cluster for ref in self.objects})
        return ObservedState(
            clusters={name: self._cluster(name) for name in clusters if name not in self.unreachable},
            unreachable={name: "no answer" for name in clusters if name in self.unreachable},
            answers=dict(self.answers),
        )

    def _cluster(self, name: str) -> ObservedCluster:
        spaces = sorted({ref.namespace for ref in self.objects if ref.cluster == name})
        return ObservedCluster(
            name=name,
            identity=f"identity-{name}",
            namespaces=tuple(
                self.objects.get(ObjectRef(name, "", "Namespace", space), a_namespace(space, cluster=name))
                for space in spaces
                if space
            ),
            workloads=(*self.of(Workload, name), *self._replica_sets(name)),
            services=self.of(Service, name),
            endpoints=self.of(Endpoints, name),
            endpoint_slices=tuple(_slice(service, pods) for service, pods in self._pods(name).items()),
            pods=self._pods(name),
            autoscalers=self.of(HorizontalPodAutoscaler, name),
            config_maps=self.of(ConfigMap, name),
            events=tuple(self.events.get(name, ())),
        )

    def targets(self, service: Service) -> list[ObjectRef]:
        """The workloads behind a Service: those whose pods it selects, whatever the labels of their templates are."""
        found = self.of(Workload, service.ref.cluster)
        return sorted(one.ref for one in found if service.selector.items() <= one.template_labels.items())

    def _pods(self, cluster: str) -> dict[ObjectRef, tuple[Pod, ...]]:
        """The pods behind each Service: one of each workload that runs."""
        return {
            service.ref: tuple(
                _pod(self.objects[ref]) for ref in self.targets(service) if self.objects[ref].spec_replicas
            )
            for service in self.of(Service, cluster)
        }

    def _replica_sets(self, cluster: str) -> Iterator[Workload]:
        """The ReplicaSets of Deployments that we wrote to; the newest has the pods."""
        for ref, copies in self.copies.items():
            if ref.cluster != cluster or ref not in self.objects:
                continue
            top = self.objects[ref]
            for place, copied in enumerate(copies):
                replicas = top.spec_replicas if place == len(copies) - 1 else 0
                yield a_workload(
                    f"{ref.name}-{place}", kind="ReplicaSet", cluster=cluster, namespace=ref.namespace,
                    replicas=replicas, annotations=copied, template_labels=top.template_labels,
                    owner=OwnerReference("apps/v1", "Deployment", ref.name, top.uid),
                )  # fmt: skip

    def _copy(self, ref: ObjectRef) -> None:
        """The Deployment controller copies annotations to the newest ReplicaSet, and never takes one off there."""
        if ref.kind == "Deployment":
            self.copies.setdefault(ref, [{}])[-1].update(self.objects[ref].annotations)

    # what we write

    def apply(self, decisions: Sequence[Decision], *, crash_after: int | None = None) -> set[str]:
        """Carry out `decisions` one by one, that many at most, and return the keys of those that were applied."""
        applied: set[str] = set()
        keys = {decision.key for decision in decisions}
        for decision in in_order(decisions)[:crash_after]:
            if decision.ref.cluster in self.unreachable:
                continue
            if any(need in keys and need not in applied for need in decision.needs):
                continue
            try:
                self.write(decision)
            except Stale:
                continue
            applied.add(decision.key)
        return applied

    def write(self, decision: Decision) -> None:
        """Carry out one decision, whole or not at all."""
        found = self.objects.get(decision.ref)
        after = after_decision(found, decision, f"uid-made-{self.writes + 1}")
        self.writes += 1
        if after is None:
            del self.objects[decision.ref]
            return
        if found is None:
            self.objects[decision.ref] = after
            return
        if decision.verb is Verb.IDLE and isinstance(found, Workload):
            self.idled.append((decision.ref, self.replicas(decision.ref)))
        self.objects[decision.ref] = self._settled(found, after, FieldWriter(OURS, self.now))
        self._copy(decision.ref)

    def _settled(self, before: Any, after: Any, writer: FieldWriter) -> Any:
        if isinstance(after, HorizontalPodAutoscaler):
            if before.minimum != after.minimum:
                after = replace(after, minimum_writer=writer)
            moved = (before.minimum, before.maximum) != (after.minimum, after.maximum)
            return replace(after, bounds_writer=writer) if moved else after
        if not isinstance(after, Workload):
            return after
        if after.replicas != before.replicas or after.switch != before.switch:
            after = replace(after, replicas_writer=writer)
        return _settle(after) if after.ref.kind not in ("CronJob", "ScaledObject") else after

    # what others do

    def replicas(self, ref: ObjectRef) -> int:
        """Replicas of a scalable; of a ScaledObject those of its target."""
        found = self.objects[ref]
        if found.scale_target is None:
            return int(found.spec_replicas)
        return self.replicas(target_of(found))

    def scale(self, ref: ObjectRef, count: int, by: str = "kubectl", *, timed: bool = False) -> None:
        """Somebody sets the replicas (or the suspension) of a workload."""
        found = self.objects[ref]
        writer = FieldWriter(by, self.now if timed else None, "" if timed else "scale")
        changed = replace(found, replicas=count)
        if found.switch is not None:
            changed = replace(found, switch=replace(found.switch, value=count == 0))
        self.objects[ref] = self._settled(found, changed, writer)

    def put_back(
        self, declared: HorizontalPodAutoscaler, by: str = "argocd-controller", *, whole: bool = False
    ) -> None:
        """Somebody makes an autoscaler what git says: its bounds, `whole` also its annotations; nothing where it is."""
        found = self.objects[declared.ref]
        writer = FieldWriter(by, self.now)
        changed = replace(found, minimum=declared.minimum, maximum=declared.maximum)
        if whole and (found.annotations or changed != found):
            changed = replace(changed, annotations={}, bounds_writer=writer)
        self.objects[declared.ref] = self._settled(found, changed, writer)

    def annotate(self, ref: ObjectRef, key: str, text: str | None) -> None:
        found = self.objects[ref]
        annotations = {**found.annotations, key: text}
        self.objects[ref] = replace(found, annotations={k: v for k, v in annotations.items() if v is not None})
        self._copy(ref)

    def controllers(self) -> None:
        """The autoscalers do their part."""
        for ref in sorted(self.objects):
            hpa = self.objects[ref]
            if isinstance(hpa, HorizontalPodAutoscaler):
                self._autoscale(hpa)
        for ref in sorted(self.objects):
            found = self.objects[ref]
            if isinstance(found, Workload) and found.scale_target is not None:
                self._keda(found)

    def _autoscale(self, hpa: HorizontalPodAutoscaler) -> None:
        """Hold it within its bounds; what it scaled to zero itself it scales up to one, as there is traffic.

        Source: kubernetes pkg/controller/podautoscaler/horizontal.go, reconcileAutoscaler.
        """
        ref = next((r for r in self.objects if _name(r) == _target_name(hpa)), None)
        count = 0 if ref is None else self.objects[ref].spec_replicas
        up = hpa.minimum != 0 or (hpa.behavior.get("scaleUp") or {}).get("selectPolicy") != "Disabled"
        if ref is None or (count == 0 and not (hpa.scaled_to_zero and up)):
            return
        if hpa.scaled_to_zero:
            self.objects[hpa.ref] = replace(hpa, scaled_to_zero=False)
        wanted = min(max(count, hpa.minimum or 1), hpa.maximum)
        if wanted != self.objects[ref].spec_replicas:
            self.scale(ref, wanted, "kube-controller-manager")

    def _keda(self, scaled: Workload) -> None:
        ref = target_of(scaled)
        paused = scaled.annotations.get("autoscaling.keda.sh/paused-replicas")
        if paused is None and scaled.annotations.get("autoscaling.keda.sh/paused") == "true":
            return
        wanted = int(paused) if paused is not None else max(1, self.replicas(ref))
        if wanted != self.replicas(ref):
            self.scale(ref, wanted, "keda-operator")

    def need_pods(self, service: ObjectRef) -> None:
        event = Event("NeedPods", service.namespace, ("Service", service.namespace, service.name), None, self.now)
        self.events.setdefault(service.cluster, []).append(event)


def _pod(owner: Workload) -> Pod:
    name = f"{owner.ref.name}-0"
    return Pod(name, f"uid-{name}", namespace=owner.ref.namespace, cluster=owner.ref.cluster,
               owner_uid=owner.uid, owner_kind=owner.ref.kind, owner_name=owner.ref.name)  # fmt: skip


def _slice(service: ObjectRef, pods: Sequence[Pod]) -> EndpointSlice:
    ref = replace(service, kind="EndpointSlice", group="discovery.k8s.io")
    return EndpointSlice(ref, service.name, tuple((pod.name, pod.uid) for pod in pods))


def _settle(workload: Workload) -> Workload:
    count = workload.spec_replicas
    return replace(
        workload, status_replicas=count, ready_replicas=count, available_replicas=count, updated_replicas=count
    )


def _name(ref: ObjectRef) -> tuple[str, str, str, str]:
    return (ref.cluster, ref.namespace, ref.kind, ref.name)


def target_of(scaled: Workload) -> ObjectRef:
    kind, name = scaled.scale_target or ("", "")
    return ObjectRef(scaled.ref.cluster, scaled.ref.namespace, kind, name, "apps")


def _target_name(hpa: HorizontalPodAutoscaler) -> tuple[str, str, str, str]:
    return (hpa.ref.cluster, hpa.ref.namespace, *hpa.target)


def after_decision(found: Any, decision: Decision, new_uid: str) -> Any:
    """What one decision makes of an object, or of None where nothing is there yet; None where it is deleted.

    Raises:
        Stale: the object is not what the decision rests on.
    """
    if found is None and decision.manifest is not None:
        return _created(decision, new_uid)
    if found is None or found.uid != decision.uid:
        raise Stale(decision.key)
    for change in decision.changes:
        if read_field(found, change.path) != change.before:
            raise Stale(f"{decision.key}: {change.path} is {read_field(found, change.path)}, not {change.before}")
    if decision.verb is Verb.DELETE:
        return None
    return reduce(with_field, decision.changes, found)


def _created(decision: Decision, uid: str) -> Any:
    """The object that a manifest of ours makes: a ConfigMap, or a local ReplicaSet that settles at once."""
    manifest: Any = decision.manifest
    metadata = manifest["metadata"]
    marks = {"labels": dict(metadata.get("labels", {})), "annotations": dict(metadata.get("annotations", {}))}
    if decision.ref.kind == "ConfigMap":
        return ConfigMap(decision.ref, uid, dict(manifest["data"]), **marks)
    spec, ref = manifest["spec"], decision.ref
    return a_workload(
        ref.name, kind=ref.kind, cluster=ref.cluster, namespace=ref.namespace, uid=uid, replicas=spec["replicas"],
        selector=LabelSelector(tuple(spec["selector"]["matchLabels"].items())), template=spec["template"],
        template_labels=spec["template"]["metadata"]["labels"], **marks,
    )  # fmt: skip


def read_field(found: Any, path: tuple[str, ...]) -> Any:
    """What stands at `path` of an object, None where nothing does."""
    if path[:2] == ("spec", "behavior"):
        return reduce(lambda value, key: (value or {}).get(key), path[2:], found.behavior or None)
    attribute, key = _place(path)
    value = getattr(found, attribute)
    if attribute == "switch":
        return value.value
    return value.get(key) if key else value or None if path == ("data",) else value


def with_field(found: Any, change: FieldChange) -> Any:
    """The object after `change`."""
    if change.path[:2] == ("spec", "behavior"):
        *above, last = ("", *change.path[2:])
        whole = {"": copy.deepcopy(dict(found.behavior))}
        inside: dict[str, Any] = reduce(lambda value, key: value[key], above, whole)
        inside[last] = change.after
        return replace(found, behavior=whole[""] or {})
    attribute, key = _place(change.path)
    if attribute == "switch":
        return replace(found, switch=replace(found.switch, value=change.after))
    if not key:
        return replace(found, **{attribute: change.after})
    assert attribute != "data" or found.data, "a key is added to a map that is absent"
    values = {**getattr(found, attribute), key: change.after}
    return replace(found, **{attribute: {key: text for key, text in values.items() if text is not None}})


def _place(path: tuple[str, ...]) -> tuple[str, str]:
    """The attribute that holds what stands at `path`, and the key in it, "" for all of it."""
    if path[0] == "data":
        return "data", "".join(path[1:])
    return (path[1], path[2]) if path[0] == "metadata" else (_ATTRIBUTES[path], "")


_ATTRIBUTES = {
    ("spec", "replicas"): "replicas",
    ("spec", "suspend"): "switch",
    ("spec", "minReplicas"): "minimum",
    ("spec", "maxReplicas"): "maximum",
    ("spec", "template"): "template",
}


def a_world(*objects: Any, now: datetime) -> World:
    """A world with `objects` in it."""
    return World(now).add(*objects)
