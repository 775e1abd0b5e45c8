"""The queries of policies: PromQL, in which `{{ window }}`, `{{ cluster }}` and `{{ policy }}` stand for their values.

Nothing is evaluated. What looks like more than that is refused, so that nobody takes it for a template.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from reconciler.errors import PolicyError
from reconciler.messages import alternatives, nearest, shown
from reconciler.model import QueryKey

VARIABLES = ("cluster", "policy", "window")
_LONGEST = 20_000
_VARIABLE = re.compile(r"\{\{[ \t]*(\w+)[ \t]*\}\}", re.ASCII)
_SYNTAX = re.compile(r"\{[{%#].{0,40}", re.DOTALL)


def query_fault(text: str, variables: Collection[str] = VARIABLES) -> str | None:
    """Return what is wrong with a query in which `variables` may stand, None where it can be filled in."""
    if not text.strip():
        return "is empty, expected a query"
    if len(text) > _LONGEST:
        return f"has {len(text)} characters, expected at most {_LONGEST}"
    pieces = _VARIABLE.split(text)
    unknown = sorted(set(pieces[1::2]) - set(variables))
    if unknown:
        return f'uses "{unknown[0]}", expected only {alternatives(sorted(variables))}{nearest(unknown[0], variables)}'
    syntax = next((found for piece in pieces[::2] if (found := _SYNTAX.search(piece))), None)
    if syntax is None:
        return None
    names = ", ".join(f"{{{{ {name} }}}}" for name in sorted(variables))
    return f"holds {shown(syntax[0])}, expected plain text with no more than {names} in it"


def render_query(key: QueryKey) -> str:
    """Return the text of `key` as it goes to the metrics source. Values are never looked at again.

    Raises:
        PolicyError: it is too long with its values in it.
    """
    values = {"window": key.window, "cluster": key.cluster, "policy": key.policy}
    filled = _VARIABLE.sub(lambda match: values.get(match[1], match[0]), key.template.removesuffix("\n"))
    if len(filled) > _LONGEST:
        raise PolicyError(f"is {len(filled)} characters long when rendered, expected at most {_LONGEST}")
    return filled
