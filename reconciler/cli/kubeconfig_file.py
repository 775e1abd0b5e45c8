"""The kubeconfig that runs use: its entries, changed as text, in a file or in the Secret that the CronJob mounts.

Whoever writes says what was there: what somebody else wrote meanwhile is not lost.
"""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from reconciler.backends.credentials.config_node import ConfigNode, KubeconfigError
from reconciler.backends.credentials.kubeconfig import ServerAccess
from reconciler.backends.kubernetes.request_form import JSON_PATCH
from reconciler.cli.server_side_apply import Manifest, Manifests
from reconciler.errors import AlreadyExistsError, ConflictError, InvalidError, UsageError
from reconciler.yaml.files import write_new
from reconciler.yaml.reader import PARSER
from reconciler.yaml.writer import block_text

KEY = "kubeconfig"
"""The key in the Secret."""

_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}


class KubeconfigEntry(Struct, frozen=True):
    """A context with what it names: where the cluster is, and the token for it, "" where it has something else."""

    context: str
    user: str
    cluster: Mapping[str, Any]
    token: str


def cluster_of(access: ServerAccess) -> dict[str, Any]:
    """Return the cluster of a kubeconfig that says where `access` leads, whatever file its authority is in."""
    authority = access.authority
    pem = Path(authority).read_bytes() if isinstance(authority, str) else authority
    found = {
        "server": access.server,
        "certificate-authority-data": None if pem is None else base64.b64encode(pem).decode(),
        "tls-server-name": access.server_name,
        "proxy-url": access.proxy,
        "disable-compression": not access.compressed,
    }
    return {key: value for key, value in found.items() if value}


class Kubeconfig:
    """A kubeconfig that is to be changed; of none at all, `text` None, what is to become the first.

    Raises:
        KubeconfigError: it is none; and so do its methods, where it has something else than a kubeconfig has.
    """

    def __init__(self, text: str | None) -> None:
        self.text = text
        try:
            value = {"apiVersion": "v1", "kind": "Config", **{part: [] for part in _LISTS}}
            self._content = ConfigNode("kubeconfig", value if text is None else yaml.load(text, PARSER))
        except yaml.YAMLError as error:
            raise KubeconfigError("is no YAML") from error
        self._named = {
            part: {one.get("name"): one for one in self._content.nodes(part)} for part in ("users", "clusters")
        }
        self.entries = list(self._entries())

    def _entries(self) -> Iterator[KubeconfigEntry]:
        for entry in self._content.nodes("contexts"):
            context = entry.node("context")
            user, cluster = (self._named[f"{part}s"].get(context.get(part)) for part in ("user", "cluster"))
            if user is not None and cluster is not None:
                named = user.node("user")
                token = "" if named.get("tokenFile") else named.text("token")
                where = cluster.node("cluster").value
                yield KubeconfigEntry(entry.required_text("name"), user.required_text("name"), where, token)

    def taken_by_others(self, name: str) -> str:
        """Return what an entry `name` would take the place of that is not ours, "" for nothing."""
        for entry in self._content.nodes("contexts"):
            context, whose = entry.node("context"), entry.get("name")
            for part in ("user", "cluster"):
                if whose != name and context.get(part) == name:
                    return f"{part} {name} is used by context {whose}"
                if whose == name and context.get(part) not in self._named[f"{part}s"]:
                    return f"context {name} names a {part} that is not in it"
        users = (entry for entry in self._content.nodes("users") if entry.get("name") == name)
        held = [set(entry.node("user").value) - {"token"} for entry in users]
        return f"user {name} has {', '.join(sorted(held[0]))}" if held and held[0] else ""

    def with_entry(self, entry: KubeconfigEntry) -> str:
        """Return it with `entry` in place of what had its names."""
        contexts = (known for known in self._content.nodes("contexts") if known.get("name") == entry.context)
        before = next((known.node("context").value for known in contexts), {})
        named = {
            "clusters": (entry.context, dict(entry.cluster)),
            "users": (entry.user, {"token": entry.token}),
            "contexts": (entry.context, {**before, "cluster": entry.context, "user": entry.user}),
        }
        for part, (name, value) in named.items():
            others = [other.value for other in self._content.nodes(part) if other.get("name") != name]
            self._content.value[part] = [*others, {"name": name, _LISTS[part]: value}]
        return block_text(self._content.value)

    def with_tokens(self, tokens: Mapping[str, str]) -> str:
        """Return it with other `tokens`, by user."""
        for entry in self._content.nodes("users"):
            if entry.get("name") in tokens:
                entry.node("user").value["token"] = tokens[entry.get("name")]
        return block_text(self._content.value)


@contextmanager
def usable(place: KubeconfigPlace) -> Iterator[None]:
    """Let what is no kubeconfig in `place` be one of our errors."""
    try:
        yield
    except KubeconfigError as error:
        raise UsageError(f"{place}: {error}, expected a kubeconfig") from error


class KubeconfigFile:
    """A file that only its owner may read."""

    def __init__(self, path: str) -> None:
        self._given = path
        self._path = os.path.realpath(Path(path).expanduser())

    def __str__(self) -> str:
        return self._given

    def read(self) -> str | None:
        """Return the kubeconfig, None where there is none yet."""
        if os.path.exists(self._path) and not os.path.isfile(self._path):  # such as /dev/null, which it would replace
            raise UsageError(f"--file: {self}: is no regular file, expected a kubeconfig")
        try:
            return Path(self._path).read_bytes().decode()  # as it is: line breaks too
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--file: {self}: {error}, expected a kubeconfig") from None

    def check_writable(self) -> None:
        """Check that it can be written, as far as that can be known before.

        Raises:
            UsageError: it cannot.
        """
        with self._refused(), TemporaryFile(dir=os.path.dirname(self._path)):
            pass

    def write(self, before: str | None, text: str) -> None:
        """Put `text` in the place of `before`, whole or not at all.

        Raises:
            ConflictError: something else is there.
        """
        folder, name = os.path.split(self._path)
        with self._refused():
            locked = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(locked, fcntl.LOCK_EX)
                if self.read() != before:
                    raise ConflictError(f"{self}: was changed meanwhile, expected it unchanged; call it again")
                beside = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
                try:
                    write_new(beside, text, 0o600)
                    with open(beside, "rb") as stream:
                        os.fsync(stream.fileno())
                    os.replace(beside, self._path)
                except OSError:
                    with suppress(OSError):
                        os.unlink(beside)
                    raise
                os.fsync(locked)
            finally:
                os.close(locked)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Let what keeps it from being written be one of our errors."""
        try:
            yield
        except OSError as error:
            raise UsageError(f"--file: {self}: {error.strerror}, expected a file to write") from None


class KubeconfigSecret:
    """The key `kubeconfig` of a Secret. To write it where it is there takes the right to patch it, and no other."""

    def __init__(self, manifests: Manifests, namespace: str, name: str) -> None:
        self._manifests = manifests
        self._name = f"{manifests.client.cluster}: Secret {namespace}/{name}"
        metadata = {"name": name, "namespace": namespace}
        self._secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}

    def __str__(self) -> str:
        return self._name

    def read(self) -> str | None:
        found = self._manifests.find(self._secret)
        if found is None:
            return None
        data = (found.get("data") or {}).get(KEY)
        if data is None:
            raise UsageError(f"{self}: has no key {KEY}, expected a kubeconfig in it, or no such Secret")
        try:
            return base64.b64decode(data, validate=True).decode()
        except ValueError:
            raise UsageError(f"{self}: the value of {KEY} is no text in base64, expected a kubeconfig in it") from None

    def check_writable(self) -> None:
        """Nothing is known before: the server says it."""

    def write(self, before: str | None, text: str) -> None:
        after = _encoded(text)
        if before is None:
            body: Any = {**self._secret, "data": {KEY: after}}
            request = self._manifests.request("create", self._secret, body=msgspec.json.encode(body), writes=True)
        else:
            path = f"/data/{KEY}"
            body = [
                {"op": "test", "path": path, "value": _encoded(before)},
                {"op": "replace", "path": path, "value": after},
            ]
            encoded = msgspec.json.encode(body)
            request = self._manifests.request("patch", self._secret, body=encoded, content_type=JSON_PATCH, writes=True)
        try:
            self._manifests.client.send(request)
        except (AlreadyExistsError, InvalidError) as error:
            raise ConflictError(f"{self}: was changed meanwhile, expected it unchanged; call it again") from error


KubeconfigPlace = KubeconfigFile | KubeconfigSecret
"""Where a kubeconfig is kept."""


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
