"""Patterns of names and paths, compared as the sets of texts they match: is one inside of others, do two overlap.

A pattern is read as `fnmatch` does (`*`, `?`, `[abc]`, `[!abc]`). In paths `*` and `?` stop at `/`, and `**` does not.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable, Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from msgspec import Struct

_GLOB = frozenset("*?[")
_LAST = "\U0010ffff"
_MOST_STATES = 2_000
"""So many sets of places are looked at before a pattern counts as too complex to be compared."""


class _Step(Struct, frozen=True):
    """One character that `chars`, a regular expression, matches, or with `repeated` any number of them.

    `skips`: how many steps on one may go from here without a character, this step included.
    """

    chars: str
    repeated: bool = False
    skips: tuple[int, ...] = ()


_Steps = tuple[_Step, ...]
_TOKEN = r"(?s)\*\*|\*|\?|\[!?\]?[^\]]*\]|."
_WILDCARD = r"[*?]|\[!?\]?[^\]]*\]?"
_PATH_TOKEN = r"(?s)/\*\*\Z|\*\*/|\*\*|\*|\?|."


def _any_number(chars: str) -> _Step:
    return _Step(chars, repeated=True, skips=(1,))


_FOLDERS = {"/**": (_Step("/"), _any_number(".")), "**/": (_any_number("."), _Step("/"))}
_NO_FOLDER = _Step("(?!)", skips=(1, 3))  # both may also stand for no folder at all


@lru_cache(maxsize=4096)
def _steps(pattern: str, path: bool) -> _Steps:
    found: list[_Step] = []
    for token in re.findall(_PATH_TOKEN if path else _TOKEN, pattern):
        one = "[^/]" if path else "."
        if token in _FOLDERS:
            found += [_NO_FOLDER, *_FOLDERS[token]]
        elif token in ("*", "**"):
            found.append(_any_number("." if token == "**" else one))
        elif token == "?":
            found.append(_Step(one))
        elif len(token) > 2:
            found.append(_Step(translate(token)))
        else:
            found += [_Step(re.escape(char)) for char in token]
    return tuple(found)


_Places = frozenset[int]


def _from(steps: _Steps, places: Iterable[int]) -> _Places:
    """Return the places in `steps` reached from `places` without a character: what repeats may be left out."""
    found: set[int] = set()
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        found.add(place)
        if place < len(steps):
            waiting += [place + far for far in steps[place].skips if place + far not in found]
    return frozenset(found)


def _after(steps: _Steps, taking: Sequence[Container[str]], places: _Places, char: str) -> _Places:
    """Return the places after `char`; `taking` are the characters that each step takes."""
    taken = (place for place in places if place < len(steps) and char in taking[place])
    return _from(steps, (place if steps[place].repeated else place + 1 for place in taken))


def _alphabet(patterns: Iterable[str]) -> list[str]:
    """Return characters of which one is in each set that some patterns tell apart: those of their texts, those next to
    the ends of a range, and one that none has.
    """
    named = {ord(char) for char in "".join(patterns)}
    near = {code + far for pattern in patterns if "[" in pattern for code in map(ord, pattern) for far in (-1, 1)}
    return ["\0", *map(chr, sorted(named | near))]


def is_pattern(name: str) -> bool:
    """Return whether `name` may stand for several names."""
    return not _GLOB.isdisjoint(name)


@lru_cache(maxsize=4096)  # most are namespaces and clusters, asked about for each object in them
def matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether `name` is matched by one of `patterns`."""
    names, globs = _names_and_globs(patterns)
    return name in names or any(fnmatchcase(name, pattern) for pattern in globs)


@lru_cache(maxsize=4096)
def _names_and_globs(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    globs = tuple(filter(is_pattern, patterns))
    return frozenset(patterns).difference(globs), globs


def is_within(pattern: str, others: Sequence[str]) -> bool:
    """Return whether every text that `pattern` matches is matched by one of `others`; of what is too complex to be
    compared no text is.
    """
    if not others or pattern in others or "*" in others:
        return bool(others)
    return _reaches((pattern, *others), lambda ends: ends[0] and not any(ends[1:])) is False


@lru_cache(maxsize=4096)
def overlap(pattern: str, other: str, *, path: bool = False) -> bool:
    """Return whether some text is matched by both; of what is too complex to be compared some is."""
    if not all(map(_one_begins_with_the_other, _ends(pattern), _ends(other))):
        return False
    return _reaches((pattern, other), all, path=path) is not False


class GlobIndex:
    """Numbered lists of globs. Finds those that may have a text in common with others, without comparing all.

    Two globs may have one only where what the texts of one begin with is a prefix of what those of the other do, and
    what they end with a suffix.
    """

    def __init__(self, lists: Iterable[Iterable[str]] = ()) -> None:
        self._by_start: dict[str, list[tuple[int, str]]] = {}  # each with its end
        self._starts: list[str] = []  # sorted
        self._lengths: set[int] = set()  # of these
        for number, patterns in enumerate(lists):
            self.add(number, patterns)

    def __len__(self) -> int:
        """Return how many beginnings of globs it tells apart."""
        return len(self._starts)

    def add(self, number: int, patterns: Iterable[str]) -> None:
        """Add a list of globs."""
        for start, end in {_ends(pattern) for pattern in patterns}:
            if start not in self._by_start:
                insort(self._starts, start)
                self._lengths.add(len(start))
            self._by_start.setdefault(start, []).append((number, end))

    def candidates(self, patterns: Iterable[str]) -> set[int]:
        """Return the numbers of the lists that may have a text in common with one of `patterns`."""
        found: set[int] = set()
        for pattern in patterns:
            start, end = _ends(pattern)
            starts = {start[:length] for length in self._lengths}
            if is_pattern(pattern):
                first, last = (bisect_left(self._starts, bound) for bound in (start, start + _LAST))
                starts.update(self._starts[first:last])
            for one in starts & self._by_start.keys():
                found.update(number for number, other in self._by_start[one] if _one_begins_with_the_other(end, other))
        return found


@lru_cache(maxsize=4096)
def _ends(pattern: str) -> tuple[str, str]:
    """Return what each text begins with that `pattern` matches, and what it ends with, read backwards; also as one of
    paths, where "a/**" is "a", and "**/a" too.
    """
    parts = re.split(_WILDCARD, pattern)
    return parts[0].removesuffix("/"), parts[-1].removeprefix("/")[::-1]


def _one_begins_with_the_other(text: str, other: str) -> bool:
    return text.startswith(other) or other.startswith(text)


def _reaches(texts: Sequence[str], wanted: Callable[[list[bool]], bool], *, path: bool = False) -> bool | None:
    """Return whether some text ends where `wanted` holds of which patterns match it; the first one has to go on.

    None: it would take too long to find out.
    """
    chars = _alphabet(texts)
    patterns = [
        (steps, [set(filter(re.compile(step.chars, re.DOTALL).fullmatch, chars)) for step in steps])
        for steps in (_steps(text, path) for text in texts)
    ]
    start = tuple(_from(steps, (0,)) for steps, _ in patterns)
    seen, waiting = {start}, [start]
    while waiting:
        state = waiting.pop()
        if wanted([len(steps) in places for (steps, _), places in zip(patterns, state, strict=True)]):
            return True
        for char in chars:
            after = tuple(_after(*pattern, places, char) for pattern, places in zip(patterns, state, strict=True))
            if after[0] and after not in seen:
                seen.add(after)
                waiting.append(after)
        if len(seen) > _MOST_STATES:
            return None
    return False


@lru_cache(maxsize=1024)
def path_regex(pattern: str) -> re.Pattern[str]:
    """Return `pattern`, one of paths, as a regular expression; `**/` may stand for no folder at all."""
    found = ""
    for token in re.findall(_PATH_TOKEN, pattern):
        found += _PATH_PARTS.get(token) or re.escape(token)
    return re.compile(found + r"\Z", re.DOTALL)


_PATH_PARTS = {"/**": "(/.*)?", "**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
