"""The flags that verbs share, each with its environment variable RECONCILER_*."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from reconciler.cli.verbs import example_lines, format_here, one_dash, option_here
from reconciler.decide.annotations import FIRST_YEAR, LAST_YEAR, parse_time
from reconciler.errors import FailOn, UsageError
from reconciler.labels import LabelSelector, parse_label_selector
from reconciler.messages import nearest
from reconciler.plan.filters import Filters
from reconciler.policy.kinds.fields import MOST_DURATION, parse_duration, spelt_duration
from reconciler.policy.types import Fleet, Tenant

_EXAMPLE = "2026-11-20T15:41:23Z"
_LONGEST_WAIT = 86_400.0
_HIGHEST_RATE = 100_000.0
_RUN_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)

F = TypeVar("F", bound=Callable[..., Any])


OUTPUTS = ("text", "json", "yaml", "markdown", "html", "github", "gitlab", "sarif", "junit")
"""The forms of all verbs together."""

_POLICIES = "RECONCILER_POLICIES"
_MOST_DAYS = 366
GENERAL = "Options"
_GROUPS: dict[str, str] = {
    GENERAL: "",
    "Clusters": "context own-namespace snapshot request-timeout timeout qps credentials-dir no-exec now",
    "Filters": "policy cluster namespace selector shard tenant",
    "Run": "allow-exceed allow-removed run-id source-revision report-dir",
    "Output": "output color verbose summary quiet progress metrics-file push-gateway wake-form",
}
"""The options in each group of a verb's help, by their long names; all others are general."""

_GROUP_OF = {f"--{name}": group for group, names in _GROUPS.items() for name in names.split()}
_VARIABLES = (
    "Each option has an environment variable, RECONCILER_ and its name (RECONCILER_REQUEST_TIMEOUT for "
    "--request-timeout), and PATH has RECONCILER_POLICIES (--policies of test has none); what is given on the command "
    "line wins."
)


class _Verb(click.Command):
    """A verb whose help has its options in groups, and examples."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        wrong = one_dash(args, {name for one in self.get_params(ctx) for name in one.opts})
        if wrong:
            raise click.UsageError(wrong, ctx)
        try:
            left = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            here = option_here(error.option_name)
            if not here:
                raise
            raise click.UsageError(f"No such option '{error.option_name}'; {here}", ctx) from None
        check_variables({str(one.envvar) for one in self.params})
        return left

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else _argument_record(one)
            if record is not None:
                groups.setdefault(getattr(one, "group", GENERAL), []).append(record)
        for group in _GROUPS:
            if group in groups:
                with formatter.section(group):
                    formatter.write_dl(groups[group])

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in example_lines(str(self.name)):
                formatter.write(f"  {line}\n")
        formatter.write_paragraph()
        formatter.write_text(_VARIABLES)


def _argument_record(one: click.Parameter) -> tuple[str, str] | None:
    """Return what the help says of the one argument that has a default."""
    plan = ", or a saved plan" if "PLAN" in (one.metavar or "") else ""
    words = f"The policy directory{plan}.  [default: {DEFAULT_PATH}]"
    return (str(one.metavar).strip("[]"), words) if one.name == "path" else None


def verb(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a function the verb `name`."""
    return click.command(name=name, cls=_Verb)


class _Option(click.Option):
    """An option in a `group` of the help, by default that of its name.

    A variable holds for all verbs, and not all know the same words: one that only another verb takes, as `elsewhere`
    says, leaves the default.
    """

    def __init__(
        self,
        *args: Any,
        group: str = "",
        elsewhere: Callable[[str], bool] | None = None,
        default_words: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.default_words = default_words
        self.group = group or _GROUP_OF.get(max(self.opts, key=len), GENERAL)
        self._elsewhere = elsewhere

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None or not self.default_words:
            return record
        return record[0], f"{record[1]}  [default: {self.default_words}]"

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        try:
            return super().process_value(ctx, value)
        except click.BadParameter as error:
            if ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT:
                error.param_hint = str(self.envvar)
            here = format_here(value) if self.name == "output" and isinstance(value, str) else ""
            if here:
                message = f"{error.message.removesuffix('.')}; {here}"
                raise click.BadParameter(message, ctx, self, error.param_hint) from None
            raise

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        found = super().resolve_envvar_value(ctx)
        if found is None or self._elsewhere is None:
            return found
        try:
            self.type(found, self, ctx)
        except click.BadParameter:
            return None if self._elsewhere(found) else found
        return found


def offering(
    names: Callable[[str], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return what offers to a shell those of `names` that begin with what was typed, which `names` is called with."""
    return lambda _, __, begun: [CompletionItem(name) for name in names(begun) if name.startswith(begun)]


def _files(_: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(begun, type=_PATHS[str(parameter.metavar)])]


_PATHS = {"DIR": "dir", "FILE": "file", "PATH": "file"}
"""What a shell completes for a parameter with this metavar."""


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Return a click option whose environment variable is RECONCILER_ and its long name; its default is in the help."""
    reader = settings.get("type")
    settings = {"metavar": getattr(reader, "metavar", None), **settings}
    if settings["metavar"] in _PATHS:
        settings = {"shell_complete": _files, **settings}
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "RECONCILER_" + long.removeprefix("--").replace("-", "_").upper()
    default = settings.get("default")
    words = f"{default:g}" if isinstance(default, float) else "" if default is None else str(default)
    return click.option(*names, cls=_Option, **{"envvar": variable, "default_words": words, **settings})


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator for several, in their order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


DEFAULT_PATH = "policies"


def path_argument(metavar: str = "[PATH]") -> Callable[[F], F]:
    """Return the argument that names the policy directory, of a verb without an OBJECT."""
    return click.argument("path", metavar=metavar, default=DEFAULT_PATH, type=click.Path(), envvar=_POLICIES)


def policies_option(**settings: Any) -> Callable[[F], F]:
    """Return the option that names the policy directory, of a verb with an OBJECT."""
    words = {"help": "The policy directory.", "default": DEFAULT_PATH, **settings}
    return option("--policies", metavar="PATH", type=click.Path(), **words)


def output_option(*formats: str) -> Callable[[F], F]:
    """Return the option for the form of stdout, the first of `formats` by default."""
    return option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        help="The form of stdout.",
        elsewhere=OUTPUTS.__contains__,
    )


def _written_as(metavar: str) -> Callable[[F], F]:
    """Return a decorator for how click reads values: `metavar` stands for one in the help."""

    def decorate(reader: F) -> F:
        reader.metavar = metavar  # type: ignore[attr-defined]
        return reader

    return decorate


@_written_as("RATE")
def rate(text: str | float) -> float:
    """Return a number of writes a second, 0 for no limit; how click reads the value of a flag."""
    found = _number(text)
    if found == 0 or 0.01 <= found <= _HIGHEST_RATE:
        return found
    raise click.BadParameter(f'"{text}" is not a rate, expected 0 for no limit, or up to {_HIGHEST_RATE:g}')


@_written_as("SECONDS")
def seconds(text: str | float) -> float:
    """Return a number of seconds, finite and not negative; how click reads the value of a flag."""
    found = _number(text)
    if 0 <= found <= _LONGEST_WAIT:
        return found
    raise click.BadParameter(f'"{text}" is not a number of seconds, expected one from 0 to {_LONGEST_WAIT:g}')


def _number(text: str | float) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def duration(least: timedelta = timedelta(), most: timedelta = MOST_DURATION) -> Callable[[str | timedelta], timedelta]:
    """Return how click reads the value of a flag that is a duration: it must be one also where it is not used."""
    bounds = f"{f'from {spelt_duration(least)} to' if least else 'at most'} {spelt_duration(most)}"

    @_written_as("DURATION")
    def read(text: str | timedelta) -> timedelta:
        found = text if isinstance(text, timedelta) else parse_duration(text)
        if found is None or not least <= found <= most:
            problem = "is not a duration" if found is None else "is out of range"
            raise click.BadParameter(f'"{text}" {problem}, expected something like 90s, 30m, 1h30m or 2d, {bounds}')
        return found

    return read


def is_duration(text: str) -> bool:
    """Return whether another verb may take `text` from a variable of the same name."""
    return parse_duration(text) is not None


context_option = option("--context", metavar="NAME", help="A context of the kubeconfig, in place of a Fleet.")
_snapshot: dict[str, Any] = {"metavar": "DIR", "help": "A snapshot, in place of live clusters."}
_timeout_option = option(
    "--timeout",
    type=seconds,
    default_words="none",
    help="Run deadline: after it no write begins, and nothing is waited for.",
)
_rate_option = option("--qps", type=rate, default=50.0, help="Writes per second to each live cluster; 0 is no limit.")
_request_options = (
    option("--request-timeout", type=seconds, default=30.0, help="Deadline of one request to a live cluster."),
    _timeout_option,
    _rate_option,
    option(
        "--credentials-dir",
        multiple=True,
        type=click.Path(),
        metavar="DIR",
        default_words="/var/run/secrets, ~/.kube",
        help="Where files that a Fleet names must be; may be repeated.",
    ),
    option("--no-exec", is_flag=True, help="Refuse kubeconfigs that run a program to get credentials."),
)
now_option = option(
    "--now", metavar="RFC3339", default_words="the time of this machine", help="The time to decide for."
)
request_options = together(*_request_options)
world_options = together(option("--snapshot", **_snapshot), *_request_options, now_option)
live_options = together(option("--snapshot", hidden=True, **_snapshot), *_request_options)
"""Of a verb that refuses a snapshot, with the reason."""

server_options = together(*(one for one in _request_options if one not in (_timeout_option, _rate_option)))
"""Of a verb that runs until it is stopped, and writes what clients wait for: as fast as the API server takes it."""

tick_option = option(
    "--tick",
    type=duration(timedelta(minutes=1), timedelta(days=1)),
    default="10m",
    help="How often the cron runs, in the days that are played on a snapshot.",
)

LONGEST_PAST = timedelta(days=92)
"""How far back a replay may begin."""


def days_option(words: str, most: int = 31) -> Callable[[F], F]:
    """Return the option for how many days are looked at; the verbs differ in what they take."""
    return option(
        "--days",
        type=click.IntRange(1, most),
        default=7,
        metavar="N",
        help=words,
        elsewhere=lambda text: text.isdecimal() and 1 <= int(text) <= _MOST_DAYS,
    )


color_option = option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colours on stdout; auto is on a terminal, unless NO_COLOR is set.",
)
verbose_option = option("-v", "--verbose", is_flag=True, help="Show metadata updates, and every field that changes.")
summary_option = option("--summary", is_flag=True, help="Show headings with counts only, for 500 objects and more.")
style_options = together(color_option, verbose_option, summary_option)
detailed_exitcode_option = option(
    "--detailed-exitcode", is_flag=True, help="Exit with 2 where changes are pending or held back."
)


def fail_on(text: str | Iterable[FailOn]) -> frozenset[FailOn]:
    """Return what a run fails on, from words with commas between them; how click reads the value of a flag."""
    words = text.split(",") if isinstance(text, str) else text
    try:
        return frozenset(map(FailOn, filter(None, words)))
    except ValueError:
        raise click.BadParameter(f'"{text}" is not what runs fail on, expected some of {_FAIL_ON}') from None


_FAIL_ON = ",".join(FailOn)
_OF_REVIEWS = frozenset({*FailOn, "never", "invalid", "partial"})
fail_on_option = option(
    "--fail-on",
    type=fail_on,
    metavar=_FAIL_ON,
    help="Fail where something is held back (4), or unknown or in conflict (6), which else is a notice.",
    elsewhere=lambda text: set(text.split(",")) <= _OF_REVIEWS,
)
quiet_option = option("-q", "--quiet", is_flag=True, help="Print no progress and no warnings on stderr.")

tenant_option = option(
    "--tenant", metavar="NAME", help="Look at the namespaces of one tenant of the Fleet only; rights there are enough."
)


@_written_as("INDEX/COUNT")
def shard(text: str | tuple[int, int]) -> tuple[int, int]:
    """Return the index of a shard and how many there are; how click reads the value of a flag."""
    if not isinstance(text, str):
        return text
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text, re.ASCII)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if index < count:
        return index, count
    raise click.BadParameter(f'"{text}" is not a shard, expected INDEX/COUNT with an index from 0, like 2/8')


shard_option = option("--shard", type=shard, help="Decide only this one of COUNT parts of the Fleet, counted from 0.")
filter_options = together(
    option("--policy", multiple=True, metavar="GLOB", help="Filter by policy; may be repeated."),
    option("--cluster", multiple=True, metavar="GLOB", help="Filter by cluster; may be repeated."),
    option("-n", "--namespace", multiple=True, metavar="GLOB", help="Filter by namespace; may be repeated."),
    option("-l", "--selector", metavar="LABELS", help="Filter by labels, as kubectl does."),
)

report_dir_option = option(
    "--report-dir",
    type=click.Path(),
    metavar="DIR",
    help="Also write the history of this run to a new file of JSON lines in DIR.",
)
run_options = together(
    option(
        "--allow-exceed",
        multiple=True,
        metavar="NAME[=N]",
        help="Lift the limits of a policy once, or let it exceed them up to N; may be repeated.",
    ),
    option(
        "--allow-removed", is_flag=True, help="Wake what policies idled that are gone, however many are gone at once."
    ),
    option(
        "--run-id",
        metavar="ID",
        default_words="a digest of policies, inputs and time",
        help="The id of the run, in annotations and Events.",
    ),
    option("--source-revision", metavar="REV", help="The revision of the policies, for the records."),
)


def moment(text: str | None) -> datetime:
    """Return the run's one `now`: UTC, whole seconds."""
    if text is None:
        return datetime.now(UTC).replace(microsecond=0)
    at = parse_time(text)
    if at is None:
        years = f"a year from {FIRST_YEAR} to {LAST_YEAR}"
        raise UsageError(f'--now: "{text}" is not a time, expected RFC 3339 with a zone and {years}, like {_EXAMPLE}')
    return at.replace(microsecond=0)


def run_id_of(text: str | None) -> str:
    """Return the id given to --run-id, "" for none. It becomes a label's value and part of names.

    Raises:
        UsageError: Kubernetes would refuse it there.
    """
    if text is None or _RUN_ID.fullmatch(text):
        return text or ""
    raise UsageError(f'--run-id: "{text}" is not an id, expected at most 40 lower-case letters, digits and -')


def terminal_or(approved: bool, verb: str) -> None:
    """Refuse a verb that would have to ask where nobody can answer.

    Raises:
        UsageError: there is no terminal, and nothing was approved.
    """
    if not approved and not sys.stdin.isatty():
        raise UsageError(f"{verb}: there is no terminal to ask on, expected --auto-approve")


def check_variables(read: Collection[str]) -> None:
    """Refuse a variable that no verb accepts, although the one that is called does not `read` it.

    Raises:
        UsageError: with the name of the variable.
    """
    for variable, value_of in _SHARED.items():
        text = os.environ.get(variable)
        if text and variable not in read:
            try:
                value_of(text)
            except (UsageError, click.BadParameter) as error:
                raise UsageError(f"{variable}: {str(error).removeprefix('--now: ')}") from None


_SHARED: dict[str, Callable[[str], object]] = {
    "RECONCILER_NOW": moment,
    "RECONCILER_QPS": rate,
    "RECONCILER_REQUEST_TIMEOUT": seconds,
    "RECONCILER_TIMEOUT": seconds,
}


def colored(choice: str) -> bool:
    """Return whether stdout gets colours: never into a pipe or with NO_COLOR, unless asked for."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def text_width() -> int:
    """Return how wide text on stdout may be: as wide as the terminal, 0 (no limit) in a pipe."""
    if not sys.stdout.isatty():
        return 0
    from shutil import get_terminal_size

    return get_terminal_size().columns


def filters_of(flags: Mapping[str, Any]) -> Filters:
    """Return the filters that the flags of a verb describe; one that the verb does not have filters nothing.

    Raises:
        UsageError: the label selector (`a=b,c!=d,e in (f,g),!h`) cannot be read.
    """
    text = flags.get("selector")
    try:
        labels = LabelSelector() if text is None else parse_label_selector(text)
    except ValueError as error:
        raise UsageError(f"--selector: {error}") from error
    return Filters(flags.get("policy", ()), flags.get("cluster", ()), flags.get("namespace", ()), labels)


def tenant_named(fleet: Fleet, name: str) -> Tenant:
    """Return the tenant that --tenant names.

    Raises:
        UsageError: there is none.
    """
    found = fleet.tenant(name)
    if found is None:
        names = [tenant.name for tenant in fleet.tenants]
        raise UsageError(f'--tenant: "{name}" is none of {len(names)} tenants of the Fleet{nearest(name, names)}')
    return found
