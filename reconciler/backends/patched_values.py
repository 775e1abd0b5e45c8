"""JSON Patch (RFC 6902: test, add, replace, remove) over JSON values. Pure: the value given is never changed.

As in the API server a `test` of null also passes where the last key is absent, and a test below something absent fails.
Source: evanphx/json-patch v4, Patch.test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.errors import RefusedError, StaleError
from reconciler.model import PatchOperation, pointed_path

_INDEX = r"0|[1-9][0-9]{0,8}"
_ABSENT = object()
_MAPPING = (dict, Mapping)  # nearly all are dicts, and to ask an abstract class takes long


def patched(value: Any, operations: Iterable[PatchOperation], where: str) -> Any:
    """Return `value` with all `operations` applied in order; `where` names it in errors.

    Raises:
        StaleError: a test failed. RefusedError: another operation does not fit the value, or a pointer is none.
    """
    copied: dict[int, Any] = {}
    for operation in operations:
        tokens = _tokens(operation.path, where)
        if operation.op == "test":
            _test(value, tokens, operation, where)
        else:
            value = _changed(value, tokens, operation, where, copied)
    return value


def value_at(value: Any, pointer: str) -> Any:
    """Return what stands at `pointer` in `value`, None where nothing does."""
    for token in _tokens(pointer, pointer):
        value = _at(value, token)
    return None if value is _ABSENT else value


def value_below(value: Any, path: Sequence[str]) -> Any:
    """Return what stands at the keys of `path` in `value`, None where nothing does."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def equal(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same: 1 and 1.0 are, 1 and true are not."""
    if one is other:  # as nearly all of what a patch leaves is
        return True
    if type(one) is str or type(other) is str:
        return bool(one == other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, _MAPPING) and isinstance(other, _MAPPING):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if _is_list(one) and _is_list(other):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tokens(pointer: str, where: str) -> tuple[str, ...]:
    """Source: RFC 6901."""
    if pointer and not pointer.startswith("/"):
        raise RefusedError(f'{where}: "{pointer}" is no JSON pointer, expected one that starts with "/"')
    return pointed_path(pointer)


def _test(value: Any, tokens: tuple[str, ...], operation: PatchOperation, where: str) -> None:
    for token in tokens[:-1]:
        value = _at(value, token)
    found = _at(value, tokens[-1]) if tokens else value
    if found is _ABSENT and operation.value is None and isinstance(value, _MAPPING):
        return
    if found is _ABSENT or not equal(found, operation.value):
        raise StaleError(
            f"{where}: {operation.path} is {_words(found)}, expected {_words(operation.value)}; plan again"
        )


def _words(value: Any) -> str:
    if value is _ABSENT or value is None:
        return "absent"
    if isinstance(value, _MAPPING):
        return "a mapping"
    if _is_list(value):
        return "a list"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _at(value: Any, token: str) -> Any:
    if type(value) is dict or isinstance(value, Mapping):
        return value.get(token, _ABSENT)
    if isinstance(value, list) and re.fullmatch(_INDEX, token) and int(token) < len(value):
        return value[int(token)]
    return _ABSENT


def _changed(value: Any, tokens: Sequence[str], operation: PatchOperation, where: str, copied: dict[int, Any]) -> Any:
    """Return `value` changed below `tokens`; what is not on the way there is shared with the old value.

    `copied` are the mappings and lists that this patch copied already, by their id: those change in place.
    """
    if not tokens:
        if operation.op == "remove":
            raise RefusedError(f"{where}: the whole object is removed by a patch, expected a path below it")
        return operation.value
    changed = holder = _copy(value, copied)
    *above, last = tokens
    for token in above:
        inside = _copy(_at(holder, token), copied)
        if inside is not _ABSENT:
            holder[token if type(holder) is dict else int(token)] = inside
        holder = inside
    if not _has_place(holder, last) if operation.op == "add" else _at(holder, last) is _ABSENT:
        words = f"{operation.op} {operation.path} does not fit the object, expected a path that is there"
        raise RefusedError(f"{where}: {words}")
    key: Any = last if type(holder) is dict else len(holder) if last == "-" else int(last)
    if operation.op == "remove":
        del holder[key]
    elif operation.op == "add" and type(holder) is list:
        holder.insert(key, operation.value)
    else:
        holder[key] = operation.value
    return changed


def _copy(value: Any, copied: dict[int, Any]) -> Any:
    """Return a mapping or a list that is among `copied`: `value`, or a copy of it. Anything else stays as it is."""
    if id(value) in copied:
        return value
    made = dict(value) if isinstance(value, _MAPPING) else list(value) if isinstance(value, list) else value
    if made is not value:
        copied[id(made)] = made
    return made


def _has_place(value: Any, token: str) -> bool:
    """Return whether `token` can be added to `value`: any key to a mapping, and to a list up to behind its end."""
    if isinstance(value, list):
        return token == "-" or (re.fullmatch(_INDEX, token) is not None and int(token) <= len(value))
    return isinstance(value, _MAPPING)
