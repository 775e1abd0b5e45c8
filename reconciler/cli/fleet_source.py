"""Where `wake` and `restore` know the clusters from: a Fleet, or contexts of the kubeconfig in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from reconciler.cli.options import DEFAULT_PATH, option, together
from reconciler.cli.talk import say
from reconciler.errors import UsageError
from reconciler.policy.one_cluster import fleet_of_contexts
from reconciler.policy.types import Fleet
from reconciler.policy.validate import read_fleet_for_wakes

fleet_options = together(
    option("--fleet", metavar="FILE", help="Where the Fleet document is (default: policies)."),
    option(
        "--context",
        multiple=True,
        metavar="NAME",
        help="Look at this context of the kubeconfig, without a Fleet; may be repeated.",
    ),
    option("--own-namespace", metavar="NAME", help="With --context: the namespace of the lock (default: reconciler)."),
)


@dataclass(frozen=True, slots=True)
class FleetSource:
    """What the flags and their variables say; `fleet` None: they do not name one.

    `unasked`: the contexts come from the variable, not from a flag.
    """

    fleet: str | None
    contexts: Sequence[str]
    own_namespace: str | None
    unasked: bool = False

    @classmethod
    def of(cls, flags: dict[str, Any]) -> FleetSource:
        """Return what `flags`, those of this call, say: a flag beats the variable of another one."""
        fleet, contexts, own_namespace = flags["fleet"], flags["context"], flags["own_namespace"]
        if _is_flag("context") and not _is_flag("fleet"):
            fleet = None
        if _is_flag("fleet") and not _is_flag("context"):
            contexts = ()
        if not contexts and not _is_flag("own_namespace"):
            own_namespace = None
        return cls(fleet, contexts, own_namespace, unasked=bool(contexts) and not _is_flag("context"))

    @property
    def path(self) -> str:
        return self.fleet or DEFAULT_PATH

    def read(self) -> Fleet:
        """Return what a wake needs of the Fleet; what else is wrong with it is a warning.

        Raises:
            PolicyError: not even that can be read. UsageError: flags that exclude each other.
        """
        if not self.contexts:
            if self.own_namespace is not None:
                raise UsageError("--own-namespace: the Fleet names its own, expected it beside --context")
            return self._from_file()
        context, fleet = ("RECONCILER_CONTEXT", "RECONCILER_FLEET") if self.unasked else ("--context", "--fleet")
        if self.fleet is not None:
            raise UsageError(f"{context}: takes the place of a Fleet, expected no {fleet} beside it")
        if self.unasked:
            say(f"warning: {context} takes the place of the Fleet: {', '.join(self.contexts)}; --fleet FILE reads one")
        return fleet_of_contexts(self.contexts, self.own_namespace)

    def _from_file(self) -> Fleet:
        fleet, problems = read_fleet_for_wakes(self.path)
        for problem in problems:
            say(f"warning: {problem}")
        return fleet


def _is_flag(name: str) -> bool:
    """Return whether the option `name` stands on the command line of this call."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
