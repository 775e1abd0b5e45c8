"""What our ServiceAccounts may write under the policies of deploy/, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.live import deployed, forbidden_writes
from tests.live.deployed import APPLY, PLAN, refusal
from tests.live.forbidden_writes import Attempt
from tests.real.api import Api
from tests.real.cluster import create, create_missing
from tests.real.fixtures import started

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real

ATTEMPTS = list(forbidden_writes.attempts())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The cluster of `forbidden_writes`, with the roles and the policies of deploy/."""
    from tests.real.control_plane import API_ONLY, ControlPlane

    with started(ControlPlane(tmp_path_factory.mktemp("cluster"), API_ONLY)) as plane:
        create_missing(plane.api, forbidden_writes.KINDS)
        deployed.install(plane.api)
        create(plane.api, forbidden_writes.objects())
        yield plane


def said(api: Api, attempt: Attempt) -> str:
    query = ("&" if "?" in attempt.path else "?") + "dryRun=All" if attempt.dry_runs else ""
    return refusal(api, attempt.method, attempt.path + query, attempt.body, attempt.content_type)


def test_forty_writes_are_tried_and_each_policy_has_some() -> None:
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS) >= 40
    policies = {one["metadata"]["name"] for one in deployed.admission()}
    assert {attempt.policy for attempt in ATTEMPTS} == {*policies, forbidden_writes.ROLES}


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_a_stolen_token_is_refused(cluster: ControlPlane, attempt: Attempt) -> None:
    """The request itself is in order; with the roles of deploy/ it is refused, and with every right by its policy."""
    if attempt.dry_runs:
        assert said(cluster.api, attempt) == "", "an administrator may do it"
    token = Api(cluster.url, cluster.ca_file, deployed.token(cluster))

    assert said(token, attempt).startswith("403 ")
    if attempt.policy:
        for account in (APPLY, PLAN):
            told = said(deployed.with_every_right(cluster.api, account), attempt)
            assert told.startswith("403 "), told
            assert f"ValidatingAdmissionPolicy '{attempt.policy}' with binding" in told


@pytest.mark.parametrize("write", list(forbidden_writes.seldom()), ids=lambda write: write.name)
def test_what_runs_seldom_write_is_admitted(cluster: ControlPlane, write: Attempt) -> None:
    assert said(Api(cluster.url, cluster.ca_file, deployed.token(cluster)), write) == ""


def test_who_may_place_reads_the_secrets_of_a_namespace_that_opted_in(cluster: ControlPlane) -> None:
    """A pod mounts what it likes of its namespace; admission cannot tell whose Secret a template is meant to have."""
    token = Api(cluster.url, cluster.ca_file, deployed.token(cluster))
    assert said(token, forbidden_writes.mounting("shop")) == ""
    assert said(token, forbidden_writes.mounting("dev")).startswith("403 ")
