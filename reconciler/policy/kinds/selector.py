"""What a policy selects: clusters, namespaces, Services and workloads, by name, labels and kind."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.messages import Path, nearest_of, shown
from reconciler.policy.globs import matches_any
from reconciler.policy.kinds.cluster import FleetCluster
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fields import (
    ClusterPattern,
    Fields,
    KindAndGroup,
    LabelKey,
    Labels,
    LabelValue,
    NamespacePattern,
    ServicePattern,
    WorkloadPattern,
    given,
)
from reconciler.workload_kinds import BROUGHT_SWITCHES, BY_KIND, KNOWN, SWITCHES

_SCALABLE = tuple(BY_KIND)
_WITHOUT_SCALE = (*(one.kind for one in BROUGHT_SWITCHES), "HorizontalPodAutoscaler", "Namespace", "Pod", "Service")
_SWITCHED = frozenset(kind.lower() for _, kind in SWITCHES) - {"service"}  # whether they are selected says the Fleet
_SURELY_MEANT = 0.87  # likeness of two kinds from which on one is the other, misspelt
_MATCH_LABELS = Meta(description="matchLabels are labels that an object must have, each with exactly this value.")
_MATCH_EXPRESSIONS = Meta(description="matchExpressions are requirements on labels. All of them must be met.")
P = TypeVar("P")


class _LabelRequirementFields(Fields, frozen=True, kw_only=True):
    """A requirement on the value of a label, as in a Kubernetes label selector."""

    key: LabelKey
    """key is the label key that the requirement applies to."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """operator is the relation of the label's value to values."""
    values: tuple[LabelValue, ...] = ()
    """values are the values for In and NotIn. They are empty for Exists and DoesNotExist."""


class LabelSelectorFields(Fields, frozen=True, kw_only=True):
    """A label selector as in Kubernetes. An empty label selector selects all objects."""

    match_labels: Annotated[Labels, _MATCH_LABELS] = field(default_factory=dict)
    match_expressions: Annotated[tuple[_LabelRequirementFields, ...], _MATCH_EXPRESSIONS] = ()


class _ObjectSelectorFields(Fields, Generic[P], frozen=True, kw_only=True):
    """Objects by name and labels. All parts must match."""

    include: Annotated[tuple[P, ...], Meta(min_length=1)] = ("*",)  # type: ignore[assignment]  # every pattern is a text
    """include lists names, or patterns of names, that are selected."""
    exclude: tuple[P, ...] = ()
    """exclude lists names, or patterns of names, that are not selected. It takes precedence over include."""
    match_labels: Annotated[Labels, _MATCH_LABELS] = field(default_factory=dict)
    match_expressions: Annotated[tuple[_LabelRequirementFields, ...], _MATCH_EXPRESSIONS] = ()


class _ClusterSelectorFields(_ObjectSelectorFields[ClusterPattern], frozen=True, kw_only=True):
    """Clusters by name and labels. All parts must match."""


class NamespaceSelectorFields(_ObjectSelectorFields[NamespacePattern], frozen=True, kw_only=True):
    """Namespaces by name and labels. All parts must match."""


class _ServiceSelectorFields(_ObjectSelectorFields[ServicePattern], frozen=True, kw_only=True):
    """Services by name and labels. All parts must match."""


class WorkloadSelectorFields(_ObjectSelectorFields[WorkloadPattern], frozen=True, kw_only=True):
    """Workloads by kind, name and labels. All parts must match."""

    kinds: tuple[KindAndGroup, ...] = ()
    """kinds lists the kinds that are selected, as in a manifest. An empty list selects all kinds of Kubernetes and KEDA
    that can be scaled. Custom kinds are selected only if they are listed, also behind a Service. A group may follow the
    kind, as in Service.serving.knative.dev, which is called like another kind."""


class _ScopeFields(Fields, frozen=True, kw_only=True):
    """Clusters and namespaces."""

    clusters: _ClusterSelectorFields = _ClusterSelectorFields()
    """clusters selects clusters of the Fleet. All parts must match."""
    namespaces: NamespaceSelectorFields = NamespaceSelectorFields()
    """namespaces selects namespaces. All parts must match; protected namespaces never do."""


class WorkloadsOnlyFields(_ScopeFields, frozen=True, kw_only=True):
    """What a DownscalePolicy selects."""

    workloads: WorkloadSelectorFields
    """workloads selects workloads by kind, name and labels."""


class WorkloadExclusionFields(_ScopeFields, frozen=True, kw_only=True):
    """What a DownscalePolicy does not select although its selector does. All parts must match."""

    workloads: WorkloadSelectorFields | UnsetType = UNSET
    """workloads selects workloads. An empty list of kinds selects all kinds, custom ones too."""


class ExclusionFields(WorkloadExclusionFields, frozen=True, kw_only=True):
    """What an IdlingPolicy does not select although its selector does.

    Without services and workloads that is everything in these namespaces.
    """

    services: _ServiceSelectorFields | UnsetType = UNSET
    """services selects Services, and with each of them the workloads behind it."""


class SelectorFields(_ScopeFields, frozen=True, kw_only=True):
    """What an IdlingPolicy selects. At least one of services and workloads is required."""

    services: _ServiceSelectorFields | UnsetType = UNSET
    """services selects Services, and with each of them the workloads behind it. {} selects all Services. No Service is
    selected if this field is not set."""
    workloads: WorkloadSelectorFields | UnsetType = UNSET
    """workloads selects workloads, in addition to the workloads behind selected Services. No workload is selected by
    itself if this field is not set."""

    json_schema: ClassVar[dict[str, Any]] = {
        "anyOf": [{"required": ["services"]}, {"required": ["workloads"]}],
        "x-expected": '"services", "workloads" or both',
    }


class ObjectSelector(Struct, frozen=True):
    """Selects by name and labels; both must match. `include` and `exclude` are globs of names; excluded wins.

    `within` are those of the tenant whose policy it is: nothing else is ever selected. () is no bound.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    labels: LabelSelector = LabelSelector()
    within: tuple[str, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether an object called `name` that has `labels` is selected."""
        return self.names(name) and self.labels.matches(labels)

    def names(self, name: str) -> bool:
        """Return whether an object called `name` may be selected, whatever its labels are."""
        if (self.exclude and matches_any(name, self.exclude)) or (self.within and not matches_any(name, self.within)):
            return False
        return self.include == ("*",) or matches_any(name, self.include)


class WorkloadSelector(Struct, frozen=True):
    """`kinds` as people write them ("Deployment"); () means every one that Kubernetes and KEDA bring, no custom one."""

    kinds: tuple[str, ...] = ()
    objects: ObjectSelector = ObjectSelector()


class Selector(Struct, frozen=True):
    """What a policy selects: what either of `services` and `workloads` does, where both are set.

    At least one of the two is set (DownscalePolicy: always `workloads`). What a policy excludes is of the same shape;
    there neither means everything in these namespaces.
    """

    clusters: ObjectSelector = ObjectSelector()
    namespaces: ObjectSelector = ObjectSelector()
    services: ObjectSelector | None = None
    workloads: WorkloadSelector | None = None

    def selects_cluster(self, cluster: FleetCluster) -> bool:
        """Return whether anything on `cluster` can be selected."""
        return self.clusters.matches(cluster.name, cluster.labels)


def selector_of(
    document: PolicyDocument,
    fields: SelectorFields | WorkloadsOnlyFields | WorkloadExclusionFields,
    path: Path = ("spec", "selector"),
) -> Selector:
    """Return what is selected at `path`; problems and warnings are gathered in `document`."""
    services = given(fields.services) if isinstance(fields, SelectorFields | ExclusionFields) else None
    workloads = given(fields.workloads)
    return Selector(
        clusters=_objects(document, (*path, "clusters"), fields.clusters),
        namespaces=_objects(document, (*path, "namespaces"), fields.namespaces),
        services=None if services is None else _objects(document, (*path, "services"), services),
        workloads=None if workloads is None else _workloads(document, (*path, "workloads"), workloads),
    )


def exclusions_of(document: PolicyDocument, fields: Sequence[WorkloadExclusionFields]) -> tuple[Selector, ...]:
    """Return what a policy does not select although its selector does; problems are gathered in `document`."""
    found = tuple(selector_of(document, exclusion, ("spec", "exclude", n)) for n, exclusion in enumerate(fields))
    for position, selector in enumerate(found):
        if selector == Selector():
            document.add(
                ("spec", "exclude", position),
                "excludes everything, expected clusters, namespaces, services or workloads; to switch the policy off, "
                "say mode: Observe",
            )
    return found


def _workloads(document: PolicyDocument, path: Path, fields: WorkloadSelectorFields) -> WorkloadSelector:
    """Return the selector at `path`. Custom kinds are not known here; one letter off a known kind is none."""
    for position, kind in enumerate(fields.kinds):
        fault = kind_fault(kind)
        if fault is not None and kind.lower() not in _SWITCHED:
            document.add((*path, "kinds", position), f"is {shown(kind)}, {fault}")
    return WorkloadSelector(fields.kinds, _objects(document, path, fields))


def _objects(document: PolicyDocument, path: Path, fields: _ObjectSelectorFields[str]) -> ObjectSelector:
    for position, name in enumerate(fields.include if fields.exclude else ()):
        pattern = next((pattern for pattern in fields.exclude if matches_any(name, (pattern,))), None)
        if pattern is not None:
            document.warn((*path, "include", position), f"is {shown(name)}, which exclude leaves out: {shown(pattern)}")
    return ObjectSelector(fields.include, fields.exclude, label_selector(document, path, fields))


def label_selector(
    document: PolicyDocument, path: Path, fields: LabelSelectorFields | _ObjectSelectorFields[str]
) -> LabelSelector:
    """Return the Kubernetes label selector at `path`; problems are gathered in `document`."""
    for position, requirement in enumerate(fields.match_expressions):
        here = (*path, "matchExpressions", position, "values")
        if requirement.operator in ("In", "NotIn") and not requirement.values:
            document.add(here, f"is missing, expected at least one value for {requirement.operator}")
        if requirement.operator in ("Exists", "DoesNotExist") and requirement.values:
            document.add(here, f"has values, expected none for {requirement.operator}")
    requirements = (LabelRequirement(one.key, one.operator, one.values) for one in fields.match_expressions)
    return LabelSelector(tuple(sorted(fields.match_labels.items())), tuple(requirements))


@lru_cache(maxsize=256)
def kind_fault(kind: str) -> str | None:
    """Return why `kind` cannot be that of something that is scaled, None where it may be."""
    known = {name.lower(): name for name in (*_SCALABLE, *_WITHOUT_SCALE)}
    found = known.get(kind.lower())
    if found in _WITHOUT_SCALE:
        return "expected a kind with replicas, like Deployment"
    if found is not None:
        return None
    meant = known.get(KNOWN.get(kind, "")) or nearest_of(kind, known.values(), likeness=_SURELY_MEANT)
    return None if meant is None else f'expected a kind, did you mean "{meant}"?'
