"""The pages of the reference that are written from the code: every field of policies, every option of every verb."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import click
from msgspec.structs import replace

from reconciler.cli.app import cli
from reconciler.cli.verbs import VERBS
from reconciler.decide.reasons import CODES, PREPOSITIONS, TEXTS
from reconciler.policy.field_help import Field, fields
from reconciler.policy.policy_kinds import OWN_KINDS
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "reference"
WRITTEN = "<!-- Written from the code by `python -m tests.docs`. -->"

_HEAD = "| field | type, default | meaning |\n|---|---|---|"
_POLICIES = """\
# Policies: every field

`reconciler explain IdlingPolicy.spec.idleWhen` prints the same, and `reconciler schema IdlingPolicy` the JSON
Schema for your editor. Names in `include`, `exclude` and the like may hold `*`. Durations are written `90s`, `30m`,
`1h30m`, `2d`. A field in bold is required. `*` in a path stands for any name. Types are those of `kubectl explain`.

A plain `apps/v1` ReplicaSet with the annotation `federation.kubernetes.io/replica-set-preferences` is read as a
FederatedReplicaSet, and a Deployment with `spec.downscalePodPicker` as a DownscalePolicy for it. Every document has
`apiVersion: reconciler/v1alpha1`, its `kind`, `metadata` ([Metadata](#metadata), where nothing else is said below) and
`spec`.
"""
SEVERAL = 2  # an option that as many verbs have is described once
_CLI = """\
# Command line

Every option has an environment variable, `RECONCILER_` and its long name: `RECONCILER_REQUEST_TIMEOUT` for
`--request-timeout`; PATH has `RECONCILER_POLICIES` (`--policies` of `test` has none). The command
line wins. A value of `--output`, `--for`, `--by`, `--since`, `--days` or `--fail-on` that only this verb does not
know, like `RECONCILER_OUTPUT=markdown` for `validate`, leaves the default; as an option it is an error. Options that
may be repeated take several values in their variable, with spaces between them (folders with `:`).

Objects are named `CLUSTER/NAMESPACE/KIND/NAME`; short names and `KIND.GROUP` work as in kubectl. A prefix stands for
all below it.
stdout is the result, in the form of `-o, --output`, by default the first of those listed. stderr is progress, warnings
and errors. Defaults stand in brackets. [Exit codes](exit-codes.md) says what a run ends with.
"""


_TESTS = """\
# Tests of policies: every field

Files named `*_test.yaml` below the policy directory hold tests of its policies;
[Test policies](../how-to/test-policies.md) shows how to write them. `reconciler explain PolicyTest` prints the same,
and `reconciler schema PolicyTest` the JSON Schema for your editor. A field in bold is required. All that is wrong with
all files is reported at once, with file, line and column, before a case is played.

Times have a zone. A run is at `at` exactly; with `during` the first is at `from`, and with `start` the runs of the cron
(`tick`) from then on come before. Runs that cannot do anything new are left out. What happens in `given` happens right
before the run, and stays for the times in `then`. An expectation of workloads that there are none of fails.
"""


_REASONS = """\
# Reasons

In the JSON of a plan, of a report and of `explain -o json`, the data stands beside a `reason`: `reasonCode` is the code
of the first reason, and `reasons` lists all of them with their `values` (of what is held back `unit`, `used`,
`allowed` and `base` of its `limits` say it). The codes are a closed list, below. A new release may
add codes and values; it never gives a code another meaning. The text of `reason` is for people and may change in any
release: nothing should read it, and the reconciler itself never compares it, so a better sentence changes no cluster.

Texts on clusters (annotations, ConfigMaps, Events) and in JSON have times in UTC, as here; plans in text, Markdown and
HTML say `2m ago`, or the time of the calendar. A value in square brackets may be absent. Reasons are joined with
commas; one that ends with a colon goes on with the next. `timeZone` beside a time is the time zone of the calendar.
"""


def reasons_page() -> str:
    rows = [f"| `{code}` | {cell(spelt(TEXTS[code]))} | {cell(values_of(TEXTS[code]))} |" for code in CODES]
    return "\n".join([WRITTEN, "", _REASONS, "| code | text | values |\n|---|---|---|", *rows, ""])


def spelt(template: str) -> str:
    """Return a template with its values in capitals, "awake since SINCE"."""
    until = re.sub(r"\{(\w+):until\}", r"until {\1}", template)
    words = re.sub(r"\{(\w+):(ago|since)\}", lambda found: f"{PREPOSITIONS[found[2]]}{{{found[1]}}}", until)
    several = re.sub(r"\{(\w+) [^{}|]+\|([^{}]+)\}", r"{\1} \2", words)
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: found[1].upper(), several)


def values_of(template: str) -> str:
    names = dict.fromkeys(re.findall(r"\{(\w+)", template))
    return ", ".join(f"`{name}`" for name in names)


class Part(NamedTuple):
    """A field and what is inside it. `shape` is equal for all fields that hold the same."""

    field: Field
    inside: tuple[Part, ...]

    @property
    def shape(self) -> tuple[object, ...]:
        return tuple((one.name, one.field.description, one.field.default, one.shape) for one in self.inside)

    @property
    def name(self) -> str:
        return self.field.path.rpartition(".")[2]


def parts_of(kind: str) -> tuple[Part, ...]:
    found = fields(kind)

    def below(path: str) -> tuple[Part, ...]:
        return tuple(Part(one, below(one.path)) for one in found if one.path.rpartition(".")[0] == path)

    return below("")


def every(parts: Iterable[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        yield from every(part.inside)


# What several fields hold, by the first names inside: it is described once.
SHARED = {
    ("name", "labels", "annotations"): "Metadata",
    ("include", "exclude", "matchLabels", "matchExpressions"): "Names and labels",
    ("include", "exclude", "matchLabels", "matchExpressions", "kinds"): "Workloads",
    ("key", "operator", "values"): "Label requirement",
    ("share", "atLeast"): "Share",
    ("workloads", "replicas"): "Limits",
    ("clusters", "namespaces", "services", "workloads"): "Selector",
}


def policies_page() -> str:
    kinds = sorted(OWN_KINDS, key=lambda name: (name != "Fleet", name))
    trees = {kind: parts_of(kind) for kind in kinds}
    within = {(kind, part.shape) for kind, tree in trees.items() for part in tree}
    within |= {(part.shape, one.shape) for tree in trees.values() for part in every(tree) for one in part.inside}
    stand = Counter(shape for _, shape in within if len(shape) > 1)
    shared: dict[tuple[object, ...], Part] = {}
    for tree in trees.values():
        shared |= {part.shape: part for part in every(tree) if stand[part.shape] > 1 and part.shape not in shared}
    named: dict[tuple[object, ...], str] = {}
    for shape, part in sorted(shared.items(), key=lambda one: -stand[one[0]]):
        title = title_of(part)
        named[shape] = title if title not in named.values() else f"{title} of {part.name}"
    told, types = Told(), []
    for shape, name in sorted(named.items(), key=lambda one: one[1]):
        path = shared[shape].field.path + "."
        types += [f"### {name}\n", _HEAD, *told.rows(name, rows_below(shared[shape].inside, path, named)), ""]
    parts = [WRITTEN, "", _POLICIES]
    for kind, tree in trees.items():
        own = [one for one in tree[2:] if named.get(one.shape) != "Metadata"]  # without what all documents have
        parts += [f"## {kind}\n", _HEAD]
        parts += told.rows(kind, [row for one in own for row in rows_below(one.inside, "", named)])
        parts.append("")
    return "\n".join([*parts, "## Shared types\n", *types])


class Told:
    """What was said of fields above: the same many words are said once, and linked."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], tuple[str, str]] = {}

    def rows(self, title: str, fields: Iterable[tuple[Field, str]]) -> Iterator[str]:
        """Yield a row for each of `fields` below `title`, and for several that stand together elsewhere too one row."""
        for (place, _), group in groupby(fields, lambda pair: self._said(title, pair[0])):
            found = list(group)
            if len(found) == 1 or place == "":
                yield from (row_of(field, shared, self._told(title, field)) for field, shared in found)
                continue
            first, *others = (field for field, _ in found)
            names = ", ".join([name_of(first), *(name_of(field, field.path.rpartition(".")[2]) for field in others)])
            yield f"| {names} | as there | As in {place}. |"

    def _said(self, title: str, field: Field) -> tuple[str, str]:
        """Return in what the same was said of a field of that name, type and default; its own path where it was not."""
        first = self._first.setdefault(self._key(field), (title, field.path))
        if first == (title, field.path) or len(field.description.split()) < FEW:
            return "", field.path
        within, link = first[1].rpartition(".")[0], f"[{first[0]}](#{anchor(first[0])})"
        return (f"`{within}` of {link}" if within else link), field.path.rpartition(".")[0]

    def _told(self, title: str, field: Field) -> str:
        first = self._first[self._key(field)]
        told = first != (title, field.path) and len(field.description.split()) >= FEW
        return f"`{first[1]}` of [{first[0]}](#{anchor(first[0])})" if told else ""

    @staticmethod
    def _key(field: Field) -> tuple[str, ...]:
        return field.path.rpartition(".")[2], field.description, field.type, str(field.default)


FEW = 7  # words that take no more room than a link
OF_KUBERNETES = ("spec.template",)
"""Fields that hold an object of Kubernetes, which its documentation describes."""


def anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def title_of(part: Part) -> str:
    return SHARED.get(tuple(one.name for one in part.inside), part.name[:1].upper() + part.name[1:])


def rows_below(
    parts: Iterable[Part], within: str, named: Mapping[tuple[object, ...], str]
) -> Iterator[tuple[Field, str]]:
    """Yield the fields of `parts`, their paths as they are below `within`, each with its shared type, or ""."""
    for part in parts:
        name = named.get(part.shape, "")
        yield replace(part.field, path=part.field.path.removeprefix(within)), name
        if not name and part.field.path not in OF_KUBERNETES:
            yield from rows_below(part.inside, within, named)


def tests_page() -> str:
    return "\n".join([WRITTEN, "", _TESTS, _HEAD, *map(row_of, fields("PolicyTest")), ""])


def row_of(field: Field, shared: str = "", told: str = "") -> str:
    is_empty = field.default is None or (field.default == "{}" and "map" not in field.type)
    default = "" if is_empty else f", `{field.default}`"
    named = all(re.search(rf"\b{re.escape(value)}\b", field.description) for value in field.values)
    values = "" if named or len(field.values) < 2 else f" One of {', '.join(f'`{value}`' for value in field.values)}."
    plain = field.type.removesuffix(" or null") if field.default == "null" else field.type
    kind = plain.replace("list of ", "[]").replace("map of ", "map[string]")
    kind = kind if not shared else field.type.replace("object", f"[{shared}](#{anchor(shared)})")
    words = f"As {told}." if told else cell(meaning_of(field) + values)
    return f"| {name_of(field)} | {kind}{cell(default)} | {words} |"


def name_of(field: Field, path: str = "") -> str:
    return f"**`{path or field.path}`**" if field.required else f"`{path or field.path}`"


def meaning_of(field: Field) -> str:
    """Return the description without the name of the field, with which it begins: that stands beside it."""
    words = re.sub(rf"^{re.escape(field.path.rpartition('.')[2])} ((is|are) )?", "", field.description)
    return words[:1].upper() + words[1:]


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def cli_page() -> str:
    context = click.Context(cli, info_name="reconciler")
    commands = {verb: command for verb in VERBS if (command := cli.get_command(context, verb)) is not None}
    rows = {verb: options_of(command, context) for verb, command in commands.items()}
    verbs_with = Counter(row for options in rows.values() for row in options.values())
    shared = {row for row, count in verbs_with.items() if count >= SEVERAL}
    parts = [WRITTEN, "", _CLI]
    for verb, command in commands.items():
        with click.Context(command, info_name=verb, parent=context) as inner:
            pieces = [piece for piece in command.collect_usage_pieces(inner) if piece != "[OPTIONS]"]
        usage = " ".join(["reconciler", verb, *pieces])
        examples = "\n".join(command.example_lines)
        parts += [f"## {verb}\n", f"{VERBS[verb]}\n", f"```text\n{usage}\n\n{examples}\n```\n"]
        own = [row for row in rows[verb].values() if row not in shared]
        parts += [*own, ""] if own else []
        common = [*named_together([name for name, row in rows[verb].items() if row in shared]), *forms_of(command)]
        parts += [f"[Also](#options-of-several-verbs): {', '.join(common)}.", ""] if common else []
    ordered = dict.fromkeys(row for options in rows.values() for row in options.values() if row in shared)
    together = [f"- {title}: {', '.join(f'`{name}`' for name in names)}." for title, names in TOGETHER.items()]
    return "\n".join(
        [
            *parts,
            "## Options of several verbs\n",
            "What belongs together:\n",
            *together,
            "\nEach:\n",
            *ordered,
            "",
        ]
    )


TOGETHER = {
    "Connection": ("--snapshot", "--request-timeout", "--timeout", "--qps", "--credentials-dir", "--no-exec", "--now"),
    "Reads": ("--snapshot", "--request-timeout", "--timeout", "--credentials-dir", "--no-exec", "--now"),
    "Requests": ("--request-timeout", "--timeout", "--credentials-dir", "--no-exec"),
    "Server": ("--request-timeout", "--credentials-dir", "--no-exec"),
    "Filters": ("--policy", "--cluster", "--namespace", "--selector"),
    "Fleet": ("--policies", "--context", "--own-namespace"),
    "Run": ("--allow-exceed", "--allow-removed", "--run-id", "--source-revision"),
    "Metrics": ("--metrics-file", "--push-gateway"),
    "Style": ("--color", "--verbose", "--quiet", "--progress"),
}
"""What options that verbs mostly have together are called."""


def named_together(names: Sequence[str]) -> Iterator[str]:
    """Yield `names` in their order, those that are called something together once."""
    left = dict.fromkeys(names)
    for title, those in TOGETHER.items():
        if left.keys() >= set(those):
            left = {name: None for name in left if name not in those}
            yield title.lower()
    yield from (f"`{name}`" for name in left)


def options_of(command: click.Command, context: click.Context) -> dict[str, str]:
    """Return the row of each option, by its long name."""
    return {
        max(option.opts, key=len): f"- {names}{default_of(option)}: {option.help or ''}"
        for option in command.get_params(context)
        if isinstance(option, click.Option) and not option.hidden and not {"--help", "--output"} & {*option.opts}
        for names in [f"`{', '.join(option.opts)}{value_of(option)}`"]
    }


def forms_of(command: click.Command) -> list[str]:
    """Return the option for the form of stdout, with all forms, the default first."""
    return [
        f"`-o {'|'.join(option.type.choices)}`"
        for option in command.params
        if option.name == "output" and isinstance(option.type, click.Choice)
    ]


def value_of(option: click.Option) -> str:
    """Return what stands for the value; the words of click differ from release to release."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return f" {'|'.join(option.type.choices)}"
    return f" {option.metavar or option.type.name.upper().replace('INTEGER RANGE', 'N')}"


def default_of(option: click.Option) -> str:
    words = str(getattr(option, "default_words", ""))
    return "" if not words else f" (`{words}`)" if " " not in words else f" ({words})"


PAGES = {
    FOLDER / "policies.md": policies_page,
    FOLDER / "policy-tests.md": tests_page,
    FOLDER / "cli.md": cli_page,
    FOLDER / "reasons.md": reasons_page,
}
