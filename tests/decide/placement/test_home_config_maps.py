"""What belongs in the home cluster while that does not answer, and once it does again."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.cli.doctor_findings import home_finding
from reconciler.decide.decisions import FieldChange, Verb
from reconciler.decide.placement.home_config_maps import home_of
from reconciler.decide.placement.recorded_status import read_status, rejection_after_failure, rejection_key
from reconciler.model import ObjectRef
from tests.builders import NOW, a_cluster, a_fleet, a_state

from .placements import a_federated, a_fleet_with, a_memory, a_status, ago, numbers, place, settled
from .simulation import SELECTOR, TEMPLATE, SimCluster, World

FLEET = a_fleet("east", "north", "west")


def test_doctor_says_who_records_what_belongs_in_home():
    state = a_state(a_cluster("north"), a_cluster("west"))
    told = {name: [found.text for found in home_finding(name, FLEET, state)] for name in ("north", "west")}
    assert told == {"north": ["keeps the records of the home cluster east, which cannot be read"], "west": []}
    assert list(home_finding("east", FLEET, a_state(a_cluster("east"), a_cluster("north")))) == []


def test_what_another_fleet_records_is_left_alone_and_that_cluster_stands_in_for_nobody():
    foreign = replace(a_memory("north"), annotations={"reconciler/fleet": "staging"})
    state = a_state(a_cluster("north", config_maps=(foreign,)), a_cluster("west"))
    home = home_of(FLEET, state)
    assert (home.cluster, dict(home.newest), home.others) == ("west", {}, ())


def test_when_home_is_back_it_gets_the_newest_and_the_copy_goes():
    old = a_status('{"desired":9,"clusters":{"west":{"asked":4}}}', at=ago(hours=2))
    new = a_status('{"desired":6,"clusters":{}}', cluster="west", at=ago(hours=1))
    memory = a_memory("west", at=ago(hours=1), unreachable_since='{"east":"2026-11-20T14:41:23Z"}')
    desired = place(settled("east", 3, config_maps=(old,)), settled("west", 3, config_maps=(new, memory)))
    assert numbers(desired) == {}
    assert [(one.verb, one.ref.cluster, one.ref.name) for one in desired.decisions] == [
        (Verb.REMEMBER, "east", "reconciler-status-shop.web"),
        (Verb.DELETE, "west", "reconciler-status-shop.web"),
        (Verb.REMEMBER, "east", "reconciler-memory"),
        (Verb.DELETE, "west", "reconciler-memory"),
    ]
    written, deleted, remembered, _ = desired.decisions
    assert json.loads(written.changes[-1].after)["desired"] == 6
    assert deleted.needs == (written.key,)
    assert remembered.manifest["data"] == {"unreachable-since": "{}"}


def refusal_of(cluster):
    ref = ObjectRef(cluster, "shop", "ReplicaSet", "web", "apps")
    return rejection_key(ref), rejection_after_failure(None, ref, "exceeded quota", ago(minutes=5))


def test_nothing_is_remembered_where_nothing_is_written():
    memory = a_memory("east", unreachable_since='{"west":"2026-11-20T12:00:00Z"}')
    east = settled("east", 3, config_maps=(memory,))
    west = settled("west", 3)
    fleet = replace(a_fleet_with("ReadOnly", "west", "east"), home="east")
    assert place(east, west, fleet=fleet).decisions == ()


def test_no_copy_goes_while_another_cluster_stands_in_for_home():
    copies = {name: a_memory(name, at=ago(hours=hours)) for name, hours in (("north", 1), ("west", 2))}
    clusters = [settled(name, 2, config_maps=(one,)) for name, one in copies.items()]
    desired = place(*clusters, lost=("east",), fleet=FLEET)
    assert {one.verb for one in desired.decisions} == {Verb.REMEMBER}


@pytest.mark.parametrize("home", ["east", "north", "west"])
def test_of_copies_that_are_equally_new_that_of_home_counts(home):
    copies = {name: a_memory(name, at=ago(hours=1)) for name in ("east", "north", "west")}
    state = a_state(*(a_cluster(name, config_maps=(one,)) for name, one in copies.items()))
    assert home_of(replace(FLEET, home=home), state).newest["reconciler-memory"] is copies[home]


def test_only_the_records_of_placement_are_read():
    ours, status = a_memory("east"), a_status("{}")
    elsewhere = replace(a_memory("east"), ref=replace(ours.ref, namespace="shop"))
    another = replace(a_memory("east"), ref=replace(ours.ref, name="settings"), annotations={})
    home = home_of(FLEET, a_state(a_cluster("east", config_maps=(elsewhere, ours, status, another))))
    assert dict(home.own) == {"reconciler-memory": ours, status.ref.name: status}


def test_a_config_map_without_data_gets_all_of_it_at_once():
    """A patch cannot add a key to data that is absent."""
    east = settled("east", 3, config_maps=(a_memory("east"),))
    (written,) = [one for one in place(east, lost=("west",)).decisions if one.ref.name == "reconciler-memory"]
    data = {"unreachable-since": '{"west":"2026-11-20T15:41:23Z"}'}
    assert FieldChange(("data",), None, data) in written.changes
    assert written.key == "placement/memory/east/reconciler/ConfigMap/reconciler-memory/remember/unreachable-since"


def test_a_change_names_only_the_keys_that_it_is_about():
    key, text = refusal_of("west")
    memory = replace(a_memory("east"), data={"unreachable-since": "{}", key: text})
    east = settled("east", 3, config_maps=(memory,))
    (written,) = [one for one in place(east, lost=("west",)).decisions if one.ref.name == "reconciler-memory"]
    assert written.key.endswith("/remember/unreachable-since")
    assert [change.path for change in written.changes if change.path[0] == "data"] == [("data", "unreachable-since")]


@pytest.mark.parametrize(("asked", "expected"), [("0", 0), ("1", 1), ("-1", None), ("true", None), ('"1"', None)])
def test_what_a_status_says_that_a_cluster_was_asked_for(asked, expected):
    status = read_status(a_status(f'{{"clusters":{{"west":{{"asked":{asked}}}}}}}'))
    assert status.spec_replicas("west") == expected


def a_world(**fields):
    federated = a_federated(12, selector=SELECTOR, template=TEMPLATE, **fields)
    return World([SimCluster(name, room=100) for name in ("east", "north", "west")], federated)


def specs(world):
    return {one.name: one.spec for one in world.clusters}


def pass_runs(world, number):
    for _ in range(number):
        world.apply(world.decided().decisions)
        world.control()
        world.pass_time(timedelta(minutes=1))


def test_while_home_is_away_other_losses_are_timed_too():
    world = a_world()
    pass_runs(world, 3)
    world.clusters[0].reachable = False
    pass_runs(world, 5)
    world.clusters[2].reachable = False
    pass_runs(world, 8)
    assert specs(world)["north"] == 8  # home's part is replaced, that of west not yet
    pass_runs(world, 5)
    assert specs(world)["north"] == 12


def test_who_stands_in_may_change_and_nothing_is_forgotten():
    world = a_world()
    pass_runs(world, 3)
    world.clusters[0].reachable = False
    pass_runs(world, 5)
    memory = world.clusters[1].config_maps["reconciler-memory"]
    assert json.loads(memory.data["unreachable-since"]).keys() == {"east"}
    world.clusters[1].reachable, world.clusters[0].reachable = False, True
    pass_runs(world, 1)
    world.clusters[1].reachable = True
    pass_runs(world, 2)
    assert "reconciler-memory" not in world.clusters[1].config_maps
    assert world.decided().decisions == ()
    assert world.now > NOW
