"""Policies of equal priority that may select the same object are named before any cluster is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.decide.selectors import SelectingPolicies, names_kind, selects_kind
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.policy.load import read_policies
from reconciler.policy.overlaps import likely_pairs, may_share, undecided_pairs
from reconciler.policy.types import IdlingPolicy, ObjectSelector, Selector, WorkloadSelector
from tests.builders import a_cluster, a_downscale_policy, a_fleet, a_namespace, a_service, a_workload
from tests.decide.idling.idling_policies import a_policy
from tests.pipeline.calls import inside

CLUSTERS = (*a_fleet("east").clusters, *(replace(one, labels={"tier": "b"}) for one in a_fleet("west").clusters))

NAMES = st.sampled_from(["*", "a", "b", "a*", "*b", "?", "[ab]", "[!a]"])
LABELS = st.builds(
    LabelSelector,
    st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("12")), max_size=1).map(tuple),
    st.lists(
        st.builds(LabelRequirement, st.sampled_from("xy"), st.sampled_from(["In", "NotIn"]), st.just(("1",)))
        | st.builds(LabelRequirement, st.sampled_from("xy"), st.sampled_from(["Exists", "DoesNotExist"]))
        | st.builds(LabelRequirement, st.sampled_from("xy"), st.sampled_from(["Gt", "Lt"]), st.just(("1",))),
        max_size=1,
    ).map(tuple),
)
OBJECTS = st.just(ObjectSelector()) | st.builds(
    ObjectSelector,
    st.lists(NAMES, min_size=1, max_size=2).map(tuple),
    st.lists(NAMES.filter("*".__ne__), max_size=1).map(tuple),
    LABELS,
)
WORKLOADS = st.builds(
    WorkloadSelector, st.sampled_from([(), ("Deployment",), ("statefulset",), ("Deployment", "CronJob")]), OBJECTS
)
TIER_B = ObjectSelector(labels=LabelSelector((("tier", "b"),)))
SELECTORS = st.builds(
    Selector,
    clusters=st.sampled_from([ObjectSelector(), ObjectSelector(("east",)), TIER_B]),
    namespaces=OBJECTS,
    services=st.none() | st.just(ObjectSelector()) | OBJECTS,
    workloads=st.none() | st.just(WorkloadSelector()) | WORKLOADS,
)  # fmt: skip
POLICIES = st.builds(
    lambda selector, exclude: a_policy(selector=selector, exclude=tuple(exclude)),
    SELECTORS.filter(lambda one: one.services is not None or one.workloads is not None),
    st.lists(SELECTORS, max_size=1),
)
METADATA = st.fixed_dictionaries({}, optional={key: st.sampled_from("12") for key in "xy"})


def selects(policy: IdlingPolicy, found: Any, cluster: Any, space: str, labels: dict[str, str]) -> bool:
    """What a policy selects and does not exclude, told from its documentation."""

    def has(selector: Selector, *, whole: bool) -> bool:
        if not selector.selects_cluster(cluster) or not selector.namespaces.matches(space, labels):
            return False
        if whole and selector.services is None and selector.workloads is None:
            return True
        if found.ref.kind == "Service":
            return selector.services is not None and selector.services.matches(found.ref.name, found.labels)
        workloads = selector.workloads
        if workloads is None or not workloads.objects.matches(found.ref.name, found.labels):
            return False
        return (whole and not workloads.kinds) or selects_kind(workloads, found)

    return has(policy.selector, whole=False) and not any(has(one, whole=True) for one in policy.exclude)


@given(
    POLICIES, POLICIES, st.sampled_from(["Service", "Deployment", "StatefulSet", "CronJob"]), st.sampled_from("abc"),
    METADATA, st.sampled_from("abc"), METADATA, st.sampled_from(CLUSTERS),
)  # fmt: skip
def test_two_policies_that_select_one_object_may_share_it(one, other, kind, name, labels, space, on_space, cluster):
    made = a_service(name, namespace=space, labels=labels)
    if kind != "Service":
        made = a_workload(name, kind=kind, namespace=space, labels=labels)
    if all(selects(policy, made, cluster, space, on_space) for policy in (one, other)):
        assert may_share(one, other, CLUSTERS)


@given(
    st.lists(POLICIES, max_size=4), st.sampled_from(["Service", "Deployment", "CronJob"]), st.sampled_from("abc"),
    METADATA, st.sampled_from("abc"), METADATA, st.sampled_from(CLUSTERS),
)  # fmt: skip
def test_who_excludes_an_object_is_found_as_if_each_were_asked(policies, kind, name, labels, space, on_space, member):
    made = a_service(name, namespace=space, labels=labels)
    if kind != "Service":
        made = a_workload(name, kind=kind, namespace=space, labels=labels)
    named = [replace(policy, name=str(number)) for number, policy in enumerate(policies)]
    cluster = replace(a_cluster(member.name), namespaces=(a_namespace(space, labels=on_space),))
    selecting = SelectingPolicies(named, member, cluster)
    expected = [
        (one, f"exclude[{position}]")
        for one in selecting.reaching
        for position, selector in enumerate(one.exclude)
        if selector.selects_cluster(member) and selector.namespaces.matches(space, on_space)
        if excludes(selector, made)
    ]
    assert sorted(selecting.excluding(made), key=lambda one: (one[0].name, one[1])) == expected


def excludes(selector: Selector, made: Any) -> bool:
    if selector.services is None and selector.workloads is None:
        return True
    if made.ref.is_service:
        return selector.services is not None and selector.services.matches(made.ref.name, made.labels)
    if selector.workloads is None or (selector.workloads.kinds and not names_kind(selector.workloads, made.ref.kind)):
        return False
    return selector.workloads.objects.matches(made.ref.name, made.labels)


def on(**fields: Any) -> Selector:
    return Selector(**({"services": ObjectSelector()} | fields))


def labelled(*labels: tuple[str, str], **fields: Any) -> Selector:
    return on(services=ObjectSelector(labels=LabelSelector(labels)), **fields)


APART = [
    pytest.param(on(namespaces=ObjectSelector(("dev-*",))), on(namespaces=ObjectSelector(("prod-*",))), id="patterns"),
    pytest.param(on(namespaces=ObjectSelector(("dev",))), on(namespaces=ObjectSelector(("*",), ("dev",))), id="a name"),
    pytest.param(on(clusters=ObjectSelector(("east",))), on(clusters=ObjectSelector(("west",))), id="clusters"),
    pytest.param(labelled(("team", "a")), labelled(("team", "b")), id="labels"),
    pytest.param(on(), Selector(workloads=WorkloadSelector()), id="Services and workloads"),
    pytest.param(
        Selector(workloads=WorkloadSelector(("Deployment",))),
        Selector(workloads=WorkloadSelector(("statefulset",))),
        id="kinds",
    ),
    pytest.param(
        Selector(workloads=WorkloadSelector()), Selector(workloads=WorkloadSelector(("Rollout",))), id="custom kinds"
    ),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_selections_that_are_apart_are_no_warning(one: Selector, other: Selector) -> None:
    assert not may_share(a_policy(selector=one), a_policy(selector=other), CLUSTERS)


def required(*terms: tuple[str, str, tuple[str, ...]]) -> Selector:
    labels = LabelSelector(match_expressions=tuple(LabelRequirement(*term) for term in terms))
    return on(services=ObjectSelector(labels=labels))


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        pytest.param(("x", "In", ("1", "2")), ("x", "NotIn", ("1",)), False, id="some that are not excluded"),
        pytest.param(("x", "In", ("1", "2")), ("x", "NotIn", ("1", "2")), True, id="all excluded"),
        pytest.param(("x", "Exists", ()), ("x", "DoesNotExist", ()), True, id="there and not there"),
        pytest.param(("x", "NotIn", ("1",)), ("x", "DoesNotExist", ()), False, id="no such label"),
        pytest.param(("x", "In", ("1",)), ("y", "In", ("2",)), False, id="other labels"),
    ],
)
def test_labels_that_contradict_each_other(one, other, apart):
    assert may_share(a_policy(selector=required(one)), a_policy(selector=required(other)), CLUSTERS) is not apart


DEV = ObjectSelector(("dev-*",))


@pytest.mark.parametrize(
    ("excluded", "shares"),
    [
        pytest.param(Selector(namespaces=DEV), False, id="its namespaces"),
        pytest.param(on(namespaces=DEV), False, id="its Services"),
        pytest.param(Selector(namespaces=DEV, workloads=WorkloadSelector()), True, id="workloads only"),
        pytest.param(Selector(namespaces=replace(DEV, exclude=("dev-a",))), True, id="all but one"),
        pytest.param(Selector(clusters=ObjectSelector(("east",))), True, id="on one cluster"),
    ],
)
def test_what_one_policy_excludes_it_does_not_share(excluded: Selector, shares: bool) -> None:
    excluding = a_policy(selector=on(), exclude=(excluded,))
    for pair in ((excluding, DEVELOPMENT), (DEVELOPMENT, excluding)):
        assert may_share(*pair, CLUSTERS) is shares


DEVELOPMENT = a_policy(selector=on(namespaces=DEV))


FLEET = (
    "apiVersion: reconciler/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {home: east, clusters: [{name: east}]}\n"
)
IDLING = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: NAME}
spec:
  PRIORITY
  selector: {namespaces: {include: [dev]}, services: {}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Sun 20:00-24:00"]}}]
"""
DOWNSCALE = """\
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: NAME}
spec:
  PRIORITY
  selector: {workloads: {}}
  target: {replicas: 2}
"""


@pytest.mark.parametrize(
    ("text", "priorities", "expected"),
    [
        pytest.param(
            IDLING,
            ("mode: Enforce", "priority: 0"),
            "policies/policies.yaml:18: spec.priority: is 0, the same as of IdlingPolicy one at "
            "policies/policies.yaml:6, expected another one; what both select is not newly idled",
            id="two that idle",
        ),
        pytest.param(
            DOWNSCALE,
            ("priority: 3", "priority: 3"),
            "policies/policies.yaml:18: spec.priority: is 3, the same as of DownscalePolicy one at "
            "policies/policies.yaml:6, expected another one; what both select is not changed",
            id="two that scale",
        ),
        pytest.param(IDLING, ("priority: 1", "priority: 0"), None, id="one wins"),
        pytest.param(IDLING, ("mode: Enforce", "mode: Observe"), None, id="one observes"),
        pytest.param(DOWNSCALE, ("mode: Observe", "mode: Observe"), None, id="none scales"),
    ],
)  # fmt: skip
def test_the_second_of_a_pair_is_in_conflict(tmp_path, text, priorities, expected):
    pairs = zip(("one", "two"), priorities, strict=True)
    documents = [text.replace("NAME", name).replace("PRIORITY", own) for name, own in pairs]
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "policies.yaml").write_text("---\n".join([FLEET, *documents]))
    with inside(tmp_path):
        found = read_policies("policies")
    said = tuple(f"{one.file}:{one.line}: {one.field}: {one.message}" for one in found.conflicts)
    assert found.warnings == ()
    assert said == (() if expected is None else (expected,))


def test_each_of_many_is_named_with_one_other():
    policies = [a_downscale_policy(name) for name in "abcd"]
    assert [(one.name, two.name) for one, two in undecided_pairs(policies, CLUSTERS)] == [("a", name) for name in "bcd"]


@given(st.lists(POLICIES, max_size=5))
def test_the_first_that_may_share_an_object_is_named(policies):
    named = [replace(policy, name=str(number)) for number, policy in enumerate(policies)]
    expected = []
    for number, policy in enumerate(named):
        other = next((other for other in named[:number] if may_share(other, policy, CLUSTERS)), None)
        expected += [] if other is None else [(other, policy)]
    assert list(undecided_pairs(named, CLUSTERS)) == expected


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(lambda n: on(namespaces=ObjectSelector((f"team-{n:03}-*",))), id="patterns of namespaces"),
        pytest.param(lambda n: on(namespaces=ObjectSelector((f"*-{n:03}",))), id="endings of namespaces"),
        pytest.param(lambda n: on(namespaces=labels("team", n)), id="labels of namespaces"),
        pytest.param(lambda n: on(namespaces=values_of("team", n)), id="values of labels of namespaces"),
        pytest.param(lambda n: on(clusters=ObjectSelector((f"east-{n:03}",))), id="clusters"),
        pytest.param(lambda n: on(services=ObjectSelector((f"web-{n:03}",))), id="Services"),
        pytest.param(lambda n: on(services=labels("app", n)), id="labels of Services"),
        pytest.param(
            lambda n: Selector(workloads=WorkloadSelector(objects=ObjectSelector((f"web-{n:03}",)))), id="workloads"
        ),
        pytest.param(lambda n: Selector(workloads=WorkloadSelector((f"Widget{n:03}.a.io",))), id="kinds"),
    ],
)
def test_policies_that_select_different_things_are_compared_with_the_first_alone(selector):
    clusters = [replace(CLUSTERS[0], name=f"east-{number:03}") for number in range(100)]
    policies = [a_policy(str(number), selector=selector(number)) for number in range(100)]
    compared = {policy.name: [one.name for one in before] for policy, before in likely_pairs(policies, clusters)}
    assert compared == {"0": []} | {str(number): ["0"] for number in range(1, 100)}


def labels(key: str, number: int) -> ObjectSelector:
    return ObjectSelector(labels=LabelSelector(((key, f"{number:03}"),)))


def values_of(key: str, number: int) -> ObjectSelector:
    own = LabelRequirement(key, "In", (f"{number:03}a", f"{number:03}b"))
    return ObjectSelector(labels=LabelSelector((), (own,)))


def test_the_time_for_reading_ends_the_search():
    def check() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        list(undecided_pairs([a_policy("one"), a_policy("two")], CLUSTERS, check))
