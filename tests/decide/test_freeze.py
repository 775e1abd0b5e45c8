"""What a freeze covers, who may say so, and what it keeps from being done; what cannot be read counts as frozen."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.apply.skipped_actions import BATCH, FreezeCheck
from reconciler.decide.decisions import Phase
from reconciler.decide.desired_state import decide
from reconciler.decide.freeze import CONFIG_MAP, KEY, freezes_in_force, freezes_text, frozen, read_freezes, scope_of
from reconciler.errors import AnnotationError, ReconcilerError
from reconciler.model import ConfigMap, ObjectRef
from reconciler.policy.types import DownscaleTarget, Freeze
from tests.builders import (
    NOW,
    a_cluster,
    a_downscale_policy,
    a_federated_replica_set,
    a_fleet,
    a_policy_set,
    a_run,
    a_service,
    a_state,
    a_workload,
    an_idle_record,
)
from tests.cases import cases
from tests.decide.idling.idling_policies import NIGHT, a_policy
from tests.fakes import an_access
from tests.plans import a_decision

SOON = NOW + timedelta(hours=4)


def a_freeze(cluster: str = "", namespace: str = "", **fields) -> Freeze:
    return Freeze(cluster, namespace, **({"until": SOON, "reason": "incident 4711", "by": "alice"} | fields))


def told(cluster: str, *freezes: Freeze, text: str | None = None) -> ConfigMap:
    """Return the ConfigMap of `cluster` that tells of `freezes`."""
    ref = ObjectRef(cluster, "reconciler", "ConfigMap", CONFIG_MAP)
    return ConfigMap(ref, "uid-freeze", {KEY: freezes_text(freezes) if text is None else text})


@cases(
    "freeze expected",
    ("the Fleet", a_freeze(), {"east/shop", "east/dev", "west/shop", "west/dev"}),
    ("a cluster", a_freeze("east"), {"east/shop", "east/dev"}),
    ("a namespace", a_freeze(namespace="dev"), {"east/dev", "west/dev"}),
    ("a namespace of a cluster", a_freeze("west", "dev"), {"west/dev"}),
    ("it ends by itself", a_freeze(until=NOW), set()),
    ("a cluster that left", a_freeze("north"), set()),
)
def test_what_the_freeze_of_home_covers(freeze, expected):
    state = a_state(a_cluster(config_maps=(told("east", freeze),)), a_cluster("west"))
    fleet = frozen(a_fleet("east", "west"), state, NOW)
    places = [(one, space) for one in fleet.clusters for space in ("shop", "dev")]
    assert {f"{one.name}/{space}" for one, space in places if one.freeze_of(space)} == expected


@cases(
    "freeze expected",
    ("another cluster than home speaks for itself only", a_freeze(), ["west"]),
    ("named", a_freeze("west"), ["west"]),
    ("of another one", a_freeze("east"), []),
)
def test_each_cluster_tells_of_itself(freeze, expected):
    state = a_state(a_cluster(), a_cluster("west", config_maps=(told("west", freeze),)))
    fleet = frozen(a_fleet("east", "west"), state, NOW)
    assert [one.name for one in fleet.clusters if one.freezes] == expected


@pytest.mark.parametrize(
    "text", ["{", "{}", "[1]", '[{"until": "soon"}]', '[{"until": "2026-11-20T15:00:00Z", "reason": 1}]', "[{}]"]
)
def test_what_cannot_be_read_counts_as_frozen(text):
    with pytest.raises(AnnotationError, match="freeze/freezes"):
        read_freezes({KEY: text})
    (found,) = freezes_in_force({KEY: text}, NOW)
    assert found.until is None
    assert found.covers("east", "shop")
    assert "cannot be read" in found.reason


def test_a_list_that_is_forbidden_freezes_its_cluster_but_not_what_is_only_looked_at():
    unreadable = a_cluster(unreadable={"configmaps": "forbidden"})
    fleet = a_fleet("east", "west")
    state = a_state(unreadable, a_cluster("west"))
    assert [one.name for one in frozen(fleet, state, NOW).clusters if one.freezes] == ["east"]
    assert frozen(replace(fleet, from_context=True), state, NOW).clusters == fleet.clusters


def everything(*freezes: Freeze, asleep: bool = False, now=NIGHT, **fleet):
    """Decide idling, placement and downscale on two clusters, of which east is home and `freezes` are told there."""
    marks = an_idle_record(at="2026-11-20T12:00:00Z", wake_due="2026-11-20T15:00:00Z")
    web = a_workload(replicas=0, annotations=marks) if asleep else a_workload()
    worker = a_workload("worker", namespace="batch", replicas=7)
    east = a_cluster(services=(a_service(),), workloads=(web, worker), config_maps=(told("east", *freezes),))
    policies = a_policy_set(
        a_fleet("east", "west", **fleet),
        idling=(a_policy(),),
        federated=(a_federated_replica_set("placed", "batch", replicas=4),),
        downscale=(a_downscale_policy("workers", target=DownscaleTarget(replicas=4)),),
    )
    return decide(policies, a_state(east, a_cluster("west")), a_run(now))


def test_a_frozen_fleet_decides_no_decrease_and_says_who_froze_it():
    free, held = everything(), everything(a_freeze(until=NIGHT + timedelta(hours=1)))
    assert {one.phase for one in free.decisions} & {Phase.DECREASE, Phase.MOVE, Phase.INCREASE}
    assert not {one.phase for one in held.decisions} & {Phase.DECREASE, Phase.MOVE, Phase.INCREASE}
    (notice,) = [one for one in held.notices if one.kind == "frozen"]
    assert notice.subject == "Fleet production"
    assert "frozen by alice until 2026-11-20T23:00:00Z: incident 4711; wakes go on" in notice.text
    assert notice.reasons[0].values["by"] == "alice"
    web = next(one for one in held.explanations if (one.job, one.ref.name) == ("idling", "web"))
    assert "frozen by alice until" in web.why
    assert "freeze ends" in str(web.change_if)


def test_what_is_due_wakes_while_all_is_frozen():
    held = everything(a_freeze(), asleep=True, now=NOW)
    assert [(one.verb, one.ref.name, one.replicas_after) for one in held.decisions if one.phase is Phase.WAKE] == [
        ("wake", "web", 3)
    ]


class Counting:
    """A cluster whose ConfigMap can be replaced between writes."""

    name = "east"

    def __init__(self, *found: ConfigMap | Exception) -> None:
        self.found = list(found)
        self.reads = 0

    def get(self, _resource, _namespace, _name):
        self.reads += 1
        found = self.found[min(self.reads, len(self.found)) - 1]
        if isinstance(found, Exception):
            raise found
        return found


def check(cluster: Counting) -> FreezeCheck:
    return FreezeCheck(an_access(cluster), "reconciler", NOW)


def test_a_freeze_stops_the_next_batch_of_a_run_that_goes_on():
    cluster = Counting(told("east"), told("east", a_freeze()))
    checked = check(cluster)
    asked = [checked.why_not(a_decision("web", phase=Phase.DECREASE)) for _ in range(BATCH + 1)]
    assert asked[:BATCH] == [""] * BATCH
    assert "east: frozen by alice until" in asked[-1]
    assert checked.why_not(a_decision("web", phase=Phase.WAKE)) == ""
    assert cluster.reads == 2


def test_many_that_write_at_once_read_it_once_for_a_batch_or_for_two_while_it_is_read():
    cluster = Counting(told("east"))
    answered, many = cluster.get, 16
    cluster.get = lambda *asked: (time.sleep(0.01), answered(*asked))[1]  # type: ignore[method-assign]
    checked = check(cluster)
    with ThreadPoolExecutor(many) as pool:
        list(pool.map(lambda _: checked.why_not(a_decision("web", phase=Phase.DECREASE)), range(BATCH * 10)))
    assert 5 <= cluster.reads <= 10


def test_nobody_waits_while_a_batch_is_read_but_for_a_batch():
    asked, answered = threading.Event(), threading.Event()

    class Slow(Counting):
        def get(self, *what):
            if self.reads:
                asked.set()
                assert answered.wait(60)
            return super().get(*what)

    checked = check(Slow(told("east"), told("east", a_freeze())))
    decrease = a_decision("web", phase=Phase.DECREASE)
    assert [checked.why_not(decrease) for _ in range(BATCH)] == [""] * BATCH
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(checked.why_not, decrease)
        try:
            assert asked.wait(60)
            assert [checked.why_not(decrease) for _ in range(BATCH - 1)] == [""] * (BATCH - 1)
            waiting = pool.submit(checked.why_not, decrease)
        finally:
            answered.set()
        assert all("frozen by alice" in one.result(60) for one in (reading, waiting))


def test_a_freeze_that_cannot_be_read_before_a_batch_stops_it():
    checked = check(Counting(ReconcilerError("east: no answer")))
    assert "cannot be read: east: no answer" in checked.why_not(a_decision("web", phase=Phase.DECREASE))


@cases(
    "freeze words",
    ("the Fleet", a_freeze(), "Fleet production"),
    ("a cluster", a_freeze("east"), "east"),
    ("a namespace", a_freeze(namespace="dev"), "dev"),
    ("a namespace of a cluster", a_freeze("east", "dev"), "east/dev"),
)
def test_what_a_freeze_covers_is_named(freeze, words):
    assert scope_of(freeze, a_fleet()) == words
