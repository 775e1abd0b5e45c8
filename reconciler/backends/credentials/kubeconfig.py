"""Kubeconfigs and the Pod's service account: the address of a cluster, the credentials for it. Each file is read once.

Programs and servers that give credentials are asked within a time limit.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import yaml
from msgspec import Struct
from msgspec.structs import replace

from reconciler.backends.credentials.config_node import ConfigNode, KubeconfigError
from reconciler.time_limit import TimeLimit
from reconciler.yaml.reader import PARSER

if TYPE_CHECKING:
    from reconciler.backends.credentials.exec_plugin import ExecPlugin

_LISTS = ("clusters", "contexts", "users")
_DEFAULT = "~/.kube/config"
_TOKEN = "!#$&'*+-.^_`|~"  # what names of headers may hold beside letters and digits
_CLUSTER_INFO = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
_EXTENSION = "client.authentication.k8s.io/exec"

_Parts = dict[str, dict[Any, Any]]
Impersonation = tuple[tuple[str, str], ...]
CheckUsers = Callable[[Sequence[Any]], None]
Authorization = Callable[[TimeLimit], str | None]
"""Gives the value of the Authorization header, None for none."""

_FILES = ("client-key", "client-certificate", "certificate-authority", "tokenFile")
_CONTENT = ("-----", "LS0t")  # how PEM begins, and how it does in base64

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a pod finds its token and the certificate authority of its API server."""

_reading = threading.Lock()

Pem = str | bytes
"""The name of a file in PEM, or what would stand in it."""


class ServerAccess(Struct, frozen=True):
    """Where a cluster is, and who we are there. `authority` None: the system's; `verified` False: anybody may answer.

    `certificate` is the client's, with its key; `server_name` is whom the server's certificate must name, "": its host.
    `compressed`: long answers may be. `token` is one that stands in the kubeconfig itself, and stays what it is.
    """

    server: str
    authorization: Authorization
    authority: Pem | None = None
    certificate: tuple[Pem, Pem] | None = None
    verified: bool = True
    server_name: str = ""
    proxy: str = ""
    impersonation: Impersonation = ()
    compressed: bool = True
    token: str = ""

    @property
    def is_secured(self) -> bool:
        return self.server.lower().startswith("https://")


def own_access() -> ServerAccess:
    """Return what a pod has of its own; its token is read anew each time, as it rotates.

    Raises:
        KubeconfigError: this is no pod with a service account.

    Source: kubernetes/client-go rest/config.go, InClusterConfig.
    """
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    if not host or not port:
        raise KubeconfigError("Service host/port is not set")
    token, authority = Path(SERVICE_ACCOUNT, "token"), Path(SERVICE_ACCOUNT, "ca.crt")
    for file in (token, authority):
        if not file.is_file() or not file.stat().st_size:
            raise KubeconfigError(f"{file} is not there, or empty")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ServerAccess(server, lambda _: f"Bearer {token.read_text()}", authority=str(authority))


def kubeconfig_context(
    given: str | None, context: str, limit: TimeLimit, check: CheckUsers = lambda _: None
) -> ServerAccess:
    """Return what the kubeconfig says of `context`; `given` None: as KUBECONFIG says.

    `check` sees the context's user before anything of it is used.

    Raises:
        CredentialError: it leads to no credentials. TimedOutError: not in time.
        KubeconfigError, TypeError, yaml.YAMLError, OSError, ...: it cannot be used.

    Source: kubernetes/client-go tools/clientcmd/client_config.go, ClientConfig; api/v1/types.go.
    """
    paths = [given] if given else (os.environ.get("KUBECONFIG") or _DEFAULT).split(os.pathsep)
    found = [str(Path(path).expanduser()) for path in paths if path]
    with _reading:
        parsed = [(path, _parsed(path, *_stamp(path))) for path in found if Path(path).exists()]
    if not parsed:
        raise KubeconfigError(f"there is no file {' or '.join(path for path in paths if path)}")
    files = ", ".join(path for path, _ in parsed)
    named = _required(parsed, "contexts", context, files).node("context")
    entry = _required(parsed, "users", named["user"], files) if named.get("user") else None
    check([] if entry is None else [entry.value])
    cluster = _required(parsed, "clusters", named["cluster"], files).node("cluster")
    user = ConfigNode("no user", {}) if entry is None else entry.node("user")
    _check_files(cluster)
    _check_files(user)
    return _access(cluster, user, limit)


def _access(cluster: ConfigNode, user: ConfigNode, limit: TimeLimit) -> ServerAccess:
    access = ServerAccess(
        server=_server(cluster),
        authorization=_always(None),
        verified=not cluster.is_set("insecure-skip-tls-verify"),
        server_name=cluster.text("tls-server-name"),
        proxy=cluster.text("proxy-url"),
        impersonation=impersonation(user),
        compressed=not cluster.is_set("disable-compression"),
    )
    if not access.is_secured:
        return access  # credentials would be there for everybody between to read; kubectl sends none either
    authorization, own = _login(cluster, user, limit)
    renewed = user.get("tokenFile") or user.get("auth-provider")
    return replace(
        access,
        authorization=authorization,
        token="" if renewed else user.text("token"),
        authority=_pem(cluster, "certificate-authority"),
        certificate=own or _certificate(user),
    )


def _server(cluster: ConfigNode) -> str:
    """Return the address of an API server; one without a scheme is https."""
    text = str(cluster["server"])
    address = text if "://" in text else f"https://{text}"
    if not urlsplit(address).hostname:
        raise KubeconfigError(f"server of {cluster.name} has no host")
    return address.rstrip("/")


def _login(cluster: ConfigNode, user: ConfigNode, limit: TimeLimit) -> tuple[Authorization, tuple[Pem, Pem] | None]:
    """Return who gives the header, and the certificate that a program gave in its place."""
    if user.get("auth-provider") is not None:
        from reconciler.backends.credentials.auth_provider import ProviderToken

        provided = ProviderToken(user)
        if provided(limit) is not None:
            return provided, None
    token = _token(user)
    if token is not None:
        return token, None
    if user.get("exec") is not None:
        config = user.node("exec")
        told = _cluster_info(cluster) if config.is_set("provideClusterInfo") else None
        plugin = _plugin(config, user.folder, told)
        return plugin, plugin.credential(limit).certificate
    if user.get("username") is not None and user.get("password") is not None:
        both = base64.b64encode(f"{user.text('username')}:{user.text('password')}".encode()).decode()
        return _always(f"Basic {both}"), None
    return _always(None), None


def _always(header: str | None) -> Authorization:
    return lambda _: header


def _token(user: ConfigNode) -> Authorization | None:
    """Return what gives the token of `user`, None where it has none. A file wins over a token beside it; it is read
    each time, as tokens rotate, and while it cannot be read, the last one counts.

    Source: kubernetes/client-go transport/round_trippers.go, bearerAuthRoundTripper; token_source.go, fileTokenSource.
    """
    known, path = user.text("token"), _path(user, "tokenFile")
    if path is None:
        return _always(f"Bearer {known}") if known else None
    known = known or Path(str(_file(user, "tokenFile"))).read_text(encoding="utf-8").strip()

    def in_file(_: TimeLimit) -> str:
        nonlocal known
        with contextlib.suppress(OSError, UnicodeDecodeError):
            known = Path(path).read_text(encoding="utf-8").strip() or known
        return f"Bearer {known}"

    return in_file if known else None


_shared: dict[str, ExecPlugin] = {}
_sharing = threading.Lock()


def _plugin(config: ConfigNode, folder: str, cluster: dict[str, Any] | None) -> ExecPlugin:
    """Return the program that gives the token; all clusters whose users name the same program, told the same, have one.

    Source: kubernetes/client-go plugin/pkg/client/auth/exec/exec.go, cacheKey.
    """
    from reconciler.backends.credentials.exec_plugin import ExecPlugin

    key = repr((config.value, folder, cluster))
    with _sharing:
        if key not in _shared:
            _shared[key] = ExecPlugin(config, folder, cluster)
        return _shared[key]


def forget_credentials() -> None:
    """Have programs asked anew that gave credentials before, because one was refused."""
    with _sharing:
        _shared.clear()


def _cluster_info(cluster: ConfigNode) -> dict[str, Any]:
    """Return what a program is told of the cluster; of an authority in a file, what the file holds.

    Source: kubernetes/client-go rest/exec.go, ConfigToExecCluster; pkg/apis/clientauthentication/v1 types.go, Cluster.
    """
    info = {key: cluster[key] for key in _CLUSTER_INFO if cluster.get(key) is not None}
    authority = _pem(cluster, "certificate-authority")
    if authority is not None:
        content = authority if isinstance(authority, bytes) else Path(authority).read_bytes()
        info["certificate-authority-data"] = base64.b64encode(content).decode()
    extensions = (extension for extension in cluster.nodes("extensions") if extension.get("name") == _EXTENSION)
    config = next(extensions, None)
    return info if config is None else {**info, "config": config.get("extension")}


def _certificate(user: ConfigNode) -> tuple[Pem, Pem] | None:
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate is None:
        return None
    return certificate, certificate if key is None else key


def _pem(node: ConfigNode, key: str) -> Pem | None:
    """Return what `key` or `key`-data has, None where neither is there: data goes before a file.

    Raises:
        KubeconfigError: there is no such file, or nothing in the data.
    """
    data = node.text(f"{key}-data")
    if not data:
        return _file(node, key)
    pem = base64.standard_b64decode(data)
    if not pem:  # without an authority the system's would vouch
        raise KubeconfigError(f"{key}-data of {node.name} is empty")
    return pem


def _file(node: ConfigNode, key: str) -> str | None:
    """Return the name of the file that `key` has, None for none.

    Raises:
        KubeconfigError: there is no such file.
    """
    path = _path(node, key)
    if path is not None and not Path(path).is_file():
        raise KubeconfigError(f"File does not exist: {path}")
    return path


def _path(node: ConfigNode, key: str) -> str | None:
    return os.path.normpath(os.path.join(node.folder, node.text(key))) if node.text(key) else None


def _stamp(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=64)
def _parsed(path: str, changed_at: int, size: int) -> _Parts:  # noqa: ARG001 - the key
    """Return the entries of each list by name, as the file has them; they are shared, nobody may change them."""
    with open(path, encoding="utf-8") as file:
        content = yaml.load(file, PARSER)
    if content is None:
        raise KubeconfigError(f"{path} is empty")
    if not isinstance(content, dict):
        raise TypeError(f"{path} holds no mapping")
    return {part: _by_name(content.get(part) or [], f"{part} of {path}") for part in _LISTS}


def _by_name(entries: Any, where: str) -> dict[Any, Any]:
    if not isinstance(entries, list):
        raise TypeError(f"{where} are no list")
    if not all(isinstance(entry, dict) and "name" in entry for entry in entries):
        raise TypeError(f"one of {where} has no name")
    return {entry["name"]: entry for entry in reversed(entries)}  # the first of a name counts


def _required(parsed: Sequence[tuple[str, _Parts]], part: str, name: Any, files: str) -> ConfigNode:
    """Return a copy of the entry of that name of the first file that has one: paths in it start from that file."""
    for path, parts in parsed:
        if name in parts[part]:
            folder = str(Path(path).absolute().parent)
            return ConfigNode(f"{path}/{part}[name={name}]", copy.deepcopy(parts[part][name]), folder)
    raise KubeconfigError(f"no {name} in {part} of {files}")


def _check_files(fields: ConfigNode) -> None:
    """A key that stands where its file's name belongs would be reported as a file that is not there."""
    for name in _FILES:
        value = fields.get(name)
        if isinstance(value, str) and value.startswith(_CONTENT):
            raise KubeconfigError(f"{name} of {fields.name} is no name of a file; call it {name}-data")


def impersonation(user: ConfigNode) -> Impersonation:
    """Return as whom the user acts, as headers.

    Raises:
        KubeconfigError: groups, uid or extra without a user, or not of their form.

    Source: kubernetes/client-go transport/round_trippers.go, NewImpersonatingRoundTripper.
    """
    name, uid, groups = user.get("as"), user.get("as-uid"), user.texts("as-groups")
    extra = user.node("as-user-extra") if user.get("as-user-extra") else None
    if not name and (uid or groups or extra):
        raise KubeconfigError("as-uid, as-groups and as-user-extra say more of a user, but as names none")
    found = [("Impersonate-User", name)] if name else []
    found += [("Impersonate-Uid", uid)] if uid else []
    found += [("Impersonate-Group", group) for group in groups]
    if extra is not None:
        names = {key: f"Impersonate-Extra-{quote(str(key), safe=_TOKEN)}" for key in extra.value}
        found += [(header, value) for key, header in names.items() for value in extra.texts(key)]
    return tuple((header, str(value).encode().decode("latin-1")) for header, value in found)
