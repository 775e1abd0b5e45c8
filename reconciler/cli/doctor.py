"""`reconciler doctor`: what every cluster needs before a run, rights included, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import click
import msgspec
from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.rights import IDENTITY, Right, impersonation_right, role_rules, secret_right
from reconciler.cli import doctor_findings as findings
from reconciler.cli.doctor_findings import (
    ClusterCheck,
    ClusterFindings,
    Finding,
    MissingRules,
    slices_of_activators,
    words_of,
)
from reconciler.cli.option_values import is_duration
from reconciler.cli.options import GENERAL, option, output_option, verb
from reconciler.cli.output import Formats, document, show
from reconciler.cli.rbac import binding, manifest_lines, needed_rights, picker_secrets, role
from reconciler.cli.run_options import REQUESTS, RunOptions
from reconciler.decide.desired_state import decide
from reconciler.decide.unexpected_errors import without_faulty
from reconciler.errors import ClusterError, ExitCode, ForbiddenError, UsageError
from reconciler.messages import counted, first_of
from reconciler.model import Run, ServiceAccount, by_key
from reconciler.observe.clusters import observe
from reconciler.policy.types import PolicySet, Tenant
from reconciler.report.groups import columns
from reconciler.worker_pool import WorkerPool

_CLUSTER_WIDE = frozenset({"namespaces", "nodes", "customresourcedefinitions"})
_WRITES = ("create", "delete", "patch")
_SHOWN = 3


def accounts(case: ClusterCheck) -> list[tuple[Tenant, ServiceAccount]]:
    """Return the tenants that have a ServiceAccount on the cluster, each with it, where one is needed."""
    fleet = case.policies.fleet
    return [
        (tenant, ServiceAccount(fleet.namespace, tenant.service_account))
        for tenant in (fleet.tenants if case.writing else ())
        if tenant.service_account is not None and tenant.has_cluster(case.name)
    ]


def tenant_account(
    preflight: Preflight, tenant: Tenant, account: ServiceAccount, namespaces: Sequence[str], rights: Sequence[Right]
) -> tuple[Finding, list[tuple[Right, str]]]:
    """Return whether writes as `account` are taken for its own, and whether it has those of `rights` that write in
    `namespaces`, all of its tenant that are there; and those that it lacks, each with the namespace.

    Raises:
        ClusterError: the server does not say.
    """

    def found(words: str, todo: str = "") -> Finding:
        return Finding("tenant", "FAIL" if todo else "OK", f"{tenant.name}: {account} {words}", todo)

    try:
        user = preflight.impersonated(account)
    except ForbiddenError as error:
        words = f"may not be impersonated ({error.words})"
        return found(words, "apply and bind the roles at the end of this report"), []
    if user != account.user:
        words = f"is impersonated, and the server takes that for {user}"
        todo = "let no proxy between drop the header Impersonate-User; until then all is written as this user"
        return found(words, todo), []
    asked = [(right, namespace) for namespace in namespaces for right in rights if _is_needed(right, tenant)]
    missing = preflight.missing(asked, account)
    if missing:
        named = first_of([f"{right} in {namespace}" for right, namespace in missing], _SHOWN)
        words = f"lacks {counted(len(missing), 'right')}: {named}"
        return found(words, "apply the roles at the end of this report"), missing
    return found(f"is impersonated, and has all rights in {counted(len(namespaces), 'namespace')}"), []


def _is_needed(right: Right, tenant: Tenant) -> bool:
    """Return whether what is written for `tenant` needs `right`; reads are the run's."""
    if right.own or right.verb not in _WRITES:
        return False
    return right.use != "placement" or (tenant.templates == "Any" and "FederatedReplicaSet" in tenant.kinds)


def wanted_rights(case: ClusterCheck) -> Iterator[tuple[Right, str]]:
    """Yield the rights that plan, and apply where asked for, need with these policies, each with its namespace.

    Raises:
        ClusterError: the cluster does not say what it serves.
    """
    for right in _used_rights(case):
        if case.writing or not (right.apply or (right == IDENTITY and case.scope.alone)):
            yield _asked(right, case)
    spaces = () if case.observed is None or not case.writing else case.observed.namespaces
    for secret in picker_secrets(case.policies_there):
        selected = (space.ref.name for space in spaces if secret.namespaces.matches(space.ref.name, space.labels))
        yield from ((secret_right(secret.name), name) for name in selected)
    for _, account in accounts(case):
        yield impersonation_right(account), account.namespace


def _used_rights(case: ClusterCheck) -> tuple[Right, ...]:
    """Return the rights that plan and apply need with these policies."""
    return needed_rights(
        case.policies_there,
        case.cluster.scale_kinds(),
        keda=case.preflight.serves("keda.sh"),
        activator=bool(slices_of_activators(case)),
    )


def tenant_findings(case: ClusterCheck) -> Iterator[Finding | MissingRules]:
    """Report on the ServiceAccounts of tenants, each with the rules that it lacks."""
    found = accounts(case)
    rights = _used_rights(case) if found else []
    observed = () if case.observed is None else case.observed.namespaces
    for tenant, account in found:
        spaces = [space.ref.name for space in observed if tenant.has_namespace(space.ref.name)]
        try:
            finding, missing = tenant_account(case.preflight, tenant, account, spaces, rights)
        except ClusterError as error:
            yield Finding("tenant", "FAIL", f"{tenant.name}: {words_of(case, error)}")
            continue
        yield finding
        yield from missing_rules(missing, account)


def _asked(right: Right, case: ClusterCheck) -> tuple[Right, str]:
    """Return `right` with its namespace; in one namespace, that Namespace is read in place of a list of them."""
    namespace = case.scope.namespace
    if right.own:
        return right, case.policies.fleet.namespace
    if (right.resource, right.verb) == ("namespaces", "list"):
        return Right("", "namespaces", "get", name=namespace) if namespace else right, namespace
    return right, "" if right.resource in _CLUSTER_WIDE else namespace


def rights_findings(case: ClusterCheck) -> Iterator[Finding | MissingRules]:
    """Report whether we have the rights that are wanted, with the rules that we lack."""
    verb, missing = "plan and apply" if case.writing else "plan", case.preflight.missing(list(wanted_rights(case)))
    if not missing:
        yield Finding("rights", "OK", f"{verb} {'have' if case.writing else 'has'} all rights")
        return
    named = [str(right) + (f" in {namespace}" if namespace else "") for right, namespace in missing]
    words = f"{len(named)} missing for {verb}: {first_of(named, _SHOWN)}"
    yield Finding("rights", "FAIL", words, "apply and bind the roles at the end of this report")
    yield from missing_rules(missing)


def missing_rules(
    missing: Iterable[tuple[Right, str]], account: ServiceAccount | None = None
) -> Iterator[MissingRules]:
    by_namespace = by_key((namespace, right) for right, namespace in missing)
    for namespace in sorted(by_namespace):
        yield MissingRules(namespace, tuple(role_rules(by_namespace[namespace])), account)


_NAME = "reconciler"
_VERBS = ("apply", "plan")


def _lines(found: Sequence[ClusterFindings]) -> Iterator[str]:
    first, *rows = (
        (one.state.ljust(4), checked.name, one.check, "; ".join(filter(None, (one.text, one.todo))))
        for checked in found
        for one in checked.findings
    )
    yield from columns(first, rows)
    for checked in found:
        yield from _roles(checked)


def _roles(cluster: ClusterFindings) -> Iterator[str]:
    """Yield the roles that are missing as manifests, a comment saying where they go."""
    for rules in cluster.missing:
        account = rules.account
        missing = role(f"{_NAME if account is None else account.name}-missing", rules.namespace, rules.rules)
        yield "---"
        yield f"# missing in {cluster.name}" + ("; bind it to the identity of the reconciler there" * (account is None))
        yield from manifest_lines(missing)
        if account is not None:
            yield "---"
            yield from manifest_lines(binding(missing, [account]))


FORMATS: Formats = {
    "text": _lines,
    "json": lambda clusters: document("Preflight", {"clusters": msgspec.to_builtins(clusters)}),
}


class _DoctorOptions(RunOptions):
    """Those of `doctor`; it refuses a snapshot, with the reason."""

    only_namespace: str | None = option(
        "With --context: check the rights in this namespace only.", "-n", "--namespace", metavar="NAME", group=GENERAL
    )
    verb: str = option(
        "The verb to check the rights for.",
        "--for",
        type=click.Choice(_VERBS),
        default="apply",
        elsewhere=is_duration,
    )
    snapshot: str | None = option("A snapshot, in place of live clusters.", metavar="DIR", hidden=True)
    output: str = output_option(*FORMATS)


@verb("doctor", _DoctorOptions, "path", "context", *REQUESTS)
def doctor_command(options: _DoctorOptions) -> int:
    """Check every cluster of the Fleet below PATH: its identity, our rights, its clock, its metrics.

    Nothing is written. Missing roles are printed as manifests that can be applied.

    # Check every cluster of the Fleet
    doctor
    # Check whether a plan has the rights it needs
    doctor --for plan
    """
    if options.snapshot is not None:
        raise UsageError(f"--snapshot: {options.snapshot} has no server, expected live clusters")
    if options.only_namespace is not None:
        if options.context is None:
            raise UsageError("--namespace: a Fleet needs rights in all namespaces, expected it beside --context")
        options = options.replace(namespace=(options.only_namespace,))
    found = checked_clusters(cases(options.policies(), options, applies=options.verb == "apply"))
    show(FORMATS[options.output](found), options.output)
    if not any(checked.answers for checked in found):
        return ExitCode.NOTHING_DONE
    failed = any(finding.state == "FAIL" for checked in found for finding in checked.findings)
    return ExitCode.PARTIAL if failed else ExitCode.DONE


def cases(policies: PolicySet, options: RunOptions, *, applies: bool) -> list[ClusterCheck]:
    """Open the clusters of the Fleet and look at them as a plan does; return what there is to check.

    Raises:
        PolicyError: the policies cannot be decided, on whatever clusters.
    """
    opened = options.live_backends(policies.fleet)
    sources = {name: Backend(name, found.cluster, error=found.error) for name, found in opened.items()}
    state = observe(policies, sources, scope=options.scope)
    decidable, desired = without_faulty(state, lambda state: decide(policies, state, Run(options.now)))
    selected = frozenset(explanation.ref for explanation in desired.explanations if explanation.selected)
    faults = {name: decidable.unreachable[name] for name in state.clusters if name not in decidable.clusters}
    return [
        ClusterCheck(
            name, backend, policies, state, options.scope, options.now, applies, selected, faults.get(name, "")
        )
        for name, backend in opened.items()
    ]


def checked_clusters(cases: Sequence[ClusterCheck]) -> list[ClusterFindings]:
    """Return the findings of each cluster, checked in parallel; a failure on one is a finding of that one."""
    pool = WorkerPool()
    found = [future.result() for future in [pool.submit(case.name, partial(checked_cluster, case)) for case in cases]]
    return [_with_twins(checked, found) for checked in found]


def checked_cluster(case: ClusterCheck) -> ClusterFindings:
    """Return what is found of one cluster; where no server answers only what needs none is checked."""
    try:
        server = case.preflight.server()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this cluster's
        answers, first, checks = False, findings.no_server_finding(case, error), ["credentials", "metrics"]
    else:
        words = f"{server.version or 'unknown version'}, {case.preflight.connection.context}"
        answers, first, checks = True, Finding("server", "OK", words), list(CHECKS)
        case = replace(case, ahead=server.ahead)
    found = [first, *(one for check in checks for one in _checked(check, case))]
    listed = tuple(one for one in found if isinstance(one, Finding))
    return ClusterFindings(
        name=case.name,
        identity=next((one.text for one in listed if (one.check, one.state) == ("identity", "OK")), ""),
        answers=answers,
        findings=listed,
        missing=tuple(one for one in found if isinstance(one, MissingRules)),
    )


CHECKS: Mapping[str, Callable[[ClusterCheck], Iterable[Finding | MissingRules]]] = {
    "tls": findings.tls_findings,
    "credentials": findings.credentials_findings,
    "identity": findings.identity_findings,
    "state": findings.state_findings,
    "clock": lambda case: [findings.clock_finding(case.ahead)],
    "rights": rights_findings,
    "tenant": tenant_findings,
    "namespace": findings.namespace_findings,
    "home": lambda case: findings.home_finding(case.name, case.policies.fleet, case.state),
    "lock": findings.lock_findings,
    "metrics": findings.metrics_findings,
    "activator": findings.activator_findings,
    "picker": findings.picker_findings,
    "objects": findings.objects_findings,
    "writers": findings.writers_findings,
}
"""What is checked on a cluster, in this order."""


def _checked(check: str, case: ClusterCheck) -> list[Finding | MissingRules]:
    """Return what one check finds; what fails in it is a finding, and the other checks go on."""
    try:
        return list(CHECKS[check](case))
    except ClusterError as error:
        return [Finding(check, "WARN" if check in ("namespace", "lock") else "FAIL", words_of(case, error))]
    except Exception as error:  # noqa: BLE001 - the one place where a check fails: it alone has failed
        return [findings.unexpected(check, error)]


def _with_twins(cluster: ClusterFindings, all_of_them: Sequence[ClusterFindings]) -> ClusterFindings:
    twins = [other.name for other in all_of_them if other is not cluster and cluster.identity == other.identity != ""]
    if not twins:
        return cluster
    twin = Finding("identity", "FAIL", f"the same cluster as {', '.join(twins)}", "name each cluster once in the Fleet")
    return replace(cluster, findings=(*cluster.findings, twin))
