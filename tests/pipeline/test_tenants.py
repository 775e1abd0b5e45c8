"""Two teams and a platform policy: whatever team a writes, team b and the platform are decided as ever.

Each way to overreach is refused, at its line and with the rule of the Fleet, or has provably no effect outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.decide.annotations import parse_time
from reconciler.decide.desired_state import decide
from reconciler.model import ObjectRef, ObservedState
from reconciler.observe.clusters import observe
from reconciler.plan.build import make_plan
from reconciler.policy.load import check_policies, read_policies
from reconciler.world import open_world
from tests.builders import a_run
from tests.cases import cases
from tests.pipeline.calls import Folder, inside
from tests.pipeline.manifests import an_object, idling, policy
from tests.pipeline.refused_policies import (
    EMPTY,
    FILE,
    HOST,
    INCLUDE,
    REFUSED,
    case,
    federated,
    of_namespaces,
    picker,
    replica_set,
    sleep,
)
from tests.pipeline.teams import FLEET, NIGHT, two_teams


def criterion(text: str) -> str:
    return policy("IdlingPolicy", "x", "selector: {workloads: {}}", "idleWhen:", f"  - {text}")


def picking(http: str) -> str:
    return policy("DownscalePolicy", "x", "selector: {workloads: {}}", f"podPicker: {{http: {{{http}}}}}")


def a_deployment(namespace: str, host: str) -> str:
    spec = f"downscalePodPicker: {{http: {{host: {host}, path: /}}}}"
    return an_object("Deployment", "web", namespace, spec, version="apps/v1")


REFUSED_TOO = [
    case("a Deployment of the platform", a_deployment("tools", "rank.team-a-web.svc"), "3:34: metadata.namespace"),
    case("a Deployment of the other", a_deployment("team-b-web", "rank.team-b-web.svc"), "3:34: metadata.namespace"),
    case(
        "a Deployment that asks a picker of the platform",
        a_deployment("team-a-web", "rank.tools.svc"),
        "5:37: spec.downscalePodPicker.http.host",
    ),
    case(
        "a Fleet in a List",
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: reconciler/v1alpha1, kind: Fleet}]\n",
        "2:7: kind",
    ),
    case("alternatives in braces", of_namespaces("{team-a-x,tools}"), INCLUDE),
    case("a pattern negated", of_namespaces("!team-a-*"), INCLUDE),
    case("a regular expression", of_namespaces("team-a-.|tools"), INCLUDE),
    case(
        "the bounds themselves",
        sleep('namespaces: {within: ["*"]}, workloads: {}'),
        "5:27: spec.selector.namespaces.within",
    ),
    case("a priority in exponents", idling("workloads: {}", "priority: 1e3"), "7:13: spec.priority"),
    case("a name that ends the line", sleep(name='"x\\n## Production"'), "3:18: metadata.name"),
    case("a Python object", sleep(name="!!python/object/apply:os.getcwd []"), '3:18: has the tag "tag:yaml.org,2002:'),
    *(
        case(name, criterion(text), f"7:{column}: spec.idleWhen[0].{field}")
        for name, text, column, field in (
            ("a calendar by a path", "schedule: {calendar: ../b/nights}", 28, "schedule.calendar"),
            (
                "code in a query",
                "metric: {query: \"{{ ''.__class__.__mro__ }}\", atMost: 0, window: 30m}",
                23,
                "metric.query",
            ),
            (
                "a loop in a query",
                'metric: {query: "{% for _ in range(9999999) %}x{% endfor %}", atMost: 0, window: 30m}',
                23,
                "metric.query",
            ),
            (
                "a server for the query",
                'metric: {query: up, url: "http://evil.example", atMost: 0, window: 30m}',
                27,
                "metric.url",
            ),
        )
    ),
    case("a kind that it may not have", policy("Freeze", "x"), "2:7: kind"),
    case("no namespace to place in", federated(""), "3:11: metadata.namespace"),
    case(
        "an annotation with two keys of one name",
        replica_set('{"clusters": {"dev": {}}, "clusters": {"prod": {}}}'),
        "3:110: metadata.annotations.federation.kubernetes.io/replica-set-preferences",
    ),
    *(
        case(f"{name} as picker", picking(f"host: {host}, port: 80, path: /"), f"6:28: {HOST}")
        for name, host in (
            ("a Service of the run's namespace", "rank"),
            ("the API server", "kubernetes.default"),
            ("an address", "169.254.169.254"),
            ("an address in brackets", '"[::1]"'),
            ("a number", '"2852039166"'),
            ("a host with credentials", '"x@rank.tools.svc"'),
            ("a host with a port", '"rank.team-a-web.svc:80@rank.tools.svc"'),
        )
    ),
    case(
        "a path that ends the request",
        picking('host: rank.team-a-web.svc, port: 80, path: "/ HTTP/1.1\\r\\nHost: evil"'),
        "6:65: spec.podPicker.http.path",
    ),
    case(
        "a header that ends the line",
        picking('host: rank.team-a-web.svc, port: 80, path: /, httpHeaders: [{name: X, value: "a\\r\\nB: c"}]'),
        "6:99: spec.podPicker.http.httpHeaders[0].value",
    ),
]


RUN = a_run(parse_time(NIGHT))
Acts = dict[str, list[tuple[str, str, str, int | None]]]


@dataclass(frozen=True)
class Ever:
    """The clusters, and what is done there for team b and the platform where team a has its one good policy."""

    state: ObservedState
    others: list[tuple[str, str, str, int | None]]


def acts(folder: Path, state: ObservedState) -> Acts:
    """What the policies in `folder` do in the namespaces of team a, and in all others; our own ConfigMaps aside."""
    with inside(folder):
        policies = read_policies("policies", partly=True)
    found: Acts = {}
    for action in make_plan(policies, state, decide(policies, state, RUN), RUN).actions:
        own = action.ref.cluster == "dev" and action.ref.namespace.startswith("team-a-")
        told = (action.decision.key, action.policy, action.decision.cause.why, action.decision.replicas_after)
        if action.ref.kind != "ConfigMap":
            found.setdefault("a" if own else "others", []).append(told)
    return found


@pytest.fixture(scope="module")
def ever(tmp_path_factory) -> Ever:
    folder = two_teams(Folder(tmp_path_factory.mktemp("ever"))).path
    with inside(folder):
        policies = read_policies("policies")
        state = observe(policies, open_world(policies.fleet, "snapshot", RUN.now).sources)
    return Ever(state, acts(folder, state)["others"])


def test_without_overreach_each_has_its_own(ever):
    named = sorted({(policy, *key.split("/")[3:5]) for key, policy, _, _ in ever.others})
    assert named == [
        ("b/sleep", "dev", "shared-b"),
        ("b/sleep", "dev", "team-b-web"),
        ("b/sleep", "prod", "shared-b"),
        ("b/sleep", "prod", "team-b-web"),
        ("tools", "dev", "tools"),
        ("tools", "prod", "tools"),
    ]


@pytest.mark.parametrize(("files", "expected"), REFUSED + REFUSED_TOO)
def test_overreach_is_refused_at_its_line_and_changes_nothing_for_others(tmp_path, ever, files, expected):
    folder = two_teams(Folder(tmp_path), snapshot=False)
    for name, text in files.items():
        (tmp_path / "policies" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "policies" / name).write_bytes(text.encode(errors="surrogateescape"))
    with inside(tmp_path):
        _, problems = check_policies("policies")
    lines = list(map(str, problems))
    assert [line for line in expected if not any(one.startswith(line) for one in lines)] == [], lines
    assert {line.split(":")[0].lower().rpartition("/")[0] for line in lines} == {"policies/teams/a"}
    assert acts(folder.path, ever.state) == {"others": ever.others}


@pytest.mark.parametrize("files", EMPTY)
def test_what_is_not_refused_has_no_effect_outside(tmp_path, ever, files):
    folder = two_teams(Folder(tmp_path), snapshot=False, **files)
    with inside(tmp_path):
        assert check_policies("policies")[1] == ()
    assert acts(folder.path, ever.state)["others"] == ever.others


def moved(state: ObservedState, namespaces: Mapping[str, str]) -> ObservedState:
    """Return `state` with what is in some namespaces in others, which did not exist when the policies were checked."""

    def renamed(ref: ObjectRef) -> ObjectRef:
        if ref.kind == "Namespace":
            return replace(ref, name=namespaces.get(ref.name, ref.name))
        return replace(ref, namespace=namespaces.get(ref.namespace, ref.namespace))

    def of(found: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(one, ref=renamed(one.ref)) for one in found)

    clusters = {
        name: replace(one, workloads=of(one.workloads), services=of(one.services), namespaces=of(one.namespaces))
        for name, one in state.clusters.items()
    }
    return replace(state, clusters=clusters)


@cases(
    "later own",
    ("begins like a's, without the dash", "team-ab", False),
    ("has a's inside", "team-b-a-team-a-web", False),
    ("ends like a's", "xteam-a-web", False),
    ("a's without the dash", "team-a", False),
    ("one of a's", "team-a-new", True),
)
def test_a_namespace_created_later_is_a_s_by_its_name_alone(tmp_path, ever, later, own):
    """`*`, every label and every kind: what team a may write at most."""
    everything = {FILE: sleep('namespaces: {include: ["*"]}, services: {}, workloads: {}', "  priority: 10\n")}
    unlimited = FLEET.replace("maxPriority: 10\n", "maxPriority: 10\n      limits: {workloads: 100}\n")
    folder = two_teams(Folder(tmp_path), snapshot=False, **{**everything, "fleet.yaml": unlimited})
    state = moved(ever.state, {"tools": later})
    found = acts(folder.path, state)
    assert any(f"/{later}/" in key for key, *_ in found.get("a", [])) is own
    assert not [one for one in found.get("others", []) if one[1].startswith("a/")]


def test_explain_says_that_a_namespace_is_not_of_the_tenant(tmp_path):
    folder = two_teams(Folder(tmp_path), **{"platform.yaml": "", "teams/b/sleep.yaml": ""})
    said = folder.explain("dev/tools/Deployment/web", NIGHT)
    assert "namespaces: tools is not of the tenant, which has team-a-*" in said.out


def test_a_team_may_ask_a_picker_of_the_platform_that_the_fleet_names(tmp_path):
    folder = two_teams(Folder(tmp_path), snapshot=False, **{FILE: picker("rank.tools.svc")})
    fleet = folder.path / "policies" / "fleet.yaml"
    refused = "a Service of the platform"
    with inside(tmp_path):
        assert refused in str(check_policies("policies")[1])
        named = 'spec:\n  podPickers: {allowedHosts: ["*.svc", rank.tools.svc]}\n'
        fleet.write_text(fleet.read_text().replace("spec:\n", named, 1))
        assert check_policies("policies")[1] == ()
