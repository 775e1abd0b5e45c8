"""Why something is decided: codes of a closed list, with values.

The texts are those of JSON, annotations, ConfigMaps and Events: in English, times in UTC. They may become better at any
time, so nothing compares them, or reads anything out of them. What people read has ages, and times in their zone:
`report/times.py` fills these in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import format_time
from reconciler.messages import counted
from reconciler.model import NOTHING

_FIELD = r"\{(\w+)(?::(\w+))?(?: ([^{}|]+)\|([^{}]+))?\}"
_OPTIONAL = r"\[([^\[\]]*)\]"
PREPOSITIONS = {"ago": "at ", "since": "since "}


class Code(StrEnum):
    """A code, and the template of its text: `{name}` is a value, `{name:form}` one in a form, `{name pod|pods}` a
    number with its noun, and what stands in brackets is left out where a value in it is absent. A text that ends with
    a colon goes on with the next reason. The third is what people read, where that is not the text.
    """

    text: str
    words: str

    def __new__(cls, code: str, text: str, words: str = "") -> Code:
        member = str.__new__(cls, code)
        member._value_ = code
        member.text = text
        member.words = words or text
        return member


class ReasonCode(Code):
    """Why something is decided."""

    # what the criteria of an IdlingPolicy say
    METRIC_IDLE = (
        "MetricIdle",
        "[{name} ]{value} at most {atMost}[ in {window}]",
        "{name:metric} {value}, idle at <= {atMost}[ ({window})]",
    )
    METRIC_BUSY = (
        "MetricBusy",
        "[{name} ]{value} above {atMost}[ in {window}]",
        "{name:metric} {value}, idle at <= {atMost}[ ({window})]",
    )
    METRIC_UNKNOWN = "MetricUnknown", "{name} unknown[ in {window}]:", "{name}:"
    WAKE_WHEN_TRUE = (
        "WakeWhenTrue",
        "wakeWhen {value} above {above} in {window}",
        "wakeWhen {value} > {above} ({window})",
    )
    WAKE_WHEN_UNKNOWN = "WakeWhenUnknown", "wakeWhen unknown in {window}:", "wakeWhen:"
    IN_DOWNTIME = "InDowntime", "schedule {calendar} {until:until}", "{calendar} {until:until}"
    OUTSIDE_DOWNTIME = (
        "OutsideDowntime",
        "schedule {calendar} closed until {until:edge}[ ({exception})]",
        "{calendar} starts {until:edge}[ ({exception})]",
    )
    DOWNTIME_OVER = "DowntimeOver", "schedule {calendar} is over[ ({exception})]", "{calendar} is over[ ({exception})]"
    OUTSIDE_UPTIME = "OutsideUptime", "outside uptime {calendar} {until:until}[ ({exception})]"
    IN_UPTIME = "InUptime", "in uptime {calendar} {until:until}[ ({exception})]"
    UPTIME_EXCEPTION = "UptimeException", "exception to uptime {calendar} {until:until}[ ({exception})]"
    NO_CRITERION = "NoCriterion", "no criterion"

    # why a query says nothing
    QUERY_NOT_EVALUATED = "QueryNotEvaluated", "not evaluated"
    QUERY_FAILED = "QueryFailed", "failed to load: {error}"
    QUERY_PARTIAL = "QueryPartial", "partial: {warning}"
    QUERY_STALE = "QueryStale", "recorded {at:ago}, more than 5 minutes ago"
    NO_SERVICE = "NoService", "a metric needs a Service"
    NO_SERIES = "NoSeries", "no series"
    SEVERAL_SERIES = "SeveralSeries", "given {count} times"
    NOT_FINITE = "NotFinite", "{value}"
    OTHER_LABELS = "OtherLabels", "none of its series names a selected Service by the labels namespace and service"
    LOW_COVERAGE = "LowCoverage", "coverage is {coverage}, expected at least {atLeast}"

    # which policies decide
    NOT_SELECTED = "NotSelected", "no policy selects it"
    EXCLUDED_BY_POLICY = "ExcludedByPolicy", "{policy} excludes it[ with Service/{service}] ({field})"
    POLICIES_UNREADABLE = "PoliciesUnreadable", "the policies cannot be read"
    TENANT_STOPPED = "TenantStopped", "the policies of tenant {tenant} cannot be used[: {files}]"
    EQUAL_PRIORITIES = "EqualPriorities", "{policies} have the same priority"
    HIGHER_PRIORITY = "HigherPriority", "priority {priority}"
    OBSERVES = "Observes", "it only observes"
    OTHER_POLICY = "OtherPolicy", "but {policies}:"
    POLICY_REMOVED = (
        "PolicyRemoved",
        "its policy was removed[ (onDelete: {onDelete})]",
        "policy removed[ (onDelete: {onDelete})]",
    )
    CHANGED_BY_IDLING = "ChangedByIdling", "{policy} changes it in this run"
    NOT_OF_TENANT = "NotOfTenant", "its policy is of tenant {tenant}, which does not have this cluster any more"
    NOT_NAMED = "NotNamed", "preferences.clusters names neither {cluster} nor *"
    TARGET_CHANGED = "TargetChanged", "its policy is about {target} now"
    SCALE_RESTORED = "ScaleRestored", "back to the {replicas replica|replicas} of before placement"
    POLICIES_REMOVED = "PoliciesRemoved", "{count} of {owners} policies that own objects were removed: {policies}"

    # what keeps an object as it is
    CLUSTER_RESTRICTED = "ClusterRestricted", "{restriction}"
    FROZEN = "Frozen", "frozen[ by {by}][ until {until:edge}]: {reason}"
    PRODUCTION = "Production", "{what} is production, left out by {policies} without production: true"
    CLUSTER_LEAVING = "ClusterLeaving", "the cluster {cluster} is leaving"
    NAMESPACE_PROTECTED = "NamespaceProtected", "the namespace {namespace} is protected"
    NAMESPACES_UNREAD = "NamespacesUnread", "the namespaces that the Fleet protects cannot be read"
    EXCLUDED = "Excluded", "excluded:[ {object}:]"
    ANNOTATION_SET = "AnnotationSet", '{annotation}: "{value}"'
    ANNOTATION_UNTIL = "AnnotationUntil", "{annotation}: {value}"
    ANNOTATION_UNREADABLE = "AnnotationUnreadable", '{annotation} is "{value}", expected {expected}'
    CONTESTED = "Contested", "contested[ by {by}][ {since:since}]"
    WRITTEN_BY = "WrittenBy", "{by} wrote its replicas last[ {at:ago}]"
    UNREADABLE = "Unreadable", "{problem}"
    RECORD_UNREADABLE = "RecordUnreadable", "its record cannot be read"
    SERVICE_RECORD_UNREADABLE = "ServiceRecordUnreadable", "the idle record of Service/{service} cannot be read"
    SERVICE_FOREIGN = "ServiceForeign", "Service/{service} was idled by {by}"
    SERVICE_TARGETS_UNKNOWN = "ServiceTargetsUnknown", "the targets of Service/{service} are unknown: {problem}"
    TARGETS_UNKNOWN = "TargetsUnknown", "{problem}"
    NOT_SCALABLE = "NotScalable", "{problem}"
    NO_WORKLOAD = "NoWorkload", "no scalable workload is behind it"
    CUSTOM_KIND = "CustomKind", "{kind} is a custom kind, not named by {policies}"
    RECONCILER_ITSELF = "ReconcilerItself", "the reconciler does not idle itself"
    LEFT_TO_AUTOSCALER = "LeftToAutoscaler", "left to {autoscaler}"
    KEDA_LEFT = "KEDALeft", "autoscalers.keda: Leave"
    HPA_LEFT = "HPALeft", "{autoscaler} controls it (autoscalers.hpa: Leave)"
    HPA_WITHOUT_ZERO = (
        "HPAWithoutZero",
        "idleReplicas is 0, which {autoscaler} cannot have without an Object or External metric",
    )
    SEVERAL_HPAS = "SeveralHPAs", "{autoscalers} scale it, of which only one can be held"
    SEVERAL_SCALED_OBJECTS = "SeveralScaledObjects", "{autoscalers} have the same scaleTargetRef, expected one"
    HPA_LOWERED = "HPALowered", "{autoscaler} scales it, from {minReplicas} up, before from {previous} up"
    HPA_AT_ZERO = "HPAAtZero", "{autoscaler} scaled it to zero"
    HPA_KEPT_AT_ZERO = "HPAKeptAtZero", "{autoscaler} scaled it to zero, and does not scale it up until it wakes"
    HPA_UNREADABLE = "HPAUnreadable", "{autoscaler}: {problem}"
    HPA_PINNED_BY_FLEET = "HPAPinnedByFleet", "Fleet {fleet} pins {autoscaler}, but did not idle it"
    SET_BY_OTHERS = "SetByOthers", "{annotation} is set by another writer"
    MIN_AWAKE = "MinAwake", "awake {since:since}, less than minAwake of {least}"
    MIN_AGE = "MinAge", "created {at:ago}, younger than minAge of {least}"
    KEPT_AWAKE = "KeptAwake", "kept awake until {until:edge}", "kept awake for another {until:age}"
    AT_IDLE_REPLICAS = "AtIdleReplicas", "already at or below idleReplicas"
    DOWN_WITHOUT_RECORD = "DownWithoutRecord", "already at or below idleReplicas, without a record"
    SWITCHED_OFF = "SwitchedOff", "switched off already, without a record"
    FINISHED = "Finished", "it has finished"
    TERMINATING = "Terminating", "it is being deleted"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress", "rollout in progress"
    SERVICE_RUNS = "ServiceRuns", "{object} behind Service/{service} stays awake:"
    SERVICE_WAKES = "ServiceWakes", "{object} behind Service/{service} wakes:"
    PODS_UNREAD = "PodsUnread", "the pods behind Service/{service} are not known yet"
    RUNS_ELSEWHERE = "RunsElsewhere", "runs on {cluster}"
    FEDERATED_PAUSED = "FederatedPaused", "{policy} is paused"
    CLUSTER_UNREAD = "ClusterUnread", "{cluster} cannot be read"
    UNPROVEN = "Unproven", "a Service lists it as idle, but it has no record of its own"
    FOREIGN = "Foreign", "was idled by {by}"

    # why an object is woken, released or repaired
    WAKE_REQUESTED = "WakeRequested", "wake requested {at:ago}", "requested {at:ago}"
    NEED_PODS = "NeedPods", "NeedPods {at:ago}", "NeedPods Event {at:ago}"
    WAKE_DUE = "WakeDue", "due {due:since}", "due {due:ago}"
    WAKE_IN_PROGRESS = "WakeInProgress", "wake in progress"
    WAKE_DEFERRED = "WakeDeferred", "deferred to the next run (perRun {perRun} of wake group {group})"
    IDLE_REPLICAS_TOO_HIGH = "IdleReplicasTooHigh", "idleReplicas is {idleReplicas}, it had {replicas}"
    RESTORED = "Restored", "restored"
    RESTORED_IN_PART = "RestoredInPart", "restored from what can be read"
    UNINSTALLED = "Uninstalled", "everything of ours is taken off"
    MANUALLY_SCALED = "ManuallyScaled", "scaled by hand"
    INSISTED = "Insisted", "scaled to {replicas} by {by}, idled again (onRevert: Insist)"
    SCALED_BY = "ScaledBy", "scaled to {replicas} by {by}"
    SWITCHED_ON_BY = "SwitchedOnBy", "switched on by {by}"
    TAKEN_OVER = "TakenOver", "scaled by another writer (scale-reason)"
    SCALE_REASON_CHANGED = "ScaleReasonChanged", "its scale-reason is {scaleReason}, not {expected}:"
    SCALE_REASON_CLEARED = "ScaleReasonCleared", "its scale-reason was cleared:"
    STAYS = "Stays", "it stays as it is (previous replicas {replicas})"
    SCALED_BY_HPA = "ScaledByHPA", "{autoscaler} gets its bounds back and scales it (previous replicas {replicas})"
    HPA_CHANGED = "HPAChanged", "another writer changed the bounds of its autoscaler"
    HPA_CHANGED_BY = "HPAChangedBy", "{by} changed the bounds of {autoscaler}"
    HPA_RESTORED_BY = "HPARestoredBy", "{by} restored the bounds of {autoscaler}"
    WITHIN_HPA_BOUNDS = "WithinHPABounds", "{replicas} instead of {recorded} within the bounds of its autoscaler"
    HPA_PINNED_FOR_NOTHING = "HPAPinnedForNothing", "its autoscaler is pinned, but no workload is idle"
    IDLE_INCOMPLETE = "IdleIncomplete", "an earlier run recorded it as idle, but did not scale it"
    WAKE_INCOMPLETE = "WakeIncomplete", "an earlier run woke it, but did not clear its Service"
    RECORD_STALE = "RecordStale", "its record is older than its last wake"
    RECORD_FROM_REPLICA_SET = "RecordFromReplicaSet", "its record is restored from its ReplicaSet"
    RECORD_FROM_SERVICE = "RecordFromService", "its record is restored from its Service"
    RECORD_UPDATED = "RecordUpdated", "its record is updated"
    IDLE_REPLICAS_CHANGED = "IdleReplicasChanged", "idleReplicas is {idleReplicas}"
    OWNER_UNKNOWN = "OwnerUnknown", "its record names no policy, {policy} wants it idle"
    OWNER_OVERRIDDEN = "OwnerOverridden", "{former} no longer decides there, {policy} wants it idle"
    OWNER_CHANGED = "OwnerChanged", "{former} no longer selects it, {policy} wants it idle"
    POLICY_BACK = "PolicyBack", "its policy is there again"
    SERVICE_NOT_IDLE = "ServiceNotIdle", "no workload behind it is idle"
    SERVICE_IDLE = "ServiceIdle", "workloads behind it are idle"
    ACTIVATOR_GONE = "ActivatorGone", "the activator in the Pod with uid {pod} is gone"
    SERVICE_PARTLY_AWAKE = "ServicePartlyAwake", "some workloads it lists are awake"

    # the replicas of a cluster in a FederatedReplicaSet
    WEIGHT = "Weight", "weight {weight} of {weights}"
    NO_WEIGHT = "NoWeight", "no weight"
    MIN_REPLICAS = "MinReplicas", "min {minReplicas}"
    MAX_REPLICAS = "MaxReplicas", "max {maxReplicas}"
    NO_PREFERENCE = "NoPreference", "no preference for this cluster"
    STEPS = "Steps", "{steps}:"
    ELSEWHERE = "Elsewhere", "clusters left alone keep {replicas}, desired {total}"
    MINIMUMS_FIRST = "MinimumsFirst", "weights share what the minimums leave, {left} of {total}"
    CAPACITY = "Capacity", "capacity {capacity}"
    WAITING = "Waiting", "{waitingReplicas} waiting", "{waitingReplicas} pending (waitingReplicas)"
    LAGGING = "Lagging", "lagging: receives no replicas until all of its pods run"
    NOT_AVAILABLE = "NotAvailable", "{replicas} placed, not available"
    MOVES_LATER = "MovesLater", "{replicas} more move once as many are available elsewhere"
    WRITE_REFUSED_ONCE = "WriteRefusedOnce", "refused once: {error}"
    WRITE_REFUSED = (
        "WriteRefused",
        "refused {count} times in a row[, tried again at {retryAfter:edge}]: {error}",
        "refused {count} times in a row[, retried in {retryAfter:age}]: {error}",
    )
    DRAINING = "Draining", "draining"
    LEAVING = "Leaving", "leaving"
    FITS_NOWHERE_ELSE = "FitsNowhereElse", "keeps {replicas} because the other clusters are full"
    CLUSTER_UNREACHABLE = "ClusterUnreachable", "unreachable[ {since:since}]"
    CLUSTER_LOST = "ClusterLost", "unreachable {since:since}, its replicas move elsewhere"
    LIST_UNREADABLE = "ListUnreadable", "{list} cannot be read[: {problem}]"
    CONTROLLED_BY = "ControlledBy", "is controlled by {owner}"
    OWNED_BY = "OwnedBy", "is owned by {owner}"
    NOT_MANAGED = "NotManaged", "is not managed by this Fleet (onConflict: Abort)"
    IDLE = "Idle", "idle[, {policy} decides]"
    UNREACHABLE_IDLE = "UnreachableIdle", "unreachable; idle, {policy} decides"
    SCALED_DOWN_BY_OTHERS = "ScaledDownByOthers", "scaled down by {by}, left unchanged"
    AUTOSCALED = "Autoscaled", "{autoscaler} controls it"
    NO_NAMESPACE = "NoNamespace", "namespace {namespace} does not exist"
    NO_OBJECT = "NoObject", "{kind} {name} does not exist"
    PAUSED = "Paused", "paused"

    # what else placement writes
    ADOPTED = "Adopted", "adopted, it was not ours", "not managed by this Fleet before"
    TEMPLATE_DIFFERS = "TemplateDiffers", "template differs at {fields}; its {replicas pod keeps|pods keep} the old one"
    SELECTOR_DIFFERS = "SelectorDiffers", "selector differs; its {replicas pod keeps|pods keep} running"
    REPLACES = "Replaces", "replaces the one deleted because its selector differs"
    REPLACED = "Replaced", "the replacement exists"
    TRACKING_UPDATED = "TrackingUpdated", "tracking annotations are updated"
    STATUS = "Status", "status"
    HOME_REACHABLE = "HomeReachable", "the home cluster is reachable again"
    CLUSTERS_UNREACHABLE = "ClustersUnreachable", "unreachable: {clusters}"
    CLUSTERS_REACHABLE = "ClustersReachable", "all clusters are reachable"
    NO_LONGER_REFUSED = "NoLongerRefused", "{object} is no longer refused"
    REFUSALS_OF_REMOVED = "RefusalsOfRemoved", "refused writes of removed policies are forgotten"
    RECORDS_MOVE = "RecordsMove", "the records move to another cluster"

    # what a DownscalePolicy wants, and what keeps it from that
    TARGET = "Target", "the target is {replicas}", "target {replicas}"
    QUERY = "Query", "the query returns {value}", "query {value}"
    AT_LEAST = "AtLeast", "at least {min}"
    AT_MOST = "AtMost", "at most {max}"
    QUERY_UNKNOWN = "QueryUnknown", "its query is unknown:"
    NOT_ONE_SERIES = "NotOneSeries", "it returns {count} series, expected one"
    NO_NUMBER_OF_REPLICAS = "NoNumberOfReplicas", "it returns {value}, expected a number of replicas"
    NO_TARGET = "NoTarget", "the policy has no target"
    DECIDED_BY = "DecidedBy", "{policy} decides its replicas"
    OVERRIDDEN_BY = "OverriddenBy", "{policy} has the higher priority"
    SAME_PRIORITY = (
        "SamePriority",
        "{policies} have the same priority {priority}, expected different ones; nothing is decided",
    )
    IDLE_RECORD = "IdleRecord", "it is idle, as its record says"
    ONLY_DOWN = "OnlyDown", "and the policy takes only the way down"
    NOT_BELOW_HPA = "NotBelowHPA", "not below minReplicas of {autoscaler}"
    VICTIMS_DEFERRED = "VictimsDeferred", "{note}"
    STRAY_VICTIM = "StrayVictim", "a victim without a journal entry"
    SCALE_DOWN_IN_PROGRESS = "ScaleDownInProgress", "its last scale-down is in progress"
    SCALE_DOWN_INTERRUPTED = "ScaleDownInterrupted", "a scale-down to {replicas} was interrupted"
    SCALED_SINCE = "ScaledSince", "and another writer scaled to {replicas}"
    SCALE_DOWN_COMPLETE = "ScaleDownComplete", "the scale-down to {replicas} is complete"
    WORKLOAD_GONE = "WorkloadGone", "the workload is gone"

    OTHER = "Other", "{text}"


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

    code: ReasonCode
    values: Mapping[str, Any] = NOTHING

    def __hash__(self) -> int:
        return hash(self.code)  # a mapping has no hash

    def __str__(self) -> str:
        return filled(self.code.text, self.values)


Reasons = tuple[Reason, ...]
"""The reasons of one decision: the first gives it its code."""

MEASURED = frozenset({ReasonCode.METRIC_IDLE, ReasonCode.METRIC_BUSY, ReasonCode.WAKE_WHEN_TRUE})
"""Reasons whose values are what was measured for one object."""


def reason(code: ReasonCode, **values: Any) -> Reason:
    """Return the reason with `values`: also times, and sequences of names."""
    return Reason(code, json_values(values))


@lru_cache(256, typed=True)
def shared_reason(code: ReasonCode, **values: str | int) -> Reason:
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
        goes_on = why.code.text.removesuffix("]").endswith(":")
    return tuple(found)
