"""Where a cluster is and who we are there: kubeconfigs as people have them, exec plugins, tokens that change."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pty
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from reconciler.backends.credentials import kubeconfig
from reconciler.backends.credentials.config_node import CredentialError
from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.credentials.kubeconfig import kubeconfig_context
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation
from reconciler.backends.live import open_live
from reconciler.backends.protocols import RequestSettings
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import ClusterError, UnauthorisedError, UnreachableError
from reconciler.http.client import HttpRequest
from reconciler.http.errors import HttpError
from reconciler.http.proxies import environment_proxy
from reconciler.time_limit import TimeLimit
from tests.backends.kubernetes.kubeconfigs import (
    SERVER,
    a_certificate_user,
    a_connection,
    a_credential,
    a_kubeconfig,
    an_exec_plugin,
    soon,
)
from tests.backends.servers import AUTHORITY, HELLO, Server
from tests.fakes import FakeClock

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECRET = "S3CRET"


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        pytest.param({"insecure-skip-tls-verify": True}, "switches TLS verification off", id="verification"),
        pytest.param({"server": "http://127.0.0.1:1"}, "has a server with http://", id="plain text"),
        pytest.param({}, "", id="none"),
    ],
)
def test_a_weakness_of_the_kubeconfig_is_told(tmp_path: Path, cluster: dict[str, Any], words: str) -> None:
    settings = ClusterConnection("east", kubeconfig=a_kubeconfig(tmp_path / "config", {"token": "t"}, cluster))
    opened = open_live([settings], NOON, "reconciler", RequestSettings(timeout=1))
    preflight = opened.backends["east"].preflight
    assert preflight is not None
    with contextlib.suppress(ClusterError):
        preflight.server()  # nobody listens there; the kubeconfig was read
    assert [warning.removeprefix("east: its kubeconfig ").partition(",")[0] for warning in opened.warnings()] == (
        [words] if words else []
    )
    assert bool(preflight.connection.weakness) is bool(words)


@pytest.mark.parametrize("value", ["false", "no", 0, "true"])
def test_verification_is_switched_off_by_true_alone(tmp_path: Path, value: object) -> None:
    path = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"insecure-skip-tls-verify": value})
    with pytest.raises(kubeconfig.KubeconfigError, match=r"insecure-skip-tls-verify of .* is neither true nor false"):
        kubeconfig_context(path, "east", soon())


def test_clusters_of_one_authority_are_connected_to_side_by_side(tmp_path: Path) -> None:
    authority = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    kubeconfig = a_kubeconfig(tmp_path / "config", {"token": SECRET}, {"certificate-authority-data": authority})
    with ThreadPoolExecutor(max_workers=4) as threads:
        found = [threads.submit(a_connection(kubeconfig).endpoint, soon()) for _ in range(4)]
        assert {endpoint.result().access.server for endpoint in found} == {SERVER}


def test_a_token_file_that_was_rotated_is_read_again_once_the_old_one_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    connection = a_connection(a_kubeconfig(tmp_path / "config", {"tokenFile": str(token)}))
    assert connection.header(soon()) == "Bearer first"
    token.write_text("second")
    assert connection.header(soon()) == "Bearer first"
    assert connection.renew("Bearer first", soon()) is True
    assert connection.header(soon()) == "Bearer second"


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
    assert connection.header(soon()) == "Bearer token-1"
    assert connection.renew("Bearer token-1", soon()) is True
    assert connection.renew("Bearer token-1", soon()) is True  # what another thread saw refused meanwhile
    assert connection.header(soon()) == "Bearer token-2"


def test_a_refused_certificate_of_a_plugin_runs_it_once_more(tmp_path: Path) -> None:
    """It has no header; while two threads were refused with it, the second one is told that there is a new one."""
    give = (
        "n = len(open(__file__[:-9] + 'calls').read())\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': {'clientCertificateData': CERTIFICATES[min(n, 2) - 1], 'clientKeyData': KEYS[min(n, 2) - 1]}}))"
    )
    first, second = (trustme.CA().issue_cert("us") for _ in range(2))
    made = [one.cert_chain_pems[0].bytes().decode() for one in (first, second)]
    keys = [one.private_key_pem.bytes().decode() for one in (first, second)]
    user = an_exec_plugin(tmp_path, f"CERTIFICATES, KEYS = {made!r}, {keys!r}\n{give}")
    connection = a_connection(a_kubeconfig(tmp_path / "config", user))
    assert (connection.header(soon()), connection.endpoint(soon()).certificate) == (None, made[0].encode())
    assert connection.renew(None, soon()) is True
    assert connection.endpoint(soon()).certificate == made[1].encode()
    assert connection.renew(None, soon()) is True
    assert (tmp_path / "calls").read_text() == "xx"


def test_refused_credentials_that_are_still_the_same_are_not_tried_again(tmp_path: Path) -> None:
    for user in ({"token": "s3cret"}, a_certificate_user(trustme.CA().issue_cert("us"))):
        connection = a_connection(a_kubeconfig(tmp_path / "config", user))
        assert connection.renew(connection.header(soon()), soon()) is False


def test_a_key_that_is_encrypted_asks_nobody_for_its_password(tmp_path: Path) -> None:
    """OpenSSL would ask on the terminal, and wait for an answer."""
    made = trustme.CA().issue_cert("us")
    key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    user = {**a_certificate_user(made), "client-key-data": base64.b64encode(encrypted).decode()}
    with pytest.raises(UnreachableError, match=r"its certificates cannot be used .* with its key, unencrypted"):
        a_connection(a_kubeconfig(tmp_path / "config", user)).header(soon())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param("sys.exit('no login')", 'plugin.py ended with 1 and said "no login"', id="it fails"),
        pytest.param("print('hello')", "plugin.py printed no ExecCredential with a status", id="it prints no JSON"),
        pytest.param("print('{}')", "plugin.py printed no ExecCredential with a status", id="it prints other JSON"),
        pytest.param(a_credential(), "gave neither a token nor a certificate with its key", id="it gives nothing"),
        pytest.param(
            a_credential(token="t", expirationTimestamp="tomorrow"),
            "plugin.py printed a malformed ExecCredential (no time as in RFC 3339 - at `$.status.expirationTimestamp`)",
            id="it expires at no time",
        ),
        pytest.param(a_credential(token=12), "at `$.status.token`), expected valid", id="its token is a number"),
    ],
)
def test_a_plugin_that_gives_no_credentials(
    tmp_path: Path, body: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    connection = a_connection(a_kubeconfig(tmp_path / "config", an_exec_plugin(tmp_path, body)))
    with pytest.raises(UnauthorisedError) as raised:
        connection.header(soon())
    assert str(raised.value).startswith("east: kubeconfig ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr().err == ""


def test_a_plugin_that_is_not_installed_is_told_with_the_hint_of_the_kubeconfig(tmp_path: Path) -> None:
    user = an_exec_plugin(tmp_path, "")
    user["exec"] |= {
        "command": "no-such-plugin",
        "installHint": "Install no-such-plugin:\n  see https://plugin.example\n",
    }
    with pytest.raises(UnauthorisedError) as raised:
        a_connection(a_kubeconfig(tmp_path / "config", user)).header(soon())
    words = (
        "no-such-plugin cannot be run (No such file or directory; Install no-such-plugin: see https://plugin.example)"
    )
    assert words in str(raised.value)


def a_plugin_that_answers_once(folder: Path, expires: str) -> str:
    """Return a kubeconfig whose exec plugin gives a token that `expires` then, and fails from then on."""
    credential = a_credential(token="first", expirationTimestamp=expires)
    body = f"{credential} if len(open({str(folder / 'calls')!r}).read()) == 1 else sys.exit('away')"
    return a_kubeconfig(folder / "config", an_exec_plugin(folder, body))


def test_a_plugin_that_fails_changes_nothing_while_its_token_is_valid(tmp_path: Path) -> None:
    """A token is replaced five minutes before it expires, and whoever gives it may be away for one of them."""
    expires = datetime.fromtimestamp(int(time.time()) + 200, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    access = kubeconfig_context(a_plugin_that_answers_once(tmp_path, expires), "east", soon())
    assert access.authorization(soon()) == "Bearer first"
    assert (tmp_path / "calls").read_text() == "xx"


def test_a_plugin_that_fails_once_its_token_has_expired_is_told(tmp_path: Path) -> None:
    access = kubeconfig_context(a_plugin_that_answers_once(tmp_path, "2020-01-01T00:00:00Z"), "east", soon())
    with pytest.raises(CredentialError, match='said "away"'):
        access.authorization(soon())


def test_a_plugin_is_told_of_the_cluster_with_what_its_authority_file_holds(tmp_path: Path) -> None:
    """Source: client-go rest/exec.go, ConfigToExecCluster."""
    authority = trustme.CA().cert_pem
    authority.write_to_path(str(tmp_path / "ca.crt"))
    note = f"import os\nopen({str(tmp_path / 'info')!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
    user = an_exec_plugin(tmp_path, note + a_credential(token="t"))
    user["exec"] |= {"provideClusterInfo": True, "interactiveMode": "IfAvailable"}
    extensions = [
        {"name": "other", "extension": 1},
        {"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}},
    ]
    cluster = {"certificate-authority": "ca.crt", "tls-server-name": "east", "extensions": extensions}
    a_connection(a_kubeconfig(tmp_path / "config", user, cluster)).header(soon())
    assert json.loads((tmp_path / "info").read_text())["spec"] == {
        "interactive": False,
        "cluster": {
            "server": SERVER,
            "tls-server-name": "east",
            "certificate-authority-data": base64.b64encode(authority.bytes()).decode(),
            "config": {"a": 1},
        },
    }


def test_a_plugin_may_give_a_token_and_a_certificate(tmp_path: Path) -> None:
    made = trustme.CA().issue_cert("us")
    certificate, key = made.cert_chain_pems[0].bytes().decode(), made.private_key_pem.bytes().decode()
    body = a_credential(token="t", clientCertificateData=certificate, clientKeyData=key)
    connection = a_connection(a_kubeconfig(tmp_path / "config", an_exec_plugin(tmp_path, body)))
    assert connection.header(soon()) == "Bearer t"
    assert connection.endpoint(soon()).certificate == certificate.encode()


ON_A_TERMINAL = """
import sys
from reconciler.errors import UnauthorisedError
from tests.backends.kubernetes.kubeconfigs import a_connection, soon
assert sys.stdout.isatty()
try:
    a_connection(sys.argv[1]).header(soon())
except UnauthorisedError as error:
    open(sys.argv[2], "w").write(str(error))
"""


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        pytest.param("IfAvailable", "said why on the terminal", id="it may ask"),
        pytest.param("Never", 'said "no login"', id="it never asks"),
    ],
)
def test_a_plugin_that_fails_on_a_terminal(tmp_path: Path, mode: str, words: str) -> None:
    """One that may ask there says why there; nobody else hears it."""
    user = an_exec_plugin(tmp_path, "sys.exit('no login')")
    user["exec"]["interactiveMode"] = mode
    kubeconfig = a_kubeconfig(tmp_path / "config", user)
    ours, terminal = pty.openpty()
    command = [sys.executable, "-c", ON_A_TERMINAL, kubeconfig, str(tmp_path / "said")]
    try:
        subprocess.run(command, stdin=terminal, stdout=terminal, stderr=terminal, check=True, timeout=60)
    finally:
        os.close(terminal)
        os.close(ours)
    said = (tmp_path / "said").read_text()
    assert f"plugin.py ended with 1 and {words}, expected valid credentials" in said


HANGING = """
import os, subprocess, time
started = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
with open(__file__[:-9] + 'pids.new', 'w') as file:
    file.write(f'{os.getpid()} {started.pid}')
os.rename(file.name, __file__[:-9] + 'pids')
time.sleep(60)
"""


def is_running(process: int) -> bool:
    """Whether it still does something: one that ended and that nobody asked about is a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_plugin_that_hangs_is_ended_with_all_it_started_once_the_run_stops(tmp_path: Path) -> None:
    """The run stops once the plugin hangs, however long that takes to come to."""

    class OverOnceItHangs(TimeLimit):
        def left(self, grace: float = 0.0) -> float:
            return 0 if (tmp_path / "pids").exists() else super().left(grace)

    connection = a_connection(a_kubeconfig(tmp_path / "config", an_exec_plugin(tmp_path, HANGING)))
    with pytest.raises(UnreachableError, match="no credentials in time"):
        connection.header(OverOnceItHangs(60))
    for process in map(int, (tmp_path / "pids").read_text().split()):
        until = time.monotonic() + 30
        while is_running(process) and time.monotonic() < until:
            time.sleep(0.01)
        assert not is_running(process)


def an_id_token(expires: int) -> str:
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, {"exp": expires}))
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), "c2ln"])


def an_oidc_user(**config: str) -> dict[str, Any]:
    given = {
        "client-id": "us",
        "client-secret": SECRET,
        "refresh-token": SECRET,
        "idp-issuer-url": "https://127.0.0.1:1",
    }
    return {"auth-provider": {"name": "oidc", "config": {**given, **config}}}


ENV = {"apiVersion": "client.authentication.k8s.io/v1", "command": "true", "env": [{"name": SECRET}, {"name": "B"}]}
BEGINNING = (
    "contexts: [{name: east, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: a}}]\n"
    "users: [{name: u, user: {"
)


NO_FILE: dict[str, Any] = {}


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(NO_FILE, "expected a kubeconfig", id="no such file"),
        pytest.param("{", "expected a kubeconfig in YAML", id="no YAML"),
        pytest.param("", "empty", id="an empty file"),
        pytest.param("[]", "expected a well-formed kubeconfig", id="no mapping"),
        pytest.param('{"contexts": [{"name": "east", "context": {"cluster": "c"}}]}', "clusters", id="no clusters"),
        pytest.param({"contexts": [{"name": "other", "context": {}}]}, "east in ", id="no such context"),
        pytest.param({"users": [{"name": "other", "user": {}}]}, "no u in users of ", id="no such user"),
        pytest.param(
            {"user": {"exec": {**ENV, "args": "get-token"}}},
            "/user/exec is no list of texts",
            id="arguments on one line",
        ),
        pytest.param({"cluster": {"certificate-authority": "ca.crt"}}, "ca.crt", id="no such certificate file"),
        pytest.param(
            {"cluster": {"certificate-authority-data": "="}},
            "certificate-authority-data of ",
            id="an authority of nothing",
        ),
        pytest.param({"cluster": {"server": None}}, "no key server in ", id="no server"),
        pytest.param({"cluster": {"server": "https://"}}, "/cluster has no host, expected ", id="a server of no host"),
        pytest.param({"cluster": {"server": ":6443"}}, "/cluster has no host, expected ", id="a port alone"),
        pytest.param({"user": an_oidc_user()}, "Expected key id-token in ", id="no id-token"),
        pytest.param(
            {"user": {"client-key": f"LS0tLS1CRUdJTi{SECRET}"}},
            "is no name of a file; call it client-key-data",
            id="a key for a file's name",
        ),
        pytest.param({"users": [{"name": "u", "token": SECRET}]}, "no key user in ", id="one level too high"),
        pytest.param({"user": {"exec": ENV}}, "no key value in ", id="env without value"),
        pytest.param(f"{BEGINNING}password: !{SECRET}}}}}]\n", "is no YAML from line 3, ", id="a tag"),
        pytest.param(f"{BEGINNING}password: *{SECRET}}}}}]\n", "is no YAML from line 3, ", id="an alias"),
        pytest.param(f"{BEGINNING}password: '{SECRET}}}}}]\n", "is no YAML from line ", id="an open quote"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_told_without_what_is_in_it(
    tmp_path: Path, content: str | dict[str, Any], words: str
) -> None:
    if isinstance(content, str):
        (tmp_path / "config").write_text(content)
    elif content is not NO_FILE:
        a_kubeconfig(tmp_path / "config", **{"user": {}, **content})
    with pytest.raises(ClusterError) as raised:
        a_connection(str(tmp_path / "config")).header(soon())
    assert str(raised.value).startswith("east: ")
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)
    assert not {"{", "\n"} & set(str(raised.value))


def test_an_id_token_that_is_valid_is_used(tmp_path: Path) -> None:
    token = an_id_token(4102444800)
    connection = a_connection(a_kubeconfig(tmp_path / "config", an_oidc_user(**{"id-token": token})))
    assert connection.header(soon()) == f"Bearer {token}"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param({}, "its issuer gave no other (HttpError)", id="the issuer fails"),
        pytest.param(
            {"idp-certificate-authority": "ca.crt"}, "gave no other (FileNotFoundError)", id="no such authority"
        ),
    ],
)
def test_an_id_token_that_has_expired(tmp_path: Path, config: dict[str, str], words: str) -> None:
    """The package would send client secret and refresh token to whoever answers for the issuer."""
    user = an_oidc_user(**{"id-token": an_id_token(1)}, **config)
    with pytest.raises(UnauthorisedError) as raised:
        a_connection(a_kubeconfig(tmp_path / "config", user)).header(soon())
    assert words in str(raised.value)
    assert str(raised.value).endswith("expected valid credentials")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("is_public", [pytest.param(False, id="a secret"), pytest.param(True, id="a public client")])
def test_an_id_token_that_has_expired_is_renewed_by_its_issuer(
    tmp_path: Path, httpserver: HTTPServer, is_public: bool
) -> None:
    """Over the one HTTP client, so that an issuer that hangs holds up nothing. It needs no authority of its own."""
    made = an_id_token(4102444800)
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    discovered = {"token_endpoint": httpserver.url_for("/token")}
    httpserver.expect_request("/.well-known/openid-configuration").respond_with_json(discovered)
    httpserver.expect_request("/token", method="POST").respond_with_json({"id_token": made})
    user = an_oidc_user(**{"id-token": an_id_token(1), "idp-issuer-url": httpserver.url_for("")})
    config = user["auth-provider"]["config"]
    if is_public:
        del config["client-secret"]
    else:
        config["idp-certificate-authority"] = str(tmp_path / "ca.crt")
    assert a_connection(a_kubeconfig(tmp_path / "config", user)).header(soon()) == f"Bearer {made}"
    (request,) = (request for request, _ in httpserver.log if request.method == "POST")
    login = request.authorization and (request.authorization.username, request.authorization.password)
    assert login == (None if is_public else ("us", SECRET))
    form = {"grant_type": "refresh_token", "refresh_token": SECRET}
    assert request.form.to_dict() == ({**form, "client_id": "us"} if is_public else form)


def test_a_refresh_token_that_the_issuer_replaces_is_used_the_next_time(tmp_path: Path, httpserver: HTTPServer) -> None:
    discovered = {"token_endpoint": httpserver.url_for("/token")}
    httpserver.expect_request("/.well-known/openid-configuration").respond_with_json(discovered)
    given = {"id_token": an_id_token(1), "refresh_token": "the next one"}
    httpserver.expect_request("/token", method="POST").respond_with_json(given)
    user = an_oidc_user(**{"id-token": an_id_token(1), "idp-issuer-url": httpserver.url_for("")})
    kubeconfig = a_kubeconfig(tmp_path / "config", user)
    for _ in range(2):
        a_connection(kubeconfig).header(soon())
    sent = [request.form["refresh_token"] for request, _ in httpserver.log if request.method == "POST"]
    assert sent == [SECRET, "the next one"]


def test_clusters_of_one_user_wait_for_one_answer_of_the_issuer(tmp_path: Path, httpserver: HTTPServer) -> None:
    """One after the other, those of a large Fleet would wait for longer than a request may take."""
    made = an_id_token(4102444800)
    discovered = {"token_endpoint": httpserver.url_for("/token")}
    httpserver.expect_request("/.well-known/openid-configuration").respond_with_json(discovered)
    together = threading.Barrier(4)

    def give(_: Request) -> Response:
        time.sleep(0.5)  # so that the others ask meanwhile
        return Response(json.dumps({"id_token": made}), content_type="application/json")

    httpserver.expect_request("/token", method="POST").respond_with_handler(give)
    refresh = {"refresh-token": "of several clusters", "idp-issuer-url": httpserver.url_for("")}
    kubeconfig = a_kubeconfig(tmp_path / "config", an_oidc_user(**{"id-token": an_id_token(1)}, **refresh))

    def header(_: int) -> str | None:
        connection = a_connection(kubeconfig)
        together.wait(60)
        return connection.header(soon())

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(header, range(4)))
    assert found == [f"Bearer {made}"] * 4
    assert len([request for request, _ in httpserver.log if request.method == "POST"]) == 1


def test_a_provider_that_kubectl_knows_no_more_is_told(tmp_path: Path) -> None:
    provider = {"name": "gcp", "config": {"access-token": SECRET, "expiry": "2020-01-01T00:00:00Z"}}
    with pytest.raises(UnauthorisedError, match="its access token has expired"):
        a_connection(a_kubeconfig(tmp_path / "config", {"auth-provider": provider})).header(soon())


def many_clusters(path: Path, count: int) -> str:
    names = [f"c{number}" for number in range(count)]
    content = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
        "clusters": [{"name": name, "cluster": {"server": SERVER}} for name in names],
        "users": [{"name": name, "user": {"token": f"t-{name}"}} for name in names],
    }
    path.write_text(json.dumps(content))
    return str(path)


def test_a_kubeconfig_of_many_clusters_is_read_once_and_again_once_it_has_changed(tmp_path: Path) -> None:
    path = many_clusters(tmp_path / "config", 20)
    before = kubeconfig._parsed.cache_info().misses
    headers = [a_connection(path, f"c{number}").header(soon()) for number in range(20)]
    assert headers == [f"Bearer t-c{number}" for number in range(20)]
    assert kubeconfig._parsed.cache_info().misses == before + 1
    many_clusters(tmp_path / "config", 21)
    assert a_connection(path, "c20").header(soon()) == "Bearer t-c20"
    assert kubeconfig._parsed.cache_info().misses == before + 2


# As whom, and through which proxy


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        pytest.param({}, (), id="nobody else"),
        pytest.param({"as": "jane"}, (("Impersonate-User", "jane"),), id="a user"),
        pytest.param(
            {
                "as": "jane",
                "as-uid": "7",
                "as-groups": ["dev", "ops"],
                "as-user-extra": {"example.com/Scope": ["a", "b"]},
            },
            (
                ("Impersonate-User", "jane"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Group", "dev"),
                ("Impersonate-Group", "ops"),
                ("Impersonate-Extra-example.com%2FScope", "a"),
                ("Impersonate-Extra-example.com%2FScope", "b"),
            ),
            id="all there is",
        ),
    ],
)
def test_impersonation(tmp_path: Path, user: dict[str, Any], headers: tuple[Any, ...]) -> None:
    connection = a_connection(a_kubeconfig(tmp_path / "config", {"token": "t", **user}))
    assert connection.endpoint(soon()).access.impersonation == headers


@pytest.mark.parametrize(
    ("user", "words"),
    [
        pytest.param({"as-groups": ["system:masters"]}, "as names none", id="groups of nobody"),
        pytest.param({"as": "jane", "as-groups": "dev"}, "as-groups of .* is no list of texts", id="a text for groups"),
        pytest.param({"as": "jane", "as-user-extra": ["a"]}, "as-user-extra is no mapping", id="a list for extra"),
        pytest.param({"as": "jane", "as-user-extra": {"a": "b"}}, "as-user-extra is no list", id="a text in extra"),
    ],
)
def test_impersonation_that_cannot_be_meant(tmp_path: Path, user: dict[str, Any], words: str) -> None:
    with pytest.raises(UnreachableError, match=words):
        a_connection(a_kubeconfig(tmp_path / "config", {"token": "t", **user})).endpoint(soon())


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        pytest.param("https://api.east:6443", {}, None, id="none"),
        pytest.param(
            "https://api.east", {"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "http://q:1"}, "http://p:1", id="https"
        ),
        pytest.param("http://api.east", {"HTTPS_PROXY": "http://p:1", "http_proxy": "q:1"}, "http://q:1", id="http"),
        pytest.param("https://api.east", {"https_proxy": "p:1", "NO_PROXY": "*"}, None, id="everything direct"),
        pytest.param("https://api.east", {"HTTPS_PROXY": "p:1", "NO_PROXY": "a, EAST"}, None, id="a domain"),
        pytest.param(
            "https://east", {"HTTPS_PROXY": "p:1", "NO_PROXY": ".east"}, "http://p:1", id="only below a domain"
        ),
        pytest.param("https://api.east", {"HTTPS_PROXY": "p:1", "NO_PROXY": "*.east"}, None, id="below a domain"),
        pytest.param(
            "https://far-east", {"HTTPS_PROXY": "p:1", "NO_PROXY": "east"}, "http://p:1", id="no part of a name"
        ),
        pytest.param("https://10.1.2.3:6443", {"HTTPS_PROXY": "p:1", "NO_PROXY": "10.0.0.0/8"}, None, id="a network"),
        pytest.param("https://10.1.2.3", {"HTTPS_PROXY": "p:1", "NO_PROXY": "10.1.2.3:443"}, None, id="its port"),
        pytest.param("https://a.b:1", {"HTTPS_PROXY": "p:1", "NO_PROXY": "a.b:2"}, "http://p:1", id="another port"),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": "p:1"}, None, id="this machine"),
        pytest.param("https://[fd00::1]", {"HTTPS_PROXY": "p:1", "NO_PROXY": "fd00::/8"}, None, id="IPv6"),
    ],
)
def test_the_proxy_of_the_environment_is_that_of_kubectl(
    monkeypatch: pytest.MonkeyPatch, url: str, environment: dict[str, str], proxy: str | None
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy(url) == proxy


def test_the_proxy_of_the_kubeconfig_wins_over_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        endpoint = a_connection(a_kubeconfig(tmp_path / "config", {}, {"proxy-url": address})).endpoint(soon())
        with pytest.raises(HttpError):
            endpoint.reader.exchange(HttpRequest("GET", endpoint.access.server), TimeLimit(2))
        proxy.settimeout(30)  # where nobody comes, this fails and does not hang
        asked, _ = proxy.accept()
        assert asked.recv(100).startswith(b"CONNECT 127.0.0.1:1 ")
        asked.close()


def test_several_kubeconfigs_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file that has a name counts; paths are relative to the file they stand in."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "token").write_text("from-b")
    contexts = [{"name": "east", "context": {"cluster": "c", "user": "u"}}]
    clusters = [{"name": "c", "cluster": {"server": SERVER}}]
    (tmp_path / "a" / "config").write_text(json.dumps({"contexts": contexts, "clusters": clusters}))
    a_kubeconfig(tmp_path / "b" / "config", {"tokenFile": "token"}, {"server": "https://127.0.0.1:2"})
    paths = [tmp_path / "a" / "config", tmp_path / "nowhere", tmp_path / "b" / "config"]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
    connection = a_connection(None)
    assert (connection.endpoint(soon()).access.server, connection.header(soon())) == (SERVER, "Bearer from-b")


def test_the_name_of_one_kubeconfig_may_have_a_colon(tmp_path: Path) -> None:
    """As with `kubectl --kubeconfig`; only the variable KUBECONFIG names several."""
    assert a_connection(a_kubeconfig(tmp_path / "a:b", {"token": "t"})).header(soon()) == "Bearer t"


@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param({"token": "t", "tokenFile": "token"}, "Bearer from-file", id="the file before a token"),
        pytest.param({"token": "t", "tokenFile": "gone"}, "Bearer t", id="a token whose file is not there"),
        pytest.param({"token": "t", "tokenFile": "empty"}, "Bearer t", id="a token whose file is empty"),
        pytest.param({"tokenFile": "empty", "username": "u", "password": "p"}, "Basic dTpw", id="an empty file alone"),
        pytest.param({"tokenFile": "token", "username": "u", "password": "p"}, "Bearer from-file", id="a token first"),
        pytest.param(
            {"username": "jane", "password": "pässword"}, "Basic amFuZTpww6Rzc3dvcmQ=", id="a user and a password"
        ),
        pytest.param({"username": "u"}, None, id="a user without a password"),
        pytest.param({}, None, id="nobody"),
    ],
)
def test_of_several_ways_in_the_first_counts(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "empty").write_text("\n")
    assert a_connection(a_kubeconfig(tmp_path / "config", user)).header(soon()) == header


def test_a_token_file_is_read_again_each_minute_and_while_it_cannot_be_the_last_one_counts(tmp_path: Path) -> None:
    token, clock = tmp_path / "token", FakeClock()
    token.write_text("first")
    path = a_kubeconfig(tmp_path / "config", {"token": "old", "tokenFile": "token"})
    connection = ApiServerConnection(ClusterConnection("east", kubeconfig=path))
    assert connection.header(TimeLimit(20, clock)) == "Bearer first"
    token.write_text("second")
    clock.sleep(61)
    assert connection.header(TimeLimit(20, clock)) == "Bearer second"
    token.unlink()
    clock.sleep(61)
    assert connection.header(TimeLimit(20, clock)) == "Bearer second"


@pytest.mark.parametrize("way", ["token", "tokenFile", "password", "exec", "provider", "certificate"])
def test_over_plain_http_no_credentials_are_sent_and_none_are_asked_for(tmp_path: Path, way: str) -> None:
    """As kubectl does; as whom somebody acts is no secret, and goes along."""
    (tmp_path / "token").write_text("from-file")
    user: dict[str, Any] = {
        "token": {"token": "t"},
        "tokenFile": {"tokenFile": "token"},
        "password": {"username": "u", "password": "p"},
        "exec": an_exec_plugin(tmp_path, a_credential(token="t")),
        "provider": an_oidc_user(**{"id-token": an_id_token(4102444800)}),
        "certificate": {"client-certificate-data": "LS0t", "client-key-data": "LS0t"},
    }[way]
    path = a_kubeconfig(tmp_path / "config", {**user, "as": "jane"}, {"server": "http://127.0.0.1:1"})
    connection = a_connection(path)
    assert connection.header(soon()) is None
    endpoint = connection.endpoint(soon())
    assert (endpoint.certificate, endpoint.access.impersonation) == (b"", (("Impersonate-User", "jane"),))
    assert not (tmp_path / "calls").exists()


def test_a_token_of_a_plugin_is_replaced_before_it_expires(tmp_path: Path) -> None:
    body = a_credential(token="short", expirationTimestamp="2020-01-01T00:00:00Z")
    path = a_kubeconfig(tmp_path / "config", an_exec_plugin(tmp_path, body))
    access = kubeconfig_context(path, "east", soon())
    assert [access.authorization(soon()) for _ in range(2)] == ["Bearer short"] * 2
    assert (tmp_path / "calls").read_text() == "xxx"


def test_a_client_certificate_in_the_kubeconfig_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trustme.CA().issue_cert("us")
    left = tmp_path / "left"
    left.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(left))
    endpoint = a_connection(a_kubeconfig(tmp_path / "config", a_certificate_user(made))).endpoint(soon())
    assert endpoint.certificate == made.cert_chain_pems[0].bytes()
    assert list(left.iterdir()) == []


PLAIN = """
import sys
from reconciler.time_limit import TimeLimit
from reconciler.backends.credentials.connection import load_libraries
load_libraries()
assert {"reconciler.backends.credentials.kubeconfig", "reconciler.http.connections"} < set(sys.modules)
from reconciler.backends.credentials.kubeconfig import kubeconfig_context
assert kubeconfig_context(sys.argv[1], "east", TimeLimit(20)).server
print(*sys.modules)
"""


def test_a_token_needs_no_kubernetes_package(tmp_path: Path) -> None:
    """It takes longer to import than all of a plan's own modules."""
    command = [sys.executable, "-c", PLAIN, a_kubeconfig(tmp_path / "config", {"token": "t"})]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert not {"kubernetes", "pydantic", "requests", "oauthlib"} & set(said)


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApiServerConnection:
    """That of a pod whose service account is in `tmp_path`."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    return ApiServerConnection(ClusterConnection("east", in_cluster=True))


def test_a_pod_reads_its_token_anew(pod: ApiServerConnection, tmp_path: Path) -> None:
    assert (pod.endpoint(soon()).access.server, pod.header(soon())) == ("https://[::1]:6443", "Bearer first")
    (tmp_path / "token").write_text("second")
    assert pod.endpoint(soon()).access.authorization(soon()) == "Bearer second"


def test_a_pod_reads_the_authority_of_its_cluster_anew_once_that_was_replaced(
    pod: ApiServerConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    client = ApiClient(pod, RequestSettings(limit=TimeLimit(clock=clock)))
    request = ApiRequest("GET", "/version", Operation("east", "get", "/version"))
    with Server(HELLO, tls=True) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        for _ in range(2):
            with pytest.raises(UnreachableError, match="its certificate is not valid"):
                client.send(request)
            AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
            clock.now += 61
        assert client.send(request).status == 200


@pytest.mark.parametrize("empty", ["token", "ca.crt"])
def test_a_pod_whose_service_account_is_empty(pod: ApiServerConnection, tmp_path: Path, empty: str) -> None:
    (tmp_path / empty).write_text("")
    with pytest.raises(UnreachableError, match=f"service account: .*/{empty} is not there, or empty"):
        pod.header(soon())


def test_a_pod_without_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    connection = ApiServerConnection(ClusterConnection("east", in_cluster=True))
    with pytest.raises(UnreachableError, match="east: the pod's service account: Service host/port is not set"):
        connection.header(soon())
