"""PromQL in policies: Jinja2 templates in a sandbox, which see `window`, `cluster` and `policy`, and nothing else."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from reconciler.errors import PolicyError

VARIABLES = ("cluster", "policy", "window")
_LONGEST = 20_000


@lru_cache(maxsize=1)
def _environment() -> Any:
    """Return the sandbox."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    environment.globals = {}
    return environment


def query_fault(template: str) -> str | None:
    """Return what is wrong with a query template, None where it can be rendered."""
    from jinja2 import TemplateError, meta, nodes

    if not template.strip():
        return "is empty, expected a query"
    try:
        tree = _environment().parse(template)
    except TemplateError as error:
        return f"is no template: {error.message or error}"
    except RecursionError:
        return "is nested too deeply, expected a query"
    unknown = sorted(meta.find_undeclared_variables(tree) - set(VARIABLES))
    if unknown:
        from reconciler.policy.words import listed, nearest

        return f'uses "{unknown[0]}", expected only {listed(VARIABLES)}{nearest(unknown[0], VARIABLES)}'
    if tree.find((nodes.For, nodes.Macro, nodes.Call, nodes.Import, nodes.Include, nodes.Mul, nodes.Pow)) is not None:
        return "has a loop, a call or a product in its template, expected plain text with {{ window }} and the like"
    try:
        render_query(template, window="30m", cluster="cluster", policy="policy")
    except PolicyError as error:
        return str(error)
    return None


def render_query(template: str, *, window: str, cluster: str, policy: str) -> str:
    """Return the query text for one cluster.

    Raises:
        PolicyError: it cannot be rendered, which a checked template always can.
    """
    from jinja2 import TemplateError

    try:
        text = _compiled(template).render(window=window, cluster=cluster, policy=policy)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise PolicyError(f"cannot be rendered: {' '.join(str(error).split())}") from error
    if len(text) > _LONGEST:
        raise PolicyError(f"is {len(text)} characters long when rendered, expected at most {_LONGEST}")
    return str(text)


@lru_cache(maxsize=512)
def _compiled(template: str) -> Any:
    return _environment().from_string(template)
