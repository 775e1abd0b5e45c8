"""Periods of kube-downscaler -> criteria, and the moments of kube-green -> windows."""

from __future__ import annotations

import pytest

from reconciler.importing.periods import (
    ALWAYS,
    Dialect,
    PeriodError,
    downtimes,
    during,
    min_awake,
    outside,
    paired,
    parse_periods,
)
from tests.cases import cases

PY, GO = Dialect(go=False), Dialect(go=True)
BERLIN = Dialect(go=False, zone="Europe/Berlin", days="Mon-Fri")
DAY = 24 * 60


@cases(
    "text dialect windows",
    ("weekdays in a time zone", "Mon-Fri 07:30-20:30 Europe/Berlin", PY, {"Europe/Berlin": ("Mon-Fri 07:30-20:30",)}),
    ("names in any case", "mon-FRI 07:30-20:30 UTC", PY, {"UTC": ("Mon-Fri 07:30-20:30",)}),
    ("whole days from Sunday to Friday", "Sun-Fri 00:00-24:00 UTC", PY, {"UTC": ("Sun-Fri 00:00-24:00",)}),
    (
        "two periods in two time zones",
        "Mon-Fri 07:00-20:00 UTC, Sat-Sat 10:00-12:00 Asia/Tokyo",
        PY,
        {"UTC": ("Mon-Fri 07:00-20:00",), "Asia/Tokyo": ("Sat-Sat 10:00-12:00",)},
    ),
    ("default time zone and weekdays", "07:30-20:30", BERLIN, {"Europe/Berlin": ("Mon-Fri 07:30-20:30",)}),
    ("over midnight, kube-downscaler", "Mon-Fri 20:00-06:00 UTC", PY, {}),  # matches at no time there
    (
        "over midnight, GoKubeDownscaler",
        "Mon-Fri 20:00-06:00 UTC",
        GO,
        {"UTC": ("Mon-Fri 20:00-24:00", "Mon-Fri 00:00-06:00")},
    ),
    ("until midnight", "Mon-Fri 20:00-00:00 UTC", GO, {"UTC": ("Mon-Fri 20:00-24:00",)}),
    ("several blanks and a tab", "Mon-Fri  07:30-20:30\tUTC", GO, {"UTC": ("Mon-Fri 07:30-20:30",)}),
    (
        "dates with a UTC offset",
        "2026-12-24T18:00:00+01:00-2027-01-02T08:00:00+01:00",
        PY,
        {"UTC": ("2026-12-24T17:00:00/2027-01-02T07:00:00",)},
    ),
    (
        "dates with blanks between them",
        "2026-12-24T18:00:00Z - 2027-01-02T08:00:00Z",
        GO,
        {"UTC": ("2026-12-24T18:00:00/2027-01-02T08:00:00",)},
    ),
    ("without an end", "from 2026-12-24T18:00:00Z", GO, {"UTC": ("2026-12-24T18:00:00/2999-12-31T00:00:00",)}),
    ("without a start", "until- 2026-12-24T18:00:00Z", GO, {"UTC": ("1970-01-01T00:00:00/2026-12-24T18:00:00",)}),
    (
        "ends after the last year",
        "2026-12-24T18:00:00Z-9999-12-31T00:00:00Z",
        PY,
        {"UTC": ("2026-12-24T18:00:00/2999-12-31T00:00:00",)},
    ),
    ("starts at the end of the day", "Mon-Fri 24:00-06:00 UTC", GO, {"UTC": ("Mon-Fri 00:00-06:00",)}),
    ("lasts from midnight to midnight", "Mon-Fri 24:00-00:00 UTC", GO, {}),
    ("ends after the end of the day", "Mon-Fri 20:00-24:30 UTC", GO, {"UTC": ("Mon-Fri 20:00-24:00",)}),
    ("the word never", "never", PY, {}),
)
def test_a_period_is_windows_of_its_time_zone(text, dialect, windows):
    assert parse_periods(text, dialect).windows == windows


@cases(
    "text dialect why",
    ("a word that is no period", "sometimes", PY, '"sometimes" is no period'),
    ("a truth value", "true", PY, '"true" is no period'),
    ("open dates in kube-downscaler", "from 2026-12-24T18:00:00Z", PY, "is no period"),
    ("open dates in upper case", "FROM 2026-12-24T18:00:00Z", GO, "is no period"),
    ("two blanks in kube-downscaler", "Mon-Fri  07:30-20:30 UTC", PY, "is no period"),
    ("a time zone with digits", "Mon-Fri 07:30-20:30 EST5EDT", PY, "is no period"),
    ("an hour that no day has", "Mon-Fri 07:30-25:00 UTC", PY, "is no period"),
    ("a minute that no hour has", "Mon-Fri 10:60-12:00 UTC", GO, "is no period"),
    ("without a time zone", "Mon-Fri 07:30-20:30", PY, "has no time zone"),
    ("without weekdays, kube-downscaler", "07:30-20:30 UTC", PY, "has no weekdays"),
    ("without weekdays, GoKubeDownscaler", "07:30-20:30 UTC", GO, "has no weekdays"),
    ("an unknown time zone", "Mon-Fri 07:30-20:30 Europe/Nowhere", PY, "is not a time zone"),
    ("dates in reverse order", "2027-01-02T08:00:00+01:00-2026-12-24T18:00:00+01:00", PY, "ends before it starts"),
    ("starts on no calendar day", "2026-02-30T00:00:00Z-2026-03-01T00:00:00Z", PY, "a time that no calendar has"),
    ("ends after the calendar", "2026-01-01T00:00:00Z-9999-12-31T23:59:59-05:00", PY, "a time that no calendar has"),
    ("after the last year", "3000-01-01T00:00:00Z-3001-01-01T00:00:00Z", PY, "is not between the years 1970 and 2999"),
    ("always beside another period", "always,Mon-Fri 07:30-20:30 UTC", PY, "has always beside other periods"),
    ("never beside another period", "never,Mon-Fri 07:30-20:30 UTC", PY, "has never beside other periods"),
)
def test_what_is_no_period_is_said(text, dialect, why):
    with pytest.raises(PeriodError, match=why):
        parse_periods(text, dialect)


def test_always_and_never_are_no_windows():
    assert during(parse_periods("always", PY)) == outside(parse_periods("never", PY)) == ALWAYS
    assert during(parse_periods("never", PY)) is outside(parse_periods("always", PY)) is None


def test_outside_of_periods_in_several_time_zones_is_outside_of_each():
    found = outside(parse_periods("Mon-Fri 07:00-20:00 UTC,Mon-Fri 07:00-20:00 Asia/Tokyo", PY))
    assert [one["schedule"]["timeZone"] for one in found["allOf"]] == ["UTC", "Asia/Tokyo"]


@cases(
    "up down windows wakes",
    ("on weekdays", "Mon-Fri 07:00-08:00", "Mon-Fri 20:00-21:00", ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"], True),
    (
        "scaled down on weekends, too",
        "Mon-Fri 07:00-08:00",
        "Mon-Sun 20:00-21:00",
        ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"],
        True,
    ),
    ("overlapping periods", "Mon-Mon 07:00-21:00", "Mon-Mon 20:00-22:00", ["Mon 21:00-Mon 07:00"], True),
    ("never scaled up", "never", "Mon-Fri 20:00-21:00", ["Mon-Fri 20:00-21:00"], False),
)
def test_periods_to_scale_in_are_the_time_from_a_fall_to_the_next_rise(up, down, windows, wakes):
    criterion, woken = paired(*(parse_periods(text if text == "never" else f"{text} UTC", PY) for text in (up, down)))
    assert (criterion["schedule"]["downtime"], woken) == (windows, wakes)


def test_what_is_only_scaled_up_is_never_idle():
    assert paired(parse_periods("Mon-Fri 07:00-08:00 UTC", PY), parse_periods("never", PY)) == (None, True)
    assert paired(parse_periods("always", PY), parse_periods("Mon-Fri 20:00-21:00 UTC", PY)) == (None, True)


@pytest.mark.parametrize(
    "down", ["always", "Mon-Fri 20:00-21:00 Asia/Tokyo", "2026-12-24T18:00:00Z-2027-01-02T08:00:00Z"]
)
def test_periods_to_scale_in_that_are_no_week_are_said(down):
    with pytest.raises(PeriodError, match="expected"):
        paired(parse_periods("Mon-Fri 07:00-08:00 UTC", PY), parse_periods(down, PY))


@cases(
    "sleeps wakes windows",
    ("asleep on nights and weekends", {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, ["Mon-Thu 20:00-08:00", "Fri 20:00-Mon 08:00"]),
    ("asleep every night", set(range(7)), set(range(7)), ["20:00-08:00"]),
    ("asleep on weekends", {4}, {0}, ["Fri 20:00-Mon 08:00"]),
    ("asleep on two weeknights", {0, 2}, {1, 3}, ["Mon,Wed 20:00-08:00"]),
)
def test_moments_are_windows_from_each_sleep_to_the_next_wake(sleeps, wakes, windows):
    evening, morning = {day * DAY + 20 * 60 for day in sleeps}, {day * DAY + 8 * 60 for day in wakes}
    assert downtimes(evening, morning) == windows


@pytest.mark.parametrize(
    ("up", "least"),
    [
        ("Mon-Fri 07:00-19:00 UTC", {}),
        ("Mon-Fri 07:00-09:00 UTC", {}),
        ("Mon-Fri 07:00-08:30 UTC", {"minAwake": "90m"}),
        ("Sun-Sun 23:00-24:00 UTC, Mon-Mon 00:00-00:30 UTC", {"minAwake": "90m"}),
        ("Mon-Mon 07:00-19:00 UTC, Tue-Tue 07:00-07:10 Asia/Tokyo", {"minAwake": "10m"}),
        ("Mon-Mon 07:00-19:00 UTC, Mon-Mon 07:00-08:00 Asia/Tokyo", {"minAwake": "60m"}),
        ("Mon-Mon 07:00-08:00 UTC, Mon-Mon 09:00-10:30 Europe/Berlin", {"minAwake": "90m"}),  # in summer
        ("2026-12-24T18:00:00Z-2026-12-24T18:30:00Z", {}),
        ("never", {}),
    ],
)
def test_what_is_up_for_less_than_the_default_is_idled_when_that_is_over(up, least):
    assert min_awake(outside(parse_periods(up, PY))) == least


def test_a_sleep_while_asleep_changes_nothing():
    assert downtimes({20 * 60, 21 * 60}, {DAY + 8 * 60}) == ["Mon 20:00-08:00"]
    assert downtimes({20 * 60}, {DAY}) == ["Mon 20:00-24:00"]
