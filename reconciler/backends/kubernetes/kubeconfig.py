"""Kubeconfigs, read once each, and handed to the `kubernetes` package cut down to the one context that is asked for.

The package would parse the whole file for each cluster, and names its parts after all that is in them, secrets too.
Programs and servers that give credentials are asked here, within a deadline: the package waits for them for ever.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import yaml
from kubernetes.config import ConfigException
from kubernetes.config.dateutil import parse_rfc3339
from kubernetes.config.kube_config import ENV_KUBECONFIG_PATH_SEPARATOR, ConfigNode, FileOrData, KubeConfigLoader

from reconciler.backends.http.client import HttpClient, HttpRequest
from reconciler.backends.http.deadline import Deadline
from reconciler.backends.http.errors import HttpError, TimedOutError

_EXTENSION = "client.authentication.k8s.io/exec"
_LONGEST_WORDS = 300


class CredentialError(Exception):
    """There are no credentials: what is, without what is secret."""


class ExecPlugin:
    """The program that `config` names, a node of a kubeconfig; its folder is that of the file.

    Raises:
        ConfigException: something is missing in `config`.
    """

    def __init__(self, config: Any, folder: str, cluster: Mapping[str, Any]) -> None:
        self._words: list[str] = [config["command"], *(config.safe_get("args") or ())]
        self._version: str = config["apiVersion"]
        named = config["env"] if config.safe_get("env") else ()
        self._env: dict[str, str] = {**os.environ, **{item["name"]: item["value"] for item in named}}
        self._folder = folder or None
        self._cluster = cluster if config.safe_get("provideClusterInfo") else None

    def credential(self, deadline: Deadline) -> dict[str, Any]:
        """Return the status of the ExecCredential that the program prints.

        Raises:
            CredentialError: it prints none. TimedOutError: not in time; it runs no more.

        Source: kubernetes/client-go plugin/pkg/client/auth/exec/exec.go, refreshCredsLocked.
        """
        where = f"exec plugin {self._words[0]}"
        on_terminal = sys.stdout is not None and sys.stdout.isatty()
        code, printed, said = self._run(on_terminal, deadline)
        if code:
            words = "said why on the terminal" if on_terminal else f'said "{" ".join(said.split())[:_LONGEST_WORDS]}"'
            raise CredentialError(f"{where} ended with {code} and {words}")
        try:
            found = json.loads(printed)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("status"), dict):
            raise CredentialError(f"{where} printed no ExecCredential with a status")
        if found.get("apiVersion") != self._version:
            raise CredentialError(f"{where} printed no ExecCredential of {self._version}")
        status: dict[str, Any] = found["status"]
        if not status.get("token") and not (status.get("clientCertificateData") and status.get("clientKeyData")):
            raise CredentialError(f"{where} gave neither a token nor a certificate with its key")
        return status

    def _run(self, on_terminal: bool, deadline: Deadline) -> tuple[int, str, str]:
        """Return the exit code, what was printed, and what was said to standard error."""
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        try:
            process = subprocess.Popen(
                self._words,
                stdout=subprocess.PIPE,
                cwd=self._folder,
                env={**self._env, "KUBERNETES_EXEC_INFO": json.dumps(self._info(on_terminal))},
                text=True,
                errors="replace",
                start_new_session=not on_terminal,  # what it starts ends with it; on a terminal it must stay ours
                **({} if on_terminal else streams),
            )
        except OSError as error:
            raise CredentialError(f"exec plugin {self._words[0]} cannot be run ({error.strerror})") from error
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    printed, said = process.communicate(timeout=deadline.step("no credentials in time"))
                    return process.returncode, printed, said or ""
        except BaseException:
            _end(process, alone=on_terminal)
            raise

    def _info(self, on_terminal: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": on_terminal}
        if self._cluster is not None:
            extensions = self._cluster.get("extensions") or ()
            config = next((one["extension"] for one in extensions if one["name"] == _EXTENSION), None)
            spec["cluster"] = {**self._cluster, **({} if config is None else {"config": config})}
        return {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}


def _end(process: subprocess.Popen[str], *, alone: bool) -> None:
    """End the program, and where it has a session of its own all it started; its pipes are not waited for."""
    with contextlib.suppress(OSError):
        process.kill() if alone else os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


_Node: Any = ConfigNode
_Package: Any = KubeConfigLoader
_Content: Any = FileOrData
_moment: Any = parse_rfc3339
_PARSER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_LISTS = ("clusters", "contexts", "users")
_AUTHORITIES = ("idp-certificate-authority-data", "idp-certificate-authority")
_DEFAULT = "~/.kube/config"
_TOKEN = "!#$&'*+-.^_`|~"  # what names of headers may hold beside letters and digits

_Parts = dict[str, dict[Any, Any]]
Impersonation = tuple[tuple[str, str], ...]
CheckUsers = Callable[[Sequence[Any]], None]

_FILES = ("client-key", "client-certificate", "certificate-authority", "tokenFile")
_CONTENT = ("-----", "LS0t")  # how PEM begins, and how it does in base64

_reading = threading.Lock()
_writing = threading.Lock()


def load(
    given: str | None, context: str, configuration: Any, deadline: Deadline, check: CheckUsers = lambda _: None
) -> Loader:
    """Set in `configuration` what the kubeconfig says of `context`; `given` None: as KUBECONFIG says.

    `check` sees the context's user before anything of it is used.

    Raises:
        CredentialError: it leads to no credentials. TimedOutError: not in time.
        ConfigException, TypeError, yaml.YAMLError, OSError, ...: it cannot be used.
    """
    paths = (given or os.environ.get("KUBECONFIG") or _DEFAULT).split(ENV_KUBECONFIG_PATH_SEPARATOR)
    found = [str(Path(path).expanduser()) for path in paths if path]
    with _reading:
        parsed = [(path, _parsed(path, *_stamp(path))) for path in found if Path(path).exists()]
    if not parsed:
        raise ConfigException("no configuration found")
    narrowed = _narrowed(parsed, context)
    check([node.value for node in narrowed.value["users"]])
    loader = Loader(narrowed, active_context=context, config_base_path=None)
    loader.deadline = deadline
    loader.load_and_set(configuration)
    return loader


def _stamp(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=64)
def _parsed(path: str, changed_at: int, size: int) -> _Parts:  # noqa: ARG001 - the key
    """Return the entries of each list by name, as the file has them; they are shared, nobody may change them."""
    with open(path, encoding="utf-8") as file:
        content = yaml.load(file, _PARSER)
    if content is None:
        raise ConfigException(f"{path} is empty")
    if not isinstance(content, dict):
        raise TypeError(f"{path} holds no mapping")
    return {part: _by_name(content.get(part) or [], f"{part} of {path}") for part in _LISTS}


def _by_name(entries: Any, where: str) -> dict[Any, Any]:
    if not isinstance(entries, list):
        raise TypeError(f"{where} are no list")
    if not all(isinstance(entry, dict) and "name" in entry for entry in entries):
        raise TypeError(f"one of {where} has no name")
    return {entry["name"]: entry for entry in reversed(entries)}  # the first of a name counts


def _narrowed(parsed: Sequence[tuple[str, _Parts]], context: str) -> Any:
    """Return a kubeconfig with one context, its cluster and its user, each where some file has it, for us alone."""
    found = next(iter(_found(parsed, "contexts", context)), None)
    inside = found.value.get("context") if found is not None else None
    named = inside if isinstance(inside, dict) else {}
    value = {
        "contexts": [] if found is None else [found],
        "clusters": _found(parsed, "clusters", named.get("cluster")),
        "users": _found(parsed, "users", named.get("user")),
    }
    for part, inside_of in (("clusters", "cluster"), ("users", "user")):
        for node in value[part]:
            _check_files(node.value.get(inside_of), node.name)
    return _Node(", ".join(path for path, _ in parsed), value)


def _check_files(fields: Any, where: str) -> None:
    """A key that stands where its file's name belongs would be told as a file that is not there."""
    for name in _FILES:
        value = fields.get(name) if isinstance(fields, dict) else None
        if isinstance(value, str) and value.startswith(_CONTENT):
            raise ConfigException(f"{name} of {where} is no name of a file; call it {name}-data")


def _found(parsed: Sequence[tuple[str, _Parts]], part: str, name: Any) -> list[Any]:
    """Return the entry of that name of the first file that has one; it knows its file, as paths in it are relative."""
    nodes = (
        _Node(f"{path}/{part}[name={name}]", copy.deepcopy(parts[part][name]), path)
        for path, parts in parsed
        if name in parts[part]
    )
    return list(islice(nodes, 1))


class Loader(_Package):  # type: ignore[misc]
    """Reads one context. `deadline` is that of the next time that a program or a server is asked for credentials."""

    deadline: Deadline

    @property
    def proxy_url(self) -> str | None:
        found: str | None = self._cluster.safe_get("proxy-url")
        return found

    def impersonation(self) -> Impersonation:
        """Return as whom the user acts, as headers.

        Raises:
            ConfigException: groups, uid or extra without a user, or not of their form.

        Source: kubernetes/client-go transport/round_trippers.go, NewImpersonatingRoundTripper.
        """
        user = self._user.value if self._user else {}
        name, uid, groups, extra = (user.get(key) for key in ("as", "as-uid", "as-groups", "as-user-extra"))
        if not name and (uid or groups or extra):
            raise ConfigException("as-uid, as-groups and as-user-extra say more of a user, but as names none")
        found = [("Impersonate-User", name)] if name else []
        found += [("Impersonate-Uid", uid)] if uid else []
        found += [("Impersonate-Group", group) for group in _texts(groups, "as-groups")]
        if not isinstance(extra, dict | None):
            raise ConfigException("as-user-extra is no mapping")
        for key, values in (extra or {}).items():
            header = f"Impersonate-Extra-{quote(str(key), safe=_TOKEN)}"
            found += [(header, value) for value in _texts(values, "as-user-extra")]
        return tuple((header, str(value).encode().decode("latin-1")) for header, value in found)

    def _load_cluster_info(self) -> None:
        with _writing:  # the package names a file of the same content to other threads before it has written it
            super()._load_cluster_info()

    def _load_from_exec_plugin(self) -> bool | None:
        """Run the program that gives credentials; the package only logs what goes wrong with it."""
        if "exec" not in self._user:
            return None
        base = self._get_base_path(self._cluster.path)
        status = ExecPlugin(self._user["exec"], base, self._cluster.value).credential(self.deadline)
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        else:
            with _writing:
                self.cert_file, self.key_file = (
                    _Content(status, None, data_key_name=key, file_base_path=base, base64_file_content=False).as_file()
                    for key in ("clientCertificateData", "clientKeyData")
                )
        if status.get("expirationTimestamp"):
            self.expiry = _moment(status["expirationTimestamp"])
        return True

    def _refresh_gcp_token(self) -> None:
        raise CredentialError("its access token has expired, and kubectl gives up this way too (auth-provider gcp)")

    def _refresh_oidc(self, provider: Any) -> None:
        """Get a new id-token. Without an authority anybody could answer and be told client secret and refresh token."""
        config = provider["config"].value
        if not any(config.get(name) for name in _AUTHORITIES):
            raise CredentialError(
                "its id-token has expired, and nothing vouches for its issuer: no idp-certificate-authority"
            )
        try:
            config["id-token"] = id_token(config, self.deadline)
        except (HttpError, OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, TimedOutError):
                raise
            words = f"its id-token has expired, and its issuer gave no other ({type(error).__name__})"
            raise CredentialError(words) from error


def _texts(values: Any, where: str) -> list[str]:
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConfigException(f"{where} is no list of texts")
    return values


def id_token(config: Mapping[str, str], deadline: Deadline) -> str:
    """Return a new id-token from the issuer.

    Raises:
        HttpError: it does not answer. OSError, ValueError, KeyError, TypeError: it answers something else.

    Source: RFC 6749, section 6; OpenID Connect Discovery 1.0, section 4.
    """
    from reconciler.backends.http.connections import connections, environment_proxy, tls_context

    data = config.get("idp-certificate-authority-data")
    tls = tls_context(
        ca_data=base64.b64decode(data).decode() if data else None,
        ca_file=None if data else config["idp-certificate-authority"],
    )
    issuer = config["idp-issuer-url"].rstrip("/")
    client = HttpClient(connections(tls=tls, proxy=environment_proxy(issuer)))
    found = client.exchange(HttpRequest("GET", f"{issuer}/.well-known/openid-configuration"), deadline)
    form = {"grant_type": "refresh_token", "refresh_token": config["refresh-token"]}
    login = base64.b64encode(f"{config['client-id']}:{config['client-secret']}".encode()).decode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": f"Basic {login}"}
    request = HttpRequest("POST", json.loads(found.body)["token_endpoint"], headers, urlencode(form).encode())
    return str(json.loads(client.exchange(request, deadline).body)["id_token"])
