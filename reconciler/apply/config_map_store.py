"""What one run keeps for the next, small texts by key, as one ConfigMap of a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from reconciler.backends.protocols import CONFIG_MAPS, Cluster
from reconciler.errors import AlreadyExistsError, NotFoundError, RefusedError, StaleError
from reconciler.model import NOTHING, OUR_LABELS, ConfigMap, ObjectRef, PatchOperation, Write

_ATTEMPTS = 5
_MOST_BYTES = 1_000_000
"""Less than the 1 MiB that a ConfigMap holds. Source: kubernetes pkg/apis/core types.go, MaxSecretSize."""
_ESCAPED = r"[^A-Za-z0-9.-]"


class ConfigMapStore:
    """Keeps each key as one entry of the ConfigMap `name` in `namespace`, which the first write makes with `labels`."""

    def __init__(self, cluster: Cluster, namespace: str, name: str, labels: Mapping[str, str] = OUR_LABELS) -> None:
        self._cluster = cluster
        self._labels = labels
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
        self._cluster.write(entry_write(self._ref, found, ("data", entry), value, self._labels))

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
    return re.sub(_ESCAPED, lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode()), key)


def entry_write(
    ref: ObjectRef,
    found: ConfigMap | None,
    place: tuple[Literal["data", "binaryData"], str],
    value: str | None,
    labels: Mapping[str, str],
) -> Write:
    """Return what sets the entry at `place`, field and key, of the ConfigMap `ref`, and tests that it is as `found`.

    None as `value` takes out an entry that is there. Where there is no ConfigMap, or no such field, it is made: a
    test below something that is absent fails.
    """
    field, entry = place
    if found is None:
        metadata = {"name": ref.name, "namespace": ref.namespace, "labels": labels}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, field: {entry: value}}
        return Write("create", ref, "v1", manifest=manifest)
    entries = found.data if field == "data" else found.binary_data
    path, former = f"/{field}/{entry}", entries.get(entry)
    patch = [PatchOperation("test", path, former)]
    if not entries:
        patch = [PatchOperation("test", f"/{field}", None), PatchOperation("add", f"/{field}", {entry: value})]
    elif value is None:
        patch += [PatchOperation("remove", path)]
    else:
        patch += [PatchOperation("add" if former is None else "replace", path, value)]
    return Write("patch", ref, "v1", uid=found.uid, patch=tuple(patch))
