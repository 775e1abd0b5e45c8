"""The findings of `doctor` for each cluster, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.backends.kubernetes.auth import WEAKNESSES
from reconciler.backends.kubernetes.lease import NAME as LEASE
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.rbac import Right, impersonation_right, role_rules, secret_right
from reconciler.backends.kubernetes.tokens import TokenClaims
from reconciler.backends.protocols import ACTIVATOR_SELECTOR, LEASES, NAMESPACES, Cluster, MetricsSource
from reconciler.cli.needed_rights import needed_rights, picker_secrets
from reconciler.cli.tenant_accounts import TenantAccount, accounts_on, tenant_account
from reconciler.decide.annotations import format_time
from reconciler.decide.decide import decide
from reconciler.decide.freeze import freeze_reason, frozen
from reconciler.decide.idling.contested import remedy, tools_of
from reconciler.decide.placement.status import home_of
from reconciler.errors import ClusterError, ForbiddenError, NotFoundError, reason_of
from reconciler.model import Lease, ObjectRef, ObservedCluster, ObservedState, QueryAnswer, Run, ServiceAccount
from reconciler.observe.clusters import Scope
from reconciler.pipeline import isolated
from reconciler.policy.types import Fleet, PolicySet, Writes
from reconciler.report.wording import age
from reconciler.worker_pool import WorkerPool

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
_CLUSTER_WIDE = frozenset({"namespaces", "nodes", "customresourcedefinitions"})


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


class ClusterFindings(Struct, frozen=True):
    """All that was found of one cluster; `answers`: it said something at all."""

    cluster: str
    findings: tuple[Finding, ...]
    missing: tuple[MissingRules, ...] = ()
    answers: bool = True
    identity: str = ""


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


def with_selected(cases: Sequence[ClusterCheck]) -> list[ClusterCheck]:
    """Return `cases` with what policies select, and why the objects of a cluster cannot be decided.

    Raises:
        PolicyError: the policies cannot be decided, on whatever clusters.
    """
    first = cases[0]
    state, desired = isolated(first.state, lambda state: decide(first.policies, state, Run(first.now)))
    selected = frozenset(one.ref for one in desired.explanations if one.selected)
    faults = {name: state.unreachable[name] for name in first.state.clusters if name not in state.clusters}
    return [replace(case, selected=selected, fault=faults.get(case.name, "")) for case in cases]


def checked_clusters(cases: Sequence[ClusterCheck]) -> list[ClusterFindings]:
    """Return the findings of each cluster, checked in parallel; a failure on one is a finding of that one."""
    pool = WorkerPool()
    chosen = with_selected(cases)
    found = [one.result() for one in [pool.submit(case.name, partial(checked_cluster, case)) for case in chosen]]
    return [_with_twins(one, found) for one in found]


def checked_cluster(case: ClusterCheck) -> ClusterFindings:
    """Return what is found of one cluster; where nothing answers only its metrics source is asked too."""
    try:
        server = case.preflight.server()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this cluster's
        others = (*_checked("credentials", _credentials, case), *_checked("metrics", _metrics, case))
        return ClusterFindings(case.name, (_no_server(case, error), *others), answers=False)
    found = server.version or "unknown version"
    version = Finding("server", "OK", f"{found}, {case.preflight.connection.context}")
    identity, uid = _identity(case)
    missing = _missing_rights(case)
    tenants: list[TenantAccount] = []
    findings = (
        version,
        *_tls(case),
        *_checked("credentials", _credentials, case),
        identity,
        *_state(case),
        clock_finding(server.ahead),
        _rights(case, missing),
        *_checked("tenant", partial(_tenants, tenants), case),
        *_checked("namespace", _own_namespace, case),
        *_checked("home", lambda case: home_finding(case.name, case.policies.fleet, case.state), case),
        *_checked("lock", _lock, case),
        *_checked("metrics", _metrics, case),
        *_checked("activator", _activators, case),
        *_objects(case),
        *_checked("writers", _other_writers, case),
    )
    rules = _rules(missing) if isinstance(missing, list) else ()
    of_tenants = (rule for one in tenants for rule in _rules(one.missing, one.account))
    return ClusterFindings(case.name, findings, (*rules, *of_tenants), identity=uid)


def _checked(check: str, find: Callable[[ClusterCheck], Iterable[Finding]], case: ClusterCheck) -> Iterator[Finding]:
    """Yield what one check finds; what fails unexpectedly in it is a finding, and the other checks go on."""
    try:
        yield from list(find(case))
    except Exception as error:  # noqa: BLE001 - the one place where a check fails: it alone has failed
        yield _unexpected(check, error)


def _unexpected(check: str, error: Exception) -> Finding:
    return Finding(check, "FAIL", reason_of(error), "please report it")


def _no_server(case: ClusterCheck, error: Exception) -> Finding:
    if not isinstance(error, ClusterError):
        return _unexpected("server", error)
    todo = f"check {case.preflight.connection.context}, and the way to its server"
    return Finding("server", "FAIL", str(error).removeprefix(f"{case.name}: "), todo)


def _state(case: ClusterCheck) -> Iterator[Finding]:
    """Report what the Fleet lets be written there, where that is not everything."""
    if case.writes is Writes.NOTHING:
        words = "ReadOnly: nothing is written there, so only the rights of plan are checked"
        yield Finding("state", "WARN", words)
    elif case.writes is Writes.WAKES:
        yield Finding("state", "WARN", "Frozen: only wakes and metadata are written there")
    cluster = frozen(case.policies.fleet, case.state, case.now).cluster(case.name)
    for freeze in () if cluster is None else cluster.freezes:
        where = f"namespace {freeze.namespace}: " if freeze.namespace else ""
        yield Finding("freeze", "WARN", f"{where}{freeze_reason(freeze)}; only wakes are written")


def _objects(case: ClusterCheck) -> Iterator[Finding]:
    if case.fault:
        yield Finding("objects", "FAIL", f"cannot be decided: {case.fault}", "please report it")


def home_finding(cluster: str, fleet: Fleet, state: ObservedState) -> Iterator[Finding]:
    """Report the cluster that stands in for home that it does."""
    if cluster != fleet.home and home_of(fleet, state).cluster == cluster:
        yield Finding("home", "WARN", f"keeps the records of the home cluster {fleet.home}, which cannot be read")


def _with_twins(one: ClusterFindings, all_of_them: Sequence[ClusterFindings]) -> ClusterFindings:
    twins = [other.cluster for other in all_of_them if other is not one and one.identity == other.identity != ""]
    if not twins:
        return one
    twin = Finding("identity", "FAIL", f"the same cluster as {', '.join(twins)}", "name each cluster once in the Fleet")
    return replace(one, findings=(*one.findings, twin))


def _tls(case: ClusterCheck) -> Iterator[Finding]:
    weakness = case.preflight.connection.weakness
    if weakness:
        yield Finding("tls", "FAIL", WEAKNESSES[weakness], _SAFE[weakness])


def _credentials(case: ClusterCheck) -> Iterator[Finding]:
    """Report when the token in the kubeconfig expires; one that something else renews is none of these."""
    with suppress(ClusterError):  # what is wrong with a kubeconfig is a finding of the server
        claims = case.preflight.token()
        if claims is not None:
            yield token_finding(case.name, claims, case.now)


def token_finding(cluster: str, claims: TokenClaims, now: datetime) -> Finding:
    """Return what is to be known of a token: soon it expires, which is a warning, or not."""
    at = format_time(claims.expires)
    if now < max(claims.half_life, claims.expires - EXPIRES_SOON):
        return Finding("credentials", "OK", f"the token expires at {at}")
    todo = f"`reconciler connect {cluster}`, or have it renewed by deploy/components/rotation"
    if now >= claims.expires:
        return Finding("credentials", "FAIL", f"the token expired at {at}", todo)
    return Finding("credentials", "WARN", f"the token expires at {at}, in {age(claims.expires - now)}", todo)


def _identity(case: ClusterCheck) -> tuple[Finding, str]:
    try:
        uid = case.cluster.identity()
    except ClusterError as error:
        state: State = "WARN" if case.scope.alone and isinstance(error, ForbiddenError) else "FAIL"
        return Finding("identity", state, _words(case, error), "needed for a Fleet and for apply"), ""
    except Exception as error:  # noqa: BLE001 - it alone has failed
        return _unexpected("identity", error), ""
    return Finding("identity", "OK", uid), uid


def clock_finding(ahead: timedelta | None) -> Finding:
    if ahead is None:
        return Finding("clock", "WARN", "the server sends no Date header")
    seconds = abs(ahead.total_seconds())
    if abs(ahead) <= CLOCK_TOLERANCE:
        return Finding("clock", "OK", f"within {CLOCK_TOLERANCE.total_seconds():g} s of the clock of this machine")
    where = "ahead of" if ahead > timedelta() else "behind"
    return Finding(
        "clock",
        "FAIL",
        f"{seconds:.0f} s {where} the clock of this machine, which decides schedules and ages",
        "synchronize both by NTP",
    )


def _missing_rights(case: ClusterCheck) -> list[tuple[Right, str]] | Exception:
    try:
        return case.preflight.missing(list(wanted_rights(case)))
    except Exception as error:  # noqa: BLE001 - one of the findings
        return error


def wanted_rights(case: ClusterCheck) -> Iterator[tuple[Right, str]]:
    """Yield the rights that plan, and apply where asked for, need with these policies, each with its namespace.

    Raises:
        ClusterError: the cluster does not say what it serves.
    """
    for right in _used_rights(case):
        if case.writing or not right.apply:
            yield _scoped(right, case.scope.namespace), _namespace_of(right, case)
    if case.writing:
        yield from _secret_rights(case)
        for _, account in accounts_on(case.name, case.policies.fleet):
            yield impersonation_right(account), account.namespace


def _used_rights(case: ClusterCheck) -> tuple[Right, ...]:
    """Return the rights that plan and apply need with these policies."""
    return needed_rights(
        case.policies_there,
        case.cluster.scale_kinds(),
        keda=case.preflight.serves("keda.sh"),
        activator=bool(_slices_of_activators(case)),
    )


def _secret_rights(case: ClusterCheck) -> Iterator[tuple[Right, str]]:
    """Yield the rights to read the Secrets of pod pickers, in the namespaces that are there."""
    spaces = () if case.observed is None else case.observed.namespaces
    for secret in picker_secrets(case.policies_there):
        for space in spaces:
            if secret.namespaces.matches(space.ref.name, space.labels):
                yield secret_right(secret.name), space.ref.name


def _tenants(found: list[TenantAccount], case: ClusterCheck) -> Iterator[Finding]:
    """Report on the ServiceAccounts of tenants, and add what is known of each to `found`."""
    accounts = accounts_on(case.name, case.policies.fleet) if case.writing else []
    rights = _used_rights(case) if accounts else []
    observed = () if case.observed is None else case.observed.namespaces
    for tenant, account in accounts:
        spaces = [one.ref.name for one in observed if tenant.has_namespace(one.ref.name)]
        try:
            one = tenant_account(case.preflight, tenant, account, spaces, rights)
        except ClusterError as error:
            yield Finding("tenant", "FAIL", f"{tenant.name}: {_words(case, error)}")
            continue
        found.append(one)
        yield Finding("tenant", "FAIL" if one.todo else "WARN" if one.doubtful else "OK", one.text, one.todo)


def _scoped(right: Right, namespace: str) -> Right:
    """In one namespace, that Namespace is read in place of a list of them."""
    if not namespace or (right.resource, right.verb) != ("namespaces", "list"):
        return right
    return Right("", "namespaces", "get", name=namespace)


def _namespace_of(right: Right, case: ClusterCheck) -> str:
    if right.own:
        return case.policies.fleet.namespace
    if (right.resource, right.verb) == ("namespaces", "list"):
        return case.scope.namespace
    return "" if right.resource in _CLUSTER_WIDE else case.scope.namespace


def _rights(case: ClusterCheck, missing: list[tuple[Right, str]] | Exception) -> Finding:
    verb = "plan and apply" if case.writing else "plan"
    if isinstance(missing, ClusterError):
        return Finding("rights", "FAIL", _words(case, missing), "")
    if isinstance(missing, Exception):
        return _unexpected("rights", missing)
    if not missing:
        return Finding("rights", "OK", f"{verb} {'have' if case.writing else 'has'} all rights")
    named = [str(right) + (f" in {namespace}" if namespace else "") for right, namespace in missing]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return Finding(
        "rights",
        "FAIL",
        f"{len(named)} missing for {verb}: {', '.join(named[:3])}{more}",
        "apply and bind the roles at the end of this report",
    )


def _rules(missing: Iterable[tuple[Right, str]], account: ServiceAccount | None = None) -> tuple[MissingRules, ...]:
    by_namespace: dict[str, list[Right]] = {}
    for right, namespace in missing:
        by_namespace.setdefault(namespace, []).append(right)
    return tuple(
        MissingRules(namespace, tuple(role_rules(by_namespace[namespace])), account)
        for namespace in sorted(by_namespace)
    )


def _own_namespace(case: ClusterCheck) -> Iterator[Finding]:
    name = case.policies.fleet.namespace
    try:
        known = case.observed is not None and any(space.ref.name == name for space in case.observed.namespaces)
        if not known:
            case.cluster.get(NAMESPACES, "", name)
    except NotFoundError:
        state: State = "FAIL" if case.writes is not Writes.NOTHING else "WARN"
        yield Finding("namespace", state, f"there is no namespace {name}", f"kubectl create namespace {name}")
    except ClusterError as error:
        yield Finding("namespace", "WARN", _words(case, error), "")
    else:
        yield Finding("namespace", "OK", f"{name} exists")


def _lock(case: ClusterCheck) -> Iterator[Finding]:
    namespace = case.policies.fleet.namespace
    try:
        holder = case.preflight.lock_holder(namespace)
    except ClusterError as error:
        yield Finding("lock", "WARN", _words(case, error), "")
        return
    if holder is None:
        yield Finding("lock", "OK", f"Lease {namespace}/{LEASE} is free")
        return
    since = "" if holder.renewed_at is None else f", renewed {age(case.now - holder.renewed_at)} ago"
    yield Finding("lock", "WARN", f"Lease {namespace}/{LEASE} is held by {holder.name}{since}", "")


def _slices_of_activators(case: ClusterCheck) -> Counter[str]:
    """Return how many EndpointSlices each activator has, by the uid of its Pod."""
    slices = () if case.observed is None else case.observed.endpoint_slices
    return Counter(one.activator for one in slices if one.activator)


def _activators(case: ClusterCheck) -> Iterator[Finding]:
    """Report which activators live, and what dead ones left; that there is none where policies wait for signals."""
    namespace = case.policies.fleet.namespace
    try:
        leases = case.cluster.list(LEASES, namespace=namespace, labels=ACTIVATOR_SELECTOR)
    except ClusterError as error:
        yield Finding("activator", "WARN", _words(case, error), f"a run counts it as none in {namespace}")
        return
    yield activator_finding(leases, case.cluster.now(), _slices_of_activators(case), case.policies)


def activator_finding(
    leases: Sequence[Lease], now: datetime, slices: Mapping[str, int], policies: PolicySet
) -> Finding:
    """Return what is found of the activators with these `leases`; `slices` are EndpointSlices by activator."""
    alive = {
        one.activator: now - one.renewed_at
        for one in leases
        if one.activator and one.renewed_at is not None and one.is_fresh(now)
    }
    waits = [policy.name for policy in policies.idling if policy.wake == "OnSignal"]
    words = "none lives"
    if alive:
        renewed = ", ".join(f"{max(0, round(age.total_seconds()))} s" for age in sorted(alive.values()))
        words = f"{len(alive)} live, renewed {renewed} ago, {sum(slices.get(pod, 0) for pod in alive)} EndpointSlices"
    elif waits:
        words = f"none lives, and policies wait for signals (wake: OnSignal): {', '.join(waits)}"
    left = sum(count for pod, count in slices.items() if pod not in alive)
    words += f"; {left} EndpointSlices of others that are gone" if left else ""
    return Finding("activator", "WARN" if left or (waits and not alive) else "OK", words)


def _metrics(case: ClusterCheck) -> Iterator[Finding]:
    asks = bool(case.policies.query_keys(case.name))
    source = case.backend.metrics
    if source is None:
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


def _other_writers(case: ClusterCheck) -> Iterator[Finding]:
    """Report who else writes replicas of what policies select."""
    observed = case.observed
    if observed is None or case.fault:
        return
    selected = [workload for workload in observed.workloads if workload.ref in case.selected]
    targets = {(one.ref.namespace, *one.target) for one in observed.autoscalers}
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


def _words(case: ClusterCheck, error: ClusterError) -> str:
    """Return what an error says; what is forbidden is reported among the rights, with the rules."""
    if isinstance(error, ForbiddenError):
        return "unknown: reading it is forbidden"
    return str(error).removeprefix(f"{case.name}: ")
