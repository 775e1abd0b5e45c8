"""The pages of the reference that are written from the code: every field of every policy, every option of every verb.

python -m tests.docs.reference      writes them
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from reconciler.cli.app import cli
from reconciler.cli.verbs import VERBS, example_lines
from reconciler.decide.reasons import PREPOSITIONS, ReasonCode
from reconciler.policy.explain import Field, fields
from reconciler.policy.load import POLICY_KINDS
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "reference"
WRITTEN = "<!-- Written from the code by `python -m tests.docs`. -->"

_POLICIES = """\
# Policies: every field

`reconciler explain IdlingPolicy.spec.idleWhen` prints the same, and `reconciler schema IdlingPolicy` the JSON
Schema for your editor. Names in `include`, `exclude` and the like may hold `*`. Durations are written `90s`, `30m`,
`1h30m`, `2d`. A field in bold is required. `*` in a path stands for any name.

A plain `apps/v1` ReplicaSet with the annotation `federation.kubernetes.io/replica-set-preferences` is read as a
FederatedReplicaSet.
"""
_CLI = """\
# Command line

Every option has an environment variable, `RECONCILER_` and its long name: `RECONCILER_REQUEST_TIMEOUT` for
`--request-timeout`; PATH has `RECONCILER_POLICIES` (`--policies` of `test` has none). The command
line wins. A value that only this verb does not know, like `RECONCILER_OUTPUT=markdown` for `validate`, leaves it at its
default; as an option it is an error. Options that may be repeated take several values in their variable, with spaces
between them (folders with `:`).

Objects are named `CLUSTER/NAMESPACE/KIND/NAME`; the case of the kind does not matter, kubectl's short names work,
and a prefix stands for all below it. stdout is the result, stderr is progress, warnings and errors. [Exit
codes](exit-codes.md) says what a run ends with.
"""


_TESTS = """\
# Tests of policies: every field

Files named `*_test.yaml` below the policy directory hold tests of its policies;
[Test policies](../how-to/test-policies.md) shows how to write them. `reconciler explain PolicyTest` prints the same,
and `reconciler schema PolicyTest` the JSON Schema for your editor. A field in bold is required. All that is wrong with
all files is told at once, with file, line and column, before a case is played.

Times have a zone. A run is at `at` exactly; with `during` the first is at `from`, and with `start` the runs of the cron
(`tick`) from then on come before. Runs that cannot do anything new are left out. What happens in `given` happens right
before the run, and stays for the times in `then`. An expectation of workloads that there are none of fails.
"""


_REASONS = """\
# Reasons

In the JSON of a plan, of a report and of `explain -o json`, the data stands beside a `reason`: `reasonCode` is the code
of the first reason, and `reasons` lists all of them with their `values` (of what a limit holds back, `unit`, `used`,
`allowed` and `base` say it). The codes are a closed list, below. A new release may
add codes and values; it never gives a code another meaning. The text of `reason` is for people and may change in any
release: nothing should read it, and the reconciler itself never compares it, so a better sentence changes no cluster.

Texts on clusters (annotations, ConfigMaps, Events) and in JSON have times in UTC, as here; plans in text, Markdown and
HTML say `2m ago`, or the time of the calendar. A value in square brackets may be absent. Reasons are joined with
commas; one that ends with a colon goes on with the next. `timeZone` beside a time is the time zone of the calendar.
"""


def reasons_page() -> str:
    rows = [f"| `{code.value}` | {cell(spelt(code.text))} | {cell(values_of(code.text))} |" for code in ReasonCode]
    return "\n".join([WRITTEN, "", _REASONS, "| code | text | values |\n|---|---|---|", *rows, ""])


def spelt(template: str) -> str:
    """Return a template with its values in capitals, "awake since SINCE"."""
    until = re.sub(r"\{(\w+):until\}", r"until {\1}", template)
    words = re.sub(r"\{(\w+):(ago|since)\}", lambda found: f"{PREPOSITIONS[found[2]]}{{{found[1]}}}", until)
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: found[1].upper(), words)


def values_of(template: str) -> str:
    names = dict.fromkeys(re.findall(r"\{(\w+)", template))
    return ", ".join(f"`{name}`" for name in names)


def policies_page() -> str:
    parts = [WRITTEN, "", _POLICIES]
    for kind in sorted(POLICY_KINDS, key=lambda name: (name != "Fleet", name)):
        if kind != "ReplicaSet":
            parts += [f"## {kind}\n", "| field | type | default | meaning |\n|---|---|---|---|"]
            parts += [*map(row_of, fields(kind)), ""]
    return "\n".join(parts)


def tests_page() -> str:
    head = "| field | type | default | meaning |\n|---|---|---|---|"
    return "\n".join([WRITTEN, "", _TESTS, head, *map(row_of, fields("PolicyTest")), ""])


def row_of(field: Field) -> str:
    name = f"**`{field.path}`**" if field.required else f"`{field.path}`"
    default = f"`{field.default}`" if field.default is not None else ""
    values = f" One of {', '.join(f'`{value}`' for value in field.values)}." if len(field.values) > 1 else ""
    return f"| {name} | {field.type} | {cell(default)} | {cell(field.description + values)} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def cli_page() -> str:
    parts = [WRITTEN, "", _CLI]
    context = click.Context(cli, info_name="reconciler")
    for verb, words in VERBS.items():
        command = cli.get_command(context, verb)
        assert command is not None
        with click.Context(command, info_name=verb, parent=context) as inner:
            usage = " ".join(command.collect_usage_pieces(inner))
            examples = "\n".join(example_lines(verb))
            parts += [f"## {verb}\n", f"{words}\n", f"```text\nreconciler {verb} {usage}\n\n{examples}\n```\n"]
            rows = list(rows_of(command, inner))
        parts += ["| option | default | meaning |\n|---|---|---|", *rows, ""] if rows else []
    return "\n".join(parts)


def rows_of(command: click.Command, context: click.Context) -> Iterator[str]:
    for option in command.get_params(context):
        if isinstance(option, click.Option) and not option.hidden and "--help" not in option.opts:
            names = f"`{', '.join(option.opts)}{value_of(option)}`"
            yield f"| {cell(names)} | {default_of(option)} | {cell(option.help or '')} |"


def value_of(option: click.Option) -> str:
    """Return what stands for the value; the words of click differ from release to release."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return f" {'|'.join(option.type.choices)}"
    return f" {option.metavar or option.type.name.upper().replace('INTEGER RANGE', 'N')}"


def default_of(option: click.Option) -> str:
    words = str(getattr(option, "default_words", ""))
    return f"`{words}`" if words and " " not in words else words


PAGES = {
    FOLDER / "policies.md": policies_page,
    FOLDER / "policy-tests.md": tests_page,
    FOLDER / "cli.md": cli_page,
    FOLDER / "reasons.md": reasons_page,
}
