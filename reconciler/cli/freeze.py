"""`reconciler freeze`, `reconciler unfreeze`: nothing is idled, moved, created or scaled for a while; wakes go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, filterfalse

from msgspec import Struct

from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.backends.protocols import NAMESPACES
from reconciler.cli.exit_codes import exit_of_clusters
from reconciler.cli.object_names import object_name
from reconciler.cli.option_values import duration, utf8
from reconciler.cli.options import argument, option, output_option, verb
from reconciler.cli.output import Formats, document, say, say_each, show
from reconciler.cli.policy_source import user_of_this_machine
from reconciler.cli.run_options import WORLD, FleetOptions
from reconciler.decide.freeze import (
    CONFIG_MAP,
    KEY,
    freeze_reason,
    freeze_values,
    freezes_in_force,
    freezes_text,
    scope_of,
)
from reconciler.errors import AnnotationError, UsageError, reason_of, reason_on
from reconciler.messages import counted, nearest
from reconciler.policy.types import Fleet, Freeze
from reconciler.report.times import ReasonWords
from reconciler.world import World

_LONGEST_REASON = 500


def _words(freeze: Freeze, records: _FreezeRecords, over: str = "") -> str:
    why = ReasonWords(records.now, names_zone=True).reason((freeze_reason(freeze),))
    return f"{scope_of(freeze, records.fleet)}: {over}{why}"


def _lines(freeze: Freeze, written: Sequence[str], records: _FreezeRecords) -> Iterator[str]:
    yield _words(freeze, records)
    yield f"Written to {counted(len(written), 'cluster')}: {', '.join(written)}."


FORMATS: Formats = {
    "text": _lines,
    "json": lambda freeze, written, _: document("Freeze", {**freeze_values(freeze), "writtenTo": written}),
}
ENDED_FORMATS: Formats = {
    "text": lambda over, _, records: (
        [_words(freeze, records, "no longer ") for freeze in over] or ["Nothing is frozen."]
    ),
    "json": lambda over, written, _: document(
        "Unfreeze", {"ended": json.loads(freezes_text(over)), "writtenTo": written}
    ),
}


class _ScopeOptions(FleetOptions):
    """What is frozen: the Fleet, a cluster, or a namespace."""

    subject: str | None = argument("[CLUSTER|NAMESPACE|CLUSTER/NAMESPACE]", required=False)


class _FreezeOptions(_ScopeOptions):
    length: timedelta = option(
        "How long it lasts, like 4h; it ends by itself.",
        "--for",
        type=duration(timedelta(minutes=1)),
        required=True,
        elsewhere=("apply", "plan").__contains__,
    )
    reason: str = option("Why; every plan says it.", type=utf8, metavar="TEXT", required=True)
    by: str | None = option(
        "Who freezes; every plan says it.", type=utf8, metavar="NAME", default_words="the user of this machine"
    )
    output: str = output_option(*FORMATS)


@verb("freeze", _FreezeOptions, *WORLD)
def freeze_command(options: _FreezeOptions) -> int:
    """Stop idling, moving and scaling down: everywhere, in one cluster, or in one namespace. Wakes go on.

    It needs no git and no lock: the ConfigMap freeze in the namespace of the reconciler says so, which every run reads
    before it plans and again before each batch of writes. A freeze of the same scope is replaced.

    # Stop all decreases on all clusters for four hours
    freeze --for 4h --reason "incident 4711"
    # Freeze one namespace of a cluster
    freeze eu-west/shop --for 2d --reason "load test"
    """
    if not options.reason.strip() or len(options.reason) > _LONGEST_REASON:
        raise UsageError(f"--reason: expected 1 to {_LONGEST_REASON} characters that say why")
    records = _FreezeRecords.of(options)
    reason, by = " ".join(options.reason.split()), options.by or user_of_this_machine()
    freeze = Freeze(records.cluster, records.namespace, records.now + options.length, reason, by)
    before, failures = records.write(records.is_of, (freeze,))
    replaced = dict.fromkeys(filter(records.is_of, chain(*before.values())))
    say_each("notice", (f"{_words(other, records, 'was ')}; this one takes its place" for other in replaced))
    if before or options.output != "text":  # else nothing is frozen
        show(FORMATS[options.output](freeze, [*before], records), options.output)
    return exit_of_clusters(before, failures)


class _FreezeRecords(Struct, frozen=True):
    """The ConfigMaps with the freezes of `cluster` ("": all), and there of `namespace` ("": all): those of home and of
    the clusters that it covers.
    """

    fleet: Fleet
    world: World
    now: datetime
    cluster: str = ""
    namespace: str = ""

    def is_of(self, freeze: Freeze) -> bool:
        """Return whether `freeze` is of exactly this cluster and namespace; one that cannot be read is of none."""
        return freeze.until is not None and (freeze.cluster, freeze.namespace) == (self.cluster, self.namespace)

    @classmethod
    def of(cls, options: _ScopeOptions) -> _FreezeRecords:
        """Return those of what `options` name.

        Raises:
            UsageError: there is no such cluster or namespace.
        """
        fleet = options.fleet()
        world = options.world(fleet)
        return cls(fleet, world, options.now, *_named(options.subject, fleet, world))

    def write(
        self, ends: Callable[[Freeze], bool], begun: tuple[Freeze, ...] = ()
    ) -> tuple[dict[str, tuple[Freeze, ...]], list[str]]:
        """Put `begun` beside the freezes that go on; return those that were in force before on each cluster whose
        ConfigMap says so now, and what went wrong on others.
        """
        before: dict[str, tuple[Freeze, ...]] = {}
        failures: list[str] = []
        for cluster in self.fleet.clusters:
            if self.cluster not in ("", cluster.name) and cluster.name != self.fleet.home:
                continue
            try:
                before[cluster.name] = self._write_to(cluster.name, ends, begun)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are written all the same
                failures.append(reason_on(cluster.name, error))
        return before, failures

    def _write_to(self, cluster: str, ends: Callable[[Freeze], bool], begun: tuple[Freeze, ...]) -> tuple[Freeze, ...]:
        """Write what goes on and what begins to a cluster, unless it cannot be read; return what was in force there."""
        store = ConfigMapStore(self.world.access(cluster).cluster, self.fleet.namespace, CONFIG_MAP)
        found = store.read(KEY)
        known = freezes_in_force({KEY: found or ""}, self.now)
        after = (*filterfalse(ends, known), *begun)
        unread = [freeze.reason for freeze in after if freeze.until is None]
        if unread:
            raise AnnotationError(f"{unread[0]}; unfreeze --all ends whatever it says")
        if after or found is not None:
            store.write(KEY, freezes_text(after), found)
        return known


def _named(text: str | None, fleet: Fleet, world: World) -> tuple[str, str]:
    """Return the cluster and the namespace that `text` names, "" for all of them."""
    if text is None:
        return "", ""
    name = object_name(text)
    if name.kind:
        raise UsageError(f"{text}: names more than a namespace, expected CLUSTER, NAMESPACE or CLUSTER/NAMESPACE")
    clusters = [member.name for member in fleet.clusters]
    if name.cluster in clusters:
        _check_namespace(name.namespace, text, [name.cluster], world)
        return name.cluster, name.namespace
    if name.namespace:
        raise UsageError(f'{text}: "{name.cluster}" is not a cluster of the Fleet{nearest(name.cluster, clusters)}')
    _check_namespace(name.cluster, text, clusters, world, also=clusters)
    return "", name.cluster


def _check_namespace(
    namespace: str, text: str, clusters: Sequence[str], world: World, also: Sequence[str] = ()
) -> None:
    """Refuse a namespace that is on none of `clusters`; where one of them does not say, any name may be one.

    `also` are other names that may have been meant by `text`.
    """
    known: set[str] = set()
    for name in clusters if namespace else ():
        try:
            known |= {space.ref.name for space in world.access(name).cluster.list(NAMESPACES)}
        except Exception as error:  # noqa: BLE001 - whatever it is, a freeze must not wait for it
            say(f"warning: {name}: whether there is a namespace {namespace} is not known: {reason_of(error)}")
            return
    if namespace and namespace not in known:
        hint = nearest(namespace, [*known, *also])
        raise UsageError(f"{text}: neither a cluster nor a namespace is called so{hint}")


class _UnfreezeOptions(_ScopeOptions):
    everything: bool = option("End every freeze, of whatever scope.", "--all", default=False)
    output: str = output_option(*ENDED_FORMATS)


@verb("unfreeze", _UnfreezeOptions, *WORLD)
def unfreeze_command(options: _UnfreezeOptions) -> int:
    """End the freeze of the Fleet, or that of a cluster or namespace. What it held back is done by the next run.

    A freeze of another scope goes on; --all ends them all, where there are any.

    # End the freeze of the Fleet
    unfreeze
    # End that of a cluster
    unfreeze eu-west
    """
    subject, everything = options.subject, options.everything
    if everything and subject is not None:
        raise UsageError(f"--all: stands beside {subject}, expected one of the two")
    records = _FreezeRecords.of(options)
    before, failures = records.write(lambda freeze: everything or records.is_of(freeze))
    known = dict.fromkeys(chain(*before.values()))
    over = [freeze for freeze in known if everything or records.is_of(freeze)]
    if not over and not failures and not everything:
        frozen = ", ".join(scope_of(freeze, records.fleet) for freeze in known)
        raise UsageError(f"unfreeze: {subject or 'the Fleet'} is not frozen; {frozen or 'nothing'} is")
    if over or not failures or options.output != "text":
        show(ENDED_FORMATS[options.output](over, [*before], records), options.output)
    return exit_of_clusters(before, failures)
