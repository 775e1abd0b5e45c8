"""A DownscalePolicy document -> DownscalePolicy."""

from __future__ import annotations

from reconciler.policy.build_picker import build_picker, check_pickable
from reconciler.policy.build_selector import build_selector
from reconciler.policy.building import Reading, check_own_name
from reconciler.policy.types import DownscalePolicy, DownscaleTarget
from reconciler.yaml.words import Path


def build_downscale(reading: Reading) -> DownscalePolicy:
    """Return the policy; its problems are gathered in `reading`."""
    spec: Path = ("spec",)
    selector = build_selector(reading)
    picker = build_picker(reading, (*spec, "podPicker"))
    policy = DownscalePolicy(
        name=reading.name,
        place=reading.place,
        selector=selector,
        mode=reading.get((*spec, "mode"), "Enforce"),
        priority=reading.whole((*spec, "priority"), 0),
        target=_target(reading, (*spec, "target")),
        pod_picker=picker,
        strategy=reading.get((*spec, "strategy"), "Logarithmic"),
        logarithm_base=reading.get((*spec, "logarithm", "base"), 2),
        topology_key=reading.get((*spec, "zoneBalanced", "topologyKey"), "topology.kubernetes.io/zone"),
        on_foreign_cost=reading.get((*spec, "onForeignCost"), "Skip"),
        settle_seconds=reading.get((*spec, "settleSeconds"), 2),
        verify_seconds=reading.get((*spec, "verifySeconds"), 30),
    )
    check_own_name(reading)
    chooser = _chooser(policy)
    if chooser and selector.workloads is not None:
        for position, kind in enumerate(selector.workloads.kinds):
            check_pickable(reading, (*spec, "selector", "workloads", "kinds", position), kind, chooser)
    if picker is not None and policy.strategy != "Logarithmic":
        reading.warn((*spec, "strategy"), "counts for nothing beside podPicker")
    return policy


def _chooser(policy: DownscalePolicy) -> str:
    """Return what of `policy` chooses other victims than the controller would, "" where nothing does."""
    if policy.pod_picker is not None:
        return "podPicker"
    if policy.strategy != "Logarithmic":
        return policy.strategy
    return "" if policy.logarithm_base == 2 else "logarithm.base"


def _target(reading: Reading, path: Path) -> DownscaleTarget | None:
    if reading.get(path) is None:
        return None
    query, replicas = reading.get((*path, "query")), reading.get((*path, "replicas"))
    if (query is None) == (replicas is None):
        what = "has neither query nor replicas" if query is None else "has query and replicas"
        reading.add(path, f"{what}, expected exactly one of the two")
    least = reading.whole((*path, "min"), 0)
    most = None if reading.get((*path, "max")) is None else reading.whole((*path, "max"), 0)
    if most is not None and most < least:
        reading.add((*path, "max"), f'is "{most}", expected at least min, which is "{least}"')
    for bound, beyond in (("min", replicas is not None and replicas < least), ("max", _above(replicas, most))):
        if beyond:
            words = f"expected at {'least' if bound == 'min' else 'most'} {bound}"
            reading.add((*path, "replicas"), f'is "{replicas}", {words}, which is "{reading.get((*path, bound))}"')
    return DownscaleTarget(
        query=None if query is None else reading.query((*path, "query"), ("cluster", "policy")),
        replicas=None if replicas is None else int(replicas),
        minimum=least,
        maximum=most,
        direction=reading.get((*path, "direction"), "Down"),
    )


def _above(replicas: int | None, most: int | None) -> bool:
    return replicas is not None and most is not None and replicas > most
