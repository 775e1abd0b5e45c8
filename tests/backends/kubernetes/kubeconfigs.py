"""Kubeconfigs of tests, with the programs that they name, and connections by them."""

from __future__ import annotations

import base64
import json
import stat
import sys
from pathlib import Path
from typing import Any

import trustme

from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.connection_settings import ClusterConnection
from reconciler.time_limit import TimeLimit

SERVER = "https://127.0.0.1:1"


def a_kubeconfig(path: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **parts: Any) -> str:
    """Write a kubeconfig with the one context east, but for `parts` of it; JSON is YAML."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "east",
        "contexts": [{"name": "east", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content | parts))
    return str(path)


def an_exec_plugin(folder: Path, *bodies: str) -> dict[str, Any]:
    """Return the user of a kubeconfig whose credentials a program gives; it counts its calls in `calls`.

    The nth call does the nth of `bodies`, the last one from then on.
    """
    plugin = folder / "plugin.py"
    counted = f"calls = open({str(folder / 'calls')!r}, 'a+'); calls.write('x')"
    chosen = f"exec({bodies!r}[min(calls.tell(), {len(bodies)}) - 1])"
    plugin.write_text(f"#!{sys.executable} -IS\nimport json, sys\n{counted}\ncalls.flush()\n{chosen}\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}


def a_credential(**status: Any) -> str:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print(json.dumps({credential!r}))"


def a_connection(kubeconfig: str | None, context: str | None = None) -> ApiServerConnection:
    return ApiServerConnection(ClusterConnection("east", kubeconfig=kubeconfig, context=context))


def soon() -> TimeLimit:
    return TimeLimit(60)


def a_certificate_user(issued: trustme.LeafCert) -> dict[str, str]:
    """The user of a kubeconfig who is known by a certificate."""
    pems = {"client-certificate-data": issued.cert_chain_pems[0], "client-key-data": issued.private_key_pem}
    return {key: base64.b64encode(pem.bytes()).decode() for key, pem in pems.items()}
