"""One run of a verb that reads clusters: its options as a value, and what stops it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

import click
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.backends.credential_sources import DEFAULT_FOLDERS
from reconciler.backends.protocols import DEFAULTS, RequestSettings
from reconciler.cli.fleet_source import FleetSource, commit_of, read_one_cluster, user_of_this_machine
from reconciler.cli.options import DEFAULT_PATH, colored, filters_of, moment, run_id_of, tenant_named, text_width
from reconciler.cli.output import say
from reconciler.connection_settings import CredentialSources
from reconciler.decide.limits import policy_names
from reconciler.errors import (
    ExitCode,
    FailOn,
    PolicyError,
    Problem,
    PromptInterruptedError,
    UnreadPoliciesError,
    UsageError,
    first_exit_code,
)
from reconciler.messages import nearest
from reconciler.observe.needed_objects import EVERYTHING, Scope
from reconciler.pipeline import Control, ProgressCallbacks, RunRequest
from reconciler.plan.filters import Filters
from reconciler.plan.model import Plan
from reconciler.policy.globs import is_pattern
from reconciler.policy.load import read_policies
from reconciler.policy.tenants import part_of
from reconciler.policy.types import Fleet, PolicySet, Tenant, own_clusters
from reconciler.report.text import Style
from reconciler.time_limit import TimeLimit
from reconciler.untrusted_text import whole_number_in
from reconciler.world import World, open_world
from reconciler.yaml.files import write_private

_SIGNALS = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGINT: ExitCode.INTERRUPTED}


class RunLimit(TimeLimit):
    """That of a run, from --timeout, with the exit code that a signal leads to; None while none came. When the time is
    over, what was left counts.
    """

    def __init__(self, timeout_seconds: float | None) -> None:
        seconds = inf if timeout_seconds is None else timeout_seconds
        super().__init__(seconds, ended=f"--timeout of {seconds:g} s reached")
        self.exit_code: ExitCode | None = None

    def ended(self, code: ExitCode) -> ExitCode:
        """Return with what a run ends that came to `code`."""
        return code if self.exit_code is None else first_exit_code([code, self.exit_code])


@contextmanager
def cut_by_signals(limit: RunLimit) -> Iterator[RunLimit]:
    """Yield `limit`, which requests and actions look at; signals cut it. Ctrl-C twice means at once."""

    def on_signal(number: int, _: FrameType | None) -> None:
        if limit.exit_code is ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        limit.exit_code = _SIGNALS[signal.Signals(number)]
        limit.cut(f"stopped by {signal.Signals(number).name}")

    former = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield limit
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """While somebody is asked, Ctrl-C is an answer.

    Raises:
        PromptInterruptedError: that was the answer.
    """
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        say("")  # the question stands on a line that nobody ended
        raise PromptInterruptedError("interrupted; nothing was done") from None
    finally:
        signal.signal(signal.SIGINT, former)


class RunOptions(Struct, frozen=True):
    """The options of one run of a verb, read."""

    path: str
    now: datetime
    snapshot: str | None = None
    filters: Filters = Filters()
    allow_exceed: Mapping[str, int | None] = field(default_factory=dict)
    allow_removed: bool = False
    run_id: str = ""
    revision: str = ""
    color: bool = False
    verbose: bool = False
    summary: bool = False
    quiet: bool = False
    call_pickers: bool = False
    settings: RequestSettings = DEFAULTS
    limit: RunLimit = field(default_factory=lambda: RunLimit(None))
    callbacks: ProgressCallbacks = ProgressCallbacks()
    context: str | None = None  # of a kubeconfig, in place of a Fleet
    sources: CredentialSources = CredentialSources(DEFAULT_FOLDERS)
    fleet_from: str = "head"  # or "base"
    title: str = ""  # of what is shown, where it is not that of a plan or apply
    nothing: str = ""  # what is said where nothing is to be done
    tenant: str | None = None  # the one whose part is looked at
    shard: tuple[int, int] | None = None  # the part of the Fleet that is decided: its index, and how many there are
    fail_on: frozenset[FailOn] = frozenset()
    source: FleetSource | None = None  # of a verb that reads of the policies the Fleet alone
    report_dir: str | None = None
    progress: str = "none"
    metrics_file: str | None = None
    push_gateway: str | None = None

    @classmethod
    def of(cls, path: str, flags: Mapping[str, Any]) -> RunOptions:
        """Return the options that the flags of a verb describe; one that the verb does not have is at its default."""
        limit = RunLimit(flags.get("timeout"))
        check_shard(flags)
        return cls(
            path=path,
            now=moment(flags.get("now")),
            filters=filters_of(flags),
            allow_exceed=exceeding_of(flags.get("allow_exceed", ())),
            run_id=run_id_of(flags.get("run_id")),
            revision=flags.get("source_revision") or "",
            color=colored(flags.get("color", "auto")),
            settings=request_settings(flags, limit),
            limit=limit,
            fail_on=flags.get("fail_on") or frozenset(),
            sources=CredentialSources(
                tuple(flags.get("credentials_dir", ())) or DEFAULT_FOLDERS, not flags.get("no_exec", False)
            ),
            **{name: flags[name] for name in _AS_GIVEN if name in flags},
        )

    @classmethod
    def of_fleet(cls, flags: Mapping[str, Any]) -> tuple[RunOptions, Fleet]:
        """Return the options of a verb that reads of the policies the Fleet alone, and what a wake needs of it.

        Raises:
            PolicyError: not even that can be read. UsageError: flags that exclude each other.
        """
        source = FleetSource.of(flags)
        fleet = source.read()
        return replace(cls.of(source.path, {**flags, "context": None}), source=source), fleet

    @property
    def any_fleet(self) -> bool:
        """Whether what every Fleet idled is its own, as contexts stand in for a lost Fleet."""
        return self.source is not None and bool(self.source.contexts)

    def by_hand(self, control: Control) -> Control:
        """Return `control` of a verb that a person calls: the history records who, and the commit of the policies."""
        commit = "" if self.any_fleet else commit_of(self.path)
        return replace(control, caller=user_of_this_machine(), commit=commit, report_dir=self.report_dir)

    @property
    def style(self) -> Style:
        """How text is shown."""
        shown = Style(self.color, self.verbose, self.summary, text_width())
        return replace(shown, title=self.title, nothing=self.nothing)

    def policies(self, *, partly: bool = False) -> PolicySet:
        """Return the policies, after a check that filters and --allow-exceed name something that exists.

        With `partly` problems in files of tenants are reported, and only stop these.

        Raises:
            PolicyError: with all problems. UsageError: a filter that matches nothing.
        """
        found = self.read(self.path, partly=partly or self.tenant is not None)
        if self.tenant is not None:
            found = only_of(found, tenant_named(found.fleet, self.tenant), partly=partly)
        for problem in sorted(one for inside in found.problems.values() for one in inside):
            say(f"error: {problem}")
        check_names(found, self.filters, self.allow_exceed)
        if self.shard is None:
            return found
        check_identities(found.fleet)
        return found.in_shard(*self.shard)

    def own_clusters(self, fleet: Fleet) -> Fleet:
        """Return `fleet` with only the clusters that the shard decides, where only wakes are decided."""
        return fleet if self.shard is None else own_clusters(fleet, *self.shard)

    def read(self, path: str, *, partly: bool = False) -> PolicySet:
        """Return the policies below `path`; with --context those of one cluster, none where nothing is at the default.

        Raises:
            PolicyError: with all problems. UsageError: a Fleet beside --context.
        """
        if self.context is None:
            return read_policies(path, partly=partly, in_time=self._in_time(path))
        return in_scope(
            read_one_cluster(self.context, None if path == DEFAULT_PATH and not Path(path).exists() else path),
            self.scope,
        )

    def _in_time(self, path: str) -> Callable[[], None]:
        """Return what ends the reading of policies once it has taken half of the time that is left: wakes that are due
        need the other half.
        """
        reading = self.limit.within(self.limit.left() / 2)
        begun = not self.limit.over  # with no time at all no wake needs any, and the run says that nothing was done

        def check() -> None:
            if begun and reading.over:
                why = self.limit.why or "reading takes more than half of --timeout"
                problem = Problem.of_path(path, f"{why}, expected policies that are read by then")
                error = UnreadPoliciesError.of([problem])
                error.exit_code = self.limit.ended(error.exit_code)
                raise error

        return check

    @property
    def scope(self) -> Scope:
        """How much of the clusters is looked at: with --context, one namespace where exactly one is named."""
        if self.context is None:
            return EVERYTHING
        names = self.filters.namespaces
        named = len(names) == 1 and not is_pattern(names[0])
        return Scope(names[0] if named else "", alone=True)

    def world(self, fleet: Fleet | None = None) -> World:
        """Open the clusters of the Fleet: the snapshot where one was given, else the live ones.

        At the end of the run a person reads what there is to know of the clusters.

        Raises:
            UsageError: it stands in for a Fleet that has its records elsewhere.
        """
        bounded = self.bounded(fleet or self.read(self.path).fleet)
        world = open_world(bounded, self.snapshot, self.now, self.settings)
        context = click.get_current_context(silent=True)
        if context is not None and not self.quiet:
            context.call_on_close(lambda: _warn(world))
        if self.source is not None:
            self.source.check_own_namespace(bounded, world)
        return world

    def bounded(self, fleet: Fleet) -> Fleet:
        """Return `fleet` with what its connections may use of this machine; no cluster of another one is opened."""
        clusters = (replace(one, connection=replace(one.connection, sources=self.sources)) for one in fleet.clusters)
        return replace(fleet, clusters=tuple(clusters))

    def request(self, *, whole: bool = False) -> RunRequest:
        """Return what is asked of one run; `whole`: also what no decision needs is read of the clusters."""
        return RunRequest(
            now=self.now,
            run_id=self.run_id,
            revision=self.revision,
            allow_exceed=self.allow_exceed,
            allow_removed=self.allow_removed,
            filters=self.filters,
            call_pickers=self.call_pickers,
            callbacks=self.callbacks,
            scope=replace(self.scope, whole=whole),
        )


_AS_GIVEN = (
    *("snapshot", "allow_removed", "verbose", "summary", "quiet", "call_pickers", "context", "fleet_from", "tenant"),
    *("shard", "report_dir", "progress", "metrics_file", "push_gateway"),
)
"""The flags that are options as they are given."""


def check_shard(flags: Mapping[str, Any]) -> None:
    """Refuse --shard beside what looks at a part of the Fleet of its own.

    Raises:
        UsageError: with that flag.
    """
    for name in ("context", "tenant"):
        if flags.get("shard") is not None and flags.get(name):
            raise UsageError(f"--shard: divides the clusters of a Fleet, expected no --{name} beside it")


def check_identities(fleet: Fleet) -> None:
    """Refuse to divide a Fleet of which two clusters may be one by two names: no shard would see both.

    Raises:
        UsageError: with the clusters whose identity is not stated.
    """
    names = [one.name for one in fleet.clusters if not one.identity]
    if names:
        listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        counted = f"{len(names)} of {len(fleet.clusters)} clusters have no identity in {fleet.place}: {listed}"
        raise UsageError(f"--shard: {counted}; expected the uid of Namespace kube-system of each")


def _warn(world: World) -> None:
    for warning in world.warnings():
        say(f"warning: {warning}")


def only_of(policies: PolicySet, tenant: Tenant, *, partly: bool = False) -> PolicySet:
    """Return the part of `policies` that concerns `tenant`; with `partly` problems in its files only stop it.

    Raises:
        PolicyError: with all of these problems.
    """
    found = part_of(policies, tenant)
    if found.problems and not partly:
        raise PolicyError.of(one for inside in found.problems.values() for one in inside)
    return found


def in_scope(policies: PolicySet, scope: Scope) -> PolicySet:
    """Return `policies` without what is placed where nothing is looked at: it would seem to be missing there."""
    if not scope.namespace:
        return policies
    inside = tuple(policy for policy in policies.federated if policy.namespace == scope.namespace)
    return replace(policies, federated=inside)


def request_settings(flags: Mapping[str, Any], limit: TimeLimit) -> RequestSettings:
    """Return how live clusters are asked within the run's `limit`."""
    return RequestSettings(
        timeout=flags.get("request_timeout") or DEFAULTS.timeout, qps=flags.get("qps", DEFAULTS.qps), limit=limit
    )


def check_names(policies: PolicySet, filters: Filters, allow_exceed: Iterable[str]) -> None:
    """Refuse filters and --allow-exceed names that match no known policy or cluster, or several.

    Raises:
        UsageError: with the nearest name.
    """
    from fnmatch import fnmatchcase

    policy_keys = policy_names(policies)
    names = sorted(policy_keys | {one.name for one in policies.federated})
    clusters = [cluster.name for cluster in policies.fleet.clusters]
    for flag, patterns, known, count in (
        ("--policy", filters.policies, names, len(policy_keys)),
        ("--cluster", filters.clusters, clusters, len(clusters)),
    ):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise UsageError(f'{flag}: "{pattern}" matches none of {count} known{nearest(pattern, known)}')
    for name in allow_exceed:
        if name not in names:
            words = "is not a policy, expected a policy's name"
            raise UsageError(f'--allow-exceed: "{name}" {words}{nearest(name, names)}')
        found = sorted(one.key for one in policies.federated if one.name == name)
        if len(found) > 1:
            raise UsageError(f'--allow-exceed: "{name}" is {len(found)} policies, expected one of {", ".join(found)}')


def exceeding_of(values: Iterable[str]) -> dict[str, int | None]:
    """Return the policies that --allow-exceed names, each with its bound, None where it has none.

    Raises:
        UsageError: a bound is no number.
    """
    found: dict[str, int | None] = {}
    for value in values:
        name, equals, bound = value.partition("=")
        number = whole_number_in(bound)
        if equals and number is None:
            raise UsageError(f'--allow-exceed: "{value}", expected NAME or NAME=NUMBER')
        found[name] = number if equals else None
    return found


def save(made: Plan, file: str | None) -> ExitCode:
    """Write `made` for a later `apply FILE`; only we may read it, because pod templates may hold what is private.

    None: that was not asked for. What goes wrong is reported beside what is shown, never instead of it.
    """
    try:
        if file is not None:
            from reconciler.plan.json import plan_to_json

            write_private(file, plan_to_json(made))
    except OSError as error:
        say(f"error: --out: {file}: {error.strerror}, expected a file that can be written")
        return ExitCode.NOTHING_DONE
    return ExitCode.DONE


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
        raise UsageError(f"--out: {file} is not a regular file, expected one")
    if not path.parent.is_dir():
        raise UsageError(f"--out: {path.parent} is not a directory, expected one that exists")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"--out: {file} may not be written, expected a file that can be")
