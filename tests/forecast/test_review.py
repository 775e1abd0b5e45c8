"""A change of policies on manifests that others wrote: what the comment must say, edit by edit."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.forecast.json import review_to_dict
from reconciler.forecast.review import Review, SelectionChange, narrowed, review_of
from reconciler.forecast.review_report import render_markdown, render_text
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.timelines import Forecast, forecast
from reconciler.labels import LabelSelector
from reconciler.messages import counted
from reconciler.model import ObjectRef
from reconciler.plan.filters import Filters
from reconciler.policy.policy_changes import PolicyChanges, PolicyFieldChange, Renamed
from reconciler.policy.types import PolicySet
from reconciler.report.markdown import LONGEST_TEXT
from tests.forecast.random_fleets import RecordedRequests, document, first_of, policy_set
from tests.pipeline.calls import Folder, Said
from tests.report.rendered import page_of_markdown

FRIDAY_NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FRIDAY_NIGHT = datetime(2026, 11, 20, 21, tzinfo=UTC)
DAYS = timedelta(days=3)
Documents = dict[str, dict[str, Any]]
Objects = dict[str, list[dict[str, Any]]]

FILES = {
    "dev": "online-boutique/kubernetes-manifests.yaml",
    "prod-shop": "guestbook/guestbook-all-in-one.yaml",
    "qa": "cassandra/cassandra-statefulset.yaml",
}
PLACED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: router, namespace: edge}
spec:
  replicas: 3
  selector: {matchLabels: {app: router}}
  template: {metadata: {labels: {app: router}}, spec: {containers: [{name: router, image: router}]}}
"""


@pytest.fixture(scope="module")
def objects(shared: Path) -> Objects:
    """The manifests of others in cluster eu, a namespace for each folder; a router in both clusters."""
    found: list[dict[str, Any]] = []
    for namespace, file in FILES.items():
        read = yaml.safe_load_all((shared / "real-input" / file).read_text())
        kept = [one for one in read if one and one["kind"] in ("Deployment", "StatefulSet", "Service")]
        found += [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in kept]
    return {"eu": [*found, yaml.safe_load(PLACED)], "us": [yaml.safe_load(PLACED)]}


def policies() -> Documents:
    """The base of all edits, by name."""
    nights = {"timeZone": "UTC", "downtime": ["20:00-06:00"]}
    calendar = {**nights, "exceptions": [{"from": "2026-11-21T20:00:00", "to": "2026-11-22T06:00:00"}]}
    dev = {"namespaces": {"include": ["dev"]}, "services": {}}
    requests = {"metric": {"query": "requests", "atMost": 0, "window": "30m", "noSeries": "Zero"}}
    picker = {"http": {"host": "picker.prod-shop.svc", "path": "/"}}
    limit = {"share": "100%", "atLeast": 100}
    found = [
        document(
            "Fleet",
            "real",
            {
                "home": "eu",
                "clusters": [{"name": "eu"}, {"name": "us"}],
                "limits": {"default": {"perCluster": limit, "fleet": limit}},
            },
        ),
        document("Calendar", "nights", calendar),
        document("IdlingPolicy", "dev", {"selector": dev, "idleWhen": [{"schedule": {"calendar": "nights"}}]}),
        document(
            "IdlingPolicy",
            "late",
            {
                "selector": {"namespaces": {"include": ["dev"]}, "services": {"include": ["adservice"]}},
                "priority": -1,
                "idleWhen": [{"anyOf": [requests, {"schedule": {"timeZone": "UTC", "downtime": ["23:00-06:00"]}}]}],
            },
        ),
        document(
            "DownscalePolicy",
            "frontends",
            {
                "production": True,
                "selector": {
                    "namespaces": {"include": ["prod-shop"]},
                    "workloads": {"kinds": ["Deployment"], "include": ["frontend"]},
                },
                "target": {"replicas": 2},
                "podPicker": picker,
            },
        ),
        document(
            "FederatedReplicaSet",
            "router",
            {
                "replicas": 6,
                "preferences": {"rebalance": True, "clusters": {"eu": {"weight": 1}, "us": {"weight": 1}}},
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "router"},
            },
            namespace="edge",
        ),
    ]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in found}


def spec(name: str, **fields: Any) -> Callable[[Documents], None]:
    """Return an edit that sets fields of the spec of one document."""

    def edit(documents: Documents) -> None:
        documents[name]["spec"] |= copy.deepcopy(fields)

    return edit


def reviewed(
    objects: Objects,
    edit: Callable[[Documents], None],
    *,
    before: Callable[[Documents], None] | None = None,
    start: datetime = FRIDAY_NOON,
) -> Review:
    """Return the review of `edit`; what `start` finds was made by a run an hour before it."""
    new = policies()
    if before is not None:
        before(new)
    edit(new)
    key = (id(objects), before, start)
    if key not in _bases:
        _bases[key] = (objects, *based(objects, before, start))  # with the objects: their id is of no others as long
    _, base, now, played = _bases[key]
    head = policy_set(list(new.values()))
    changed = forecast(head, Simulation(head, now), start, start + DAYS)
    return review_of((base, head), (played, changed), (played.first, changed.first))


_bases: dict[tuple[int, Any, datetime], tuple[Objects, PolicySet, Opened, Forecast]] = {}
"""What many edits are compared with."""


def based(
    objects: Objects, before: Callable[[Documents], None] | None, start: datetime
) -> tuple[PolicySet, Opened, Forecast]:
    """Return the policies before an edit, what `start` finds, and what they do from then on."""
    old = policies()
    if before is not None:
        before(old)
    base = policy_set(list(old.values()))
    metrics = RecordedRequests(frozenset({"adservice"}))

    def opened(clusters: dict[str, MemoryCluster]) -> Opened:
        return Opened({name: Backend(name, cluster=one, metrics=metrics) for name, one in clusters.items()})

    made = {name: MemoryCluster.of_manifests(name, copy.deepcopy(found), first_of) for name, found in objects.items()}
    earlier = Simulation(base, opened(made))
    for _ in earlier.play(start - timedelta(hours=1), start - timedelta(minutes=10)):
        pass
    now = opened(dict(earlier.clusters))
    return base, now, forecast(base, Simulation(base, now), start, start + DAYS)


def renamed(name: str, other: str) -> Callable[[Documents], None]:
    def edit(documents: Documents) -> None:
        documents[name]["metadata"]["name"] = other

    return edit


def without(*names: str) -> Callable[[Documents], None]:
    def edit(documents: Documents) -> None:
        for name in names:
            del documents[name]

    return edit


def production_selected(documents: Documents) -> None:
    documents["IdlingPolicy dev"]["spec"]["selector"].update(namespaces={"include": ["dev", "prod-*"]})
    documents["IdlingPolicy dev"]["spec"]["production"] = True


def cluster_frozen(documents: Documents) -> None:
    documents["Fleet real"]["spec"]["clusters"][0]["state"] = "Frozen"


def late_without_dev(documents: Documents) -> None:
    del documents["IdlingPolicy dev"]


RAY = {"apiVersion": "ray.io/v1", "kind": "RayCluster"}
STAYS_OFF = "From Sat 2026-11-21 06:00: 1 idle workload that wakes today stays idle. 0 replica-hours (0 %) in 3 days."


def switched(documents: Documents) -> None:
    documents["Fleet real"]["spec"]["switches"] = [RAY]
    documents["IdlingPolicy dev"]["spec"]["selector"]["workloads"] = {"kinds": ["RayCluster"]}


def with_ray(objects: Objects) -> Objects:
    return {**objects, "eu": [*objects["eu"], {**RAY, "metadata": {"name": "ray", "namespace": "dev"}, "spec": {}}]}


def without_eu(documents: Documents) -> None:
    documents["Fleet real"]["spec"].update(home="us", clusters=[{"name": "us"}])
    del documents["FederatedReplicaSet router"]["spec"]["preferences"]["clusters"]["eu"]


def limited(documents: Documents) -> None:
    """The limits are those that a Fleet has by default, and policies select nothing yet."""
    documents["Fleet real"]["spec"]["limits"] = {}
    documents["IdlingPolicy dev"]["spec"]["mode"] = "Observe"


def clusters_by_label(documents: Documents) -> None:
    """Each cluster says what it is for, and all in eu is production."""
    for cluster, env in zip(documents["Fleet real"]["spec"]["clusters"], ("prod", "dev"), strict=True):
        cluster["labels"] = {"env": env}
    documents["Fleet real"]["spec"]["production"] = {"namespaces": ["dev", "prod-*", "qa", "edge"]}
    documents["IdlingPolicy dev"]["spec"]["selector"] = {
        "clusters": {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
        "namespaces": {"include": ["dev", "qa", "prod-*"]},
        "services": {},
    }


def not_in_dev(documents: Documents) -> None:
    selector = documents["IdlingPolicy dev"]["spec"]["selector"]
    selector["clusters"]["matchExpressions"][0]["values"] = ["dev"]


without_production = spec("Fleet real", production={"namespaces": []})


def new_policy(mode: str) -> Callable[[Documents], None]:
    def edit(documents: Documents) -> None:
        nights = {"schedule": {"calendar": "nights"}}
        selector = {"namespaces": {"include": ["prod-shop"]}, "services": {}}
        fields = {"selector": selector, "mode": mode, "idleWhen": [nights]}
        documents["IdlingPolicy shop"] = document("IdlingPolicy", "shop", fields)

    return edit


@dataclass(frozen=True)
class Edit:
    """An edit, the line that the comment begins with, and what else it must say."""

    edit: Callable[[Documents], None]
    first: str
    says: tuple[str, ...] = ()
    start: datetime = FRIDAY_NOON
    before: Callable[[Documents], None] | None = None
    objects: Callable[[Objects], Objects] = lambda objects: objects
    effect: bool = True


EVENING = "From Fri 2026-11-20 20:00:"
NO_LONGER = "11 workloads that idle or run fewer replicas today no longer do. +220 replica-hours (+13 %) in 3 days."
ONE_NO_LONGER = "1 workload that idles or runs fewer replicas today no longer does."
EDITS = {
    "mode": Edit(
        spec("IdlingPolicy dev", mode="Observe"),
        f"{EVENING} 10 workloads that idle or run fewer replicas today no longer do; 1 workload runs at other times. "
        "+199 replica-hours (+12 %) in 3 days.",
        ("spec.mode: Enforce -> Observe",),
    ),
    "anyOf to allOf": Edit(
        lambda documents: documents["IdlingPolicy late"]["spec"].update(
            idleWhen=documents["IdlingPolicy late"]["spec"]["idleWhen"][0]["anyOf"]
        ),
        f"From Fri 2026-11-20 23:00: {ONE_NO_LONGER} +21 replica-hours (+1 %) in 3 days.",
        ("eu/dev/Deployment/adservice", "spec.idleWhen: [{"),
        before=late_without_dev,
    ),
    "idleReplicas": Edit(
        spec("IdlingPolicy dev", idleReplicas=1), f"{EVENING} {NO_LONGER}", ("spec.idleReplicas: 0 -> 1",)
    ),
    "priority": Edit(
        spec("IdlingPolicy late", priority=9),
        f"{EVENING} 1 workload runs at other times. -1 replica-hours (0 %) in 3 days.",
        ("eu/dev/Deployment/adservice", "spec.priority: -1 -> 9"),
    ),
    "a calendar exception deleted": Edit(
        spec("Calendar nights", exceptions=[]),
        "From Sat 2026-11-21 20:00: 11 workloads run at other times. -110 replica-hours (-7 %) in 3 days.",
        ("Calendar nights", "spec.exceptions: [{"),
    ),
    "a cluster frozen": Edit(
        cluster_frozen, f"{EVENING} {NO_LONGER}", ("spec.clusters[eu].state: Active -> Frozen", "The Fleet is changed")
    ),
    "a policy renamed": Edit(
        renamed("IdlingPolicy dev", "develop"),
        "No workload runs more or less in the next 3 days; the next run differs.",
        (
            "IdlingPolicy dev is now called IdlingPolicy develop",
            "11 of the 11 workloads it keeps idle run as without this change",
        ),
        start=FRIDAY_NIGHT,
        effect=False,
    ),
    "the Fleet renamed": Edit(
        renamed("Fleet real", "other"),
        "From Sat 2026-11-21 06:00: 11 idle workloads that wake today stay idle. -572 replica-hours (-35 %) in 3 days.",
        (
            "The Fleet is changed (metadata.name)",
            "metadata.name: real -> other",
            "11 idle workloads stay idle, as no run wakes what the former Fleet idled; "
            "first run `reconciler restore --all --hold 12h`",
        ),
        start=FRIDAY_NIGHT,
    ),
    "a cluster removed": Edit(
        without_eu,
        "Production: 1 workload in eu no longer selected; 3 workloads in eu no longer production; "
        "3 workloads in eu run in another way.",
        ("11 idle workloads that wake today stay idle; 1 workload runs more", "`reconciler restore --all --hold 12h`"),
        start=FRIDAY_NIGHT,
    ),
    "a switch removed": Edit(
        spec("Fleet real", switches=[]),
        STAYS_OFF,
        ("1 idle workload stays idle, as", "`reconciler restore OBJECT --hold 12h`", "1 workload no longer selected"),
        before=switched,
        objects=with_ray,
        start=FRIDAY_NIGHT,
    ),
    "another value of a switch": Edit(
        spec("Fleet real", switches=[{**RAY, "path": "spec.suspend", "off": "yes"}]),
        STAYS_OFF,
        ("1 idle workload stays idle, as", "`reconciler restore OBJECT --hold 12h`"),
        before=switched,
        objects=with_ray,
        start=FRIDAY_NIGHT,
    ),
    "production selected by mistake": Edit(
        production_selected,
        "Production: 3 workloads in eu newly selected; 3 workloads in eu run in another way.",
        ("eu/prod-shop/Deployment/frontend", 'namespaces.include: ["dev"] -> ["dev", "prod-*"]'),
    ),
    "a folder deleted": Edit(
        without("IdlingPolicy dev", "IdlingPolicy late"),
        f"From Fri 2026-11-20 21:00: {NO_LONGER}",
        ("IdlingPolicy dev is removed", "of the 11 workloads it keeps idle", "11 workloads no longer selected"),
        start=FRIDAY_NIGHT,
    ),
    "a picker's host": Edit(
        spec("DownscalePolicy frontends", podPicker={"http": {"host": "other.prod-shop.svc", "path": "/"}}),
        "No effect in the next 3 days.",
        ("spec.podPicker.http.host: picker.prod-shop.svc -> other.prod-shop.svc",),
        effect=False,
    ),
    "a placement weight": Edit(
        lambda documents: documents["FederatedReplicaSet router"]["spec"]["preferences"]["clusters"]["eu"].update(
            weight=5
        ),
        "From Fri 2026-11-20 12:00: 1 workload in 1 namespace idles or runs fewer replicas that does not today; "
        "1 workload runs more replicas. 0 replica-hours (0 %) in 3 days.",
        ("eu/edge/Deployment/router", "us/edge/Deployment/router", "clusters.eu.weight: 1 -> 5"),
    ),
    "NotIn [prod] becomes NotIn [dev]": Edit(
        not_in_dev,
        "Production: 13 workloads in eu left out, because no policy that selects them says production: true.",
        before=clusters_by_label,
    ),
    "all of it is over a limit": Edit(
        spec("IdlingPolicy dev", mode="Enforce"),
        "Held back: dev: 11 workloads would go idle for the first time, limit 5 in eu; to allow: add "
        "`limits: {workloads: 13}` to policies/all.yaml:6.",
        before=limited,
    ),
    "a policy that enforces is new": Edit(
        new_policy("Enforce"),
        f"{EVENING} 3 workloads in 1 namespace idle or run fewer replicas that do not today. -100 replica-hours (-6 %) "
        "in 3 days.",
        before=without_production,
    ),
    "a policy that observes is new": Edit(
        new_policy("Observe"),
        "3 workloads newly selected; none runs more or less in the next 3 days.",
        before=without_production,
    ),
    "a lower target": Edit(
        spec("DownscalePolicy frontends", target={"replicas": 1}), "Production: 1 workload in eu runs in another way."
    ),
    "more replicas": Edit(
        spec("FederatedReplicaSet router", replicas=9),
        "From Fri 2026-11-20 12:00: 2 workloads run more replicas. +216 replica-hours (+13 %) in 3 days.",
    ),
}


@pytest.mark.parametrize("edit", [pytest.param(edit, id=name) for name, edit in EDITS.items()])
def test_what_the_comment_says_of_an_edit(objects: Objects, edit: Edit) -> None:
    found = reviewed(edit.objects(objects), edit.edit, before=edit.before, start=edit.start)
    text = render_text(found)
    assert text.splitlines()[2] == edit.first
    assert [words for words in edit.says if words not in text] == [], text
    assert ("No effect" in text) is (not edit.effect and "next run differs" not in text), text


def of_three(objects: Objects) -> Objects:
    """The Deployments of dev have 3 replicas."""
    found = copy.deepcopy(objects)
    for one in found["eu"]:
        if one["kind"] == "Deployment" and one["metadata"]["namespace"] == "dev":
            one["spec"]["replicas"] = 3
    return found


def all_week(documents: Documents) -> None:
    documents["Calendar nights"]["spec"].update(downtime=["Mon 01:00-Mon 00:59"], exceptions=[])


def deeper_all_week(documents: Documents) -> None:
    documents["IdlingPolicy dev"]["spec"]["idleReplicas"] = 0
    all_week(documents)


@pytest.mark.parametrize(
    ("edit", "start", "expected"),
    [
        pytest.param(
            spec("IdlingPolicy dev", idleReplicas=2), FRIDAY_NOON, "go down to more replicas than today.", id="less low"
        ),
        pytest.param(
            spec("IdlingPolicy dev", idleReplicas=0), FRIDAY_NOON, "go down to fewer replicas than today.", id="lower"
        ),
        pytest.param(all_week, FRIDAY_NOON, "run at other times.", id="awake now, and never again"),
        pytest.param(deeper_all_week, FRIDAY_NIGHT, "that wake today stay idle.", id="idle now, and lower"),
    ],
)
def test_each_workload_counts_once_and_is_called_idle_where_it_is(
    objects: Objects, edit: Callable[[Documents], None], start: datetime, expected: str
) -> None:
    text = render_text(reviewed(of_three(objects), edit, before=spec("IdlingPolicy dev", idleReplicas=1), start=start))
    headline = text.splitlines()[2]
    assert headline.partition(": ")[2].startswith("11 ")
    assert expected in headline


def test_production_is_never_folded(objects: Objects) -> None:
    text = render_markdown(reviewed(objects, EDITS["production selected by mistake"].edit))
    open_ = re.sub(r"<details>.*?</details>", "", text, flags=re.S)
    assert "**3 workloads in eu newly selected**" in open_
    assert "eu/prod-shop/Deployment/frontend" in open_


def test_what_was_production_is_so_where_the_change_calls_it_something_else(objects: Objects) -> None:
    """And what is no longer production is said and not folded."""

    def edit(documents: Documents) -> None:
        EDITS["production selected by mistake"].edit(documents)
        documents["Fleet real"]["spec"]["production"] = {"namespaces": ["qa"]}

    found = reviewed(objects, edit)
    assert {one.ref.namespace for one in found.differences if one.production} == {"prod-shop"}
    open_ = re.sub(r"<details>.*?</details>", "", render_markdown(found), flags=re.S)
    assert "3 workloads in eu no longer production; 1 workload in eu now production" in open_
    assert "eu/prod-shop/Deployment/frontend" in open_


@pytest.fixture(scope="module")
def everything_selected(objects: Objects) -> Review:
    def base(documents: Documents) -> None:
        documents["IdlingPolicy dev"]["spec"]["selector"] = {"namespaces": {}, "services": {}}
        documents["IdlingPolicy dev"]["spec"]["production"] = True

    return reviewed(objects, spec("IdlingPolicy dev", mode="Observe"), before=base)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param(Filters(), {"dev", "prod-shop"}, id="none"),
        pytest.param(Filters(namespaces=("prod-*",)), {"prod-shop"}, id="a namespace"),
        pytest.param(Filters(clusters=("us",)), set(), id="a cluster"),
        pytest.param(Filters(policies=("dev",)), {"dev", "prod-shop"}, id="a policy that selects them before"),
        pytest.param(Filters(policies=("router",)), set(), id="another policy"),
        pytest.param(Filters(labels=LabelSelector((("app", "guestbook"),))), {"prod-shop"}, id="a label"),
    ],
)
def test_filters_narrow_what_is_said_and_not_what_is_played(
    everything_selected: Review, filters: Filters, expected: set[str]
) -> None:
    found = everything_selected
    labels = {one.ref: {"app": "guestbook"} for one in found.differences if one.production}
    kept = narrowed(found, filters, labels)
    assert {one.ref.namespace for one in kept.differences} == expected
    assert kept.before_hours <= found.before_hours
    text = " ".join(render_text(kept).split())
    assert ("No effect" in text) is (not expected)
    assert ("Only what the filters leave is shown" in text) is (not filters.empty)
    left_out = len(found.differences) - len(kept.differences)
    assert (f"is shown: {counted(left_out, 'more workload')} run" in text) is (left_out > 0)
    one_less = render_text(replace(kept, differing_outside=1))
    assert "Only what the filters leave is shown: 1 more workload runs in another way." in " ".join(one_less.split())


def test_json_has_all_of_it(objects: Objects) -> None:
    found = review_to_dict(reviewed(objects, EDITS["mode"].edit))
    assert json.loads(json.dumps(found)) == found
    assert found["effect"] is True
    assert found["fields"] == [
        {"policy": "IdlingPolicy dev", "field": "spec.mode", "before": "Enforce", "after": "Observe"}
    ]
    assert len(found["timeline"]) == 11
    assert found["replicaHours"] == 2 * 10 * 11 - 3 * 7, "two nights of eleven, less three of one that late idles then"


WILD = "</summary><script>@octocat #1 [x](https://evil.example) `|"


def test_nothing_in_a_policy_or_name_becomes_markup(objects: Objects) -> None:
    base = reviewed(objects, EDITS["mode"].edit)
    change = PolicyFieldChange(WILD, WILD, WILD, WILD)
    wild = replace(
        base,
        changes=PolicyChanges((change,), (Renamed(WILD, WILD),), (WILD,), (WILD,)),
        selection={SelectionChange.NEWLY_SELECTED: frozenset([ObjectRef(WILD, WILD, WILD, WILD)])},
        problem=WILD,
        fleet_changed=(WILD,),
    )
    page = page_of_markdown(render_markdown(wild))
    assert {"a", "img", "script"}.isdisjoint(page.tags)
    prose_alone = re.sub(r"^(`{3,})text$.*?^\1$", "", render_markdown(wild), flags=re.S | re.M)
    assert "@octocat" not in prose_alone
    assert "https://" not in prose_alone


def test_it_is_never_longer_than_a_comment(objects: Objects) -> None:
    base = reviewed(objects, EDITS["production selected by mistake"].edit)
    change = PolicyFieldChange("IdlingPolicy dev", "spec.x", "a" * 900, "b" * 900)
    many = replace(
        base,
        changes=PolicyChanges(tuple(replace(change, policy=f"IdlingPolicy {n}") for n in range(500))),
        differences=base.differences * 300,
    )
    text = render_markdown(many)
    assert len(text) <= LONGEST_TEXT
    assert text.startswith("## What this change of policies does\n\n**Production: 3 workloads in eu newly selected; ")
    assert text.count("\nbefore ") == render_markdown(base).count("\nbefore "), "what stands open is whole"
    assert "and 460 more; the JSON form has them all." in text


@pytest.fixture
def quickstart(quickstart: Folder) -> Folder:
    shutil.copytree(quickstart.path / "policies", quickstart.path / "head")
    return quickstart


AT = ("--snapshot", "snapshot", "--days", "1", "--now")


def compared(folder: Folder, *more: str) -> Said:
    return folder.call("plan", "head", "--base", "policies", *AT, "2026-11-20T15:00:00Z", *more)


def test_the_timeline_of_a_week_fits_a_comment_and_tells_ten_replicas_from_twelve(quickstart: Folder) -> None:
    text = (quickstart.path / "policies" / "placement.yaml").read_text()
    quickstart.write("head/placement.yaml", text.replace("replicas: 6", "replicas: 18"))
    said = compared(quickstart, "--days", "7", "-o", "markdown")
    picture = said.out.partition("### Timeline")[2].partition("```text")[2].partition("```")[0].strip("\n")
    ruler, *rows = picture.splitlines()
    assert ruler.split() == ["Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri"]
    assert rows[:3] == ["eu-west/shop/ReplicaSet/cache", f"before 4{'#' * 83}", f"after  12{'#' * 82}"]
    assert max(map(len, picture.splitlines())) <= 100
    assert picture.endswith("days in Europe/Paris)")


def test_without_a_change(quickstart: Folder) -> None:
    said = compared(quickstart, "-o", "markdown")
    assert said.code == 0
    assert "**No effect in the next day.**" in said.out
    assert "No policy says anything else." in said.out


@pytest.mark.parametrize("output", ["markdown", "text"])
def test_a_head_that_cannot_be_used_is_told_as_comment(quickstart: Folder, output: str) -> None:
    quickstart.write("head/wrong.yaml", "apiVersion: reconciler/v1alpha1\nkind: IdlingPolicy\nmetadata: {name: x}\n")
    said = compared(quickstart, "-o", output)
    assert said.code == 3
    assert "This change cannot be judged: 1 problem." in said.out
    assert "head/wrong.yaml:1" in said.out
    assert "head/wrong.yaml:1" in said.err


def test_a_base_that_cannot_be_used_leaves_the_head_alone(quickstart: Folder) -> None:
    quickstart.write("policies/wrong.yaml", "apiVersion: reconciler/v1alpha1\nkind: Nonsense\n")
    said = compared(quickstart, "-o", "markdown")
    assert said.code == 6
    assert (
        "Only the policies of this change are shown: those of the base cannot be used: policies/wrong.yaml" in said.out
    )
    assert "### Now" in said.out
    filtered = compared(quickstart, "-o", "markdown", "--policy", "idle-runners")
    assert (filtered.code, "Only what the filters leave is shown." in filtered.out) == (6, True)
    assert compared(quickstart, "-o", "markdown", "--fleet-from", "base").code == 3


def test_a_snapshot_that_is_too_old_is_refused(quickstart: Folder) -> None:
    kinds = ("services", "endpoints", "namespaces", "events", "pods", "configmaps", "replicationcontrollers")
    read = "".join(f"- resource: {kind}\n" for kind in kinds)
    quickstart.write("snapshot/eu-west/recording.yaml", f"at: 2026-11-19T02:00:00Z\nread:\n{read}")
    said = compared(quickstart, "-o", "markdown")
    assert said.code == 3
    assert "was recorded 37h ago, expected at most 1d" in said.out
    assert "The snapshot is 37h old." in compared(quickstart, "-o", "markdown", "--max-snapshot-age", "2d").out


def test_workloads_that_are_only_there_with_the_change_are_created_and_not_woken(quickstart: Folder) -> None:
    shutil.copytree(quickstart.path / "policies", quickstart.path / "more")
    placed = (quickstart.path / "policies" / "placement.yaml").read_text().partition("---\n")[0]
    (quickstart.path / "more" / "fresh.yaml").write_text(placed.replace("name: web", "name: fresh"))
    for head, base, words in (
        ("more", "policies", "3 workloads are created."),
        ("policies", "more", "3 workloads are not created any more."),
    ):
        said = quickstart.call("plan", head, "--base", base, *AT, "2026-11-20T22:00:00Z")
        assert words in said.out, said.out
        assert "today" not in said.out


def test_a_plan_that_counts_recorded_metrics_as_fresh_is_not_saved(quickstart: Folder) -> None:
    said = compared(quickstart, "--out", "plan.json")
    assert said.code == 64
    assert "--out: a comparison on a snapshot counts its metrics as fresh" in said.err
    assert not (quickstart.path / "plan.json").exists()


def test_the_next_run_is_judged_by_metrics_as_fresh_as_in_the_days_after_it(quickstart: Folder) -> None:
    idling = (quickstart.path / "policies" / "idling.yaml").read_text()
    observed = idling.replace("  wakeOrder: {group: dev, tier: 10}", "  mode: Observe")
    quickstart.write("policies/idling.yaml", observed)
    night = "2026-11-21T03:00:00Z"  # five hours after the metrics were recorded
    said = quickstart.call("plan", "head", "--base", "policies", *AT, night, "-o", "json")
    found = json.loads(said.out)
    api = next(one for one in found["timeline"] if one["object"] == "eu-west/dev-a/Deployment/api")
    assert (api["from"], api["after"]["steps"][0]["replicas"]) == (night, 0)
    idled = [one["object"]["name"] for one in found["next"]["actions"] if one["verb"] == "idle"]
    assert "api" in idled, found["next"]["actions"]


def test_a_query_without_an_answer_is_counted_once(
    quickstart: Folder,
) -> None:
    (quickstart.path / "snapshot" / "eu-west" / "metrics.yaml").unlink()
    said = compared(quickstart, "-o", "json")
    assert "1 cluster, list or query could not be judged; see below." in json.loads(said.out)["summary"]


def test_what_is_deleted_in_the_days_to_come_is_said(tmp_path: Path) -> None:
    """A freeze of a day keeps the first run from it."""
    folder = Folder(tmp_path)
    spec = "spec: {home: east, clusters: [{name: east}]}"
    fleet = f"apiVersion: reconciler/v1alpha1\nkind: Fleet\nmetadata: {{name: one}}\n{spec}\n"
    placed = PLACED.replace("apps/v1", "reconciler/v1alpha1").replace("Deployment", "FederatedReplicaSet")
    folder.write("base/fleet.yaml", fleet)
    folder.write("base/router.yaml", placed + "  onDelete: Delete\n")
    folder.write("snapshot/east/edge.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: edge}\n")
    at = ("--snapshot", "snapshot", "--now", "2026-11-20T12:00:00Z")
    assert folder.call("apply", "base", "--yes", *at).code == 0
    assert folder.call("freeze", "--for", "1d", "--reason", "test", "--policies", "base", *at).code == 0
    (tmp_path / "head").mkdir()
    shutil.copy(tmp_path / "base" / "fleet.yaml", tmp_path / "head")
    said = folder.call("plan", "head", "--base", "base", *at).out
    assert "From Sat 2026-11-21 12:00: 1 workload is deleted. -432 replica-hours (-86 %) in 7 days." in said
    assert "  east/edge/ReplicaSet/router: 3 -> not there: from Sat 2026-11-21 12:00 on" in said


def scope(folder: Folder, include: str) -> list[str]:
    """Return the scope of a change of what idle-dev includes."""
    text = (folder.path / "head" / "idling.yaml").read_text()
    folder.write("head/idling.yaml", text.replace('include: ["dev-*"]', f"include: [{include}]"))
    said = folder.call("plan", "head", "--base", "policies", *AT, "2026-11-20T22:00:00Z", "-o", "markdown", "-q")
    block = said.out.partition("<summary>Selection</summary>")[2].partition("</details>")[0]
    return [line for line in block.splitlines() if line and not line.startswith("```")]


@pytest.mark.parametrize("replicas", [0, 2], ids=["asleep", "awake"])
def test_what_is_dropped_is_told_whatever_state_it_is_in(quickstart: Folder, replicas: int) -> None:
    if replicas:
        assert quickstart.apply("2026-11-20T22:00:00Z").code == 0
    assert quickstart.replicas("us-east", "dev-b", "Deployment", "reports") == replicas
    assert scope(quickstart, "dev-a") == ["**1 workload no longer selected**", "us-east/dev-b/Deployment/reports"]


def test_what_another_job_selects_already_is_newly_selected_by_idling(quickstart: Folder) -> None:
    front = "apiVersion: v1\nkind: Service\nmetadata: {name: front, namespace: shop}\nspec: {selector: {app: web}}\n"
    quickstart.write("snapshot/eu-west/front.yaml", front)
    assert "eu-west/shop/ReplicaSet/web" in scope(quickstart, '"dev-*", shop')
