"""What libraries would do at their import, done once it is used."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys

import pytest

from reconciler.lazy_libraries import lazy_libraries


def a_pattern(text, flags=0):
    with lazy_libraries():
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


USED = """
import sys
from reconciler.lazy_libraries import lazy_libraries

with lazy_libraries():
    import click, msgspec, urllib3
    from click import core
print({"gettext", "importlib.metadata", "inspect", "msgspec.inspect", "typing_extensions"} & {*sys.modules})
print(core.inspect.cleandoc(" one line "), core.inspect.cleandoc("one\\n  two\\n  three").split("\\n"))
import inspect
print(core.inspect.signature is inspect.signature, inspect.cleandoc(" one line "))
print(core._("one"), core.ngettext("one", "many", 2))
import gettext
print(gettext.gettext is not core._, gettext.gettext("one"))
print(msgspec.json.schema(list[int]), type(msgspec.inspect.type_info(int)).__name__)
http2 = getattr(urllib3, "http2", None)  # since 2.3
print(http2 is None or http2.version("urllib3") == urllib3.__version__, urllib3.util.parse_url("http://[::1]:8080/a").port)
"""


def test_modules_are_imported_when_something_of_them_is_used():
    said = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [
        "set()",
        "one line  ['one', 'two', 'three']",
        "True one line ",
        "one many",
        "True one",
        "{'type': 'array', 'items': {'type': 'integer'}} IntType",
        "True 8080",
    ]


AGAIN = """
from reconciler.lazy_libraries import lazy_libraries

with lazy_libraries():
    from msgspec import inspect
with lazy_libraries():
    print(type(inspect.type_info(int)).__name__)
print(inspect.NoneType.__name__)
"""


def test_what_was_put_off_is_imported_while_it_is_put_off_again():
    said = subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["IntType", "NoneType"]


LOGGED = """
import sys
from reconciler.lazy_libraries import lazy_libraries

with lazy_libraries():
    import traceback
    from concurrent.futures import _base
    from reconciler.backends.decode import objects, shapes
    import json
    json.dumps([])
print({"logging", "traceback", objects.__name__, shapes.__name__} & {*sys.modules})
print(_base.LOGGER.name, traceback.format_exception_only(ValueError("wrong")))
from reconciler.backends.decode.objects import SHAPES
print(SHAPES is shapes.SHAPES, objects.SHAPES is SHAPES, type(shapes).__name__)
"""


def test_a_logger_and_modules_of_ours_are_made_when_something_of_them_is_used():
    said = subprocess.run([sys.executable, "-c", LOGGED], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [
        "set()",
        "concurrent.futures ['ValueError: wrong\\n']",
        "True True module",
    ]


def test_a_module_that_is_there_stays():
    with lazy_libraries():
        import inspect
    assert inspect is sys.modules["inspect"]
    assert inspect.signature(a_pattern)
