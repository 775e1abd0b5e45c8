"""`reconciler doctor`: what every cluster needs before a run, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.cli.doctor_findings import (
    CHECKS,
    ClusterCheck,
    ClusterFindings,
    Finding,
    clock_finding,
    credentials_findings,
    identity_finding,
    metrics_findings,
    no_server_finding,
    state_findings,
    tls_findings,
    unexpected,
)
from reconciler.cli.doctor_rights import TenantAccount, missing_rights, missing_rules, rights_finding, tenant_findings
from reconciler.cli.options import GENERAL, option, output_option, verb
from reconciler.cli.output import show_document, show_lines
from reconciler.cli.rbac import binding, manifest_lines, role
from reconciler.cli.run_options import REQUESTS, RunOptions
from reconciler.decide.decide import decide
from reconciler.errors import UsageError
from reconciler.exit_codes import ExitCode
from reconciler.model import Run
from reconciler.observe.clusters import observe
from reconciler.pipeline import isolated
from reconciler.policy.kinds.fields import parse_duration
from reconciler.policy.types import PolicySet
from reconciler.worker_pool import WorkerPool

_NAME = "reconciler"
_VERBS = ("apply", "plan")


class DoctorOptions(RunOptions):
    """Those of `doctor`; it refuses a snapshot, with the reason."""

    only_namespace: str | None = option(
        "With --context: check the rights in this namespace only.", "-n", "--namespace", metavar="NAME", group=GENERAL
    )
    verb: str = option(
        "The verb to check the rights for.",
        "--for",
        type=click.Choice(_VERBS),
        default="apply",
        elsewhere=lambda text: parse_duration(text) is not None,
    )
    snapshot: str | None = option("A snapshot, in place of live clusters.", metavar="DIR", hidden=True)
    output: str = output_option("text", "json")


@verb("doctor", DoctorOptions, "path", "context", *REQUESTS)
def doctor_command(options: DoctorOptions) -> int:
    """Check every cluster of the Fleet below PATH: its identity, our rights, its clock, its metrics.

    Nothing is written. Missing roles are printed as manifests that can be applied.
    """
    if options.snapshot is not None:
        raise UsageError(f"--snapshot: {options.snapshot} has no server, expected live clusters")
    if options.only_namespace is not None:
        if options.context is None:
            raise UsageError("--namespace: a Fleet needs rights in all namespaces, expected it beside --context")
        options = options.replace(namespace=(options.only_namespace,))
    found = checked_clusters(cases(options.policies(), options, applies=options.verb == "apply"))
    if options.output == "json":
        show_document("Examination", {"clusters": [_document(checked) for checked in found]}, options.output)
    else:
        show_lines(_lines(found))
    return exit_of(found)


def cases(policies: PolicySet, options: RunOptions, *, applies: bool) -> list[ClusterCheck]:
    """Open the clusters of the Fleet and look at them as a plan does; return what there is to check.

    Raises:
        PolicyError: the policies cannot be decided, on whatever clusters.
    """
    opened = options.live_backends(policies.fleet)
    sources = {name: Backend(name, found.cluster, error=found.error) for name, found in opened.items()}
    state = observe(policies, sources, scope=options.scope)
    decidable, desired = isolated(state, lambda state: decide(policies, state, Run(options.now)))
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
    """Return what is found of one cluster; where nothing answers only its metrics source is asked too."""
    try:
        server = case.preflight.server()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this cluster's
        others = (*_checked("credentials", credentials_findings, case), *_checked("metrics", metrics_findings, case))
        return ClusterFindings(case.name, (no_server_finding(case, error), *others), answers=False)
    found = server.version or "unknown version"
    version = Finding("server", "OK", f"{found}, {case.preflight.connection.context}")
    identity, uid = identity_finding(case)
    missing = missing_rights(case)
    tenants: list[TenantAccount] = []
    findings = (
        version,
        *tls_findings(case),
        *_checked("credentials", credentials_findings, case),
        identity,
        *state_findings(case),
        clock_finding(server.ahead),
        rights_finding(case, missing),
        *_checked("tenant", partial(tenant_findings, tenants), case),
        *(finding for check, find in CHECKS.items() for finding in _checked(check, find, case)),
    )
    rules = missing_rules(missing) if isinstance(missing, list) else ()
    of_tenants = (rule for account in tenants for rule in missing_rules(account.missing, account.account))
    return ClusterFindings(case.name, findings, (*rules, *of_tenants), identity=uid)


def _checked(check: str, find: Callable[[ClusterCheck], Iterable[Finding]], case: ClusterCheck) -> Iterator[Finding]:
    """Yield what one check finds; what fails unexpectedly in it is a finding, and the other checks go on."""
    try:
        yield from list(find(case))
    except Exception as error:  # noqa: BLE001 - the one place where a check fails: it alone has failed
        yield unexpected(check, error)


def _with_twins(one: ClusterFindings, all_of_them: Sequence[ClusterFindings]) -> ClusterFindings:
    twins = [other.cluster for other in all_of_them if other is not one and one.identity == other.identity != ""]
    if not twins:
        return one
    twin = Finding("identity", "FAIL", f"the same cluster as {', '.join(twins)}", "name each cluster once in the Fleet")
    return replace(one, findings=(*one.findings, twin))


def exit_of(found: Sequence[ClusterFindings]) -> ExitCode:
    """Return the exit code: 1 where no cluster answers, 6 where a check fails."""
    if not any(checked.answers for checked in found):
        return ExitCode.NOTHING_DONE
    failed = any(finding.state == "FAIL" for checked in found for finding in checked.findings)
    return ExitCode.PARTIAL if failed else ExitCode.DONE


def _lines(found: Sequence[ClusterFindings]) -> Iterator[str]:
    clusters = max(len(checked.cluster) for checked in found)
    checks = max(len(finding.check) for checked in found for finding in checked.findings)
    for checked in found:
        for finding in checked.findings:
            yield f"{finding.state:<4}  {checked.cluster:<{clusters}}  {finding.check:<{checks}}  {_said(finding)}"
    for checked in found:
        yield from _roles(checked)


def _said(finding: Finding) -> str:
    return f"{finding.text}; {finding.todo}" if finding.todo else finding.text


def _roles(one: ClusterFindings) -> Iterator[str]:
    """Yield the roles that are missing as manifests, a comment saying where they go."""
    for rules in one.missing:
        account = rules.account
        missing = role(f"{_NAME if account is None else account.name}-missing", rules.namespace, rules.rules)
        yield "---"
        yield f"# missing in {one.cluster}" + ("; bind it to the identity of the reconciler there" * (account is None))
        yield from manifest_lines(missing)
        if account is not None:
            yield "---"
            yield from manifest_lines(binding(missing, [account]))


def _document(checked: ClusterFindings) -> Mapping[str, Any]:
    return {
        "name": checked.cluster,
        "identity": checked.identity,
        "answers": checked.answers,
        "findings": msgspec.to_builtins(checked.findings),
        "missing": msgspec.to_builtins(checked.missing),
    }
