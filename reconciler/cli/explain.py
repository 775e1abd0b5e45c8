"""`reconciler explain`: a field of a policy, or the number of an object."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import click

from reconciler.cli.object_names import ObjectName, check_there, known_cluster, object_name
from reconciler.cli.options import context_option, now_option, option, world_options
from reconciler.cli.running import Call
from reconciler.cli.talk import show, show_lines
from reconciler.decide.decide import decide
from reconciler.decide.decisions import Decision, PolicyExplanation
from reconciler.errors import ReconcilerError, UsageError
from reconciler.model import ObjectRef
from reconciler.observe.clusters import observe
from reconciler.pipeline import plan
from reconciler.plan.model import Plan
from reconciler.policy.explain import explain_field


@click.command(name="explain")
@click.argument("subject")
@option("--policies", default="policies", metavar="PATH", help="The policy directory.")
@context_option
@world_options
@now_option
def command(subject: str, policies: str, **flags: Any) -> None:
    """Say what KIND.field means, or why CLUSTER/NAMESPACE/KIND/NAME gets its number.

    For an object: which policies were considered, what each says and why, and the smallest change that would alter it.
    """
    if "/" not in subject:
        show(explain_field(subject))
        return
    call = Call.of(policies, flags)
    found = call.policies()
    name = object_name(subject)
    known_cluster(found.fleet, name, subject)
    world = call.world(found.fleet)
    made = plan(found, world, call.request(), partial(decide, counterfactuals=True))
    lines = list(explanation(made, name))
    if not lines:
        check_known(made, name, subject)
        check_there(observe(found, world.sources, scope=call.scope, readers=world.readers), name, subject)
        raise UsageError(f"{subject}: no policy considers it, expected an object that some selector reaches")
    show_lines(lines)


def check_known(made: Plan, name: ObjectName, subject: str) -> None:
    """Check that what `name` names could be looked at.

    Raises:
        ReconcilerError: its cluster, or something in it, is unknown.
    """
    unread = {what: why for what, why in made.unknown.items() if not what.startswith(f"{name.cluster}/query of ")}
    unknown = [why for what, why in unread.items() if what == name.cluster or what.startswith(f"{name.cluster}/")]
    if unknown:
        raise ReconcilerError(f"{subject}: no policy considers it as far as can be seen: {'; '.join(unknown)}")


def explanation(made: Plan, name: ObjectName) -> Iterator[str]:
    """Yield the lines that explain every considered object that `name` names, or that is behind a Service it names."""
    named = [one for one in made.explanations if _is_named(one, name)]
    if name.kind == "service":
        yield from _services(made, named, name)
    for ref in sorted({one.ref for one in named}):
        yield from _object(made, ref)


def _is_named(one: PolicyExplanation, name: ObjectName) -> bool:
    behind = one.services if name.kind == "service" else ()
    return any(name.matches(ref) for ref in (one.ref, *([one.written] if one.written else []), *behind))


def _services(made: Plan, named: Collection[PolicyExplanation], name: ObjectName) -> Iterator[str]:
    """Yield what is behind each Service, and what is done with the Service itself."""
    for service in sorted({ref for one in named for ref in one.services if name.matches(ref)}):
        behind = sorted({one.ref for one in named if service in one.services})
        yield str(service)
        yield f"  behind it: {', '.join(f'{ref.kind}/{ref.name}' for ref in behind)}"
        yield from _planned(made, {service}, service)


def _object(made: Plan, ref: ObjectRef) -> Iterator[str]:
    yield str(ref)
    told = [one for one in made.explanations if one.ref == ref]
    written = {one.written for one in told if one.written is not None}
    yield from (f"  scaled through {one.kind}/{one.name}" for one in sorted(written))
    for one in told:
        yield f"  {one.job}, {one.policy or 'no policy'}: {one.outcome}"
        if one.selected_by:
            yield f"    selected by: {' and '.join(one.selected_by)}"
        yield f"    because: {one.why}"
        if one.counterfactual:
            yield f"    it would change: {one.counterfactual}"
    for lost in made.overridden:
        if lost.ref == ref:
            yield f"  overridden: {lost.policy} wanted {lost.wish}, {lost.winner} decides ({lost.why})"
    yield from _planned(made, {ref, *written}, ref)


def _planned(made: Plan, refs: Collection[ObjectRef], about: ObjectRef) -> Iterator[str]:
    """Yield what is done with `refs`, and what is not done although it was decided."""
    held = [(limit, one) for limit in made.held_back for one in limit.decisions if one.ref in refs]
    for limit, one in held:
        yield f"  held back: {_change(one, about)}; {limit.why}"
        yield f"    allow it once: --allow-exceed {limit.allow}"
    for one in made.observed:
        if one.ref in refs:
            yield f"  only observed, never applied: {_change(one, about)}"
    planned = [action.decision for action in made.actions if action.ref in refs]
    for one in planned:
        yield f"  planned: {_change(one, about)}"
    if not planned:
        yield "  planned: nothing"


def _change(change: Decision, about: ObjectRef) -> str:
    other = "" if change.ref == about else f" {change.ref.kind}/{change.ref.name}"
    numbers = (
        f" replicas {change.replicas_before} -> {change.replicas_after}" if change.replicas_after is not None else ""
    )
    return f"{change.verb}{other}{numbers} ({change.cause.why}; {change.cause.at})"
