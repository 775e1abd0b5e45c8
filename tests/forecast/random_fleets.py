"""Small random fleets with policies: everything that time alone changes, close together."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.forecast.simulation import Simulation
from reconciler.model import Pod, QueryAnswer, Sample
from reconciler.policy.types import PolicySet
from tests.builders import policies_of
from tests.real import objects
from tests.real.api import Object

TICK = timedelta(minutes=10)
STARTS = {
    "a week": datetime(2026, 11, 16, 9, 3, tzinfo=UTC),
    "the clocks go back": datetime(2026, 10, 22, 17, 3, tzinfo=UTC),
    "the clocks go forward": datetime(2027, 3, 25, 17, 3, tzinfo=UTC),
}
ZONES = ("Europe/Paris", "America/New_York", "Australia/Lord_Howe", "UTC")
NAMESPACES = ("dev", "qa")
NAMES = ("web", "api", "job")
CLUSTERS = ("a", "b")


@dataclass(frozen=True)
class RandomFleet:
    """Policies and manifests by cluster; `answers` are what a metric says of each Service."""

    policies: list[dict[str, Any]]
    snapshot: dict[str, list[dict[str, Any]]]
    busy: frozenset[str]

    @property
    def policy_set(self) -> PolicySet:
        return policy_set(self.policies)

    def opened(self) -> Opened:
        """Return the clusters of the snapshot; who plays on them copies them first."""
        metrics = RecordedRequests(self.busy)
        found = {
            name: MemoryCluster.of_manifests(name, manifests, first_of) for name, manifests in self.snapshot.items()
        }
        return Opened({name: Backend(name, cluster=cluster, metrics=metrics) for name, cluster in found.items()})

    def simulation(self) -> Simulation:
        return Simulation(self.policy_set, self.opened(), TICK)


@dataclass(frozen=True)
class RecordedRequests:
    """A metrics source: 5 requests for each Service in `busy`, none for the others; it was recorded long ago."""

    busy: frozenset[str]

    def query(self, text: str) -> QueryAnswer:
        samples = tuple(
            Sample({"namespace": namespace, "service": name}, 5.0 if name in self.busy else 0.0)
            for namespace in NAMESPACES
            for name in NAMES
        )
        return QueryAnswer(samples, at=datetime(2026, 1, 1, tzinfo=UTC))


def policy_set(documents: Sequence[dict[str, Any]]) -> PolicySet:
    """Return `documents` as validated policies."""
    return policies_of("".join(f"---\n{json.dumps(one)}\n" for one in documents))


def first_of(pods: Sequence[Pod], count: int, _: bool) -> Sequence[Pod]:
    return pods[:count]


def document(kind: str, name: str, spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    return {"apiVersion": "reconciler/v1alpha1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def random_fleet(seed: object, start: datetime) -> RandomFleet:
    """Return the fleet of `seed`, in which something is young, excluded, asked for or due around `start`."""
    chance = random.Random(f"forecast {seed}")
    snapshot = {cluster: list(_objects(chance, start)) for cluster in CLUSTERS}
    busy = frozenset(name for name in NAMES if chance.random() < 0.3)
    return RandomFleet(random_policies(chance, start), snapshot, busy)


def random_policies(chance: random.Random, start: datetime) -> list[dict[str, Any]]:
    found = [_fleet(chance), *(_idling(name, chance, start) for name in ("first", "second")[: chance.randint(1, 2)])]
    if chance.random() < 0.4:
        found.append(_federated(chance))
    if chance.random() < 0.3:
        selector = {"namespaces": {"include": ["qa"]}, "workloads": {"kinds": ["Deployment"], "include": ["api"]}}
        found.append(document("DownscalePolicy", "less", {"selector": selector, "target": {"replicas": 2}}))
    return found


def _fleet(chance: random.Random) -> dict[str, Any]:
    states = chance.choices(["Active", "Frozen", "Draining"], weights=[10, 1, 1], k=len(CLUSTERS))
    limit = chance.choice([{"share": "100%", "atLeast": 100}] * 3 + [{"share": "25%", "atLeast": 2}])
    clusters = [{"name": name, "state": state} for name, state in zip(CLUSTERS, states, strict=True)]
    spec = {"home": "a", "clusters": clusters, "limits": {"default": {"perCluster": limit, "fleet": limit}}}
    return document("Fleet", "mix", spec)


def _idling(name: str, chance: random.Random, start: datetime) -> dict[str, Any]:
    hours = chance.choice(
        [
            {"downtime": ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]},
            {"downtime": ["01:30-02:45", "Sat,Sun 12:00-13:05"]},
            {"uptime": ["Mon-Fri 08:00-18:30"]},
        ]
    )
    day = (start + timedelta(days=chance.randint(0, 4))).date()
    exceptions = [{"from": f"{day}T01:00:00", "to": f"{day}T22:17:00", "reason": "release"}]
    schedule = {"timeZone": chance.choice(ZONES), **hours}
    if chance.random() < 0.5:
        schedule["exceptions"] = exceptions
    requests = {"metric": {"query": "requests", "atMost": 0, "window": "30m", "noSeries": "Zero"}}
    criteria: list[Any] = [{"schedule": schedule}]
    if chance.random() < 0.4:
        criteria = [requests, *criteria] if chance.random() < 0.5 else [{"anyOf": [requests, *criteria]}]
    selector: dict[str, Any] = {"namespaces": {"include": [*NAMESPACES] if name == "first" else ["qa"]}, "services": {}}
    if chance.random() < 0.6:
        selector["workloads"] = {"kinds": ["StatefulSet", "CronJob", "Deployment"]}
    spec = {
        "selector": selector,
        "idleWhen": criteria,
        "idleReplicas": chance.choice([0, 0, 1]),
        "priority": chance.choice([0, 5]) if name == "first" else 3,
        "mode": chance.choice(["Enforce", "Enforce", "Enforce", "Observe"]),
        "minAge": chance.choice(["0s", "3h", "30h"]),
        "minAwake": chance.choice(["0s", "25m", "5h"]),
        "wake": chance.choice(["Automatic", "Automatic", "OnSignal"]),
        "autoscalers": {"hpa": chance.choice(["Idle", "Leave"]), "keda": chance.choice(["Pause", "Pause", "Leave"])},
    }
    if chance.random() < 0.3:
        spec["wakeOrder"] = {"group": "all", "perRun": 1}
    return document("IdlingPolicy", name, spec)


def edited(policies: list[dict[str, Any]], chance: random.Random) -> list[dict[str, Any]]:
    """Return `policies` with one change, as a pull request makes it; some of them change nothing."""
    found = copy.deepcopy(policies)
    edit = chance.choice(EDITS)
    some = chance.choice([one for one in found if one["kind"] == EDITED.get(edit, "IdlingPolicy")] or found[1:2])
    edit(found, some, chance)
    return found


def _field_changed(_: list[dict[str, Any]], some: dict[str, Any], chance: random.Random) -> None:
    spec = some["spec"]
    field, values = chance.choice(
        [
            ("mode", ["Enforce", "Observe"]),
            ("idleReplicas", [0, 1, 2]),
            ("priority", [0, 3, 9]),
            ("minAge", ["0s", "3h", "30h", "80h"]),
            ("minAwake", ["0s", "25m", "5h", "12h"]),
            ("wake", ["Automatic", "OnSignal"]),
            ("autoscalers", [{"hpa": "Idle", "keda": "Leave"}, {"hpa": "Leave", "keda": "Pause"}]),
            ("wakeOrder", [{"group": "all", "perRun": 1}, {"group": "all", "perRun": 3}]),
        ]
    )
    spec[field] = chance.choice([value for value in values if value != spec.get(field)])


def _criteria_changed(_: list[dict[str, Any]], some: dict[str, Any], __: random.Random) -> None:
    criteria = some["spec"]["idleWhen"]
    some["spec"]["idleWhen"] = criteria[0].get("anyOf", [{"anyOf": criteria}])


def _schedule_changed(_: list[dict[str, Any]], some: dict[str, Any], chance: random.Random) -> None:
    schedule = next(_schedules(some["spec"]["idleWhen"]))
    if schedule.pop("exceptions", None) is None or chance.random() < 0.5:
        schedule["timeZone"] = chance.choice([zone for zone in ZONES if zone != schedule["timeZone"]])


def _schedules(criteria: list[Any]) -> Iterator[dict[str, Any]]:
    for one in criteria:
        yield from _schedules(one["anyOf"]) if "anyOf" in one else [one["schedule"]] if "schedule" in one else ()


def _selection_changed(_: list[dict[str, Any]], some: dict[str, Any], chance: random.Random) -> None:
    selector = some["spec"]["selector"]
    selector["namespaces"] = {"include": chance.choice([["dev"], ["qa"], ["dev", "qa"], ["no-*"]])}
    if chance.random() < 0.3:
        selector["workloads"] = {"kinds": ["Deployment"], "exclude": [chance.choice(NAMES)]}


def _renamed(_: list[dict[str, Any]], some: dict[str, Any], __: random.Random) -> None:
    some["metadata"]["name"] = "other"


def _deleted(policies: list[dict[str, Any]], some: dict[str, Any], _: random.Random) -> None:
    policies.remove(some)


def _fleet_changed(_: list[dict[str, Any]], some: dict[str, Any], chance: random.Random) -> None:
    spec = some["spec"]
    if chance.random() < 0.5:
        spec["clusters"][chance.randrange(len(CLUSTERS))]["state"] = chance.choice(["Active", "Frozen", "Leaving"])
    else:
        limit = {"share": chance.choice(["10%", "50%", "100%"]), "atLeast": chance.choice([1, 100])}
        spec["limits"] = {"default": {"perCluster": limit, "fleet": limit}}


def _fleet_renamed(_: list[dict[str, Any]], some: dict[str, Any], chance: random.Random) -> None:
    former = some["metadata"]["name"]
    some["metadata"]["name"] = "other"
    if chance.random() < 0.5:
        some["spec"]["formerNames"] = [former]


def _placement_changed(_: list[dict[str, Any]], some: dict[str, Any], chance: random.Random) -> None:
    if some["kind"] != "FederatedReplicaSet":
        return
    some["spec"]["replicas"] = chance.randint(1, 9)
    some["spec"]["preferences"]["clusters"]["a"] = {"weight": chance.choice([1, 5])}


def _described(_: list[dict[str, Any]], some: dict[str, Any], __: random.Random) -> None:
    some["metadata"]["annotations"] = {"example.com/owner": "somebody"}


Edit = Callable[[list[dict[str, Any]], dict[str, Any], random.Random], None]

EDITS: tuple[Edit, ...] = (
    *[_field_changed] * 4,
    _criteria_changed,
    _schedule_changed,
    _selection_changed,
    _renamed,
    _deleted,
    _fleet_changed,
    _fleet_renamed,
    _placement_changed,
    _described,
)
EDITED: dict[Edit, str] = {_fleet_changed: "Fleet", _fleet_renamed: "Fleet", _placement_changed: "FederatedReplicaSet"}


def _federated(chance: random.Random) -> dict[str, Any]:
    spec = {
        "replicas": chance.randint(1, 9),
        "preferences": {"rebalance": chance.random() < 0.7, "clusters": {"*": {"weight": 1}, "a": {"weight": 2}}},
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "job"},
        "waitingReplicas": chance.choice([0, 1]),
    }
    return document("FederatedReplicaSet", "job", spec, namespace="qa")


def _objects(chance: random.Random, start: datetime) -> Iterator[dict[str, Any]]:
    for namespace in NAMESPACES:
        for name in NAMES:
            if chance.random() < 0.85:
                yield from _workload(chance, namespace, name, start)
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}


def _workload(chance: random.Random, namespace: str, name: str, start: datetime) -> Iterator[dict[str, Any]]:
    kind = "Deployment" if name != "web" else chance.choice(["Deployment", "StatefulSet"])
    replicas = chance.choice([1, 2, 3, 5])

    def placed(one: Object, **metadata: Any) -> Object:
        return objects.with_metadata(objects.within(namespace, one), **metadata)

    made = objects.a_deployment(name, replicas, kind=kind) | {"status": objects.status_of(kind, replicas)}
    yield placed(made, **_young(chance, start), **_marks(chance, start))
    if chance.random() < 0.8:
        yield placed(objects.a_service(name), **_marks(chance, start))
    if chance.random() < 0.15:
        metadata = {"name": f"{name}-nightly", **_young(chance, start)}
        yield placed(objects.a_cron_job(name, suspend=chance.random() < 0.3), **metadata)
    if chance.random() < 0.15:
        scaled = objects.for_deployment("keda.sh/v1alpha1", "ScaledObject", name)
        scaled["spec"]["scaleTargetRef"]["kind"] = kind
        yield placed(scaled, name=f"{name}-events")
    elif chance.random() < 0.2:
        hpa = objects.an_autoscaler(name, chance.choice([1, 2]), 6)
        hpa["spec"]["scaleTargetRef"]["kind"] = kind
        yield placed(hpa)
    if name == "job" and chance.random() < 0.3:
        yield from _waiting_pods(chance, namespace, replicas, start)


def _waiting_pods(chance: random.Random, namespace: str, replicas: int, start: datetime) -> Iterator[dict[str, Any]]:
    """Yield a ReplicaSet of the Deployment `job` with pods, of which the last has no place to run since a while."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "job", "controller": True}
    yield {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "job-1", "namespace": namespace, "labels": {"app": "job"}, "ownerReferences": [owner]},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "job"}}},
    }
    since = rfc3339(start - timedelta(minutes=chance.randint(1, 30)))
    for number in range(replicas):
        waits = number == replicas - 1
        unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"job-1-{number}",
                "namespace": namespace,
                "labels": {"app": "job"},
                "creationTimestamp": since,
                "ownerReferences": [{**owner, "kind": "ReplicaSet", "name": "job-1"}],
            },
            "spec": {} if waits else {"nodeName": "node"},
            "status": {"phase": "Pending" if waits else "Running", "conditions": [unplaced if waits else ready]},
        }


def _young(chance: random.Random, start: datetime) -> dict[str, Any]:
    if chance.random() < 0.6:
        return {}
    return {"creationTimestamp": rfc3339(start - timedelta(minutes=chance.randint(0, 2000)))}


def _marks(chance: random.Random, start: datetime) -> dict[str, Any]:
    """Return annotations of people: excluded until then, or wanted awake from then on."""
    if chance.random() < 0.7:
        return {}
    at = start + timedelta(minutes=chance.randint(-600, 3 * 24 * 60))
    return {"annotations": {chance.choice(["reconciler/exclude-until", "reconciler/wake-requested-at"]): rfc3339(at)}}


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ticks(start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield `start` and every tick of the cron until `end`."""
    yield start
    at = start.replace(minute=start.minute // 10 * 10) + TICK
    while at < end:
        yield at
        at += TICK
