"""Which workloads a policy selects, and what opts out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.decide.selectors import SelectingPolicies, SelectorIndex, exclusions
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.policy.types import ObjectSelector, Selector, WorkloadSelector
from tests.builders import NOW, a_cluster, a_fleet, a_namespace, a_workload
from tests.cases import cases
from tests.decide.idling.idling_policies import a_policy

WORDS = ("a", "b", "ab", "c")
label_sets = st.dictionaries(st.sampled_from(WORDS), st.sampled_from(WORDS), max_size=3)
name_lists = st.lists(st.sampled_from([*WORDS, "a*", "*", "[ab]", "?b"]), max_size=2).map(tuple)


@st.composite
def object_selectors(draw: st.DrawFn) -> ObjectSelector:
    pairs = tuple(sorted(draw(label_sets).items()))
    requirement = LabelRequirement("a", draw(st.sampled_from(["Exists", "DoesNotExist"])))
    expressions = (requirement,) if draw(st.booleans()) else ()
    include = draw(st.one_of(st.just(("*",)), name_lists))
    return ObjectSelector(include, draw(name_lists), LabelSelector(pairs, expressions), draw(name_lists))


@given(
    selectors=st.lists(st.one_of(st.just(ObjectSelector()), object_selectors()), max_size=8),
    name=st.sampled_from(WORDS),
    labels=label_sets,
)
def test_the_index_finds_what_asking_each_selector_finds(selectors, name, labels):
    index = SelectorIndex((selector, position) for position, selector in enumerate(selectors))
    asked = [position for position, selector in enumerate(selectors) if selector.matches(name, labels)]
    assert index.matching(name, labels) == asked


@cases(
    "selectors_of",
    ("a namespace for each team", lambda team: (ObjectSelector((team,)), ObjectSelector())),
    ("namespaces with the label of a team", lambda team: (by_team(team), ObjectSelector())),
    ("workloads with the label of a team", lambda team: (ObjectSelector(), by_team(team))),
    ("workloads by name", lambda team: (ObjectSelector(), ObjectSelector((team,)))),
)
@pytest.mark.parametrize("teams", [4, 40])
def test_many_policies_are_asked_only_about_what_they_may_select(selectors_of, teams, monkeypatch):
    """Each workload once for its namespace, and once for itself, however many policies there are."""
    asked, plain = [], ObjectSelector.matches

    def counted(selector, name, labels):
        asked.append(name)
        return plain(selector, name, labels)

    fleet_cluster, names = a_fleet().clusters[0], [f"team-{number}" for number in range(teams)]
    policies = []
    for name in names:
        namespaces, workloads = selectors_of(name)
        selector = Selector(namespaces=namespaces, workloads=WorkloadSelector(objects=workloads))
        policies.append(a_policy(name, selector=selector))
    found = [a_workload(name, namespace=name, labels={"stage": "dev", "team": name}) for name in names]
    spaces = tuple(a_namespace(name, labels={"stage": "dev", "team": name}) for name in names)
    selecting = SelectingPolicies(policies, fleet_cluster, a_cluster(workloads=tuple(found), namespaces=spaces))
    monkeypatch.setattr(ObjectSelector, "matches", counted)
    assert [[one.name for one in selecting.on_workload(workload)] for workload in found] == [[one] for one in names]
    assert len(asked) <= 2 * teams


def by_team(team: str) -> ObjectSelector:
    return ObjectSelector(labels=LabelSelector((("stage", "dev"), ("team", team))))


FLAG, TIME = "reconciler/exclude", "reconciler/exclude-until"
AT = "2026-11-20T15:41:23Z"  # NOW
REMOVED, LATER = f"{FLAG} is removed", "it is 2026-11-20T15:41:24Z or later"


@cases(
    "annotations expected",
    ("nothing", {}, None),
    ("for good", {FLAG: "true"}, (f'{FLAG}: "true"', False, REMOVED)),
    ("not", {FLAG: "false"}, None),
    ("a value that cannot be read", {FLAG: "True"}, (f'{FLAG} is "True", expected "true" or "false"', True, REMOVED)),
    ("an empty value", {FLAG: ""}, (f'{FLAG} is "", expected "true" or "false"', True, REMOVED)),
    (
        "until a second from now",
        {TIME: "2026-11-20T16:41:24+01:00"},
        (f"{TIME}: 2026-11-20T16:41:24+01:00", False, LATER),
    ),
    ("until now", {TIME: AT}, None),
    (
        "until a time that cannot be read",
        {TIME: "tomorrow"},
        (f'{TIME} is "tomorrow", expected a time as in RFC 3339', True, "the time can be read"),
    ),
    (
        "false does not end a time",
        {FLAG: "false", TIME: "2026-11-20T15:41:24Z"},
        (f"{TIME}: 2026-11-20T15:41:24Z", False, LATER),
    ),
    ("both", {FLAG: "true", TIME: AT}, (f'{FLAG}: "true"', False, REMOVED)),
)
def test_an_opt_out(annotations, expected):
    found = next(exclusions(annotations, NOW), None)
    told = found and (str(found.why[0]), found.unreadable, str(found.change_if))
    assert told == expected
