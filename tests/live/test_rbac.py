"""What `reconciler rbac` prints, applied to a real API server: runs with exactly these rights do all they should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.live import deployed, rights_cluster
from tests.live.deployed import APPLY, PLAN
from tests.live.rights_cluster import RightsCluster
from tests.pipeline.calls import Folder
from tests.real.cluster import Paths, create_missing, deployment_path, wait_until
from tests.real.fixtures import started
from tests.real.objects import manifests

pytestmark = pytest.mark.real

WITHOUT_CUSTOM = rights_cluster.POLICIES.replace(", CloneSet", "")
_ACCOUNTS = [deployed.DEPLOY / "member" / file for file in ("namespace.yaml", "service-accounts.yaml")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RightsCluster]:
    """The cluster of `rights_cluster`, where our ServiceAccounts have no rights yet."""
    from tests.real.control_plane import API_ONLY, ControlPlane
    from tests.real.proxy import Proxy

    folder = Folder(tmp_path_factory.mktemp("rights"))
    with started(ControlPlane(tmp_path_factory.mktemp("plane"), API_ONLY)) as plane:
        create_missing(plane.api, manifests(*_ACCOUNTS))
        with Proxy(plane.access(), folder.path / "proxy") as proxy:
            tokens = {account: deployed.token(plane, account) for account in (APPLY, PLAN)}
            yield RightsCluster(
                plane, proxy, folder, {account: proxy.access(token) for account, token in tokens.items()}
            )


@pytest.fixture
def granted(cluster: RightsCluster) -> Iterator[Any]:
    """A function that grants what is printed for policies, which it writes; all is taken back in the end."""
    paths = Paths(cluster.api)
    made: list[Any] = []

    def grant(policies: str, *arguments: str) -> list[deployed.Grant]:
        cluster.folder.write("policies/all.yaml", policies)
        said = cluster.folder.call("rbac", "policies", *arguments)
        assert (said.code, said.err) == (0, "")
        made.extend(yaml.safe_load_all(said.out))
        create_missing(cluster.api, made)
        rights = list(deployed.grants(made))
        wait_until(lambda: all(deployed.may(cluster.api, one, APPLY) for one in rights), "the rights to be there")
        return rights

    yield grant
    for one in made:
        cluster.api.delete(paths.of(one))


def test_kinds_that_no_policy_names_are_no_business_of_a_run(cluster: RightsCluster, granted: Any) -> None:
    """The cluster has CloneSets, which may be read neither by a plan nor by an apply."""
    granted(WITHOUT_CUSTOM)
    cluster.fill()

    planned, said = cluster.plan(PLAN), cluster.apply(APPLY)

    assert (planned.code, said.code) == (0, 0), said.out + said.err
    assert "Unknown" not in planned.out + said.out
    assert cluster.api.get(deployment_path("dev", "api"))["spec"]["replicas"] == 0
    refused = {
        request.path.rpartition("/")[2].partition("?")[0] for request in cluster.proxy.requests if request.status == 403
    }
    assert refused == {"clonesets.apps.kruise.io", "leases"}, "CloneSets, and what dead activators left"
