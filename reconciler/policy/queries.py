"""PromQL in policies: Jinja2 templates in a sandbox, which see `window`, `cluster` and `policy`, and nothing else.

What a template may hold is listed, not what it may not: nothing that repeats, assigns or calls, so that its text grows
no longer than the template and its values together. Most templates are plain text with `{{ window }}` in it; those are
filled in without Jinja2, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from reconciler.errors import PolicyError
from reconciler.policy.words import listed, nearest

VARIABLES = ("cluster", "policy", "window")
_LONGEST = 20_000
_DEEPEST = 50
_TOO_DEEP = "is no template: it is nested too deeply, or holds a number that is too long"
_PLAIN_VARIABLE = re.compile(r"(?<!\{)\{\{ *(window|cluster|policy) *\}\}(?!\})")
_SYNTAX = re.compile(r"\{[{%#]|\r")
_FILTERS = frozenset(("abs", "capitalize", "d", "default", "float", "int", "lower", "round", "title", "trim", "upper"))
_TESTS = frozenset(("defined", "undefined", "in", "eq", "ne", "lower", "upper", "none", "number", "string"))
_NODES = frozenset(
    (
        *("Add", "And", "Compare", "Concat", "CondExpr", "Const", "EvalContextModifier", "Filter", "Getitem", "If"),
        *("List", "Name", "Not", "Operand", "Or", "Output", "Slice", "Sub", "Template", "TemplateData", "Test"),
        *("Tuple",),
    )
)


def query_fault(template: str, variables: Collection[str] = VARIABLES) -> str | None:
    """Return what is wrong with a query template that sees `variables`, None where it can be rendered."""
    if not template.strip():
        return "is empty, expected a query"
    if len(template) > _LONGEST:
        return f"has {len(template)} characters, expected at most {_LONGEST}"
    used = _plain_variables(template)
    if used is None:
        return _template_fault(template, variables)
    return _unknown_fault(used, variables)


def render_query(template: str, *, window: str, cluster: str, policy: str) -> str:
    """Return the query text for one cluster.

    Raises:
        PolicyError: it cannot be rendered, which a checked template always can.
    """
    values = {"window": window, "cluster": cluster, "policy": policy}
    text = _filled(template, values) if _plain_variables(template) is not None else _rendered(template, values)
    if len(text) > _LONGEST:
        raise PolicyError(f"is {len(text)} characters long when rendered, expected at most {_LONGEST}")
    return text


@lru_cache(maxsize=4096)
def _plain_variables(template: str) -> frozenset[str] | None:
    """Return the variables of a template that holds nothing but text and `{{ name }}`, None for any other."""
    pieces = _PLAIN_VARIABLE.split(template)
    return None if any(_SYNTAX.search(piece) for piece in pieces[::2]) else frozenset(pieces[1::2])


def _filled(template: str, values: dict[str, str]) -> str:
    """Jinja2 drops one line break at the end of a template, and so does this."""
    return _PLAIN_VARIABLE.sub(lambda match: values[match[1]], template.removesuffix("\n"))


def _template_fault(template: str, variables: Collection[str]) -> str | None:
    from jinja2 import TemplateError, meta

    try:
        tree = _environment().parse(template)
    except TemplateError as error:
        return f"is no template: {' '.join(str(error.message or error).split())}"
    except (RecursionError, ValueError):
        return _TOO_DEEP
    fault = _content_fault(tree) or _unknown_fault(meta.find_undeclared_variables(tree), variables)
    if fault is not None:
        return fault
    try:
        render_query(template, window="30m", cluster="cluster", policy="policy")
    except PolicyError as error:
        return str(error)
    return None


def _unknown_fault(used: Collection[str], variables: Collection[str]) -> str | None:
    unknown = sorted(set(used) - set(variables))
    if not unknown:
        return None
    return f'uses "{unknown[0]}", expected only {listed(sorted(variables))}{nearest(unknown[0], variables)}'


def _content_fault(tree: Any) -> str | None:
    """Return what in a parsed template could repeat, assign or call."""
    pending = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        kind = type(node).__name__
        if depth > _DEEPEST:
            return _TOO_DEEP
        if kind not in _NODES:
            found = f"has more than values in its template ({kind.lower()})"
            return f"{found}, expected text with {{{{ window }}}} and the like"
        known = {"Filter": _FILTERS, "Test": _TESTS}.get(kind)
        if known is not None and node.name not in known:
            return f'has the {kind.lower()} "{node.name}" in its template, expected {listed(sorted(known))}'
        pending += [(child, depth + 1) for child in node.iter_child_nodes()]
    return None


def _rendered(template: str, values: dict[str, str]) -> str:
    from jinja2 import TemplateError

    try:
        return str(_compiled(template).render(values))
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise PolicyError(f"cannot be rendered: {' '.join(str(error).split())}") from error


@lru_cache(maxsize=1)
def _environment() -> Any:
    """Return the sandbox."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    environment.globals = {}
    return environment


@lru_cache(maxsize=512)
def _compiled(template: str) -> Any:
    return _environment().from_string(template)
