"""How the values of flags are read: durations, times, ids and the like."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from reconciler.decide.annotations import FIRST_YEAR, LAST_YEAR, parse_time
from reconciler.errors import FailOn, UsageError
from reconciler.labels import LabelSelector, parse_label_selector
from reconciler.policy.kinds.fields import MOST_DURATION, parse_duration, spelt_duration
from reconciler.policy.types import Prices
from reconciler.untrusted_text import LARGEST, whole_number_in

_EXAMPLE = "2026-11-20T15:41:23Z"
_LONGEST_WAIT = 86_400.0
_HIGHEST_RATE = 100_000.0
_RUN_ID = r"(?a)[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?"

LONGEST_PAST = timedelta(days=92)
"""How far back a replay may begin."""


def written_as(metavar: str) -> Callable[[Callable[[str], Any]], Callable[[Any], Any]]:
    """Return a decorator for what reads the text of a value, for which `metavar` stands in the help."""

    def decorate(read: Callable[[str], Any]) -> Callable[[Any], Any]:
        def value(given: Any) -> Any:
            return read(given) if isinstance(given, str) else given  # a default

        value.metavar = metavar  # type: ignore[attr-defined]
        return value

    return decorate


@written_as("TEXT")
def utf8(text: str) -> str:
    """Return what others are told: an argument may be of any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f'"{text}" is not UTF-8, expected text') from None
    return text


@written_as("RATE")
def rate(text: str) -> float:
    """Return a number of writes a second, 0 for no limit."""
    found = _number(text)
    if found == 0 or 0.01 <= found <= _HIGHEST_RATE:
        return found
    raise click.BadParameter(f'"{text}" is not a rate, expected 0 for no limit, or up to {_HIGHEST_RATE:g}')


@written_as("SECONDS")
def seconds(text: str) -> float:
    """Return a number of seconds, finite and not negative."""
    found = _number(text)
    if 0 <= found <= _LONGEST_WAIT:
        return found
    raise click.BadParameter(f'"{text}" is not a number of seconds, expected one from 0 to {_LONGEST_WAIT:g}')


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def is_duration(text: str) -> bool:
    """Return whether it is a duration, of whatever length."""
    return parse_duration(text) is not None


def duration(least: timedelta = timedelta(), most: timedelta = MOST_DURATION) -> Callable[[Any], Any]:
    """Return how a duration is read: it must be one also where it is not used."""
    bounds = f"{f'from {spelt_duration(least)} to' if least else 'at most'} {spelt_duration(most)}"

    @written_as("DURATION")
    def read(text: str) -> timedelta:
        found = parse_duration(text)
        if found is None or not least <= found <= most:
            problem = "is not a duration" if found is None else "is out of range"
            raise click.BadParameter(f'"{text}" {problem}, expected something like 90s, 30m, 1h30m or 2d, {bounds}')
        return found

    return read


@written_as(",".join(FailOn))
def fail_on(text: str) -> frozenset[FailOn]:
    """Return what a run fails on, from words with commas between them."""
    try:
        return frozenset(map(FailOn, filter(None, text.split(","))))
    except ValueError:
        raise click.BadParameter(f'"{text}" is not what runs fail on, expected some of {",".join(FailOn)}') from None


@written_as("INDEX/COUNT")
def shard(text: str) -> tuple[int, int]:
    """Return the index of a shard and how many there are."""
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text, re.ASCII)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if index < count:
        return index, count
    raise click.BadParameter(f'"{text}" is not a shard, expected INDEX/COUNT with an index from 0, like 2/8')


def this_second() -> datetime:
    """Return the time of this machine: UTC, whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


@written_as("RFC3339")
def moment(text: str) -> datetime:
    """Return the run's one `now`: UTC, whole seconds."""
    at = parse_time(text)
    if at is None:
        years = f"a year from {FIRST_YEAR} to {LAST_YEAR}"
        raise UsageError(f'--now: "{text}" is not a time, expected RFC 3339 with a zone and {years}, like {_EXAMPLE}')
    return at.replace(microsecond=0)


@written_as("ID")
def run_id(text: str) -> str:
    """Return the id given to --run-id. It becomes a label's value and part of names.

    Raises:
        UsageError: Kubernetes would refuse it there.
    """
    if re.fullmatch(_RUN_ID, text):
        return text
    raise UsageError(f'--run-id: "{text}" is not an id, expected at most 40 lower-case letters, digits and -')


@written_as("URL")
def gateway_address(text: str) -> str:
    """Return the address given to --push-gateway.

    Raises:
        UsageError: it is none.
    """
    from urllib.parse import urlsplit

    with suppress(ValueError):
        parts = urlsplit(text)
        _ = parts.port
        if parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment):
            return text
    raise UsageError("--push-gateway: is not an address, expected one like http://push.monitoring:9091")


@written_as("NAME[=N]")
def exceeding(text: str) -> tuple[str, int | None]:
    """Return the policy that --allow-exceed names, and its bound, None where it has none.

    Raises:
        UsageError: the bound is no number.
    """
    name, equals, bound = text.partition("=")
    number = whole_number_in(bound)
    if equals and number is None:
        raise UsageError(f'--allow-exceed: "{text}", expected NAME or NAME=NUMBER')
    return name, number if equals else None


@written_as("LABELS")
def label_selector(text: str) -> LabelSelector:
    """Return the label selector `a=b,c!=d,e in (f,g),!h`.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return parse_label_selector(text)
    except ValueError as error:
        raise UsageError(f"--selector: {error}") from error


def prices_of(texts: tuple[str, ...]) -> Prices:
    """Return the prices that `texts` state, RESOURCE=PRICE each.

    Raises:
        UsageError: a resource or a price is none, or a resource is priced twice.
    """
    found: dict[str, float] = {}
    for text in texts:
        resource, _, price = text.partition("=")
        amount = _number(price)
        if resource not in ("cpu", "memory") or resource in found or not 0 <= amount <= LARGEST:
            raise UsageError(f'--price: "{text}" is not a price, expected cpu=NUMBER and memory=NUMBER, each once')
        found[resource] = amount
    return Prices(**found)
