"""What would alter what becomes of an object: of its reason, never of criteria that have no say there."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.decide.annotations import format_time, parse_time
from reconciler.decide.change_codes import ChangeIf, ChangeIfCode, after, all_changes, change_if, joint_change
from reconciler.model import Condition, ObservedState, QueryAnswer, QueryKey
from reconciler.policy.types import (
    AllOf,
    AnyOf,
    Autoscalers,
    ClusterPreference,
    Fleet,
    IdlingPolicy,
    ObjectSelector,
    ScheduleCriterion,
    WakeMetric,
    WakeOrder,
)
from tests.builders import (
    a_cluster,
    a_federated_replica_set,
    a_fleet,
    a_namespace,
    a_ref,
    a_service,
    a_state,
    a_workload,
    an_hpa,
    change_if_of,
)
from tests.cases import cases
from tests.decide.idling.idled_by_others import RECORD, STAGING
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    NOON,
    REQUESTS,
    a_metric,
    a_policy,
    a_schedule,
    answers,
    decided,
    of_state,
    run_in,
    services_selector,
)
from tests.decide.idling.world import a_world
from tests.decide.schedule.calendars import a_calendar
from tests.laws import tries

OPENS = "it is 2026-11-20T19:00:00Z or later"
SOON = NIGHT + timedelta(minutes=1)
ANYWHERE = ClusterPreference(weight=1)
NIGHTS_AND_HOLIDAYS = AnyOf(
    (a_schedule(), ScheduleCriterion(a_calendar("Europe/Paris", "2026-12-24T00:00/2026-12-27T00:00")))
)
UNCONTESTED = "reconciler/contested is removed or its policy changes"


def told(state: Any, *policies: IdlingPolicy, now: Any = NIGHT, **fields: Any) -> tuple[str, str]:
    """What becomes of the one object, and what would alter it."""
    (one,) = decided(state, *policies, now=now, **fields).desired.explanations
    return one.outcome, change_if_of(one)


def up(**workload: Any) -> Any:
    return a_state(a_cluster(services=(a_service(),), workloads=(a_workload(**workload),)))


@cases(
    "workload change",
    ("excluded", {"annotations": {"reconciler/exclude": "true"}}, "reconciler/exclude is removed"),
    ("unreadable", {"annotations": {"reconciler/exclude": "yes"}}, "reconciler/exclude is removed"),
    (
        "excluded for a while",
        {"annotations": {"reconciler/exclude-until": "2026-11-21T00:00:00Z"}},
        "it is 2026-11-21T00:00:00Z or later",
    ),
    ("until when?", {"annotations": {"reconciler/exclude-until": "soon"}}, "the time can be read"),
    (
        "a request of the future",
        {"annotations": {"reconciler/wake-requested-at": "2026-11-20T23:00:00Z"}},
        "it is 2026-11-20T23:00:00Z or later",
    ),
    ("at 0 already", {"replicas": 0}, "it has more than 0 replicas"),
    ("contested", {"annotations": {"reconciler/contested": '{"by":"argocd"}'}}, UNCONTESTED),
    ("somebody else's", {"annotations": RECORD | STAGING, "replicas": 0}, "there is a wake request"),
    (
        "set aside",
        {"annotations": {"idling.kubernetes.io/idled-at": "now", "reconciler/owner": "production/IdlingPolicy/x"}},
        "the record can be read",
    ),
)
def test_what_is_not_idled_for_another_reason_than_the_criteria(workload, change):
    assert told(up(**workload))[1] == change


ROLLING = {"observed_generation": 0, "generation": 1}
PAUSED = {"updated_replicas": 0, "conditions": (Condition("Progressing", "Unknown", "DeploymentPaused"),)}


def test_a_request_made_this_very_second_is_not_one_to_wait_for():
    assert told(up(annotations={"reconciler/wake-requested-at": format_time(NIGHT)}))[1] == ""


EXCLUDED = {"annotations": {"reconciler/exclude": "true"}}


def asked(at: str) -> dict[str, Any]:
    return {"annotations": {"reconciler/wake-requested-at": at}}


@cases(
    "workload policy change",
    ("nothing else", {}, {}, OPENS),
    ("an exclusion too", EXCLUDED, {}, f"{OPENS} and reconciler/exclude is removed"),
    ("a rollout too", ROLLING, {}, f"{OPENS} and the rollout ends"),
    ("a paused rollout too", PAUSED, {}, f"{OPENS} and the rollout is resumed, and ends"),
    ("an autoscaler too", {}, {"hpa": "Leave"}, f"{OPENS} and autoscalers.hpa is Idle"),
    ("what nobody ends", {"terminating": True}, {}, ""),
    ("a request that is over by then", asked("2026-11-20T18:00:00Z"), {}, OPENS),
    ("a later request", asked("2026-11-20T23:00:00Z"), {}, "it is 2026-11-20T23:00:00Z or later"),
    ("a request of after the window", asked("2026-11-23T09:00:00Z"), {}, ""),
    (
        "an exclusion until after the first of several schedules",
        {"annotations": {"reconciler/exclude-until": "2026-11-23T09:00:00Z"}},
        {"idle_when": NIGHTS_AND_HOLIDAYS},
        f"{OPENS} and reconciler/exclude-until is removed",
    ),
    ("minAge", {}, {"min_age": timedelta(hours=20)}, "it is 2026-11-20T21:00:00Z or later"),
)
def test_what_the_criteria_call_busy_is_kept_up_by_the_rest_too(workload, policy, change):
    created = {"created_at": NOON - timedelta(hours=10)}
    web = a_workload(**(created | workload))
    state = a_state(a_cluster(services=(a_service(),), workloads=(web,), autoscalers=(an_hpa(),)))
    assert told(state, a_policy(**policy), now=NOON) == ("stays awake", change)


@cases(
    "fleet change",
    (
        "protected",
        a_fleet(protected_namespaces=("shop",)),
        "the namespace is removed from protectedNamespaces of the Fleet",
    ),
    ("our own", a_fleet(namespace="shop"), ""),
    ("leaving", of_state("Leaving"), "its cluster has another state"),
    ("frozen", of_state("Frozen"), "its cluster has another state"),
    ("readOnly", of_state("ReadOnly"), "its cluster has another state"),
)
def test_what_the_fleet_keeps_up(fleet, change):
    assert told(up(), fleet=fleet) == ("stays awake", change)


@cases(
    "policy said now expected",
    ("called idle", a_policy("p", a_metric()), 0, SOON, ("stays idle", "the metric is above 0")),
    ("called busy", a_policy("p", a_metric()), 5, SOON, ("wakes", "the metric is at most 0")),
    ("busy, on signal", a_policy("p", a_metric(), wake="OnSignal"), 5, SOON, ("stays idle", "there is a wake request")),
    (
        "called busy, and woken",
        a_policy("p", a_metric(name="requests"), wake_when=(WakeMetric(REQUESTS, 0, "30m"),)),
        5,
        SOON,
        ("wakes", "the metric requests is at most 0 and the metric of wakeWhen is at most 0"),
    ),
    ("the floor", a_policy("p", idle_replicas=3), 0, SOON, ("wakes", "idleReplicas is below 3")),
    ("due", a_policy("p"), 0, MONDAY, ("wakes", "")),
    (
        "nobody's",
        a_policy("p", selector=services_selector(namespaces=ObjectSelector(("other",)))),
        0,
        SOON,
        ("wakes", "there is a policy that selects it"),
    ),
)
def test_what_is_idle(policy, said, now, expected):
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world, a_policy("p"))
    state = replace(world.state(), answers=answers(("web", said), policy="p"))
    assert told(state, policy, now=now) == expected


def test_what_waits_its_turn():
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world)
    policy = a_policy(wake_order=WakeOrder("", per_run=0))
    assert told(world.state(), policy, now=MONDAY) == ("stays idle", "perRun is above 0")


def test_what_waits_its_turn_names_a_per_run_with_which_it_does_not():
    names = ("a", "b", "c", "d")
    world = a_world(*map(a_service, names), *map(a_workload, names), now=NIGHT)
    run_in(world)

    def told_of(per_run: int) -> dict[str, str]:
        outcome = decided(world.state(), a_policy(wake_order=WakeOrder("", per_run=per_run)), now=MONDAY)
        return {one.ref.name: change_if_of(one) for one in outcome.desired.explanations if one.outcome == "stays idle"}

    assert told_of(1) == {"b": "perRun is above 1", "c": "perRun is above 2", "d": "perRun is above 3"}
    assert told_of(3) == {"d": "perRun is above 3"}
    assert told_of(4) == {}


def test_what_somebody_scaled_by_hand_would_be_released_whatever_else_changes():
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world)
    world.scale(a_ref("web"), 2)
    (told,) = (one for one in run_in(world).desired.explanations if one.ref == a_ref("web"))
    assert (told.why, told.change_if) == ("scaled by hand", None)


WOKEN_NOW = {"reconciler/awake-since": "2026-11-20T21:50:00Z"}
ENDS = "2026-11-23T06:00:00Z"  # with the window that is open at NIGHT


UNTIL = {"reconciler/exclude-until": "2026-11-21T00:00:00Z"}


@cases(
    "workload service namespace change",
    (
        "both annotations",
        EXCLUDED["annotations"] | UNTIL,
        {},
        {},
        "it is 2026-11-21T00:00:00Z or later and reconciler/exclude is removed",
    ),
    (
        "everywhere",
        EXCLUDED["annotations"],
        EXCLUDED["annotations"],
        EXCLUDED["annotations"],
        "reconciler/exclude is removed from Namespace/shop and reconciler/exclude is removed"
        " and reconciler/exclude is removed from Service/web",
    ),
    ("theirs", {}, {}, {"downscaler/exclude": "true"}, "downscaler/exclude is removed from Namespace/shop"),
    ("unreadable", {}, {"reconciler/exclude-until": "soon"}, {}, "the time on Service/web can be read"),
)
def test_every_exclusion_is_named_with_the_object_that_has_it(workload, service, namespace, change):
    state = a_state(
        a_cluster(
            services=(a_service(annotations=service), a_service("web2", selector={"app": "web"})),
            workloads=(a_workload(annotations=workload),),
            namespaces=(a_namespace("shop", annotations=namespace),),
        )
    )
    assert told(state) == ("stays awake", change)


@cases(
    "fleet change",
    (
        "that the Fleet lists",
        {"protected_namespaces": ("shop",)},
        "the namespace is removed from protectedNamespaces of the Fleet",
    ),
    ("our own", {"namespace": "shop"}, ""),
)
def test_what_somebody_else_idled_in_a_protected_namespace(fleet, change):
    theirs = a_workload(replicas=0, annotations=RECORD | STAGING)
    assert told(a_state(a_cluster(workloads=(theirs,))), fleet=a_fleet(**fleet)) == ("left as it is", change)


def test_what_somebody_else_idled_and_runs_keeps_its_neighbours_up_while_it_has_its_record():
    theirs = a_workload("api", template_labels={"app": "web"}, annotations=RECORD | STAGING)
    outcome = decided(a_state(a_cluster(services=(a_service(),), workloads=(a_workload(), theirs))))
    changes = {one.ref.name: change_if_of(one) for one in outcome.desired.explanations}
    assert changes == dict.fromkeys(("web", "api"), "the record of Deployment/api is removed")


@cases(
    "elsewhere change",
    ("it goes idle everywhere", {}, [OPENS, OPENS]),
    (
        "a rollout elsewhere",
        ROLLING,
        [f"{OPENS} and the rollout of Deployment/web on west ends", f"{OPENS} and the rollout ends"],
    ),
)
def test_before_the_window_all_of_a_federated_replica_set_counts(elsewhere, change):
    fed = a_federated_replica_set(replicas=3, clusters={"*": ANYWHERE})
    east = a_cluster(services=(a_service(),), workloads=(a_workload(),))
    west_web = a_workload(cluster="west", **elsewhere)
    west = a_cluster("west", services=(a_service(cluster="west"),), workloads=(west_web,))
    outcome = decided(a_state(east, west), now=NOON, fleet=a_fleet("east", "west"), federated=(fed,))
    assert [change_if_of(one) for one in outcome.desired.explanations] == change


@cases(
    "paused unreachable",
    ("a cluster that did not answer", False, {"west": "timed out"}),
    ("a pause", True, {}),
)
def test_min_awake_is_not_lost_behind_what_keeps_up_all_of_a_federated_replica_set(paused, unreachable):
    fed = a_federated_replica_set(replicas=3, paused=paused, clusters={"*": ANYWHERE})
    state = replace(up(annotations=WOKEN_NOW), unreachable=unreachable)
    (one,) = decided(state, fleet=a_fleet("east", "west"), federated=(fed,)).desired.explanations
    said = "awake since 2026-11-20T21:50:00Z, less than minAwake of 2h"
    assert (one.why, change_if_of(one), one.until) == (said, "", None)


AWAKE_LATER = {"reconciler/awake-until": format_time(NIGHT + timedelta(hours=5))}


@cases(
    "workload until",
    ("minAwake", {"annotations": WOKEN_NOW}, ("minAwake", NIGHT + timedelta(minutes=110))),
    (
        "minAwake, and longer by an annotation",
        {"annotations": WOKEN_NOW | AWAKE_LATER},
        ("reconciler/awake-until", NIGHT + timedelta(hours=5)),
    ),
    ("minAwake, and it is deleted", {"annotations": WOKEN_NOW, "terminating": True}, None),
    ("a rollout", ROLLING, ("a rollout", None)),
    ("minAwake, and a rollout", ROLLING | {"annotations": WOKEN_NOW}, ("a rollout", None)),
    ("a rollout, and an exclusion", ROLLING | {"annotations": {"reconciler/exclude": "true"}}, None),
    ("until its hours end", {"annotations": {"reconciler/awake-until": ENDS}}, ("reconciler/awake-until", None)),
    ("an exclusion", {"annotations": {"reconciler/exclude": "true"}}, None),
    ("nothing", {}, None),
)
def test_until_when_only_time_or_a_rollout_keeps_it_up(workload, until):
    (one,) = decided(up(**workload)).desired.explanations
    assert one.until == until


def at(hours: int, annotation: str = "") -> ChangeIf:
    return after(NIGHT + timedelta(hours=hours), annotation)


ROLLOUT, READABLE = (change_if(code) for code in (ChangeIfCode.ROLLOUT_ENDS, ChangeIfCode.READABLE))


def all_of(*changes: ChangeIf) -> ChangeIf | None:
    return joint_change(ChangeIfCode.ALL, changes)


@cases(
    "changes expected",
    ("nothing", (), None),
    ("the latest", (at(1), at(3), at(2)), at(3)),
    ("one of which nothing is known", (at(1), None), None),
    ("what time does not end", (ROLLOUT, at(1), READABLE), all_of(at(1), ROLLOUT, READABLE)),
    ("one that takes several", (all_of(at(3), ROLLOUT), at(1)), all_of(at(3), ROLLOUT)),
    ("one that takes several, earlier", (all_of(at(1), ROLLOUT), at(3)), all_of(at(3), ROLLOUT)),
    ("when the window ends", (at(8), at(1)), None),
    (
        "when the window ends, by an annotation",
        (at(8, "x/y"), at(1)),
        all_of(at(1), change_if(ChangeIfCode.ANNOTATION_REMOVED, annotation="x/y")),
    ),
)
def test_what_ends_several_causes(changes, expected):
    assert all_changes(changes, NIGHT + timedelta(hours=8)) == expected


# The law: what `explain` says would change it does change it.


class Situation(NamedTuple):
    """All that a decision is made from; `busy` and `waking` are the values of the two metrics, None for no series.

    The policy selects the Service web, the `second` one the Service web2: what is behind both has two verdicts.
    """

    state: ObservedState
    policy: IdlingPolicy
    fleet: Fleet
    now: datetime
    busy: float | None
    waking: float | None
    second: IdlingPolicy | None = None

    def outcomes(self) -> dict[str, tuple[str, ChangeIf | None]]:
        said: dict[QueryKey, QueryAnswer] = {}
        for name, service in (("p", "web"), ("q", "web2")):
            busy, waking = (() if one is None else ((service, one),) for one in (self.busy, self.waking))
            said |= answers(*busy, policy=name) | answers(*waking, policy=name, query="queue")
        state = replace(self.state, answers=said)
        policies = (self.policy,) if self.second is None else (self.policy, self.second)
        found = decided(state, *policies, now=self.now, fleet=self.fleet).desired.explanations
        return {one.ref.name: (one.outcome, one.change_if) for one in found}

    def changed(self, name: str, change: Any) -> Situation:
        """The situation with `change` made to one object, "Service/web"."""
        (east,) = self.state.clusters.values()
        lists = {
            field: tuple(
                change(one) if f"{one.ref.kind}/{one.ref.name}" == name else one for one in getattr(east, field)
            )
            for field in ("workloads", "services", "namespaces")
        }
        return self._replace(state=replace(self.state, clusters={"east": replace(east, **lists)}))

    def without(self, name: str, *annotations: str) -> Situation:
        return self.changed(
            name,
            lambda one: replace(one, annotations={k: v for k, v in one.annotations.items() if k not in annotations}),
        )

    def where(self, change: ChangeIf, name: str) -> Situation:
        """The situation where what `change` names of the workload `name` came true; of what each would do the first."""
        code, values = change.code, change.values
        if code == ChangeIfCode.ALL:
            found = self
            for part in change.parts:
                found = found.where(part, name)
            return found
        if code == ChangeIfCode.ANY:
            return self.where(change.parts[0], name)
        if code in (ChangeIfCode.AT, ChangeIfCode.AFTER):
            at = parse_time(str(values["at"])) or self.now
            return self._replace(now=max(self.now, at + timedelta(seconds=1)))  # a request of that second still counts
        if code in (ChangeIfCode.METRIC_ABOVE, ChangeIfCode.METRIC_AT_MOST, ChangeIfCode.METRIC_KNOWN):
            above = values.get("above", values["bound"] if code == ChangeIfCode.METRIC_ABOVE else None)
            value = values.get("bound", values.get("atMost")) if above is None else above + 1
            return self._replace(**{"waking" if 5 in values.values() else "busy": value})
        return _MADE_TRUE[code](self, values.get("object", f"Deployment/{name}"), values)


def _field_is(now: Situation, _object: str, values: Any) -> Situation:
    fields = {"autoscalers.hpa": {"autoscalers": Autoscalers()}, "mode": {"mode": "Enforce"}}
    second = None if now.second is None else replace(now.second, **fields[values["field"]])
    return now._replace(policy=replace(now.policy, **fields[values["field"]]), second=second)


_MADE_TRUE: dict[str, Any] = {
    ChangeIfCode.ANNOTATION_REMOVED: lambda now, name, values: now.without(name, values["annotation"]),
    ChangeIfCode.RECORD_READABLE: lambda now, name, _values: now.changed(
        name, lambda one: replace(one, annotations={**one.annotations, **RECORD})
    ),
    ChangeIfCode.RECORD_REMOVED: lambda now, name, _values: now.without(name, *RECORD, *STAGING),
    ChangeIfCode.ROLLOUT_ENDS: lambda now, name, _values: now.changed(
        name, lambda one: replace(one, observed_generation=one.generation)
    ),
    ChangeIfCode.MORE_REPLICAS: lambda now, name, values: now.changed(
        name, lambda one: replace(one, replicas=values["replicas"] + 1)
    ),
    ChangeIfCode.WAKE_REQUEST: lambda now, name, _values: now.changed(
        name,
        lambda one: replace(one, annotations={**one.annotations, "reconciler/wake-requested-at": format_time(now.now)}),
    ),
    ChangeIfCode.CLUSTER_STATE: lambda now, _name, _values: now._replace(
        fleet=replace(now.fleet, clusters=a_fleet().clusters)
    ),
    ChangeIfCode.UNPROTECTED: lambda now, _name, _values: now._replace(
        fleet=replace(now.fleet, protected_namespaces=())
    ),
    ChangeIfCode.FIELD_IS: _field_is,
}

BROKEN = {**RECORD, "idling.kubernetes.io/idled-at": "now", "reconciler/owner": "production/IdlingPolicy/p"}
ANNOTATIONS = (
    {"reconciler/exclude": "true"},
    {"reconciler/exclude-until": "2026-11-20T23:00:00Z"},
    {"reconciler/exclude-until": ENDS},
    {"reconciler/wake-requested-at": "2026-11-20T20:30:00Z"},
    {"reconciler/awake-since": "2026-11-20T10:30:00Z"},
    {"reconciler/awake-until": "2026-11-21T03:00:00Z"},
    {"reconciler/awake-until": ENDS},
    {"reconciler/contested": '{"by":"argocd"}'},
    WOKEN_NOW,
    RECORD | STAGING,
    BROKEN,
)
EXCLUSIONS = ({}, {}, {}, {"reconciler/exclude": "true"}, {"reconciler/exclude-until": "2026-11-20T23:30:00Z"})


@st.composite
def workloads(draw: st.DrawFn, name: str) -> Any:
    """A workload behind the Service web: settled for the most part, and with any of what keeps it up."""
    chosen = draw(st.lists(st.sampled_from(ANNOTATIONS), max_size=2))
    fields: dict[str, Any] = {"annotations": {key: value for one in chosen for key, value in one.items()}}
    fields |= ROLLING if draw(st.booleans()) else {}
    fields["terminating"] = draw(st.integers(0, 9)) == 0
    fields["created_at"] = NOON - draw(st.sampled_from((timedelta(days=9), timedelta(hours=1))))
    fields["replicas"] = draw(st.sampled_from((3, 3, 3, 0)))
    return a_workload(name, template_labels={"app": "web"}, **fields)


@st.composite
def policies(draw: st.DrawFn, name: str = "p", service: str = "web") -> IdlingPolicy:
    holiday = ScheduleCriterion(a_calendar("Europe/Paris", "2026-11-23T00:00/2026-11-24T12:00"))
    choices = ((a_schedule(),), (a_metric(),), (a_schedule(), a_metric()), (a_schedule(), holiday))
    criteria = draw(st.sampled_from(choices))
    return a_policy(
        name,
        selector=services_selector(services=ObjectSelector((service,))),
        idle_when=draw(st.sampled_from((AllOf, AnyOf)))(criteria),
        min_age=draw(st.sampled_from((timedelta(0), timedelta(hours=12), timedelta(days=3)))),
        min_awake=draw(st.sampled_from((timedelta(0), timedelta(hours=2), timedelta(days=3)))),
        wake_when=draw(st.sampled_from(((), (WakeMetric("queue", 5, "30m"),)))),
        wake=draw(st.sampled_from(("Automatic", "OnSignal"))),
        mode=draw(st.sampled_from(("Enforce", "Enforce", "Observe"))),
        hpa=draw(st.sampled_from(("Idle", "Leave"))),
    )


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Something that runs, or was idled at night by the same policy, and up to two neighbours: behind its Service, or
    behind that of the first one."""
    policy, web = draw(policies()), draw(workloads("web"))
    second = draw(policies("q", "web2"))
    fleets = (a_fleet(), a_fleet(), of_state("ReadOnly"), of_state("Frozen"), a_fleet(protected_namespaces=("shop",)))
    neighbours = draw(st.sampled_from(((), ("api",), ("api", "db"))))
    labels = {"api": {"app": "web", "of": "api"}, "db": {"of": "api"}}
    both = {"of": "api"} if len(neighbours) > 1 else {"app": "web"}
    now, busy, waking = (draw(st.sampled_from(one)) for one in ((NOON, NIGHT, MONDAY), (0, 4, None), (0, 9, None)))
    hpas = (an_hpa(minimum=1),) if draw(st.booleans()) else ()
    if draw(st.booleans()):
        world = a_world(a_service(), a_service("web2", selector={"app": "web"}), a_workload(), now=NIGHT)
        run_in(world, *(a_policy(one.name, selector=one.selector, wake=one.wake) for one in (policy, second)))
        state, now = world.state(), draw(st.sampled_from((SOON, MONDAY)))
    else:
        service, namespace = (draw(st.sampled_from(EXCLUSIONS)) for _ in range(2))
        cluster = a_cluster(
            services=(a_service(annotations=service), a_service("web2", selector=both)),
            workloads=(web, *(replace(draw(workloads(name)), template_labels=labels[name]) for name in neighbours)),
            autoscalers=hpas,
            namespaces=(a_namespace("shop", annotations=namespace),),
        )
        state = a_state(cluster)
    return Situation(state, policy, draw(st.sampled_from(fleets)), now, busy, waking, second)


@tries(400, at_length=600)
@given(situation=situations())
def test_what_is_said_to_change_it_does(situation: Situation) -> None:
    for name, (outcome, change) in situation.outcomes().items():
        if change is not None:
            event(str(change.code))
            assert situation.where(change, name).outcomes()[name][0] != outcome, f"{name} {outcome} even if {change}"
