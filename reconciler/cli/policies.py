"""The verbs about policy files alone, offline: `reconciler validate`, `reconciler compile` and `reconciler schema`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from reconciler.cli.options import (
    GENERAL,
    Options,
    argument,
    now_option,
    offering,
    option,
    output_option,
    path_argument,
    verb,
)
from reconciler.cli.output import Formats, as_text, document, problem_values, say_each, show, workflow_command
from reconciler.cli.policy_source import repository_of
from reconciler.decide.annotations import format_time
from reconciler.errors import ExitCode, PolicyError, Problem, UsageError
from reconciler.policy.compiled import compile_policies
from reconciler.policy.field_help import SCHEMA_KINDS, kind_named
from reconciler.policy.load import check_policies, read_policies
from reconciler.policy.policy_files import overlooked
from reconciler.policy.policy_kinds import OWN_KINDS, policies_of
from reconciler.policy.schemas import load_schema
from reconciler.policy.types import PolicySet
from reconciler.report.code_host import Found, code_quality, leveled, problem_words, sarif

if TYPE_CHECKING:
    from reconciler.forecast.policy_reach import FirstNight

_ADDRESS = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")


def _counts(policies: PolicySet) -> dict[str, int]:
    return {kind: len(policies_of(policies, kind)) for kind in OWN_KINDS}


def _lines(path: str, policies: PolicySet, night: FirstNight | None) -> Iterator[str]:
    yield f"{path}: valid, {', '.join(f'{count} {name}' for name, count in _counts(policies).items() if count)}"
    if night is not None:
        from reconciler.forecast.policy_reach import night_lines

        yield from night_lines(night)


def _values(_: str, policies: PolicySet, night: FirstNight | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "policies": _counts(policies),
        "warnings": [problem_values(problem) for problem in policies.warnings],
    }
    if night is not None:
        values["firstNight"] = {
            "start": None if night.start is None else format_time(night.start),
            "workloads": night.workloads,
            "idle": dict(night.idle),
            "idleAlready": night.already,
            "heldBack": [{"what": limited.what, "where": limited.where} for limited in night.held_back],
            "productionLeftOut": dict(night.left_out),
            "warnings": list(night.warnings),
        }
    return document("Validation", values)


def workflow_commands(found: Found) -> str:
    """Return what has GitHub put problems and warnings beside their lines of a pull request."""
    return "".join(
        workflow_command(level, {"file": one.file, "line": one.line, "col": one.column}, problem_words(one))
        for level, one in found
    )


FORMATS: Formats = {"text": _lines, "json": _values}
_CODE_HOSTS: Formats = {
    "github": workflow_commands,
    "gitlab": code_quality,
    "sarif": lambda found: sarif(found, version("reconciler")),
}


class _ValidateOptions(Options):
    path: str = path_argument()
    output: str = output_option(*FORMATS, *_CODE_HOSTS)
    tenant: str | None = option(
        "Check the files of one tenant of the Fleet, and the platform's.", metavar="NAME", group=GENERAL
    )
    snapshot: str | None = option("Show the first night on this snapshot too.", metavar="DIR")
    now: datetime = now_option()


@verb("validate", _ValidateOptions)
def validate_command(options: _ValidateOptions) -> int:
    """Check the policy files below PATH, and print all problems. No cluster is read.

    With a snapshot it also shows the first night: how many workloads would go idle, and what limits would hold back.
    It warns of Services that a policy with wake: OnSignal selects, and whose connections an activator cannot hold, of
    CronJobs that may start a missed run when they wake, and of limits that are above twice what their policy selects.

    # Check the policies in ./policies
    validate
    # Put each problem beside its line in a pull request on GitHub
    validate -o github
    # Write a log for code scanning
    validate -o sarif > reconciler.sarif
    """
    path, output = options.path, options.output
    if output in _CODE_HOSTS and options.snapshot is not None:
        raise UsageError(f"--snapshot: -o {output} has no place for a first night, expected -o text or json beside it")
    policies, problems = checked(path, options.tenant)
    if output in _CODE_HOSTS:
        warnings = () if policies is None else policies.warnings
        show(_CODE_HOSTS[output](leveled(problems, warnings, repository_of(path) or ".")), output)
        return ExitCode.MALFORMED if problems else ExitCode.DONE
    if policies is None or problems:
        raise PolicyError.of(problems)
    night = None if options.snapshot is None else _first_night(policies, options)
    say_each("warning", (*policies.warnings, *(() if night is None else night.warnings)))
    show(FORMATS[output](path, policies, night), output)
    return ExitCode.DONE


def _first_night(policies: PolicySet, options: _ValidateOptions) -> FirstNight:
    from reconciler.cli.forecast import SimulatedSnapshot
    from reconciler.cli.run_options import RunOptions
    from reconciler.forecast.policy_reach import first_night

    shown = RunOptions(path=options.path, now=options.now, snapshot=options.snapshot)
    return first_night(SimulatedSnapshot(shown, policies).simulation(policies), policies, options.now)


def checked(path: str, tenant: str | None = None) -> tuple[PolicySet | None, tuple[Problem, ...]]:
    """Return the policies below `path`, None where they cannot be used, and all problems: also that there is nothing.

    With policies of equal priority that may select the same object a run goes on; they are problems all the same. Of a
    `tenant` the problems of others are left out, where these do not concern it.

    Raises:
        UsageError: there is no such tenant.
    """
    try:
        policies, problems = check_policies(path)
    except PolicyError as error:
        return None, error.problems
    if policies is not None and tenant is not None:
        from reconciler.cli.policy_source import tenant_named

        policies = policies.of_tenant(tenant_named(policies.fleet, tenant))
        problems = policies.problems.get(tenant, ())
    if policies is not None:
        policies = replace(policies, warnings=(*policies.warnings, *overlooked(path)))
    if policies is None or problems:
        return None, problems
    return policies, policies.conflicts


class _CompileOptions(Options):
    path: str = path_argument()
    output: str = output_option("yaml", "json")


@verb("compile", _CompileOptions)
def compile_command(options: _CompileOptions) -> None:
    """Print the policies below PATH with all defaults filled in. No cluster is read.

    # Print the policies as YAML
    compile
    # List the policies by kind and name
    compile -o json | jq -r '.rules[] | .kind + " " + .metadata.name'
    """
    rules = compile_policies(read_policies(options.path))
    show(as_text(rules, options.output), options.output)


_BESIDE_KINDS = ("Policy", "catalog")


class _SchemaOptions(Options):
    kind: str = argument("KIND", shell_complete=offering(lambda _: (*SCHEMA_KINDS, *_BESIDE_KINDS)))
    url: str | None = option(
        "With KIND catalog: the address of the folder that the schemas are served from.", metavar="URL"
    )
    output: str = output_option("json", "yaml")


@verb("schema", _SchemaOptions)
def schema_command(options: _SchemaOptions) -> None:
    """Print the JSON Schema (draft 2020-12) of KIND: a kind of policies, PolicyTest, Plan or Report.

    Policy is the schema of files with policies of any kind. catalog is no schema, but a catalog in the form of
    SchemaStore, which tells editors which schema is for which file.

    # Print the schema of a kind
    schema IdlingPolicy
    # Save the schema of files with policies, for an editor
    schema Policy > policy.schema.json
    # Tell editors which schema is for which file
    schema catalog --url https://example.com/schemas > catalog.json
    """
    kind, url = kind_named(options.kind, *_BESIDE_KINDS), options.url
    if url is not None and kind != "catalog":
        raise UsageError("--url: stands beside a kind, expected it beside catalog")
    show(_catalog(url) if kind == "catalog" else load_schema(kind), options.output)


def _catalog(url: str | None) -> dict[str, object]:
    """Return a catalog of the schemas, for editors; `url` is where they are served.

    Source: SchemaStore/schemastore src/schemas/json/schema-catalog.json.

    Raises:
        UsageError: that is no address.
    """
    if url is None or not _ADDRESS.fullmatch(url):
        found = "is missing" if url is None else "is no address of a folder"
        raise UsageError(f"--url: {found}, expected where the schemas are served, like https://example.com/schemas")
    entries = (
        ("policies", "Policies of the reconciler: the scale of workloads on many Kubernetes clusters", "", "policy"),
        ("policy tests", "Tests of policies of the reconciler", "_test", "policytest"),
    )
    schemas = [
        {
            "name": f"reconciler {name}",
            "description": description,
            "fileMatch": [f"*.reconciler{ending}.yaml", f"*.reconciler{ending}.yml"],
            "url": f"{url.rstrip('/')}/{schema}.schema.json",
        }
        for name, description, ending, schema in entries
    ]
    return {"$schema": "https://www.schemastore.org/schema-catalog.json", "version": 1, "schemas": schemas}
