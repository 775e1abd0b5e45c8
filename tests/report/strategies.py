"""Random plans, as wide as their types allow."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.connection_settings import PickerHeader, PodPicker, SecretKey
from reconciler.decide.decisions import (
    Cause,
    Decision,
    DownscaleSettings,
    FieldChange,
    HeldBack,
    LimitUse,
    Notice,
    Overridden,
    Phase,
    PlacementRow,
    PlacementView,
    Undecided,
    Verb,
    VictimForecast,
)
from reconciler.decide.reasons import Reason, ReasonCode
from reconciler.model import ObjectRef
from reconciler.plan.model import Plan
from reconciler.plan.order import numbered_actions

# characters a file can hold: anything but lone surrogates
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ("", "web", "a|b", "`code`", "<b>&amp;</b>", "@team", "a~/b", "line\nbreak", "\x1b[31m", "#12", "https://x.example")
)
names = st.sampled_from(("web", "api", "worker", "db")) | texts
clusters = st.sampled_from(("east", "west", "north"))
numbers = st.integers(0, 10**6)
jobs = st.sampled_from(("idling", "placement", "downscale"))
numbers_or_none = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    numbers_or_none | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
manifests = st.dictionaries(texts, json_values, max_size=3)
value_names = st.sampled_from(("at", "since", "until", "name", "value", "policies", "timeZone", "text")) | texts
values = numbers_or_none | texts | st.just("2026-11-20T15:41:23Z") | st.lists(texts, max_size=2)
reasons = st.lists(
    st.builds(Reason, st.sampled_from(ReasonCode), st.dictionaries(value_names, values, max_size=3)), max_size=3
).map(tuple)
causes = st.builds(Cause, texts, texts, reasons, st.dictionaries(texts, json_values, max_size=2))
refs = st.builds(ObjectRef, clusters, names, st.sampled_from(("Deployment", "Service", "CronJob")), names, texts)
headers = st.builds(PickerHeader, texts, st.none() | texts, st.none() | st.builds(SecretKey, texts, texts))
seconds = st.floats(0, 100)
pickers = st.builds(
    PodPicker,
    host=texts,
    port=st.integers(1, 65535),
    scheme=st.sampled_from(("http", "https")),
    path=texts,
    headers=st.lists(headers, max_size=2).map(tuple),
    ca_bundle=st.none() | texts,
    allow_insecure_auth=st.booleans(),
    max_retries=st.integers(0, 9),
    timeout_seconds=seconds,
    on_error=st.sampled_from(("fallback", "skip")),
    on_too_few=st.sampled_from(("fill", "reject")),
)
downscales = st.builds(
    DownscaleSettings,
    policy=texts,
    strategy=st.sampled_from(("Logarithmic", "NewestFirst", "ZoneBalanced", "PodPicker")),
    picker=st.none() | pickers,
    logarithm_base=seconds,
    topology_key=texts,
    on_foreign_cost=st.sampled_from(("Skip", "Override")),
    settle_seconds=seconds,
    verify_seconds=seconds,
)


@st.composite
def forecasts(draw):
    pods = draw(st.lists(names, max_size=4))
    return VictimForecast(
        pods=tuple(pods),
        certain=draw(st.booleans()),
        strategy=draw(texts),
        rules=tuple(draw(texts) for _ in pods),
        chosen_at_apply=draw(st.booleans()),
        count=draw(numbers),
        requested=draw(numbers),
        candidates=draw(numbers),
        age_ratios=tuple(draw(st.none() | seconds) for _ in pods),
        note=draw(texts),
        deferred=draw(st.booleans()),
    )


changes = st.lists(
    st.builds(FieldChange, st.lists(texts, min_size=1, max_size=3).map(tuple), json_values, json_values),
    max_size=3,
    unique_by=lambda change: change.path,
).map(tuple)


@st.composite
def decisions(draw, key, earlier):
    verb = draw(st.sampled_from(list(Verb)))
    group = draw(st.sampled_from(("idling/east/dev/Service/api", "placement/shop/web")))
    mates = [decision.key for decision in earlier if decision.group == group]
    manifest = draw(manifests) if verb is Verb.CREATE else draw(st.none() | manifests)
    return Decision(
        key=key,
        job=draw(jobs),
        verb=verb,
        phase=draw(st.sampled_from(list(Phase))),
        ref=draw(refs),
        api_version=draw(texts),
        uid=draw(st.none() | texts),
        changes=draw(changes),
        cause=draw(causes),
        group=group,
        order=tuple(draw(st.lists(st.integers(-9, 9), max_size=2))),
        needs=draw(_some(mates)),
        manifest=manifest,
        orphan=draw(st.booleans()),
        replicas_before=draw(st.none() | numbers),
        replicas_after=draw(st.none() | numbers),
        victims=draw(st.none() | forecasts()),
        downscale=draw(st.none() | downscales),
        wake_tier=draw(st.sampled_from(("", f"tier/{key}"))),
        wait_ready=draw(st.sampled_from(["", *(decision.wake_tier for decision in earlier)])),
        event=draw(texts),
        idles=draw(st.booleans()),
        known=draw(st.booleans()),
        wait_activator=draw(st.booleans()),
        has_annotations=draw(st.booleans()),
        has_labels=draw(st.booleans()),
    )


def _some(keys):
    if not keys:
        return st.just(())
    return st.lists(st.sampled_from(keys), max_size=2, unique=True).map(tuple)


@st.composite
def decision_lists(draw, prefix, max_size=3):
    found: list[Decision] = []
    for n in range(draw(st.integers(0, max_size))):
        found.append(draw(decisions(f"{prefix}{n}", found)))
    return tuple(found)


limits = st.builds(
    LimitUse,
    name=texts,
    unit=st.sampled_from(("workloads", "replicas")),
    used=numbers,
    allowed=numbers,
    base=numbers,
    cluster=clusters | st.just(""),
    policy=texts,
)


@st.composite
def held_back(draw):
    return HeldBack(
        policy=draw(texts), why=draw(texts), decisions=draw(decision_lists("held")), limits=draw(_tuples(limits))
    )


rows = st.builds(
    PlacementRow,
    cluster=clusters,
    desired=st.none() | numbers,
    spec_replicas=st.none() | numbers,
    current=st.none() | numbers,
    running=st.none() | numbers,
    capacity=st.none() | numbers,
    overflow=numbers,
    reasons=reasons,
)
few = {"max_size": 2}


def _tuples(one):
    return st.lists(one, **few).map(tuple)


@st.composite
def plans(draw):
    found = draw(decision_lists("do", max_size=4))
    named = {decision.ref.cluster for decision in found} | draw(st.sets(clusters))
    return Plan(
        time_zones=draw(st.sampled_from([(), ("Europe/Paris",), ("Asia/Tokyo", "Europe/Paris")])),
        made_at=draw(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))),
        run=draw(texts),
        fleet=draw(texts),
        policy_digest=draw(texts),
        input_digest=draw(texts),
        clusters={name: draw(texts) for name in sorted(named)},
        actions=numbered_actions(found),
        held_back=draw(_tuples(held_back())),
        observed=draw(decision_lists("observed")),
        undecided=draw(_tuples(st.builds(Undecided, texts, jobs, texts, reasons))),
        overridden=draw(_tuples(st.builds(Overridden, refs, jobs, texts, texts, texts, reasons))),
        unknown=draw(st.dictionaries(texts, texts, **few)),
        notices=draw(_tuples(st.builds(Notice, texts, texts, texts, texts, st.booleans(), reasons))),
        limits=draw(_tuples(limits)),
        placements=draw(_tuples(st.builds(PlacementView, texts, numbers, _tuples(rows)))),
        dropped=draw(numbers),
        revision=draw(texts),
        source=draw(st.sampled_from(("live", "snapshot"))),
    )


@st.composite
def outcomes_of(draw, plan):
    """Outcomes for some of the actions of `plan`, in their order."""
    done = [action for action in plan.actions if draw(st.integers(0, 4))]
    return tuple(
        Outcome(
            action=action.id,
            status=draw(st.sampled_from(list(OutcomeStatus))),
            message=draw(texts),
            hit=draw(st.integers(0, 9)),
            missed=draw(st.integers(0, 9)),
            substituted=draw(st.integers(0, 9)),
            locked=draw(st.booleans()),
            picker_failed=draw(st.booleans()),
        )
        for action in done
    )
