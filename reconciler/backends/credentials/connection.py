"""The address of a cluster and the credentials for it: from the kubeconfig, the service account of the Pod, or an
`ApiClient` of the package `kubernetes`: who has one need not write a kubeconfig for us.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.backends.credentials.allowed_sources import allowed_file, check_plugins
from reconciler.backends.credentials.config_node import CredentialError, KubeconfigError
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import UnauthorisedError, UnreachableError
from reconciler.http.client import ByteBudget, HttpClient
from reconciler.http.errors import TimedOutError, alone
from reconciler.redaction import remember_authorization
from reconciler.time_limit import TimeLimit

if TYPE_CHECKING:
    import yaml

    from reconciler.backends.credentials.kubeconfig import Pem, ServerAccess

_LARGEST_ANSWER = 32 << 20
"""Bytes of one answer: 500 objects of 64 kB each fit; four are read of a cluster at once."""

_FRESH_SECONDS = 60.0

WEAKNESSES = {
    "insecure-skip-tls-verify": "its kubeconfig switches TLS verification off, anybody between can read and change all",
    "http": "its kubeconfig has a server with http://, anybody between can read and change all; "
    "no credentials are sent",
}
"""What of a kubeconfig makes a connection insecure, and what a person should know of it."""


class ApiServer(Struct, frozen=True):
    """Where a cluster is, and the clients that ask it. `certificate` is the client's, b"" for none."""

    access: ServerAccess
    reader: HttpClient
    writer: HttpClient
    certificate: bytes


class ApiServerConnection:
    """One cluster's endpoint, made when it is first asked for, and made anew when its credentials were refused.

    The authorization header is kept for a minute: an exec plugin may run each time it is asked. Nothing takes longer
    than the limit that is given.
    """

    def __init__(self, settings: ClusterConnection, budget: ByteBudget | None = None, client: Any = None) -> None:
        """`budget` is how many bytes may be read, None: a process without end has no end.

        `client` is a `kubernetes.client.ApiClient` whose connection counts in place of what `settings` say.
        """
        self._settings = settings
        self._client = client
        self._guard = threading.Lock()
        self._budget = budget
        self._endpoint: ApiServer | None = None
        self._header: str | None = None
        self._asked_at = 0.0
        self._opened_at = 0.0
        self._replaced_at = -_FRESH_SECONDS

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._settings.name

    @property
    def weakness(self) -> str:
        """The key of WEAKNESSES that the kubeconfig has, as far as it was read."""
        return "" if self._endpoint is None else weakness_of(self._endpoint.access)

    @property
    def context(self) -> str:
        """Where the cluster is reached, in words for a message."""
        if self._client is not None:
            return "an ApiClient"
        if self._settings.in_cluster:
            return "the pod's own service account"
        return f'context "{self._settings.context or self._settings.name}"'

    def endpoint(self, limit: TimeLimit) -> ApiServer:
        """Return the endpoint.

        Raises:
            UnreachableError: the kubeconfig cannot be used. UnauthorisedError: it leads to no credentials.
        """
        if (known := self._endpoint) is not None:
            return known
        with self._alone(limit):
            return self._opened(limit)

    def access(self, limit: TimeLimit) -> ServerAccess:
        """Return what the kubeconfig says, read anew; errors as of `endpoint`."""
        with self._alone(limit):
            return self._access(limit)

    def header(self, limit: TimeLimit) -> str | None:
        """Return the Authorization header's value, None where a client certificate or nothing says who we are."""
        if self._endpoint is not None and limit.now() - self._asked_at <= _FRESH_SECONDS:
            return self._header
        with self._alone(limit):
            endpoint = self._opened(limit)
            if limit.now() - self._asked_at > _FRESH_SECONDS:
                self._ask(endpoint, limit)
            return self._header

    def renew(self, refused: str | None, limit: TimeLimit) -> bool:
        """Read the credentials anew after `refused` was not accepted; return whether there is something else to try.

        Where another thread already did, nothing is read again. A client certificate has no header to know it by: one
        that was replaced a moment ago is not the one that was refused.
        """
        with self._alone(limit):
            from reconciler.backends.credentials import kubeconfig

            old, now = self._endpoint, limit.now()
            if old is None or self._header != refused or (old.certificate and now - self._replaced_at < _FRESH_SECONDS):
                return True
            self._endpoint = None
            kubeconfig.forget_credentials()
            if self._opened(limit).certificate != old.certificate:
                self._replaced_at = now
                return True
            return self._header != refused

    def distrust(self, endpoint: ApiServer, limit: TimeLimit) -> None:
        """Read everything anew next time, where nobody vouches for the server's certificate: what was read a while ago
        may have been replaced since, as the authority of a cluster is, also in the Pod.
        """
        with self._alone(limit):
            if self._endpoint is endpoint and limit.now() - self._opened_at > _FRESH_SECONDS:
                self._endpoint = None

    @contextmanager
    def _alone(self, limit: TimeLimit) -> Iterator[None]:
        """Let one thread in: the others wait for what it reads, each as long as it has time."""
        words = _in_our_words(self._settings, "" if self._client is None else "ApiClient")
        with words, alone(self._guard, limit, "no credentials in time"):
            yield

    def _opened(self, limit: TimeLimit) -> ApiServer:
        if self._endpoint is None:
            endpoint = opened(self._access(limit), self._budget)
            self._ask(endpoint, limit)
            self._endpoint, self._opened_at = endpoint, limit.now()
        return self._endpoint

    def _access(self, limit: TimeLimit) -> ServerAccess:
        return _access_to(self._settings, limit) if self._client is None else access_of(self._client)

    def _ask(self, endpoint: ApiServer, limit: TimeLimit) -> None:
        self._header = (endpoint.access.authorization(limit) or "").strip() or None
        remember_authorization(self._header)
        self._asked_at = limit.now()


def load_libraries() -> None:
    """Import what credentials and connections need: the first time it takes longer than a short request may."""
    import reconciler.backends.credentials.kubeconfig
    import reconciler.http.connections  # noqa: F401


def opened(access: ServerAccess, budget: ByteBudget | None) -> ApiServer:
    """Return the endpoint of `access`; no request is sent to it."""
    from reconciler.http.connections import connections
    from reconciler.http.proxies import environment_proxy

    pool = connections(
        tls=_tls(access) if access.is_secured else None,
        server_name=access.server_name or None,
        proxy=access.proxy or environment_proxy(access.server),
    )
    reader = HttpClient(pool, largest=_LARGEST_ANSWER, budget=budget)
    return ApiServer(access, reader, HttpClient(pool, largest=_LARGEST_ANSWER), _certificate(access))


def _access_to(settings: ClusterConnection, limit: TimeLimit) -> ServerAccess:
    """Return what the kubeconfig, or the pod's service account, says."""
    from reconciler.backends.credentials import kubeconfig

    if settings.in_cluster:
        return kubeconfig.own_access()
    given = settings.kubeconfig
    if given is not None:
        given = allowed_file(settings.sources, settings.name, "kubeconfig", given)
        if not Path(given).expanduser().is_file():
            raise UnreachableError(f"{settings.name}: no file {settings.kubeconfig}, expected a kubeconfig")
    name, check = settings.context or settings.name, partial(check_plugins, settings)
    return kubeconfig.kubeconfig_context(given, name, limit, check)


def _tls(access: ServerAccess) -> ssl.SSLContext:
    from reconciler.http.connections import tls_context

    authority, certificate = access.authority, access.certificate
    with ExitStack() as files:
        return tls_context(
            ca_file=authority if isinstance(authority, str) else None,
            ca_data=authority.decode("ascii", "ignore") if isinstance(authority, bytes) else None,
            certificate=None if certificate is None else (_named(certificate[0], files), _named(certificate[1], files)),
            verified=access.verified,
        )


def _named(pem: Pem, files: ExitStack) -> str:
    """Return the name of a file with `pem`: OpenSSL reads keys from files alone. One of ours is gone with `files`."""
    if isinstance(pem, str):
        return pem
    file = files.enter_context(NamedTemporaryFile())  # noqa: SIM115 - closed with `files`; only we may read it
    file.write(pem)
    file.flush()
    return file.name


def weakness_of(access: ServerAccess) -> str:
    """Return the key of WEAKNESSES that a connection has, "" for none."""
    if not access.is_secured:
        return "http"
    return "" if access.verified else "insecure-skip-tls-verify"


def _certificate(access: ServerAccess) -> bytes:
    certificate = b"" if access.certificate is None else access.certificate[0]
    return certificate if isinstance(certificate, bytes) else Path(certificate).read_bytes()


@contextmanager
def _in_our_words(settings: ClusterConnection, client: str) -> Iterator[None]:
    """Let what goes wrong with a kubeconfig, and with those that give credentials, be one of our errors."""
    import yaml

    where = f"{settings.name}: {client}" if client else _where(settings)
    try:
        yield
    except TimedOutError as error:
        raise UnreachableError(f"{where}: {error}, expected them sooner") from error
    except CredentialError as error:
        raise UnauthorisedError(f"{where}: {error}, expected valid credentials") from error
    except KubeconfigError as error:
        expected = "" if client else ", expected a kubeconfig that names it"
        raise UnreachableError(f"{where}: {_one_line(error)}{expected}") from error
    except yaml.YAMLError as error:
        raise UnreachableError(f"{where}: {_place(error)}, expected a kubeconfig in YAML") from error
    except ssl.SSLError as error:
        words = f"{where}: its certificates cannot be used ({error.reason or _one_line(error)})"
        raise UnreachableError(f"{words}, expected an authority and a certificate with its key, unencrypted") from error
    except OSError as error:
        of_file = error.filename or where
        raise UnreachableError(f"{settings.name}: {of_file}: {error.strerror}, expected a file to read") from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnreachableError(f"{where}: {_one_line(error)}, expected a well-formed kubeconfig") from error


def _place(error: yaml.YAMLError) -> str:
    """Return where the YAML is broken; the parser's own words quote what stands there, and that may be a secret."""
    mark = getattr(error, "problem_mark", None)
    return "is no YAML" if mark is None else f"is no YAML from line {mark.line + 1}, column {mark.column + 1} on"


def _where(settings: ClusterConnection) -> str:
    if settings.in_cluster:
        return f"{settings.name}: the pod's service account"
    default = "as KUBECONFIG says" if os.environ.get("KUBECONFIG") else "~/.kube/config"
    return f"{settings.name}: kubeconfig {settings.kubeconfig or default}"


def _one_line(words: object) -> str:
    text = " ".join(str(words).split()).rstrip(".")
    return text if len(text) <= 300 else f"{text[:297]}..."


def access_of(client: Any) -> ServerAccess:
    """Return the address, credentials and TLS settings of a `kubernetes.client.ApiClient`.

    Its token is asked for again each time, as `refresh_api_key_hook` may renew it. Nothing is sent through it: it has
    no time limits.

    Raises:
        KubeconfigError: it is none, or checks a certificate in a way that is not kept here.

    Source: kubernetes-client/python kubernetes/client/configuration.py, Configuration; kubernetes/client/rest.py,
    RESTClientObject.
    """
    from reconciler.backends.credentials.kubeconfig import ServerAccess

    configuration: Any = getattr(client, "configuration", None)
    if not isinstance(getattr(configuration, "host", None), str):
        raise KubeconfigError(f"is a {type(client).__name__}, expected a kubernetes.client.ApiClient")
    if configuration.assert_hostname is not None:
        raise KubeconfigError("has assert_hostname in its configuration, expected tls_server_name")
    headers = {key: str(value) for key, value in client.default_headers.items()}

    def authorization(_: TimeLimit) -> str | None:
        settings = configuration.auth_settings().values()
        found = {setting["key"].lower(): setting["value"] for setting in settings if setting["in"] == "header"}
        by_header = next((value for key, value in headers.items() if key.lower() == "authorization"), None)
        return found.get("authorization") or by_header

    access = ServerAccess(
        server=configuration.host.rstrip("/"),
        authorization=authorization,
        authority=_authority(configuration),
        certificate=_client_certificate(configuration),
        verified=bool(configuration.verify_ssl),
        server_name=getattr(configuration, "tls_server_name", None) or "",
        proxy=configuration.proxy or "",
        impersonation=tuple(header for header in headers.items() if header[0].lower().startswith("impersonate-")),
    )
    return access if access.is_secured else ServerAccess(access.server, lambda _: None, proxy=access.proxy)


def _authority(configuration: Any) -> Pem | None:
    stated: str | bytes | None = getattr(configuration, "ca_cert_data", None)
    if stated:
        return stated.encode() if isinstance(stated, str) else stated
    file: str | None = configuration.ssl_ca_cert
    return file


def _client_certificate(configuration: Any) -> tuple[Pem, Pem] | None:
    if not configuration.cert_file:
        return None
    return configuration.cert_file, configuration.key_file or configuration.cert_file
