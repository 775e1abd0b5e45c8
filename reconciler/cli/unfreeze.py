"""`reconciler unfreeze`: ends a freeze."""

from __future__ import annotations

import json
from typing import Any

from reconciler.cli.freeze import Brakes, ended, scope_options
from reconciler.cli.options import option, verb
from reconciler.cli.output import show
from reconciler.decide.freeze import freeze_reason, freezes_text, scope_of
from reconciler.errors import UsageError
from reconciler.policy.types import Freeze
from reconciler.version import OUTPUT_VERSION


@verb("unfreeze")
@option("--all", "everything", is_flag=True, help="End every freeze, of whatever scope.")
@scope_options
def command(subject: str | None, everything: bool, output: str, **flags: Any) -> int:
    """End the freeze of the Fleet, or that of a cluster or namespace. What it held back is done by the next run.

    A freeze of another scope goes on; --all ends them all.
    """
    if everything and subject is not None:
        raise UsageError(f"--all: stands beside {subject}, expected one of the two")
    brakes = Brakes.of(subject, flags)
    over: dict[Freeze, None] = {}
    others: dict[Freeze, None] = {}

    def change(freezes: tuple[Freeze, ...]) -> tuple[Freeze, ...]:
        for one in freezes:
            (over if everything or brakes.scope.is_of(one) else others)[one] = None
        return tuple(one for one in freezes if one in others)

    written, failures = brakes.written(change)
    if not over and not failures:
        frozen = ", ".join(scope_of(one, brakes.fleet) for one in others)
        raise UsageError(f"unfreeze: {subject or 'the Fleet'} is not frozen; {frozen or 'nothing'} is")
    if output == "json":
        ends = {"schemaVersion": OUTPUT_VERSION, "kind": "Unfreeze", "ended": json.loads(freezes_text(over))}
        show(json.dumps({**ends, "writtenTo": written}, indent=2, ensure_ascii=False) + "\n", output)
    else:
        lines = [f"{scope_of(one, brakes.fleet)}: no longer {freeze_reason(one)}\n" for one in over]
        show("".join(lines), output)
    return ended(written, failures)
