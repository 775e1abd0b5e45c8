"""Validation of 1,000 policies, beside the least that any program with libyaml and jsonschema must do for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from yaml import CSafeLoader

from reconciler.policy.load import check_policies
from reconciler.policy.schemas import validator_of
from tests.bench.measure import SHARES, Work, measured
from tests.bench.sized_input import write_policies, write_tenants

pytestmark = pytest.mark.bench
POLICIES = 1_000
BESIDE = "composing the same bytes with libyaml and checking them with jsonschema"


@pytest.fixture(scope="module", params=[POLICIES // share for share in SHARES])
def policies(request, tmp_path_factory):
    """The directory and how many policies are in it."""
    return write_policies(tmp_path_factory.mktemp("policies") / "policies", request.param), request.param


def test_validate(benchmark, policies):
    folder, count = policies
    found, problems = measured(benchmark, Work("validating policies", count, BESIDE, 3), lambda: check_policies(folder))
    assert problems == ()
    assert len(found.idling) + len(found.federated) + len(found.downscale) == count


@pytest.mark.parametrize("count", [POLICIES // share for share in SHARES])
def test_tenants(benchmark, tmp_path, count):
    folder = write_tenants(tmp_path / "policies", count)
    work = Work("validating a policy of each tenant, and one of the platform about it", count, growth=1.2)
    found, problems = measured(benchmark, work, lambda: check_policies(folder))
    assert problems == ()
    assert len(found.idling) == 2 * count


def test_libyaml_and_jsonschema(benchmark, policies):
    folder, count = policies
    files = sorted(folder.glob("*.yaml"))
    values = [value for file in files for value in yaml.load_all(file.read_text(), CSafeLoader)]
    checks = [(validator_of(value["kind"]), value) for value in values]
    faults = measured(benchmark, Work(BESIDE, count), lambda: compose_and_check(files, checks))
    assert faults == 0


def compose_and_check(files: list[Path], checks) -> int:
    for file in files:
        for _ in yaml.compose_all(file.read_text(), CSafeLoader):
            pass
    return sum(1 for validator, value in checks for _ in validator.iter_errors(value))
