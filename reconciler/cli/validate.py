"""`reconciler validate`: all problems, offline."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version

from reconciler.cli.options import option, output_option, path_argument, tenant_named, verb
from reconciler.cli.output import say, show, show_command, show_lines
from reconciler.errors import ExitCode, PolicyError, Problem
from reconciler.policy.load import check_policies
from reconciler.policy.tenants import part_of
from reconciler.policy.types import PolicySet


@verb("validate")
@path_argument()
@output_option("text", "json", "github", "gitlab", "sarif")
@option("--tenant", metavar="NAME", help="Check the files of one tenant of the Fleet, and the platform's.")
def command(path: str, output: str, tenant: str | None) -> int:
    """Check the policy files below PATH, and print all problems. No cluster is read."""
    policies, problems = checked(path, tenant)
    if output in ("github", "gitlab", "sarif"):
        _show_for_code_hosts(problems, () if policies is None else policies.warnings, output)
        return ExitCode.MALFORMED if policies is None else ExitCode.DONE
    if policies is None:
        raise PolicyError.of(problems)
    if output == "json":
        value = {"schemaVersion": "reconciler/v1alpha1", "kind": "Validation", **_counts(policies)}
        show(json.dumps(value, indent=2) + "\n", output)
        return ExitCode.DONE
    for warning in policies.warnings:
        say(f"warning: {warning}")
    counts = ", ".join(f"{count} {name}" for name, count in _counts(policies)["policies"].items() if count)
    show_lines([f"{path}: valid, {counts}"])
    return ExitCode.DONE


def checked(path: str, tenant: str | None = None) -> tuple[PolicySet | None, tuple[Problem, ...]]:
    """Return the policies below `path`, or None and all problems: also that there is nothing.

    Of a `tenant` the problems of others are left out, where these do not concern it.

    Raises:
        UsageError: there is no such tenant.
    """
    try:
        policies, problems = check_policies(path)
    except PolicyError as error:
        return None, error.problems
    if policies is not None and tenant is not None:
        policies = part_of(policies, tenant_named(policies.fleet, tenant))
        problems = policies.problems.get(tenant, ())
    return None if problems else policies, problems


def annotate(problems: Iterable[Problem], warnings: Iterable[Problem]) -> None:
    """Have GitHub put problems and warnings beside their lines of a pull request."""
    from reconciler.report.validation import leveled, message_of

    for level, one in leveled(problems, warnings):
        show_command(level, {"file": one.file, "line": one.line, "col": one.column}, message_of(one))


def _show_for_code_hosts(problems: Iterable[Problem], warnings: Iterable[Problem], output: str) -> None:
    from reconciler.report.validation import code_quality, leveled, sarif

    if output == "github":
        annotate(problems, warnings)
        return
    found = leveled(problems, warnings)
    show(sarif(found, version("reconciler")) if output == "sarif" else code_quality(found), "json")


def _counts(policies: PolicySet) -> dict[str, dict[str, int]]:
    return {
        "policies": {
            "Fleet": 1,
            "IdlingPolicy": len(policies.idling),
            "Calendar": len(policies.calendars),
            "FederatedReplicaSet": len(policies.federated),
            "DownscalePolicy": len(policies.downscale),
        }
    }
