"""Test files -> cases, with all problems of all files at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from msgspec import Struct

from reconciler.backends.snapshot.file_content import entry_of, objects_in
from reconciler.decide.annotations import parse_time
from reconciler.decide.reasons import CODES
from reconciler.errors import PolicyError
from reconciler.messages import Path, alternatives, nearest, shown
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.document_fields import read
from reconciler.policy.kinds.fields import given
from reconciler.policy.kinds.policy_test import (
    CaseFields,
    ExpectFields,
    GivenFields,
    PolicyTestDocument,
    SeriesFields,
    StepFields,
)
from reconciler.policy.policy_files import TESTS, documents_in
from reconciler.policy.types import Place
from reconciler.yaml.files import find_files, is_inside, read_bytes

_INSTANT = timedelta(seconds=1)
_MOST_DAYS = 366  # of one case: each day has runs of its own
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVENTS = {"annotate": (), "scale": ("replicas",), "patch": ("fields",), "query": ("series",)}
_CHECKS = ("replicas", "state", "never", "policy", "reason")


class Expectation(Struct, frozen=True):
    """What is expected, and until when; None: no end is expected. The run at the end is before `ended`."""

    place: Place
    fields: ExpectFields
    until: datetime | None = None
    ended: datetime | None = None


class Moment(Struct, frozen=True):
    """A run at `start`, with `is_period` all runs before `end`. Otherwise runs go on for what has an end."""

    start: datetime
    end: datetime
    is_period: bool
    given: tuple[tuple[Place, GivenFields], ...]
    expected: tuple[Expectation, ...]


class Case(Struct, frozen=True):
    """`start` is when the runs before the first moment begin; None: there are none."""

    name: str
    place: Place
    start: datetime | None
    moments: tuple[Moment, ...]


class CaseFile(Struct, frozen=True):
    """Cases that share their clusters: those of the folder `snapshot`, or with "" those of `clusters`."""

    place: Place
    snapshot: str
    clusters: Mapping[str, tuple[dict[str, Any], ...]]
    series: tuple[SeriesFields, ...]
    tick: timedelta
    cases: tuple[Case, ...]


def read_case_files(path: str, clusters: Collection[str] | None) -> tuple[CaseFile, ...]:
    """Return the tests below `path`, a folder, or in the one test file that it names.

    `clusters` are those of the Fleet; None: it cannot be read, and no name of a cluster is checked.

    Raises:
        PolicyError: with all problems of all files.
    """
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    found = find_files(path, lambda name: name.endswith(TESTS)) if os.path.isdir(path) else None
    problems = list(found.problems) if found is not None else []
    files: list[CaseFile] = []
    for file in (path,) if found is None else found.files:
        read = documents_in(file, read_bytes(file, folder))
        problems += read.problems
        for source in read.found:
            reader = _CaseReader(PolicyDocument(source), clusters)
            files.append(reader.case_file())
            problems += reader.document.problems
    if problems:
        raise PolicyError.of(problems)
    return tuple(files)


class _CaseReader:
    """Makes cases of one document; what is wrong is gathered in it."""

    def __init__(self, document: PolicyDocument, clusters: Collection[str] | None) -> None:
        self.document = document
        self._clusters = clusters
        self._tick = timedelta(minutes=10)

    def case_file(self) -> CaseFile:
        fields = read(self.document, "PolicyTest", PolicyTestDocument)
        self._tick = max(+fields.tick, timedelta(minutes=1))
        if fields.tick < timedelta(minutes=1):
            self.document.add(("tick",), "is less than a minute, expected at least 1m")
        self._one_of((), fields, ("snapshot", "clusters"))
        for name, manifests in (given(fields.clusters) or {}).items():
            self._check_cluster(("clusters", name), name, key=True)
            for number, manifest in enumerate(manifests):
                self._check_manifest(("clusters", name, number), manifest)
        for number, series in enumerate(fields.series):
            self._check_cluster(("series", number, "cluster"), given(series.cluster))
        default = self._time(("start",), given(fields.start))
        return CaseFile(
            place=self.document.place,
            snapshot=self._snapshot(given(fields.snapshot) or ""),
            clusters=given(fields.clusters) or {},
            series=fields.series,
            tick=self._tick,
            cases=tuple(self._case(("cases", n), case, default) for n, case in enumerate(fields.cases)),
        )

    def _snapshot(self, name: str) -> str:
        """Return the path of a snapshot. Whoever may add a test must not have other files of the machine read."""
        if not name:
            return ""
        if "\0" in name:
            self.document.add(("snapshot",), f"is {shown(name)}, expected a folder; no path has a null byte")
            return ""
        path = os.path.normpath(os.path.join(os.path.dirname(self.document.source.file), name))
        if os.path.isabs(name) or not is_inside(os.path.realpath(path), os.path.realpath(".")):
            self.document.add(("snapshot",), f"is {shown(name)}, expected a folder below the working directory")
        elif not os.path.isdir(path):
            self.document.add(("snapshot",), f"is {shown(name)}, expected a folder; there is no {path}")
        return path

    def _case(self, path: Path, fields: CaseFields, default: datetime | None) -> Case:
        start = self._time((*path, "start"), given(fields.start)) or default
        moments = [self._moment(path, fields)]
        moments += [self._moment((*path, "then", n), step) for n, step in enumerate(fields.then)]
        self._check_order(path, start, moments)
        return Case(fields.name, self.document.place_of(path), start, tuple(moments))

    def _check_order(self, path: Path, start: datetime | None, moments: list[Moment]) -> None:
        if any(moment.start == _EPOCH for moment in moments):
            return  # it could not be read
        if start is not None and start > moments[0].start:
            self.document.add((*path, "start"), "is after the first time, expected one before it")
        days = (max(played.end for played in moments) - (start or moments[0].start)).days
        if days > _MOST_DAYS:
            self.document.add(path, f"plays {days} days, expected {_MOST_DAYS} at most")
        for number, (before, moment) in enumerate(pairwise(moments)):
            last = max(filter(None, [before.start, *(expectation.until for expectation in before.expected)]))
            if moment.start <= before.start or moment.start < (before.end if before.is_period else last):
                where = "during" if moment.is_period else "at"
                self.document.add((*path, "then", number, where), "is not after the time before, expected a later one")

    def _moment(self, path: Path, fields: StepFields) -> Moment:
        self._one_of(path, fields, ("at", "during"))
        period = given(fields.during)
        if period is None:
            start = self._time((*path, "at"), given(fields.at)) or _EPOCH
            end = start + _INSTANT
        else:
            start = self._time((*path, "during", "from"), period.from_) or _EPOCH
            end = start + timedelta(days=period.days)
        expected = tuple(self._expectation((*path, "expect", n), one, start) for n, one in enumerate(fields.expect))
        if period is not None:
            for number, expectation in enumerate(expected):
                if expectation.until is not None:
                    self.document.add((*path, "expect", number, "until"), "stands beside during, expected at")
        found = tuple(self._given((*path, "given", n), event) for n, event in enumerate(fields.given))
        return Moment(
            start, max([end, *(one.ended for one in expected if one.ended)]), period is not None, found, expected
        )

    def _given(self, path: Path, fields: GivenFields) -> tuple[Place, GivenFields]:
        self._one_of(path, fields, tuple(_EVENTS))
        sets = given(fields.wake_requested_at) is not None or bool(given(fields.annotations))
        if (given(fields.annotate) is not None) != sets:
            words = "has one of annotate and what it sets, expected it with wake-requested-at or annotations"
            self.document.add(path, words)
        for event, needs in _EVENTS.items():
            for name in needs:
                if (given(getattr(fields, event)) is None) != (given(getattr(fields, name)) is None):
                    self.document.add(path, f"has one of {event} and {name}, expected both or neither")
        self._beside("query", path, fields, ("cluster",))
        self._check_cluster((*path, "cluster"), given(fields.cluster))
        when = given(fields.wake_requested_at)
        if when is not None and when != "now":
            self._time((*path, "wake-requested-at"), when)
        return self.document.place_of(path), fields

    def _expectation(self, path: Path, fields: ExpectFields, start: datetime) -> Expectation:
        self._one_of(path, fields, ("object", "namespaces"))
        self._beside("namespaces", path, fields, ("clusters", "kinds"))
        if all(given(getattr(fields, name)) is None for name in _CHECKS):
            self.document.add(path, f"expects nothing, expected at least one of {', '.join(_CHECKS)}")
        code = given(fields.reason)
        if code is not None and code not in CODES:
            self.document.add(
                (*path, "reason"), f"is {shown(code)}, expected the code of a reason{nearest(code, CODES)}"
            )
        until = self._time((*path, "until"), given(fields.until))
        if until is not None and until <= start:
            self.document.add((*path, "until"), "is not after the time of the run, expected a later one")
        return Expectation(self.document.place_of(path), fields, until, None if until is None else until + self._tick)

    def _check_cluster(self, path: Path, name: str | None, *, key: bool = False) -> None:
        """An answer of a cluster that is not there would be given to nobody."""
        if name and self._clusters is not None and name not in self._clusters:
            words = f"is {shown(name)}, expected a cluster of the Fleet: {alternatives(self._clusters)}"
            self.document.add(path, f"{words}{nearest(name, self._clusters)}", key=key)

    def _check_manifest(self, path: Path, manifest: Any) -> None:
        for value, outer, stated in objects_in(manifest, tuple(path)):
            wrong = entry_of(value, *stated)
            for inside, words in wrong if isinstance(wrong, list) else ():
                self.document.add((*outer, *inside), words)

    def _one_of(self, path: Path, fields: Any, names: tuple[str, ...]) -> None:
        found = [name for name in names if given(getattr(fields, name)) is not None]
        gone = any(not self.document.is_readable((*path, name)) for name in names)
        if len(found) != 1 and not gone:
            words = f"has {' and '.join(found)}" if found else f"has none of {', '.join(names)}"
            self.document.add(path, f"{words}, expected exactly one of them")

    def _beside(self, other: str, path: Path, fields: Any, names: tuple[str, ...]) -> None:
        """Refuse those of `names` that stand without `other`: they would be ignored."""
        for name in names if given(getattr(fields, other)) is None else ():
            if given(getattr(fields, name)) is not None:
                self.document.add((*path, name), f"stands without {other}, expected it beside {other}", key=True)

    def _time(self, path: Path, text: str | None) -> datetime | None:
        found = None if not text else parse_time(text)
        if text and found is None:
            self.document.add(path, f'is {shown(text)}, expected a time with a zone, like "2026-11-23T07:00:00+01:00"')
        return found


def runs_before(moment: Moment, at: datetime | None, tick: timedelta) -> Iterator[datetime]:
    """Yield from when on runs are played before `moment`, where any are; `at` is when the last ones ended."""
    if at is None:
        return
    after = _EPOCH - ((_EPOCH - at) // tick) * tick
    if after < moment.start:
        yield after
