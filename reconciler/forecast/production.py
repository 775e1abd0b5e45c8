"""What of each cluster may sleep by the policies, and what they leave out because it is production."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.decide.limit_bases import scalable_workloads
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.selectors import namespace_labels
from reconciler.forecast.simulation import Step
from reconciler.model import ObjectRef
from reconciler.plan.model import Plan
from reconciler.policy.types import Fleet
from reconciler.report.wording import KIND_OF_JOB, counted, name_of
from reconciler.untrusted_text import one_line


class ClusterReach(Struct, frozen=True):
    """Which workloads of a cluster are `selected` by a policy that may idle them or take replicas away.

    `production` are those that are production.
    """

    name: str
    workloads: frozenset[ObjectRef]
    production: frozenset[ObjectRef]
    selected: frozenset[ObjectRef]


def left_out_by(plan: Plan) -> Mapping[str, int]:
    """Return how many workloads of production each policy leaves out, by kind and name, without those of none."""
    pairs = {
        (f"{KIND_OF_JOB[one.job]} {one.policy}", one.ref)
        for one in plan.explanations
        if not one.selected and any(why.code is ReasonCode.PRODUCTION for why in one.reasons)
    }
    return dict(sorted(Counter(policy for policy, _ in pairs).items()))


def left_out_lines(left_out: Mapping[str, int], places: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each policy that leaves out production, with what would let it select that."""
    if left_out:
        yield "Production that policies leave out; to select it they need spec.production: true"
    for policy, number in left_out.items():
        yield f"  {one_line(policy)} ({places.get(policy, '')}): {counted(number, 'workload')}"


def selecting_policies(plan: Plan) -> Mapping[ObjectRef, tuple[str, ...]]:
    """Return the policies that may idle a workload or take replicas away, by kind and name, for each that has some.

    Whether a limit holds that back does not matter. A FederatedReplicaSet is none of them.
    """
    found: dict[ObjectRef, dict[str, None]] = {}
    for one in plan.explanations:
        orders_only = any(why.code is ReasonCode.NO_TARGET for why in one.reasons)
        if one.selected and one.policy and one.job != "placement" and not orders_only:
            found.setdefault(one.ref, {})[f"{KIND_OF_JOB[one.job]} {one.policy}"] = None
    return {ref: tuple(sorted(names)) for ref, names in found.items()}


def reach_of(fleet: Fleet, step: Step) -> tuple[ClusterReach, ...]:
    """Return what the policies reach on each cluster that `step` saw, in the order of the Fleet."""
    selected = frozenset(selecting_policies(step.plan))
    workloads = scalable_workloads(step.state)
    found = []
    for cluster in fleet.clusters:
        observed = step.state.clusters.get(cluster.name)
        if observed is None:
            continue
        spaces, own = namespace_labels(observed), [one for one in workloads if one.ref.cluster == cluster.name]
        production = frozenset(
            one.ref
            for one in own
            if fleet.production.why(cluster, one.ref.namespace, spaces.get(one.ref.namespace), one.labels)
        )
        refs = frozenset(one.ref for one in own)
        found.append(ClusterReach(cluster.name, refs, production, refs & selected))
    return tuple(found)


def reach_lines(reaches: Iterable[ClusterReach]) -> Iterator[str]:
    """Yield for each cluster how many workloads may sleep, and how much of it is production."""
    yield "What may sleep, or lose replicas to a target:"
    for one in reaches:
        inside, production = len(one.production & one.selected), len(one.production)
        known = f"; of production {inside} of {production}" if production else ""
        yield f"  {one.name}: {len(one.selected)} of {counted(len(one.workloads), 'workload')}{known}"


def guards(fleet: Fleet, reaches: Iterable[ClusterReach]) -> list[dict[str, object]]:
    """Return the expectations of a policy test that no policy selects production which none selects now.

    A cluster that is production whole is one expectation, of all namespaces that it may have; other production is named
    by its namespace where all there is production, else by its name.
    """
    whole: list[str] = []
    found: list[dict[str, object]] = []
    for one in reaches:
        free = one.production - one.selected
        if free and free == one.workloads and not fleet.production.except_namespaces:
            whole.append(one.name)
            continue
        spaces = sorted({ref.namespace for ref in free} - {ref.namespace for ref in one.workloads - free})
        if spaces:
            found.append({"clusters": [one.name], "namespaces": spaces, "never": "selected"})
        single = sorted(ref for ref in free if ref.namespace not in spaces)
        found += [{"object": name_of(ref), "never": "selected"} for ref in single]
    return [{"clusters": whole, "namespaces": ["*"], "never": "selected"}, *found] if whole else found
