"""`reconciler doctor`: what every cluster needs before a run, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from reconciler.backends.live import LiveSettings, open_live
from reconciler.cli.needed_rights import binding, manifest_lines, role
from reconciler.cli.options import context_option, is_duration, live_options, option, output_option, path_argument, verb
from reconciler.cli.output import show_document, show_lines
from reconciler.cli.preflight import ClusterCheck, ClusterFindings, Finding, checked_clusters
from reconciler.cli.run import RunOptions
from reconciler.errors import ExitCode, UsageError
from reconciler.observe.clusters import observe
from reconciler.observe.sources import Source
from reconciler.policy.types import PolicySet

_NAME = "reconciler"
_VERBS = ("apply", "plan")


@verb("doctor")
@path_argument()
@context_option
@option("-n", "--namespace", metavar="NAME", help="With --context: check the rights in this namespace only.")
@option(
    "--for",
    "verb",
    type=click.Choice(_VERBS),
    default="apply",
    help="The verb to check the rights for.",
    elsewhere=is_duration,
)
@live_options
@output_option("text", "json")
def doctor_command(path: str, output: str, verb: str, namespace: str | None, **flags: Any) -> int:
    """Check every cluster of the Fleet below PATH: its identity, our rights, its clock, its metrics.

    Nothing is written. Missing roles are printed as manifests that can be applied.
    """
    options = RunOptions.of(path, {**flags, "namespace": () if namespace is None else (namespace,)})
    if options.snapshot is not None:
        raise UsageError(f"--snapshot: {options.snapshot} has no server, expected live clusters")
    if namespace is not None and options.context is None:
        raise UsageError("--namespace: a Fleet needs rights in all namespaces, expected it beside --context")
    found = checked_clusters(cases(options.policies(), options, applies=verb == "apply"))
    if output == "json":
        show_document("Examination", {"clusters": [_document(one) for one in found]}, output)
    else:
        show_lines(_lines(found))
    return exit_of(found)


def cases(policies: PolicySet, options: RunOptions, *, applies: bool) -> list[ClusterCheck]:
    """Open the clusters of the Fleet and look at them as a plan does; return what there is to examine."""
    live = LiveSettings(options.now, policies.fleet.namespace, options.settings)
    opened = open_live((cluster.connection for cluster in options.bounded(policies.fleet).clusters), live)
    sources = {name: Source(found.cluster, None, found.error) for name, found in opened.backends.items()}
    state = observe(policies, sources, scope=options.scope)
    return [
        ClusterCheck(name, backend, policies, state, options.scope, options.now, applies)
        for name, backend in opened.backends.items()
    ]


def exit_of(found: Sequence[ClusterFindings]) -> ExitCode:
    """Return the exit code: 1 where no cluster answers, 6 where a check fails."""
    if not any(one.answers for one in found):
        return ExitCode.NOTHING_DONE
    failed = any(finding.state == "FAIL" for one in found for finding in one.findings)
    return ExitCode.PARTIAL if failed else ExitCode.DONE


def _lines(found: Sequence[ClusterFindings]) -> Iterator[str]:
    clusters = max(len(one.cluster) for one in found)
    checks = max(len(finding.check) for one in found for finding in one.findings)
    for one in found:
        for finding in one.findings:
            yield f"{finding.state:<4}  {one.cluster:<{clusters}}  {finding.check:<{checks}}  {_said(finding)}"
    for one in found:
        yield from _roles(one)


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


def _document(one: ClusterFindings) -> Mapping[str, Any]:
    return {
        "name": one.cluster,
        "identity": one.identity,
        "answers": one.answers,
        "findings": msgspec.to_builtins(one.findings),
        "missing": msgspec.to_builtins(one.missing),
    }
