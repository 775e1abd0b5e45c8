"""The JSON Schemas of all kinds: found, loaded once, ready to check with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_RELATIONS = ("oneOf", "anyOf", "dependentRequired")
_COUNTS = ("minProperties", "maxProperties")


@lru_cache(maxsize=1)
def schema_folder() -> Path:
    """Return the folder with the schemas: inside the package when installed, beside it in a checkout."""
    from pathlib import Path

    package = Path(__file__).resolve().parents[1]
    inside = package / "schemas"
    return inside if inside.is_dir() else package.parent / "schemas"


@lru_cache(maxsize=16)
def load_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of `kind`, spelled as in documents."""
    text = (schema_folder() / f"{kind.lower()}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@lru_cache(maxsize=16)
def validator_of(kind: str, part: str = "") -> Any:
    """Return the one jsonschema validator of what the schema of `kind`, or one of its `$defs`, says of each field.

    How fields go together (`oneOf`, `anyOf`, `dependentRequired`, the number of fields of a closed mapping) is left to
    the builders, which can say it in words; the published schema has it for editors.
    """
    root = load_schema(kind)
    return _validator_class()({"$ref": f"#/$defs/{part}", "$defs": root["$defs"]} if part else root)


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    from jsonschema import Draft202012Validator, ValidationError, validators

    extend: Any = validators.extend  # its stub has no types

    def pattern(_validator: Any, wanted: str, instance: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not compiled(wanted).search(instance):
            yield ValidationError("does not match")

    def left_out(key: str) -> Callable[..., Iterable[Any]]:
        """Return how `key` is checked: never where it is about the fields of a mapping."""
        check = Draft202012Validator.VALIDATORS[key]
        return lambda *given: () if key in _RELATIONS or "properties" in given[-1] else check(*given) or ()

    return extend(Draft202012Validator, {"pattern": pattern, **{key: left_out(key) for key in (*_RELATIONS, *_COUNTS)}})


@lru_cache(maxsize=64)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern of JSON Schema as one of Python, where `$` also stands before a line break at the end."""
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)


def referred(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
