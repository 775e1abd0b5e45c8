"""What is worked out once for workloads with equal decision inputs is what would be worked out for each of them."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.decide.annotations import Key
from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.decide import decide_idling
from reconciler.model import FieldWriter, Workload
from reconciler.policy.kinds.idling_policy import GitOps
from reconciler.policy.types import IdlingPolicy
from tests.builders import (
    a_cluster,
    a_fleet,
    a_namespace,
    a_policy_set,
    a_run,
    a_state,
    a_workload,
    an_idle_record,
)
from tests.cases import cases
from tests.decide.idling.idling_policies import MONDAY, NIGHT, NOON, a_policy, decided, workloads_selector

ANNOTATIONS: tuple[dict[str, str], ...] = (
    {},
    {"meta.helm.sh/release-name": "web"},
    {"reconciler/exclude": "true"},
    {"reconciler/exclude": "yes"},
    {"reconciler/awake-since": "2026-11-20T21:30:00Z"},
    {"reconciler/awake-until": "soon"},
    {"reconciler/wake-requested-at": "2026-11-20T21:30:00Z"},
    {"reconciler/contested": '{"by":"helm","since":"2026-11-20T21:30:00Z"}'},
    {"reconciler/last-idled": '{"policy":"idle-dev","hours":{}}'},
    {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"},
    an_idle_record(),
    an_idle_record(wake_due="2026-11-23T06:00:00Z", cause='{"policy":"idle-dev"}'),
    an_idle_record(5, owner="staging/IdlingPolicy/idle-dev"),
    an_idle_record("many"),
    an_idle_record(undone='{"at":"2026-11-20T20:00:00Z","by":"helm","count":3}'),
)
OWN: tuple[dict[str, Any], ...] = (
    {},
    {"created_at": NIGHT - timedelta(minutes=5)},
    {"created_at": NIGHT - timedelta(days=9), "status_replicas": 1},
    {"terminating": True},
    {"generation": 2},
    {"updated_replicas": 1},
    {"loses_volumes": True},
    {"no_place": "it has no spec"},
    {"labels": {"app.kubernetes.io/name": "reconciler"}},
    {"labels": {Key.FLUX_NAME_LABEL: "apps"}},
    {"has_annotations": False},
    {"kind": "StatefulSet"},
    {"kind": "CronJob"},
    {"kind": "CloneSet"},
    {"kind": "CloneSet", "api_version": "apps.kruise.io/v1beta1"},
    {"namespace": "frozen"},
)
WRITERS = (None, FieldWriter("reconciler", NIGHT), FieldWriter("helm", NIGHT), FieldWriter("kubectl-scale"))
EVERYTHING, DEPLOYMENTS = workloads_selector(), workloads_selector("Deployment", "CloneSet")
POLICIES = {
    "all": (a_policy(selector=EVERYTHING),),
    "young ones stay up": (a_policy(selector=DEPLOYMENTS, min_age=timedelta(hours=12)),),
    "observes": (a_policy(selector=DEPLOYMENTS, mode="Observe"),),
    "wakes on signals, insists, pauses Flux": (
        a_policy(selector=DEPLOYMENTS, wake="OnSignal", on_revert="Insist", git_ops=GitOps("Pause")),
    ),
    "two": (a_policy(selector=EVERYTHING), a_policy("more", selector=DEPLOYMENTS, priority=1, mode="Observe")),
    "two of one priority": (a_policy(selector=EVERYTHING), a_policy("more", selector=DEPLOYMENTS)),
    "three replicas when idle": (a_policy(selector=EVERYTHING, idle_replicas=3),),
}


def workloads(*, turned: bool) -> tuple[Workload, ...]:
    """Workloads of which each differs in one way from the first, or `turned` from the last: what is decided with others
    is, but for its name, what the first of them is.
    """
    fields: list[dict[str, Any]] = [
        *({"replicas": replicas} for replicas in (3, 3, 0, None)),
        *OWN,
        *({"annotations": said, "replicas_writer": writer} for said, writer in product(ANNOTATIONS, (None, *WRITERS))),
    ]
    return tuple(
        a_workload(f"web-{number:02}", **one) for number, one in enumerate(reversed(fields) if turned else fields)
    )


def said(found: tuple[Workload, ...], policies: tuple[IdlingPolicy, ...], now: datetime) -> list[str]:
    """All that is decided and said of these workloads, in an order that does not depend on what is beside them."""
    spaces = (a_namespace(), a_namespace("frozen", annotations={"reconciler/exclude": "true"}))
    desired = decided(a_state(a_cluster(workloads=found, namespaces=spaces)), *policies, now=now).desired
    return said_of(desired, {str(one.ref) for one in found})


def said_of(desired: DesiredState, about: Set[str]) -> list[str]:
    return sorted(
        [
            *map(repr, (*desired.decisions, *desired.observed, *desired.undecided, *desired.overridden)),
            *(repr((one.ref, one.policy, one.reasons, one.outcome, one.until)) for one in desired.explanations),
            *(repr((one.idled, one.asleep, one.written, one.requests)) for one in desired.explanations),
            *(repr((one.ref, one.change_if)) for one in desired.explanations),
            *(repr(one) for one in desired.notices if one.subject in about),
        ]
    )


@cases("now", ("night", NIGHT), ("noon", NOON), ("monday", MONDAY))
@pytest.mark.parametrize("policies", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("turned", [False, True])
def test_each_is_decided_as_if_it_were_alone(policies: tuple[IdlingPolicy, ...], now: datetime, turned: bool) -> None:
    found = workloads(turned=turned)
    alone = [words for one in found for words in said((one,), policies, now)]
    assert said(found, policies, now) == sorted(alone)


@cases(
    "state annotations",
    ("read only", "ReadOnly", {}),
    ("leaving", "Leaving", {}),
    ("its namespace is excluded", "Active", {"reconciler/exclude": "true"}),
)
@cases("east", ("decided before", "a-east"), ("decided after", "c-east"))
def test_equal_workloads_of_two_clusters_are_decided_each_by_itself(
    east: str, state: str, annotations: dict[str, str]
) -> None:
    fleet = a_fleet(east, "b-west")
    states = tuple(replace(one, state=state if one.name == "b-west" else one.state) for one in fleet.clusters)
    policies = a_policy_set(replace(fleet, clusters=states), idling=(a_policy(selector=workloads_selector("Job")),))

    def said_with(*clusters: str) -> list[str]:
        found = {name: a_workload(cluster=name, replicas=0, annotations=an_idle_record()) for name in clusters}
        worlds = a_state(
            a_cluster(east, workloads=tuple(one for one in found.values() if one.ref.cluster == east)),
            a_cluster(
                "b-west",
                workloads=tuple(one for one in found.values() if one.ref.cluster == "b-west"),
                namespaces=(a_namespace(cluster="b-west", annotations=annotations),),
            ),
        )
        desired = decide_idling(policies, worlds, a_run(NIGHT)).desired
        return said_of(desired, {str(one.ref) for one in found.values()})

    assert said_with(east, "b-west") == sorted(said_with(east) + said_with("b-west"))
