"""What a run asks of an API server, as rights; and conflicts, so that it reads again what it is about to write."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from tests.real import faults
from tests.real.proxy import Proxy, Request


class Conflicts:
    """Answers the first PATCH of each resource with a conflict; leases aside, for which one means a lost race."""

    def __init__(self, proxy: Proxy) -> None:
        self._met: set[str] = set()
        self._guard = threading.Lock()
        proxy.rule(faults.answer(409), matching=self._is_first, times=None)

    def _is_first(self, request: Request) -> bool:
        asked = request.path.split("/")
        if request.method != "PATCH" or "leases" in asked:
            return False
        kind = "/".join([asked[asked.index("namespaces") + 2], *asked[asked.index("namespaces") + 4 :]])
        with self._guard:
            first = kind not in self._met
            self._met.add(kind)
            return first


def kinds(requests: Iterable[Request], own: str) -> set[tuple[str, str, str, bool, str]]:
    """What was asked for, as (group, resource, verb, in our `own` namespace, name of a cluster-wide object)."""
    return {found for request in requests if (found := _kind(request, own)) is not None}


_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
_FREE = ("authorization.k8s.io",)


def _kind(request: Request, own: str) -> tuple[str, str, str, bool, str] | None:
    top, *parts = request.path.strip("/").split("/")
    if top == "apis" and len(parts) < 3:
        return None
    group, parts = (parts[0], parts[2:]) if top == "apis" else ("", parts[1:])
    if group in _FREE:
        return None
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource = "/".join([parts[0], *parts[2:]])
    name = parts[1] if len(parts) > 1 else ""
    verb = _VERBS.get(request.method) or ("get" if name else "list")
    return group, resource, verb, namespace == own, "" if namespace or group else name
