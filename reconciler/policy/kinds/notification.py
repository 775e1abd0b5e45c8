"""Receivers of one message for each run, of a Fleet and of each of its tenants."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from reconciler.messages import Path
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import Fields, HttpUrl, Text, either, from_fields, given

NotifyOn = Literal["Idled", "Woken", "Overdue", "HeldBack", "Conflict", "Failed"]
MessageFormat = Literal["CloudEvents", "Slack", "Teams"]


class NotificationFields(Fields, frozen=True, kw_only=True):
    """A receiver of one message for each run in which something happened that it asks for."""

    format: MessageFormat
    """format is CloudEvents: a CloudEvent 1.0 as JSON; Slack: for an incoming webhook; Teams: an Adaptive Card for a
    webhook of Workflows."""
    url: Annotated[HttpUrl, Meta(extra_json_schema={"x-secret": True})] | UnsetType = UNSET
    """url is the address of a receiver of CloudEvents. It must not hold a secret."""
    url_file: Text | UnsetType = UNSET
    """urlFile is the path of a file that holds the address of the receiver. That of a webhook of Slack or Teams is a
    secret."""
    on: Annotated[tuple[NotifyOn, ...], Meta(min_length=1)] = ("Overdue", "HeldBack", "Conflict", "Failed")
    """on lists what is reported. Idled, Woken: workloads that the run idled or woke. Overdue: workloads that should be
    awake and are held. HeldBack: changes that a limit or a guard holds back. Conflict: policies of equal priority, and
    workloads that another writer contests. Failed: changes that failed, clusters that did not answer, and policies that
    cannot be used."""
    token_file: Text | None = None
    """tokenFile is the path of a file that holds the bearer token to send."""
    allow_insecure_auth: bool = False
    """allowInsecureAuth allows the token to be sent over plain http."""

    json_schema: ClassVar[dict[str, Any]] = either("url", "urlFile")


class Notification(NotificationFields, frozen=True, kw_only=True):
    """A receiver; `place` is where the Fleet states it."""

    place: Place


def notifications_of(
    document: PolicyDocument, path: Path, fields: Sequence[NotificationFields]
) -> tuple[Notification, ...]:
    """Return the receivers at `path` that are whole; what is wrong with them is gathered in `document`."""
    found = []
    for position, one in enumerate(fields):
        here = (*path, position)
        url = given(one.url)
        document.check_either(here, url=url, urlFile=given(one.url_file))
        if url is not None and one.format != "CloudEvents":
            document.add((*here, "url"), f"is the secret of a receiver of format {one.format}, expected urlFile")
        if url is not None and one.token_file is not None and not (one.allow_insecure_auth or url.startswith("https:")):
            words = 'begins with "http://" beside tokenFile, expected "https://"'
            document.add((*here, "url"), f"{words}; or say allowInsecureAuth: true")
        if document.is_readable(here):
            found.append(from_fields(Notification, one, place=document.place_of(here)))
    return tuple(found)
