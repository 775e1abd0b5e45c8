"""Rules between fields and between policies, each with exactly the lines a person reads."""

from __future__ import annotations

import pytest

from reconciler.connection_settings import SecretKey
from reconciler.policy.load import read_policies
from reconciler.policy.types import ClusterPreference
from reconciler.yaml.reader import TOO_LARGE
from tests.cases import cases
from tests.policy.base import CALENDAR, FEDERATED, FILES, IDLING, REPLICA_SET, edited, problems_in

PLACE_OF_HOST = "policies/downscale.yaml:14:13: spec.podPicker.http.host: "
ANNOTATION = "metadata.annotations.federation.kubernetes.io/replica-set-preferences"


@pytest.mark.parametrize("depth", [65, 9_000, 200_000])
def test_how_deep_an_annotation_may_be_nested_does_not_depend_on_the_interpreter(tmp_path, depth):
    preferences = '{"rebalance": true, "clusters": {"eu-west": {"Weight": 2}, "*": {"weight": 1}}}'
    found = problems_in(tmp_path, edited("replicaset.yaml", preferences, "[" * depth + "]" * depth))
    assert found == [f"policies/replicaset.yaml:7:55: {ANNOTATION}: is no JSON: nested deeper than 64 levels"]


@pytest.mark.parametrize(
    ("host", "fault"),
    [
        ("picker.airflow.svc.cluster.local", None),
        ("PICKER.airflow.SVC", None),
        ("picker.airflow.svc.", None),
        ("10.0.0.7", None),
        ("'[2001:db8::1]'", None),
        ("127.0.0.1", None),
        ("169.254.169.254", "no link-local or metadata address"),
        ("'fe80::1'", "no link-local or metadata address"),
        ("'[::ffff:169.254.169.254]'", "no link-local or metadata address"),
        ("metadata.google.internal", "no link-local or metadata address"),
        ("Metadata.Google.Internal.", "no link-local or metadata address"),
        ("'2852039166'", "a host name or an address"),
        ("'0xa9fea9fe'", "a host name or an address"),
        ("169.254.43518", "a host name or an address"),
        ("'0251.0376.0251.0376'", "a host name or an address"),
        ("https://picker.airflow.svc", "a host name or an address"),
        ("picker.airflow.svc/x", "a host name or an address"),
        ("'picker.airflow.svc:443'", "a host name or an address"),
        ("me@picker.airflow.svc", "a host name or an address"),
        ("'picker airflow.svc'", "a host name or an address"),
        ("-picker.svc", "a host name or an address"),
    ],
)
def test_hosts_of_pickers(tmp_path, host, fault):
    files = edited("downscale.yaml", "host: picker.airflow.svc", f"host: {host}")
    files["fleet.yaml"] += '  podPickers: {allowedHosts: ["*"]}\n'
    shown = host.strip("'")
    assert problems_in(tmp_path, files) == ([] if fault is None else [f'{PLACE_OF_HOST}is "{shown}", expected {fault}'])


@cases(
    "allowed host good",
    ("host matches a pattern", '["*.svc"]', "picker.airflow.svc", True),
    ("upper and lower case", '["*.SVC"]', "Picker.Airflow.svc", True),
    ("no host allowed", "[]", "picker.airflow.svc", False),
    ("pattern followed by another domain", '["*.svc"]', "picker.airflow.svc.example.org", False),
    ("another host allowed", '["picker.airflow.svc"]', "other.airflow.svc", False),
)
def test_hosts_that_the_fleet_allows(tmp_path, allowed, host, good):
    files = edited("downscale.yaml", "host: picker.airflow.svc", f"host: {host}")
    files["fleet.yaml"] += f"  podPickers: {{allowedHosts: {allowed}}}\n"
    found = problems_in(tmp_path, files)
    assert [line.startswith(f'{PLACE_OF_HOST}is "{host}", expected a host that the Fleet') for line in found] == (
        [] if good else [True]
    )


SECOND = "is {} a second time, expected a name of its own; the first is at policies/{}"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            IDLING,
            ["policies/more.yaml:3:18: metadata.name: " + SECOND.format('"idle-dev"', "idling.yaml:1")],
            id="idling",
        ),
        pytest.param(
            CALENDAR,
            ["policies/more.yaml:3:18: metadata.name: " + SECOND.format('"nights"', "calendar.yaml:1")],
            id="calendar",
        ),
        pytest.param(
            FEDERATED,
            ["policies/more.yaml:3:18: metadata.name: " + SECOND.format('"web"', "federated.yaml:1")],
            id="federated",
        ),
        pytest.param(
            REPLICA_SET.replace("name: cache\n  namespace", "name: web\n  namespace"),
            ["policies/replicaset.yaml"],
            id="both forms",
        ),
        pytest.param(IDLING.replace("idle-dev", "nights"), [], id="one name for two kinds"),
        pytest.param(FEDERATED.replace("namespace: shop", "namespace: other"), [], id="one name in two namespaces"),
        pytest.param(
            "apiVersion: reconciler/v1alpha1\nkind: FederatedReplicaSet\nmetadata: {name: same, namespace: shop}\n"
            "spec:\n  replicas: 1\n  targetRef: {apiVersion: apps/v1, kind: replicaset, name: web}\n",
            [
                "policies/more.yaml:6:14: spec.targetRef: drives replicaset shop/web, expected one policy for it; "
                "web at policies/federated.yaml:1 does"
            ],
            id="two policies for one workload",
        ),
        pytest.param(
            "apiVersion: reconciler/v1alpha1\nkind: FederatedReplicaSet\nmetadata: {name: same, namespace: shop}\n"
            "spec:\n  replicas: 1\n  targetRef: {apiVersion: example.org/v1, kind: ReplicaSet, name: web}\n",
            [],
            id="a kind of the same name of another group",
        ),
    ],
)
def test_names_and_workloads_belong_to_one_policy(tmp_path, more, expected):
    found = problems_in(tmp_path, {**FILES, "more.yaml": more})
    if expected == ["policies/replicaset.yaml"]:
        expected = ["policies/more.yaml:4:9: metadata.name: " + SECOND.format('"web"', "federated.yaml:1")]
    assert found == expected


def test_everything_wrong_is_told_at_once(tmp_path):
    """One document with a wrong field, a wrong value, a broken rule and an unknown name; another file as well."""
    files = edited("idling.yaml", "include: [eu-west]", "include: [eu-wst], matchLabels: {a: 1}")
    files["idling.yaml"] = files["idling.yaml"].replace("minAge: 1h", "minAge: 1hour").replace("nights", "nihgts")
    files["downscale.yaml"] = files["downscale.yaml"].replace("max: 40", "max: 1").replace("kinds", "kind")
    assert problems_in(tmp_path, files) == [
        'policies/downscale.yaml:7:17: spec.selector.workloads.kind: unknown field, did you mean "kinds"?',
        'policies/downscale.yaml:11:10: spec.target.max: is "1", expected at least min, which is "2"',
        'policies/idling.yaml:7:26: spec.selector.clusters.include[0]: is "eu-wst", expected a cluster of the Fleet, '
        'did you mean "eu-west"?',
        "policies/idling.yaml:7:52: spec.selector.clusters.matchLabels.a: is 1 (a number), expected a label "
        "value of at most 63 letters, digits, -, _ and .; put it in quotes",
        'policies/idling.yaml:16:19: spec.idleWhen[1].schedule.calendar: is "nihgts", expected the name of a Calendar, '
        'did you mean "nights"?',
        'policies/idling.yaml:17:11: spec.minAge: is "1hour", expected a duration like 90s, 30m, 1h30m or 2d, '
        "at most 999d",
    ]


def test_a_name_that_a_broken_calendar_has_is_known(tmp_path):
    assert problems_in(tmp_path, edited("calendar.yaml", "Europe/Paris", "Europe")) == [
        'policies/calendar.yaml:5:13: spec.timeZone: is "Europe", expected a time zone like Europe/Paris'
    ]


@pytest.mark.parametrize(
    "zone", ["localtime", "right/Europe/Paris", "../Europe/Paris", "/etc/localtime", "Europe/", "''", "CEST+1x", "'é'"]
)
def test_zones_that_are_none_everywhere(tmp_path, zone):
    (found,) = problems_in(tmp_path, edited("calendar.yaml", "Europe/Paris", zone))
    shown = zone.strip("'")
    assert found.startswith(f'policies/calendar.yaml:5:13: spec.timeZone: is "{shown}", expected a t')


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"])
def test_zones(tmp_path, zone):
    assert problems_in(tmp_path, edited("calendar.yaml", "Europe/Paris", zone)) == []


@cases(
    "file old new most named",
    ("threshold of a metric", "idling.yaml", "atMost: 0", "atMost: {}", 2**53, "2^53"),
    ("tier of a policy", "idling.yaml", "tier: 10", "tier: {}", 2**53, "2^53"),
    ("weight of a cluster", "federated.yaml", "maxReplicas: 20, weight: 1", "weight: {}", 2**53, "2^53"),
    ("idle replicas", "idling.yaml", "idleReplicas: 0", "idleReplicas: {}", 2**31 - 1, "2147483647"),
    ("replicas of a limit", "fleet.yaml", "atLeast: 3", "atLeast: {}", 2**31 - 1, "2147483647"),
    ("replicas of a federated set", "federated.yaml", "replicas: 50", "replicas: {}", 2**31 - 1, "2147483647"),
    ("most replicas of a target", "downscale.yaml", "max: 40", "max: {}", 2**31 - 1, "2147483647"),
)
def test_whole_numbers_end_where_they_stop_being_exact_and_replicas_where_kubernetes_ends(
    tmp_path, file, old, new, most, named
):
    assert problems_in(tmp_path, edited(file, old, new.format(most))) == []
    for number in (most + 1, 10**30):
        (found,) = problems_in(tmp_path, edited(file, old, new.format(number)))
        expected = f'is "{number}", expected a number of at most {named}'
        assert found.endswith(TOO_LARGE if number == 10**30 else expected)


@pytest.mark.parametrize("levels", [5, 20, 29, 200])
def test_criteria_nested_to_any_depth_are_told_or_refused(tmp_path, levels):
    deep = "{anyOf: [" * levels + "{schedul: {}}" + "]}" * levels
    files = edited("idling.yaml", "    - schedule:\n        calendar: nights\n", f"    - {deep}\n")
    (found,) = problems_in(tmp_path, files)
    where = f"policies/idling.yaml:15:{7 + 9 * levels + 1}: spec.idleWhen[1]{'.anyOf[0]' * levels}.schedul"
    too_deep = "policies/idling.yaml:15:285: is nested deeper than 64 levels, expected fewer"
    assert found == (f'{where}: unknown field, did you mean "schedule"?' if levels < 30 else too_deep)


@pytest.mark.parametrize(
    ("settings", "chooser"), [("strategy: NewestFirst", "NewestFirst"), ("logarithm: {base: 10}", "logarithm.base")]
)
def test_a_strategy_that_cannot_be_carried_out_is_refused(tmp_path, settings, chooser):
    policy = f"""\
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {{name: workers}}
spec:
  selector: {{namespaces: {{include: [batch]}}, workloads: {{kinds: [StatefulSet]}}}}
  {settings}
"""
    found = problems_in(tmp_path, {"downscale.yaml": policy})
    assert [one for one in found if "StatefulSet" in one] == [
        'policies/downscale.yaml:5:66: spec.selector.workloads.kinds[0]: is "StatefulSet" with '
        f"{chooser}, expected a kind whose victims can be chosen, like Deployment"
    ]


@pytest.mark.parametrize(
    "old",
    [
        pytest.param(
            "  annotations:\n    federation.kubernetes.io/replica-set-preferences: |\n"
            '      {"rebalance": true, "clusters": {"eu-west": {"Weight": 2}, "*": {"weight": 1}}}\n',
            id="no annotations",
        ),
        pytest.param("federation.kubernetes.io/replica-set-preferences", id="another annotation"),
    ],
)
def test_a_replica_set_without_preferences_has_as_many_replicas_in_each_cluster(tmp_path, old):
    """Source: seed federated-replicasets.md, "The default behavior is to start the same amount of replicas"."""
    new = "" if old.startswith("  ") else "example.org/preferences"
    folder = tmp_path / "policies"
    folder.mkdir()
    for name, text in edited("replicaset.yaml", old, new).items():
        (folder / name).write_text(text)
    (found,) = [one for one in read_policies(folder).federated if one.place.file.endswith("replicaset.yaml")]
    assert found.clusters == {"*": ClusterPreference(weight=1)}


@pytest.mark.parametrize(
    "key",
    [
        "federation.kubernetes.io/replica-set-preference",
        "federation.kubernetes.io/replicaset-preferences",
        "federation.alpha.kubernetes.io/replica-set-preferences",
        "replica-set-preferences",
    ],
)
def test_a_misspelt_preferences_annotation_is_refused(tmp_path, key):
    preferences = "federation.kubernetes.io/replica-set-preferences"
    found = problems_in(tmp_path, edited("replicaset.yaml", preferences, key))
    assert [one.partition(" ")[2] for one in found] == [
        f'metadata.annotations.{key}: unknown annotation, did you mean "{preferences}"?'
    ]


@pytest.mark.parametrize("name", ["hpa-preferences", "deployment-preferences", "replica-set-history"])
def test_other_annotations_of_the_federation_are_left_alone(tmp_path, name):
    files = edited("replicaset.yaml", "replica-set-preferences", name)
    assert problems_in(tmp_path, files) == []


PICKED = """\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: my-replicaset
spec:
  replicas: 3
  selector: {matchLabels: {app: my-app}}
  template:
    metadata: {labels: {app: my-app}}
    spec: {containers: [{name: my-container, image: my-image}]}
  downscalePodPicker:
    http:
      host: my-app.my-namespace.svc.cluster.local
      httpHeaders:
        - name: authentication
          valueFrom: {secretKeyRef: {key: authentication-token, name: my-secret}}
      path: "/downscale-pod-picker"
      port: 443
      scheme: "https"
    maxRetries: 3
    timeoutSeconds: 5
"""


def test_the_replica_set_with_a_pod_picker_of_the_proposal_is_taken_as_it_stands(tmp_path):
    """Source: seed downscale-pod-picker.md, K8S API Changes."""
    (tmp_path / "fleet.yaml").write_text(FILES["fleet.yaml"])
    (tmp_path / "picked.yaml").write_text(PICKED)
    (found,) = read_policies(tmp_path).federated
    picker = found.pod_picker
    assert (found.key, found.replicas, found.clusters) == (
        "default/my-replicaset",
        3,
        {"*": ClusterPreference(weight=1)},
    )
    assert picker is not None
    assert (picker.host, picker.path, picker.port, picker.scheme, picker.max_retries, picker.timeout_seconds) == (
        "my-app.my-namespace.svc.cluster.local",
        "/downscale-pod-picker",
        443,
        "https",
        3,
        5,
    )
    assert [(header.name, header.secret) for header in picker.headers] == [
        ("authentication", SecretKey("my-secret", "authentication-token"))
    ]
