"""What modules would do when they are imported, put off until it is used: a start uses little of it.

Some sixty regular expressions are compiled, above all those of PyYAML's own parser, a sixth of a `plan` of nothing.
click imports `inspect`, with all that reads Python's own code, and asks `gettext` for translations that it does not
have; msgspec imports `typing_extensions`, for what `typing` has since Python 3.11; urllib3 imports what finds the
versions of packages, for HTTP/2. `concurrent.futures` imports `logging` for errors of its own, and only an error of
ours that nobody foresaw has a `traceback`.

Source: breezy/lazy_regex.py of Breezy.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import Any

_UNUSED = (
    "json",
    "msgspec.inspect",
    "traceback",
    "reconciler.backends.decode.objects",
    "reconciler.backends.decode.shapes",
    "reconciler.backends.kubernetes.object_write",
    "reconciler.backends.prometheus",
    "reconciler.backends.snapshot.recorded_manifests",
    "reconciler.backends.snapshot.served_manifests",
    "reconciler.policy.schemas",
    "reconciler.yaml.writer",
)
"""Those of ours are about the objects of a snapshot, what is written, metrics, and what is wrong in policies. A room
that uses one imports the module, not names of it.
"""

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


class _LazyModule(ModuleType):
    """A module that is imported once something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for these
            raise AttributeError(name)
        module = _imported(self)
        vars(self).update(vars(module))
        self.__class__ = ModuleType  # type: ignore[assignment]  # whose attributes are found as quickly as those of any
        return getattr(module, name)


def _imported(module: ModuleType) -> Any:
    """Return the module itself, also where a later `lazy_libraries` put off its import again."""
    _forget(module.__name__)
    return import_module(module.__name__)


def _forget(name: str) -> None:
    """Let whoever imports the module from now on have the module itself."""
    if isinstance(sys.modules.get(name), _LazyModule):
        del sys.modules[name]


class _LazyInspect(_LazyModule):
    """To clean one line, as click does with the help of each option, takes no module."""

    def cleandoc(self, text: str) -> str:
        return str(_imported(self).cleandoc(text)) if "\n" in text else text.expandtabs().lstrip()


class _LazyGettext(_LazyModule):
    """Texts as they are: of click's there is no translation, and to look for each takes `locale`."""

    gettext = staticmethod(str)

    def ngettext(self, one: str, many: str, number: int) -> str:
        return one if number == 1 else many


class _LazyMetadata(_LazyModule):
    """Versions of packages are looked up by what reads ZIP files too."""

    def version(self, package: str) -> str:
        return str(_imported(self).version(package))


class _LazyLogging(_LazyModule):
    """A logger is a module's own, which asks for it when it is imported."""

    def getLogger(self, name: str) -> Any:
        return _LazyLogger(name)


class _LazyLogger:
    """The logger of this name, which is made once something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("logging").getLogger(self._name), name)


@contextmanager
def lazy_libraries() -> Iterator[None]:
    """Put off what is imported meanwhile would do and nobody needs yet. Only one thread may run."""
    re.compile = _LazyPattern  # type: ignore[assignment]
    modules = [
        _LazyInspect("inspect"),
        _LazyGettext("gettext"),
        _LazyMetadata("importlib.metadata"),
        _LazyLogging("logging"),
        *map(_LazyModule, _UNUSED),
    ]
    for module in modules:
        sys.modules.setdefault(module.__name__, module)
    _import_msgspec()
    try:
        yield
    finally:
        re.compile = _compile
        for module in modules:
            _forget(module.__name__)


def _import_msgspec() -> None:
    """Import msgspec, which takes `typing` where there is no `typing_extensions`."""
    if sys.modules.setdefault("typing_extensions", None) is None:  # type: ignore[arg-type]
        with suppress(ImportError):  # a release that needs it is imported with it
            import_module("msgspec")
        del sys.modules["typing_extensions"]
