"""`reconciler validate`: all problems, offline."""

from __future__ import annotations

import json

from reconciler.cli.options import output_option, path_argument, verb
from reconciler.cli.output import say, show, show_command, show_lines
from reconciler.errors import ExitCode, PolicyError
from reconciler.policy.load import check_policies
from reconciler.policy.types import PolicySet


@verb("validate")
@path_argument()
@output_option("text", "json", "github")
def command(path: str, output: str) -> int:
    """Check the policy files below PATH, and print all problems. No cluster is read."""
    policies, problems = check_policies(path)
    if policies is None:
        if output == "github":
            for problem in problems:
                place = {"file": problem.file, "line": problem.line, "col": problem.column}
                show_command(
                    "error", place, f"{problem.field}: {problem.message}" if problem.field else problem.message
                )
            return ExitCode.MALFORMED
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
