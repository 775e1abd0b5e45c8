"""The objects of any kind that one API server serves, as it has them; nothing is decoded, nothing is written."""

from __future__ import annotations

from typing import Any

import msgspec

from reconciler.backends.kubernetes.client import ApiClient, object_request
from reconciler.backends.kubernetes.discovery import Served, core_kinds, discover
from reconciler.backends.kubernetes.pages import METADATA_ONLY, ReadBudget, listed


class ServedObjects:
    """What the cluster `name` serves, asked through `requests`; its kinds are asked once."""

    def __init__(self, name: str, requests: ApiClient) -> None:
        self._name = name
        self._requests = requests
        self._kinds: tuple[Served, ...] | None = None

    def kinds(self) -> tuple[Served, ...]:
        """Return every kind that can be listed, each in the version that the cluster names first.

        Raises:
            ClusterError: the cluster does not say what it serves.
        """
        if self._kinds is None:
            found: dict[tuple[str, str], Served] = {}
            in_groups = discover(self._requests, self._name).served.values()
            for one in (*core_kinds(self._requests, self._name), *in_groups):
                found.setdefault((one.group, one.plural), one)
            self._kinds = tuple(found.values())
        return self._kinds

    def manifests(self, group: str, kind: str) -> list[dict[str, Any]]:
        """Return all objects of a kind, with apiVersion and kind; a kind that is not served gives none.

        Raises:
            ClusterError: they cannot be listed.
        """
        return [
            {**one, "apiVersion": f"{group}/{served.version}" if group else served.version, "kind": kind}
            for served in self.kinds()
            if (served.group, served.kind) == (group, kind)
            for one in self._listed(served, "application/json")
        ]

    def metadata(self, served: Served) -> list[dict[str, Any]]:
        """Return the metadata of all objects of a kind.

        Raises:
            ClusterError: they cannot be listed.
        """
        return [one["metadata"] for one in self._listed(served, METADATA_ONLY) if isinstance(one.get("metadata"), dict)]

    def _listed(self, served: Served, accept: str) -> list[dict[str, Any]]:
        key = (served.group, served.version, served.plural)
        request = object_request(self._name, "list", key, accept=accept)
        return listed(self._requests, request, msgspec.Raw, _object, ReadBudget())


def _object(item: msgspec.Raw) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(item, type=dict)
    return found
