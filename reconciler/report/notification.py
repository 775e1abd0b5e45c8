"""The notifications of a run: the facts of its plan and outcomes, and one message with those of the Fleet or a tenant.

Whatever is in it is text that others wrote: it can hold no markup of the receiver's, and is as short as that wants it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from reconciler.apply.events import event_message, failure_message
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.annotations import digest, format_time
from reconciler.decide.decisions import Notice, NoticeKind
from reconciler.plan.effects import Effect, effect_of
from reconciler.plan.model import Action, Plan
from reconciler.policy.types import Fleet, MessageFormat, NotifyOn
from reconciler.report.summary import held_of
from reconciler.untrusted_text import short

T = TypeVar("T")

_LONGEST_LINE = 500

_WORDS: Mapping[NotifyOn, str] = {
    "Failed": "failed",
    "Overdue": "overdue",
    "HeldBack": "held back",
    "Conflict": "in conflict",
    "Woken": "woken",
    "Idled": "idled",
}
"""In the order in which they are reported, the most pressing first."""
_NOTICES: Mapping[NoticeKind, NotifyOn] = {
    "overdueWake": "Overdue",
    "contested": "Conflict",
    "equalPriorities": "Conflict",
    "tenantStopped": "Failed",
}
_EFFECTS: Mapping[Effect, NotifyOn] = {Effect.IDLE: "Idled", Effect.WAKE: "Woken"}


_FLEETING = re.compile(r"\([^()]*\)|(?<!status )(?<!failed with )(?<![\w.:+-])[\w.:+-]*[0-9][\w.:+-]*")
"""What a server says in its own words, times and names made for once; what is not is the status of its answer."""


class Fact(Struct, frozen=True):
    """One thing that happened. `tenant` is whose it is alone, "" for the platform's or that of several; `number` is
    how many changes it stands for. `cause` is the kind of a failure, "" where its words alone say that, or of what kind
    the policy is that is held back, and where.
    """

    on: NotifyOn
    about: str
    text: str
    policy: str = ""
    tenant: str = ""
    number: int = 1
    cause: str = ""

    @property
    def lasts(self) -> bool:
        """Whether the next run finds it again, unless something changes meanwhile."""
        return self.on not in _EFFECTS.values()

    @property
    def key(self) -> str:
        """What is the same each time that it is found again; another failure of one object has another one."""
        cause = self.cause or (_FLEETING.sub("", self.text) if self.on == "Failed" else "")
        return digest([self.on, self.about, cause], 12)


def facts_of(plan: Plan, outcomes: Sequence[Outcome], fleet: Fleet) -> tuple[Fact, ...]:
    """Return what is notified of a run, the most pressing first."""
    done = {outcome.action: outcome for outcome in outcomes}
    found = [
        *(fact for action in plan.actions if action.id in done for fact in _of_action(action, done[action.id], fleet)),
        *(_of_notice(notice, fleet) for notice in plan.notices if notice.kind in _NOTICES),
        *_held_back(plan),
        *(Fact("Failed", name, f"{name}: {why}") for name, why in plan.unknown_clusters.items()),
    ]
    order = list(_WORDS)
    return tuple(sorted(found, key=lambda fact: order.index(fact.on)))


def _of_action(action: Action, outcome: Outcome, fleet: Fleet) -> Iterator[Fact]:
    applied = outcome.status is OutcomeStatus.APPLIED
    on = _EFFECTS.get(effect_of(action.decision)) if applied else None
    text = event_message(action)
    if outcome.event or outcome.status is OutcomeStatus.FAILED:
        on, text = "Failed", failure_message(action, outcome)
    if on is not None:
        ref, error = action.ref, outcome.failure.error if outcome.failure else ""
        tenant = _tenant_at(fleet, ref.cluster, ref.namespace)
        yield Fact(on, str(ref), f"{ref}: {text}", action.decision.policy, tenant, cause=error)


def _of_notice(notice: Notice, fleet: Fleet) -> Fact:
    """Policies of equal priority are those of one tenant, or of the platform."""
    if notice.kind == "tenantStopped":
        tenant = notice.subject.removeprefix("tenant ")
    elif notice.kind == "equalPriorities":
        tenant = notice.policy.rpartition("/")[0]
    else:
        tenant = _tenant_at(fleet, *notice.subject.split("/")[:2])
    return Fact(_NOTICES[notice.kind], notice.subject, notice.text, notice.policy, tenant)


def _held_back(plan: Plan) -> Iterator[Fact]:
    for held, shown in zip(plan.held_back, held_of(plan), strict=True):
        owners = {decision.cause.tenant for decision in held.decisions}
        tenant = owners.pop() if len(owners) == 1 else ""
        where = f" ({shown.where})" if shown.where else ""
        clusters = {decision.ref.cluster for decision in held.decisions}
        cause = " ".join((*sorted({decision.job for decision in held.decisions}), *sorted(clusters)))
        about, text = held.policy or shown.what, f"{shown.what}{where}"
        yield Fact("HeldBack", about, text, held.policy, tenant, shown.number, cause)


def _tenant_at(fleet: Fleet, cluster: str, namespace: str) -> str:
    found = fleet.tenant_at(cluster, namespace)
    return "" if found is None else found.name


class Message(Struct, frozen=True):
    """What one receiver is notified of: about the whole Fleet, or about `tenant` alone."""

    plan: Plan
    facts: tuple[Fact, ...]
    tenant: str = ""

    @classmethod
    def of(cls, plan: Plan, facts: Iterable[Fact], on: Sequence[NotifyOn], tenant: str = "") -> Message:
        """Return what is notified of `facts` to who asks for `on`; a tenant is notified of its own."""
        return cls(plan, tuple(one for one in facts if one.on in on and (not tenant or one.tenant == tenant)), tenant)

    @property
    def counts(self) -> dict[NotifyOn, int]:
        found = Counter[NotifyOn]()
        for fact in self.facts:
            found[fact.on] += fact.number
        return dict(found)

    @property
    def title(self) -> str:
        """What happened, in numbers, on one line."""
        whose = f"Fleet {self.plan.fleet}" + (f", tenant {self.tenant}" if self.tenant else "")
        rehearsed = " (snapshot)" if self.plan.source == "snapshot" else ""
        return f"{whose}{rehearsed}: {', '.join(f'{number} {_WORDS[on]}' for on, number in self.counts.items())}"

    @property
    def origin(self) -> str:
        """Which run it was."""
        revision = f", policies at {short(self.plan.revision)}" if self.plan.revision else ""
        return f"run {short(self.plan.run)}, {format_time(self.plan.made_at)}{revision}"

    def sections(self, item: Callable[[str], T], most: int) -> Iterator[tuple[str, list[T]]]:
        """Yield a heading for each sort of fact, with its lines as `item` makes them: as many as `most` bytes hold."""
        for on, found in groupby(self.facts, key=lambda fact: fact.on):
            facts = list(found)
            fitting = _fitting((item(_line(fact.text)) for fact in facts), most)
            left = len(facts) - len(fitting)
            yield _WORDS[on].capitalize(), [*fitting, *([item(f"and {left} more")] if left else [])]


def _line(text: str) -> str:
    """Return `text` as one line that fits anywhere."""
    line = short(text)
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 3]}..."


def _fitting(items: Iterable[T], most: int) -> list[T]:
    """Return the first of `items` that fit, as JSON, into `most` bytes together; the others are not even made."""
    found: list[T] = []
    for item in items:
        most -= len(msgspec.json.encode(item))
        if most < 0:
            break
        found.append(item)
    return found


def body_of(message: Message, form: MessageFormat) -> tuple[str, bytes]:
    """Return the content type of `message` in `form`, and the message."""
    content_type, made = _FORMATS[form]
    return content_type, msgspec.json.encode(made(message))


_EVENT_BYTES = 48_000
"""Of the facts. Source: CloudEvents 1.0.2, "Size Limits": an event of up to 64 KiB is forwarded."""


def _cloud_event(message: Message) -> dict[str, Any]:
    """Return a CloudEvent in the JSON event format. The same run is the same event.

    Source: cloudevents/spec v1.0.2, cloudevents/spec.md and formats/json-format.md.
    """
    plan = message.plan
    happened = (
        {"on": fact.on, "about": short(fact.about), "policy": short(fact.policy), "text": short(fact.text)}
        for fact in message.facts
    )
    told = _fitting(happened, _EVENT_BYTES)
    tenant = {"tenant": message.tenant} if message.tenant else {}
    return {
        "specversion": "1.0",
        "id": short(plan.run),
        "source": f"/reconciler/fleets/{plan.fleet}" + (f"/tenants/{message.tenant}" if message.tenant else ""),
        "type": "reconciler.run.v1alpha1",
        "time": format_time(plan.made_at),
        "datacontenttype": "application/json",
        "data": {
            "fleet": plan.fleet,
            **tenant,
            "source": plan.source,
            "revision": short(plan.revision),
            "counts": message.counts,
            "happened": told,
            "omitted": len(message.facts) - len(told),
        },
    }


_SLACK_BYTES = 2_700
"""Of a section. Source: docs.slack.dev, Section block: 3000 characters; Header block: 150."""
_SLACK_HEADER = 150


def _slack(message: Message) -> dict[str, Any]:
    """Return a message for an incoming webhook of Slack; `text`, which its notifications show, has no mention or link.

    Source: docs.slack.dev, Sending messages using incoming webhooks; Section, Header and Context block; api.slack.com,
    Basic message formatting, "How to escape".
    """
    title = short(message.title)
    return {
        "text": title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
        "blocks": [
            {"type": "header", "text": _slack_text(title[:_SLACK_HEADER])},
            *(
                {"type": "section", "text": _slack_text("\n".join((heading, *lines)))}
                for heading, lines in message.sections(lambda line: f"- {line}", _SLACK_BYTES)
            ),
            {"type": "context", "elements": [_slack_text(message.origin)]},
        ],
    }


def _slack_text(text: str) -> dict[str, Any]:
    """Return `text` as it stands, without markup. Source: docs.slack.dev, Text object."""
    return {"type": "plain_text", "text": text, "emoji": False}


_TEAMS_BYTES = 4_000
"""Of the lines of a sort. Source: Microsoft Learn, Create an Incoming Webhook: a message of 28 KB at most."""


def _teams(message: Message) -> dict[str, Any]:
    """Return an Adaptive Card in a message for a webhook of Workflows; a RichTextBlock knows no Markdown.

    Source: Microsoft Learn, Create incoming webhooks with Workflows; Adaptive Cards, Text features.
    """
    body = [_card_text(short(message.title), weight="Bolder", size="Medium")]
    for heading, lines in message.sections(_card_text, _TEAMS_BYTES):
        body += [_card_text(heading, weight="Bolder"), *lines]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "body": [*body, _card_text(message.origin, isSubtle=True)],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _card_text(text: str, **style: Any) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


_FORMATS: Mapping[MessageFormat, tuple[str, Callable[[Message], dict[str, Any]]]] = {
    "CloudEvents": ("application/cloudevents+json", _cloud_event),
    "Slack": ("application/json", _slack),
    "Teams": ("application/json", _teams),
}
