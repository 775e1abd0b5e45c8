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
from reconciler.decide.decide import decide
from reconciler.model import ObjectRef, ObservedState
from reconciler.observe.clusters import observe
from reconciler.plan.build import Inputs, make_plan
from reconciler.policy.load import check_policies, read_policies
from reconciler.world import open_world
from tests.builders import a_run
from tests.pipeline.calls import Folder, inside
from tests.pipeline.manifests import an_object, downscale, idling, placed, policy, target_ref, template
from tests.pipeline.teams import FLEET, NIGHT, SLEEP, two_teams

A = "tenant a at policies/fleet.yaml:12"
B = "tenant b at policies/fleet.yaml:18"
OWN = f'expected namespaces within "team-a-*", those of {A}; "*" means all of them'
OWN_CLUSTERS = f'expected clusters within "dev", those of {A}; "*" means all of them'
FILE = "teams/a/more.yaml"
AT = f"policies/{FILE}"
NAME = "expected a name of lower-case letters, digits, - and . that starts and ends with a letter or digit"
PATTERN = "expected a namespace or a pattern like dev-*"
TEMPLATE = (
    f"spec.template: is a pod template, expected targetRef, as the templates of {A} are None; pods would run with any "
    "rights"
)
KINDS = f'expected "IdlingPolicy", "Calendar", "DownscalePolicy" or "FederatedReplicaSet", the kinds of {A}'
TOO_HIGH = f"expected at most 10, maxPriority of {A}"
INCLUDE, HOST = "5:37: spec.selector.namespaces.include[0]", "spec.podPicker.http.host"


def case(name: str, written: str | dict[str, str], *refused: str) -> Any:
    """What team a writes, in a file of its own, and how the lines of what is refused there begin."""
    files = {FILE: written} if isinstance(written, str) else written
    return pytest.param(files, [f"{AT}:{line}" for line in refused], id=name)


def elsewhere(name: str, file: str, text: str, refused: str) -> Any:
    return pytest.param({file: text}, [f"policies/{file}:{refused}"], id=name)


def effectless(name: str, text: str) -> Any:
    return pytest.param({FILE: text}, id=name)


def sleep(selector: str = "workloads: {}", more: str = "", name: str = "more") -> str:
    """One more policy of team a."""
    text = SLEEP.replace("{workloads: {}}", f"{{{selector}}}").replace("name: sleep", f"name: {name}")
    return text.replace("spec:\n", f"spec:\n{more}", 1)


def of_namespaces(pattern: str) -> str:
    return sleep(f'namespaces: {{include: ["{pattern}"]}}, workloads: {{}}')


def criterion(text: str) -> str:
    return policy("IdlingPolicy", "x", "selector: {workloads: {}}", "idleWhen:", f"  - {text}")


def picker(host: str, secret: str = "") -> str:
    header = f"{{name: x-token, valueFrom: {{secretKeyRef: {{name: b, key: k{secret}}}}}}}"
    http = f"podPicker: {{http: {{host: {host}, path: /, httpHeaders: [{header}]}}}}"
    return downscale("workloads: {kinds: [Deployment]}", 1, http, name="batch")


def picking(http: str) -> str:
    return policy("DownscalePolicy", "x", "selector: {workloads: {}}", f"podPicker: {{http: {{{http}}}}}")


def federated(namespace: str, clusters: str = '{"*": {weight: 1}}', target: str = target_ref()) -> str:
    return placed(4, f"clusters: {clusters}", target, namespace=namespace)


def replica_set(preferences: str) -> str:
    key = "federation.kubernetes.io/replica-set-preferences"
    annotations = f"annotations: {{{key}: '{preferences}'}}"
    spec = ("replicas: 4", template())
    return an_object("ReplicaSet", "web", "team-a-web", *spec, metadata=annotations, version="apps/v1")


def a_deployment(namespace: str, host: str) -> str:
    spec = f"downscalePodPicker: {{http: {{host: {host}, path: /}}}}"
    return an_object("Deployment", "web", namespace, spec, version="apps/v1")


PRIVILEGED = """\
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      serviceAccountName: deployer
      hostPID: true
      volumes: [{name: root, hostPath: {path: /}}]
      containers: [{name: c, image: x, securityContext: {privileged: true}}]
"""


def calendar(name: str) -> str:
    return policy("Calendar", name, "timeZone: UTC", 'downtime: ["Mon-Sun 00:00-24:00"]')


def by_calendar(name: str) -> str:
    return sleep().replace('timeZone: UTC, downtime: ["Mon-Fri 20:00-07:00"]', f'calendar: "{name}"')


REFUSED = [
    *(
        case(name, of_namespaces(pattern), f'{INCLUDE}: is "{pattern}", {OWN}')
        for name, pattern in (
            ("a namespace of the other", "team-b-web"),
            ("the pattern of the other", "team-b-*"),
            ("a namespace of the platform", "tools"),
            ("namespaces of Kubernetes", "kube-*"),
            ("? in place of the letter", "team-?-*"),
            ("a shorter prefix", "team-*"),
            ("a prefix without the dash", "team-a*"),
            ("a set of letters", "team-[ab]-*"),
            ("a set without a letter", "team-[!c]-*"),
            ("two stars are no single one", "**"),
            ("stars around a dash", "*-*"),
        )
    ),
    *(
        case(name, of_namespaces(pattern), f'{INCLUDE}: is "{pattern}", {PATTERN}')
        for name, pattern in (
            ("other case", "Team-B-web"),
            ("two names in one", "team-a-web,team-b-web"),
            ("with a blank", "team-b-web "),
        )
    ),
    case(
        "beside what is allowed",
        sleep('namespaces: {include: ["*", "shared-b"]}, workloads: {}'),
        f'5:42: spec.selector.namespaces.include[1]: is "shared-b", {OWN}',
    ),
    case(
        "a cluster of others",
        sleep("clusters: {include: [prod]}, workloads: {}"),
        f'5:35: spec.selector.clusters.include[0]: is "prod", {OWN_CLUSTERS}',
    ),
    case(
        "a pattern of clusters",
        sleep('clusters: {include: ["[dp]*"]}, workloads: {}'),
        f'5:35: spec.selector.clusters.include[0]: is "[dp]*", {OWN_CLUSTERS}',
    ),
    case("priority", sleep(more="  priority: 11\n"), f'5:13: spec.priority: is "11", {TOO_HIGH}'),
    case(
        "priority of a DownscalePolicy",
        picker("picker.team-a-web.svc").replace("spec:\n", "spec:\n  priority: 99\n"),
        f'5:13: spec.priority: is "99", {TOO_HIGH}',
    ),
    *(
        case(name, picker(host), f'7:28: {HOST}: is "{host.lower()}", a Service of {B}, expected one of tenant a')
        for name, host in (
            ("the pod picker of the other", "picker.team-b-web.svc"),
            ("the pod picker of the other, in other case", "Picker.Shared-B.svc.cluster.local"),
            ("a pod behind the pod picker of the other", "pod-0.picker.team-b-web.svc"),
        )
    ),
    *(
        case(
            f"a picker of the platform: {host}",
            picker(host),
            f'7:28: {HOST}: is "{host}", a Service of the platform, expected one of tenant a, or one that '
            "podPickers.allowedHosts has by its whole name",
        )
        for host in ("vault.security.svc", "kubernetes.default.svc.cluster.local", "prometheus.monitoring", "vault")
    ),
    case(
        "a calendar of the other",
        by_calendar("b/nights"),
        '6:36: spec.idleWhen[0].schedule.calendar: is "b/nights", expected the name of a Calendar, did you mean '
        '"nights"?',
    ),
    case(
        "placement in a namespace of the other",
        federated("team-b-web"),
        f'3:34: metadata.namespace: is "team-b-web", expected one within "team-a-*", those of {A}',
    ),
    case(
        "placement on a cluster of others",
        federated("team-a-web", "{dev: {weight: 1}, prod: {weight: 1}}"),
        f'6:46: spec.preferences.clusters.prod: expected a cluster within "dev", those of {A}',
    ),
    case(
        "placement on a cluster of others, as a ReplicaSet",
        replica_set('{"clusters": {"prod": {"weight": 1}}}'),
        f"3:110: metadata.annotations.federation.kubernetes.io/replica-set-preferences: clusters.prod: expected a "
        f'cluster within "dev", those of {A}',
        f"7:13: {TEMPLATE}",
    ),
    case(
        "pods with the rights of another ServiceAccount",
        federated("team-a-web", "{dev: {weight: 1}}", PRIVILEGED.strip()),
        f"9:5: {TEMPLATE}",
    ),
    case("a Fleet of its own", FLEET, f'2:7: kind: is "Fleet", {KINDS}'),
    case(
        "a Fleet of its own that makes the real one its tenant",
        FLEET.replace("teams/a/**", "**").replace("teams/b/**", "none/**"),
        f'2:7: kind: is "Fleet", {KINDS}',
    ),
    case("a Fleet behind a policy", f"{sleep()}---\n{FLEET}", f'10:7: kind: is "Fleet", {KINDS}'),
    case(
        "a freeze of its own",
        an_object("ConfigMap", "freeze", "reconciler"),
        '2:7: kind: is "ConfigMap", expected ',
    ),
    elsewhere(
        "a folder in other case",
        "teams/A/more.yaml",
        sleep(),
        f'1:1: only looks like "teams/a/**", the paths of {A}, expected the same characters in the same case',
    ),
    elsewhere("its own name twice", "teams/a/z.yaml", SLEEP, '3:18: metadata.name: is "sleep" a second time'),
    case("no YAML", "a: [unclosed\n"),
    case("no text", "\udcff"),
    *(
        case(name, text, f"{at}: unknown field")
        for name, text, at in (
            ("a misspelt field", sleep("excluded: {}, workloads: {}"), "5:14: spec.selector.excluded"),
            ("the tenant of the other", sleep("workloads: {}", "  tenant: b\n"), "5:3: spec.tenant"),
            (
                "a policy in a namespace of the other",
                sleep().replace("{name: more}", "{name: more, namespace: team-b-web}"),
                "3:24: metadata.namespace",
            ),
            (
                "a picker's Secret of the other",
                picker("picker.team-a-web.svc", ", namespace: team-b-web"),
                "7:134: spec.podPicker.http.httpHeaders[0].valueFrom.secretKeyRef.namespace",
            ),
            (
                "placement of a target of the other",
                federated("team-a-web", target=target_ref(name="web, namespace: team-b-web")),
                "7:65: spec.targetRef.namespace",
            ),
            (
                "namespaces by a field of another API",
                sleep("namespaceSelector: {matchLabels: {team: b}}, workloads: {}"),
                "5:14: spec.selector.namespaceSelector",
            ),
        )
    ),
    case("the other in its name", sleep(name="b/sleep"), f'3:18: metadata.name: is "b/sleep", {NAME}'),
    case("the other in the name of its calendar", calendar("b/nights"), f'3:18: metadata.name: is "b/nights", {NAME}'),
    case(
        "by a merge key",
        sleep("<<: {namespaces: {include: [team-b-web]}}, workloads: {}"),
        f'5:42: spec.selector.namespaces.include[0]: is "team-b-web", {OWN}',
    ),
    case(
        "behind an anchor",
        sleep("namespaces: {include: &other [team-b-web]}, workloads: {}"),
        f'5:44: spec.selector.namespaces.include[0]: is "team-b-web", {OWN}',
    ),
    case(
        "by an alias of another document",
        "x: &n [team-b-web]\n---\n" + sleep("namespaces: {include: *n}, workloads: {}"),
        '7:36: "*n" names no anchor that ends before it, expected one',
    ),
    case(
        "in a key that is given twice",
        sleep('namespaces: {include: ["team-a-*"], include: [team-b-web]}, workloads: {}'),
        '5:50: "include" is given twice, expected once',
        f'5:60: spec.selector.namespaces.include[0]: is "team-b-web", {OWN}',
    ),
    case(
        "excluding everything",
        sleep(more='  exclude: [{namespaces: {include: ["*"]}}]\n'),
        "5:13: spec.exclude[0]: excludes everything, expected ",
    ),
]
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
EMPTY = [
    effectless("everything", of_namespaces("*")),
    *(
        effectless(name, sleep(selector))
        for name, selector in (
            ("everything, and Services", "workloads: {}, services: {}"),
            ("namespaces by label", "namespaces: {matchLabels: {team: b}}, workloads: {}"),
            (
                "a namespace by its own label",
                "namespaces: {matchLabels: {kubernetes.io/metadata.name: team-b-web}}, workloads: {}",
            ),
            (
                "namespaces without a label",
                "namespaces: {matchExpressions: [{key: none, operator: DoesNotExist}]}, workloads: {}",
            ),
            (
                "namespaces but for one that is not there",
                "namespaces: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [none]}]}"
                ", workloads: {}",
            ),
            ("clusters by label", "clusters: {matchLabels: {env: prod}}, workloads: {}"),
            (
                "clusters but for its own",
                "clusters: {matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}, workloads: {}",
            ),
            ("Services by label", "services: {matchLabels: {team: b}}"),
            ("Services by the name of the other's", "services: {include: [web]}"),
            ("workloads by label", "workloads: {matchLabels: {team: b}}"),
            ("workloads by the name of the other's", "workloads: {include: [web]}"),
        )
    ),
    *(
        effectless(name, sleep(selector, f"  {more}\n"))
        for name, selector, more in (
            ("the wake group of the other", "workloads: {}", "wakeOrder: {group: b/sleep, perRun: 1}"),
            ("the wake group of the platform", "workloads: {}", "wakeOrder: {group: tools, tier: 0}"),
            ("the highest priority", "workloads: {}", "priority: 10"),
            ("excluding what is not its own", "workloads: {}", "exclude: [{namespaces: {include: [team-b-web]}}]"),
            ("limits of everything", "workloads: {}", "limits: {workloads: 100}"),
            ("observing everything", "services: {}, workloads: {}", "mode: Observe"),
            ("waiting for signals of everything", "services: {}", "wake: OnSignal"),
            ("insisting everywhere", "services: {}, workloads: {}", "onRevert: Insist\n  gitOps: {flux: Pause}"),
        )
    ),
    effectless("the name of a platform policy", sleep(name="tools")),
    effectless("the name of a platform calendar", calendar("nights")),
    effectless("its own picker: secrets are its own too", picker("picker.team-a-web.svc")),
    effectless("placement everywhere", federated("team-a-web")),
    effectless("everything down to zero", downscale("workloads: {kinds: [Deployment]}", 0)),
    effectless(
        "a query about the other",
        sleep("services: {}").replace(
            "}]\n", "}, {metric: {query: 'sum(up{namespace=\"team-b-web\"})', atMost: 0, window: 5m}}]\n", 1
        ),
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
    for action in make_plan(policies, state, decide(policies, state, RUN), RUN, Inputs()).actions:
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


@pytest.mark.parametrize(
    ("later", "own"),
    [
        pytest.param("team-ab", False, id="begins like a's, without the dash"),
        pytest.param("team-b-a-team-a-web", False, id="has a's inside"),
        pytest.param("xteam-a-web", False, id="ends like a's"),
        pytest.param("team-a", False, id="a's without the dash"),
        pytest.param("team-a-new", True, id="one of a's"),
    ],
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
