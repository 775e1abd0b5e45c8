"""Retry-After as servers send it."""

from __future__ import annotations

import pytest

from reconciler.http.client import HttpResponse

DATE = "Sat, 21 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("header", "date", "expected"),
    [
        pytest.param("0", None, 0.0, id="at once"),
        pytest.param(" 17 ", None, 17.0, id="seconds"),
        pytest.param("Sat, 21 Nov 2026 12:01:30 GMT", DATE, 90.0, id="a time"),
        pytest.param("Saturday, 21-Nov-26 12:01:30 GMT", DATE, 90.0, id="a time in the old form"),
        pytest.param("Sat, 21 Nov 2026 11:00:00 GMT", DATE, 0.0, id="a time that is over"),
        pytest.param("Sat, 21 Nov 2026 12:01:30 GMT", None, None, id="a time, counted from an unknown one"),
        pytest.param("Sat, 21 Nov 2026 12:01:30 GMT", "noon", None, id="a time, counted from nonsense"),
        pytest.param("Sat, 21 Nov 2026 12:01:30 -0000", DATE, None, id="a time without a zone"),
        pytest.param("Sat, 99 Nov 2026 12:01:30 GMT", DATE, None, id="no day"),
        pytest.param(f"Sat, 21 Nov {9**30} 12:01:30 GMT", DATE, None, id="a year beyond all years"),
        pytest.param("9" * 10, None, None, id="more than a life"),
        pytest.param("-1", DATE, None, id="negative"),
        pytest.param("1.5", DATE, None, id="a fraction"),
        pytest.param("٣", DATE, None, id="digits of another script"),
        pytest.param("", DATE, None, id="empty"),
        pytest.param(None, DATE, None, id="none"),
    ],
)
def test_seconds_to_wait(header, date, expected):
    given = {"retry-after": header, "date": date}
    headers = {name: value for name, value in given.items() if value is not None}
    assert HttpResponse(503, headers, b"").retry_after == expected
