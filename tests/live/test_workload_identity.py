"""A member that takes the tokens of the cluster that runs are in, as the documentation says: two real API servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live import deployed
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import ONE_CLUSTER
from tests.real.api import MERGE_PATCH as MERGE
from tests.real.cluster import RBAC, create_missing, wait_until
from tests.real.control_plane import API_ONLY, ControlPlane
from tests.real.fixtures import started
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.objects import manifests

pytestmark = pytest.mark.real

PAGE = deployed.DEPLOY.parent / "docs" / "how-to" / "connect-members.md"
ACCOUNT = f"/api/v1/namespaces/{deployed.OWN}/serviceaccounts"


def documented(hub: ControlPlane) -> Any:
    """The AuthenticationConfiguration of the page, with the addresses of `hub`."""
    blocks = deployed.blocks_of(PAGE, "yaml")
    (found,) = [block for block in map(yaml.safe_load, blocks) if block.get("kind") == "AuthenticationConfiguration"]
    issuer = found["jwt"][0]["issuer"]
    issuer["certificateAuthority"] = hub.ca_file.read_text()
    issuer["discoveryURL"] = issuer["discoveryURL"].replace("https://eu-west.example:6443", hub.url)
    return found


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ControlPlane]:
    with started(ControlPlane(tmp_path / "hub", API_ONLY, issuer="https://eu-west.example")) as plane:
        name = "system:service-account-issuer-discovery"
        subject = {"apiGroup": RBAC, "kind": "Group", "name": "system:unauthenticated"}
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": "issuer-discovery"}, "roleRef": role, "subjects": [subject]}
        plane.api.create(f"/apis/{RBAC}/v1/clusterrolebindings", binding)
        create_missing(plane.api, manifests(*deployed.MEMBER))
        yield plane


@pytest.fixture
def member(hub: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    file = tmp_path / "authentication.yaml"
    file.write_text(yaml.safe_dump(documented(hub)))
    with ControlPlane(tmp_path / "member", API_ONLY, [f"--authentication-config={file}"]) as plane:
        create_missing(plane.api, manifests(*deployed.MEMBER))
        deployed.admit(plane.api, deployed.admission("member/admission"))
        yield plane


def test_a_run_is_its_service_account_of_the_member_and_nobody_else_is(
    hub: ControlPlane, member: ControlPlane, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", {"east": Access(member.url, member.ca_file, {"tokenFile": str(token)})}
    )
    cli = Folder(tmp_path, kubeconfig)
    cli.write("policies/all.yaml", ONE_CLUSTER)

    def given(account: str, audience: str) -> None:
        """What the kubelet puts into the file."""
        spec = {"audiences": [audience], "expirationSeconds": 3600}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token.write_text(hub.api.create(f"{ACCOUNT}/{account}/token", review)["status"]["token"])

    given(deployed.APPLY, "us-east")
    wait_until(lambda: cli.call("doctor").code == 0, "the member to know the keys")
    assert cli.call("apply", "--auto-approve").code == 0
    thief = "/api/v1/namespaces/default/services/kubernetes"
    bearer = member.api.with_headers({"Authorization": f"Bearer {token.read_text()}"})
    assert "denied request" in deployed.refusal(bearer, "PATCH", thief, {"metadata": {"labels": {"a": "b"}}}, MERGE)

    for account, audience in ((deployed.PLAN, "us-east"), (deployed.APPLY, "us-west")):
        given(account, audience)
        assert "the credentials were not accepted" in cli.call("doctor").out
