"""What a run tells others than clusters at its end: its metrics to a file or a push gateway, messages to webhooks."""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.backends.credentials.allowed_sources import allowed_file, secret_in
from reconciler.backends.protocols import HISTORY_LABEL
from reconciler.cli.output import say_each
from reconciler.cli.progress import TrackedRun
from reconciler.connection_settings import CredentialSources
from reconciler.decide.annotations import format_time, json_object, parse_time
from reconciler.errors import ExitCode, ReconcilerError, UnreachableError, UsageError, reason_of
from reconciler.history.config_maps import HISTORY_PREFIX, History, keeper
from reconciler.history.realised_savings import SavedBefore
from reconciler.http.client import HttpClient, HttpRequest, HttpResponse
from reconciler.http.errors import HttpError, TimedOutError
from reconciler.model import OUR_LABELS
from reconciler.pipeline import Applied
from reconciler.plan.filters import Filters
from reconciler.plan.model import Plan
from reconciler.policy.kinds.fields import given
from reconciler.policy.types import Fleet, Notification
from reconciler.redaction import remember, remember_authorization, without_credentials
from reconciler.report.metrics import Measured, last_success_in, render_metrics
from reconciler.report.notification import Fact, Message, body_of, facts_of
from reconciler.time_limit import GRACE_SECONDS, TimeLimit
from reconciler.worker_pool import WorkerPool
from reconciler.world import World
from reconciler.yaml.files import write_new

SECONDS = 2.0
"""How long all messages of a run may take together."""

_LATE = f"no answer within {SECONDS:g} s, expected the message to be taken"


def tell_others(verb: str, run: TrackedRun[Any]) -> None:
    """Publish the metrics of a run of `verb`, and send its messages, as its options and the Fleet say."""
    if run.options.metrics_file or run.options.push_gateway:
        publish(verb, run)
    if run.to_notify is not None:
        notify(run, *run.to_notify)


def message_to(url: str, content_type: str, body: bytes, token: str = "") -> HttpRequest:
    """Return the request that sends `body` to `url`, with the bearer token where there is one."""
    return HttpRequest("POST", url, _headers(content_type, f"Bearer {token}" if token else ""), body)


def _headers(content_type: str, authorization: str) -> dict[str, str]:
    headers = {"Content-Type": content_type, "User-Agent": "reconciler", "Connection": "close"}
    remember_authorization(authorization or None)
    return headers | ({"Authorization": authorization} if authorization else {})


def deliver(requests: Mapping[str, HttpRequest], limit: TimeLimit) -> dict[str, str]:
    """Send each of `requests` once, side by side; return by its key why one was not taken, at the latest when `limit`
    is over.

    The words hold nothing of an address but its host, and nothing of what a receiver says.
    """
    pool = WorkerPool()
    sent = {key: pool.submit(key, partial(_sent, request, limit), urgent=True) for key, request in requests.items()}
    limit.until(lambda seconds: not wait(sent.values(), seconds).not_done)
    found = {key: future.result() if future.done() else _LATE for key, future in sent.items()}
    return {key: f"{urlsplit(requests[key].url).hostname}: {why}" for key, why in found.items() if why}


def _sent(request: HttpRequest, limit: TimeLimit) -> str:
    """Return why the message was not taken, "" where it was."""
    found = _answer(request, limit, _LATE, "the message to be taken")
    if isinstance(found, str):
        return found
    return "" if 200 <= found.status < 300 else f"status {found.status}, expected the message to be taken"


def _answer(request: HttpRequest, limit: TimeLimit, late: str, expected: str) -> HttpResponse | str:
    """Return the answer, or why there is none. It is sent through the proxy of the environment."""
    from reconciler.http.connections import connections
    from reconciler.http.proxies import environment_proxy

    try:
        client = HttpClient(connections(proxy=environment_proxy(request.url), kept=1))
        return client.exchange(request, limit)
    except TimedOutError:
        return late
    except HttpError as error:
        return f"{error}, expected {expected}"
    except ValueError:
        return "the environment names a proxy that is no address, expected one like http://HOST:PORT"


_PUSH_SECONDS = 5.0
_LONGEST_REPLY = 200
_JOB = "/metrics/job/"
_METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def push(url: str, verb: str, text: str, *, whole: bool, limit: TimeLimit) -> str:
    """Push `text`; return why it could not be pushed, "" where it was. It takes five seconds at most, within `limit`.

    `whole` takes the place of everything pushed earlier; otherwise only metrics of the same names are replaced. The
    group is `job="reconciler"` with the verb, and with what follows it ("apply/shard/2"), also where `url` names a job.

    Source: prometheus/pushgateway README.md, "PUT method", "POST method".
    """
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # without user and password
    group = f"{'' if _JOB in parts.path else f'{_JOB}reconciler'}/verb/{verb}"
    method = "PUT" if whole else "POST"
    login = "" if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    headers = _headers(_METRICS_TEXT, f"Basic {b64encode(login.encode()).decode()}" if login else "")
    request = HttpRequest(method, f"{address.rstrip('/')}{group}", headers, text.encode())
    late = f"no answer within {_PUSH_SECONDS:g} s, expected the metrics to be taken"
    found = _answer(request, limit.within(_PUSH_SECONDS), late, "a push gateway")
    if isinstance(found, str):
        return f"{address}: {found}"
    if found.status in (200, 202):
        return ""
    line = " ".join(without_credentials(found.body.decode(errors="replace")).split())[:_LONGEST_REPLY]
    return f"{address}: status {found.status} ({line}), expected 200; is it a push gateway?"


# The metrics of a run, written to a file or pushed.


_ENDED_WELL = (ExitCode.DONE, ExitCode.CHANGES_PENDING, ExitCode.HELD_BACK)  # the last, where --fail-on asks for it
_FOR_COLLECTORS = 0o644


def publish(verb: str, run: TrackedRun[Any]) -> None:
    """Write and push the metrics of a run of `verb`, where its options say. A push takes no longer than the run may.

    What cannot be written or pushed is a warning: it says nothing about the run.
    """
    options, ended_well, warnings = run.options, run.code in _ENDED_WELL, []
    file, gateway, shard = options.metrics_file, options.push_gateway, options.shard
    sources = {} if run.opened is None else run.opened[0].sources
    found = Measured(
        run.plan,
        run.outcomes,
        stages=run.progress.seconds,
        traffic={name: source.traffic() for name, source in sources.items() if source.traffic is not None},
        shard=None if shard is None else shard[0],
    )
    if not found.shard:  # home has one history for all shards: each of them would count it
        try:
            found = replace(found, saved=_saved(run))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other metrics are known
            warnings.append(f"metrics: what idling saved is unknown: {reason_of(error)}")
    warnings.append("" if file is None else _written(file, found, ended_well))
    warnings.append("" if gateway is None else _pushed(gateway, verb, found, ended_well, options.limit))
    say_each("warning", filter(None, warnings))


def _saved(run: TrackedRun[Any]) -> tuple[SavedBefore, ...]:
    """Return what idling saved in all periods that ended until this run; nothing where there is no plan.

    What is idle now is left out: a period that is forgotten, as its workload is deleted, would make a counter fall,
    and Prometheus would take all of it for new.

    Raises:
        ReconcilerError: the history cannot be read.
    """
    if run.plan is None or run.opened is None:
        return ()
    world, fleet = run.opened
    home = History(world.access(fleet.home).cluster, fleet.namespace)
    return home.last(run.plan.made_at.astimezone(UTC).date()).saved_in_all()


def _written(file: str, measured: Measured, ended_well: bool) -> str:
    """Write the metrics to `file`, beside it first; return why that failed, "" where it did not. A shard has a file of
    its own: of metrics.prom that is metrics.shard-2.prom.

    After a run that failed the file goes on to say when one ended well last. What is beside it already is from a run
    that was killed, or a link that somebody planted: it goes, and is never written through.
    """
    path = Path(file)
    if path.exists() and not path.is_file():  # such as /dev/stdout, which a file would take the place of
        return f"{path}: is no regular file, expected a file for metrics that can be written"
    if measured.shard is not None:
        path = path.with_name(f"{path.stem}.shard-{measured.shard}{path.suffix}")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        former = None if ended_well or not path.is_file() else path.read_text(encoding="utf-8", errors="replace")
        last = time.time() if ended_well else last_success_in(former or "")
        beside.unlink(missing_ok=True)
        write_new(str(beside), render_metrics(replace(measured, last_success=last)), _FOR_COLLECTORS)
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        return f"{file}: {error.strerror}, expected a file for metrics that can be written"
    return ""


def _pushed(gateway: str, verb: str, measured: Measured, ended_well: bool, limit: TimeLimit) -> str:
    """Push the metrics; a run that failed leaves the time of the last success as it is there.

    Once the run is over, the push has what is left of its grace.
    """
    text = render_metrics(replace(measured, last_success=time.time() if ended_well else None))
    group = verb if measured.shard is None else f"{verb}/shard/{measured.shard}"
    return push(gateway, group, text, whole=ended_well, limit=limit.within(grace=GRACE_SECONDS))


# The messages at the end of a run: made of what it did, sent to the receivers of the Fleet and of its tenants.


T = TypeVar("T")


def notify(run: TrackedRun[Any], applied: Applied, problem: str) -> None:
    """Send what `run` did to the receivers; `problem` is why it did no more than wake, "" where the policies were used.

    It says nothing about the run: what was not sent is a warning. All of it takes two seconds at most.
    """
    try:
        say_each("warning", _told_receivers(run, applied, problem))
    except Exception as error:  # noqa: BLE001 - whatever it is, the run did what it could
        say_each("warning", [f"no notification was sent: {reason_of(error)}"])


def _told_receivers(run: TrackedRun[Any], applied: Applied, problem: str) -> Iterator[str]:
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
    before, unread = _result_of(reading, limit.within(SECONDS / 4))
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
        _, unwritten = _result_of(world.readers.pool.submit(fleet.home, record, urgent=True), limit)
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


def _result_of(future: Future[T], limit: TimeLimit) -> tuple[T | None, str]:
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
