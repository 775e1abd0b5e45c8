"""One observed cluster and the policies -> the Services and scalables that idling is about."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Set
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import OUR_ANNOTATIONS, Key, fleet_names
from reconciler.decide.autoscalers import (
    AUTOSCALER_LISTS,
    ClusterAutoscalers,
    PinnedAutoscaler,
    autoscalers_of,
    first_unread,
    pinned_autoscaler,
)
from reconciler.decide.change_codes import ChangeIfCode, Fact, change_if, fact
from reconciler.decide.decisions import Notice
from reconciler.decide.idling.classification import classify
from reconciler.decide.idling.contested import undo_of
from reconciler.decide.idling.criteria import Verdict
from reconciler.decide.idling.records import (
    awake_since,
    is_written_by_us,
    lost_records,
    most_by_owner,
    most_recorded,
    read_record,
)
from reconciler.decide.idling.scale import HpaField, Scale, recorded_field, scale_through
from reconciler.decide.idling.service_records import read_service_record
from reconciler.decide.idling.subjects import ServiceState, Subject, WakeRequest
from reconciler.decide.idling.wake_requests import latest_of, need_pods_requests, wake_request
from reconciler.decide.idling.winning_policies import ClusterVerdicts, without
from reconciler.decide.idling.workloads_behind_service import (
    Inventory,
    discover_targets,
    inventory_of,
    is_owned_by_scalable,
)
from reconciler.decide.protected_namespaces import protection
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.decide.selectors import OPT_OUTS, Exclusion, exclusions, key_of, namespace_annotations, namespace_labels
from reconciler.model import (
    NOTHING,
    Endpoints,
    HorizontalPodAutoscaler,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    Run,
    Service,
    Workload,
)
from reconciler.policy.types import Fleet, FleetCluster, IdlingPolicy

_NEEDED = {
    "namespaces": "Namespaces",
    "services": "Services",
    **AUTOSCALER_LISTS,
}
"""What has to be readable before anything is idled, by its key in `ObservedCluster.unreadable`."""


_INPUT_ANNOTATIONS = (*OUR_ANNOTATIONS, Key.FLUX_RECONCILE, Key.PAUSED)
"""How the annotations begin on which the decision about a workload depends."""


class IdlingInputs(Struct, frozen=True):
    """What is looked at. `policies` None: they cannot be read, so nothing is known of what they want.

    `named` says which objects somebody asks about: such a Service counts though nothing is on it and no policy selects
    it.
    """

    fleet: Fleet
    state: ObservedState
    run: Run
    policies: tuple[IdlingPolicy, ...] | None = ()
    named: Callable[[ObjectRef], bool] = lambda _ref: False


class IdlingCluster(Struct, frozen=True):
    """What idling is about on one cluster."""

    inventory: Inventory
    services: tuple[ServiceState, ...]
    subjects: tuple[Subject, ...]
    abandoned: tuple[PinnedAutoscaler, ...] = ()  # held idle for a workload that is gone
    problems: tuple[Notice, ...] = ()  # of whole queries

    @property
    def name(self) -> str:
        return self.inventory.cluster.name


def idling_clusters(inputs: IdlingInputs) -> tuple[IdlingCluster, ...]:
    """Return the Services and scalables of every cluster that answered, in the Fleet's order."""
    return tuple(
        _Observer(inputs, inputs.state.clusters[cluster.name], cluster).found()
        for cluster in inputs.fleet.clusters
        if cluster.name in inputs.state.clusters
    )


def subjects_of(clusters: Iterable[IdlingCluster]) -> list[Subject]:
    """Return the subjects of all clusters."""
    return [subject for cluster in clusters for subject in cluster.subjects]


_NOTHING_LISTED: frozenset[ObjectRef] = frozenset()  # Python makes a new one each time

_Behind = dict[ObjectRef, dict[ObjectRef, tuple[ServiceState, bool]]]
"""The Services of each top object or listed scalable by their names, and whether it is behind them now."""


class _Observer:
    """Looks at one cluster; keeps what is looked up again and again."""

    def __init__(self, inputs: IdlingInputs, cluster: ObservedCluster, fleet_cluster: FleetCluster) -> None:
        now = inputs.run.now
        self._inputs = inputs
        self._cluster = cluster
        self._fleet_cluster = fleet_cluster
        self._fleets = fleet_names(inputs.fleet)
        self._inventory = inventory_of(cluster)
        self._groups = self._inventory.groups
        self._autoscalers: ClusterAutoscalers = autoscalers_of(cluster)
        horizontal = self._autoscalers.horizontal.items()
        self._held = {key: hpa for key, hpa in horizontal if Key.PREVIOUS_BOUNDS in hpa.annotations}
        self._verdicts = ClusterVerdicts(inputs.policies, cluster, fleet_cluster, inputs.state.answers, now)
        readings = ((workload.ref, read_record(workload, self._fleets)) for workload in cluster.workloads)
        self._readings = {ref: reading for ref, reading in readings if reading is not None}
        self._lost = lost_records(cluster.workloads, self._readings)
        self._copied = most_by_owner(cluster.workloads, self._fleets)
        self._needed_pods = need_pods_requests(cluster.events)
        self._space_annotations = namespace_annotations(cluster)
        self._space_labels = labels = namespace_labels(cluster)
        # What is the same in a whole namespace is worked out once. Nothing kept here may name `self`: replays play
        # thousands of runs without the collector, which alone would free such a circle.
        self._production_of = cache(lambda space: inputs.fleet.production.why(fleet_cluster, space, labels.get(space)))
        self._subjects: dict[Hashable, Subject] = {}  # the first with such decision inputs
        self._namespace_exclusions: dict[str, tuple[Exclusion, ...]] = {}
        unread = first_unread(cluster, _NEEDED)
        self._unknown = f"{_NEEDED[unread]} cannot be read" if unread else ""

    def found(self) -> IdlingCluster:
        services = tuple(state for service in self._cluster.services if (state := self._service(service)) is not None)
        behind = self._services_by_scalable(services)
        scales = self._scales(services, behind)
        subjects = tuple(self._scalable(scales[ref], behind) for ref in sorted(scales))
        problems = tuple(self._verdicts.problems())
        return IdlingCluster(self._inventory, services, subjects, tuple(self._abandoned()), problems)

    # Services

    def _service(self, service: Service) -> ServiceState | None:
        excluded = self._verdicts.exclusions(service)
        verdict = without(self._verdicts.on_service(service), excluded)
        endpoints = self._inventory.endpoints.get((service.ref.namespace, service.ref.name))
        state = ServiceState(
            service=service,
            verdict=verdict,
            on_service=read_service_record(service.ref, service.annotations, self._fleets, self._groups),
            on_endpoints=None
            if endpoints is None
            else read_service_record(service.ref, endpoints.annotations, self._fleets, self._groups),
            endpoints=endpoints,
            request=self._request(service, endpoints),
            exclusion=next(exclusions(service.annotations, self._inputs.run.now), None),
            excluded=excluded,
        )
        opts_out = state.exclusion or state.excluded
        if not (state.is_selected or state.has_record or opts_out or state.request or self._is_asked_about(state)):
            return None
        return replace(state, found=discover_targets(service, self._inventory))

    def _request(self, service: Service, endpoints: Endpoints | None) -> WakeRequest | None:
        needed = self._needed_pods.get((service.ref.namespace, service.ref.name))
        on_endpoints = wake_request(endpoints.annotations) if endpoints is not None else None
        return latest_of(needed, wake_request(service.annotations), on_endpoints)

    def _is_asked_about(self, service: ServiceState) -> bool:
        holders: tuple[Service | Endpoints | None, ...] = (service.service, service.endpoints)
        return any(
            self._inputs.named(holder.ref) or Key.WAKE_REQUESTED_AT in holder.annotations
            for holder in holders
            if holder is not None
        )

    # what is behind them

    def _services_by_scalable(self, services: Iterable[ServiceState]) -> _Behind:
        """Return for each top object or listed scalable its Services, and whether it is behind them now."""
        result: _Behind = {}
        for service in services:
            tops = [workload.ref for workload in service.found.workloads]
            for ref in tops:
                result.setdefault(ref, {})[service.ref] = (service, True)
            # A list alone proves nothing: whoever may annotate a Service could have any workload scaled by it.
            trusted = not service.found.by_labels or bool(service.found.undecided)
            for ref in _listed(service):
                if ref not in tops:
                    is_behind = trusted or self._is_idled_behind(ref, service)
                    result.setdefault(ref, {})[service.ref] = (service, is_behind)
        return result

    def _is_idled_behind(self, ref: ObjectRef, service: ServiceState) -> bool:
        """Return whether `ref`, which the record of `service` lists, says itself that we idled it.

        It may have been found by its pods, which are gone while it is idle. A list alone says nothing.
        """
        workload = self._inventory.by_ref.get(ref)
        if workload is None or service.record is None:
            return False
        scale, reading = self._scale(workload), self._readings.get(ref)
        is_recorded = most_recorded(scale.written, self._copied, self._fleets) > 0
        ours = (reading is not None and reading.ours) or (is_recorded and is_written_by_us(scale.written))
        return ours and scale.is_at_or_below(service.record.idled_to)

    def _scales(self, services: Iterable[ServiceState], behind: _Behind) -> dict[ObjectRef, Scale]:
        by_ref = self._inventory.by_ref
        selected = [workload for service in services if service.is_selected for workload in service.found.workloads]
        selected += [by_ref[ref] for ref in self._verdicts.direct]
        recorded = [by_ref[ref] for service in services for ref in _listed(service) if ref in by_ref]
        listed = {workload.ref for workload in recorded}
        scales = [self._selected_scale(workload, behind, listed) for workload in selected]
        scales += self._recorded_autoscalers()
        recorded += [by_ref[ref] for ref in (*self._readings, *self._lost)]
        by_name = self._inventory.owners.by_name
        recorded += [by_name[key] for key in self._held if key in by_name]
        scales += [self._recorded_scale(w) for w in recorded if not is_owned_by_scalable(w, self._inventory)]
        return {scale.ref: scale for scale in scales}

    def _selected_scale(self, workload: Workload, behind: _Behind, listed: Set[ObjectRef]) -> Scale:
        """Return how `workload` is idled: its ScaledObject stands for it, or a field of its HorizontalPodAutoscaler."""
        key = key_of(workload.ref)
        hpa = self._autoscalers.horizontal.get(key)
        if key in self._autoscalers.keda or hpa is None:
            return self._scale(self._autoscalers.keda.get(key, workload))
        field = recorded_field(hpa)
        idled = Key.PREVIOUS_BOUNDS in hpa.annotations or workload.ref in self._readings or workload.ref in listed
        if not (field or idled):  # what was idled in another way is woken in that way
            before = [service for service, is_behind in behind.get(workload.ref, {}).values() if is_behind]
            field = _field_of(hpa, workload, self._verdicts.on_scalable(Scale(workload, workload), before)[0])
        return self._through_hpa(hpa, field) if field else self._scale(workload)

    def _through_hpa(self, hpa: HorizontalPodAutoscaler, field: HpaField) -> Scale:
        return scale_through(hpa, field, self._inventory.owners.by_name.get((hpa.ref.namespace, *hpa.target)))

    def _recorded_autoscalers(self) -> Iterator[Scale]:
        """Yield the autoscalers with a record; where nobody knows whether the target is there, they stay."""
        for hpa in self._cluster.autoscalers:
            field = recorded_field(hpa)
            if field:
                scale = self._through_hpa(hpa, field)
                if scale.runs is not scale.written or self._is_listed(hpa.target[0]):
                    yield scale

    def _is_listed(self, kind: str) -> bool:
        """Return whether all of a kind that is known by its name were read, so that one that is not there is gone."""
        return kind in self._groups and self._inventory.is_listed((self._groups[kind], kind))

    def _recorded_scale(self, workload: Workload) -> Scale:
        """Return how `workload`, which something is recorded of, is woken.

        A record on the target of a ScaledObject is that one's while it has a record too. Where it has none, and was
        woken since or the target runs, a run died before the rest; else the target is idle, and woken, by itself.
        """
        scaled = self._autoscalers.keda.get(key_of(workload.ref))
        reading = self._readings.get(workload.ref)
        if scaled is None or reading is None or not reading.ours:
            return self._scale(workload)
        record, woken = reading.record, awake_since(scaled)
        unfinished = record is not None and (
            workload.spec_replicas > record.idled_to or (woken is not None and woken >= record.idled_at)
        )
        return self._scale(scaled if unfinished or scaled.ref in self._readings else workload)

    def _abandoned(self) -> Iterator[PinnedAutoscaler]:
        gone = (key for key in self._held if key not in self._inventory.owners.by_name and self._is_listed(key[1]))
        pinned = (pinned_autoscaler(self._held[key], self._fleets) for key in gone)
        return (autoscaler for autoscaler in pinned if not autoscaler.problem)

    def _scale(self, workload: Workload) -> Scale:
        if workload.scale_target is None:
            return Scale(workload, workload)
        target = self._inventory.owners.by_name.get((workload.ref.namespace, *workload.scale_target))
        return Scale(workload, target or workload)

    # scalables

    def _scalable(self, scale: Scale, behind: _Behind) -> Subject:
        # The target last: it is behind what only lists its ScaledObject.
        by_name = {**behind.get(scale.ref, NOTHING), **behind.get(scale.runs.ref, NOTHING)} if behind else NOTHING
        services = tuple([by_name[ref][0] for ref in sorted(by_name)])
        before = [service for service in services if by_name[service.ref][1]]
        verdict, direct = self._verdicts.on_scalable(scale, before)
        inputs = None if by_name else self._decision_inputs(scale, verdict)
        if inputs in self._subjects:
            return replace(self._subjects[inputs], scale=scale)
        # Services that are only observed are no more than those that nobody selects.
        if verdict.won and not verdict.is_observed:
            services = tuple([replace(one, verdict=Verdict()) if one.verdict.is_observed else one for one in services])
        on_target = self._readings.get(scale.runs.ref) if scale.has_target else None
        is_shared = on_target is not None and self._recorded_scale(scale.runs).ref == scale.ref
        found = Subject(
            scale=scale,
            verdict=verdict,
            cluster=self._fleet_cluster,
            services=services,
            reading=self._readings.get(scale.ref) if scale.hpa is None else read_record(scale.written, self._fleets),
            autoscaler=self._pinned(scale),
            autoscalers=self._autoscalers,
            exclusions=self._exclusions(scale, services),
            request=latest_of(wake_request(scale.written.annotations), wake_request(scale.runs.annotations)),
            unknown=self._unknown or self._missing(scale),
            protected=self._protected(scale.ref.namespace),
            listed_only=frozenset(ref for ref, (_, is_behind) in by_name.items() if not is_behind) or _NOTHING_LISTED,
            lost=self._lost.get(scale.ref),
            most_recorded=most_recorded(scale.written, self._copied, self._fleets) if services else 0,
            production=self._production(scale),
            direct=direct,
            on_target=on_target if is_shared else None,
            target_is_idle=on_target is not None and on_target.ours and not is_shared,
            decision_inputs=inputs,
        )
        state, record = classify(found)
        classified = replace(found, state=state, record=record)
        undo = undo_of(classified, self._inputs.run.now)
        subject = classified if undo is None else replace(classified, undo=undo)
        if inputs is not None:
            self._subjects[inputs] = subject
        return subject

    def _decision_inputs(self, scale: Scale, verdict: Verdict) -> Hashable:
        """Return what the decision about a workload behind no Service depends on, but for `PER_WORKLOAD` conditions;
        None where it depends on more, such as an autoscaler or an opt-out, which is named after it.
        """
        written, key = scale.written, key_of(scale.ref)
        if (
            scale.runs is not written
            or written.switch is not None
            or written.ref in self._lost
            or key in self._autoscalers.horizontal
            or key in self._autoscalers.keda
            or not OPT_OUTS.isdisjoint(written.annotations)
        ):
            return None
        annotations = tuple([entry for entry in written.annotations.items() if entry[0].startswith(_INPUT_ANNOTATIONS)])
        return (
            *(written.ref.cluster, written.ref.namespace, written.ref.kind, written.api_version),
            *(id(verdict), self._production(scale)),
            *(written.replicas, written.no_place, written.loses_volumes, Key.FLUX_NAME_LABEL in written.labels),
            *(annotations, written.replicas_writer if annotations else None),
        )

    def _protected(self, namespace: str) -> Fact | None:
        unread = fact(ReasonCode.NAMESPACES_UNREAD) if self._inputs.fleet.protects_unread else None
        return protection(self._inputs.fleet, namespace) or unread

    def _production(self, scale: Scale) -> str:
        production, space = self._inputs.fleet.production, scale.ref.namespace
        of_space = self._production_of(space)
        if of_space or not production.workload_labels:
            return of_space
        labels = self._space_labels.get(space)
        return production.why(self._fleet_cluster, space, labels, scale.written.labels, scale.runs.labels)

    def _pinned(self, scale: Scale) -> PinnedAutoscaler | None:
        key = key_of(scale.runs.ref)
        if scale.hpa is not None or key in self._autoscalers.keda or key not in self._autoscalers.horizontal:
            return None
        return pinned_autoscaler(self._autoscalers.horizontal[key], self._fleets)

    def _missing(self, scale: Scale) -> str:
        if scale.is_paused_kind and scale.runs is scale.written:
            return "its target was not found"
        return scale.written.no_place

    def _exclusions(self, scale: Scale, services: Iterable[ServiceState]) -> tuple[Exclusion, ...]:
        """Return what excludes `scale`, its namespace or what is on it; of several the first is the reason."""
        found, now, fleet = self._exclusions_of_namespace(scale.ref.namespace), self._inputs.run.now, self._inputs.fleet
        own: list[Workload | HorizontalPodAutoscaler | Service] = [scale.written]
        if scale.runs is not scale.written:
            own.append(scale.runs)
        hpa = self._autoscalers.horizontal.get(key_of(scale.runs.ref)) if self._autoscalers.horizontal else None
        if hpa is not None and hpa.ref != scale.ref:  # which is woken in place of its workload at times
            own.append(hpa)
        own += [service.service for service in services]
        holders = [holder for holder in own if not OPT_OUTS.isdisjoint(holder.annotations)]
        for holder in holders:
            honors = fleet.honors_kube_downscaler and not isinstance(holder, Service)
            stated = exclusions(holder.annotations, now, kube_downscaler=honors)
            found += tuple(replace(exclusion, on=f"{holder.ref.kind}/{holder.ref.name}") for exclusion in stated)
        return found

    def _exclusions_of_namespace(self, namespace: str) -> tuple[Exclusion, ...]:
        """Return what excludes everything in `namespace`."""
        if namespace in self._namespace_exclusions:
            return self._namespace_exclusions[namespace]
        fleet, found = self._inputs.fleet, []
        if self._fleet_cluster.state == "Leaving":
            why = reason(ReasonCode.CLUSTER_LEAVING, cluster=self._fleet_cluster.name)
            found.append(Exclusion((why,), change_if(ChangeIfCode.CLUSTER_STATE)))
        if (protected := protection(fleet, namespace)) is not None:
            found.append(Exclusion(protected.why, protected.lift))
        texts, honors = self._space_annotations.get(namespace, NOTHING), fleet.honors_kube_downscaler
        stated = exclusions(texts, self._inputs.run.now, kube_downscaler=honors)
        found += [replace(exclusion, on=f"Namespace/{namespace}") for exclusion in stated]
        self._namespace_exclusions[namespace] = tuple(found)
        return self._namespace_exclusions[namespace]


def _field_of(hpa: HorizontalPodAutoscaler, workload: Workload, verdict: Verdict) -> HpaField:
    """Return what of `hpa` is changed where `workload` goes idle, "" where the workload itself is scaled."""
    if verdict.lowers_minimum:
        return "Minimum"
    is_at_zero = hpa.scaled_to_zero and hpa.minimum == 0 and workload.spec_replicas == 0
    return "ScaleUp" if is_at_zero and {policy.autoscalers.hpa for policy in verdict.policies} == {"Idle"} else ""


def _listed(service: ServiceState) -> Iterator[ObjectRef]:
    """Yield what the records on a Service list, ours or not."""
    for record in (service.record, service.foreign):
        yield from () if record is None else record.targets
