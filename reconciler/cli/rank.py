"""`reconciler rank`: the pods that would be deleted first."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from reconciler.cli.object_names import ObjectArgument, check_there, known_cluster, object_name
from reconciler.cli.options import argument, option, output_option, policies_option, verb
from reconciler.cli.output import Formats, document, show
from reconciler.cli.run_options import READ_WORLD, RunOptions
from reconciler.decide.downscale.scale_down_preview import PodRanking, pod_ranking_of, pods_to_rank
from reconciler.errors import UsageError
from reconciler.messages import counted, first_of
from reconciler.model import ObservedState, Run, Workload
from reconciler.observe.clusters import observe
from reconciler.observe.pods import answer
from reconciler.report.groups import columns
from reconciler.workload_kinds import workload_kind


def _lines(ranking: PodRanking) -> list[str]:
    forecast = ranking.forecast
    if not ranking.pods:
        replicas = counted(ranking.workload.spec_replicas, "replica")
        by_ordinals = workload_kind(ranking.workload.ref.kind).pods == "Ordinals"
        which = "the highest ordinals go first" if by_ordinals else "which of them would go is unknown"
        unread = f"{ranking.workload.ref}: has {replicas}, and none of its pods was found: {which}"
        none = f"{ranking.workload.ref}: no active pods were found, so that a scale down deletes none"
        return [unread if ranking.workload.spec_replicas else none]
    certain = "chosen at apply" if forecast.chosen_at_apply else "certain" if forecast.certain else "not certain"
    how = ", ".join(filter(None, (certain, forecast.strategy)))
    lines = [
        f"{ranking.workload.ref}: scale down to {ranking.to} deletes {forecast.count} of "
        f"{counted(len(ranking.pods), 'active pod')} ({how})"
    ]
    domains = any(pod.domain for pod in ranking.pods)
    first, *rows = (
        (f"{position:>4}", _GOES[pod.goes].ljust(6), pod.name, *([pod.domain] if domains else []), pod.rule)
        for position, pod in enumerate(ranking.pods, start=1)
    )
    return [*lines, *columns(first, rows), *filter(None, [forecast.note])]


_GOES = {True: "delete", False: "keep", None: "?"}


def _values(ranking: PodRanking) -> dict[str, Any]:
    forecast = ranking.forecast
    values = {
        "object": str(ranking.workload.ref),
        "to": ranking.to,
        "count": forecast.count,
        "strategy": forecast.strategy,
        "certain": forecast.certain,
        "chosenAtApply": forecast.chosen_at_apply,
        "pods": msgspec.to_builtins(ranking.pods),
        "note": forecast.note,
    }
    return document("Ranking", values)


FORMATS: Formats = {"text": _lines, "json": _values}


class _RankOptions(RunOptions):
    subject: str = argument("OBJECT")
    to: int | None = option(
        "Scale down to N replicas.", type=click.IntRange(0), metavar="N", default_words="one fewer than now"
    )
    path: str = policies_option()
    output: str = output_option(*FORMATS)


@verb("rank", _RankOptions, "context", *READ_WORLD)
def rank_command(options: _RankOptions) -> None:
    """List the pods of CLUSTER/NAMESPACE/KIND/NAME in the order in which a scale down would delete them.

    # Which pod would go first?
    rank eu-west/batch/Deployment/worker
    # Which would go on the way down to four?
    rank eu-west/batch/Deployment/worker --to 4
    """
    subject, to, name = options.subject, options.to, object_name(options.subject)
    found = options.policies()
    known_cluster(found.fleet, name, subject)
    world = options.world(found.fleet)
    state = observe(found, world.sources, scope=options.scope, readers=world.readers)
    workload = workload_named(state, name, subject)
    state = answer(state, pods_to_rank(workload, state), world.sources)
    pods = state.clusters[workload.ref.cluster].pods.get(workload.ref, ())
    there = sum(pod.is_active for pod in pods) or workload.spec_replicas  # as far as any pods are known
    if to is not None and to > there:
        raise UsageError(f"--to {to}: {workload.ref} has {counted(there, 'replica')}, expected at most {there}")
    ranking = pod_ranking_of(workload, found, state, Run(options.now), to)
    show(FORMATS[options.output](ranking), options.output)


def workload_named(state: ObservedState, name: ObjectArgument, text: str) -> Workload:
    """Return the one workload that `name` names.

    Raises:
        UsageError: it names none, several, or one without replicas.
    """
    if name.cluster not in state.clusters:
        raise UsageError(f'{text}: cluster "{name.cluster}" cannot be looked at: {state.unreachable[name.cluster]}')
    found = [workload for workload in state.clusters[name.cluster].workloads if name.matches(workload.ref)]
    if not found:
        check_there(state, name, text)
    if len(found) != 1:
        named = first_of([str(workload.ref) for workload in found], 5) or "nothing"
        raise UsageError(f"{text}: names {named}, expected one workload as CLUSTER/NAMESPACE/KIND/NAME")
    if not found[0].kind.counts:
        raise UsageError(f"{text}: is a {found[0].ref.kind}, expected a workload with replicas")
    return found[0]
