"""More that a team may write to reach further than it may: in values, addresses and names; see test_tenants.py too."""

from __future__ import annotations

import pytest

from reconciler.policy.load import check_policies
from tests.way.calls import Folder, inside
from tests.way.teams import two_teams

HEAD = "apiVersion: reconciler/v1alpha1\nkind: {}\nmetadata: {{name: x{}}}\n"


def idling(selector: str = "workloads: {}", more: str = "") -> str:
    when = "idleWhen: [{schedule: {timeZone: UTC, downtime: ['20:00-07:00']}}]"
    return HEAD.format("IdlingPolicy", "") + f"spec:\n  selector: {{{selector}}}\n  {when}\n{more}"


def criterion(text: str) -> str:
    return HEAD.format("IdlingPolicy", "") + f"spec:\n  selector: {{workloads: {{}}}}\n  idleWhen:\n    - {text}\n"


def placed(namespace: str = "team-a-web", spec: str = "", target: str = "kind: Deployment, name: web") -> str:
    return (
        HEAD.format("FederatedReplicaSet", f", namespace: {namespace}")
        + f"spec:\n  replicas: 2\n  targetRef: {{apiVersion: apps/v1, {target}}}\n{spec}"
    )


def picking(http: str) -> str:
    return (
        HEAD.format("DownscalePolicy", "")
        + f"spec:\n  selector: {{workloads: {{}}}}\n  podPicker: {{http: {{{http}}}}}\n"
    )


def deployment(namespace: str, host: str) -> str:
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: {namespace}}}\n"
        f"spec: {{downscalePodPicker: {{http: {{host: {host}, path: /}}}}}}\n"
    )


def replica_set(preferences: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: x
  namespace: team-a-web
  annotations:
    federation.kubernetes.io/replica-set-preferences: '{preferences}'
spec:
  replicas: 2
  selector: {{matchLabels: {{app: x}}}}
  template: {{metadata: {{labels: {{app: x}}}}, spec: {{containers: [{{name: c, image: x}}]}}}}
"""


# What the team writes, and the place in its file of what is refused.
REACHING = [
    pytest.param(
        deployment("tools", "rank.team-a-web.svc"), "3:34: metadata.namespace", id="a Deployment of the platform"
    ),
    pytest.param(
        deployment("team-b-web", "rank.team-b-web.svc"), "3:34: metadata.namespace", id="a Deployment of the other team"
    ),
    pytest.param(
        deployment("team-a-web", "rank.tools.svc"),
        "4:42: spec.downscalePodPicker.http.host",
        id="a Deployment that asks a picker of the platform",
    ),
    pytest.param(
        "apiVersion: v1\nkind: List\nitems: [{apiVersion: reconciler/v1alpha1, kind: Fleet}]\n",
        "2:7: kind",
        id="a Fleet in a List",
    ),
    pytest.param(
        idling('namespaces: {include: ["{team-a-x,tools}"]}, workloads: {}'),
        "5:37: spec.selector.namespaces.include[0]",
        id="alternatives in braces",
    ),
    pytest.param(
        idling('namespaces: {include: ["!team-a-*"]}, workloads: {}'),
        "5:37: spec.selector.namespaces.include[0]",
        id="a pattern negated",
    ),
    pytest.param(
        idling('namespaces: {include: ["team-a-.|tools"]}, workloads: {}'),
        "5:37: spec.selector.namespaces.include[0]",
        id="a regular expression",
    ),
    pytest.param(
        idling('namespaces: {within: ["*"]}, workloads: {}'),
        "5:27: spec.selector.namespaces.within",
        id="the bounds themselves",
    ),
    pytest.param(idling(more="  priority: 1e3\n"), "7:13: spec.priority", id="a priority in exponents"),
    pytest.param(
        criterion("schedule: {calendar: ../b/nights}"),
        "7:28: spec.idleWhen[0].schedule.calendar",
        id="a calendar by a path",
    ),
    pytest.param(
        idling().replace("name: x", 'name: "x\\n## Production"'), "3:18: metadata.name", id="a name that ends the line"
    ),
    pytest.param(
        criterion("metric: {query: \"{{ ''.__class__.__mro__ }}\", atMost: 0, window: 30m}"),
        "7:23: spec.idleWhen[0].metric.query",
        id="code in a query",
    ),
    pytest.param(
        criterion('metric: {query: "{% for _ in range(9999999) %}x{% endfor %}", atMost: 0, window: 30m}'),
        "7:23: spec.idleWhen[0].metric.query",
        id="a loop in a query",
    ),
    pytest.param(
        criterion('metric: {query: up, url: "http://evil.example", atMost: 0, window: 30m}'),
        "7:27: spec.idleWhen[0].metric.url",
        id="a server for the query",
    ),
    pytest.param(HEAD.format("Freeze", "") + "spec: {}\n", "2:7: kind", id="a kind that it may not have"),
    pytest.param(
        placed().replace(", namespace: team-a-web", ""), "3:11: metadata.namespace", id="no namespace to place in"
    ),
    pytest.param(
        placed(spec="  preferences: {clusters: {dev: {weight: 1}, prod: {weight: 1}}}\n"),
        "7:46: spec.preferences.clusters.prod",
        id="a cluster to place on beside its own",
    ),
    pytest.param(
        replica_set('{"clusters": {"dev": {}}, "clusters": {"prod": {}}}'),
        "7:55: metadata.annotations.federation.kubernetes.io/replica-set-preferences",
        id="an annotation with two keys of one name",
    ),
    pytest.param(
        picking("host: rank.tools.svc, port: 80, path: /"),
        "6:28: spec.podPicker.http.host",
        id="a picker of the platform",
    ),
    pytest.param(
        picking("host: rank, port: 80, path: /"), "6:28: spec.podPicker.http.host", id="a picker of the run's namespace"
    ),
    pytest.param(
        picking("host: kubernetes.default, port: 443, path: /"),
        "6:28: spec.podPicker.http.host",
        id="the API server as picker",
    ),
    pytest.param(
        picking("host: 169.254.169.254, port: 80, path: /"), "6:28: spec.podPicker.http.host", id="an address as picker"
    ),
    pytest.param(
        picking('host: "[::1]", port: 80, path: /'),
        "6:28: spec.podPicker.http.host",
        id="an address in brackets as picker",
    ),
    pytest.param(
        picking('host: "2852039166", port: 80, path: /'), "6:28: spec.podPicker.http.host", id="a number as picker"
    ),
    pytest.param(
        picking('host: "x@rank.tools.svc", port: 80, path: /'),
        "6:28: spec.podPicker.http.host",
        id="credentials in a picker's host",
    ),
    pytest.param(
        picking('host: "rank.team-a-web.svc:80@rank.tools.svc", port: 80, path: /'),
        "6:28: spec.podPicker.http.host",
        id="a picker's host with a port",
    ),
    pytest.param(
        picking('host: rank.team-a-web.svc, port: 80, path: "/ HTTP/1.1\\r\\nHost: evil"'),
        "6:65: spec.podPicker.http.path",
        id="a path that ends the request",
    ),
    pytest.param(
        picking(
            'host: rank.team-a-web.svc, port: 80, path: /, httpHeaders: [{name: X, value: "a\\r\\nAuthorization: b"}]'
        ),
        "6:99: spec.podPicker.http.httpHeaders[0].value",
        id="a header that ends the line",
    ),
    pytest.param(
        idling().replace("name: x", "name: !!python/object/apply:os.getcwd []"),
        '3:18: has the tag "tag:yaml.org,2002:python/object/apply:os.',
        id="a Python object",
    ),
]


@pytest.mark.parametrize(("text", "refused"), REACHING)
def test_what_reaches_further_is_refused_at_its_line_and_stops_the_team_alone(tmp_path, text, refused):
    two_teams(Folder(tmp_path), snapshot=False, **{"teams/a/x.yaml": text})
    with inside(tmp_path):
        found, problems = check_policies("policies")
    assert found is not None
    assert [one.name for one in found.stopped] == ["a"]
    assert [one.name for one in found.idling] == ["b/sleep", "tools"]
    assert {one.file for one in problems} == {"policies/teams/a/x.yaml"}
    assert any(str(one).startswith(f"policies/teams/a/x.yaml:{refused}") for one in problems), problems
