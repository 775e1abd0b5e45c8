"""Kubeconfigs, read once each, and handed to the `kubernetes` package cut down to the one context that is asked for.

The package would parse the whole file for each cluster, and names its parts after all that is in them, secrets too.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from kubernetes.config import ConfigException
from kubernetes.config.kube_config import ENV_KUBECONFIG_PATH_SEPARATOR, ConfigNode, KubeConfigLoader

_Node: Any = ConfigNode
_PARSER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_LISTS = ("clusters", "contexts", "users")
_AUTHORITIES = ("idp-certificate-authority-data", "idp-certificate-authority")
_DEFAULT = "~/.kube/config"

_Parts = dict[str, dict[Any, Any]]

_FILES = ("client-key", "client-certificate", "certificate-authority", "tokenFile")
_CONTENT = ("-----", "LS0t")  # how PEM begins, and how it does in base64

_reading = threading.Lock()


class RefreshError(Exception):
    """Credentials that have expired could not, or must not, be renewed by the package."""


def load(given: str | None, context: str, configuration: Any) -> None:
    """Set in `configuration` what the kubeconfig says of `context`; `given` None: as KUBECONFIG says.

    Raises:
        RefreshError: it has expired. ConfigException, TypeError, yaml.YAMLError, OSError, ...: it cannot be used.
    """
    paths = (given or os.environ.get("KUBECONFIG") or _DEFAULT).split(ENV_KUBECONFIG_PATH_SEPARATOR)
    found = [str(Path(path).expanduser()) for path in paths if path]
    with _reading:
        parsed = [(path, _parsed(path, *_stamp(path))) for path in found if Path(path).exists()]
    if not parsed:
        raise ConfigException("no configuration found")
    make: Any = _Loader
    loader = make(_narrowed(parsed, context), active_context=context, config_base_path=None)
    loader.load_and_set(configuration)


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


class _Loader(KubeConfigLoader):
    def _refresh_oidc(self, provider: Any) -> None:
        """Without an authority the package would hand client secret and refresh token to whoever answers."""
        if not any(provider["config"].safe_get(name) for name in _AUTHORITIES):
            raise RefreshError(
                "its id-token has expired, and nothing vouches for its issuer: no idp-certificate-authority"
            )
        package: Any = super()
        try:
            package._refresh_oidc(provider)
        except Exception as error:  # three libraries have a hand in this
            words = f"its id-token has expired, and its issuer gave no other ({type(error).__name__})"
            raise RefreshError(words) from error
