"""`reconciler explain`: a field of a policy, or the number of an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from reconciler.cli.object_names import ObjectName, object_name
from reconciler.cli.options import context_option, now_option, option, world_options
from reconciler.cli.running import Call
from reconciler.errors import ReconcilerError, UsageError
from reconciler.pipeline import plan
from reconciler.plan.actions import Plan
from reconciler.policy.schemas import explain_field


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
        click.echo(explain_field(subject), nl=False)
        return
    call = Call.of(policies, flags)
    found = call.policies()
    made = plan(found, call.world(found.fleet), call.request())
    lines = list(explanation(made, object_name(subject)))
    if not lines:
        check_known(made, object_name(subject), subject)
        raise UsageError(f"{subject}: no policy considers it, expected an object that some selector reaches")
    click.echo("\n".join(lines))


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
    """Yield the lines that explain every considered object that `name` names."""
    refs = sorted({one.ref for one in made.considered if name.matches(one.ref)})
    for ref in refs:
        yield str(ref)
        for one in made.considered:
            if one.ref == ref:
                yield f"  {one.job}, {one.policy}: {one.outcome}"
                yield f"    because: {one.why}"
                if one.flip:
                    yield f"    it would change: {one.flip}"
        for lost in made.overridden:
            if lost.ref == ref:
                yield f"  overridden: {lost.policy} wanted {lost.wish}, {lost.winner} decides ({lost.why})"
        yield from _planned(made, ref)


def _planned(made: Plan, ref: object) -> Iterator[str]:
    actions = [action for action in made.actions if action.ref == ref]
    for action in actions:
        change = action.decision
        numbers = (
            f" replicas {change.replicas_before} → {change.replicas_after}" if change.replicas_after is not None else ""
        )
        yield f"  planned: {action.verb}{numbers} ({change.cause.why}; {change.cause.at})"
    if not actions:
        yield "  planned: nothing"
