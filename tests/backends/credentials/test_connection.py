"""Where a cluster is and who we are there: kubeconfigs as people have them, exec plugins, tokens that change, pods."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from reconciler.backends.credentials import kubeconfig
from reconciler.backends.credentials.config_node import CredentialError
from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.credentials.kubeconfig import ServerAccess, kubeconfig_context
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation
from reconciler.backends.live import open_live
from reconciler.backends.protocols import NAMESPACES, RequestSettings
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import ClusterError, ForbiddenError, UnauthorisedError, UnreachableError
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
from tests.backends.kubernetes.live import opened
from tests.backends.servers import AUTHORITY, HELLO, Server, encrypted_key
from tests.fakes import FakeClock
from tests.real.kubeconfig import Access, write_kubeconfig


def a_certificate(issued: trustme.LeafCert) -> dict[str, str]:
    """What an exec plugin gives of a certificate and its key."""
    pems = {"clientCertificateData": issued.cert_chain_pems[0], "clientKeyData": issued.private_key_pem}
    return {key: pem.bytes().decode() for key, pem in pems.items()}


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
def test_a_weakness_of_the_kubeconfig_is_told(tmp_path, cluster, words):
    settings = ClusterConnection("east", kubeconfig=a_kubeconfig(tmp_path / "config", {"token": "t"}, cluster))
    opened = open_live([settings], NOON, "reconciler", RequestSettings(timeout=1))
    preflight = opened.backends["east"].preflight
    with contextlib.suppress(ClusterError):
        preflight.server()  # nobody listens there; the kubeconfig was read
    assert [warning.removeprefix("east: its kubeconfig ").partition(",")[0] for warning in opened.warnings()] == (
        [words] if words else []
    )
    assert bool(preflight.connection.weakness) is bool(words)


@pytest.mark.parametrize("value", ["false", "no", 0, "true"])
def test_verification_is_switched_off_by_true_alone(tmp_path, value):
    path = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"insecure-skip-tls-verify": value})
    with pytest.raises(kubeconfig.KubeconfigError, match=r"insecure-skip-tls-verify of .* is neither true nor false"):
        kubeconfig_context(path, "east", soon())


def test_clusters_of_one_authority_are_connected_to_side_by_side(tmp_path):
    authority = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    kubeconfig = a_kubeconfig(tmp_path / "config", {"token": SECRET}, {"certificate-authority-data": authority})
    with ThreadPoolExecutor(max_workers=4) as threads:
        found = [threads.submit(a_connection(kubeconfig).endpoint, soon()) for _ in range(4)]
        assert {endpoint.result().access.server for endpoint in found} == {SERVER}


def test_a_token_file_that_was_rotated_is_read_again_once_the_old_one_is_refused(tmp_path):
    token = tmp_path / "token"
    token.write_text("first")
    connection = a_connection(a_kubeconfig(tmp_path / "config", {"tokenFile": str(token)}))
    assert connection.header(soon()) == "Bearer first"
    token.write_text("second")
    assert connection.header(soon()) == "Bearer first"
    assert connection.renew("Bearer first", soon()) is True
    assert connection.header(soon()) == "Bearer second"


def test_a_refused_token_of_a_plugin_runs_it_once_more(tmp_path):
    user = an_exec_plugin(tmp_path, *(a_credential(token=f"token-{number}") for number in (1, 2, 3)))
    connection = a_connection(a_kubeconfig(tmp_path / "config", user))
    assert connection.header(soon()) == "Bearer token-1"
    assert connection.renew("Bearer token-1", soon()) is True
    assert connection.renew("Bearer token-1", soon()) is True  # what another thread saw refused meanwhile
    assert connection.header(soon()) == "Bearer token-2"


def test_a_refused_certificate_of_a_plugin_runs_it_once_more(tmp_path):
    """It has no header; while two threads were refused with it, the second one is told that there is a new one."""
    made = [trustme.CA().issue_cert("us") for _ in range(2)]
    user = an_exec_plugin(tmp_path, *(a_credential(**a_certificate(one)) for one in made))
    connection = a_connection(a_kubeconfig(tmp_path / "config", user))
    for one in made:
        assert connection.header(soon()) is None
        assert connection.endpoint(soon()).certificate == one.cert_chain_pems[0].bytes()
        assert connection.renew(None, soon()) is True
    assert (tmp_path / "calls").read_text() == "xx"


def test_refused_credentials_that_are_still_the_same_are_not_tried_again(tmp_path):
    for user in ({"token": "s3cret"}, a_certificate_user(trustme.CA().issue_cert("us"))):
        connection = a_connection(a_kubeconfig(tmp_path / "config", user))
        assert connection.renew(connection.header(soon()), soon()) is False


def test_a_key_that_is_encrypted_is_told(tmp_path):
    made = trustme.CA().issue_cert("us")
    user = a_certificate_user(made) | {"client-key-data": base64.b64encode(encrypted_key(made)).decode()}
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
def test_a_plugin_that_gives_no_credentials(tmp_path, body, words, capfd):
    connection = a_connection(a_kubeconfig(tmp_path / "config", an_exec_plugin(tmp_path, body)))
    with pytest.raises(UnauthorisedError) as raised:
        connection.header(soon())
    assert str(raised.value).startswith("east: kubeconfig ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr().err == ""


def test_a_plugin_that_is_not_installed_is_told_with_the_hint_of_the_kubeconfig(tmp_path):
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


def a_plugin_that_answers_once(folder: Path, expires: str) -> ServerAccess:
    """Return what an exec plugin gives a token to that `expires` then; it fails from then on."""
    user = an_exec_plugin(folder, a_credential(token="first", expirationTimestamp=expires), "sys.exit('away')")
    return kubeconfig_context(a_kubeconfig(folder / "config", user), "east", soon())


def test_a_plugin_that_fails_changes_nothing_while_its_token_is_valid(tmp_path):
    """A token is replaced five minutes before it expires, and whoever gives it may be away for one of them."""
    expires = datetime.fromtimestamp(int(time.time()) + 200, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert a_plugin_that_answers_once(tmp_path, expires).authorization(soon()) == "Bearer first"
    assert (tmp_path / "calls").read_text() == "xx"


def test_a_plugin_that_fails_once_its_token_has_expired_is_told(tmp_path):
    access = a_plugin_that_answers_once(tmp_path, "2020-01-01T00:00:00Z")
    with pytest.raises(CredentialError, match='said "away"'):
        access.authorization(soon())


def test_a_plugin_is_told_of_the_cluster_with_what_its_authority_file_holds(tmp_path):
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


def test_a_plugin_may_give_a_token_and_a_certificate(tmp_path):
    given = a_certificate(trustme.CA().issue_cert("us"))
    user = an_exec_plugin(tmp_path, a_credential(token="t", **given))
    connection = a_connection(a_kubeconfig(tmp_path / "config", user))
    assert connection.header(soon()) == "Bearer t"
    assert connection.endpoint(soon()).certificate == given["clientCertificateData"].encode()


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
def test_a_plugin_that_fails_on_a_terminal(tmp_path, mode, words):
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


def test_a_plugin_that_hangs_is_ended_with_all_it_started_once_the_run_stops(tmp_path):
    """The run stops once the plugin hangs, however long that takes to come to."""

    class OverOnceItHangs(TimeLimit):
        def left(self, grace=0.0):
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
def test_a_kubeconfig_that_cannot_be_used_is_told_without_what_is_in_it(tmp_path, content, words):
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


def test_an_id_token_that_is_valid_is_used(tmp_path):
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
def test_an_id_token_that_has_expired(tmp_path, config, words):
    """The package would send client secret and refresh token to whoever answers for the issuer."""
    user = an_oidc_user(**{"id-token": an_id_token(1)}, **config)
    with pytest.raises(UnauthorisedError) as raised:
        a_connection(a_kubeconfig(tmp_path / "config", user)).header(soon())
    assert words in str(raised.value)
    assert str(raised.value).endswith("expected valid credentials")
    assert SECRET not in str(raised.value)


def an_issuer(httpserver: HTTPServer, give: Callable[[Request], dict[str, str]], **config: str) -> dict[str, Any]:
    """Return the user of a kubeconfig whose id-token has expired, and whose issuer gives another one."""

    def answer(request: Request) -> Response:
        return Response(json.dumps(give(request)), content_type="application/json")

    discovered = {"token_endpoint": httpserver.url_for("/token")}
    httpserver.expect_request("/.well-known/openid-configuration").respond_with_json(discovered)
    httpserver.expect_request("/token", method="POST").respond_with_handler(answer)
    return an_oidc_user(**{"id-token": an_id_token(1), "idp-issuer-url": httpserver.url_for(""), **config})


def asked_of_issuer(httpserver: HTTPServer) -> list[Request]:
    return [request for request, _ in httpserver.log if request.method == "POST"]


@pytest.mark.parametrize("is_public", [pytest.param(False, id="a secret"), pytest.param(True, id="a public client")])
def test_an_id_token_that_has_expired_is_renewed_by_its_issuer(tmp_path, httpserver, is_public):
    """Over the one HTTP client, so that an issuer that hangs holds up nothing. It needs no authority of its own."""
    made = an_id_token(4102444800)
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    user = an_issuer(httpserver, lambda _: {"id_token": made})
    config = user["auth-provider"]["config"]
    if is_public:
        del config["client-secret"]
    else:
        config["idp-certificate-authority"] = str(tmp_path / "ca.crt")
    assert a_connection(a_kubeconfig(tmp_path / "config", user)).header(soon()) == f"Bearer {made}"
    (request,) = asked_of_issuer(httpserver)
    login = request.authorization and (request.authorization.username, request.authorization.password)
    assert login == (None if is_public else ("us", SECRET))
    form = {"grant_type": "refresh_token", "refresh_token": SECRET}
    assert request.form.to_dict() == ({**form, "client_id": "us"} if is_public else form)


def test_a_refresh_token_that_the_issuer_replaces_is_used_the_next_time(tmp_path, httpserver):
    user = an_issuer(httpserver, lambda _: {"id_token": an_id_token(1), "refresh_token": "the next one"})
    kubeconfig = a_kubeconfig(tmp_path / "config", user)
    for _ in range(2):
        a_connection(kubeconfig).header(soon())
    sent = [request.form["refresh_token"] for request in asked_of_issuer(httpserver)]
    assert sent == [SECRET, "the next one"]


def test_clusters_of_one_user_wait_for_one_answer_of_the_issuer(tmp_path, httpserver):
    """One after the other, those of a large Fleet would wait for longer than a request may take."""
    made = an_id_token(4102444800)
    together = threading.Barrier(4)

    def give(_):
        time.sleep(0.5)  # so that the others ask meanwhile
        return {"id_token": made}

    user = an_issuer(httpserver, give, **{"refresh-token": "of several clusters"})
    kubeconfig = a_kubeconfig(tmp_path / "config", user)

    def header(_):
        connection = a_connection(kubeconfig)
        together.wait(60)
        return connection.header(soon())

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(header, range(4)))
    assert found == [f"Bearer {made}"] * 4
    assert len(asked_of_issuer(httpserver)) == 1


def test_a_provider_that_kubectl_knows_no_more_is_told(tmp_path):
    provider = {"name": "gcp", "config": {"access-token": SECRET, "expiry": "2020-01-01T00:00:00Z"}}
    with pytest.raises(UnauthorisedError, match="its access token has expired"):
        a_connection(a_kubeconfig(tmp_path / "config", {"auth-provider": provider})).header(soon())


def of_clusters(folder: Path, users: dict[str, dict[str, Any]]) -> str:
    """Write a kubeconfig of clusters with these users, by name."""
    folder.mkdir(exist_ok=True)
    return str(write_kubeconfig(folder / "config", {name: Access(SERVER, None, user) for name, user in users.items()}))


def test_a_kubeconfig_of_many_clusters_is_read_once_and_again_once_it_has_changed(tmp_path):
    users = {f"c{number}": {"token": f"t-{number}"} for number in range(20)}
    path = of_clusters(tmp_path / "a:b", users)  # as with `kubectl --kubeconfig`; only KUBECONFIG names several
    before = kubeconfig._parsed.cache_info().misses
    assert [a_connection(path, name).header(soon()) for name in users] == [f"Bearer t-{n}" for n in range(20)]
    assert kubeconfig._parsed.cache_info().misses == before + 1
    of_clusters(tmp_path / "a:b", users | {"more": {"token": "t"}})
    assert a_connection(path, "more").header(soon()) == "Bearer t"
    assert kubeconfig._parsed.cache_info().misses == before + 2


def test_clusters_with_the_same_program_have_it_run_once(tmp_path):
    names = [f"c{number}" for number in range(60)]
    config = of_clusters(tmp_path, dict.fromkeys(names, an_exec_plugin(tmp_path, a_credential(token="of-the-program"))))

    with ThreadPoolExecutor(16) as pool:
        accesses = list(pool.map(lambda name: kubeconfig_context(config, name, soon()), names))

    assert {one.authorization(soon()) for one in accesses} == {"Bearer of-the-program"}
    assert (tmp_path / "calls").read_text() == "x"
    kubeconfig.forget_credentials()
    kubeconfig_context(config, "c0", soon())
    assert (tmp_path / "calls").read_text() == "xx"


def test_a_program_that_fails_is_not_run_again_by_those_who_waited_for_it(tmp_path):
    names = [f"c{number}" for number in range(16)]
    user = an_exec_plugin(tmp_path, "import time; time.sleep(1); sys.exit(3)")
    config = of_clusters(tmp_path, dict.fromkeys(names, user))

    def words(name):
        with pytest.raises(CredentialError) as refused:
            kubeconfig_context(config, name, soon())
        return str(refused.value)

    with ThreadPoolExecutor(16) as pool:
        said = set(pool.map(words, names))

    assert len(said) == 1
    assert "ended with 3" in said.pop()
    assert len((tmp_path / "calls").read_text()) < len(names) / 2


def test_a_program_that_prints_without_end_is_ended(tmp_path):
    config = a_kubeconfig(tmp_path / "config", an_exec_plugin(tmp_path, "while True: print('x' * 65536)"))
    with pytest.raises(CredentialError, match="printed more than 1048576 bytes"):
        kubeconfig_context(config, "east", soon())


def test_an_address_without_a_scheme_is_https(tmp_path):
    config = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"server": "127.0.0.1:6443"})
    found = kubeconfig_context(config, "east", soon())
    assert (found.server, found.is_secured) == ("https://127.0.0.1:6443", True)


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
def test_impersonation(tmp_path, user, headers):
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
def test_impersonation_that_cannot_be_meant(tmp_path, user, words):
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
def test_the_proxy_of_the_environment_is_that_of_kubectl(monkeypatch, url, environment, proxy):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy(url) == proxy


def test_the_proxy_of_the_kubeconfig_wins_over_no_proxy(tmp_path, monkeypatch):
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


def test_several_kubeconfigs_are_one(tmp_path, monkeypatch):
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
def test_of_several_ways_in_the_first_counts(tmp_path, user, header):
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "empty").write_text("\n")
    assert a_connection(a_kubeconfig(tmp_path / "config", user)).header(soon()) == header


def test_a_token_file_is_read_again_each_minute_and_while_it_cannot_be_the_last_one_counts(tmp_path):
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
def test_over_plain_http_no_credentials_are_sent_and_none_are_asked_for(tmp_path, way):
    """As kubectl does; as whom somebody acts is no secret, and goes along."""
    (tmp_path / "token").write_text("from-file")
    user = {
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


def test_a_token_of_a_plugin_is_replaced_before_it_expires(tmp_path):
    body = a_credential(token="short", expirationTimestamp="2020-01-01T00:00:00Z")
    path = a_kubeconfig(tmp_path / "config", an_exec_plugin(tmp_path, body))
    access = kubeconfig_context(path, "east", soon())
    assert [access.authorization(soon()) for _ in range(2)] == ["Bearer short"] * 2
    assert (tmp_path / "calls").read_text() == "xxx"


def test_a_client_certificate_in_the_kubeconfig_leaves_no_file(tmp_path, monkeypatch):
    made = trustme.CA().issue_cert("us")
    left = tmp_path / "left"
    left.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(left))
    endpoint = a_connection(a_kubeconfig(tmp_path / "config", a_certificate_user(made))).endpoint(soon())
    assert endpoint.certificate == made.cert_chain_pems[0].bytes()
    assert list(left.iterdir()) == []


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApiServerConnection:
    """That of a pod whose service account is in `tmp_path`."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    return ApiServerConnection(ClusterConnection("east", in_cluster=True))


def test_a_pod_reads_its_token_anew(pod, tmp_path):
    assert (pod.endpoint(soon()).access.server, pod.header(soon())) == ("https://[::1]:6443", "Bearer first")
    (tmp_path / "token").write_text("second")
    assert pod.endpoint(soon()).access.authorization(soon()) == "Bearer second"


def test_a_pod_reads_the_authority_of_its_cluster_anew_once_that_was_replaced(pod, tmp_path, monkeypatch):
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
def test_a_pod_whose_service_account_is_empty(pod, tmp_path, empty):
    (tmp_path / empty).write_text("")
    with pytest.raises(UnreachableError, match=f"service account: .*/{empty} is not there, or empty"):
        pod.header(soon())


def test_a_pod_without_service_account(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    connection = ApiServerConnection(ClusterConnection("east", in_cluster=True))
    with pytest.raises(UnreachableError, match="east: the pod's service account: Service host/port is not set"):
        connection.header(soon())


# On a real API server


def test_a_client_certificate(api_server, tmp_path):
    certificate, key = api_server.client_certificate("operator", "system:masters")
    access = replace(api_server.access(), user={"client-certificate": str(certificate), "client-key": str(key)})
    assert opened(write_kubeconfig(tmp_path / "config", {"east": access})).identity() == api_server.identity()


def test_a_pod_with_its_service_account(api_server, api_namespace, tmp_path, monkeypatch):
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
def test_verification_is_off_only_where_the_kubeconfig_says_so(api_server, tmp_path):
    access = replace(api_server.access(), authority=None, cluster={"insecure-skip-tls-verify": True})
    assert opened(write_kubeconfig(tmp_path / "config", {"east": access})).identity() == api_server.identity()


def test_a_wrong_token(api_server):
    with pytest.raises(UnauthorisedError, match=r"^east: get namespaces kube-system: the credentials were not"):
        opened(api_server.kubeconfig("east", token="wrong")).identity()


def test_an_account_without_rights_is_told_which_rule_it_lacks(api_server, api_namespace):
    cluster = opened(api_server.kubeconfig("east", token=api_server.service_account(api_namespace, "nobody")))
    with pytest.raises(ForbiddenError) as raised:
        cluster.list(NAMESPACES)
    assert str(raised.value).startswith("east: list namespaces: forbidden (")
    assert 'a ClusterRole with {apiGroups: [""], resources: [namespaces], verbs: [list]}' in str(raised.value)
