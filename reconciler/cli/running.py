"""One call of a verb that looks at clusters: its flags as a value, and what they open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from reconciler.backends.backend import finish_changes
from reconciler.backends.credential_sources import DEFAULT_FOLDERS
from reconciler.backends.kubernetes.client import DEFAULTS, RequestSettings
from reconciler.backends.stop import Stop
from reconciler.cli.failure import nearest
from reconciler.cli.options import DEFAULT_PATH, FilterWords, colored, moment, run_id_of, text_width
from reconciler.cli.stopping import Stopping
from reconciler.cli.talk import say
from reconciler.errors import ReconcilerError, UsageError
from reconciler.model import CredentialSources
from reconciler.observe.clusters import EVERYTHING, Scope
from reconciler.pipeline import RunRequest, Watch
from reconciler.plan.file import plan_to_json
from reconciler.plan.filters import Filters
from reconciler.plan.model import Plan
from reconciler.policy.load import read_policies
from reconciler.policy.one_cluster import read_one_cluster
from reconciler.policy.types import Fleet, PolicySet
from reconciler.report.text import Style
from reconciler.world import RealClock, World, open_world
from reconciler.yaml.files import write_private


@dataclass(frozen=True)
class Call:
    """The flags of one call, read."""

    path: str
    now: datetime
    snapshot: str | None = None
    words: FilterWords = FilterWords()
    allow_exceed: tuple[str, ...] = ()
    run_id: str = ""
    revision: str = ""
    color: bool = False
    verbose: bool = False
    summary: bool = False
    quiet: bool = False
    call_pickers: bool = False
    settings: RequestSettings = DEFAULTS
    stop: Stopping = field(default_factory=Stopping)
    watch: Watch = Watch()
    context: str | None = None  # of a kubeconfig, in place of a Fleet
    sources: CredentialSources = CredentialSources(DEFAULT_FOLDERS)
    fleet_from: str = "head"  # or "base"

    @classmethod
    def of(cls, path: str, flags: Mapping[str, Any]) -> Call:
        """Return the call that the flags of a verb describe; a flag the verb does not have is at its default."""
        stop = Stopping()
        return cls(
            path=path,
            now=moment(flags.get("now")),
            snapshot=flags.get("snapshot"),
            words=FilterWords(
                flags.get("policy", ()), flags.get("cluster", ()), flags.get("namespace", ()), flags.get("selector")
            ),
            allow_exceed=flags.get("allow_exceed", ()),
            run_id=run_id_of(flags.get("run_id")),
            revision=flags.get("source_revision") or "",
            color=colored(flags.get("color", "auto")),
            verbose=flags.get("verbose", False),
            summary=flags.get("summary", False),
            quiet=flags.get("quiet", False),
            call_pickers=flags.get("call_pickers", False),
            settings=settings_of(flags, stop),
            stop=stop,
            context=flags.get("context"),
            fleet_from=flags.get("fleet_from", "head"),
            sources=CredentialSources(
                tuple(flags.get("credentials_dir", ())) or DEFAULT_FOLDERS, not flags.get("no_exec", False)
            ),
        )

    @property
    def style(self) -> Style:
        """How text is shown."""
        return Style(self.color, self.verbose, self.summary, text_width())

    def policies(self) -> PolicySet:
        """Return the policies, after a check that filters and --allow-exceed name something that exists.

        Raises:
            PolicyError: with all problems. UsageError: a filter that matches nothing.
        """
        found = self.read(self.path)
        check_names(found, self.words.filters(), self.allow_exceed)
        return found

    def read(self, path: str) -> PolicySet:
        """Return the policies below `path`; with --context those of one cluster, none where nothing is at the default.

        Raises:
            PolicyError: with all problems. UsageError: a Fleet beside --context.
        """
        if self.context is None:
            return read_policies(path)
        return in_scope(
            read_one_cluster(self.context, None if path == DEFAULT_PATH and not Path(path).exists() else path),
            self.scope,
        )

    @property
    def scope(self) -> Scope:
        """How much of the clusters is looked at: with --context, one namespace where exactly one is named."""
        if self.context is None:
            return EVERYTHING
        names = self.words.namespace
        named = len(names) == 1 and not set(names[0]) & set("*?[")
        return Scope(names[0] if named else "", alone=True)

    def world(self, fleet: Fleet | None = None, *, writes: bool = False) -> World:
        """Open the clusters of the Fleet: the snapshot where one was given, else the live ones.

        Who `writes` first finishes what a crash interrupted in the snapshot. At the end of the call a person is told
        what there is to know of the clusters.
        """
        if writes and self.snapshot is not None:
            finish_changes(self.snapshot)
        bounded = self.bounded(fleet or self.read(self.path).fleet)
        world = open_world(bounded, self.snapshot, self.now, self.settings)
        context = click.get_current_context(silent=True)
        if context is not None and not self.quiet:
            context.call_on_close(lambda: _warn(world))
        return world

    def bounded(self, fleet: Fleet) -> Fleet:
        """Return `fleet` with what its connections may use of this machine; no cluster of another one is opened."""
        clusters = (replace(one, connection=replace(one.connection, sources=self.sources)) for one in fleet.clusters)
        return replace(fleet, clusters=tuple(clusters))

    def request(self) -> RunRequest:
        return RunRequest(
            now=self.now,
            run_id=self.run_id,
            revision=self.revision,
            allow_exceed=frozenset(self.allow_exceed),
            filters=self.words.filters(),
            call_pickers=self.call_pickers,
            watch=self.watch,
            scope=self.scope,
        )


def _warn(world: World) -> None:
    for warning in world.warnings():
        say(f"warning: {warning}")


def in_scope(policies: PolicySet, scope: Scope) -> PolicySet:
    """Return `policies` without what is placed where nothing is looked at: it would seem to be missing there."""
    if not scope.namespace:
        return policies
    inside = tuple(policy for policy in policies.federated if policy.namespace == scope.namespace)
    return replace(policies, federated=inside)


def settings_of(flags: Mapping[str, Any], stop: Stop) -> RequestSettings:
    """Return how live clusters are asked; --timeout counts from here."""
    timeout = flags.get("timeout")
    return RequestSettings(
        timeout=flags.get("request_timeout") or DEFAULTS.timeout,
        qps=flags.get("qps", DEFAULTS.qps),
        until=None if timeout is None else RealClock().monotonic() + timeout,
        stop=stop,
    )


def check_names(policies: PolicySet, filters: Filters, allow_exceed: tuple[str, ...]) -> None:
    """Refuse filters and --allow-exceed names that match no known policy or cluster.

    Raises:
        UsageError: with the nearest name.
    """
    from fnmatch import fnmatchcase

    names = sorted(
        {policy.name for kind in (policies.idling, policies.federated, policies.downscale) for policy in kind}
    )
    clusters = [cluster.name for cluster in policies.fleet.clusters]
    for flag, patterns, known in (("--policy", filters.policies, names), ("--cluster", filters.clusters, clusters)):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise UsageError(f'{flag}: "{pattern}" matches none of {len(known)} known{nearest(pattern, known)}')
    for name in allow_exceed:
        if name not in (*names, "fleet"):
            raise UsageError(
                f'--allow-exceed: "{name}" is no policy, expected a policy\'s name or "fleet"'
                f"{nearest(name, [*names, 'fleet'])}"
            )


def save(made: Plan, file: str) -> None:
    """Write `made` for a later `apply FILE`; only we may read it, because pod templates may hold what is private.

    Raises:
        ReconcilerError: the file cannot be written.
    """
    try:
        write_private(file, plan_to_json(made))
    except OSError as error:
        raise ReconcilerError(f"--out: {file}: {error.strerror}, expected a file that can be written") from error


def check_out(file: str) -> None:
    """Refuse a file that `save` could not write, as far as can be seen before there is a plan.

    Raises:
        UsageError: it is there and no regular file, its folder is not there, or one of them may not be written.
    """
    path = Path(file)
    if path.is_symlink():
        raise UsageError(f"--out: {file} is a symbolic link, expected a file")
    if path.is_dir():
        raise UsageError(f"--out: {file} is a folder, expected a file")
    if path.exists() and not path.is_file():
        raise UsageError(f"--out: {file} is no regular file, expected one")
    if not path.parent.is_dir():
        raise UsageError(f"--out: {path.parent} is no folder, expected one that is there")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"--out: {file} may not be written, expected a file that can be")
