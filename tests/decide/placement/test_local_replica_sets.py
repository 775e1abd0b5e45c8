"""Where a local ReplicaSet differs from its policy, and where it only looks so."""

from __future__ import annotations

from copy import deepcopy

import pytest

from reconciler.decide.annotations import Key, placement_owner
from reconciler.decide.decisions import FieldChange
from reconciler.decide.placement.home_config_maps import config_map_name
from reconciler.decide.placement.local_replica_sets import form_of, label_of, metadata_changes, selector_differs
from reconciler.decide.placement.ownership import is_ours
from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.policy.load import read_policies
from tests.builders import a_fleet, a_workload
from tests.cases import cases

from .placements import TEMPLATE, a_federated, a_local

FIRST = "template.spec.containers.0"


def a_form(**fields):
    form = form_of(a_federated(**fields), a_fleet())
    assert form is not None
    return form


def changed(**container):
    template = deepcopy(TEMPLATE)
    template["spec"]["containers"][0].update(container)
    return template


def with_defaults():
    """The template as an API server gives it back."""
    template = changed(terminationMessagePath="/dev/termination-log", imagePullPolicy="IfNotPresent")
    template["metadata"]["creationTimestamp"] = None
    template["spec"] |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {}}
    return template


def limits(**amounts):
    return changed(resources={"limits": amounts})


@cases(
    "wanted found expected",
    ("equal", TEMPLATE, TEMPLATE, ""),
    ("the server's defaults", TEMPLATE, with_defaults(), ""),
    ("empty values are left out", changed(env=[], command=None, stdin=False), TEMPLATE, ""),
    ("a number for a text", limits(cpu=1), limits(cpu="1"), ""),
    ("the same amounts", limits(cpu="0.5", memory="1024Mi"), limits(cpu="500m", memory="1Gi"), ""),
    ("e3m", limits(cpu="1e3m"), limits(cpu="1"), f"{FIRST}.resources.limits.cpu"),
    ("G, Gi", limits(memory="1G"), limits(memory="1Gi"), f"{FIRST}.resources.limits.memory"),
    (
        "an exponent of too many digits",
        limits(cpu="1e0"),
        limits(cpu="1e" + "9" * 5000),
        f"{FIRST}.resources.limits.cpu",
    ),
    ("no amount", changed(image="1000m"), changed(image="1"), f"{FIRST}.image"),
    ("another image", TEMPLATE, changed(image="web:2"), f"{FIRST}.image"),
    (
        "one container more",
        TEMPLATE,
        TEMPLATE | {"spec": {"containers": [*TEMPLATE["spec"]["containers"], {"name": "side"}]}},
        "template.spec.containers",
    ),
    ("a field is missing", changed(stdin=True), TEMPLATE, f"{FIRST}.stdin"),
    ("nothing there", TEMPLATE, {}, "template.metadata template.spec"),
)
def test_template_differences(wanted, found, expected):
    workload = a_local("west", 3, a_federated(template=wanted), template=found)
    assert " ".join(a_form(template=wanted).template_differences(workload)) == expected


def test_a_template_that_is_not_known_differs_in_nothing():
    assert a_form().template_differences(a_local("west", 3, template=None)) == ()


@cases(
    "wanted found equal",
    ("nano to micro", "1000n", "1u", True),
    ("micro to milli", "1000u", "1m", True),
    ("milli to whole units", "1000m", "1", True),
    ("whole units to kilo", "1000", "1k", True),
    ("kilo to mega", "1000k", "1M", True),
    ("mega to giga", "1000M", "1G", True),
    ("giga to tera", "1000G", "1T", True),
    ("tera to peta", "1000T", "1P", True),
    ("peta to exa", "1000P", "1E", True),
    ("whole units to kibi", "1024", "1Ki", True),
    ("kibi to mebi", "1024Ki", "1Mi", True),
    ("mebi to gibi", "1024Mi", "1Gi", True),
    ("gibi to tebi", "1024Gi", "1Ti", True),
    ("tebi to pebi", "1024Ti", "1Pi", True),
    ("pebi to exbi", "1024Pi", "1Ei", True),
    ("a smaller amount", "1Ki", "1Mi", False),
    ("exponents of one amount", "10e98", "1e99", True),
    ("larger than any amount", "10e99", "1e100", False),
    ("two decimal points", "1.2.3", "1.2", False),
    ("point without digits", ".e5", "0", False),
)
def test_amounts_of_every_suffix(wanted, found, equal):
    workload = a_local("west", 3, a_federated(template=limits(memory=wanted)), template=limits(memory=found))
    expected = () if equal else (f"{FIRST}.resources.limits.memory",)
    assert a_form(template=limits(memory=wanted)).template_differences(workload) == expected


def test_the_size_limit_of_a_volume_is_an_amount_too():
    def template(size):
        return {**TEMPLATE, "spec": {**TEMPLATE["spec"], "volumes": [{"emptyDir": {"sizeLimit": size}}]}}

    federated = a_federated(template=template("1024Mi"))
    check = a_form(template=template("1024Mi")).template_differences
    assert check(a_local("west", 3, federated, template=template("1Gi"))) == ()
    assert check(a_local("west", 3, federated, template=template("2Gi"))) != ()


def test_a_policy_that_states_less_than_it_did_is_told_by_its_digest():
    before = a_federated(template=changed(command=["web"]))
    assert a_form().template_differences(a_local("west", 3, before)) == ("template",)


class Alone(dict):
    """A template that is compared with no other one: of thousands that would be all with all."""

    __hash__ = None

    def __eq__(self, other):
        raise AssertionError(other)


def test_the_templates_of_many_clusters_are_not_compared_with_each_other():
    check, federated = a_form(template=TEMPLATE).template_differences, a_federated(template=TEMPLATE)
    for image in ("a", "b", "a"):
        template = Alone({**TEMPLATE, "spec": {"containers": [{"name": "web", "image": image}]}})
        assert check(a_local("west", 3, federated, template=template)) != ()


EXPRESSION = {"key": "tier", "operator": "In", "values": ["b", "a"]}


@cases(
    "wanted found differs",
    ("equal", {"matchLabels": {"app": "web"}}, LabelSelector((("app", "web"),)), False),
    ("another value", {"matchLabels": {"app": "web"}}, LabelSelector((("app", "api"),)), True),
    ("another order", {"matchLabels": {"b": "2", "a": "1"}}, LabelSelector((("a", "1"), ("b", "2"))), False),
    (
        "values in another order",
        {"matchExpressions": [EXPRESSION]},
        LabelSelector(match_expressions=(LabelRequirement("tier", "In", ("a", "b")),)),
        False,
    ),
    (
        "another operator",
        {"matchExpressions": [EXPRESSION]},
        LabelSelector(match_expressions=(LabelRequirement("tier", "NotIn", ("a", "b")),)),
        True,
    ),
    ("unknown", {"matchLabels": {"app": "web"}}, None, False),
)
def test_selector_differs(wanted, found, differs):
    form = a_form(selector=wanted)
    assert selector_differs(a_local("west", 3, form.federated, selector=found), form) is differs


def test_a_long_name_is_cut_for_the_label():
    assert label_of("a" * 63) == "a" * 63
    assert label_of("a" * 64) == "a" * 50 + "-ffe054fe7ae0"


def test_names_of_config_maps_are_unique_and_short_enough():
    keys = ["a-b/c", "a/b-c", "a/b.c", "s" * 63 + "/" + "n" * 253, "s" * 63 + "/" + "n" * 252 + "m"]
    names = [config_map_name("reconciler-status-", key) for key in keys]
    assert len(set(names)) == len(keys)
    assert max(map(len, names)) == 253
    assert config_map_name("reconciler-", "s/" + "n" * 240) == "reconciler-s." + "n" * 240


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("production/FederatedReplicaSet/shop/web", ("production", "shop/web")),
        ("production/IdlingPolicy/idle-dev", None),
        ("production/FederatedReplicaSet/", None),
        ("", None),
    ],
)
def test_owner_of(text, expected):
    assert placement_owner({"reconciler/owner": text}) == expected


SEED_FORM = """\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
  namespace: shop
  annotations:
    federation.kubernetes.io/replica-set-preferences: '{"clusters": {"*": {"weight": 1}}}'
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    argocd.argoproj.io/tracking-id: shop:apps/ReplicaSet:shop/web
    example.com/pager: team-shop
spec:
  replicas: 6
  minReadySeconds: 5
  downscalePodPicker: {http: {host: picker.shop.svc}}
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "registry.example/web:1"}]}}
"""


def test_the_original_form_is_carried_over_whole(tmp_path):
    (tmp_path / "fleet.yaml").write_text(
        "apiVersion: reconciler/v1alpha1\nkind: Fleet\nmetadata: {name: production}\n"
        "spec: {home: east, clusters: [{name: east}]}\n"
    )
    (tmp_path / "web.yaml").write_text(SEED_FORM)
    policies = read_policies(str(tmp_path))
    (federated,) = policies.federated
    assert federated.pod_picker is not None
    assert policies.warnings == ()
    manifest = form_of(federated, policies.fleet).manifest(6)
    assert manifest["spec"]["minReadySeconds"] == 5
    assert {key for key in manifest["metadata"]["annotations"] if not key.startswith("reconciler/")} == {
        "example.com/pager"
    }


def test_what_is_carried_over_is_kept_as_the_policy_says():
    form = a_form(min_ready_seconds=5, annotations={"example.com/pager": "team-shop"})
    changes = metadata_changes(a_local("east", 3, min_ready_seconds=2), form)
    assert changes == (
        FieldChange(("metadata", "annotations", "example.com/pager"), None, "team-shop"),
        FieldChange(("spec", "minReadySeconds"), 2, 5),
    )
    assert metadata_changes(a_local("east", 3, min_ready_seconds=0), a_form()) == ()
    assert metadata_changes(a_local("east", 3, min_ready_seconds=3), a_form()) == (
        FieldChange(("spec", "minReadySeconds"), 3, None),
    )


@cases(
    "labels annotations ours",
    ("we own it", {}, {"reconciler/owner": "production/FederatedReplicaSet/shop/web"}, True),
    ("another Fleet", {}, {"reconciler/owner": "staging/FederatedReplicaSet/shop/web"}, False),
    ("another of ours", {}, {"reconciler/owner": "production/FederatedReplicaSet/shop/api"}, False),
    ("our label and our digest, without an owner", {Key.FEDERATED_LABEL: "web"}, {Key.POLICY_DIGEST: "x"}, True),
    ("a label alone", {Key.FEDERATED_LABEL: "web"}, {}, False),
    ("a digest alone", {}, {Key.POLICY_DIGEST: "x"}, False),
    ("the label of another one", {Key.FEDERATED_LABEL: "api"}, {Key.POLICY_DIGEST: "x"}, False),
    ("nothing", {}, {}, False),
)
def test_whose_it_is(labels, annotations, ours):
    found = a_workload(kind="ReplicaSet", labels=labels, annotations=annotations)
    assert is_ours(found, a_federated(), frozenset({"production"})) is ours
