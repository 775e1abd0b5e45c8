"""Where objects are in the API."""

from __future__ import annotations

from urllib.parse import quote


def collection(group: str, version: str, plural: str, namespace: str = "") -> str:
    """Return the path of all objects of a resource, in one namespace where one is given."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"{root}/{plural}"


def one(group: str, version: str, plural: str, namespace: str, name: str) -> str:
    """Return the path of one object; names may hold what paths may not."""
    return f"{collection(group, version, plural, namespace)}/{quote(name, safe='')}"


def resource_name(group: str, plural: str) -> str:
    """Return a resource as roles and messages name it: deployments.apps, pods."""
    return f"{plural}.{group}" if group else plural
