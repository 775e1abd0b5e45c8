"""The flags that verbs share, each with its environment variable RECONCILER_*."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from reconciler.decide.annotations import FIRST_YEAR, LAST_YEAR, parse_time
from reconciler.errors import UsageError
from reconciler.labels import LabelSelector, parse_label_selector
from reconciler.plan.filters import Filters
from reconciler.policy.durations import parse_duration

_EXAMPLE = "2026-11-20T15:41:23Z"
_LONGEST_WAIT = 86_400.0
_HIGHEST_RATE = 100_000.0
_RUN_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)

F = TypeVar("F", bound=Callable[..., Any])


class _Option(click.Option):
    """A variable holds for all verbs, and not all know the same words: one unknown to this verb leaves the default."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        found = super().resolve_envvar_value(ctx)
        unknown = isinstance(self.type, click.Choice) and found not in self.type.choices
        return None if unknown else found


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Return a click option whose environment variable is RECONCILER_ and its long name."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "RECONCILER_" + long.removeprefix("--").replace("-", "_").upper()
    return click.option(*names, cls=_Option, envvar=variable, show_envvar=True, **settings)


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator for several, in their order."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


DEFAULT_PATH = "policies"


def path_argument(default: str = DEFAULT_PATH) -> Callable[[F], F]:
    return click.argument("path", default=default, type=click.Path())


def output_option(*formats: str) -> Callable[[F], F]:
    return option("-o", "--output", type=click.Choice(formats), default=formats[0], help="What stdout gets.")


def rate(text: str | float) -> float:
    """Return a number of writes a second, 0 for no limit; how click reads the value of a flag."""
    found = _number(text)
    if found == 0 or 0.01 <= found <= _HIGHEST_RATE:
        return found
    raise click.BadParameter(f'"{text}" is no rate, expected 0 for no limit, or up to {_HIGHEST_RATE:g}')


def seconds(text: str | float) -> float:
    """Return a number of seconds, finite and not negative; how click reads the value of a flag."""
    found = _number(text)
    if 0 <= found <= _LONGEST_WAIT:
        return found
    raise click.BadParameter(f'"{text}" is no number of seconds, expected one from 0 to {_LONGEST_WAIT:g}')


def _number(text: str | float) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


world_options = together(
    option("--no-exec", is_flag=True, help="Refuse kubeconfigs that have a program run for credentials."),
    option(
        "--credentials-dir",
        multiple=True,
        type=click.Path(),
        metavar="DIR",
        help="A Fleet may name files below these alone (default: /var/run/secrets, ~/.kube).",
    ),
    option("--snapshot", metavar="DIR", help="Look at this snapshot instead of live clusters."),
    option("--request-timeout", type=seconds, default=30.0, help="Seconds for one request to a live cluster."),
    option("--qps", type=rate, default=50.0, help="Writes a second to each live cluster; 0: no limit."),
    option("--timeout", type=seconds, metavar="SECONDS", help="Wait for nothing, and start no write, after this."),
)
context_option = option("--context", metavar="NAME", help="Look at this context of the kubeconfig, without a Fleet.")
now_option = option("--now", metavar="RFC3339", help="Decide as if it were this time.")
color_option = option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Also NO_COLOR; auto is a terminal."
)
verbose_option = option("-v", "--verbose", is_flag=True, help="Also metadata updates, and every field that changes.")
summary_option = option("--summary", is_flag=True, help="As text: headings with counts, for 500 objects and more.")
quiet_option = option("-q", "--quiet", is_flag=True, help="No talk on stderr.")

filter_options = together(
    option("--policy", multiple=True, metavar="GLOB", help="Only what these policies want."),
    option("--cluster", multiple=True, metavar="GLOB", help="Only what lies on these clusters."),
    option("-n", "--namespace", multiple=True, metavar="GLOB", help="Only what lies in these namespaces."),
    option("-l", "--selector", metavar="LABELS", help="Only objects with these labels, as kubectl takes them."),
)

run_options = together(
    option("--allow-exceed", multiple=True, metavar="NAME", help='Lift one limit once: a policy, or "fleet".'),
    option("--run-id", metavar="ID", help="Instead of the one made from policies, inputs and time."),
    option("--source-revision", metavar="REV", help="The revision of the policies, for the records."),
)


def moment(text: str | None) -> datetime:
    """Return the run's one `now`: UTC, whole seconds."""
    if text is None:
        return datetime.now(UTC).replace(microsecond=0)
    at = parse_time(text)
    if at is None:
        years = f"a year from {FIRST_YEAR} to {LAST_YEAR}"
        raise UsageError(f'--now: "{text}" is no time, expected RFC 3339 with a zone and {years}, like {_EXAMPLE}')
    return at.replace(microsecond=0)


def run_id_of(text: str | None) -> str:
    """Return the id given to --run-id, "" for none. It becomes a label's value and part of names.

    Raises:
        UsageError: Kubernetes would refuse it there.
    """
    if text is None or _RUN_ID.fullmatch(text):
        return text or ""
    raise UsageError(f'--run-id: "{text}" is no id, expected at most 40 lower-case letters, digits and -')


def duration_of(flag: str, text: str) -> timedelta:
    """Return the duration given to `flag`.

    Raises:
        UsageError: it is none.
    """
    found = parse_duration(text)
    if found is None:
        raise UsageError(
            f'{flag}: "{text}" is no duration, expected something like 90s, 30m, 1h30m or 2d, at most 999d'
        )
    return found


def terminal_or(approved: bool, verb: str) -> None:
    """Refuse a verb that would have to ask where nobody can answer.

    Raises:
        UsageError: there is no terminal, and nothing was approved.
    """
    if not approved and not sys.stdin.isatty():
        raise UsageError(f"{verb}: there is no terminal to ask on, expected --auto-approve")


def colored(choice: str) -> bool:
    """Return whether stdout gets colours: never into a pipe or with NO_COLOR, unless asked for."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def text_width() -> int:
    """Return how wide text on stdout may be: as wide as the terminal, 0 (no limit) in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


@dataclass(frozen=True)
class FilterWords:
    """The filters as given."""

    policy: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    namespace: tuple[str, ...] = ()
    selector: str | None = None

    def filters(self) -> Filters:
        """Return them as a value.

        Raises:
            UsageError: the label selector cannot be read.
        """
        labels = LabelSelector() if self.selector is None else label_selector(self.selector)
        return Filters(self.policy, self.cluster, self.namespace, labels)


def label_selector(text: str) -> LabelSelector:
    """Return a kubectl label selector (`a=b,c!=d,e in (f,g),!h`) as a value.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return parse_label_selector(text)
    except ValueError as error:
        raise UsageError(f"--selector: {error}") from error
