"""Every write of a run in its order: on what, after what, which fields change, which are only tested, and why.

The file writes.txt has what is expected: each write with its cause below it, and keys of annotations cut short.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, FieldChange
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.idling.restore import Restoration, decide_restore
from reconciler.model import FieldWriter, ObjectRef, OwnerReference, Workload
from reconciler.policy.kinds.idling_policy import GitOps
from reconciler.policy.types import (
    AnyOf,
    Autoscalers,
    Calendar,
    IdlingPolicy,
    ObjectSelector,
    ScheduleCriterion,
    Selector,
    WakeOrder,
    WeeklyWindow,
    WorkloadSelector,
    Writes,
)
from tests.builders import (
    a_cluster,
    a_fleet,
    a_ref,
    a_run,
    a_service,
    a_state,
    a_workload,
    an_endpoints,
    an_hpa,
    an_idle_record,
)
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    PARIS,
    a_metric,
    a_policy,
    a_schedule,
    answers,
    decided,
    of_state,
    run_in,
    workloads_selector,
)
from tests.decide.idling.world import World, a_world

APP = {"app": "web"}
WEB = a_ref("web")
SERVICE = a_ref("web", kind="Service")
HPA = a_ref(kind="HorizontalPodAutoscaler")
VICTIMS = a_ref(kind="Endpoints")
MINUTE = timedelta(minutes=1)
SHORTER = {"idling.kubernetes.io/": "", "reconciler/": "", "scale.kubernetes.io/": "scale/"}


def told(decisions: Sequence[Decision]) -> str:
    """The decisions as text, one paragraph each."""
    return "\n".join(line for decision in decisions for line in _told(decision))


def _told(decision: Decision) -> list[str]:
    order = ".".join(map(str, decision.order))
    group = decision.group.removeprefix("idling/east/shop/")
    scale = "" if decision.replicas_after is None else f" {decision.replicas_before}>{decision.replicas_after}"
    event = f" ({decision.event}{', counts' * decision.idles})" if decision.event else ""
    changes = {_short(one.path): one for one in decision.changes}
    cause = f"{decision.cause.policy}@{decision.cause.at.rpartition('/')[2]}: {decision.cause.why}"
    lines = {
        "after": [_need(need) for need in decision.needs],
        "unless changed": [key for key, one in changes.items() if one.before == one.after],
        "without": [key for key, one in changes.items() if one.before != one.after and one.after is None],
    }
    return [
        f"{decision.phase.name} {order} {decision.verb} {_name(decision.ref)}{scale}{event} of {group}",
        f"  {cause}",
        *(f"  {head}: {' '.join(words)}" for head, words in lines.items() if words),
        *(f"  {_set(key, one, cause)}" for key, one in changes.items() if one.after not in (None, one.before)),
    ]


def _name(ref: ObjectRef) -> str:
    return f"{ref.kind}/{ref.name}"


def _need(key: str) -> str:
    _, verb, *_, kind, name = key.removesuffix("/bounds").split("/")
    return f"{verb}:{kind}/{name}" + ("/bounds" if key.endswith("/bounds") else "")


def _short(path: tuple[str, ...]) -> str:
    key = path[-1]
    for long, short in SHORTER.items():
        key = key.replace(long, short)
    return key


def _set(key: str, change: FieldChange, cause: str) -> str:
    if key == "cause":
        said = json.loads(change.after)
        text = f"{said['policy']}@{said['at'].rpartition('/')[2]}: {said['why']}"
        return "cause" if text == cause else f"cause={text}"
    if key == "contested":
        said = json.loads(change.after)
        return f"{key} by {said['by']} since {said['since']}"
    if key == "last-idled":  # it has a digest of the hours too
        said = json.loads(change.after)
        return f"{key} by {said['policy']} at {max(said['hours'].values())}"
    if key.endswith("unidle-targets"):
        return f"{key}=" + " ".join(f"{one['name']}:{one['replicas']}" for one in json.loads(change.after))
    return f"{key}={change.after}"


def another(name: str, **fields: Any) -> Workload:
    """A workload that is behind Service/web too."""
    return a_workload(name, template_labels=APP, **fields)


def named(name: str) -> Selector:
    return Selector(workloads=WorkloadSelector((), ObjectSelector((name,))))


def running(*objects: Any) -> World:
    """Deployment/web behind Service/web, in a night."""
    return a_world(a_service(), a_workload(replicas=5), *objects, now=NIGHT)


def idle(*objects: Any, of: Sequence[IdlingPolicy] = (), writes: int | None = None) -> World:
    """The same a minute after a run of ours, which died after so many writes."""
    world = running(*objects)
    run_in(world, *of, writes=writes)
    return at(world, NIGHT + MINUTE)


def ran(world: World, *policies: IdlingPolicy) -> World:
    run_in(world, *policies)
    return world


def held(minimum: int = 1, maximum: int = 1) -> World:
    """Idle at 1 replica, where its autoscaler was held; the autoscaler has these bounds now."""
    world = idle(an_hpa(), of=[AT_ONE_REPLICA])
    world.objects[HPA] = replace(world.objects[HPA], minimum=minimum, maximum=maximum)
    return world


def raised(count: int) -> World:
    """Idle at 1 replica, where its autoscaler was not held yet, which scaled it up to `count`."""
    return scaled(idle(an_hpa(), of=[AT_ONE_REPLICA], writes=2), count, "kube-controller-manager")


def at(world: World, now: datetime) -> World:
    world.now = now
    return world


def texts(world: World, ref: ObjectRef, **values: str | None) -> World:
    """With other annotations of ours."""
    for name, text in values.items():
        world.annotate(ref, KEYS[name], text)
    return world


def without_any(world: World, ref: ObjectRef, *kept: str) -> World:
    """Without annotations, but for some; for a Deployment as after `kubectl rollout undo`."""
    left = {key: text for key, text in world.objects[ref].annotations.items() if key in kept}
    world.objects[ref] = replace(world.objects[ref], annotations=left)
    return world


def without_copies(world: World) -> World:
    """Without what was copied to ReplicaSets."""
    world.copies.clear()
    return world


def scaled(world: World, count: int, by: str = "helm") -> World:
    world.scale(WEB, count, by, timed=True)
    return world


def asked(world: World, ref: ObjectRef = WEB) -> World:
    return texts(world, ref, asked=world.now.isoformat())


def taken_over(world: World) -> World:
    return texts(world, WEB, reason="Maintenance")


def unproven(world: World) -> World:
    """Deployment/web without its record, where somebody else scaled it last."""
    without_any(world, WEB)
    world.objects[WEB] = replace(world.objects[WEB], replicas_writer=FieldWriter("kubectl", NIGHT))
    return world


def foreign() -> World:
    """Idle by `oc idle`, which marks a Service and its Endpoints."""
    marks = {
        f"idling.alpha.openshift.io/{key}": text for key, text in (("idled-at", PARIS_TIME), ("unidle-targets", LIST))
    }
    own = {"idling.alpha.openshift.io/idled-at": PARIS_TIME, "idling.alpha.openshift.io/previous-scale": "5"}
    return a_world(
        a_service(annotations=marks),
        an_endpoints(annotations=marks),
        a_workload(replicas=0, annotations=own),
        now=NIGHT + MINUTE,
    )


def foreign_pair() -> World:
    """The same with a second workload that the marks list."""
    world = foreign()
    for ref in (SERVICE, VICTIMS):
        world.annotate(
            ref, "idling.alpha.openshift.io/unidle-targets", LIST[:-1] + "," + LIST[1:].replace("web", "api")
        )
    return world.add(another("api", replicas=0, annotations=world.objects[WEB].annotations))


def measured(world: World) -> World:
    """Without traffic, for the policies idle-dev and quiet."""
    world.answers = answers(("web", 0)) | answers(("web", 0), policy="quiet")
    return world


def owned(world: World) -> World:
    """Somebody made ReplicaSet/rs one of Deployment/web."""
    ref = a_ref("rs", kind="ReplicaSet")
    owner = OwnerReference("apps/v1", "Deployment", "web", world.objects[WEB].uid)
    world.objects[ref] = replace(world.objects[ref], owner=owner)
    return world


def half_freed() -> World:
    """Idle at its idleReplicas, and its autoscaler has its bounds back from a run that died then."""
    world = at(held(), MONDAY)
    run_in(world, AT_ONE_REPLICA, writes=1)
    return at(world, MONDAY + MINUTE)


def half_woken() -> World:
    """Of two that were idle one is woken, by a run that died then."""
    world = asked(idle(another("api")))
    run_in(world, writes=1)
    return texts(world, WEB, asked=None)


def without(world: World, ref: ObjectRef) -> World:
    del world.objects[ref]
    return world


def wanted(world: World, *policies: IdlingPolicy, **fields: Any) -> Sequence[Decision]:
    return decided(world.state(), *policies, now=world.now, **fields).desired.decisions


def restored(world: World, **fields: Any) -> Sequence[Decision]:
    return decide_restore(a_fleet(), world.state(), a_run(world.now), Restoration(**fields)).decisions


def without_policies(world: World) -> Sequence[Decision]:
    return decide_wakes_due(a_fleet(), world.state(), a_run(world.now)).decisions


KEYS = {
    "asked": "reconciler/wake-requested-at",
    "awake": "reconciler/awake-since",
    "owner": "reconciler/owner",
    "idled_to": "reconciler/idled-to",
    "undone": "reconciler/undone",
    "reason": "scale.kubernetes.io/scale-reason",
    "released": "scale.kubernetes.io/previous-scale",
    "exclude": "reconciler/exclude",
    "previous": "idling.kubernetes.io/previous-scale",
    "at": "idling.kubernetes.io/idled-at",
    "targets": "idling.kubernetes.io/unidle-targets",
}
AT_ONE_REPLICA = a_policy(idle_replicas=1)
OTHER = a_policy("other")
MARKS = a_policy(mark_endpoints=True)
SUNDAY = ScheduleCriterion(Calendar(PARIS, "Europe/Paris", (WeeklyWindow(4, 20 * 60, 2, 7 * 60),), name="sunday"))
TWO = (a_policy(), a_policy("batch", SUNDAY, selector=named("api"), idle_replicas=1, wake_order=WakeOrder("", 5)))
OF_WEB = a_policy(selector=named("web"))
EITHER = a_policy(idle_when=AnyOf((a_schedule(), a_metric())))
WATCHED = a_policy("watch", mode="Observe", idle_replicas=1, selector=workloads_selector())
QUIET = a_policy("quiet", a_metric())
CRON = a_policy(selector=workloads_selector("CronJob"))
NIGHTLY = a_workload("nightly", kind="CronJob", replicas=None, suspend=False)
JOBS = a_workload("jobs", kind="ScaledObject", replicas=None, scale_target=("Deployment", "web"))
LIST = '[{"name":"web","kind":"Deployment","replicas":5}]'
PARIS_TIME = "2026-11-20T23:00:00+01:00"
EXCLUDED = {"reconciler/exclude": "true"}


def a_cron_world() -> World:
    world = a_world(NIGHTLY, now=NIGHT)
    run_in(world, CRON)
    return at(world, NIGHT + MINUTE)


SCENARIOS: Mapping[str, Callable[[], Sequence[Decision]]] = {
    "idle": lambda: wanted(running()),
    "due": lambda: wanted(at(idle(), MONDAY)),
    "half idled": lambda: wanted(at(idle(writes=1), MONDAY)),
    "half woken": lambda: wanted(half_woken()),
    "scaled by hand": lambda: wanted(scaled(idle(), 2)),
    "scaled by hand once more": lambda: wanted(
        scaled(texts(idle(), WEB, undone='{"by":"helm","at":"2026-11-13T22:01:00Z","count":1}'), 2)
    ),
    "scaled by hand, without its policy": lambda: without_policies(scaled(idle(another("api")), 2)),
    "taken over": lambda: wanted(taken_over(idle())),
    "taken over, what it had is told already": lambda: wanted(texts(taken_over(idle()), WEB, released="7")),
    "taken over, beside what goes idle": lambda: wanted(taken_over(idle()).add(another("new"))),
    "taken over, beside what is idle and what goes idle": lambda: wanted(
        taken_over(idle(another("api"))).add(another("new"))
    ),
    "taken over, beside what goes idle, with Endpoints": lambda: wanted(
        taken_over(idle(an_endpoints(), of=[MARKS])).add(another("new")), MARKS
    ),
    "more idleReplicas": lambda: wanted(idle(of=[AT_ONE_REPLICA]), a_policy(idle_replicas=2)),
    "fewer idleReplicas": lambda: wanted(idle(of=[a_policy(idle_replicas=2)]), AT_ONE_REPLICA),
    "fewer idleReplicas, at which it stands": lambda: wanted(
        scaled(idle(of=[a_policy(idle_replicas=2)]), 1), AT_ONE_REPLICA
    ),
    "other idleReplicas, on a frozen cluster": lambda: wanted(
        idle(of=[a_policy(idle_replicas=2)]), AT_ONE_REPLICA, fleet=of_state("Frozen")
    ),
    "other idleReplicas, where a policy observes": lambda: wanted(
        idle(of=[a_policy(idle_replicas=2)]), AT_ONE_REPLICA, WATCHED
    ),
    "other idleReplicas, where policies only observe": lambda: wanted(
        idle(of=[a_policy(idle_replicas=2)]), a_policy(idle_replicas=1, mode="Observe")
    ),
    "other idleReplicas, of two policies of one priority": lambda: wanted(
        idle(of=[a_policy(idle_replicas=2)]), AT_ONE_REPLICA, a_policy("same", SUNDAY, idle_replicas=1)
    ),
    "another schedule": lambda: wanted(idle(), a_policy("idle-dev", SUNDAY)),
    "a schedule no longer": lambda: wanted(measured(idle()), a_policy("idle-dev", a_metric())),
    "a schedule that is over, and no traffic": lambda: wanted(at(measured(idle()), MONDAY), EITHER),
    "a schedule that is over, of one of two": lambda: wanted(at(measured(idle()), MONDAY), EITHER, QUIET),
    "another policy": lambda: wanted(idle(), OTHER),
    "another policy, and its record names none": lambda: wanted(texts(idle(), WEB, owner="production"), OTHER),
    "another policy after other idleReplicas": lambda: wanted(
        at(ran(idle(of=[AT_ONE_REPLICA]), a_policy(idle_replicas=2)), NIGHT + 2 * MINUTE),
        a_policy("other", idle_replicas=2),
    ),
    "another policy that does not know": lambda: wanted(idle(), a_policy("other", a_metric())),
    "another policy wins": lambda: wanted(idle(), a_policy(), a_policy("other", priority=5)),
    "another name of the Fleet": lambda: wanted(
        idle(another("api")), fleet=a_fleet(name="prod", former_names=("production",))
    ),
    "its record is lost": lambda: wanted(without_any(idle(of=[AT_ONE_REPLICA]), WEB), AT_ONE_REPLICA),
    "its record is broken, and another policy's": lambda: wanted(texts(idle(), WEB, previous="x"), OTHER),
    "its record came back": lambda: wanted(scaled(texts(idle(), WEB, awake="2026-11-20T22:00:30Z"), 5)),
    "its record is broken, and it runs": lambda: wanted(texts(scaled(idle(another("api")), 5), WEB, previous="x")),
    "a list without proof": lambda: wanted(unproven(idle(another("api")))),
    "a list without proof, adopted": lambda: restored(
        unproven(idle(another("api"))), objects=lambda ref: ref == WEB, adopt=True
    ),
    "a list without proof, alone": lambda: wanted(unproven(scaled(idle(of=[AT_ONE_REPLICA]), 0)), AT_ONE_REPLICA),
    "a list that cannot be read": lambda: wanted(at(texts(idle(), SERVICE, targets="[{"), MONDAY)),
    "idled by others": lambda: wanted(foreign()),
    "idled by others, and it runs": lambda: wanted(scaled(foreign(), 3)),
    "idled by others and asked for": lambda: wanted(asked(foreign())),
    "idled by others and asked for, in two tiers": lambda: wanted(asked(foreign_pair(), SERVICE), *TWO),
    "one of two is asked for": lambda: wanted(asked(idle(another("api")))),
    "one of two is asked for, without policies": lambda: without_policies(asked(idle(another("api")))),
    "one of two is restored": lambda: restored(idle(another("api")), objects=lambda ref: ref == WEB, hold_until=MONDAY),
    "one of two by hand, the other one asked for": lambda: wanted(asked(scaled(idle(another("api")), 2), a_ref("api"))),
    "one of two is gone": lambda: wanted(without(idle(another("api")), a_ref("api"))),
    "one of two is gone, and nothing is restored": lambda: restored(
        without(idle(another("api")), a_ref("api")), objects=lambda _: False
    ),
    "one of two has an owner now": lambda: wanted(
        owned(idle(a_workload("rs", kind="ReplicaSet", template_labels=APP)))
    ),
    "two policies": lambda: wanted(running(another("api")), *TWO),
    "two policies, of which one stays": lambda: wanted(idle(another("api"), of=TWO), TWO[1]),
    "two policies, what one of them idled is restored": lambda: restored(
        idle(another("api"), of=TWO), objects=lambda ref: ref == a_ref("api")
    ),
    "two policies, neither of the Service": lambda: wanted(idle(another("api"), of=TWO), OF_WEB, TWO[1]),
    "two policies, neither of the Service nor its owner": lambda: wanted(
        texts(idle(another("api"), of=TWO), SERVICE, owner="production/IdlingPolicy/former"), OF_WEB, TWO[1]
    ),
    "two policies, both due": lambda: wanted(at(idle(another("api"), of=TWO), MONDAY), *TWO),
    "the mark is lost": lambda: wanted(without_any(idle(), SERVICE)),
    "the mark is lost but for its owner": lambda: wanted(without_any(idle(), SERVICE, KEYS["owner"])),
    "the mark is written otherwise": lambda: wanted(texts(idle(), SERVICE, at=PARIS_TIME, targets=LIST), OTHER),
    "the mark is written otherwise, and gets longer": lambda: wanted(
        texts(idle(), SERVICE, at=PARIS_TIME, targets=LIST).add(another("new"))
    ),
    "a second Service, of which something stays up": lambda: wanted(
        idle().add(a_service("late", selector={"app": "web"}), another("new", annotations=EXCLUDED))
    ),
    "a second Service": lambda: wanted(idle().add(a_service("late", selector={"app": "web"}))),
    "Endpoints": lambda: wanted(running(an_endpoints()), MARKS),
    "Endpoints, due": lambda: wanted(at(idle(an_endpoints(), of=[MARKS]), MONDAY)),
    "Endpoints, another policy": lambda: wanted(
        idle(an_endpoints(), of=[MARKS]), a_policy("other", mark_endpoints=True)
    ),
    "Endpoints, and one more": lambda: wanted(idle(an_endpoints(), of=[MARKS]).add(another("new")), MARKS),
    "Endpoints from now on": lambda: wanted(idle(an_endpoints()), MARKS),
    "Endpoints from now on, by one of two policies": lambda: wanted(
        idle(an_endpoints()), a_policy(), a_policy("marks", mark_endpoints=True)
    ),
    "Endpoints, the mark on the Service is lost": lambda: wanted(
        without_any(idle(an_endpoints(), of=[MARKS]), SERVICE), MARKS
    ),
    "an autoscaler": lambda: wanted(running(an_hpa()), AT_ONE_REPLICA),
    "an autoscaler, due": lambda: wanted(at(held(), MONDAY), AT_ONE_REPLICA),
    "an autoscaler with another owner, at none, due": lambda: wanted(
        at(texts(idle(an_hpa()), HPA, owner="production/FederatedReplicaSet/shop/web"), MONDAY)
    ),
    "an autoscaler, half woken": lambda: wanted(half_freed(), AT_ONE_REPLICA),
    "an autoscaler that was not held yet": lambda: wanted(
        idle(an_hpa(), of=[AT_ONE_REPLICA], writes=2), AT_ONE_REPLICA
    ),
    "an autoscaler that was not held yet and raised it": lambda: wanted(raised(2), AT_ONE_REPLICA),
    "an autoscaler that was not held yet and raised it, frozen": lambda: wanted(
        raised(2), AT_ONE_REPLICA, fleet=of_state("Frozen")
    ),
    "an autoscaler that was not held yet and raised it above its record, due": lambda: wanted(
        at(raised(7), MONDAY), AT_ONE_REPLICA
    ),
    "an autoscaler that was not held yet, and nothing is restored": lambda: restored(
        idle(an_hpa(), of=[AT_ONE_REPLICA], writes=2), objects=lambda _: False
    ),
    "an autoscaler with another number for its idleReplicas": lambda: wanted(
        texts(held(), HPA, idled_to="2"), AT_ONE_REPLICA
    ),
    "an autoscaler with another number for its idleReplicas, due": lambda: wanted(
        at(texts(held(), HPA, idled_to="2"), MONDAY), AT_ONE_REPLICA
    ),
    "an autoscaler, a list without proof": lambda: wanted(unproven(held()), AT_ONE_REPLICA),
    "an autoscaler whose bounds were restored": lambda: wanted(held(2, 10), AT_ONE_REPLICA),
    "an autoscaler with a bound that was changed": lambda: wanted(held(1, 4), AT_ONE_REPLICA),
    "an autoscaler, scaled by hand": lambda: wanted(scaled(held(), 3), AT_ONE_REPLICA),
    "an autoscaler, scaled by hand, without its policy": lambda: without_policies(scaled(held(), 3)),
    "an autoscaler, another policy": lambda: wanted(held(), a_policy("other", idle_replicas=1)),
    "an autoscaler, taken over": lambda: wanted(taken_over(held()), AT_ONE_REPLICA),
    "an autoscaler, idleReplicas of none": lambda: wanted(held()),
    "an autoscaler, at none, taken over": lambda: wanted(taken_over(idle(an_hpa()))),
    "an autoscaler, more idleReplicas": lambda: wanted(held(), a_policy(idle_replicas=2)),
    "an autoscaler, held for nothing": lambda: wanted(
        without_copies(without_any(without_any(held(), WEB), SERVICE)), AT_ONE_REPLICA
    ),
    "a CronJob": lambda: wanted(a_world(NIGHTLY, now=NIGHT), CRON),
    "a CronJob, due": lambda: wanted(at(a_cron_world(), MONDAY), CRON),
    "a CronJob, taken over": lambda: wanted(texts(a_cron_world(), NIGHTLY.ref, reason=""), CRON),
    "a ScaledObject": lambda: wanted(running(JOBS)),
    "a ScaledObject, due": lambda: wanted(at(idle(JOBS), MONDAY)),
    "a ScaledObject, taken over": lambda: wanted(texts(idle(JOBS), JOBS.ref, reason="Maintenance")),
}


def sections() -> dict[str, str]:
    """The writes of each scenario as the file beside this one says."""
    found = Path(__file__).with_name("writes.txt").read_text().split("== ")[1:]
    return {name: body.strip("\n") for name, _, body in (one.partition("\n") for one in found)}


EXPECTED = sections()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_write_in_its_order(name):
    decisions = SCENARIOS[name]()
    assert told(decisions) == EXPECTED[name]
    assert [one.key for one in decisions if one.removed and one.writes is not Writes.EVERYTHING] == []  # freezes count


def test_the_file_has_these_scenarios():
    assert list(EXPECTED) == list(SCENARIOS)


def test_what_goes_idle_beside_others_is_written_as_it_is_alone():
    """Also beside what is like it but for its kind, annotations, labels, replicas, policy, requests or writer."""
    nights = a_policy(
        "nights",
        idle_replicas=1,
        autoscalers=Autoscalers("LowerMinimum"),
        git_ops=GitOps("Pause"),
        on_revert="Insist",
        selector=workloads_selector("Deployment", "Gadget", "Widget"),
    )
    other = Selector(workloads=WorkloadSelector(objects=ObjectSelector(("other",))))
    policies = nights, replace(nights, name="other", priority=1, selector=other), a_policy("asked", a_metric(at_most=2))
    reverted = an_idle_record(owner="production/IdlingPolicy/nights")
    workloads = [
        *(a_workload("a", kind=kind) for kind in ("Deployment", "Gadget", "Widget")),
        *(a_workload(name) for name in ("b", "asked", "asked-twice", "other")),
        a_workload("annotated", annotations={"reconciler/exclude": "false"}),
        a_workload("flux", labels={"kustomize.toolkit.fluxcd.io/name": "apps"}),
        a_workload("five", replicas=5),
        *(
            a_workload(f"reverted-by-{by}", annotations=reverted, replicas_writer=FieldWriter(by, NIGHT))
            for by in ("argocd-controller", "kustomize-controller")
        ),
        a_workload("scaled", replicas=5),
    ]
    cluster = a_cluster(
        workloads=tuple(workloads),
        services=tuple(map(a_service, ("asked", "asked-twice"))),
        autoscalers=(an_hpa("scaled", minimum=3),),
    )
    state = a_state(cluster, answers=answers(("asked", 1), ("asked-twice", 2), policy="asked"))
    together = decided(state, *policies).desired.decisions
    assert sorted(one.ref.name for one in together if one.idles) == sorted(one.ref.name for one in workloads)
    for workload in workloads:
        part = replace(state, clusters={"east": replace(cluster, workloads=(workload,))})
        alone = {one.key: one for one in decided(part, *policies).desired.decisions if one.idles}
        assert list(alone.values()) == [one for one in together if one.key in alone] != []
