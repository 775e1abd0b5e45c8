"""Two teams and a platform policy: whatever team a writes, team b and the platform are decided as ever.

Each way to overreach is refused, at its line and with the rule of the Fleet, or has provably no effect outside.
"""

from __future__ import annotations

import re
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
from tests.way.calls import Folder, inside
from tests.way.teams import FLEET, NIGHT, SLEEP, two_teams

A = "tenant a at policies/fleet.yaml:12"
B = "tenant b at policies/fleet.yaml:18"
OWN = f'expected namespaces within "team-a-*", those of {A}; "*" means all of them'
OWN_CLUSTERS = f'expected clusters within "dev", those of {A}; "*" means all of them'
FILE = "teams/a/more.yaml"
AT = f"policies/{FILE}"
AT_LINE = re.compile(r"policies/teams/[aA]/(more|z)\.yaml:\d+:\d+: ")
NAME = "expected a name of lower-case letters, digits, - and . that starts and ends with a letter or digit"
PATTERN = "expected a namespace or a pattern like dev-*"


def sleep(selector: str = "workloads: {}", more: str = "", name: str = "more") -> dict[str, str]:
    """One more policy of team a."""
    text = SLEEP.replace("{workloads: {}}", f"{{{selector}}}").replace("name: sleep", f"name: {name}")
    return {FILE: text.replace("spec:\n", f"spec:\n{more}", 1)}


def of_namespaces(pattern: str) -> dict[str, str]:
    return sleep(f'namespaces: {{include: ["{pattern}"]}}, workloads: {{}}')


def refused_namespaces(pattern: str, *, at: str = "5:37") -> list[str]:
    return [f'{AT}:{at}: spec.selector.namespaces.include[0]: is "{pattern}", {OWN}']


PICKER = """\
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: batch}
spec:
  selector: {workloads: {kinds: [Deployment]}}
  target: {replicas: 1}
  podPicker: {http: {host: HOST, path: /, httpHeaders: [{name: x-token, valueFrom: {secretKeyRef: {name: b, key: k}}}]}}
"""
FEDERATED = """\
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 4
  preferences: {clusters: CLUSTERS}
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""
REPLICA_SET = """\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
  namespace: team-a-web
  annotations: {federation.kubernetes.io/replica-set-preferences: '{"clusters": {"prod": {"weight": 1}}}'}
spec:
  replicas: 4
  selector: {matchLabels: {app: x}}
  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: x}]}}
"""
PRIVILEGED = """\
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: team-a-web}
spec:
  replicas: 1
  preferences: {clusters: {dev: {weight: 1}}}
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      serviceAccountName: deployer
      hostPID: true
      volumes: [{name: root, hostPath: {path: /}}]
      containers: [{name: c, image: x, securityContext: {privileged: true}}]
"""
CALENDAR = """\
apiVersion: reconciler/v1alpha1
kind: Calendar
metadata: {name: NAME}
spec: {timeZone: UTC, downtime: ["Mon-Sun 00:00-24:00"]}
"""


def federated(namespace: str, clusters: str = '{"*": {weight: 1}}') -> dict[str, str]:
    return {FILE: FEDERATED.replace("NAMESPACE", namespace).replace("CLUSTERS", clusters)}


def by_calendar(name: str) -> dict[str, str]:
    return {FILE: sleep()[FILE].replace('timeZone: UTC, downtime: ["Mon-Fri 20:00-07:00"]', f'calendar: "{name}"')}


REFUSED = [
    pytest.param(of_namespaces("team-b-web"), refused_namespaces("team-b-web"), id="a namespace of the other"),
    pytest.param(of_namespaces("team-b-*"), refused_namespaces("team-b-*"), id="the pattern of the other"),
    pytest.param(of_namespaces("tools"), refused_namespaces("tools"), id="a namespace of the platform"),
    pytest.param(of_namespaces("kube-*"), refused_namespaces("kube-*"), id="namespaces of Kubernetes"),
    pytest.param(of_namespaces("team-?-*"), refused_namespaces("team-?-*"), id="? in place of the letter"),
    pytest.param(of_namespaces("team-*"), refused_namespaces("team-*"), id="a shorter prefix"),
    pytest.param(of_namespaces("team-a*"), refused_namespaces("team-a*"), id="a prefix without the dash"),
    pytest.param(of_namespaces("team-[ab]-*"), refused_namespaces("team-[ab]-*"), id="a set of letters"),
    pytest.param(of_namespaces("team-[!c]-*"), refused_namespaces("team-[!c]-*"), id="a set without a letter"),
    pytest.param(of_namespaces("**"), refused_namespaces("**"), id="two stars are no single one"),
    pytest.param(of_namespaces("*-*"), refused_namespaces("*-*"), id="stars around a dash"),
    pytest.param(
        sleep('namespaces: {include: ["*", "shared-b"]}, workloads: {}'),
        [f'{AT}:5:42: spec.selector.namespaces.include[1]: is "shared-b", {OWN}'],
        id="beside what is allowed",
    ),
    pytest.param(
        of_namespaces("Team-B-web"),
        [
            f'{AT}:5:37: spec.selector.namespaces.include[0]: is "Team-B-web", expected a namespace or a pattern '
            "like dev-*"
        ],
        id="other case",
    ),
    pytest.param(
        sleep("clusters: {include: [prod]}, workloads: {}"),
        [f'{AT}:5:35: spec.selector.clusters.include[0]: is "prod", {OWN_CLUSTERS}'],
        id="a cluster of others",
    ),
    pytest.param(
        sleep('clusters: {include: ["[dp]*"]}, workloads: {}'),
        [f'{AT}:5:35: spec.selector.clusters.include[0]: is "[dp]*", {OWN_CLUSTERS}'],
        id="a pattern of clusters",
    ),
    pytest.param(
        sleep(more="  priority: 11\n"),
        [f'{AT}:5:13: spec.priority: is "11", expected at most 10, maxPriority of {A}'],
        id="priority",
    ),
    pytest.param(
        {FILE: PICKER.replace("HOST", "picker.team-b-web.svc")},
        [
            f'{AT}:7:28: spec.podPicker.http.host: is "picker.team-b-web.svc", a Service of {B}, expected one of '
            "tenant a"
        ],
        id="the pod picker of the other",
    ),
    pytest.param(
        {FILE: PICKER.replace("HOST", "Picker.Shared-B.svc.cluster.local")},
        [
            f'{AT}:7:28: spec.podPicker.http.host: is "picker.shared-b.svc.cluster.local", a Service of {B}, expected '
            "one of tenant a"
        ],
        id="the pod picker of the other, in other case",
    ),
    pytest.param(
        {FILE: PICKER.replace("HOST", "pod-0.picker.team-b-web.svc")},
        [
            f'{AT}:7:28: spec.podPicker.http.host: is "pod-0.picker.team-b-web.svc", a Service of {B}, expected one of '
            "tenant a"
        ],
        id="a pod behind the pod picker of the other",
    ),
    *(
        pytest.param(
            {FILE: PICKER.replace("HOST", host)},
            [
                f'{AT}:7:28: spec.podPicker.http.host: is "{host}", a Service of the platform, expected one of '
                "tenant a, or one that podPickers.allowedHosts has by its whole name"
            ],
            id=f"T13 {host}",
        )
        for host in ("vault.security.svc", "kubernetes.default.svc.cluster.local", "prometheus.monitoring", "vault")
    ),
    pytest.param(
        {FILE: PICKER.replace("HOST", "picker.team-a-web.svc").replace("spec:\n", "spec:\n  priority: 99\n")},
        [f'{AT}:5:13: spec.priority: is "99", expected at most 10, maxPriority of {A}'],
        id="priority of a DownscalePolicy",
    ),
    pytest.param(
        by_calendar("b/nights"),
        [
            f'{AT}:6:36: spec.idleWhen[0].schedule.calendar: is "b/nights", expected the name of a Calendar, did you '
            'mean "nights"?'
        ],
        id="a calendar of the other",
    ),
    pytest.param(
        federated("team-b-web"),
        [f'{AT}:3:34: metadata.namespace: is "team-b-web", expected one within "team-a-*", those of {A}'],
        id="placement in a namespace of the other",
    ),
    pytest.param(
        federated("team-a-web", "{dev: {weight: 1}, prod: {weight: 1}}"),
        [f'{AT}:6:46: spec.preferences.clusters.prod: expected a cluster within "dev", those of {A}'],
        id="placement on a cluster of others",
    ),
    pytest.param(
        {FILE: REPLICA_SET},
        [
            f"{AT}:6:67: metadata.annotations.federation.kubernetes.io/replica-set-preferences: clusters.prod: "
            f'expected a cluster within "dev", those of {A}',
            f"{AT}:10:13: spec.template: is a pod template, expected targetRef, as the templates of {A} are None; pods "
            "would run with any rights",
        ],
        id="placement on a cluster of others, as a ReplicaSet",
    ),
    pytest.param(
        {FILE: PRIVILEGED},
        [
            f"{AT}:9:5: spec.template: is a pod template, expected targetRef, as the templates of {A} are None; pods "
            "would run with any rights"
        ],
        id="pods with the rights of another ServiceAccount",
    ),
    pytest.param(
        {FILE: FLEET},
        [
            f'{AT}:2:7: kind: is "Fleet", expected "IdlingPolicy", "Calendar", "DownscalePolicy" or '
            f'"FederatedReplicaSet", the kinds of {A}'
        ],
        id="a Fleet of its own",
    ),
    pytest.param(
        {FILE: FLEET.replace("teams/a/**", "**").replace("teams/b/**", "none/**")},
        [
            f'{AT}:2:7: kind: is "Fleet", expected "IdlingPolicy", "Calendar", "DownscalePolicy" or '
            f'"FederatedReplicaSet", the kinds of {A}'
        ],
        id="a Fleet of its own that makes the real one its tenant",
    ),
    pytest.param(
        {"teams/A/more.yaml": sleep()[FILE]},
        [
            f'policies/teams/A/more.yaml:1:1: only looks like "teams/a/**", the paths of {A}, expected the same '
            "characters in the same case"
        ],
        id="a folder in other case",
    ),
    pytest.param(
        sleep("excluded: {}, workloads: {}"),
        [f"{AT}:5:14: spec.selector.excluded: unknown field"],
        id="a misspelt field",
    ),
    pytest.param({FILE: "a: [unclosed\n"}, [], id="no YAML"),
    pytest.param({FILE: "\udcff"}, [], id="no text"),
    pytest.param(
        {"teams/a/z.yaml": SLEEP},
        ['policies/teams/a/z.yaml:3:18: metadata.name: is "sleep" a second time'],
        id="its own name twice",
    ),
    pytest.param(
        {"teams/a/more.yaml": sleep("workloads: {}", "  tenant: b\n")[FILE]},
        [f"{AT}:5:3: spec.tenant: unknown field"],
        id="the tenant of the other",
    ),
    pytest.param(
        sleep(name="b/sleep"), [f'{AT}:3:18: metadata.name: is "b/sleep", {NAME}'], id="the other in its name"
    ),
    pytest.param(
        {FILE: CALENDAR.replace("NAME", "b/nights")},
        [f'{AT}:3:18: metadata.name: is "b/nights", {NAME}'],
        id="the other in the name of its calendar",
    ),
    pytest.param(
        {FILE: sleep()[FILE].replace("{name: more}", "{name: more, namespace: team-b-web}")},
        [f"{AT}:3:24: metadata.namespace: unknown field"],
        id="a policy in a namespace of the other",
    ),
    pytest.param(
        {FILE: PICKER.replace("HOST", "picker.team-a-web.svc").replace("key: k}", "key: k, namespace: team-b-web}")},
        [f"{AT}:7:134: spec.podPicker.http.httpHeaders[0].valueFrom.secretKeyRef.namespace: unknown field"],
        id="a picker's Secret of the other",
    ),
    pytest.param(
        {
            FILE: federated("team-a-web")[FILE].replace(
                "kind: Deployment, name: web}", "kind: Deployment, name: web, namespace: team-b-web}"
            )
        },
        [f"{AT}:7:65: spec.targetRef.namespace: unknown field"],
        id="placement of a target of the other",
    ),
    pytest.param(
        sleep("namespaceSelector: {matchLabels: {team: b}}, workloads: {}"),
        [f"{AT}:5:14: spec.selector.namespaceSelector: unknown field"],
        id="namespaces by a field of another API",
    ),
    pytest.param(
        sleep("<<: {namespaces: {include: [team-b-web]}}, workloads: {}"),
        [f'{AT}:5:42: spec.selector.namespaces.include[0]: is "team-b-web", {OWN}'],
        id="by a merge key",
    ),
    pytest.param(
        sleep("namespaces: {include: &other [team-b-web]}, workloads: {}"),
        [f'{AT}:5:44: spec.selector.namespaces.include[0]: is "team-b-web", {OWN}'],
        id="behind an anchor",
    ),
    pytest.param(
        {FILE: "x: &n [team-b-web]\n---\n" + sleep("namespaces: {include: *n}, workloads: {}")[FILE]},
        [f'{AT}:7:36: "*n" names no anchor that ends before it, expected one'],
        id="by an alias of another document",
    ),
    pytest.param(
        sleep('namespaces: {include: ["team-a-*"], include: [team-b-web]}, workloads: {}'),
        [
            f'{AT}:5:50: "include" is given twice, expected once',
            f'{AT}:5:60: spec.selector.namespaces.include[0]: is "team-b-web", {OWN}',
        ],
        id="in a key that is given twice",
    ),
    pytest.param(
        of_namespaces("team-a-web,team-b-web"),
        [f'{AT}:5:37: spec.selector.namespaces.include[0]: is "team-a-web,team-b-web", {PATTERN}'],
        id="two names in one",
    ),
    pytest.param(
        of_namespaces("team-b-web "),
        [f'{AT}:5:37: spec.selector.namespaces.include[0]: is "team-b-web ", {PATTERN}'],
        id="with a blank",
    ),
    pytest.param(
        {FILE: sleep()[FILE] + "---\n" + FLEET},
        [f'{AT}:10:7: kind: is "Fleet", expected '],
        id="a Fleet behind a policy",
    ),
    pytest.param(
        {FILE: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: freeze, namespace: reconciler}\n"},
        [f'{AT}:2:7: kind: is "ConfigMap", expected '],
        id="a freeze of its own",
    ),
    pytest.param(
        sleep(more='  exclude: [{namespaces: {include: ["*"]}}]\n'),
        [f"{AT}:5:13: spec.exclude[0]: excludes everything, expected "],
        id="excluding everything",
    ),
]
EMPTY = [
    pytest.param(of_namespaces("*"), id="everything"),
    pytest.param(sleep("workloads: {}, services: {}"), id="everything, and Services"),
    pytest.param(sleep("namespaces: {matchLabels: {team: b}}, workloads: {}"), id="namespaces by label"),
    pytest.param(
        sleep("namespaces: {matchLabels: {kubernetes.io/metadata.name: team-b-web}}, workloads: {}"),
        id="a namespace by its own label",
    ),
    pytest.param(
        sleep("namespaces: {matchExpressions: [{key: none, operator: DoesNotExist}]}, workloads: {}"),
        id="namespaces without a label",
    ),
    pytest.param(sleep("clusters: {matchLabels: {env: prod}}, workloads: {}"), id="clusters by label"),
    pytest.param(sleep("services: {matchLabels: {team: b}}"), id="Services by label"),
    pytest.param(sleep("workloads: {matchLabels: {team: b}}"), id="workloads by label"),
    pytest.param(sleep("workloads: {include: [web]}"), id="workloads by the name of the other's"),
    pytest.param(sleep(more="  wakeOrder: {group: b/sleep, perRun: 1}\n"), id="the wake group of the other"),
    pytest.param(sleep(more="  wakeOrder: {group: tools, tier: 0}\n"), id="the wake group of the platform"),
    pytest.param(sleep(more="  priority: 10\n"), id="the highest priority"),
    pytest.param(
        sleep(more="  exclude: [{namespaces: {include: [team-b-web]}}]\n"), id="excluding what is not its own"
    ),
    pytest.param(sleep(name="tools"), id="the name of a platform policy"),
    pytest.param({FILE: CALENDAR.replace("NAME", "nights")}, id="the name of a platform calendar"),
    pytest.param({FILE: PICKER.replace("HOST", "picker.team-a-web.svc")}, id="its own picker: secrets are its own too"),
    pytest.param(federated("team-a-web"), id="placement everywhere"),
    pytest.param(sleep("services: {include: [web]}"), id="Services by the name of the other's"),
    pytest.param(
        sleep(
            "namespaces: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [none]}]}, "
            "workloads: {}"
        ),
        id="namespaces but for one that is not there",
    ),
    pytest.param(
        sleep("clusters: {matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}, workloads: {}"),
        id="clusters but for its own",
    ),
    pytest.param(sleep("services: {}, workloads: {}", "  mode: Observe\n"), id="observing everything"),
    pytest.param(
        sleep(more="  limits: {workloads: 100}\n"),
        id="limits of everything",
    ),
    pytest.param(sleep("services: {}", "  wake: OnSignal\n"), id="waiting for signals of everything"),
    pytest.param(
        sleep("services: {}, workloads: {}", "  onRevert: Insist\n  gitOps: {flux: Pause}\n"), id="insisting everywhere"
    ),
    pytest.param(
        {FILE: PICKER.partition("  podPicker")[0].replace("replicas: 1", "replicas: 0")}, id="everything down to zero"
    ),
    pytest.param(
        {
            FILE: sleep("services: {}")[FILE].replace(
                "}]\n", "}, {metric: {query: 'sum(up{namespace=\"team-b-web\"})', atMost: 0, window: 5m}}]\n", 1
            )
        },
        id="a query about the other",
    ),
]


def test_more_than_thirty_ways_to_reach_further_are_refused_with_file_and_line():
    named = [one.id for one in REFUSED if one.values[1] and all(AT_LINE.match(line) for line in one.values[1])]
    assert len(set(named)) >= 44
    assert len({one.id for one in (*REFUSED, *EMPTY)}) == len(REFUSED) + len(EMPTY) >= 70


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


@pytest.mark.parametrize(("files", "expected"), REFUSED)
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


LINK = "is a link to a file of another owner, expected one of tenant a"


@pytest.mark.parametrize(
    ("link", "target", "expected"),
    [
        pytest.param("more.yaml", "../../platform.yaml", [f"{AT}:1:1: {LINK}"], id="a file of the platform"),
        pytest.param("more.yaml", "../b/sleep.yaml", [f"{AT}:1:1: {LINK}"], id="a file of the other"),
        pytest.param("theirs", "../b", [], id="the folder of the other, which is not followed"),
        pytest.param("all", "..", [], id="the folder of all teams, which is not followed"),
    ],
)
def test_a_link_to_what_is_another_s_is_refused_or_not_followed(tmp_path, ever, link, target, expected):
    folder = two_teams(Folder(tmp_path), snapshot=False)
    (tmp_path / "policies" / "teams" / "a" / link).symlink_to(target)
    with inside(tmp_path):
        policies, problems = check_policies("policies")
    assert list(map(str, problems))[: len(expected)] == expected
    assert expected or [policy.name for policy in policies.idling] == ["a/sleep", "b/sleep", "tools"]
    assert acts(folder.path, ever.state)["others"] == ever.others


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
    everything = sleep('namespaces: {include: ["*"]}, services: {}, workloads: {}', "  priority: 10\n")
    unlimited = FLEET.replace("maxPriority: 10\n", "maxPriority: 10\n      limits: {workloads: 100}\n")
    folder = two_teams(Folder(tmp_path), snapshot=False, **{**everything, "fleet.yaml": unlimited})
    state = moved(ever.state, {"tools": later})
    found = acts(folder.path, state)
    assert any(f"/{later}/" in key for key, *_ in found.get("a", [])) is own
    assert not [one for one in found.get("others", []) if one[1].startswith("a/")]


def test_explain_says_that_a_namespace_is_not_of_the_tenant(tmp_path):
    folder = two_teams(Folder(tmp_path), **{"platform.yaml": "", "teams/b/sleep.yaml": ""})
    said = folder.call("explain", "dev/tools/Deployment/web", "--snapshot", "snapshot", "--now", NIGHT)
    assert "namespaces: tools is not of the tenant, which has team-a-*" in said.out


def test_a_team_may_ask_a_picker_of_the_platform_that_the_fleet_names(tmp_path):
    folder = two_teams(Folder(tmp_path), snapshot=False, **{FILE: PICKER.replace("HOST", "rank.tools.svc")})
    fleet = folder.path / "policies" / "fleet.yaml"
    refused = "a Service of the platform"
    with inside(tmp_path):
        assert refused in str(check_policies("policies")[1])
        named = 'spec:\n  podPickers: {allowedHosts: ["*.svc", rank.tools.svc]}\n'
        fleet.write_text(fleet.read_text().replace("spec:\n", named, 1))
        assert check_policies("policies")[1] == ()
