"""`StateStore` as one ConfigMap of a cluster, through the cluster's own protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reconciler.backends.protocols import CONFIG_MAPS, Cluster
from reconciler.errors import AlreadyExistsError, NotFoundError, RefusedError, StaleError
from reconciler.model import NOTHING, OUR_LABELS, ConfigMap, ObjectRef, PatchOperation, Write

_ATTEMPTS = 5
_MOST_BYTES = 1_000_000
"""Less than the 1 MiB that a ConfigMap holds. Source: kubernetes pkg/apis/core types.go, MaxSecretSize."""
_ESCAPED = re.compile(r"[^A-Za-z0-9.-]")


class ConfigMapStore:
    """Keeps each key as one entry of the ConfigMap `name` in `namespace`, which the first write makes."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._ref = ObjectRef(cluster.name, namespace, "ConfigMap", name)

    def read(self, key: str) -> str | None:
        """Return what `key` holds, None where nothing was written."""
        found = self._config_map()
        return None if found is None else found.data.get(entry_name(key))

    def write(self, key: str, value: str | None, expected: str | None) -> None:
        """Set `key` to `value` (None removes it) where it holds `expected` (None: absent).

        Somebody who writes another key at the same time does not disturb.

        Raises:
            StaleError: it holds something else. RefusedError: there would be more than a ConfigMap can hold.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._try(entry_name(key), value, expected)
                return
            except (StaleError, AlreadyExistsError, NotFoundError):
                if attempt == _ATTEMPTS or self.read(key) != expected:
                    break
        raise StaleError(f"{self._ref}: {key} is not what was read, expected it unchanged; plan again")

    def _try(self, entry: str, value: str | None, expected: str | None) -> None:
        found = self._config_map()
        data = NOTHING if found is None else found.data
        if data.get(entry) != expected:
            raise StaleError(f"{self._ref}: {entry} is something else")
        if value == expected:
            return
        self._check_size(data, entry, value or "")
        if found is None:
            manifest = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": self._ref.name, "namespace": self._ref.namespace, "labels": OUR_LABELS},
                "data": {entry: value},
            }
            self._cluster.write(Write("create", self._ref, "v1", manifest=manifest))
        else:
            patch = entry_patch("data", found.data, entry, value, expected)
            self._cluster.write(Write("patch", self._ref, "v1", uid=found.uid, patch=patch))

    def _check_size(self, data: Mapping[str, str], entry: str, value: str) -> None:
        """What makes it smaller is never refused."""
        kept = "".join(key + text for key, text in data.items() if key != entry)
        size = len((kept + value).encode())
        if size > _MOST_BYTES and len(value.encode()) > len(data.get(entry, "").encode()):
            raise RefusedError(
                f"{self._ref}: would hold {size} bytes, expected at most {_MOST_BYTES}; "
                "remove entries that no policy needs any more"
            )

    def _config_map(self) -> ConfigMap | None:
        try:
            return self._cluster.get(CONFIG_MAPS, self._ref.namespace, self._ref.name)
        except NotFoundError:
            return None


def entry_name(key: str) -> str:
    """Return `key` as a key of a ConfigMap: what is not a letter, digit, dot or dash becomes _ and its UTF-8 in hex."""
    return _ESCAPED.sub(lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode()), key)


def entry_patch(
    field: str, found: Mapping[str, str], entry: str, value: str | None, expected: str | None
) -> tuple[PatchOperation, ...]:
    """Return what sets one entry of `field` ("data" or "binaryData"), which has `found`, and tests for `expected`.

    None is an entry that is not there: as `value` it takes it out. Where the field is not there either, it is made; a
    test below something absent fails.
    """
    if not found:
        return PatchOperation("test", f"/{field}", None), PatchOperation("add", f"/{field}", {entry: value})
    path = f"/{field}/{entry}"
    test = PatchOperation("test", path, expected)
    if value is None:
        return test, PatchOperation("remove", path)
    return test, PatchOperation("add" if expected is None else "replace", path, value)
