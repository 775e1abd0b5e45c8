"""Patterns compared as the sets of texts they match, against `fnmatch` over all short texts."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from reconciler.policy.globs import GlobIndex, is_within, matches_any, overlap, path_regex
from tests.cases import cases

PIECES = ["a", "b", "-", "*", "?", "[ab]", "[!a]", "[a-b]"]
PATTERNS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
TEXTS = ["".join(letters) for length in range(6) for letters in product("ab-c", repeat=length)]


def texts_of(pattern: str) -> set[str]:
    return {text for text in TEXTS if fnmatchcase(text, pattern)}


@given(st.sampled_from(TEXTS), st.lists(PATTERNS, max_size=4))
def test_a_name_is_matched_as_fnmatch_matches_it(name, patterns):
    assert matches_any(name, tuple(patterns)) == any(fnmatchcase(name, pattern) for pattern in patterns)


@given(PATTERNS, st.lists(PATTERNS, min_size=1, max_size=3))
def test_a_pattern_is_within_others_where_each_of_its_texts_is_one_of_theirs(pattern, others):
    assert is_within(pattern, others) == (texts_of(pattern) <= set().union(*map(texts_of, others)))


@given(PATTERNS, PATTERNS)
def test_two_patterns_overlap_where_a_text_is_one_of_both(pattern, other):
    assert overlap(pattern, other) == overlap(other, pattern) == bool(texts_of(pattern) & texts_of(other))


@given(st.lists(st.lists(PATTERNS, max_size=3), max_size=6), st.lists(PATTERNS, max_size=3))
def test_an_index_finds_all_lists_with_a_text_in_common(lists, patterns):
    index = GlobIndex(lists)
    common = {
        number
        for number, added in enumerate(lists)
        if any(overlap(one, other) for one, other in product(added, patterns))
    }
    assert common <= index.candidates(patterns)


@given(*[st.lists(st.sampled_from(["a", "b", "/", "**", "*", "/**"]), min_size=1, max_size=4).map("".join)] * 2)
def test_an_index_finds_paths_with_a_text_in_common(pattern, other):
    if overlap(pattern, other, path=True):
        assert GlobIndex([[pattern]]).candidates([other]) == {0}


def test_an_index_does_not_return_what_begins_or_ends_otherwise():
    index = GlobIndex([name] for name in ["team-a-*", "team-b-*", "team-b", "te[a]m-b-*", "*-b", "*-web"])
    assert index.candidates(["team-b-web"]) == {1, 3, 5}
    assert index.candidates(["team-a*"]) == {0, 3, 4, 5}
    assert index.candidates(["?-b"]) == {0, 1, 2, 3, 4}


def test_several_together_may_hold_what_none_of_them_holds():
    assert is_within("team-[ab]-*", ["team-a-*", "team-b-*"])


def test_a_pattern_with_too_many_ways_counts_as_not_within_and_as_overlapping_in_no_time():
    pattern, other = "?*a" + "?" * 16, "*a" + "?" * 16
    assert not is_within(pattern, [other])
    assert overlap(pattern + "b", other)


@cases(
    "pattern path expected",
    ("file in the folder", "teams/a/**", "teams/a/sleep.yaml", True),
    ("file in a nested folder", "teams/a/**", "teams/a/deep/er/sleep.yaml", True),
    ("the folder itself", "teams/a/**", "teams/a", True),
    ("folder of a longer name", "teams/a/**", "teams/ab/sleep.yaml", False),
    ("folder below another one", "teams/a/**", "teams/b/a/sleep.yaml", False),
    ("single star, nested folder", "teams/a/*", "teams/a/deep/sleep.yaml", False),
    ("single star in the name", "teams/a/*.yaml", "teams/a/sleep.yaml", True),
    ("double star without a folder", "**/a/*.yaml", "a/sleep.yaml", True),
    ("double star, nested folders", "**/a/*.yaml", "x/y/a/sleep.yaml", True),
    ("star after a prefix", "a-*.yaml", "a-sleep.yaml", True),
    ("upper case differs", "a-*.yaml", "A-sleep.yaml", False),
    ("question mark, single letter", "teams/?/**", "teams/a/x.yaml", True),
)
def test_paths(pattern, path, expected):
    assert bool(path_regex(pattern).match(path)) is expected


PATH_PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "?", "**", "/", "/**", "**/"]), min_size=1, max_size=3)
PATHS = ["".join(letters) for length in range(7) for letters in product("ab/", repeat=length)]


@given(PATH_PATTERNS.map("".join), PATH_PATTERNS.map("".join))
def test_two_patterns_of_paths_overlap_where_a_path_is_one_of_both(pattern, other):
    paths = ({path for path in PATHS if path_regex(one).match(path)} for one in (pattern, other))
    assert overlap(pattern, other, path=True) == bool(set.intersection(*paths))
