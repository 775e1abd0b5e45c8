"""Every way in, on a real API server: tokens, certificates, a pod's account, plugins, proxies; and those that fail."""

from __future__ import annotations

import contextlib
import shutil
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from reconciler.backends.kubernetes import kubeconfig
from reconciler.backends.protocols import NAMESPACES
from reconciler.errors import ForbiddenError, UnauthorisedError, UnreachableError
from tests.kubernetes.live import opened
from tests.real.kubeconfig import write_kubeconfig

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane


def test_a_token(api_server: ControlPlane) -> None:
    assert opened(api_server.kubeconfig("east")).identity() == api_server.identity()


def test_a_client_certificate(api_server: ControlPlane, tmp_path: Path) -> None:
    certificate, key = api_server.client_certificate("operator", "system:masters")
    access = replace(api_server.access(), user={"client-certificate": str(certificate), "client-key": str(key)})
    assert opened(write_kubeconfig(tmp_path / "config", {"east": access})).identity() == api_server.identity()


def test_an_exec_plugin(api_server: ControlPlane, tmp_path: Path) -> None:
    plugin = tmp_path / "login"
    plugin.write_text(
        f"#!{sys.executable}\n"
        'print(\'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        f' "status": {{"token": "{api_server.admin_token}"}}}}\')\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    access = replace(api_server.access(), user=user)
    assert opened(write_kubeconfig(tmp_path / "config", {"east": access})).identity() == api_server.identity()


def test_a_token_that_was_rotated_in_its_file_is_taken_up(api_server: ControlPlane, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(api_server.admin_token)
    access = replace(api_server.access(), user={"tokenFile": str(token)})
    kubeconfig = write_kubeconfig(tmp_path / "config", {"east": access})
    token.write_text("expired")
    cluster = opened(kubeconfig)
    with pytest.raises(UnauthorisedError):
        cluster.identity()
    token.write_text(api_server.admin_token)
    assert cluster.identity() == api_server.identity()


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


def test_a_server_whose_certificate_nobody_vouches_for_is_not_talked_to(
    api_server: ControlPlane, tmp_path: Path
) -> None:
    import trustme

    other = tmp_path / "other.crt"
    trustme.CA().cert_pem.write_to_path(str(other))
    kubeconfig = write_kubeconfig(tmp_path / "config", {"east": replace(api_server.access(), authority=other)})
    with pytest.raises(UnreachableError, match=r"its certificate is not valid \("):
        opened(kubeconfig).identity()


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


def test_through_a_proxy(api_server: ControlPlane, tmp_path: Path) -> None:
    with a_tunnel() as (address, asked):
        access = replace(api_server.access(), cluster={"proxy-url": address})
        kubeconfig = write_kubeconfig(tmp_path / "config", {"east": access})
        assert opened(kubeconfig).identity() == api_server.identity()
    place = urlsplit(api_server.url)
    assert [line.rpartition(" ")[0] for line in asked] == [f"CONNECT {place.hostname}:{place.port}"]


@contextlib.contextmanager
def a_tunnel() -> Iterator[tuple[str, list[str]]]:
    """A proxy that knows CONNECT only; yields its address, and what it was asked."""
    asked: list[str] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=_tunnel, args=(client, asked), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        listener.close()


def _tunnel(client: socket.socket, asked: list[str]) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.recv(4096)
    line = head.split(b"\r\n")[0].decode()
    asked.append(line)
    host, _, port = line.split()[1].rpartition(":")
    server = socket.create_connection((host, int(port)))
    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    threading.Thread(target=_copy, args=(server, client), daemon=True).start()
    _copy(client, server)


def _copy(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := one.recv(65536):
            other.sendall(piece)
        other.shutdown(socket.SHUT_WR)
