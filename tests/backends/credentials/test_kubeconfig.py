"""Every way in, on a real API server: tokens, certificates, a pod's account, plugins, proxies; and those that fail."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from reconciler.backends.credentials import kubeconfig
from reconciler.backends.credentials.config_node import CredentialError
from reconciler.backends.protocols import NAMESPACES
from reconciler.errors import ForbiddenError, UnauthorisedError
from reconciler.time_limit import TimeLimit
from tests.backends.kubernetes.kubeconfigs import a_credential, an_exec_plugin
from tests.backends.kubernetes.live import opened
from tests.real.kubeconfig import Access, write_kubeconfig

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane


def test_a_client_certificate(api_server: ControlPlane, tmp_path: Path) -> None:
    certificate, key = api_server.client_certificate("operator", "system:masters")
    access = replace(api_server.access(), user={"client-certificate": str(certificate), "client-key": str(key)})
    assert opened(write_kubeconfig(tmp_path / "config", {"east": access})).identity() == api_server.identity()


def a_kubeconfig(folder: Path, user: dict[str, Any], names: list[str]) -> str:
    access = Access("https://127.0.0.1:1", None, user)
    return str(write_kubeconfig(folder / "config", dict.fromkeys(names, access)))


def test_clusters_with_the_same_program_have_it_run_once(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(60)]
    config = a_kubeconfig(tmp_path, an_exec_plugin(tmp_path, a_credential(token="of-the-program")), names)

    with ThreadPoolExecutor(16) as pool:
        accesses = list(pool.map(lambda name: kubeconfig.kubeconfig_context(config, name, TimeLimit(30)), names))

    assert {one.authorization(TimeLimit(30)) for one in accesses} == {"Bearer of-the-program"}
    assert (tmp_path / "calls").read_text() == "x"
    kubeconfig.forget_credentials()
    kubeconfig.kubeconfig_context(config, "c0", TimeLimit(30))
    assert (tmp_path / "calls").read_text() == "xx"


def test_a_program_that_fails_is_not_run_again_by_those_who_waited_for_it(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(16)]
    config = a_kubeconfig(tmp_path, an_exec_plugin(tmp_path, "import time; time.sleep(1); sys.exit(3)"), names)

    def words(name: str) -> str:
        with pytest.raises(CredentialError) as refused:
            kubeconfig.kubeconfig_context(config, name, TimeLimit(60))
        return str(refused.value)

    with ThreadPoolExecutor(16) as pool:
        said = set(pool.map(words, names))

    assert len(said) == 1
    assert "ended with 3" in said.pop()
    assert len((tmp_path / "calls").read_text()) < len(names) / 2


def test_a_program_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    config = a_kubeconfig(tmp_path, an_exec_plugin(tmp_path, "while True: print('x' * 65536)"), ["east"])

    with pytest.raises(CredentialError, match="printed more than 1048576 bytes"):
        kubeconfig.kubeconfig_context(config, "east", TimeLimit(60))


def test_an_address_without_a_scheme_is_https(tmp_path: Path) -> None:
    access = Access("127.0.0.1:6443", None, {"token": "secret-token"})
    config = str(write_kubeconfig(tmp_path / "config", {"east": access}))

    found = kubeconfig.kubeconfig_context(config, "east", TimeLimit(5))

    assert (found.server, found.is_secured) == ("https://127.0.0.1:6443", True)


def test_a_pod_with_its_service_account(
    api_server: ControlPlane, api_namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is one that rotates; it may read nothing yet, and who it is shows in the refusal."""
    (tmp_path / "token").write_text(api_server.service_account(api_namespace, "reconciler"))
    shutil.copy(api_server.ca_file, tmp_path / "ca.crt")
    place = urlsplit(api_server.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(place.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(place.port))
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", str(tmp_path))
    with pytest.raises(ForbiddenError, match=f"system:serviceaccount:{api_namespace}:reconciler"):
        opened(None).identity()


@pytest.mark.filterwarnings("error")
def test_verification_is_off_only_where_the_kubeconfig_says_so(api_server: ControlPlane, tmp_path: Path) -> None:
    access = replace(api_server.access(), authority=None, cluster={"insecure-skip-tls-verify": True})
    kubeconfig = write_kubeconfig(tmp_path / "config", {"east": access})
    assert opened(kubeconfig).identity() == api_server.identity()


def test_a_wrong_token(api_server: ControlPlane) -> None:
    with pytest.raises(UnauthorisedError, match=r"^east: get namespaces kube-system: the credentials were not"):
        opened(api_server.kubeconfig("east", token="wrong")).identity()


def test_an_account_without_rights_is_told_which_rule_it_lacks(api_server: ControlPlane, api_namespace: str) -> None:
    cluster = opened(api_server.kubeconfig("east", token=api_server.service_account(api_namespace, "nobody")))
    with pytest.raises(ForbiddenError) as raised:
        cluster.list(NAMESPACES)
    assert str(raised.value).startswith("east: list namespaces: forbidden (")
    assert 'a ClusterRole with {apiGroups: [""], resources: [namespaces], verbs: [list]}' in str(raised.value)
