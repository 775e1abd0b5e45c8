"""Options of verbs: each is one field of a class, from which its flag, RECONCILER_* variable and help follow."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, TypeVar, dataclass_transform

import click
from click.core import ParameterSource
from msgspec import Struct

from reconciler.cli.option_values import moment, rate, seconds, this_second
from reconciler.cli.verbs import one_dash, other_name, program_name
from reconciler.errors import PolicyError, Problem, UsageError
from reconciler.policy.kinds.fields import spelt_duration

OUTPUTS = ("text", "json", "yaml", "markdown", "html", "github", "gitlab", "sarif", "junit")
"""The forms of all verbs together."""

DEFAULT_PATH = "policies"
GENERAL = "Options"
_POLICIES = "RECONCILER_POLICIES"
_MOST_DAYS = 366
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
_REPEATED_ELSEWHERE = ("--context", "--namespace", "--cluster")
"""Who gives one of these twice means both. Of any other option the last value counts, as in kubectl: extraArgs of the
chart stand behind its own.
"""
_PATHS = {"DIR": click.Path(file_okay=False), "FILE": click.Path(), "PATH": click.Path()}
"""What a shell completes for a parameter with this metavar."""


class Field(Struct, frozen=True):
    """Of one field: its default, or the function that makes it, and what click reads it with."""

    default: Any
    settings: Mapping[str, Any] | None = None  # None: it stands on no command line
    flags: tuple[str, ...] | None = None  # None: it is an argument


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """The options of one call of a verb, with a field for each, made by `option` or `argument`.

    A dataclass would compile an `__init__` of 40 fields for each class at every start.
    """

    fields: ClassVar[Mapping[str, Field]] = {}
    shared: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, shared: bool = False) -> None:
        """`shared`: its options belong only to the verbs that name them."""
        own = {name: value for name, value in vars(cls).items() if name in cls.__annotations__}
        made = {name: value if isinstance(value, Field) else Field(value) for name, value in own.items()}
        cls.fields = {**cls.fields, **made}
        cls.shared = frozenset(made) if shared else cls.shared - made.keys()

    def __init__(self, **values: Any) -> None:
        for name, field in self.fields.items():
            default = field.default
            vars(self)[name] = values.pop(name) if name in values else default() if callable(default) else default
        if values:
            raise TypeError(f"{type(self).__name__}: has no {', '.join(values)}")

    @classmethod
    def of(cls: type[O], values: Mapping[str, Any]) -> O:
        """Return those with `values`, as they were read; one that is not among them is at its default.

        Raises:
            UsageError: values exclude each other.
        """
        return cls(**values)

    def replace(self: O, **changes: Any) -> O:
        """Return them with `changes`."""
        return type(self)(**{**vars(self), **changes})


O = TypeVar("O", bound=Options)  # noqa: E741


def option(help: str, *flags: str, default: Any = None, **settings: Any) -> Any:
    """Return the field of an option, whose flag is its name where `flags` say no other, e.g. "-n", "--namespace".

    It is read by `type`, and may be repeated where it is `multiple`. `default` may be a function. `settings` are those
    of click, and of `_Option`.
    """
    default = () if settings.get("multiple") and default is None else default
    # To click a default of None is a value, with which nothing is required.
    given = settings if default is None else {"default": default, **settings}
    return Field(default, {"help": help, **given}, flags)


def argument(metavar: str, **settings: Any) -> Any:
    """Return the field of an argument, which stands on the command line without a flag; `settings` are those of click.

    Where nothing says that it is not, it is required.
    """
    return Field(settings.get("default"), {"metavar": metavar, **settings})


def unread(default: Callable[[], object]) -> Any:
    """Return a field that stands on no command line, which `default` makes."""
    return Field(default)


def path_argument(metavar: str = "[PATH]") -> Any:
    """Return the field of the policy directory, of a verb without an OBJECT."""
    return argument(metavar, default=DEFAULT_PATH, type=click.Path(), envvar=_POLICIES)


def policies_option(words: str = "The policy directory.", **settings: Any) -> Any:
    """Return the field of the policy directory, of a verb with an OBJECT."""
    return option(words, "--policies", metavar="PATH", type=click.Path(), **{"default": DEFAULT_PATH, **settings})


def output_option(*formats: str) -> Any:
    """Return the field for the form of stdout, the first of `formats` by default."""
    return option(
        "The form of stdout.",
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        elsewhere=OUTPUTS.__contains__,
    )


def now_option() -> Any:
    """Return the field of the time to decide for."""
    words = "the time of this machine"
    return option("The time to decide for.", type=moment, default=this_second, default_words=words)


def days_option(words: str, most: int = 31) -> Any:
    """Return the field for how many days are looked at; the verbs differ in what they take."""
    return option(
        words,
        type=click.IntRange(1, most),
        default=7,
        metavar="N",
        elsewhere=lambda text: text.isdecimal() and 1 <= int(text) <= _MOST_DAYS,
    )


def price_option() -> Any:
    """Return the field of stated prices, which `prices_of` reads."""
    return option(
        "What a core (cpu) or a GiB (memory) costs an hour, in place of prices of the Fleet; may be repeated.",
        multiple=True,
        metavar="RESOURCE=PRICE",
    )


def auto_approve_option(words: str = "Do not ask for approval; required without a terminal.") -> Any:
    """Return the field of what somebody would be asked for, of a verb that a person calls."""
    return option(words, "--auto-approve", "--yes", default=False)


def verb(
    name: str, options: type[O], *takes: str
) -> Callable[[Callable[[O], int | None]], Callable[[], click.Command]]:
    """Return a decorator of a function that is called with its `options`; it becomes one that makes the verb `name`.

    Its docstring is the help; what follows the first "# " at the end are examples: a comment, and below it the rest of
    the command line. Arguments come first. Of shared options it takes those that `takes` name, in their order.
    """
    return lambda function: partial(_made, name, options, takes, function)


def _made(name: str, options: type[O], takes: Sequence[str], function: Callable[[O], int | None]) -> click.Command:
    fields = options.fields
    own = [one for one, field in fields.items() if field.settings is not None and one not in options.shared]
    names = sorted((*own, *takes), key=lambda one: fields[one].flags is not None)
    parameters = {one: _parameter(one, fields[one]) for one in names}

    def called(**values: Any) -> int | None:
        try:
            return function(options.of({one: values[str(made.name)] for one, made in parameters.items()}))
        except UsageError as error:
            raise UsageError(_named_by_variable(str(error), parameters.values())) from None
        except PolicyError as error:
            raise _naming_the_path(error, parameters.values(), values) from error

    lines = (line.strip() for line in (function.__doc__ or "").strip().splitlines())
    words, _, examples = "\n".join(lines).partition("\n\n# ")
    return Verb(name, callback=called, params=list(parameters.values()), help=words, epilog=f"# {examples}")


def _named_by_variable(text: str, parameters: Iterable[click.Parameter]) -> str:
    """Return an error of a call with the variable in place of the flag that it begins with, where nobody typed that."""
    flag, _, rest = text.partition(":")
    source = click.get_current_context().get_parameter_source
    for one in parameters:
        if flag in one.opts and source(str(one.name)) is ParameterSource.ENVIRONMENT:
            return f"{one.envvar}:{rest}"
    return text


def _naming_the_path(
    error: PolicyError, parameters: Iterable[click.Parameter], values: Mapping[str, Any]
) -> PolicyError:
    """Return `error`; of one about the default path, which is not there, one that says how another is named."""
    places = [one for one in parameters if one.envvar == _POLICIES and values[str(one.name)] in (None, DEFAULT_PATH)]
    if os.path.exists(DEFAULT_PATH) or not places or [one.file for one in error.problems] != [DEFAULT_PATH]:
        return error
    flag = "PATH" if isinstance(places[0], click.Argument) else "--policies PATH"
    words = f"{error.problems[0].message}; {flag} names another one"
    return PolicyError.of([Problem.of_path(DEFAULT_PATH, words)])


def _parameter(name: str, field: Field) -> click.Parameter:
    """Return what click reads the option or argument `name` with."""
    settings = dict(field.settings or {})
    if settings.get("metavar") in _PATHS:
        settings = {"shell_complete": _PATHS[settings["metavar"]].shell_complete, **settings}
    if field.flags is None:
        return click.Argument([name], **settings)
    flags = field.flags or (f"--{name.replace('_', '-')}",)
    long = next(flag for flag in flags if flag.startswith("--")).split("/")[0]
    variable = "RECONCILER_" + long.removeprefix("--").replace("-", "_").upper()
    default = field.default
    settings = {
        "metavar": getattr(settings.get("type"), "metavar", None),
        "is_flag": isinstance(default, bool) or None,  # with False click takes it without a value
        "envvar": variable,
        "default_words": _default_words(default),
        **settings,
    }
    return _Option(list(flags), **settings)


def _default_words(default: Any) -> str:
    if isinstance(default, timedelta):
        return spelt_duration(default)
    if isinstance(default, float):
        return f"{default:g}"
    return str(default) if isinstance(default, str | int) and not isinstance(default, bool) else ""


class Verb(click.Command):
    """A verb whose help has its options in groups, and examples."""

    @property
    def example_lines(self) -> list[str]:
        """Its examples, as kubectl shows them: a comment, and below it the command line."""
        lines = str(self.epilog).splitlines()
        return [line if line.startswith(("#", "source")) else f"{program_name()} {line}" for line in lines]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        verb, options = str(self.name), {name for parameter in self.get_params(ctx) for name in parameter.opts}
        wrong = one_dash(verb, args, options)
        if wrong:
            raise click.UsageError(wrong, ctx)
        try:
            _, _, given = self.make_parser(ctx).parse_args([*args])
            left = super().parse_args(ctx, args)
        except UsageError as error:
            raise UsageError(_named_by_variable(str(error), self.params)) from None
        except click.NoSuchOption as error:
            here = other_name(verb, error.option_name, options)
            if not here:
                raise
            raise click.UsageError(f"No such option '{error.option_name}'{here}", ctx) from None
        except click.UsageError as error:
            if "extra argument" not in error.message or not any("--policies" in one.opts for one in self.params):
                raise
            raise click.UsageError(f"{error.message}; the policies are named by --policies", ctx) from None
        for one in self.params:
            _check_given(one, ctx.params[str(one.name)], given.count(one))
        check_variables({str(parameter.envvar) for parameter in self.params})
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
            for line in self.example_lines:
                formatter.write(f"  {line}\n")
        formatter.write_paragraph()
        formatter.write_text(_VARIABLES)


def _check_given(parameter: click.Parameter, value: Any, times: int) -> None:
    """Refuse several values where other verbs take them and this one takes one, and an empty path, which would be the
    working directory: where it is a variable, that is not set.

    Raises:
        UsageError: it is given so many `times`, or `value` is such a path, or has one.
    """
    if times > 1 and parameter.opts[-1] in _REPEATED_ELSEWHERE and not parameter.multiple:
        raise UsageError(f"{parameter.opts[-1]}: is given {times} times, expected it once")
    is_path = isinstance(parameter.type, click.Path) or parameter.metavar in _PATHS
    if is_path and "" in (value if isinstance(value, tuple) else (value,)):
        where = parameter.metavar if isinstance(parameter, click.Argument) else parameter.opts[-1]
        raise UsageError(f'{where}: is "", expected a path')


def _argument_record(parameter: click.Parameter) -> tuple[str, str] | None:
    """Return what the help says of the one argument that has a default."""
    plan = ", or a saved plan" if "PLAN" in (parameter.metavar or "") else ""
    words = f"The policy directory{plan}.  [default: {DEFAULT_PATH}]"
    return (str(parameter.metavar).strip("[]"), words) if parameter.name == "path" else None


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


def offering(names: Callable[[str], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what offers to a shell those of `names` that begin with what was typed, which `names` is called with."""
    return lambda _, __, begun: [name for name in names(begun) if name.startswith(begun)]


def is_on_command_line(flag: str) -> bool:
    """Return whether the option stands on the command line of this call, and not only in its variable."""
    return click.get_current_context().get_parameter_source(flag) is ParameterSource.COMMANDLINE


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
    for variable, value_of in _CHECKED.items():
        text = os.environ.get(variable)
        if text and variable not in read:
            try:
                value_of(text)
            except (UsageError, click.BadParameter) as error:
                raise UsageError(f"{variable}: {str(error).removeprefix('--now: ')}") from None


_CHECKED: dict[str, Callable[[str], object]] = {
    "RECONCILER_NOW": moment,
    "RECONCILER_QPS": rate,
    "RECONCILER_REQUEST_TIMEOUT": seconds,
    "RECONCILER_TIMEOUT": seconds,
}


def text_width() -> int:
    """Return how wide text on stdout may be: as wide as the terminal, 0 (no limit) in a pipe."""
    if not sys.stdout.isatty():
        return 0
    from shutil import get_terminal_size

    return get_terminal_size().columns
