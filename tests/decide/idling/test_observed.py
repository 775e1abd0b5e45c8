"""One observed cluster -> the Services and scalables that idling is about, and what stands behind what."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.decide.idling.observed import IdlingCluster, IdlingInputs, idling_clusters
from reconciler.decide.idling.service_records import targets_text
from reconciler.decide.idling.subjects import Subject
from reconciler.decide.reasons import ReasonCode
from reconciler.model import Endpoints, FieldWriter, ObjectRef, Service, Workload
from reconciler.policy.types import Fleet, IdlingPolicy
from tests.builders import a_cluster, a_fleet, a_ref, a_run, a_service, a_state, a_workload, an_hpa, an_idle_record
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    NIGHT,
    a_metric,
    a_policy,
    a_schedule,
    services_selector,
    workloads_selector,
)

AT = "2026-11-20T21:00:00Z"
IDLED_AT, LISTED = "idling.kubernetes.io/idled-at", "idling.kubernetes.io/unidle-targets"
OURS = {"reconciler/owner": "production/IdlingPolicy/idle-dev"}
RECORD = an_idle_record()
REQUESTED = "reconciler/wake-requested-at"
OTHER = a_ref("other")
ITSELF, EVERY = workloads_selector(), services_selector()


def found(*policies: IdlingPolicy, fleet: Fleet | None = None, said: Any = None, **cluster: Any) -> IdlingCluster:
    """What is found on one cluster."""
    state = a_state(a_cluster(**cluster), answers=said or {})
    (one,) = idling_clusters(IdlingInputs(fleet or a_fleet(), state, a_run(NIGHT), policies))
    return one


def only(cluster: IdlingCluster, name: str = "web") -> Subject:
    (one,) = (subject for subject in cluster.subjects if subject.ref.name == name)
    return one


def listing(*refs: ObjectRef, **more: str) -> dict[str, str]:
    """The mark of ours on a Service that lists them."""
    return {**OURS, IDLED_AT: AT, LISTED: targets_text(dict.fromkeys(refs, 3)), **more}


def on_endpoints(**annotations: str) -> Endpoints:
    return Endpoints(ObjectRef("east", "shop", "Endpoints", "web"), "uid-endpoints", annotations)


@cases(
    "service endpoints is_there",
    ("nothing", {}, {}, False),
    ("other annotations", {"team": "shop"}, {"team": "shop"}, False),
    ("a mark", {IDLED_AT: AT}, {}, True),
    ("a mark on its Endpoints", {}, {IDLED_AT: AT}, True),
    ("an opt-out", {"reconciler/exclude": "true"}, {}, True),
    ("a wake request", {REQUESTED: AT}, {}, True),
    ("a wake request that cannot be read", {REQUESTED: "soon"}, {}, True),
    ("one that cannot be read, on its Endpoints", {}, {REQUESTED: "soon"}, True),
)
def test_which_services_count_that_no_policy_selects(service, endpoints, is_there):
    cluster = found(services=(a_service(annotations=service),), endpoints=(on_endpoints(**endpoints),))
    assert [one.ref.name for one in cluster.services] == ["web"] * is_there


@cases(
    "annotations pinned names",
    ("nothing", {}, {}, []),
    ("other annotations", {"team": "shop"}, {"team": "shop"}, []),
    ("a record", RECORD, {}, ["web"]),
    ("a record of oc idle", {"idling.alpha.openshift.io/idled-at": AT}, {}, ["web"]),
    ("held bounds", {}, {"reconciler/previous-bounds": "{}"}, ["web"]),
)
def test_which_workloads_count_that_no_policy_selects(annotations, pinned, names):
    web = a_workload(annotations=annotations)
    cluster = found(workloads=(web, a_workload("api")), autoscalers=(an_hpa(annotations=pinned),))
    assert [one.ref.name for one in cluster.subjects] == names


def test_a_scaled_object_that_names_no_target_runs_nothing_else():
    scaled = a_workload("jobs", kind="ScaledObject", replicas=None, annotations=RECORD)
    jobs = only(found(workloads=(scaled, a_workload("jobs"))), "jobs")
    assert (jobs.scale.runs, jobs.unknown) == (scaled, "its target was not found")


PROVED = {"replicas": 0, "annotations": RECORD, "replicas_writer": FieldWriter("reconciler")}
UNREAD = {"unreadable": {"deployments": "no"}}


class TestWhatAListPutsBehindAService:
    """A Service that a policy selects, in front of web by the labels of its pods, and with a list."""

    def other(self, service: Service, other: Workload, **cluster: Any) -> list[tuple[str, bool]]:
        """Each Service of `other`, and whether `other` is behind it."""
        state = only(found(a_policy(), services=(service,), workloads=(a_workload(), other), **cluster), "other")
        return [(one.ref.name, one.ref not in state.listed_only) for one in state.services]

    @cases(
        "selector workload cluster is_behind",
        ("labels tell of others", {"app": "web"}, {}, {}, False),
        ("it says itself that we idled it", {"app": "web"}, PROVED, {}, True),
        ("it says so, and runs", {"app": "web"}, PROVED | {"replicas": 1}, {}, False),
        ("it runs with a record", {"app": "web"}, {"annotations": RECORD}, {}, False),
        ("it is at zero", {"app": "web"}, {"replicas": 0}, {}, False),
        ("what labels tell of cannot be read", {"app": "web"}, {}, UNREAD, True),
        ("labels tell of nothing", {"role": "db"}, {}, {}, True),
        ("labels tell of nothing that can be read", {"role": "db"}, {}, UNREAD, True),
    )
    def test_of_ours(self, selector, workload, cluster, is_behind):
        service = a_service(selector=selector, annotations=listing(OTHER))
        assert self.other(service, a_workload("other", **workload), **cluster) == [("web", is_behind)]

    @cases("workload", ("it runs", {}), ("it says itself that we idled it", PROVED))
    def test_of_somebody_else(self, workload):
        theirs = listing(OTHER) | {"reconciler/owner": "staging/IdlingPolicy/night"}
        assert self.other(a_service(annotations=theirs), a_workload("other", **workload)) == [("web", False)]

    def test_a_list_of_what_is_not_there_adds_nothing(self):
        service = a_service(annotations=listing(a_ref("gone")))
        assert [one.ref.name for one in found(services=(service,), workloads=(a_workload(),)).subjects] == []

    @pytest.mark.parametrize("lists", ["ScaledObject", "Deployment"])
    def test_the_target_of_a_scaled_object_is_behind_it_where_the_list_names_either(self, lists):
        scaled = a_workload("web-so", kind="ScaledObject", replicas=None, scale_target=("Deployment", "web"))
        listed = {"ScaledObject": scaled.ref, "Deployment": a_ref("web")}[lists]
        service = a_service(annotations=listing(listed))
        jobs = only(found(a_policy(), services=(service,), workloads=(a_workload(), scaled)), "web-so")
        assert ([one.ref.name for one in jobs.behind], jobs.listed_only) == (["web"], frozenset())

    def test_what_labels_tell_of_is_behind_it_whatever_lists_it(self):
        service = a_service(annotations=listing(a_ref("web"), OTHER))
        web = only(found(a_policy(), services=(service,), workloads=(a_workload(), a_workload("other"))))
        assert ([one.ref.name for one in web.behind], web.listed_only) == (["web"], frozenset())


def test_the_policies_of_a_service_that_only_lists_a_workload_have_no_say():
    service = a_service(annotations=listing(OTHER))
    policies = (a_policy("high", priority=5), a_policy("low"))
    other = only(found(*policies, services=(service,), workloads=(a_workload(), a_workload("other"))), "other")
    assert (other.verdict.won, other.verdict.lost, other.behind) == ((), (), ())


@cases(
    "fleet code",
    ("nothing", a_fleet(), None),
    ("it", a_fleet(protected_namespaces=("shop",)), ReasonCode.NAMESPACE_PROTECTED),
    ("another one", a_fleet(protected_namespaces=("bank",)), None),
    ("it cannot be read which", a_fleet(protects_unread=True), ReasonCode.NAMESPACES_UNREAD),
)
def test_which_namespaces_the_fleet_protects(fleet, code):
    web = only(found(a_policy(), services=(a_service(),), workloads=(a_workload(),), fleet=fleet))
    assert (None if web.protected is None else web.protected.why[0].code) == code


class TestSharedVerdicts:
    """What the policies say is combined once for all workloads that the same policies select, not for each."""

    def test_workloads_of_one_namespace_that_the_same_policies_select_share_one(self):
        cluster = found(a_policy(selector=ITSELF), workloads=(a_workload(), a_workload("api")))
        assert only(cluster).verdict is only(cluster, "api").verdict

    @cases(
        "policy services",
        ("one is behind a Service", a_policy("other", selector=EVERY), (a_service(),)),
        ("one is of another kind", a_policy("other", selector=workloads_selector("Deployment")), ()),
    )
    def test_what_one_more_policy_says_of_one_is_not_said_of_the_others(self, policy, services):
        workloads = (a_workload(), a_workload("api", kind="StatefulSet", labels={"app": "api"}))
        cluster = found(a_policy(selector=ITSELF), policy, workloads=workloads, services=services)
        names = {name: {one.policy.name for one in only(cluster, name).verdict.won} for name in ("web", "api")}
        assert names == {"web": {"idle-dev", "other"}, "api": {"idle-dev"}}

    @cases(
        "criterion mode values",
        ("a schedule", a_schedule(), "Enforce", 1),
        ("a schedule of one that observes", a_schedule(), "Observe", 1),
        ("a metric of each", a_metric(), "Enforce", 3),
    )
    def test_what_is_said_alike_of_many_services_is_one_value(self, criterion, mode, values):
        services = tuple(a_service(f"web-{n}") for n in range(3))
        there = found(a_policy(selector=EVERY, idle_when=criterion, mode=mode), services=services)
        assert len({id(one.verdict) for one in there.services}) == values
