"""What `reconciler doctor` finds on one cluster, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Literal

from msgspec import Struct

from reconciler.backends.backend import Backend
from reconciler.backends.credentials.connection import WEAKNESSES
from reconciler.backends.kubernetes.cluster_lock import NAME as LEASE
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.tokens import TokenClaims
from reconciler.backends.protocols import ACTIVATOR_SELECTOR, LEASES, NAMESPACES, Cluster, MetricsSource, NoMetrics
from reconciler.decide.annotations import PICKER_ENABLED, Key
from reconciler.decide.downscale.decreases_by_others import replicas_in, seen_replicas
from reconciler.decide.freeze import freeze_reason, frozen
from reconciler.decide.idling.contested import remedy, tools_of
from reconciler.decide.placement.home_config_maps import home_of
from reconciler.errors import ClusterError, ForbiddenError, NotFoundError, reason_of
from reconciler.messages import counted
from reconciler.model import Lease, ObjectRef, ObservedCluster, ObservedState, QueryAnswer, Run, ServiceAccount
from reconciler.observe.needed_objects import Scope
from reconciler.policy.types import Fleet, PolicySet, Writes
from reconciler.report.times import ReasonWords, age, ago

State = Literal["OK", "WARN", "FAIL"]

CLOCK_TOLERANCE = timedelta(seconds=5)
SAMPLES_TOLERANCE = timedelta(minutes=5)
"""A query looks back five minutes for the newest sample of a series."""

EXPIRES_SOON = timedelta(days=7)
"""A token that expires within this is warned of; one that is valid for less than twice as long, in its second half."""

_OURS = "reconciler"
_SAFE = {
    "insecure-skip-tls-verify": "give it certificate-authority-data in place of insecure-skip-tls-verify",
    "http": "give it a server with https://",
}


class Finding(Struct, frozen=True):
    """One thing found. A FAIL needs the action `todo`; a WARN is good to know."""

    check: str
    state: State
    text: str
    todo: str = ""


class MissingRules(Struct, frozen=True):
    """The rules that are missing, in a Role of `namespace`, or with "" in a ClusterRole.

    They are missing for `account`, the ServiceAccount of a tenant, or with None for ourselves.
    """

    namespace: str
    rules: tuple[Mapping[str, Any], ...]
    account: ServiceAccount | None = None


class ClusterFindings(Struct, frozen=True, kw_only=True):
    """All that was found of one cluster, as the JSON form has it; `answers`: it said something at all."""

    name: str
    identity: str = ""
    answers: bool = True
    findings: tuple[Finding, ...]
    missing: tuple[MissingRules, ...] = ()


class ClusterCheck(Struct, frozen=True):
    """What the findings of one cluster rest on."""

    name: str
    backend: Backend
    policies: PolicySet
    state: ObservedState
    scope: Scope
    now: datetime
    applies: bool
    selected: frozenset[ObjectRef] = frozenset()  # what policies select, on all clusters
    fault: str = ""  # why its objects cannot be decided
    ahead: timedelta | None = None  # how far the clock of its server is ahead of ours, None where it does not say

    @property
    def policies_there(self) -> PolicySet:
        """The policies that may select something there."""
        cluster = self.policies.fleet.cluster(self.name)
        return self.policies if cluster is None else self.policies.on(cluster)

    @property
    def writes(self) -> Writes:
        cluster = self.policies.fleet.cluster(self.name)
        return Writes.EVERYTHING if cluster is None else cluster.writes

    @property
    def writing(self) -> bool:
        """Whether the rights to write are needed there."""
        return self.applies and self.writes is not Writes.NOTHING

    @property
    def preflight(self) -> Preflight:
        assert self.backend.preflight is not None
        return self.backend.preflight

    @property
    def cluster(self) -> Cluster:
        assert self.backend.cluster is not None
        return self.backend.cluster

    @property
    def observed(self) -> ObservedCluster | None:
        return self.state.clusters.get(self.name)


def unexpected(check: str, error: Exception) -> Finding:
    return Finding(check, "FAIL", reason_of(error), "please report it")


def no_server_finding(case: ClusterCheck, error: Exception) -> Finding:
    if not isinstance(error, ClusterError):
        return unexpected("server", error)
    todo = f"check {case.preflight.connection.context}, and the way to its server"
    return Finding("server", "FAIL", str(error).removeprefix(f"{case.name}: "), todo)


def state_findings(case: ClusterCheck) -> Iterator[Finding]:
    """Report what the Fleet lets be written there, where that is not everything."""
    if case.writes is Writes.NOTHING:
        words = "ReadOnly: nothing is written there, so only the rights of plan are checked"
        yield Finding("state", "WARN", words)
    elif case.writes is Writes.WAKES:
        yield Finding("state", "WARN", "Frozen: only wakes and metadata are written there")
    cluster = frozen(case.policies.fleet, case.state, case.now).cluster(case.name)
    for freeze in () if cluster is None else cluster.freezes:
        where = f"namespace {freeze.namespace}: " if freeze.namespace else ""
        words = ReasonWords(case.now, names_zone=True).reason((freeze_reason(freeze),))
        yield Finding("freeze", "WARN", f"{where}{words}; only wakes are written")


def objects_findings(case: ClusterCheck) -> Iterator[Finding]:
    if case.fault:
        yield Finding("objects", "FAIL", f"cannot be decided: {case.fault}", "please report it")


def home_finding(cluster: str, fleet: Fleet, state: ObservedState) -> Iterator[Finding]:
    """Report the cluster that stands in for home that it does."""
    if cluster != fleet.home and home_of(fleet, state).cluster == cluster:
        yield Finding("home", "WARN", f"keeps the records of the home cluster {fleet.home}, which cannot be read")


def tls_findings(case: ClusterCheck) -> Iterator[Finding]:
    weakness = case.preflight.connection.weakness
    if weakness:
        yield Finding("tls", "FAIL", WEAKNESSES[weakness], _SAFE[weakness])


def credentials_findings(case: ClusterCheck) -> Iterator[Finding]:
    """Report when the token in the kubeconfig expires; one that something else renews is none of these."""
    with suppress(ClusterError):  # what is wrong with a kubeconfig is a finding of the server
        claims = case.preflight.token()
        if claims is not None:
            yield token_finding(case.name, claims, case.now)


def token_finding(cluster: str, claims: TokenClaims, now: datetime) -> Finding:
    """Return what is to be known of a token: soon it expires, which is a warning, or not."""
    at = ReasonWords(now, names_zone=True).time(claims.expires)
    if now < max(claims.half_life, claims.expires - EXPIRES_SOON):
        return Finding("credentials", "OK", f"the token expires at {at}")
    todo = f"`reconciler connect {cluster}`, or have it renewed by deploy/components/rotation"
    if now >= claims.expires:
        return Finding("credentials", "FAIL", f"the token expired at {at}", todo)
    return Finding("credentials", "WARN", f"the token expires at {at}, in {age(claims.expires - now)}", todo)


def identity_findings(case: ClusterCheck) -> Iterator[Finding]:
    try:
        yield Finding("identity", "OK", case.cluster.identity())
    except ClusterError as error:
        state: State = "WARN" if case.scope.alone and isinstance(error, ForbiddenError) else "FAIL"
        yield Finding("identity", state, words_of(case, error), "needed for a Fleet and for apply")


def clock_finding(ahead: timedelta | None) -> Finding:
    if ahead is None:
        return Finding("clock", "WARN", "the server sends no Date header")
    if abs(ahead) <= CLOCK_TOLERANCE:
        return Finding("clock", "OK", f"within {CLOCK_TOLERANCE.total_seconds():g} s of the clock of this machine")
    off = f"{abs(ahead.total_seconds()):.0f} s {'ahead of' if ahead > timedelta() else 'behind'}"
    words = f"{off} the clock of this machine, which decides schedules and ages"
    return Finding("clock", "FAIL", words, "synchronize both by NTP")


def namespace_findings(case: ClusterCheck) -> Iterator[Finding]:
    name = case.policies.fleet.namespace
    try:
        known = case.observed is not None and any(space.ref.name == name for space in case.observed.namespaces)
        if not known:
            case.cluster.get(NAMESPACES, "", name)
    except NotFoundError:
        state: State = "FAIL" if case.writes is not Writes.NOTHING else "WARN"
        yield Finding("namespace", state, f"there is no namespace {name}", f"kubectl create namespace {name}")
    else:
        yield Finding("namespace", "OK", f"{name} exists")


def lock_findings(case: ClusterCheck) -> Iterator[Finding]:
    namespace = case.policies.fleet.namespace
    lock = case.preflight.lock(namespace)
    if not lock.holder_identity:
        yield Finding("lock", "OK", f"Lease {namespace}/{LEASE} is free")
        return
    since = "" if lock.renewed_at is None else f", renewed {ago(case.now - lock.renewed_at)}"
    yield Finding("lock", "WARN", f"Lease {namespace}/{LEASE} is held by {lock.holder_identity}{since}", "")


def slices_of_activators(case: ClusterCheck) -> Counter[str]:
    """Return how many EndpointSlices each activator has, by the uid of its Pod."""
    slices = () if case.observed is None else case.observed.endpoint_slices
    return Counter(endpoints.activator for endpoints in slices if endpoints.activator)


def activator_findings(case: ClusterCheck) -> Iterator[Finding]:
    """Report which activators live, and what dead ones left; that there is none where policies wait for signals."""
    namespace = case.policies.fleet.namespace
    try:
        leases = case.cluster.list(LEASES, namespace=namespace, labels=ACTIVATOR_SELECTOR)
    except ClusterError as error:
        yield Finding("activator", "WARN", words_of(case, error), f"a run counts it as none in {namespace}")
        return
    yield activator_finding(leases, case.cluster.now(), slices_of_activators(case), case.policies)


def activator_finding(
    leases: Sequence[Lease], now: datetime, slices: Mapping[str, int], policies: PolicySet
) -> Finding:
    """Return what is found of the activators with these `leases`; `slices` are EndpointSlices by activator."""
    alive = {
        lease.activator: now - lease.renewed_at
        for lease in leases
        if lease.activator and lease.renewed_at is not None and lease.is_fresh(now)
    }
    waits = [policy.name for policy in policies.idling if policy.wake == "OnSignal"]
    words = "none lives"
    if alive:
        ours = sum(slices.get(pod, 0) for pod in alive)
        renewed = ", ".join(f"{max(0, round(age.total_seconds()))} s" for age in sorted(alive.values()))
        words = f"{len(alive)} live, renewed {renewed} ago, {counted(ours, 'EndpointSlice')}"
    elif waits:
        words = f"none lives, and policies wait for signals (wake: OnSignal): {', '.join(waits)}"
    left = sum(count for pod, count in slices.items() if pod not in alive)
    words += f"; {counted(left, 'EndpointSlice')} of others that are gone" if left else ""
    return Finding("activator", "WARN" if left or (waits and not alive) else "OK", words)


def picker_findings(case: ClusterCheck) -> Iterator[Finding]:
    """Report of how many workloads a picker reviews the decreases, where one was installed."""
    if case.observed is None:
        return
    state = ObservedState({case.name: case.observed})
    for found in seen_replicas(case.policies, state, (), Run(case.now, "doctor"), whole=True):
        count = len(replicas_in(found.after))
        words = f"one was installed, and chooses the pods of {counted(count, 'workload')}"
        todo = f"label a namespace with {Key.PICKER_LABEL}={PICKER_ENABLED} in which a DownscalePolicy chooses pods"
        yield Finding("picker", "OK" if count else "WARN", words, "" if count else todo)


def metrics_findings(case: ClusterCheck) -> Iterator[Finding]:
    asks = bool(case.policies.query_keys(case.name))
    source = case.backend.metrics
    if source == NoMetrics():
        words = "no Prometheus is configured"
        if asks:
            yield Finding("metrics", "FAIL", f"{words}, but policies have queries", "set prometheus.url")
        else:
            yield Finding("metrics", "OK", f"{words}, and no policy has queries")
        return
    answer = source.query("vector(1)")
    if answer.error or not answer.samples:
        yield Finding(
            "metrics", "FAIL", answer.error or "no result for the query vector(1)", "check prometheus of the Fleet"
        )
        return
    yield _freshness(source, case.now)


def _freshness(source: MetricsSource, now: datetime) -> Finding:
    """Judge by series `up`, which every Prometheus that scrapes anything has."""
    newest: QueryAnswer = source.query("max(timestamp(up))")
    if not newest.samples:
        return Finding("metrics", "WARN", "answers, but has no series `up`: nothing was scraped in five minutes")
    age = timedelta(seconds=now.timestamp() - newest.samples[0].value)
    words = f"answers, its newest sample is {max(0.0, age.total_seconds()):.0f} s old"
    return Finding("metrics", "OK" if age <= SAMPLES_TOLERANCE else "FAIL", words)


def writers_findings(case: ClusterCheck) -> Iterator[Finding]:
    """Report who else writes replicas of what policies select."""
    observed = case.observed
    if observed is None or case.fault:
        return
    selected = [workload for workload in observed.workloads if workload.ref in case.selected]
    targets = {(autoscaler.ref.namespace, *autoscaler.target) for autoscaler in observed.autoscalers}
    scaled = [one for one in selected if (one.ref.namespace, one.ref.kind, one.ref.name) in targets]
    keda = [one for one in observed.workloads if one.scale_target is not None]
    managers = Counter(
        one.replicas_writer.manager
        for one in selected
        if one.replicas_writer is not None and one.replicas_writer.manager != _OURS
    )
    parts = [
        *([f"{len(scaled)} have a HorizontalPodAutoscaler"] if scaled else []),
        *([f"{len(keda)} ScaledObjects in the cluster"] if keda else []),
        *(f"{count} last written by {manager or 'an unknown manager'}" for manager, count in sorted(managers.items())),
    ]
    if not parts:
        yield Finding("writers", "OK", f"no other writer of replicas among {len(selected)} selected workloads")
        return
    remedies = "; ".join(f"{by}: {remedy(by, theirs)}" for by, theirs in tools_of(selected).items())
    yield Finding("writers", "WARN", f"of {len(selected)} selected workloads: {', '.join(parts)}", remedies)


def words_of(case: ClusterCheck, error: ClusterError) -> str:
    """Return what an error says; what is forbidden is reported among the rights, with the rules."""
    if isinstance(error, ForbiddenError):
        return "unknown: reading it is forbidden"
    return str(error).removeprefix(f"{case.name}: ")
