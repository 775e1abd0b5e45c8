"""Regular expressions that are compiled once they are used."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from reconciler.lazy_patterns import lazy_patterns


def a_pattern(text, flags=0):
    with lazy_patterns():
        return re.compile(text, flags)


def test_it_is_compiled_when_it_is_used():
    broken = a_pattern("(")
    with pytest.raises(re.error):
        broken.match("a")


def test_it_does_what_a_pattern_does():
    vowels = a_pattern("[aeiou]", re.IGNORECASE)
    assert isinstance(vowels, re.Pattern)
    assert (vowels.findall("Alone"), vowels.pattern) == (["A", "o", "e"], "[aeiou]")
    assert re.sub(vowels, "-", "Alone") == "-l-n-"


def test_a_copy_is_the_pattern_itself():
    stated = a_pattern("[aeiou]", re.IGNORECASE)
    assert copy.copy(stated) == copy.deepcopy(stated) == pickle.loads(pickle.dumps(stated))
    assert copy.copy(stated) == re.compile("[aeiou]", re.IGNORECASE)


def test_others_are_compiled_at_once_again():
    a_pattern("a")
    with pytest.raises(re.error):
        re.compile("(")
