"""What is written down for each workload kind elsewhere agrees with its row in the table."""

from __future__ import annotations

from reconciler.backends.decode.shapes import SHAPES, Custom
from reconciler.backends.decode.workloads import _SPECIFIC
from reconciler.workload_kinds import SCALABLE_KINDS, WORKLOAD_KINDS, WorkloadKind, workload_kind
from tests.cases import cases
from tests.live.write_deploy import files


def test_each_kind_without_a_definition_of_its_own_has_a_decoder() -> None:
    shapes = {SHAPES.get(key) for key in SCALABLE_KINDS}

    assert None not in shapes
    assert shapes <= set(_SPECIFIC)


def test_replicas_that_stand_elsewhere_are_read_where_they_are_written() -> None:
    elsewhere = [one for one in WORKLOAD_KINDS if one.counts and one.replicas_path != ("spec", "replicas")]

    assert {SHAPES.get((one.group, one.kind), Custom) for one in elsewhere} <= {Custom}


def test_deploy_has_the_rights_and_admission_rules_of_every_kind() -> None:
    """`python -m tests.live.write_deploy` writes them."""
    assert {path: path.read_text() for path in files()} == files()


@cases(
    "kind replicas value",
    ("suspended CronJob", "CronJob", 0, True),
    ("running CronJob", "CronJob", 1, False),
    ("Deployment with replicas", "Deployment", 3, 3),
    ("ScaledObject paused at zero", "ScaledObject", 0, "0"),
)
def test_what_stands_where_a_kind_is_scaled(kind: str, replicas: int, value: object) -> None:
    assert workload_kind(kind).value_at(replicas) == value


def test_a_kind_that_is_not_known_has_replicas_and_a_controller_that_chooses_pods() -> None:
    found = workload_kind("Widget")

    assert found == WorkloadKind("", "", "", "")
    assert (found.counts, found.pods, found.takes_deletion_cost) == (True, "Controller", False)
    assert len({one.kind for one in WORKLOAD_KINDS}) == len(WORKLOAD_KINDS)
