"""Values as YAML that can be printed: each string on one line, what is not printable as an escape."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes a string that holds anything but printable characters in double quotes, where escapes are read."""


def yaml_text(value: object) -> str:
    """Return `value` as YAML. A line is never folded: what a name holds could stand at the beginning of one."""
    text = _dumped(value, unicode=True)
    return text if text.replace("\n", "").isprintable() else _dumped(value, unicode=False)


def _dumped(value: object, *, unicode: bool) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=unicode, width=float("inf"))
    return text


def _string(dumper: Any, text: str) -> Any:
    quoted = not text.isprintable() or "##[" in text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_Dumper.add_representer(str, _string)
