"""Why an object has its replicas: what each policy says, which one comes closest, what the next run does; as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import Key, idling_owner, read_placed, read_time
from reconciler.decide.decisions import KIND_OF_JOB, Decision, PolicyExplanation, Verb, policy_title
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.selectors import SelectingPolicies, local_key, names_kind, namespace_labels
from reconciler.labels import LabelSelector
from reconciler.messages import counted
from reconciler.model import ObjectRef, ObservedCluster, Service, Workload, by_key
from reconciler.plan.model import Plan, json_value
from reconciler.policy.types import (
    DownscalePolicy,
    FederatedReplicaSet,
    IdlingPolicy,
    ObjectSelector,
    PolicySet,
    Selector,
    WorkloadSelector,
)
from reconciler.report.change_words import (
    change_text,
    changes_of,
    field_name,
    field_of,
    is_metadata,
    metadata_words,
    name_of,
    names_with_group,
    value_text,
    verb_of,
    victims_of,
)
from reconciler.report.groups import overridden_words
from reconciler.report.summary import source_of
from reconciler.report.times import age, reasons_in
from reconciler.untrusted_text import one_line
from reconciler.workload_kinds import SCALABLE_KINDS

# The policy that comes closest to selecting an object that none selects, and which parts of its selector fail.


T = TypeVar("T")
Policy = IdlingPolicy | DownscalePolicy | FederatedReplicaSet


class SelectorMatch(Struct, frozen=True):
    """A policy, and of each part of its selector the field, and why it does not select a workload, "" if it does."""

    policy: Policy
    parts: tuple[tuple[str, str], ...]

    @property
    def selected(self) -> int:
        """How many parts select it."""
        return sum(not problem for _, problem in self.parts)


class ClosestSelectors:
    """The policies that come closest to selecting the workloads of one cluster."""

    def __init__(self, policies: PolicySet, cluster: ObservedCluster) -> None:
        self._policies = policies
        self._member = member = policies.fleet.cluster(cluster.name)
        self._labels = namespace_labels(cluster)
        self._services = by_key((service.ref.namespace, service) for service in cluster.services)
        selecting: tuple[IdlingPolicy | DownscalePolicy, ...] = (*policies.idling, *policies.downscale)
        self._selecting = selecting
        anywhere = [replace(policy, selector=Selector()) for policy in selecting]
        # What a policy excludes is told though it does not reach the cluster.
        self._excluding = None if member is None else SelectingPolicies(anywhere, member, cluster)

    def closest_to(self, workload: Workload) -> SelectorMatch | None:
        """Return the match with the fewest parts that fail, the first by name of several; None: there is no policy."""
        matches = [self._match(policy, workload) for policy in self._selecting]
        matches += [_placement(policy, workload) for policy in self._policies.federated]
        return min(
            matches,
            key=lambda one: (len(one.parts) - one.selected, -one.selected, type(one.policy).__name__, one.policy.name),
            default=None,
        )

    def _match(self, policy: IdlingPolicy | DownscalePolicy, workload: Workload) -> SelectorMatch:
        selector, ref, member = policy.selector, workload.ref, self._member
        parts = [
            ("clusters", _problem(selector.clusters, ref.cluster, member.labels if member else {})),
            ("namespaces", _problem(selector.namespaces, ref.namespace, self._labels.get(ref.namespace, {}))),
        ]
        owner = workload.owner
        owned = "" if owner is None else f"{owner.kind}/{owner.name} owns it: policies select the owner"
        if selector.workloads is not None:
            switched = workload.kind.pods == "None" and isinstance(policy, DownscalePolicy)
            without = f"{ref.kind} has no replicas" if switched else ""
            parts.append(("workloads", owned or without or _workload_problem(selector.workloads, workload)))
        if selector.services is not None:
            services = self._services.get(ref.namespace, ())
            parts.append(("services", owned or _service_problem(selector.services, workload, services)))
        excluding = () if self._excluding is None else self._excluding.excluding(workload)
        own = [field for one, field in excluding if (type(one), one.name) == (type(policy), policy.name)]
        return SelectorMatch(policy, (*parts, *((field, f"excludes {ref.name}") for field in own)))


def _placement(policy: FederatedReplicaSet, workload: Workload) -> SelectorMatch:
    namespace, kind, name = local_key(policy)
    ref = workload.ref
    elsewhere = "" if policy.preference(ref.cluster) else f"has neither {ref.cluster} nor *"
    if not policy.is_within(ref.cluster):
        elsewhere = _not_of_tenant(ref.cluster, policy.within)
    called = (ref.kind, ref.name) == (kind, name)
    return SelectorMatch(
        policy,
        (
            ("preferences.clusters", elsewhere),
            ("namespace", "" if ref.namespace == namespace else f"is {namespace}, not {ref.namespace}"),
            ("name", "" if called else f"is {kind}/{name}, not {ref.kind}/{ref.name}"),
        ),
    )


def _problem(selector: ObjectSelector, name: str, labels: Mapping[str, str]) -> str:
    """Return why an object called `name` is not selected, "" if it is."""
    if not selector.names(name):
        return _name_problem(selector, name)
    return "; ".join(_label_problems(selector.labels, labels))


def _name_problem(selector: ObjectSelector, name: str) -> str:
    included = ObjectSelector(include=selector.include).names(name)
    if included and not ObjectSelector(within=selector.within).names(name):
        return _not_of_tenant(name, selector.within)
    if included:
        return f"{name} is excluded by {', '.join(selector.exclude)}"
    return f"{name} is not included in {', '.join(selector.include)}"


def _not_of_tenant(name: str, within: Iterable[str]) -> str:
    return f"{name} is not of the tenant, which has {', '.join(within)}"


def _label_problems(selector: LabelSelector, labels: Mapping[str, str]) -> Iterator[str]:
    for requirement in selector.requirements:
        if not requirement.matches(labels):
            found = f'is "{labels[requirement.key]}"' if requirement.key in labels else "is absent"
            values = f" {', '.join(requirement.values)}" if requirement.values else ""
            yield f"label {requirement.key} {found}, expected {requirement.operator}{values}"


def _workload_problem(selector: WorkloadSelector, workload: Workload) -> str:
    ref = workload.ref
    if selector.kinds and not names_kind(selector, ref.kind, ref.group):
        return f"{ref.kind} is not among kinds {', '.join(selector.kinds)}"
    if not selector.kinds and (ref.group, ref.kind) not in SCALABLE_KINDS:
        return f"{ref.kind} is a custom kind, which is selected only where kinds names it"
    return _problem(selector.objects, ref.name, workload.labels)


def _service_problem(selector: ObjectSelector, workload: Workload, services: Iterable[Service]) -> str:
    """Return why none of `services`, those of its namespace, that is in front of `workload` by the labels of its pods'
    template is selected; "" if one is.
    """
    labels = workload.template_labels.items()
    front = [service for service in services if service.selector and service.selector.items() <= labels]
    if not front:
        return "no Service selects its pods"
    problems = {service.ref.name: _problem(selector, service.ref.name, service.labels) for service in front}
    return "; ".join(f"Service/{name}: {why}" for name, why in problems.items()) if all(problems.values()) else ""


# The explanation of an object.


class ObjectExplanation(Struct, frozen=True):
    """What is to be said of one object. `workload` None: it is not among those read (a Service, or gone).

    `closest` is the match of a policy that comes near, where none selects it.
    """

    ref: ObjectRef
    workload: Workload | None
    closest: SelectorMatch | None = None


def explanation_lines(plan: Plan, found: Sequence[ObjectExplanation]) -> Iterator[str]:
    """Yield the explanation of each object, its number first; above all of them when, and in which time zone."""
    names = names_with_group(subject.ref for subject in found)
    for position, (subject, part) in enumerate(_parts(plan, found)):
        name = names.get(subject.ref, name_of(subject.ref))
        yield from [""] if position else []
        yield f"{name}{'' if position else f' {source_of(plan)}'}"
        yield from _explained(part, subject, name)
    yield from _without_place(plan, {subject.ref for subject in found})


def _without_place(plan: Plan, named: Collection[ObjectRef]) -> Iterator[str]:
    """Yield how many replicas no cluster gets of each federated ReplicaSet that is `named` on all of its clusters."""
    for view in plan.placements:
        local = {one.ref for one in plan.explanations if (one.job, one.policy) == ("placement", view.key)}
        desired = [row.desired for row in view.rows]
        left = 0 if None in desired else view.total - sum(filter(None, desired))
        if left > 0 and local and local.issubset(named):
            yield ""
            yield one_line(
                f"FederatedReplicaSet {view.key}: {left} of {counted(view.total, 'replica')} without a place"
            )


def _parts(plan: Plan, found: Iterable[ObjectExplanation]) -> Iterator[tuple[ObjectExplanation, Plan]]:
    """Yield each object with the part of `plan` about it: what policies say of it, or of what is behind it, and what is
    written to it, or to its ScaledObject.
    """
    every_held = [(limit, decision) for limit in plan.held_back for decision in limit.decisions]
    explanations = _about(plan.explanations, lambda one: (one.ref, *one.services))
    actions = _about(plan.actions, lambda one: (one.ref,))
    observed = _about(plan.observed, lambda one: (one.ref,))
    overridden = _about(plan.overridden, lambda one: (one.ref,))
    held = _about(every_held, lambda pair: (pair[1].ref,))
    for subject in found:
        explained = explanations({subject.ref})
        written = {one.written for one in explained if one.ref == subject.ref and one.written is not None}
        refs = {subject.ref, *written}
        yield (
            subject,
            replace(
                plan,
                explanations=tuple(explained),
                actions=tuple(actions(refs)),
                held_back=tuple(replace(limit, decisions=(decision,)) for limit, decision in held(refs)),
                observed=tuple(observed(refs)),
                overridden=tuple(overridden({subject.ref})),
            ),
        )


def _about(items: Sequence[T], refs_of: Callable[[T], Iterable[ObjectRef]]) -> Callable[[Iterable[ObjectRef]], list[T]]:
    """Return what finds those of `items` that are about some objects, in their order."""
    places = by_key((ref, place) for place, item in enumerate(items) for ref in refs_of(item))
    return lambda refs: [items[place] for place in sorted({one for ref in refs for one in places.get(ref, ())})]


def _explained(plan: Plan, subject: ObjectExplanation, name: str) -> Iterator[str]:
    explanations = [found for found in plan.explanations if found.ref == subject.ref]
    if subject.ref.is_service:
        behind = sorted({found.ref for found in plan.explanations if subject.ref in found.services})
        yield from [f"Behind it: {', '.join(one_line(f'{ref.kind}/{ref.name}') for ref in behind)}."] * bool(behind)
    else:
        yield _number(plan, subject, selected=bool(explanations))
    yield from _idle_since(plan, subject, name, explanations)
    yield from _before_placement(subject, name)
    through = {found.written for found in explanations if found.written is not None} - {subject.ref}
    yield from (f"Scaled through {found.kind}/{found.name}." for found in sorted(through))
    for found in explanations:
        yield ""
        yield from _policy(plan, found)
    yield from (f"  {overridden_words(plan, lost)}" for lost in plan.overridden)
    others = set(chain.from_iterable(found.outranked for found in explanations))
    for policy in sorted(others - {lost.policy for lost in plan.overridden}):
        yield f"  {policy}: selects it too, a policy above decides in its place"
    if subject.closest is not None:
        yield ""
        yield from _closest(subject.closest)
    yield ""
    yield from _next_run(plan, subject.ref)


def explanation_values(plan: Plan, found: Iterable[ObjectExplanation]) -> Iterator[dict[str, Any]]:
    """Yield the explanation of each object as JSON values: what each policy says of it, its reasons as data."""
    for subject, part in _parts(plan, found):
        decision, fate = _decided(part)
        workload = subject.workload
        yield {
            "object": str(subject.ref),
            "specReplicas": None if workload is None or workload.scale_target else workload.spec_replicas,
            "policies": [_policy_values(plan, one) for one in part.explanations if one.ref == subject.ref],
            "change": "" if decision is None else f"{_change(decision, subject.ref)}{fate}",
        }


def _policy_values(plan: Plan, found: PolicyExplanation) -> dict[str, Any]:
    change = found.change_if
    return {
        "kind": KIND_OF_JOB[found.job] if found.policy else "",
        "name": found.policy,
        "at": plan.places.get(_title(found), ""),
        "outcome": found.outcome,
        "reason": found.why,
        "reasonCode": found.reason_code,
        "reasons": [{"code": why.code, "values": json_value(why.values)} for why in found.reasons],
        "wouldChangeIf": "" if change is None else str(change),
        "selectedBy": list(found.selected_by),
        "outranked": list(found.outranked),
    }


def _idle_since(
    plan: Plan, subject: ObjectExplanation, name: str, explanations: Collection[PolicyExplanation]
) -> Iterator[str]:
    """Yield since when an object is idle, what it had before, and what wakes it."""
    record = subject.workload.annotations if subject.workload is not None else {}
    at, owner = read_time(record.get(Key.IDLED_AT)), idling_owner(record)
    theirs = owner is not None and subject.workload is not None and not subject.workload.spec_replicas
    if at is None or not (theirs or any(found.idled for found in explanations)):
        return
    before, time = one_line(record.get(Key.PREVIOUS_SCALE, "")), reasons_in(plan).time(at)
    scale = f", previous scale {before}" if before else ""
    since = f"Idle since {time} ({age(plan.made_at - at)}){_idled_by(plan, owner, explanations)}{scale}"
    yield f"{since}. To wake it: reconciler wake {name}"


def _before_placement(subject: ObjectExplanation, name: str) -> Iterator[str]:
    """Yield what placement gives back when it is no longer about an object that it did not create."""
    if subject.workload is None or subject.workload.owner is not None:
        return
    placed = read_placed(subject.workload.annotations)
    if placed is not None and placed.previous > placed.replicas:
        yield f"{placed.previous} before placement. To restore that: reconciler restore {name}"


def _idled_by(plan: Plan, owner: tuple[str, str] | None, explanations: Collection[PolicyExplanation]) -> str:
    """Return who idled an object, "" where that is a policy of this Fleet that is explained below."""
    if owner is None or (owner[0] == plan.fleet and any(found.policy == owner[1] for found in explanations)):
        return ""
    fleet = f" of Fleet {owner[0]}" if owner[0] != plan.fleet else ""
    return one_line(f" by IdlingPolicy {owner[1]}{fleet}")


def _number(plan: Plan, one: ObjectExplanation, *, selected: bool) -> str:
    decision, fate = _decided(plan)
    if decision is None or is_metadata(decision):
        current = _state(one.workload) if one.workload else "unknown" if one.ref.cluster in plan.unknown else "none"
        words = f"Current {current}, desired {_kept_besides(plan, one.ref) or current}"
    else:
        (field, before, *after), *others = changes_of(decision) or [("", "")]
        named = "" if field in ("replicas", "") else f"{field} "
        wanted = [f"{named}{(*after, before)[0] or verb_of(decision)}", *map(change_text, others)]
        desired = _kept_besides(plan, one.ref) or ", ".join(wanted)
        words = f"Current {named}{before or 'none'}, desired {desired}"
    return f"{words}{fate}." if selected or decision is not None else f"{words}: no policy selects it."


def _kept_besides(plan: Plan, ref: ObjectRef) -> str:
    """Return what is desired of a placed ReplicaSet, and what its spec.replicas is where that differs; else ""."""
    keys = {one.policy for one in plan.explanations if one.ref == ref and one.job == "placement"}
    rows = [row for view in plan.placements if view.key in keys for row in view.rows if row.cluster == ref.cluster]
    for row in rows:
        if row.current is None and row.desired is not None:
            return str(row.desired)
        if None not in (row.desired, row.spec_replicas) and row.desired != row.spec_replicas:
            waiting = [why.values.get("waitingReplicas") for why in row.reasons if why.code == ReasonCode.WAITING]
            besides = f" ({waiting[0]} pending, waitingReplicas)" if waiting else " for now"
            return f"{row.desired}, spec.replicas {row.spec_replicas}{besides}"
    return ""


def _state(workload: Workload) -> str:
    switch = workload.switch
    if switch is None:  # a ScaledObject has no replicas, and where its target is there, that is explained
        return str(workload.spec_replicas) if workload.scale_target is None else "unknown"
    value = switch.kind.value_at(1) if switch.value is None else switch.value
    return f"{field_name(switch.kind.replicas_path)} {value_text(value) if switch.is_known else 'not known'}"


def _decided(plan: Plan) -> tuple[Decision | None, str]:
    """Return what is decided for the object of a part, and why that is not done, "" where it is."""
    planned = [action.decision for action in plan.actions]
    held = [decision for limit in plan.held_back for decision in limit.decisions]
    for found, fate in ((planned, ""), (held, ", held back"), (plan.observed, ", observed only")):
        for decision in sorted(found, key=is_metadata):
            return decision, fate
    return None, ""


def _policy(plan: Plan, found: PolicyExplanation) -> Iterator[str]:
    words = reasons_in(plan)
    title = _title(found)
    place = plan.places.get(title, "")
    yield one_line(f"{title}{f' ({place})' if place else ''}: {found.outcome}")
    if found.selected_by:
        yield one_line(f"  selected by {' and '.join(found.selected_by)}")
    if found.reasons:
        yield f"  because: {words.reason(found.reasons)}"
    if found.change_if is not None:
        yield f"  It would change if {words.change_if(found.change_if)}."


def _title(found: PolicyExplanation) -> str:
    return policy_title(found.job, found.policy) if found.policy else "No policy"


def _closest(match: SelectorMatch) -> Iterator[str]:
    kind = type(match.policy).__name__
    name = f"{match.policy.namespace}/{match.policy.name}" if hasattr(match.policy, "namespace") else match.policy.name
    yield one_line(f"Closest is {kind} {name} ({match.policy.place}):")
    width = max(len(field) for field, _ in match.parts)
    for field, problem in match.parts:
        yield one_line(f"{field}:").ljust(width + 1).join(("  ", " ")) + one_line(problem or "selects it")


def _next_run(plan: Plan, about: ObjectRef) -> Iterator[str]:
    """Yield what is done with an object, and what is not done although it was decided."""
    for limit in plan.held_back:
        yield from (f"Held back: {_change(decision, about)}; {one_line(limit.why)}" for decision in limit.decisions)
    for decision in plan.observed:
        yield f"Observed only, never applied: {_change(decision, about)}"
    for action in plan.actions:
        yield f"Next run: {_change(action.decision, about)}"
        yield from (f"  {victims}" for victims in [victims_of(action.decision)] if victims)
    if not plan.actions:
        yield "Next run: no change"


def _change(change: Decision, about: ObjectRef) -> str:
    other = "" if change.ref == about else f" {one_line(f'{change.ref.kind}/{change.ref.name}')}"
    if is_metadata(change):
        return f"{metadata_words(change)}{f' on{other}' if other else ''} (metadata update)"
    what = " ".join(field_of(change)).strip()
    verb = "scale" if change.verb is Verb.REPAIR and what else verb_of(change)
    return f"{verb}{other}{f', {what}' if what else ''}"
