"""What a crash left: the journal says what it was, the replicas say how far it came."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.decide.annotations import SPARED_COST, VICTIM_COST, Key
from reconciler.decide.decisions import Decision, DesiredState, FieldChange, Phase, Verb
from reconciler.decide.downscale.journal import (
    JournalEntry,
    JournalPod,
    decide_recovery,
    entry_text,
    former_costs,
    read_entry,
)
from reconciler.errors import AnnotationError
from reconciler.model import DELETION_COST, JOURNAL, ConfigMap, ObjectRef, ObservedCluster, Pod, Run
from tests.builders import NOW, a_cluster, a_fleet, a_pod, a_ref, a_run, a_state, a_workload
from tests.cases import cases
from tests.decide.idling.idling_policies import of_state

UID = "uid-east-shop-Deployment-web"
ENTRY = JournalEntry(
    workload=a_ref(),
    uid=UID,
    before=5,
    after=3,
    pods=(
        JournalPod("web-1", "uid-web-1", None),
        JournalPod("web-2", "uid-web-2", "7"),
        JournalPod("web-3", "uid-web-3", "-9"),
    ),
    at=NOW - timedelta(minutes=10),
    run="before",
    policy="workers",
)


def marked(name: str, cost: str | None = VICTIM_COST, run: str = "before", **fields: Any) -> Pod:
    return a_pod(name, deletion_cost=cost, labels={Key.VICTIM_LABEL: run}, **fields)


VICTIMS = (marked("web-1"), marked("web-2"), marked("web-3", SPARED_COST))


def journal(entries: dict[str, str]) -> ConfigMap:
    return ConfigMap(ObjectRef("east", "reconciler", "ConfigMap", JOURNAL), "uid-journal", entries)


def observed(replicas: int | None = 5, status: int | None = None, **fields: Any) -> ObservedCluster:
    web = a_workload(replicas=replicas, status_replicas=replicas if status is None else status)
    defaults = {
        "workloads": () if replicas is None else (web,),
        "config_maps": (journal({UID: entry_text(ENTRY)}),),
        "victim_pods": VICTIMS,
    }
    return a_cluster(**(defaults | fields))


def recovered(cluster: ObservedCluster, run: Run | None = None) -> DesiredState:
    return decide_recovery(a_fleet(), a_state(cluster), run or a_run())


def costs_after(desired: DesiredState) -> dict[str, str | None]:
    """The cost that each pod's decision writes."""
    path = ("metadata", "annotations", DELETION_COST)
    return {
        decision.ref.name: change.after
        for decision in desired.decisions
        for change in decision.changes
        if change.path == path
    }


def closes(desired: DesiredState) -> list[Decision]:
    return [decision for decision in desired.decisions if decision.ref.kind == "ConfigMap"]


@cases(
    "cluster why",
    ("still where it was", observed(5), "a scale-down to 3 was interrupted"),
    ("where it should be", observed(3), "the scale-down to 3 is complete"),
    ("neither", observed(4), "another writer scaled to 4"),
    ("no such workload", observed(None), "the workload is gone"),
)
def test_the_marks_go_and_the_entry_is_closed(cluster: ObservedCluster, why: str) -> None:
    desired = recovered(cluster)
    assert costs_after(desired) == {"web-1": None, "web-2": "7", "web-3": "-9"}
    [closing] = closes(desired)
    assert closing.changes == (FieldChange(("data", UID), entry_text(ENTRY), None),)
    assert set(closing.needs) == {decision.key for decision in desired.decisions} - {closing.key}
    assert {decision.group for decision in desired.decisions} == {"downscale/east/shop/Deployment/web"}
    assert {(decision.verb, decision.phase) for decision in desired.decisions} == {(Verb.REPAIR, Phase.REPAIR)}
    assert closing.cause.why.endswith(why)
    assert closing.cause.policy == "workers"


def test_marks_stay_until_the_status_says_that_it_is_done() -> None:
    desired = recovered(observed(3, status=5))
    assert desired.decisions == ()
    assert desired.explanations[0].outcome == "its victims keep their deletion costs"


@pytest.mark.parametrize(("minutes", "complete"), [(59, False), (60, True)])
def test_an_hour_is_long_enough_for_the_status_to_tell(minutes: int, complete: bool) -> None:
    desired = recovered(observed(3, status=5), a_run(now=ENTRY.at + timedelta(minutes=minutes)))
    assert (len(closes(desired)) == 1) is complete


def test_marks_without_an_entry_go() -> None:
    stray = marked("web-9", owner_kind="ReplicaSet", owner_name="web-1")
    desired = recovered(observed(5, config_maps=(), victim_pods=(stray, marked("web-8", "3"))))
    assert costs_after(desired) == {"web-9": None}
    assert [len(decision.changes) for decision in desired.decisions] == [1, 2]
    assert desired.decisions[1].group == "downscale/east/shop/ReplicaSet/web-1"


def test_an_entry_that_cannot_be_read_is_set_aside() -> None:
    desired = recovered(observed(5, config_maps=(journal({"a": "{", UID: entry_text(ENTRY)}),)))
    [notice] = desired.notices
    assert (notice.kind, notice.partial) == ("setAside", True)
    assert "a: the journal entry cannot be read" in notice.text
    assert len(closes(desired)) == 1


def test_records_of_others_in_the_journal_are_left_alone() -> None:
    others = {"rejected.0123": '{"count": 3, "why": "quota"}'}
    assert recovered(observed(5, config_maps=(journal(others),), victim_pods=())) == DesiredState()


def test_another_config_map_is_not_the_journal() -> None:
    other = replace(journal({UID: entry_text(ENTRY)}), ref=ObjectRef("east", "shop", "ConfigMap", JOURNAL))
    assert closes(recovered(observed(5, config_maps=(other,)))) == []


@pytest.mark.parametrize("state", ["Frozen", "ReadOnly"])
def test_nothing_is_written_in_a_frozen_cluster(state: Any) -> None:
    assert decide_recovery(of_state(state), a_state(observed(5)), a_run()) == DesiredState()


def test_former_costs() -> None:
    cluster = observed(5, victim_pods=(*VICTIMS, marked("web-9")))
    assert former_costs(cluster, "reconciler") == {
        "uid-web-1": None,
        "uid-web-2": "7",
        "uid-web-3": "-9",
        "uid-web-9": None,
    }


# The journal

TEXTS = st.text('ab/"\\\u00e9\u2028', max_size=12)
NAMES = TEXTS.filter(bool)


@given(
    st.builds(
        JournalEntry,
        workload=st.builds(ObjectRef, st.just("east"), NAMES, NAMES, NAMES, NAMES),
        uid=NAMES,
        before=st.integers(0, 2**31),
        after=st.integers(0, 2**31),
        pods=st.lists(st.builds(JournalPod, NAMES, NAMES, st.none() | TEXTS), max_size=4).map(tuple),
        at=st.just(NOW),
        run=NAMES,
        policy=NAMES,
    )
)
def test_an_entry_reads_as_it_was_written(entry: JournalEntry) -> None:
    assert read_entry(entry_text(entry), "east") == entry


@given(
    TEXTS
    | st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, st.lists).map(str)
    | st.sampled_from([entry_text(ENTRY).replace(old, new) for old, new in (('"from":5', '"from":"5"'), ("Z", ""))])
)
def test_what_is_no_entry_is_said_so(text: str) -> None:
    with pytest.raises(AnnotationError, match="journal entry cannot be read"):
        read_entry(text, "east")


# Marks


@cases(
    "key value readable",
    ("a uid that is no text", "uid", 5, False),
    ("a number in a text", "from", "5", False),
    ("a truth value", "from", True, False),
    ("below zero", "to", -1, False),
    ("to zero", "to", 0, True),
    ("no time", "at", "soon", False),
    ("a time that is no text", "at", 5, False),
)
def test_each_field_of_an_entry_is_checked(key: str, value: object, readable: bool) -> None:
    text = json.dumps(json.loads(entry_text(ENTRY)) | {key: value})
    if readable:
        assert read_entry(text, "east") == replace(ENTRY, after=value)
        return
    with pytest.raises(AnnotationError, match="the journal entry cannot be read"):
        read_entry(text, "east")
