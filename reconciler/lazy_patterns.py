"""Regular expressions of libraries, compiled when they are first used and not when their module is imported.

A start imports some sixty and uses few. To compile them all, above all those of PyYAML's own parser, is a sixth of a
`plan` of nothing. Source: breezy/lazy_regex.py of Breezy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_compile = re.compile


class _LazyPattern:
    """A `re.Pattern`, for `isinstance` and `re.sub` too, that is compiled once something of it is asked for."""

    __class__ = property(lambda _: re.Pattern)

    def __init__(self, pattern: Any, flags: Any = 0) -> None:
        self._stated = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(_compile(*self._stated), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> Any:
        return _compile, self._stated


@contextmanager
def lazy_patterns() -> Iterator[None]:
    """What is imported meanwhile compiles no regular expression that it does not use. Only one thread may run."""
    re.compile = _LazyPattern  # type: ignore[assignment]
    try:
        yield
    finally:
        re.compile = _compile
