"""Where a cluster is and who we are there: kubeconfigs as people have them, exec plugins, tokens that change."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.kubernetes.connection import Connection
from reconciler.backends.kubernetes.settings import RequestSettings
from reconciler.errors import ClusterError, UnauthorisedError, UnreachableError
from reconciler.model import ClusterConnection
from tests.backends.clocks import CountingClock

SERVER = "https://127.0.0.1:6443"


def a_kubeconfig(path: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> str:
    """Write a kubeconfig with the one context east; JSON is YAML."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "east",
        "contexts": [{"name": "east", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content))
    return str(path)


def an_exec_plugin(folder: Path, body: str) -> dict[str, Any]:
    """Return the user of a kubeconfig whose credentials a program gives; it counts its calls in `calls`."""
    plugin = folder / "plugin.py"
    calls = folder / "calls"
    plugin.write_text(f"#!{sys.executable}\nimport json, sys\nopen({str(calls)!r}, 'a').write('x')\n{body}\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}


def a_credential(**status: Any) -> str:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print(json.dumps({credential!r}))"


def a_connection(kubeconfig: str | None, context: str | None = None, **settings: Any) -> Connection:
    found = ClusterConnection("east", kubeconfig=kubeconfig, context=context)
    return Connection(found, CountingClock(), RequestSettings(**settings))


def test_a_token(tmp_path: Path) -> None:
    connection = a_connection(a_kubeconfig(tmp_path / "config", {"token": "s3cret"}))
    assert connection.endpoint().url == SERVER
    assert connection.header() == "Bearer s3cret"
    assert connection.is_insecure is False


def test_a_kubeconfig_that_switches_verification_off_is_told(tmp_path: Path) -> None:
    connection = a_connection(a_kubeconfig(tmp_path / "config", {"token": "t"}, {"insecure-skip-tls-verify": True}))
    connection.endpoint()
    assert connection.is_insecure is True


def test_a_token_file_that_was_rotated_is_read_again_once_the_old_one_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    connection = a_connection(a_kubeconfig(tmp_path / "config", {"tokenFile": str(token)}))
    assert connection.header() == "Bearer first"
    token.write_text("second")
    assert connection.header() == "Bearer first"
    assert connection.renew("Bearer first") is True
    assert connection.header() == "Bearer second"


def test_a_refused_token_that_is_still_the_same_is_not_tried_again(tmp_path: Path) -> None:
    connection = a_connection(a_kubeconfig(tmp_path / "config", {"token": "s3cret"}))
    assert connection.renew(connection.header()) is False


def test_an_exec_plugin_is_run_once(tmp_path: Path) -> None:
    user = an_exec_plugin(tmp_path, a_credential(token="from-plugin"))
    connection = a_connection(a_kubeconfig(tmp_path / "config", user))
    assert [connection.header() for _ in range(5)] == ["Bearer from-plugin"] * 5
    assert (tmp_path / "calls").read_text() == "x"


def test_a_refused_token_of_a_plugin_runs_it_once_more(tmp_path: Path) -> None:
    user = an_exec_plugin(
        tmp_path,
        "n = len(open(__file__[:-9] + 'calls').read())\n"
        + (
            "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
            " 'status': {'token': f'token-{n}'}}))"
        ),
    )
    connection = a_connection(a_kubeconfig(tmp_path / "config", user))
    assert connection.header() == "Bearer token-1"
    assert connection.renew("Bearer token-1") is True
    assert connection.renew("Bearer token-1") is True  # what another thread saw refused meanwhile
    assert connection.header() == "Bearer token-2"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param("sys.exit('no login')", "exec: process returned 1. no login", id="it fails"),
        pytest.param("print('hello')", "exec: failed to decode process output", id="it prints no JSON"),
        pytest.param("print('{}')", "exec: malformed response. missing key 'apiVersion'", id="it prints other JSON"),
        pytest.param(a_credential(), "missing token or clientCertificateData", id="it gives nothing"),
    ],
)
def test_a_plugin_that_gives_no_credentials(
    tmp_path: Path, body: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    connection = a_connection(a_kubeconfig(tmp_path / "config", an_exec_plugin(tmp_path, body)))
    with pytest.raises(UnauthorisedError) as raised:
        connection.header()
    assert str(raised.value).startswith("east: kubeconfig ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr().err == ""


def test_a_plugin_that_hangs_takes_no_longer_than_a_request(tmp_path: Path) -> None:
    user = an_exec_plugin(tmp_path, "import time; time.sleep(20)")
    connection = a_connection(a_kubeconfig(tmp_path / "config", user), timeout=0.3)
    with pytest.raises(UnreachableError, match=r'east: context "east": gave no credentials in 0.3 s'):
        connection.header()


def _missing(folder: Path) -> str:
    return str(folder / "nowhere")


def _no_yaml(folder: Path) -> str:
    (folder / "config").write_text("{")
    return str(folder / "config")


def _empty(folder: Path) -> str:
    (folder / "config").write_text("")
    return str(folder / "config")


def _a_list(folder: Path) -> str:
    (folder / "config").write_text("[]")
    return str(folder / "config")


def _half(folder: Path) -> str:
    (folder / "config").write_text('{"contexts": [{"name": "east", "context": {"cluster": "c"}}]}')
    return str(folder / "config")


def _no_context(folder: Path) -> str:
    content = json.loads(Path(a_kubeconfig(folder / "config", {})).read_text())
    content["contexts"][0]["name"] = "other"
    (folder / "config").write_text(json.dumps(content))
    return str(folder / "config")


def _no_authority(folder: Path) -> str:
    return a_kubeconfig(folder / "config", {}, {"certificate-authority": str(folder / "ca.crt")})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(_missing, "expected a kubeconfig", id="no such file"),
        pytest.param(_no_yaml, "expected a kubeconfig in YAML", id="no YAML"),
        pytest.param(_empty, "empty", id="an empty file"),
        pytest.param(_a_list, "expected a well-formed kubeconfig", id="no mapping"),
        pytest.param(_half, "clusters", id="no clusters"),
        pytest.param(_no_context, "east in ", id="no such context"),
        pytest.param(_no_authority, "ca.crt", id="no such certificate file"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, make: Any, words: str) -> None:
    with pytest.raises(ClusterError) as raised:
        a_connection(make(tmp_path)).header()
    assert str(raised.value).startswith("east: ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_pod_without_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    connection = Connection(ClusterConnection("east", in_cluster=True), CountingClock(), RequestSettings())
    with pytest.raises(UnreachableError, match="east: the pod's service account: Service host/port is not set"):
        connection.header()
