"""The queries of policies: PromQL, in which `{{ window }}`, `{{ cluster }}` and `{{ policy }}` stand for their values.

Nothing is evaluated. What looks like more than that is refused, so that nobody takes it for a template.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from reconciler.errors import PolicyError
from reconciler.messages import alternatives, nearest, shown
from reconciler.model import QueryKey
from reconciler.policy.types import IdlingPolicy, MetricCriterion, PolicySet, leaves

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


def query_keys(cluster: str, policies: PolicySet) -> tuple[QueryKey, ...]:
    """Return every query of the policies that may concern `cluster`, sorted."""
    fleet_cluster = policies.fleet.cluster(cluster)
    if fleet_cluster is None:
        return ()
    idling = {
        QueryKey(cluster, policy.name, template, window)
        for policy in policies.idling
        if policy.selector.selects_cluster(fleet_cluster)
        for template, window in queries_of(policy)
    }
    targets = {
        QueryKey(cluster, policy.name, policy.target.query)
        for policy in policies.downscale
        if policy.target is not None
        and policy.target.query is not None
        and policy.selector.selects_cluster(fleet_cluster)
    }
    return tuple(sorted(idling | targets))


def queries_of(policy: IdlingPolicy) -> Iterator[tuple[str, str]]:
    """Yield (template, window) of every query of `policy`."""
    yield from ((metric.query, metric.window) for metric in policy.wake_when)
    for criterion in leaves(policy.idle_when):
        if isinstance(criterion, MetricCriterion):
            yield criterion.query, criterion.window
            if criterion.coverage is not None:
                yield criterion.coverage, criterion.window
