"""The options of runs, each flag one field, and what they open: policies, clusters and the request for a plan."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.backends.protocols import DEFAULTS, LEASES, RequestSettings
from reconciler.cli import policy_source
from reconciler.cli.option_values import (
    duration,
    exceeding,
    fail_on,
    gateway_address,
    label_selector,
    rate,
    run_id,
    seconds,
    shard,
    utf8,
)
from reconciler.cli.options import (
    DEFAULT_PATH,
    Options,
    is_on_command_line,
    now_option,
    option,
    output_option,
    path_argument,
    policies_option,
    text_width,
    unread,
)
from reconciler.cli.output import FORMATS, failure_lines, say, say_each
from reconciler.cli.run_time_limit import RunLimit
from reconciler.connection_settings import DEFAULT_FOLDERS, CredentialSources
from reconciler.errors import ClusterError, FailOn, PolicyError, Problem, UnreadPoliciesError, UsageError, reason_of
from reconciler.labels import LabelSelector
from reconciler.lazy_libraries import lazy_libraries
from reconciler.model import OUR_LABELS
from reconciler.observe.needed_objects import EVERYTHING, Scope
from reconciler.pipeline import Control, ProgressCallbacks, RunRequest
from reconciler.plan.filters import Filters
from reconciler.policy.globs import is_pattern
from reconciler.policy.load import read_fleet_for_wakes, read_policies
from reconciler.policy.policy_files import overlooked
from reconciler.policy.types import Fleet, PolicySet, own_clusters
from reconciler.report.text import Style
from reconciler.world import World, open_world

SERVER = ("request_timeout", "credentials_dir", "no_exec")
"""Of a verb that runs until it is stopped, and writes what clients wait for: as fast as the API server takes it."""

REQUESTS = ("request_timeout", "timeout", "credentials_dir", "no_exec")
READ_WORLD = ("snapshot", *REQUESTS, "now")
"""Of a verb that writes nothing, and is no part of one that does, as a plan is."""

WORLD = ("snapshot", "request_timeout", "timeout", "qps", "credentials_dir", "no_exec", "now")
FILTERS = ("policy", "cluster", "namespace", "selector")
RUN = ("allow_exceed", "allow_removed", "run_id", "source_revision")
OF_PLANS = ("detailed_exitcode", "fail_on", *FILTERS, "shard", "tenant", *RUN)
STYLE = ("color_choice", "verbose", "summary")
PROGRESS = ("quiet", "progress", "metrics_file", "push_gateway")
BY_HAND = ("report_dir", *WORLD, "color_choice", "verbose", "quiet", "progress")
"""Of a verb that writes what a person asks for, without policies."""

_OF_REVIEWS = frozenset({*FailOn, "never", "invalid", "partial"})
_OUR_LEASES = ",".join(f"{key}={value}" for key, value in OUR_LABELS.items())

O = TypeVar("O", bound="RunOptions")  # noqa: E741


class RunOptions(Options, shared=True):
    """The options that verbs share, with those of one verb in a class below this one; each verb names what it takes."""

    path: str = path_argument()
    context: str | None = option("A context of the kubeconfig, in place of a Fleet.", metavar="NAME")
    snapshot: str | None = option("A snapshot, in place of live clusters.", metavar="DIR")
    request_timeout: float = option("Deadline of one request to a live cluster.", type=seconds, default=30.0)
    timeout: float | None = option(
        "Run deadline: after it no write begins, and nothing is waited for.", type=seconds, default_words="none"
    )
    qps: float = option("Writes per second to each live cluster; 0 is no limit.", type=rate, default=DEFAULTS.qps)
    credentials_dir: tuple[str, ...] = option(
        "Where files that a Fleet names must be; may be repeated.",
        multiple=True,
        type=click.Path(),
        metavar="DIR",
        default_words="/var/run/secrets, ~/.kube",
    )
    no_exec: bool = option("Refuse kubeconfigs that run a program to get credentials.", default=False)
    now: datetime = now_option()
    tick: timedelta = option(
        "How often the cron runs, in the days that are played on a snapshot.",
        type=duration(timedelta(minutes=1), timedelta(days=1)),
        default=timedelta(minutes=10),
    )
    policy: tuple[str, ...] = option("Filter by policy; may be repeated.", multiple=True, metavar="GLOB")
    cluster: tuple[str, ...] = option("Filter by cluster; may be repeated.", multiple=True, metavar="GLOB")
    namespace: tuple[str, ...] = option(
        "Filter by namespace; may be repeated.", "-n", "--namespace", multiple=True, metavar="GLOB"
    )
    selector: LabelSelector = option(
        "Filter by labels, as kubectl does.", "-l", "--selector", type=label_selector, default=LabelSelector()
    )
    shard: tuple[int, int] | None = option(
        "Decide only this one of COUNT parts of the Fleet, counted from 0.", type=shard
    )
    tenant: str | None = option(
        "Look at the namespaces of one tenant of the Fleet only; rights there are enough.", metavar="NAME"
    )
    allow_exceed: tuple[tuple[str, int | None], ...] = option(
        "Lift the limits of a policy once, or let it exceed them up to N; may be repeated.",
        multiple=True,
        type=exceeding,
    )
    allow_removed: bool = option(
        "Wake what policies idled that are gone, however many are gone at once.", default=False
    )
    run_id: str | None = option(
        "The id of the run, in annotations and Events.",
        type=run_id,
        default_words="a digest of policies, inputs and time",
    )
    source_revision: str | None = option("The revision of the policies, for the records.", type=utf8, metavar="REV")
    report_dir: str | None = option(
        "Also write the history of this run to a new file of JSON lines in DIR.", type=click.Path(), metavar="DIR"
    )
    detailed_exitcode: bool = option("Exit with 2 where changes are pending or held back.", default=False)
    fail_on: frozenset[FailOn] = option(
        "Fail where something is held back (4), or unknown or in conflict (6), which else is a notice.",
        type=fail_on,
        default=frozenset(),
        elsewhere=lambda text: set(text.split(",")) <= _OF_REVIEWS,
    )
    color_choice: str = option(
        "Colours on stdout; auto is on a terminal, unless NO_COLOR is set.",
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
    )
    verbose: bool = option("Show metadata updates, and every field that changes.", "-v", "--verbose", default=False)
    summary: bool = option("Show headings with counts only, for 500 objects and more.", default=False)
    quiet: bool = option("Print no progress and no warnings on stderr.", "-q", "--quiet", default=False)
    progress: str = option(
        "Progress on stderr. plain: a line every ten seconds; json: a line for each cluster read and each change; "
        "auto: a bar on a terminal, else plain.",
        type=click.Choice(["auto", "plain", "json", "none"]),
        default="auto",
    )
    metrics_file: str | None = option("Write metrics of the run there, for a textfile collector.", metavar="FILE")
    push_gateway: str | None = option("Push metrics of the run there.", type=gateway_address)

    limit: RunLimit = unread(RunLimit)
    callbacks: ProgressCallbacks = ProgressCallbacks()
    title: str = ""  # of what is shown, where it is not that of a plan or apply
    nothing: str = ""  # what is said where nothing is to be done

    @classmethod
    def of(cls: type[O], values: Mapping[str, Any]) -> O:
        made = cls(**values, limit=RunLimit(values.get("timeout")))
        for name, other in (("context", made.context), ("tenant", made.tenant)):
            if made.shard is not None and other:
                raise UsageError(f"--shard: divides the clusters of a Fleet, expected no --{name} beside it")
        return made

    @property
    def color(self) -> bool:
        """Whether stdout gets colours: never into a pipe or with NO_COLOR, unless asked for."""
        if self.color_choice != "auto":
            return self.color_choice == "always"
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @property
    def filters(self) -> Filters:
        """What of the plan is looked at; a filter that the verb does not take filters nothing."""
        return Filters(self.policy, self.cluster, self.namespace, self.selector)

    @property
    def settings(self) -> RequestSettings:
        """How live clusters are asked within the limit of the run."""
        return RequestSettings(timeout=self.request_timeout or DEFAULTS.timeout, qps=self.qps, limit=self.limit)

    @property
    def sources(self) -> CredentialSources:
        """What a Fleet may use of this machine."""
        return CredentialSources(self.credentials_dir or DEFAULT_FOLDERS, not self.no_exec)

    @property
    def any_fleet(self) -> bool:
        """Whether what every Fleet idled is its own, as contexts stand in for a lost Fleet."""
        return False

    def by_hand(self, control: Control) -> Control:
        """Return `control` of a verb that a person calls: the history records who, and the commit of the policies."""
        commit = "" if self.any_fleet else policy_source.commit_of(self.path)
        caller = policy_source.user_of_this_machine()
        return replace(control, caller=caller, commit=commit, report_dir=self.report_dir)

    @property
    def style(self) -> Style:
        """How text is shown."""
        return Style(self.color, self.verbose, self.summary, text_width(), title=self.title, nothing=self.nothing)

    def policies(self, *, partly: bool = False) -> PolicySet:
        """Return the policies, after a check that filters and --allow-exceed name something that exists.

        With `partly` problems in files of tenants are reported, and only stop these.

        Raises:
            PolicyError: with all problems. UsageError: a filter that matches nothing.
        """
        found = self.read(self.path, partly=partly or self.tenant is not None)
        if self.tenant is not None:
            found = policy_source.only_of(found, policy_source.tenant_named(found.fleet, self.tenant), partly=partly)
        say_each("error", sorted(chain.from_iterable(found.problems.values())))
        say_each("warning", overlooked(self.path))
        policy_source.check_names(found, self.filters, dict(self.allow_exceed))
        if self.shard is None:
            return found
        policy_source.check_identities(found.fleet)
        return found.in_shard(*self.shard)

    def read(self, path: str, *, partly: bool = False) -> PolicySet:
        """Return the policies below `path`; with --context those of one cluster, none where nothing is at the default.

        Raises:
            PolicyError: with all problems. UsageError: a Fleet beside --context.
        """
        if self.context is None:
            return read_policies(path, partly=partly, check_deadline=self._deadline_check(path))
        found = policy_source.read_one_cluster(
            self.context, None if path == DEFAULT_PATH and not os.path.exists(path) else path
        )
        only = self.scope.namespace
        if not only:
            return found
        # What is placed where nothing is looked at would seem to be missing there.
        return replace(found, federated=tuple(policy for policy in found.federated if policy.namespace == only))

    def fleet_despite(self, problem: Exception) -> Fleet:
        """Return what a wake needs of the Fleet, of policies that cannot be used; why is an error on stderr.

        Raises:
            Exception: `problem` itself, where not even that can be read.
        """
        try:
            fleet = read_fleet_for_wakes(self.path)[0]
        except PolicyError:
            raise problem from None
        say_each("error", failure_lines(problem))
        return fleet if self.shard is None else own_clusters(fleet, *self.shard)

    def _deadline_check(self, path: str) -> Callable[[], None]:
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
        named = len(self.namespace) == 1 and not is_pattern(self.namespace[0])
        return Scope(self.namespace[0] if named else "", alone=True)

    def world(self, fleet: Fleet | None = None) -> World:
        """Open the clusters of the Fleet: the snapshot where one was given, else the live ones.

        At the end of the run a person reads what there is to know of the clusters.

        Raises:
            UsageError: it stands in for a Fleet that has its records elsewhere.
        """
        bounded = self.bounded(fleet or self.read(self.path).fleet)
        with lazy_libraries():  # before any thread reads
            world = open_world(bounded, self.snapshot, self.now, self.settings)
            if self.snapshot is None:
                from reconciler.backends.credentials.connection import load_libraries

                load_libraries()
        context = click.get_current_context(silent=True)
        if context is not None and not self.quiet:
            context.call_on_close(lambda: say_each("warning", world.warnings()))
        return world

    def live_backends(self, fleet: Fleet) -> Mapping[str, Backend]:
        """Open the live clusters of `fleet` for what is no plan; nothing is sent yet."""
        from reconciler.backends.live import open_live

        connections = (cluster.connection for cluster in self.bounded(fleet).clusters)
        return open_live(connections, self.now, fleet.namespace, self.settings, fleet.switch_kinds).backends

    def bounded(self, fleet: Fleet) -> Fleet:
        """Return `fleet` with what its connections may use of this machine; no cluster of another one is opened."""
        clusters = (replace(one, connection=replace(one.connection, sources=self.sources)) for one in fleet.clusters)
        return replace(fleet, clusters=tuple(clusters))

    def request(self, *, whole: bool = False) -> RunRequest:
        """Return what is asked of one run; `whole`: also what no decision needs is read of the clusters."""
        return RunRequest(
            now=self.now,
            run_id=self.run_id or "",
            revision=self.source_revision or "",
            allow_exceed=dict(self.allow_exceed),
            allow_removed=self.allow_removed,
            filters=self.filters,
            callbacks=self.callbacks,
            scope=replace(self.scope, whole=whole),
        )


class FleetOptions(RunOptions):
    """Those of a verb that reads of the policies the Fleet alone, or has contexts in place of one."""

    path: str = DEFAULT_PATH
    policies_path: str | None = policies_option(
        "The policy directory, or a file with the Fleet, which is read.", default=None, default_words=DEFAULT_PATH
    )
    contexts: tuple[str, ...] = option(
        "A context of the kubeconfig, in place of a Fleet; may be repeated.", "--context", multiple=True, metavar="NAME"
    )
    own_namespace: str | None = option(
        "With --context: the namespace of the lock.", metavar="NAME", default_words="reconciler"
    )
    unasked: bool = False  # the contexts come from the variable, not from a flag

    @classmethod
    def of(cls: type[O], values: Mapping[str, Any]) -> O:
        """Return those with `values`: a flag beats the variable of another one."""
        policies, contexts, own_namespace = values["policies_path"], values["contexts"], values["own_namespace"]
        if is_on_command_line("context") and not is_on_command_line("policies"):
            policies = None
        if is_on_command_line("policies") and not is_on_command_line("context"):
            contexts = ()
        if not contexts and not is_on_command_line("own_namespace"):
            own_namespace = None
        chosen = {"policies_path": policies, "contexts": contexts, "own_namespace": own_namespace}
        unasked = bool(contexts) and not is_on_command_line("context")
        return super().of({**values, **chosen, "path": policies or DEFAULT_PATH, "unasked": unasked})

    @property
    def any_fleet(self) -> bool:
        return bool(self.contexts)

    def fleet(self) -> Fleet:
        """Return what a wake needs of the Fleet; what else is wrong with it is a warning.

        Raises:
            PolicyError: not even that can be read. UsageError: flags that exclude each other.
        """
        if not self.contexts:
            if self.own_namespace is not None:
                raise UsageError("--own-namespace: the Fleet names its own, expected it beside --context")
            fleet, problems = read_fleet_for_wakes(self.path)
            say_each("warning", problems)
            return fleet
        context, fleet_flag = (
            ("RECONCILER_CONTEXT", "RECONCILER_POLICIES") if self.unasked else ("--context", "--policies")
        )
        if self.policies_path is not None:
            raise UsageError(f"{context}: takes the place of a Fleet, expected no {fleet_flag} beside it")
        if self.unasked:
            say(
                f"warning: {context} takes the place of the Fleet: {', '.join(self.contexts)}; "
                "--policies PATH names one"
            )
        return policy_source.fleet_of_contexts(self.contexts, self.own_namespace)

    def world(self, fleet: Fleet | None = None) -> World:
        found = super().world(fleet)
        if fleet is not None and self.contexts and self.own_namespace is None:
            self._check_own_namespace(fleet, found)
        return found

    def _check_own_namespace(self, fleet: Fleet, world: World) -> None:
        """Check that what stands in for a lost Fleet uses the namespace of its locks and records.

        Our Leases show where that is. A lock in another namespace would keep no run of that Fleet from writing.

        Raises:
            UsageError: there are some in another namespace than that of `fleet`, and no flag says which one is meant.
        """
        for name, access in sorted(world.accesses.items()):
            try:
                found = {lease.ref.namespace for lease in access.cluster.list(LEASES, labels=_OUR_LEASES)}
            except ClusterError as error:
                why = reason_of(error).removeprefix(f"{name}: ")
                say(
                    f"warning: {name}: uses the namespace {fleet.namespace}; whether the Fleet used another one is not "
                    f"known: {why}; --own-namespace NAME names it"
                )
                continue
            if found - {fleet.namespace}:
                raise UsageError(
                    f"--context: {name} has Leases of the reconciler in {' and '.join(sorted(found))}, expected "
                    "--own-namespace with the namespace of the Fleet whose place it takes"
                )


BY_HAND_FORMATS = tuple(form for form in FORMATS if form != "html")


class ByHandOptions(FleetOptions):
    """Those of a verb that writes what a person asks for, and reads of the policies the Fleet alone."""

    output: str = output_option(*BY_HAND_FORMATS)
