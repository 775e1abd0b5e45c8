"""Which requests are sent again, how often, and after which pauses."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from math import inf

from msgspec import Struct

from reconciler.http.client import HttpResponse
from reconciler.http.errors import HttpError, TimedOutError


class RetryPolicy(Struct, frozen=True):
    """What is worth another try: `statuses`, and what may pass by itself; a timeout only with `after_timeout`.

    Pauses double from `first_pause`, each of random length; what the server asks for (Retry-After) counts instead. None
    is longer than `longest_pause`. All in seconds.
    """

    attempts: int = 8
    statuses: frozenset[int] = frozenset({429, 500, 502, 503, 504})
    after_timeout: bool = False
    first_pause: float = 0.1
    longest_pause: float = inf

    def pause(self, tried: int, retry_after: float | None = None) -> float:
        """Return the seconds to wait after the attempt `tried`, the first is 1."""
        if retry_after is not None:
            return min(retry_after, self.longest_pause)
        return min(self.first_pause * 2.0 ** min(tried - 1, 32), self.longest_pause / 1.5) * random.uniform(0.5, 1.5)


def with_retries(
    attempt: Callable[[], HttpResponse], policy: RetryPolicy, wait: Callable[[float], bool]
) -> HttpResponse:
    """Return the first response that is not worth another try, or the last one.

    The time that is left decides: `wait` lets so many seconds pass, or returns False at once where there is not as
    much.

    Raises:
        HttpError: the last attempt had none. One that only its limit ended says less than the one before: that one.
    """
    before: HttpError | None = None
    for tried in count(1):
        is_last = tried >= policy.attempts
        try:
            response = attempt()
        except HttpError as error:
            is_worth_it = error.passes or (policy.after_timeout and isinstance(error, TimedOutError))
            if is_last or not is_worth_it or not wait(policy.pause(tried)):
                if before is not None and isinstance(error, TimedOutError):
                    raise before from error
                raise
            before = error
            continue
        if is_last or response.status not in policy.statuses or not wait(policy.pause(tried, response.retry_after)):
            return response
    raise AssertionError("the last attempt returns or raises")
