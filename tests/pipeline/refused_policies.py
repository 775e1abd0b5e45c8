"""What team a may not write: policies that reach what is not its own, and how each is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.manifests import an_object, downscale, placed, policy, target_ref, template
from tests.pipeline.teams import FLEET, SLEEP

INCLUDE, HOST = "5:37: spec.selector.namespaces.include[0]", "spec.podPicker.http.host"
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


def picker(host: str, secret: str = "") -> str:
    header = f"{{name: x-token, valueFrom: {{secretKeyRef: {{name: b, key: k{secret}}}}}}}"
    http = f"podPicker: {{http: {{host: {host}, path: /, httpHeaders: [{header}]}}}}"
    return downscale("workloads: {kinds: [Deployment]}", 1, http, name="batch")


def federated(namespace: str, clusters: str = '{"*": {weight: 1}}', target: str = target_ref()) -> str:
    return placed(4, f"clusters: {clusters}", target, namespace=namespace)


def replica_set(preferences: str) -> str:
    key = "federation.kubernetes.io/replica-set-preferences"
    annotations = f"annotations: {{{key}: '{preferences}'}}"
    spec = ("replicas: 4", template())
    return an_object("ReplicaSet", "web", "team-a-web", *spec, metadata=annotations, version="apps/v1")


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
        '7:36: "*n" names no anchor that ends before it, expected one; put a text in quotes',
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
