"""Kubeconfig files for real parts."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Access:
    """How one cluster is reached: the content of one context."""

    server: str
    authority: Path | None
    user: Mapping[str, Any] = field(default_factory=dict)
    """Such as `{"token": ...}`, `{"tokenFile": ...}`, `{"exec": ...}`."""

    cluster: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the cluster, such as `{"proxy-url": ...}`."""


def write_kubeconfig(path: Path, contexts: Mapping[str, Access]) -> Path:
    """A kubeconfig with these contexts; the first is the current one."""
    clusters, users = [], []
    for name, access in contexts.items():
        cluster: dict[str, Any] = {"server": access.server, **access.cluster}
        if access.authority:
            cluster["certificate-authority-data"] = base64.b64encode(access.authority.read_bytes()).decode()
        clusters.append({"name": name, "cluster": cluster})
        users.append({"name": name, "user": dict(access.user)})
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "users": users,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in contexts],
        "current-context": next(iter(contexts)),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    path.chmod(0o600)
    return path
