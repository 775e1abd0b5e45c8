"""Which groups of a plan filters keep, and which names they refuse."""

from __future__ import annotations

import pytest

from reconciler.decide.decisions import Verb
from reconciler.errors import UsageError
from reconciler.labels import LabelSelector
from reconciler.plan.filters import Filters, check_namespaces, kept_groups
from tests.builders import a_cluster, a_namespace, a_ref, a_state
from tests.cases import cases
from tests.plans import a_decision

WEB, API = a_ref("web"), a_ref("api", cluster="west", namespace="dev")
LABELS = {WEB: {"tier": "front"}, API: {"tier": "back"}}
FRONT = LabelSelector((("tier", "front"),))


def kept(filters, *decisions):
    return sorted(kept_groups(decisions or (WEB_IDLES, API_IDLES), filters, LABELS))


@cases(
    "filters expected",
    ("none", Filters(), ["api", "web"]),
    ("policy", Filters(policies=("night*",)), ["api"]),
    ("one of two policies", Filters(policies=("x", "idle-dev")), ["web"]),
    ("cluster", Filters(clusters=("w?st",)), ["api"]),
    ("namespace", Filters(namespaces=("shop",)), ["web"]),
    ("labels", Filters(labels=FRONT), ["web"]),
    ("all of them must match", Filters(policies=("nights",), clusters=("east",)), []),
    ("all of them match", Filters(clusters=("west",), namespaces=("dev",)), ["api"]),
)
def test_what_filters_keep(filters, expected):
    assert kept(filters) == expected
    assert filters.empty is (filters == Filters())


@pytest.mark.parametrize(
    ("pattern", "expected"), [("web", True), ("shop/web", True), ("shop/*", True), ("dev/web", False), ("shop", False)]
)
def test_a_federated_replica_set_is_named_with_its_namespace_or_without(pattern, expected):
    filters = Filters(policies=(pattern,))
    placed = a_decision(job="placement", policy="web", group="placement/shop/web")
    assert (kept(filters, placed) == ["placement/shop/web"]) is expected
    assert filters.keep("shop/web", WEB, {}) is expected
    idled = a_decision(policy="web", group="idling/east/shop/Service/web")
    assert bool(kept(filters, idled)) is (pattern == "web")


WEB_IDLES = a_decision(group="web")
API_IDLES = a_decision(ref=API, policy="nights", group="api")


def test_a_group_stays_whole_or_goes_whole():
    both = (a_decision(group="both"), a_decision(ref=API, group="both"))
    assert kept(Filters(clusters=("east",)), *both) == []
    assert kept(Filters(clusters=("east", "west")), *both) == ["both"]


def test_a_record_does_not_decide_beside_anything_else():
    record = a_decision(ref=API, group="one", verb=Verb.REMEMBER, replicas_after=None)
    assert kept(Filters(clusters=("east",)), a_decision(group="one"), record) == ["one"]
    assert kept(Filters(clusters=("east",)), record) == []
    assert kept(Filters(clusters=("west",)), record) == ["one"]


def test_labels_are_those_of_what_is_scaled():
    service = a_decision(ref=a_ref("web", kind="Service"), group="one", replicas_after=None)
    assert kept(Filters(labels=FRONT), a_decision(group="one"), service) == ["one"]
    assert kept(Filters(labels=FRONT), service) == []


def test_a_group_of_which_something_that_is_scaled_has_other_labels_goes_whole():
    both = (a_decision(group="both"), a_decision(ref=API, group="both"))
    assert kept(Filters(labels=FRONT), *both) == []


def test_what_is_only_to_be_made_has_the_labels_of_its_manifest():
    ref = a_ref("new")
    made = a_decision(ref=ref, group="new", verb=Verb.CREATE, manifest={"metadata": {"labels": {"tier": "front"}}})
    assert kept(Filters(labels=FRONT), made) == ["new"]


@cases(
    "namespaces unreadable refused",
    ("one that is there", ("shop",), {}, None),
    ("a glob", ("sh*",), {}, None),
    ("none asked for", (), {}, None),
    (
        "nearly one that is there",
        ("shop", "shp"),
        {},
        '--namespace: "shp" matches none of 2 known, did you mean "shop"?',
    ),
    ("nothing like it", ("zzz",), {}, '--namespace: "zzz" matches none of 2 known'),
    ("they cannot be read: any may be there", ("zzz",), {"namespaces": "forbidden"}, None),
    ("others cannot be read", ("zzz",), {"pods": "forbidden"}, '--namespace: "zzz" matches none of 2 known'),
)
def test_a_namespace_that_is_not_there_is_refused(namespaces, unreadable, refused):
    spaces = (a_namespace("shop"), a_namespace("dev"))
    state = a_state(a_cluster(namespaces=spaces, unreadable=unreadable), a_cluster("west"))
    if refused is None:
        check_namespaces(Filters(namespaces=namespaces), state)
        return
    with pytest.raises(UsageError) as found:
        check_namespaces(Filters(namespaces=namespaces), state)
    assert str(found.value) == refused
