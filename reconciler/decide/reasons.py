"""Why something is decided: codes of a closed list, with values.

The texts are those of JSON, annotations, ConfigMaps and Events: in English, times in UTC. They may become better at any
time, so nothing compares them, or reads anything out of them. What people read has ages, and times in their zone:
`report/times.py` fills these in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NewType

from msgspec import Struct

from reconciler.decide.annotations import format_time
from reconciler.messages import counted
from reconciler.model import NOTHING

_FIELD = r"\{(\w+)(?::(\w+))?(?: ([^{}|]+)\|([^{}]+))?\}"
_OPTIONAL = r"\[([^\[\]]*)\]"
PREPOSITIONS = {"ago": "at ", "since": "since "}


Code = NewType("Code", str)
"""One of a closed list: it is stated once, in `ReasonCode` or `ChangeIfCode`, and as JSON it is a text."""

TEXTS: dict[Code, str] = {}
"""The template of the text of each code: `{name}` is a value, `{name:form}` one in a form, `{name pod|pods}` a number
with its noun, and what stands in brackets is left out where a value in it is absent. A text that ends with a colon goes
on with the next reason.
"""

WORDS: dict[Code, str] = {}
"""The template of what people read, for each code."""


def code(name: str, text: str, words: str = "") -> Code:
    """Return the code `name`, known from now on with its `text`, and the `words` that people read, where these are not
    the text. No enum: each member of one takes a start as long as a quarter of a module.
    """
    made = Code(name)
    TEXTS[made] = text
    WORDS[made] = words or text
    return made


class ReasonCode:
    """Why something is decided."""

    # what the criteria of an IdlingPolicy say
    METRIC_IDLE = code(
        "MetricIdle",
        "[{name} ]{value} at most {atMost}[ in {window}]",
        "{name:metric} {value}, idle at <= {atMost}[ ({window})]",
    )
    METRIC_BUSY = code(
        "MetricBusy",
        "[{name} ]{value} above {atMost}[ in {window}]",
        "{name:metric} {value}, idle at <= {atMost}[ ({window})]",
    )
    METRIC_UNKNOWN = code("MetricUnknown", "{name} unknown[ in {window}]:", "{name}:")
    WAKE_WHEN_TRUE = code(
        "WakeWhenTrue", "wakeWhen {value} above {above} in {window}", "wakeWhen {value} > {above} ({window})"
    )
    WAKE_WHEN_UNKNOWN = code("WakeWhenUnknown", "wakeWhen unknown in {window}:", "wakeWhen:")
    IN_DOWNTIME = code("InDowntime", "schedule {calendar} {until:until}", "{calendar} {until:until}")
    OUTSIDE_DOWNTIME = code(
        "OutsideDowntime",
        "schedule {calendar} closed until {until:edge}[ ({exception})]",
        "{calendar} starts {until:edge}[ ({exception})]",
    )
    DOWNTIME_OVER = code(
        "DowntimeOver", "schedule {calendar} is over[ ({exception})]", "{calendar} is over[ ({exception})]"
    )
    OUTSIDE_UPTIME = code("OutsideUptime", "outside uptime {calendar} {until:until}[ ({exception})]")
    IN_UPTIME = code("InUptime", "in uptime {calendar} {until:until}[ ({exception})]")
    UPTIME_EXCEPTION = code("UptimeException", "exception to uptime {calendar} {until:until}[ ({exception})]")
    NO_CRITERION = code("NoCriterion", "no criterion")

    # why a query says nothing
    QUERY_NOT_EVALUATED = code("QueryNotEvaluated", "not evaluated")
    QUERY_FAILED = code("QueryFailed", "failed to load: {error}")
    QUERY_PARTIAL = code("QueryPartial", "partial: {warning}")
    QUERY_STALE = code("QueryStale", "recorded {at:ago}, more than 5 minutes ago")
    NO_SERVICE = code("NoService", "a metric needs a Service")
    NO_SERIES = code("NoSeries", "no series")
    SEVERAL_SERIES = code("SeveralSeries", "given {count} times")
    NOT_FINITE = code("NotFinite", "{value}")
    OTHER_LABELS = code(
        "OtherLabels", "none of its series names a selected Service by the labels namespace and service"
    )
    LOW_COVERAGE = code("LowCoverage", "coverage is {coverage}, expected at least {atLeast}")

    # which policies decide
    NOT_SELECTED = code("NotSelected", "no policy selects it")
    EXCLUDED_BY_POLICY = code("ExcludedByPolicy", "{policy} excludes it[ with Service/{service}] ({field})")
    POLICIES_UNREADABLE = code("PoliciesUnreadable", "the policies cannot be read")
    TENANT_STOPPED = code("TenantStopped", "the policies of tenant {tenant} cannot be used[: {files}]")
    EQUAL_PRIORITIES = code("EqualPriorities", "{policies} have the same priority")
    HIGHER_PRIORITY = code("HigherPriority", "priority {priority}")
    OBSERVES = code("Observes", "it only observes")
    OTHER_POLICY = code("OtherPolicy", "but {policies}:")
    POLICY_REMOVED = code(
        "PolicyRemoved", "its policy was removed[ (onDelete: {onDelete})]", "policy removed[ (onDelete: {onDelete})]"
    )
    CHANGED_BY_IDLING = code("ChangedByIdling", "{policy} changes it in this run")
    NOT_OF_TENANT = code("NotOfTenant", "its policy is of tenant {tenant}, which does not have this cluster any more")
    NOT_NAMED = code("NotNamed", "preferences.clusters names neither {cluster} nor *")
    TARGET_CHANGED = code("TargetChanged", "its policy is about {target} now")
    SCALE_RESTORED = code("ScaleRestored", "back to the {replicas replica|replicas} of before placement")
    POLICIES_REMOVED = code("PoliciesRemoved", "{count} of {owners} policies that own objects were removed: {policies}")

    # what keeps an object as it is
    CLUSTER_RESTRICTED = code("ClusterRestricted", "{restriction}")
    FROZEN = code("Frozen", "frozen[ by {by}][ until {until:edge}]: {reason}")
    PRODUCTION = code("Production", "{what} is production, left out by {policies} without production: true")
    CLUSTER_LEAVING = code("ClusterLeaving", "the cluster {cluster} is leaving")
    NAMESPACE_PROTECTED = code("NamespaceProtected", "the namespace {namespace} is protected")
    NAMESPACES_UNREAD = code("NamespacesUnread", "the namespaces that the Fleet protects cannot be read")
    EXCLUDED = code("Excluded", "excluded:[ {object}:]")
    ANNOTATION_SET = code("AnnotationSet", '{annotation}: "{value}"')
    ANNOTATION_UNTIL = code("AnnotationUntil", "{annotation}: {value}")
    ANNOTATION_UNREADABLE = code("AnnotationUnreadable", '{annotation} is "{value}", expected {expected}')
    CONTESTED = code("Contested", "contested[ by {by}][ {since:since}]")
    WRITTEN_BY = code("WrittenBy", "{by} wrote its replicas last[ {at:ago}]")
    UNREADABLE = code("Unreadable", "{problem}")
    RECORD_UNREADABLE = code("RecordUnreadable", "its record cannot be read")
    SERVICE_RECORD_UNREADABLE = code("ServiceRecordUnreadable", "the idle record of Service/{service} cannot be read")
    SERVICE_FOREIGN = code("ServiceForeign", "Service/{service} was idled by {by}")
    SERVICE_TARGETS_UNKNOWN = code("ServiceTargetsUnknown", "the targets of Service/{service} are unknown: {problem}")
    TARGETS_UNKNOWN = code("TargetsUnknown", "{problem}")
    NOT_SCALABLE = code("NotScalable", "{problem}")
    NO_WORKLOAD = code("NoWorkload", "no scalable workload is behind it")
    CUSTOM_KIND = code("CustomKind", "{kind} is a custom kind, not named by {policies}")
    RECONCILER_ITSELF = code("ReconcilerItself", "the reconciler does not idle itself")
    LEFT_TO_AUTOSCALER = code("LeftToAutoscaler", "left to {autoscaler}")
    KEDA_LEFT = code("KEDALeft", "autoscalers.keda: Leave")
    HPA_LEFT = code("HPALeft", "{autoscaler} controls it (autoscalers.hpa: Leave)")
    HPA_WITHOUT_ZERO = code(
        "HPAWithoutZero", "idleReplicas is 0, which {autoscaler} cannot have without an Object or External metric"
    )
    SEVERAL_HPAS = code("SeveralHPAs", "{autoscalers} scale it, of which only one can be held")
    SEVERAL_SCALED_OBJECTS = code("SeveralScaledObjects", "{autoscalers} have the same scaleTargetRef, expected one")
    HPA_LOWERED = code("HPALowered", "{autoscaler} scales it, from {minReplicas} up, before from {previous} up")
    HPA_AT_ZERO = code("HPAAtZero", "{autoscaler} scaled it to zero")
    HPA_KEPT_AT_ZERO = code("HPAKeptAtZero", "{autoscaler} scaled it to zero, and does not scale it up until it wakes")
    HPA_UNREADABLE = code("HPAUnreadable", "{autoscaler}: {problem}")
    HPA_PINNED_BY_FLEET = code("HPAPinnedByFleet", "Fleet {fleet} pins {autoscaler}, but did not idle it")
    SET_BY_OTHERS = code("SetByOthers", "{annotation} is set by another writer")
    MIN_AWAKE = code("MinAwake", "awake {since:since}, less than minAwake of {least}")
    MIN_AGE = code("MinAge", "created {at:ago}, younger than minAge of {least}")
    KEPT_AWAKE = code("KeptAwake", "kept awake until {until:edge}", "kept awake for another {until:age}")
    AT_IDLE_REPLICAS = code("AtIdleReplicas", "already at or below idleReplicas")
    DOWN_WITHOUT_RECORD = code("DownWithoutRecord", "already at or below idleReplicas, without a record")
    SWITCHED_OFF = code("SwitchedOff", "switched off already, without a record")
    FINISHED = code("Finished", "it has finished")
    TERMINATING = code("Terminating", "it is being deleted")
    ROLLOUT_IN_PROGRESS = code("RolloutInProgress", "rollout in progress")
    ROLLOUT_PAUSED = code("RolloutPaused", "its rollout is paused")
    SERVICE_RUNS = code("ServiceRuns", "{object} behind Service/{service} stays awake:")
    SERVICE_WAKES = code("ServiceWakes", "{object} behind Service/{service} wakes:")
    PODS_UNREAD = code("PodsUnread", "the pods behind Service/{service} are not known yet")
    RUNS_ELSEWHERE = code("RunsElsewhere", "runs on {cluster}")
    FEDERATED_PAUSED = code("FederatedPaused", "{policy} is paused")
    CLUSTER_UNREAD = code("ClusterUnread", "{cluster} cannot be read")
    UNPROVEN = code("Unproven", "a Service lists it as idle, but it has no record of its own")
    FOREIGN = code("Foreign", "was idled by {by}")

    # why an object is woken, released or repaired
    WAKE_REQUESTED = code("WakeRequested", "wake requested {at:ago}", "requested {at:ago}")
    NEED_PODS = code("NeedPods", "NeedPods {at:ago}", "NeedPods Event {at:ago}")
    WAKE_DUE = code("WakeDue", "due {due:since}", "due {due:ago}")
    WAKE_IN_PROGRESS = code("WakeInProgress", "wake in progress")
    WAKE_DEFERRED = code("WakeDeferred", "deferred to a later run (perRun {perRun} of wake group {group})")
    IDLE_REPLICAS_TOO_HIGH = code("IdleReplicasTooHigh", "idleReplicas is {idleReplicas}, it had {replicas}")
    RESTORED = code("Restored", "restored")
    RESTORED_IN_PART = code("RestoredInPart", "restored from what can be read")
    UNINSTALLED = code("Uninstalled", "everything of ours is taken off")
    MANUALLY_SCALED = code("ManuallyScaled", "scaled by hand")
    INSISTED = code("Insisted", "scaled to {replicas} by {by}, idled again (onRevert: Insist)")
    SCALED_BY = code("ScaledBy", "scaled to {replicas} by {by}")
    SWITCHED_ON_BY = code("SwitchedOnBy", "switched on by {by}")
    TAKEN_OVER = code("TakenOver", "scaled by another writer (scale-reason)")
    SCALE_REASON_CHANGED = code("ScaleReasonChanged", "its scale-reason is {scaleReason}, not {expected}:")
    SCALE_REASON_CLEARED = code("ScaleReasonCleared", "its scale-reason was cleared:")
    STAYS = code("Stays", "it stays as it is (previous replicas {replicas})")
    SCALED_BY_HPA = code(
        "ScaledByHPA", "{autoscaler} gets its bounds back and scales it (previous replicas {replicas})"
    )
    HPA_CHANGED = code("HPAChanged", "another writer changed the bounds of its autoscaler")
    HPA_CHANGED_BY = code("HPAChangedBy", "{by} changed the bounds of {autoscaler}")
    HPA_RESTORED_BY = code("HPARestoredBy", "{by} restored the bounds of {autoscaler}")
    WITHIN_HPA_BOUNDS = code("WithinHPABounds", "{replicas} instead of {recorded} within the bounds of its autoscaler")
    HPA_PINNED_FOR_NOTHING = code("HPAPinnedForNothing", "its autoscaler is pinned, but no workload is idle")
    IDLE_INCOMPLETE = code("IdleIncomplete", "an earlier run recorded it as idle, but did not scale it")
    WAKE_INCOMPLETE = code("WakeIncomplete", "an earlier run woke it, but did not clear its Service")
    RECORD_STALE = code("RecordStale", "its record is older than its last wake")
    RECORD_FROM_REPLICA_SET = code("RecordFromReplicaSet", "its record is restored from its ReplicaSet")
    RECORD_FROM_SERVICE = code("RecordFromService", "its record is restored from its Service")
    RECORD_UPDATED = code("RecordUpdated", "its record is updated")
    IDLE_REPLICAS_CHANGED = code("IdleReplicasChanged", "idleReplicas is {idleReplicas}")
    OWNER_UNKNOWN = code("OwnerUnknown", "its record names no policy, {policy} wants it idle")
    OWNER_OVERRIDDEN = code("OwnerOverridden", "{former} no longer decides there, {policy} wants it idle")
    OWNER_CHANGED = code("OwnerChanged", "{former} no longer selects it, {policy} wants it idle")
    POLICY_BACK = code("PolicyBack", "its policy is there again")
    SERVICE_NOT_IDLE = code("ServiceNotIdle", "no workload behind it is idle")
    SERVICE_IDLE = code("ServiceIdle", "workloads behind it are idle")
    ACTIVATOR_GONE = code("ActivatorGone", "the activator in the Pod with uid {pod} is gone")
    SERVICE_PARTLY_AWAKE = code("ServicePartlyAwake", "some workloads it lists are awake")

    # the replicas of a cluster in a FederatedReplicaSet
    WEIGHT = code("Weight", "weight {weight} of {weights}")
    NO_WEIGHT = code("NoWeight", "no weight")
    MIN_REPLICAS = code("MinReplicas", "min {minReplicas}")
    MAX_REPLICAS = code("MaxReplicas", "max {maxReplicas}")
    NO_PREFERENCE = code("NoPreference", "no preference for this cluster")
    STEPS = code("Steps", "{steps}:")
    ELSEWHERE = code("Elsewhere", "clusters left alone keep {replicas}, desired {total}")
    MINIMUMS_FIRST = code("MinimumsFirst", "weights share what the minimums leave, {left} of {total}")
    CAPACITY = code("Capacity", "capacity {capacity}")
    WAITING = code("Waiting", "{waitingReplicas} waiting", "{waitingReplicas} pending (waitingReplicas)")
    LAGGING = code("Lagging", "lagging: receives no replicas until all of its pods run")
    NOT_AVAILABLE = code("NotAvailable", "{replicas} placed, not available")
    MOVES_LATER = code("MovesLater", "{replicas} more move once as many are available elsewhere")
    WRITE_REFUSED_ONCE = code("WriteRefusedOnce", "refused once: {error}")
    WRITE_REFUSED = code(
        "WriteRefused",
        "refused {count} times in a row[, tried again at {retryAfter:edge}]: {error}",
        "refused {count} times in a row[, retried in {retryAfter:age}]: {error}",
    )
    DRAINING = code("Draining", "draining")
    LEAVING = code("Leaving", "leaving")
    FITS_NOWHERE_ELSE = code("FitsNowhereElse", "keeps {replicas} because the other clusters are full")
    CLUSTER_UNREACHABLE = code("ClusterUnreachable", "unreachable[ {since:since}]")
    CLUSTER_LOST = code("ClusterLost", "unreachable {since:since}, its replicas move elsewhere")
    LIST_UNREADABLE = code("ListUnreadable", "{list} cannot be read[: {problem}]")
    CONTROLLED_BY = code("ControlledBy", "is controlled by {owner}")
    OWNED_BY = code("OwnedBy", "is owned by {owner}")
    NOT_MANAGED = code("NotManaged", "is not managed by this Fleet (onConflict: Abort)")
    IDLE = code("Idle", "idle[, {policy} decides]")
    UNREACHABLE_IDLE = code("UnreachableIdle", "unreachable; idle, {policy} decides")
    SCALED_DOWN_BY_OTHERS = code("ScaledDownByOthers", "scaled down by {by}, left unchanged")
    AUTOSCALED = code("Autoscaled", "{autoscaler} controls it")
    NO_NAMESPACE = code("NoNamespace", "namespace {namespace} does not exist")
    NO_OBJECT = code("NoObject", "{kind} {name} does not exist")
    PAUSED = code("Paused", "paused")

    # what else placement writes
    ADOPTED = code("Adopted", "adopted, it was not ours", "not managed by this Fleet before")
    TEMPLATE_DIFFERS = code(
        "TemplateDiffers", "template differs at {fields}; its {replicas pod keeps|pods keep} the old one"
    )
    SELECTOR_DIFFERS = code("SelectorDiffers", "selector differs; its {replicas pod keeps|pods keep} running")
    REPLACES = code("Replaces", "replaces the one deleted because its selector differs")
    REPLACED = code("Replaced", "the replacement exists")
    TRACKING_UPDATED = code("TrackingUpdated", "tracking annotations are updated")
    STATUS = code("Status", "status")
    HOME_REACHABLE = code("HomeReachable", "the home cluster is reachable again")
    CLUSTERS_UNREACHABLE = code("ClustersUnreachable", "unreachable: {clusters}")
    CLUSTERS_REACHABLE = code("ClustersReachable", "all clusters are reachable")
    NO_LONGER_REFUSED = code("NoLongerRefused", "{object} is no longer refused")
    REFUSALS_OF_REMOVED = code("RefusalsOfRemoved", "refused writes of removed policies are forgotten")
    RECORDS_MOVE = code("RecordsMove", "the records move to another cluster")

    # what a DownscalePolicy wants, and what keeps it from that
    TARGET = code("Target", "the target is {replicas}", "target {replicas}")
    QUERY = code("Query", "the query returns {value}", "query {value}")
    AT_LEAST = code("AtLeast", "at least {min}")
    AT_MOST = code("AtMost", "at most {max}")
    QUERY_UNKNOWN = code("QueryUnknown", "its query is unknown:")
    NOT_ONE_SERIES = code("NotOneSeries", "it returns {count} series, expected one")
    NO_NUMBER_OF_REPLICAS = code("NoNumberOfReplicas", "it returns {value}, expected a number of replicas")
    NO_TARGET = code("NoTarget", "the policy has no target")
    DECIDED_BY = code("DecidedBy", "{policy} decides its replicas")
    OVERRIDDEN_BY = code("OverriddenBy", "{policy} has the higher priority")
    SAME_PRIORITY = code(
        "SamePriority", "{policies} have the same priority {priority}, expected different ones; nothing is decided"
    )
    IDLE_RECORD = code("IdleRecord", "it is idle, as its record says")
    ONLY_DOWN = code("OnlyDown", "and the policy takes only the way down")
    NOT_BELOW_HPA = code("NotBelowHPA", "not below minReplicas of {autoscaler}")
    VICTIMS_DEFERRED = code("VictimsDeferred", "{note}")
    STRAY_VICTIM = code("StrayVictim", "a victim without a journal entry")
    SCALE_DOWN_IN_PROGRESS = code("ScaleDownInProgress", "its last scale-down is in progress")
    SCALE_DOWN_INTERRUPTED = code("ScaleDownInterrupted", "a scale-down to {replicas} was interrupted")
    SCALED_SINCE = code("ScaledSince", "and another writer scaled to {replicas}")
    SCALE_DOWN_COMPLETE = code("ScaleDownComplete", "the scale-down to {replicas} is complete")
    WORKLOAD_GONE = code("WorkloadGone", "the workload is gone")

    OTHER = code("Other", "{text}")


CODES = tuple(TEXTS)
"""All codes of reasons, in their order."""

Show = Callable[[Any, str], str]
"""How a value is shown in a form ("" for none); an absent one is ""."""


def stable(value: Any, form: str = "") -> str:
    """Return `value` in `form` as stored texts have it: a time in UTC."""
    if form == "until":
        return f"until {value}" if value else "without end"
    if form == "it":
        return str(value or "it")
    if isinstance(value, list | tuple):
        return " and ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.12g}"
    return f"{PREPOSITIONS.get(form, '')}{value}"


def filled(template: str, values: Mapping[str, Any], show: Show = stable) -> str:
    """Return `template` with `values` in place of their names, as `show` shows them."""

    def optional(found: re.Match[str]) -> str:
        names = (name for name, *_ in re.findall(_FIELD, found.group()))
        return "" if any(values.get(name, "") == "" for name in names) else found[1]

    def value(found: re.Match[str]) -> str:
        one = values.get(found[1], "")
        return counted(one, found[3], found[4]) if found[3] else show(one, found[2] or "")

    return re.sub(_FIELD, value, re.sub(_OPTIONAL, optional, template) if "[" in template else template)


_LISTS = (list, tuple)
_ABSENT: tuple[Any, ...] = (None, "", [], ())


def json_values(named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values as JSON has them, without those that are absent."""
    return {
        key: format_time(value)
        if isinstance(value, datetime)
        else list(map(str, value))
        if isinstance(value, _LISTS)
        else value
        for key, value in named.items()
        if value not in _ABSENT
    } or NOTHING


class Reason(Struct, frozen=True):
    """One reason. `values` are text, numbers and lists of text; times are RFC 3339 in UTC."""

    code: Code
    values: Mapping[str, Any] = NOTHING

    def __hash__(self) -> int:
        return hash(self.code)  # a mapping has no hash

    def __str__(self) -> str:
        return filled(TEXTS[self.code], self.values)


Reasons = tuple[Reason, ...]
"""The reasons of one decision: the first gives it its code."""

MEASURED = frozenset({ReasonCode.METRIC_IDLE, ReasonCode.METRIC_BUSY, ReasonCode.WAKE_WHEN_TRUE})
"""Reasons whose values are what was measured for one object."""


def reason(code: Code, **values: Any) -> Reason:
    """Return the reason with `values`: also times, and sequences of names."""
    return Reason(code, json_values(values))


@lru_cache(256, typed=True)
def shared_reason(code: Code, **values: str | int) -> Reason:
    """Return `reason(code, **values)`: one for all objects that have it, which are many."""
    return reason(code, **values)


@lru_cache(16)  # a schedule idles all that it selects for the same reason
def text_of(reasons: Reasons) -> str:
    """Return `reasons` as one phrase."""
    return ", ".join(" ".join(map(str, part)) for part in phrase_parts(reasons))


def phrase_parts(reasons: Iterable[Reason]) -> tuple[Reasons, ...]:
    """Return the parts of a phrase: each one reason, or some that end with a colon and the next."""
    found: list[Reasons] = []
    goes_on = False
    for why in reasons:
        found[-1:] = [(*found[-1], why)] if goes_on else [*found[-1:], (why,)]
        goes_on = TEXTS[why.code].removesuffix("]").endswith(":")
    return tuple(found)
