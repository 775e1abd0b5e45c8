"""Periods of kube-downscaler -> criteria, and the moments of kube-green -> windows."""

from __future__ import annotations

import pytest

from reconciler.importing.periods import ALWAYS, Dialect, PeriodError, downtimes, during, outside, paired, parse_periods

PY, GO = Dialect(wraps=False), Dialect(wraps=True)
BERLIN = Dialect(wraps=False, zone="Europe/Berlin", days="Mon-Fri")
DAY = 24 * 60


@pytest.mark.parametrize(
    ("text", "dialect", "windows"),
    [
        ("Mon-Fri 07:30-20:30 Europe/Berlin", PY, {"Europe/Berlin": ("Mon-Fri 07:30-20:30",)}),
        ("mon-FRI 07:30-20:30 UTC", PY, {"UTC": ("Mon-Fri 07:30-20:30",)}),
        ("Sun-Fri 00:00-24:00 UTC", PY, {"UTC": ("Sun-Fri 00:00-24:00",)}),
        (
            "Mon-Fri 07:00-20:00 UTC, Sat-Sat 10:00-12:00 Asia/Tokyo",
            PY,
            {"UTC": ("Mon-Fri 07:00-20:00",), "Asia/Tokyo": ("Sat-Sat 10:00-12:00",)},
        ),
        ("07:30-20:30", BERLIN, {"Europe/Berlin": ("Mon-Fri 07:30-20:30",)}),
        ("Mon-Fri 20:00-06:00 UTC", PY, {}),  # matches at no time there
        ("Mon-Fri 20:00-06:00 UTC", GO, {"UTC": ("Mon-Fri 20:00-24:00", "Mon-Fri 00:00-06:00")}),
        ("Mon-Fri 20:00-00:00 UTC", GO, {"UTC": ("Mon-Fri 20:00-24:00",)}),
        ("07:30-20:30 UTC", GO, {"UTC": ("07:30-20:30",)}),
        (
            "2026-12-24T18:00:00+01:00-2027-01-02T08:00:00+01:00",
            PY,
            {"UTC": ("2026-12-24T17:00:00/2027-01-02T07:00:00",)},
        ),
        ("2026-12-24T18:00:00Z - 2027-01-02T08:00:00Z", GO, {"UTC": ("2026-12-24T18:00:00/2027-01-02T08:00:00",)}),
        ("never", PY, {}),
    ],
)
def test_a_period_is_windows_of_its_time_zone(text, dialect, windows):
    assert parse_periods(text, dialect).windows == windows


@pytest.mark.parametrize(
    ("text", "dialect", "why"),
    [
        ("sometimes", PY, '"sometimes" is no period'),
        ("Mon-Fri 07:30-20:30", PY, "has no time zone"),
        ("07:30-20:30 UTC", PY, "has no weekdays"),
        ("Mon-Fri 07:30-20:30 Europe/Nowhere", PY, "is not a time zone"),
        ("2027-01-02T08:00:00+01:00-2026-12-24T18:00:00+01:00", PY, "ends before it starts"),
    ],
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


def test_an_upscale_and_a_downscale_period_are_an_uptime():
    found = paired("Mon-Fri 07:00-08:00 UTC", "Mon-Fri 20:00-21:00 UTC", PY)
    assert found.windows == {"UTC": ("Mon-Fri 07:00-20:00",)}
    with pytest.raises(PeriodError, match="are moments"):
        paired("never", "Mon-Fri 20:00-21:00 UTC", PY)


@pytest.mark.parametrize(
    ("sleeps", "wakes", "windows"),
    [
        ({0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, ["Mon-Thu 20:00-08:00", "Fri 20:00-Mon 08:00"]),
        (set(range(7)), set(range(7)), ["20:00-08:00"]),
        ({4}, {0}, ["Fri 20:00-Mon 08:00"]),
        ({0, 2}, {1, 3}, ["Mon,Wed 20:00-08:00"]),
    ],
)
def test_moments_are_windows_from_each_sleep_to_the_next_wake(sleeps, wakes, windows):
    evening, morning = {day * DAY + 20 * 60 for day in sleeps}, {day * DAY + 8 * 60 for day in wakes}
    assert downtimes(evening, morning) == windows


def test_a_sleep_while_asleep_changes_nothing():
    assert downtimes({20 * 60, 21 * 60}, {DAY + 8 * 60}) == ["Mon 20:00-08:00"]
    assert downtimes({20 * 60}, {DAY}) == ["Mon 20:00-24:00"]
