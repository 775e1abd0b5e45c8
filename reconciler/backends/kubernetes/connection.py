"""Where a cluster is, and who we are there, as the kubeconfig or the pod we run in says.

Everything about kubeconfigs, exec plugins, tokens, proxies and certificates is the `kubernetes` package's; it is
imported only when a cluster is asked.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.backends.base import Clock
from reconciler.backends.kubernetes.settings import RequestSettings
from reconciler.errors import UnauthorisedError, UnreachableError
from reconciler.model import ClusterConnection

if TYPE_CHECKING:
    import urllib3
    import yaml

T = TypeVar("T")

_FRESH_SECONDS = 60.0
_POOL_SIZE = 16


WEAKNESSES = {
    "insecure-skip-tls-verify": "its kubeconfig switches TLS verification off, anybody between can read and change all",
    "http": "its kubeconfig has a server with http://, anybody between can read all, credentials too, and change it",
}
"""What of a kubeconfig makes a connection insecure, and what a person should know of it."""


@dataclass(frozen=True)
class Endpoint:
    """A cluster's address and the connections to it.

    `weakness` is the key of WEAKNESSES that the kubeconfig itself has, "" for none. `certificate` is the client's.
    """

    url: str
    pool: urllib3.PoolManager
    authorization: Callable[[], str | None]
    weakness: str = ""
    certificate: bytes = b""


class Connection:
    """One cluster's endpoint, made when it is first asked for, and made anew when its credentials were refused.

    The authorization header is kept for a minute: the package may run an exec plugin each time it is asked. A plugin
    has as long as a request.
    """

    def __init__(self, settings: ClusterConnection, clock: Clock, patience: RequestSettings) -> None:
        self._settings = settings
        self._clock = clock
        self._patience = patience
        self._guard = threading.Lock()
        self._endpoint: Endpoint | None = None
        self._header: str | None = None
        self._asked_at = 0.0
        self._replaced_at = -_FRESH_SECONDS

    @property
    def weakness(self) -> str:
        """The key of WEAKNESSES that the kubeconfig has, as far as it was read."""
        return "" if self._endpoint is None else self._endpoint.weakness

    @property
    def context(self) -> str:
        """Where the cluster is reached, in words for a message."""
        if self._settings.in_cluster:
            return "the pod's own service account"
        return f'context "{self._settings.context or self._settings.name}"'

    def endpoint(self) -> Endpoint:
        """Return the endpoint.

        Raises:
            UnreachableError: the kubeconfig cannot be used. UnauthorisedError: it leads to no credentials.
        """
        with self._guard:
            return self._opened()

    def header(self) -> str | None:
        """Return the Authorization header's value, None where a client certificate or nothing says who we are."""
        with self._guard:
            endpoint = self._opened()
            if self._clock.monotonic() - self._asked_at > _FRESH_SECONDS:
                self._ask(endpoint)
            return self._header

    def renew(self, refused: str | None) -> bool:
        """Read the credentials anew after `refused` was not accepted; return whether there is something else to try.

        Where another thread already did, nothing is read again. A client certificate has no header to be told by: one
        that was replaced a moment ago is not the one that was refused.
        """
        with self._guard:
            old, now = self._endpoint, self._clock.monotonic()
            if old is None or self._header != refused or (old.certificate and now - self._replaced_at < _FRESH_SECONDS):
                return True
            self._endpoint = None
            if self._opened().certificate != old.certificate:
                self._replaced_at = now
                return True
            return self._header != refused

    def _opened(self) -> Endpoint:
        if self._endpoint is None:
            endpoint = self._in_time(lambda: opened(self._settings))
            self._ask(endpoint)
            self._endpoint = endpoint
        return self._endpoint

    def _ask(self, endpoint: Endpoint) -> None:
        self._header = self._in_time(endpoint.authorization)
        self._asked_at = self._clock.monotonic()

    def _in_time(self, step: Callable[[], T]) -> T:
        """Return what `step` returns. It runs in a thread that nobody waits for at the end: a plugin may hang."""
        result: Future[T] = Future()

        def work() -> None:
            try:
                result.set_result(step())
            except BaseException as error:  # noqa: BLE001 - handed on to who waits
                result.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        seconds = max(0.0, self._patience.seconds_left(self._clock))
        try:
            return result.result(timeout=seconds)
        except TimeoutError as error:
            where = f"{self._settings.name}: {self.context}"
            raise UnreachableError(f"{where}: gave no credentials in time, expected them sooner") from error


def opened(settings: ClusterConnection) -> Endpoint:
    """Return the endpoint that the kubeconfig, or the pod's service account, describes; no request is sent.

    Raises:
        UnreachableError: the kubeconfig cannot be used. UnauthorisedError: an exec plugin gave no credentials.
    """
    from kubernetes.client.configuration import Configuration

    configuration = Configuration(connection_pool_maxsize=_POOL_SIZE)
    with _telling_words(settings) as words:
        _load(settings, configuration)
    _expect_credentials(settings, configuration, words)
    return Endpoint(
        url=configuration.host.rstrip("/"),
        pool=_pool(settings, configuration),
        authorization=lambda: _authorization(settings, configuration),
        weakness=_weakness(configuration),
        certificate=_certificate(configuration),
    )


def _weakness(configuration: Any) -> str:
    if not configuration.host.lower().startswith("https://"):
        return "http"
    return "" if configuration.verify_ssl else "insecure-skip-tls-verify"


def _certificate(configuration: Any) -> bytes:
    try:
        return Path(configuration.cert_file).read_bytes() if configuration.cert_file else b""
    except OSError:
        return b""  # told when a connection needs it


def _load(settings: ClusterConnection, configuration: Any) -> None:
    import kubernetes.config as package

    from reconciler.backends.kubernetes import kubeconfig

    untyped: Any = package
    if settings.in_cluster:
        untyped.load_incluster_config(client_configuration=configuration)
        return
    if settings.kubeconfig is not None and not Path(settings.kubeconfig).expanduser().is_file():
        raise UnreachableError(f"{settings.name}: no file {settings.kubeconfig}, expected a kubeconfig")
    kubeconfig.load(settings.kubeconfig, settings.context or settings.name, configuration)


@contextmanager
def _telling_words(settings: ClusterConnection) -> Iterator[list[str]]:
    """Yield the list of what the package logs meanwhile in this thread; its errors become ours.

    The package only logs what goes wrong with an exec plugin.
    """
    import yaml
    from kubernetes.config import ConfigException

    from reconciler.backends.kubernetes.kubeconfig import RefreshError

    heard = _Listener()
    root = logging.getLogger()
    root.addHandler(heard)
    try:
        yield heard.words
    except ConfigException as error:
        raise UnreachableError(
            f"{_where(settings)}: {_one_line(error)}, expected a kubeconfig that names it"
        ) from error
    except RefreshError as error:
        raise UnauthorisedError(f"{_where(settings)}: {error}, expected a valid one; use an exec plugin") from error
    except yaml.YAMLError as error:
        raise UnreachableError(f"{_where(settings)}: {_place(error)}, expected a kubeconfig in YAML") from error
    except OSError as error:
        where = error.filename or _where(settings)
        raise UnreachableError(f"{settings.name}: {where}: {error.strerror}, expected a file to read") from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnreachableError(f"{_where(settings)}: {_one_line(error)}, expected a well-formed kubeconfig") from error
    finally:
        root.removeHandler(heard)


def _place(error: yaml.YAMLError) -> str:
    """Return where the YAML is broken; the parser's own words quote what stands there, and that may be a secret."""
    mark = getattr(error, "problem_mark", None)
    return "is no YAML" if mark is None else f"is no YAML from line {mark.line + 1}, column {mark.column + 1} on"


class _Listener(logging.Handler):
    """Keeps what its own thread logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.words: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.words.append(_one_line(_of_plugin(sys.exc_info()[1]) or record.getMessage()))


def _of_plugin(error: BaseException | None) -> str:
    """Return what a failed plugin is told as where the package has no words for it.

    On a terminal the plugin writes its errors there itself; the package then trips over not having got them.
    """
    return "exec: the plugin failed and said why on the terminal" if isinstance(error, AttributeError) else ""


def _expect_credentials(settings: ClusterConnection, configuration: Any, words: list[str]) -> None:
    if words and not configuration.api_key.get("BearerToken") and not configuration.cert_file:
        raise UnauthorisedError(f"{_where(settings)}: {'; '.join(words)}, expected credentials from the exec plugin")


def _pool(settings: ClusterConnection, configuration: Any) -> urllib3.PoolManager:
    from kubernetes.client.rest import RESTClientObject

    if not configuration.verify_ssl:
        _warn_ourselves()
    try:
        pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
    except (ValueError, OSError, ImportError) as error:
        raise UnreachableError(f"{_where(settings)}: {_one_line(error)}, expected usable settings") from error
    return pool


def _warn_ourselves() -> None:
    """The library warns at each request; we do once, in words."""
    import urllib3

    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


def _authorization(settings: ClusterConnection, configuration: Any) -> str | None:
    with _telling_words(settings):
        found: dict[str, Any] | None = configuration.auth_settings().get("BearerToken")
    value = (found or {}).get("value")
    return value.strip() if isinstance(value, str) and value.strip() else None


def _where(settings: ClusterConnection) -> str:
    if settings.in_cluster:
        return f"{settings.name}: the pod's service account"
    return f"{settings.name}: kubeconfig {settings.kubeconfig or 'as KUBECONFIG says'}"


def _one_line(words: object) -> str:
    text = " ".join(str(words).split()).removeprefix("Invalid kube-config file. ").rstrip(".")
    return text if len(text) <= 300 else f"{text[:297]}..."
