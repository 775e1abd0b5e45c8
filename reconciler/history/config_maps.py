"""Who scaled what, when, from how many to how many, and why: kept in the home cluster, one ConfigMap for each day.

A change is a line of JSON; the lines of a day are compressed by zlib, in `binaryData` of `reconciler-history-DAY`. They
are labelled, so that no run lists them. What somebody else woke since is added by the next run that writes anything.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, timedelta
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.access import Access
from reconciler.apply.config_map_store import entry_write
from reconciler.backends.protocols import CONFIG_MAPS, HISTORY_LABEL, Cluster
from reconciler.decide.annotations import format_time
from reconciler.errors import (
    AlreadyExistsError,
    ClusterError,
    MalformedAnswerError,
    NotFoundError,
    StaleError,
    reason_of,
)
from reconciler.history.changes import BY_ACTIVATOR, BY_RECONCILER, SLASHES, Change
from reconciler.history.realised_savings import IdlePeriod, SavedBefore, ended_periods
from reconciler.model import OUR_LABELS, ConfigMap, ObjectRef, Run, Write
from reconciler.plan.model import Awake, Plan
from reconciler.pod_requests import Hours
from reconciler.policy.types import Fleet, Writes
from reconciler.untrusted_text import short

HISTORY_PREFIX = "reconciler-history-"
KEPT = timedelta(days=35)
MOST_BYTES = 700_000
"""Of one day, compressed; more than 25,000 changes. The oldest are left out then."""
MOST_UNPACKED_BYTES = 64 << 20
"""Of one day, as lines; some 200,000 changes. A ConfigMap that unpacks to more was not written by a run."""

_KEY = "changes"
_ATTEMPTS = 20
"""Of several runs that write at once one succeeds at each, so that as many shards as these may end together."""


class Day(Struct, frozen=True, omit_defaults=True):
    """The changes of one day in the order in which they were recorded; `dropped`: so many older ones are not kept.

    `saved` is what idling had saved before.
    """

    changes: tuple[Change, ...] = ()
    dropped: int = 0
    saved: tuple[SavedBefore, ...] = ()

    @property
    def periods(self) -> tuple[IdlePeriod, ...]:
        return tuple(ended_periods(self.changes))

    def saved_in_all(self) -> tuple[SavedBefore, ...]:
        """Return what idling saved in all periods that ended until its end."""
        found = {(before.cluster, before.policy, before.tenant): before.hours for before in self.saved}
        for period in self.periods:
            key = (period.cluster, period.policy, period.tenant)
            found[key] = found.get(key, Hours()) + period.saved(period.since, period.until)
        return tuple(
            SavedBefore(cluster, policy, hours, tenant) for (cluster, policy, tenant), hours in sorted(found.items())
        )


_LINE = msgspec.json.Decoder(Change)


def packed(day: Day) -> str:
    """Return what `binaryData` holds of `day`, in Base64; where that is too much, of its newer part, at last of what
    idling saved most.
    """
    while True:
        first = replace(day, changes=())
        lines = b"\n".join(map(msgspec.json.encode, (*[first] * (first != Day()), *day.changes)))
        data = zlib.compress(lines, 6)
        fits = min(MOST_BYTES / len(data), MOST_UNPACKED_BYTES / max(1, len(lines)))
        if fits >= 1:
            return base64.b64encode(data).decode("ascii")
        less = len(day.changes) - int(len(day.changes) * 0.9 * fits)
        saved = Day(day.changes[:less], saved=day.saved).saved_in_all()
        if not day.changes:
            saved = tuple(sorted(saved, key=lambda before: -before.hours.replicas)[: int(len(saved) * 0.9 * fits)])
        day = Day(day.changes[less:], day.dropped + less, saved)


def unpacked(text: str) -> Day:
    """Return the day that `binaryData` holds.

    Raises:
        MalformedAnswerError: it is none.
    """
    try:
        lines = _decompressed(base64.b64decode(text, validate=True)).split(b"\n")
        first = Day()
        if not lines[0].startswith(b'{"at"'):
            first = msgspec.json.decode(lines.pop(0), type=Day)
        changes = tuple(_LINE.decode(line) for line in lines if line)
        for change in changes:
            if change.object.count("/") < SLASHES:
                raise ValueError(f'object "{short(change.object)}"')
        return replace(first, changes=changes)
    except (ValueError, TypeError, KeyError, binascii.Error, zlib.error, msgspec.MsgspecError) as error:
        raise MalformedAnswerError(f"{_KEY}: not the lines of a day ({error}), expected a history") from error


def _decompressed(data: bytes) -> bytes:
    reader = zlib.decompressobj()
    lines = reader.decompress(data, MOST_UNPACKED_BYTES)
    if not reader.eof:
        wrong = f"more than {MOST_UNPACKED_BYTES >> 20} MiB" if reader.unconsumed_tail else "cut off"
        raise MalformedAnswerError(f"{_KEY}: {wrong}, expected a history")
    return lines


def record(
    changes: Sequence[Change], plan: Plan, accesses: Mapping[str, Access], fleet: Fleet, run: Run
) -> tuple[tuple[Change, ...], str]:
    """Add `changes`, and the wakes of others that `plan` saw, to the history; return both, and why they are not in the
    history of a cluster, "" where they are.

    A run without changes writes nothing. Where home does not answer or may not be written to, the first cluster that
    may keeps it.
    """
    if not changes:
        return (), ""
    home = keeper(plan, accesses, fleet)
    if home is None:
        return tuple(changes), "history: not written, no cluster may be written to"
    found = tuple(changes)
    try:
        history = History(home.cluster, fleet.namespace)
        both = (*history.wakes_of_others(plan.awake, changes, run), *changes)
        found = tuple(replace(change, tenant=_tenant(change, fleet)) for change in both)
        history.add(found, run.now.astimezone(UTC).date())
    except Exception as error:  # noqa: BLE001 - whatever it is: what was done was done, and is reported elsewhere too
        return found, f"history: not written: {reason_of(error)}"
    return found, ""


def _tenant(change: Change, fleet: Fleet) -> str:
    found = fleet.tenant_at(*change.object.split("/", 2)[:2])
    return "" if found is None else found.name


def keeper(plan: Plan, accesses: Mapping[str, Access], fleet: Fleet) -> Access | None:
    """Return the cluster that keeps what `plan` leaves of the Fleet as a whole: home, or the first one that may be
    written to where home may not be, or did not answer; None where none may.
    """
    written = (
        cluster.name
        for cluster in fleet.clusters
        if cluster.writes is not Writes.NOTHING and cluster.name in plan.clusters
    )
    names = sorted(written, key=lambda name: name != fleet.home)
    return next((accesses[name] for name in names if name in accesses), None)


class History:
    """The history in one cluster."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def since(self, first: date, last: date) -> dict[date, Day]:
        """Return the days from `first` to `last` of which anything is kept.

        Raises:
            ClusterError: one of them cannot be read.
        """
        days = (last - timedelta(days=back) for back in range((last - first).days, -1, -1))
        found = {day: self._found(day) for day in days}
        return {day: _day(kept) for day, kept in found.items() if kept is not None}

    def kept(self) -> tuple[dict[date, Day], dict[date, str]]:
        """Return all days of which anything is kept, and of those that cannot be read, why.

        Raises:
            ClusterError: none of them can be read.
        """
        days: dict[date, Day] = {}
        unread: dict[date, str] = {}
        for day, config_map in sorted(self._listed().items(), key=itemgetter(0)):
            try:
                days[day] = _day(config_map)
            except MalformedAnswerError as error:
                unread[day] = str(error)
        return days, unread

    def add(self, changes: Sequence[Change], day: date) -> None:
        """Add `changes` to those of `day`.

        Raises:
            StaleError: others write it all the time. ClusterError: it cannot be written.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                too_old = self._try(changes, day)
            except (StaleError, AlreadyExistsError, NotFoundError):
                if attempt == _ATTEMPTS:
                    raise
            else:
                for old in too_old:
                    with suppress(ClusterError):  # tried again the next day: the changes of this one are written
                        self._cluster.write(Write("delete", old.ref, "v1", uid=old.uid))
                return

    def _try(self, changes: Sequence[Change], day: date) -> list[ConfigMap]:
        """Add `changes` to those of `day` unless another one does meanwhile; return what is too old to be kept, where
        they are its first.

        Where the next day has begun they are added to that: what was saved before it is counted already.
        """
        kept_on, known, found, before = self._newest(day)
        if kept_on < day:
            known, kept_on, found = Day(saved=known.saved_in_all()), day, None
        text = packed(replace(known, changes=(*known.changes, *changes)))
        self._cluster.write(entry_write(self._ref(kept_on), found, ("binaryData", _KEY), text, _LABELS))
        return [config_map for old, config_map in before.items() if old < day - KEPT]

    def last(self, day: date) -> Day:
        """Return the last day until the one after `day` of which anything is kept; one without changes where none is.

        Raises:
            ClusterError: it cannot be read.
        """
        with suppress(MalformedAnswerError):  # each run asks this: before the first change of a day nothing is listed
            for after in (1, 0, -1):
                if (found := self._found(day + timedelta(days=after))) is not None:
                    return _day(found)
        return self._newest(day)[1]

    def _newest(self, day: date) -> tuple[date, Day, ConfigMap | None, dict[date, ConfigMap]]:
        """Return the newest day of which anything is kept, and what is: as seen from `day`, on which a run began that
        may end on the next one. Where it is before `day`, it can be read, and all that is kept before is listed.
        """
        for kept_on in (day + timedelta(days=1), day):
            found = self._found(kept_on)
            if found is not None:
                return kept_on, _day(found), found, {}
        before = {kept_on: found for kept_on, found in self._listed().items() if kept_on < day}
        for kept_on in sorted(before, reverse=True):
            with suppress(MalformedAnswerError):
                return kept_on, _day(before[kept_on]), before[kept_on], before
        return date.min, Day(), None, before

    def _listed(self) -> dict[date, ConfigMap]:
        """Return all that is kept, by its day."""
        found = self._cluster.list(CONFIG_MAPS, namespace=self._namespace, labels=HISTORY_LABEL)
        return {day: config_map for config_map in found if (day := _day_of(config_map.ref.name)) is not None}

    def wakes_of_others(self, awake: Sequence[Awake], changes: Sequence[Change], run: Run) -> list[Change]:
        """Return the wakes since that no run recorded: those of an activator, or by a run that could not write."""
        today = run.now.astimezone(UTC).date()
        recent = [woken for woken in awake if run.now - timedelta(days=1) <= woken.since <= run.now]
        if not recent:
            return []
        days: dict[date, Day] = {}
        for day in (today - timedelta(days=1), today):
            with suppress(MalformedAnswerError):
                days |= self.since(day, day)
        last = _last_by_object(change for day in days.values() for change in day.changes)
        last |= _last_by_object(changes, last)
        new = [woken for woken in recent if str(woken.ref) not in last or last[str(woken.ref)].time < woken.since]
        if any(str(woken.ref) not in last for woken in new):
            last = _last_by_object(change for day in self.kept()[0].values() for change in day.changes) | last
        idled = ((woken, last.get(str(woken.ref))) for woken in new)
        return [_woken(woken, change) for woken, change in idled if change is not None and change.verb == "idle"]

    def _found(self, day: date) -> ConfigMap | None:
        try:
            return self._cluster.get(CONFIG_MAPS, self._namespace, self._ref(day).name)
        except NotFoundError:
            return None

    def _ref(self, day: date) -> ObjectRef:
        return ObjectRef(self._cluster.name, self._namespace, "ConfigMap", f"{HISTORY_PREFIX}{day.isoformat()}")


_LABELS = {**OUR_LABELS, HISTORY_LABEL: "changes"}


def _day_of(name: str) -> date | None:
    """Return the day of which a ConfigMap of that name holds the changes, None where it is a copy, or another one."""
    try:
        day = date.fromisoformat(name.removeprefix(HISTORY_PREFIX))
    except ValueError:
        return None
    return day if name == f"{HISTORY_PREFIX}{day.isoformat()}" else None


def _day(config_map: ConfigMap) -> Day:
    text = config_map.binary_data.get(_KEY)
    try:
        return Day() if text is None else unpacked(text)
    except MalformedAnswerError as error:
        raise MalformedAnswerError(f"{config_map.ref}: {error}; delete it to begin it anew") from error


def _last_by_object(changes: Iterable[Change], known: Mapping[str, Change] | None = None) -> dict[str, Change]:
    """Return the latest change of each object, among `known` ones too."""
    found: dict[str, Change] = dict(known or {})
    for change in changes:
        if change.object not in found or found[change.object].at <= change.at:
            found[change.object] = change
    return found


def _woken(awake: Awake, idled: Change) -> Change:
    values: dict[str, Any] = {
        "switch": idled.switch,
        "policy": idled.policy,
        "place": idled.place,
        "why": "woken between two runs",
    }
    if idled.before is not None and idled.after is not None:
        values |= {"since": idled.at, "asleep": max(0, idled.before - idled.after)}
        values |= {"cpu": idled.cpu, "memory": idled.memory}
    by = awake.by if awake.by not in ("", BY_RECONCILER) else BY_ACTIVATOR
    return Change(format_time(awake.since), str(awake.ref), "wake", by, idled.after, awake.replicas, **values)
