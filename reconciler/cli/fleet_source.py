"""Where `wake` and `restore` know the clusters from: a Fleet, or contexts of the kubeconfig in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource
from msgspec import Struct

from reconciler.cli.options import DEFAULT_PATH, option, policies_option, together
from reconciler.cli.output import say
from reconciler.errors import UsageError
from reconciler.policy.load import read_fleet_for_wakes
from reconciler.policy.one_cluster import fleet_of_contexts
from reconciler.policy.types import Fleet

fleet_options = together(
    policies_option(
        default=None, default_words=DEFAULT_PATH, help="The policy directory, or a file with the Fleet, which is read."
    ),
    option(
        "--context",
        multiple=True,
        metavar="NAME",
        help="A context of the kubeconfig, in place of a Fleet; may be repeated.",
        group="Clusters",
    ),
    option(
        "--own-namespace",
        metavar="NAME",
        default_words="reconciler",
        help="With --context: the namespace of the lock.",
        group="Clusters",
    ),
)


class FleetSource(Struct, frozen=True):
    """What the flags and their variables say; `policies` None: they do not name one.

    `unasked`: the contexts come from the variable, not from a flag.
    """

    policies: str | None
    contexts: Sequence[str]
    own_namespace: str | None
    unasked: bool = False

    @classmethod
    def of(cls, flags: dict[str, Any]) -> FleetSource:
        """Return what `flags`, those of this call, say: a flag beats the variable of another one."""
        policies, contexts, own_namespace = flags["policies"], flags["context"], flags["own_namespace"]
        if _is_flag("context") and not _is_flag("policies"):
            policies = None
        if _is_flag("policies") and not _is_flag("context"):
            contexts = ()
        if not contexts and not _is_flag("own_namespace"):
            own_namespace = None
        return cls(policies, contexts, own_namespace, unasked=bool(contexts) and not _is_flag("context"))

    @property
    def path(self) -> str:
        return self.policies or DEFAULT_PATH

    def read(self) -> Fleet:
        """Return what a wake needs of the Fleet; what else is wrong with it is a warning.

        Raises:
            PolicyError: not even that can be read. UsageError: flags that exclude each other.
        """
        if not self.contexts:
            if self.own_namespace is not None:
                raise UsageError("--own-namespace: the Fleet names its own, expected it beside --context")
            return self._from_file()
        context, fleet = ("RECONCILER_CONTEXT", "RECONCILER_POLICIES") if self.unasked else ("--context", "--policies")
        if self.policies is not None:
            raise UsageError(f"{context}: takes the place of a Fleet, expected no {fleet} beside it")
        if self.unasked:
            say(
                f"warning: {context} takes the place of the Fleet: {', '.join(self.contexts)}; "
                "--policies PATH names one"
            )
        return fleet_of_contexts(self.contexts, self.own_namespace)

    def _from_file(self) -> Fleet:
        fleet, problems = read_fleet_for_wakes(self.path)
        for problem in problems:
            say(f"warning: {problem}")
        return fleet


def _is_flag(name: str) -> bool:
    """Return whether the option `name` stands on the command line of this call."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
