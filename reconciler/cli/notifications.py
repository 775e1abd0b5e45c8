"""The messages at the end of a run: made of what it did, sent to the receivers of the Fleet and of its tenants."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.backends.credentials.allowed_sources import allowed_file, secret_in
from reconciler.backends.protocols import HISTORY_LABEL
from reconciler.cli.deliveries import SECONDS, deliver, message_to
from reconciler.cli.output import say, say_each
from reconciler.cli.progress import TrackedRun
from reconciler.connection_settings import CredentialSources
from reconciler.decide.annotations import format_time, json_object, parse_time
from reconciler.errors import ReconcilerError, UnreachableError, UsageError, reason_of
from reconciler.history.config_maps import HISTORY_PREFIX, keeper
from reconciler.http.client import HttpRequest
from reconciler.model import OUR_LABELS
from reconciler.pipeline import Applied
from reconciler.plan.filters import Filters
from reconciler.plan.model import Plan
from reconciler.policy.kinds.fields import given
from reconciler.policy.types import Fleet, Notification
from reconciler.redaction import remember
from reconciler.report.notification import Fact, Message, body_of, facts_of
from reconciler.time_limit import GRACE_SECONDS, TimeLimit
from reconciler.world import World

T = TypeVar("T")


def notify(run: TrackedRun[Any], applied: Applied, problem: str) -> None:
    """Send what `run` did to the receivers; `problem` is why it did no more than wake, "" where the policies were used.

    It says nothing about the run: what was not sent is a warning. All of it takes two seconds at most.
    """
    try:
        say_each("warning", _sent(run, applied, problem))
    except Exception as error:  # noqa: BLE001 - whatever it is, the run did what it could
        say(f"warning: no notification was sent: {reason_of(error)}")


def _sent(run: TrackedRun[Any], applied: Applied, problem: str) -> Iterator[str]:
    """Send what there is to send; yield why something was not."""
    assert run.opened is not None
    options, (world, fleet) = run.options, run.opened
    teams = [(receiver, tenant.name) for tenant in fleet.tenants for receiver in tenant.notify]
    receivers = [*((receiver, "") for receiver in fleet.notify), *teams]
    if not receivers:
        return
    plan, limit = applied.plan, options.limit.within(SECONDS, grace=GRACE_SECONDS)
    wrong = (Fact("Failed", f"Fleet {fleet.name}", problem),) if problem else ()
    facts = (*wrong, *facts_of(plan, applied.outcomes, fleet))
    read = partial(_Notified.before, plan, fleet, world)
    reading: Future[_Notified | None] = world.readers.pool.submit(fleet.home, read, urgent=True)
    before, unread = _answer(reading, limit.within(SECONDS / 4))
    if before is None:
        yield f"what was sent before is not known, and may be sent again: {unread}"
    lately = frozenset[str]() if before is None else before.lately(plan.made_at)
    new = tuple(fact for fact in facts if not fact.lasts or fact.key not in lately)
    messages = {
        f"{receiver.place}:{receiver.place.column}: notification ({receiver.format})": (receiver, message)
        for receiver, tenant in receivers
        if (message := Message.of(plan, new, receiver.on, tenant)).facts
    }
    failed = _failed(messages, options.sources, limit.within(limit.left() - SECONDS / 4))
    yield from (f"{name}{why}" for name, why in failed.items())
    if before is not None:
        whole = options.filters == Filters() and not (problem or plan.unknown)
        stay = lately & {fact.key for fact in facts} if whole else lately
        record = partial(before.record, _taken(messages, failed), stay, plan.made_at)
        _, unwritten = _answer(world.readers.pool.submit(fleet.home, record, urgent=True), limit)
        yield from filter(None, [unwritten and f"what was sent is not recorded, and may be sent again: {unwritten}"])


def _taken(messages: Mapping[str, tuple[Notification, Message]], failed: Collection[str]) -> set[str]:
    """Return the keys of what lasts that every receiver took that asks for it."""
    lost = {fact.key for name in failed for fact in messages[name][1].facts}
    return {fact.key for _, message in messages.values() for fact in message.facts if fact.lasts} - lost


def _failed(
    messages: Mapping[str, tuple[Notification, Message]], sources: CredentialSources, limit: TimeLimit
) -> dict[str, str]:
    """Send `messages`; return by name why one was not sent, in words that follow its name."""
    requests: dict[str, HttpRequest] = {}
    failed: dict[str, str] = {}
    for name, (receiver, message) in messages.items():
        try:
            requests[name] = _request(receiver, message, sources)
        except ReconcilerError as error:
            failed[name] = f": {error}"
    return failed | {name: f" to {why}" for name, why in deliver(requests, limit).items()}


def _answer(future: Future[T], limit: TimeLimit) -> tuple[T | None, str]:
    """Return the result of `future`, or None and why there is none within `limit`."""
    if not limit.until(lambda seconds: wait([future], seconds).done):
        return None, "no answer in time"
    error = future.exception()
    return (future.result(), "") if error is None else (None, reason_of(error))


def _request(receiver: Notification, message: Message, sources: CredentialSources) -> HttpRequest:
    """Return the request that sends `message`.

    Raises:
        ReconcilerError: address or token cannot be read, or may not be used.
    """

    def read(what: str, file: str, content: str) -> str:
        return secret_in(what, allowed_file(sources, "notify", what, file), content)

    url = given(receiver.url) or _secret_address(read("urlFile", str(receiver.url_file), "an address"))
    token = "" if receiver.token_file is None else read("tokenFile", receiver.token_file, "a token")
    if token and not (receiver.allow_insecure_auth or url.startswith("https://")):
        words = 'the address begins with "http://" beside tokenFile, expected "https://"'
        raise UsageError(f"{words}; or say allowInsecureAuth: true")
    return message_to(url, *body_of(message, receiver.format), token)


def _secret_address(url: str) -> str:
    """Return `url`, of which no more than the host is printed from now on.

    Raises:
        UsageError: it is no address.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in url or "#" in url:
        words = "expected an http or https URL without user, password or fragment in it"
        raise UsageError(f"urlFile holds no address, {words}")
    for secret in (url, parts.path, parts.query):
        remember(secret)
    return url


_NAME, _KEY = f"{HISTORY_PREFIX}notified", "notified"
_AGAIN = timedelta(days=1)


class _Notified(Struct, frozen=True):
    """When each problem was sent last, by its key, as `text`, the entry of `store`, says; None: nothing was yet.

    No run sends one again before a day is over. It stands beside the history, labelled like it, so that no run lists
    it.
    """

    store: ConfigMapStore
    entry: str
    text: str | None
    times: Mapping[str, str]

    @classmethod
    def before(cls, plan: Plan, fleet: Fleet, world: World) -> _Notified:
        """Return what the cluster knows that keeps the history; each shard has an entry of its own.

        Raises:
            ClusterError: it cannot be read, or there is none.
        """
        home = keeper(plan, world.accesses, fleet)
        if home is None:
            raise UnreachableError("no cluster that may be written to answers, expected one that keeps it")
        entry = f"{_KEY}-{plan.shard.replace('/', '-')}" if plan.shard else _KEY
        store = ConfigMapStore(home.cluster, fleet.namespace, _NAME, {**OUR_LABELS, HISTORY_LABEL: "notified"})
        text = store.read(entry)
        return cls(store, entry, text, json_object(text))

    def lately(self, now: datetime) -> frozenset[str]:
        """Return the keys that were sent within the last day."""
        times = ((key, parse_time(str(at))) for key, at in self.times.items())
        return frozenset(key for key, at in times if at is not None and timedelta(0) <= now - at < _AGAIN)

    def record(self, sent: Collection[str], kept: Collection[str], now: datetime) -> None:
        """Write that the keys `sent` were sent now; of the others those `kept` stay.

        Raises:
            ClusterError: that cannot be written.
        """
        times = {key: self.times[key] for key in kept} | dict.fromkeys(sent, format_time(now))
        if times != self.times:
            self.store.write(self.entry, msgspec.json.encode(dict(sorted(times.items()))).decode(), self.text)
