"""Decoders, one for each type, each made by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Hook = Callable[[type, Any], Any]

_making = threading.Lock()
_made: dict[tuple[Any, Hook | None], Any] = {}


def decoder_of(shape: type[T], hook: Hook | None = None) -> msgspec.json.Decoder[T]:
    """Return what decodes JSON to `shape`; `hook` reads the types that msgspec does not know.

    msgspec looks at a type when it first meets it, and notes on the type, unguarded, what it found: threads that meet
    one at the same time end the process (seen with msgspec 0.22). After this it knows `shape` and all that is in it.
    """
    with _making:
        made: msgspec.json.Decoder[T] | None = _made.get((shape, hook))
        if made is None:
            made = _made[shape, hook] = msgspec.json.Decoder(shape, dec_hook=hook)
        return made
