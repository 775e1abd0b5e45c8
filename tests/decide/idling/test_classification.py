"""The state of a scalable, by its replicas, its record and what its Service lists: `classify` as a table."""

from __future__ import annotations

from typing import Any

from reconciler.decide.annotations import format_time
from reconciler.decide.idling.classification import classify
from reconciler.decide.idling.observed import IdlingInputs, idling_clusters
from reconciler.decide.idling.records import Record
from reconciler.model import FieldWriter, OwnerReference, Workload
from reconciler.policy.types import IdlingPolicy
from tests.builders import a_cluster, a_fleet, a_run, a_service, a_state, a_workload, an_idle_record
from tests.cases import cases
from tests.decide.idling.idling_policies import NIGHT, a_policy

IDLED = "2026-11-20T21:00:00Z"
BEFORE, AFTER = "2026-11-20T20:59:59Z", "2026-11-20T21:00:01Z"
OURS = "production/IdlingPolicy/idle-dev"
AWAKE_SINCE, IDLED_AT = "reconciler/awake-since", "idling.kubernetes.io/idled-at"
RECORD = an_idle_record(5, idled_to="2")
BROKEN = {**RECORD, "idling.kubernetes.io/previous-scale": "many"}
TARGETS = "idling.kubernetes.io/unidle-targets"
LISTS = '[{"kind":"Deployment","name":"web","group":"apps","replicas":5}]'
LIST = {IDLED_AT: IDLED, TARGETS: LISTS, "reconciler/idled-to": "2", "reconciler/owner": OURS}
WRITTEN = FieldWriter("reconciler", NIGHT)
TWO = (a_policy(), a_policy("other"))


def classified(
    web: Workload, listed: dict[str, str], *others: Workload, policies: tuple[IdlingPolicy, ...] = ()
) -> tuple[str, Record | None]:
    """The state of `web`, behind a Service with the annotations `listed`, beside `others`."""
    state = a_state(a_cluster(services=(a_service(annotations=listed),), workloads=(web, *others)))
    (cluster,) = idling_clusters(IdlingInputs(a_fleet(), state, a_run(NIGHT), policies or (a_policy(),)))
    return classify(next(subject for subject in cluster.subjects if subject.ref == web.ref))


def a_copy(replicas: str) -> Workload:
    """A ReplicaSet of web to which the record of an idle was copied."""
    owner = OwnerReference("apps/v1", "Deployment", "web", a_workload().uid)
    copied = {**RECORD, "idling.kubernetes.io/previous-scale": replicas}
    return a_workload("web-1", kind="ReplicaSet", replicas=0, annotations=copied, owner=owner)


LISTED = [
    ("running", 3, {}, "idle_incomplete", None),
    ("woken before", 3, {AWAKE_SINCE: BEFORE}, "idle_incomplete", None),
    ("woken in the same second", 3, {AWAKE_SINCE: IDLED}, "wake_incomplete", None),
    ("woken since", 3, {AWAKE_SINCE: AFTER}, "wake_incomplete", None),
    ("woken in the same second, and at zero", 0, {AWAKE_SINCE: IDLED}, "down", None),
    ("a broken record, and running", 3, BROKEN, "unreadable", None),
    ("a broken record, and at its idled count", 2, BROKEN, "idle", 5),
    ("a broken record, and at zero", 0, BROKEN, "idle", 5),
    ("at its idled count, and nobody knows by whom", 2, {}, "unproven", 5),
    ("its own record, and at its idled count", 2, RECORD, "idle", 5),
    ("its own record, and above its idled count", 3, RECORD, "manually_scaled", 5),
    ("a record of the second of its last wake", 3, {**RECORD, AWAKE_SINCE: IDLED}, "manually_scaled", 5),
    ("a record older than its last wake", 3, {**RECORD, AWAKE_SINCE: AFTER}, "record_stale", 5),
]


@cases("replicas annotations state record", *LISTED)
def test_of_what_a_service_lists(replicas, annotations, state, record):
    found, recorded = classified(a_workload(replicas=replicas, annotations=annotations), LIST)
    assert found == state
    if record is not None:
        assert recorded is not None
        assert recorded.replicas == record


@cases(
    "kind annotations state",
    ("left on an old one by its Deployment", "ReplicaSet", {AWAKE_SINCE: AFTER}, "record_stale"),
    ("its Deployment was deleted while it was idle", "ReplicaSet", {AWAKE_SINCE: BEFORE}, "idle"),
    ("rollout undo brought it back while it is idle", "Deployment", {AWAKE_SINCE: AFTER}, "idle"),
)
def test_at_zero_with_a_record_and_its_last_wake(kind, annotations, state):
    found, _ = classified(a_workload(kind=kind, replicas=0, annotations={**RECORD, **annotations}), {})
    assert found == state


def test_a_replica_set_whose_old_annotations_were_restored_while_it_is_idle_has_what_its_service_lists():
    restored = {**RECORD, IDLED_AT: "2026-11-19T21:00:00Z", AWAKE_SINCE: BEFORE}
    listed = {**LIST, TARGETS: LISTS.replace("Deployment", "ReplicaSet")}
    assert classified(a_workload(kind="ReplicaSet", replicas=0, annotations=restored), listed)[0] == "idle"


@cases(
    "copied state record",
    ("no copy", (), "unproven", 5),
    ("fewer than it stands at", ("1",), "unproven", 5),
    ("as many as it stands at", ("2",), "unproven", 5),
    ("one more", ("3",), "idle", 3),
    ("more than are listed", ("9",), "idle", 9),
)
def test_the_copy_of_a_record_counts_before_a_list(copied, state, record):
    web = a_workload(replicas=2, replicas_writer=WRITTEN)
    found, recorded = classified(web, LIST, *map(a_copy, copied))
    assert found == state
    assert recorded is not None
    assert recorded.replicas == record


@cases(
    "first second replicas",
    ("the newer one", (BEFORE, 9), (IDLED, 5), 5),
    ("the newer one, whatever its name", (IDLED, 5), (BEFORE, 9), 5),
    ("of the same second the higher one", (IDLED, 5), (IDLED, 9), 9),
)
def test_of_two_lists(first, second, replicas):
    services = [
        a_service(
            name,
            selector={"app": "web"},
            annotations={**LIST, "idling.kubernetes.io/idled-at": at, TARGETS: LISTS.replace("5", str(number))},
        )
        for name, (at, number) in (("a", first), ("b", second))
    ]
    state = a_state(a_cluster(services=services, workloads=(a_workload(replicas=0, annotations=BROKEN),)))
    (cluster,) = idling_clusters(IdlingInputs(a_fleet(), state, a_run(NIGHT), (a_policy(),)))
    record = classify(cluster.subjects[0])[1]
    assert record is not None
    assert record.replicas == replicas


@cases(
    "at listed replicas idled_at",
    ("an older list", BEFORE, 9, 5, IDLED),
    ("a list of the same second", IDLED, 9, 5, IDLED),
    ("a newer list", AFTER, 9, 9, AFTER),
    ("a newer list with one more than its idled count", AFTER, 3, 3, AFTER),
    ("a newer list with its idled count", AFTER, 2, 5, IDLED),
    ("a newer list with the same number", AFTER, 5, 5, IDLED),
)
def test_the_newer_of_its_record_and_the_list_counts(at, listed, replicas, idled_at):
    texts = {**LIST, "idling.kubernetes.io/idled-at": at, TARGETS: LISTS.replace("5", str(listed))}
    found, recorded = classified(a_workload(replicas=2, annotations=RECORD), texts, a_copy("9"))
    assert found == "idle"
    assert recorded is not None
    assert (recorded.replicas, format_time(recorded.idled_at)) == (replicas, idled_at)


@cases("replicas state", ("at zero", 0, "unproven"), ("running", 3, "awake"))
def test_what_only_a_list_of_oc_idle_names(replicas, state):
    listed = {"idled-at": IDLED, "unidle-targets": '[{"kind": "Deployment", "name": "web", "replicas": 3}]'}
    texts = {f"idling.alpha.openshift.io/{key}": text for key, text in listed.items()}
    assert classified(a_workload(replicas=replicas), texts)[0] == state


@cases(
    "other policies state",
    ("alone", None, (), "record_stale"),
    ("the other one is at zero", 0, (), "record_stale"),
    ("the other one runs", 1, (), "manually_scaled"),
    ("selected by a second policy", None, TWO, "record_stale"),
    ("selected by another policy", None, TWO[1:], "manually_scaled"),
)
def test_a_record_that_its_service_would_list_and_does_not_came_back_from_the_past(other, policies, state):
    others: list[Any] = [] if other is None else [a_workload("api", replicas=other, template_labels={"app": "web"})]
    assert classified(a_workload(annotations=RECORD), {}, *others, policies=policies)[0] == state
