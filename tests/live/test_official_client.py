"""The package `kubernetes` beside us: its clients as connections, and as a witness of what we wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as official
from kubernetes import config

from reconciler.api import UsageError, plan
from reconciler.backends.live import open_live
from reconciler.backends.protocols import RequestSettings
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import ForbiddenError
from reconciler.model import ObjectRef, PatchOperation, ServiceAccount, Write
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, idling
from tests.real.cluster import create
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_deployment, a_service, status_of

NIGHT = datetime(2035, 11, 20, 23, 0, tzinfo=UTC)


@pytest.fixture
def policies(api_server: ControlPlane, api_namespace: str, tmp_path: Path) -> Path:
    web = a_deployment("web", 3) | {"status": status_of("Deployment", 3)}
    create(api_server.api, [a_service("web"), web], api_namespace)
    api_server.api.create("/api/v1/namespaces", {"metadata": {"name": f"{api_namespace}-own"}})
    nights = idling(f"namespaces: {{include: [{api_namespace}]}}, services: {{}}", "minAge: 0s", "minAwake: 0s")
    mine = fleet(["member"], f'namespace: "{api_namespace}-own"', name="mine")
    Folder(tmp_path).write("policies/all.yaml", documents(mine, nights))
    return tmp_path / "policies"


def with_token(plane: ControlPlane, **more: Any) -> official.ApiClient:
    settings = official.Configuration(host=plane.url, **more)
    settings.ssl_ca_cert = str(plane.ca_file)
    settings.api_key = {"authorization": f"Bearer {plane.admin_token}"}
    return official.ApiClient(settings)


def of_a_kubeconfig(plane: ControlPlane) -> official.ApiClient:
    return config.new_client_from_config(str(plane.kubeconfig("member")), context="member")


@pytest.mark.parametrize("made", [with_token, of_a_kubeconfig], ids=["token and authority", "kubeconfig"])
def test_an_api_client_is_a_connection(api_server, api_namespace, policies, made):
    found = plan(policies, clients={"member": made(api_server)}, now=NIGHT)
    assert found.unknown == {}
    verbs = {(str(one.verb), one.ref.kind, one.ref.namespace) for one in found.actions}
    assert ("idle", "Deployment", api_namespace) in verbs


def test_a_token_that_the_client_renews_is_asked_for_each_time(api_server, policies):
    client = with_token(api_server)
    client.configuration.api_key = {"authorization": "Bearer old"}
    renewed: list[str] = []

    def renew(settings: official.Configuration) -> None:
        settings.api_key = {"authorization": f"Bearer {api_server.admin_token}"}
        renewed.append("yes")

    client.configuration.refresh_api_key_hook = renew
    assert plan(policies, clients={"member": client}, now=NIGHT).unknown == {}
    assert renewed


def anybody(plane: ControlPlane) -> official.ApiClient:
    return official.ApiClient(official.Configuration(host=plane.url, ssl_ca_cert=str(plane.ca_file)))


def of_another_authority(plane: ControlPlane) -> official.ApiClient:
    settings = official.Configuration(host=plane.url)
    settings.api_key = {"authorization": f"Bearer {plane.admin_token}"}
    return official.ApiClient(settings)


def with_a_hostname_of_its_own(plane: ControlPlane) -> official.ApiClient:
    return with_token(plane, assert_hostname=False)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        pytest.param(anybody, "forbidden", id="no credentials"),
        pytest.param(of_another_authority, "its certificate is not valid", id="an authority that does not vouch"),
        pytest.param(with_a_hostname_of_its_own, "has assert_hostname in its configuration", id="any host name"),
        pytest.param(lambda _: "eu-west", "is a str, expected a kubernetes.client.ApiClient", id="no client"),
    ],
)
def test_what_cannot_be_read_so_is_unknown_in_the_plan(api_server, policies, made, why):
    found = plan(policies, clients={"member": made(api_server)}, now=NIGHT)
    assert found.actions == ()
    assert why in found.unknown["member"], found.unknown


def test_what_is_written_as_a_tenant_is_so_through_a_client_too(api_server, api_namespace, policies):
    """Also where the client itself impersonates somebody: what is read is read as that user."""
    client = with_token(api_server)
    client.set_default_header("Impersonate-User", "jane")
    client.set_default_header("Impersonate-Group", "system:masters")
    settings = RequestSettings(clients={"member": client})
    opened = open_live([ClusterConnection("member")], NIGHT, api_namespace, settings)
    cluster = opened.backends["member"].cluster
    assert cluster is not None
    ref = ObjectRef("member", api_namespace, "Deployment", "web", "apps")
    account = ServiceAccount(api_namespace, "nobody")
    write = Write("patch", ref, "apps/v1", patch=(PatchOperation("replace", "/spec/replicas", 1),))
    with pytest.raises(ForbiddenError, match=f'User "{account.user}" cannot patch resource'):
        cluster.writing_as(account).write(write)
    assert cluster.writing_as(account).user() == cluster.user() == "jane"
    cluster.write(write)


def test_either_a_snapshot_or_clients(policies):
    with pytest.raises(UsageError, match="has neither snapshot nor clients, expected exactly one"):
        plan(policies, now=NIGHT)
    with pytest.raises(UsageError, match="has snapshot and clients, expected exactly one"):
        plan(policies, snapshot=policies, clients={}, now=NIGHT)
    with pytest.raises(UsageError, match='"membr" is no cluster of the Fleet, did you mean "member"'):
        plan(policies, clients={"membr": None}, now=NIGHT)  # type: ignore[dict-item]


def test_it_sees_what_a_night_wrote_and_that_the_morning_left_nothing(api_server, api_namespace, policies):
    """An independent reader of the API: typed objects of another client, not our own decoding."""
    witness = official.AppsV1Api(with_token(api_server))
    core = official.CoreV1Api(with_token(api_server))
    cli = Folder(policies.parent, api_server.kubeconfig("member"))
    before = witness.read_namespaced_deployment("web", api_namespace)
    said = cli.call("apply", "policies", "--auto-approve", "--now", "2035-11-20T23:00:00Z")
    assert said.code == 0, said.out + said.err
    asleep = witness.read_namespaced_deployment("web", api_namespace)
    assert asleep.spec.replicas == 0
    assert asleep.metadata.annotations["idling.kubernetes.io/previous-scale"] == "3"
    service = core.read_namespaced_service("web", api_namespace)
    assert any(key.startswith("idling.") for key in service.metadata.annotations)
    said = cli.call("apply", "policies", "--auto-approve", "--now", "2035-11-21T08:00:00Z")
    assert said.code == 0, said.out + said.err
    awake = witness.read_namespaced_deployment("web", api_namespace)
    assert awake.spec.to_dict() == before.spec.to_dict()
    left = core.read_namespaced_service("web", api_namespace).metadata.annotations or {}
    assert not any(key.startswith("idling.") for key in left)
