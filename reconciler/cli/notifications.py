"""The messages at the end of a run: made of what it did, sent to the receivers of the Fleet and of its tenants."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

from reconciler.apply.history import keeper
from reconciler.apply.told import not_told_yet
from reconciler.backends.credential_sources import allowed_file, secret_in
from reconciler.backends.http.client import HttpRequest
from reconciler.backends.webhooks import SECONDS, deliver, message_to
from reconciler.cli.output import say
from reconciler.cli.run import RunOptions
from reconciler.connection_settings import CredentialSources
from reconciler.credentials import remember
from reconciler.errors import ReconcilerError, UnreachableError, UsageError, reason_of
from reconciler.pipeline import Applied
from reconciler.plan.model import Plan
from reconciler.policy.kinds.fields import given
from reconciler.policy.types import Fleet, Notification
from reconciler.report.notification import Fact, Message, body_of, facts_of
from reconciler.time_limit import GRACE_SECONDS
from reconciler.world import World


class Notifications:
    """Keeps what a run has to tell until its end."""

    def __init__(self) -> None:
        self.found: tuple[Applied, Fleet, World] | None = None
        self.problem = ""

    def about(self, applied: Applied, fleet: Fleet, world: World, problem: str = "") -> None:
        """The run of `fleet` did this; `problem`: why it did no more than wake, "" where the policies were used."""
        if not applied.declined:
            self.found, self.problem = (applied, fleet, world), problem


@contextmanager
def notifications(options: RunOptions) -> Iterator[Notifications]:
    """Yield what keeps what is to be told of a run; at its end, however it ends, that is sent.

    It says nothing about the run: what was not sent is a warning. All of it takes two seconds at most.
    """
    kept = Notifications()
    try:
        yield kept
    finally:
        try:
            for warning in _sent(kept, options):
                say(f"warning: {warning}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the run did what it could
            say(f"warning: no notification was sent: {reason_of(error)}")


def _sent(kept: Notifications, options: RunOptions) -> Iterator[str]:
    """Send what is to be told; yield why something was not."""
    if kept.found is None:
        return
    applied, fleet, world = kept.found
    receivers = [(one, "") for one in fleet.notify]
    receivers += [(one, tenant.name) for tenant in fleet.tenants for one in tenant.notify]
    if not receivers:
        return
    limit = options.limit.within(SECONDS, grace=GRACE_SECONDS)
    wrong = (Fact("Failed", f"Fleet {fleet.name}", kept.problem),) if kept.problem else ()
    facts = (*wrong, *facts_of(applied.plan, applied.outcomes, fleet))
    news = world.readers.pool.submit(fleet.home, partial(_news, facts, applied.plan, fleet, world), urgent=True)
    in_time = limit.within(SECONDS / 2).until(lambda seconds: wait([news], seconds).done)
    problem = news.exception() if in_time else UnreachableError(f"{fleet.home}: no answer in time")
    if problem is None:
        facts = news.result()
    else:
        yield f"what was told before is not known, and may be told again: {reason_of(problem)}"
    requests = {}
    for receiver, tenant in receivers:
        message = Message.of(applied.plan, facts, receiver.on, tenant)
        name = f"{receiver.place}:{receiver.place.column}: notification ({receiver.format})"
        try:
            if message.facts:
                requests[name] = _request(receiver, message, options.sources)
        except ReconcilerError as error:
            yield f"{name}: {error}"
    for name, why in deliver(requests, limit).items():
        yield f"{name} to {why}"


def _news(facts: tuple[Fact, ...], plan: Plan, fleet: Fleet, world: World) -> tuple[Fact, ...]:
    """Return `facts` without what lasts and was told already; all of them where nothing can be kept."""
    home = keeper(plan, world.accesses, fleet)
    if home is None:
        return facts
    lasting = {fact.key for fact in facts if fact.lasts}
    new = not_told_yet(lasting, home, fleet.namespace, plan.made_at, plan.shard)
    return tuple(fact for fact in facts if not fact.lasts or fact.key in new)


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
