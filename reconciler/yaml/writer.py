"""Values -> YAML text that YAML 1.1 and 1.2 readers understand alike."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import yaml

from reconciler.yaml.reader import plain_value

_ENDLESS = 2**31 - 1
_YAML_1_1_BOOL = r"[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
_PREFIXED_NUMBER = r"(?a)[-+]?0[xXoObB][0-9a-fA-F_]+"  # as Go's readers take it
_COMMAND = r"(?m)##\[|^\s*::"  # to GitHub's runners, wherever it is printed
_STR = "tag:yaml.org,2002:str"
_RESOLVER: Any = yaml.resolver.Resolver()


class _ManifestDumper(yaml.CSafeDumper):
    """Texts that any reader could take for something else are quoted; repeated values are written out each time."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _text_node(dumper: Any, text: str) -> yaml.ScalarNode:
    node: yaml.ScalarNode = dumper.represent_scalar(_STR, text, style=_style(text))
    return node


@lru_cache(maxsize=4096)
def _style(text: str) -> str | None:
    if re.search(_COMMAND, text):
        return '"'
    if "\n" in text:
        return "|" if _is_literal(text) else '"'
    if not text.isprintable():
        return '"'
    in_yaml_1_1 = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    return '"' if in_yaml_1_1 != _STR or _is_ambiguous(text) else None


def _is_literal(text: str) -> bool:
    """Whether a block may hold it: readers disagree on leading blanks, other line breaks and trailing blank lines."""
    lines = text.split("\n")
    plain = all(line == line.rstrip() and line.isprintable() for line in lines)
    return plain and bool(lines[0]) and not lines[0].startswith(" ") and not text.endswith("\n\n")


def _is_ambiguous(text: str) -> bool:
    if re.fullmatch(_YAML_1_1_BOOL, text) or re.fullmatch(_PREFIXED_NUMBER, text):
        return True
    try:
        return not isinstance(plain_value(text), str)
    except ValueError:
        return True


_ManifestDumper.add_representer(str, _text_node)


def block_text(value: Any) -> str:
    """Return `value` as YAML in block style, ending with a line break; keys keep their order."""
    return _dumped(value, flow=False)


def flow_text(value: Any) -> str:
    """Return `value` as YAML on one line, for a place inside a flow collection."""
    return _dumped(value, flow=True).rstrip("\n")


def _dumped(value: Any, flow: bool) -> str:
    text: str = yaml.dump(
        value, Dumper=_ManifestDumper, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=_ENDLESS
    )
    return text
