"""Which lasting problems were sent to receivers, kept in the home cluster: no run sends one again before a day is over.

It stands beside the history, labelled like it, so that no run lists it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from reconciler.apply.access import Access
from reconciler.apply.history import HISTORY_PREFIX
from reconciler.backends.config_map_store import ConfigMapStore
from reconciler.backends.protocols import HISTORY_LABEL
from reconciler.decide.annotations import format_time, json_object, parse_time
from reconciler.model import OUR_LABELS

_NAME, _KEY = f"{HISTORY_PREFIX}notified", "notified"
_AGAIN = timedelta(days=1)


class Notified(Struct, frozen=True):
    """When each problem was sent last, by its key, as `text`, the entry of `store`, says; None: nothing was yet."""

    store: ConfigMapStore
    entry: str
    text: str | None
    times: Mapping[str, str]

    @classmethod
    def of(cls, home: Access, namespace: str, shard: str = "") -> Notified:
        """Return what `home` has; each `shard` has an entry of its own.

        Raises:
            ClusterError: it cannot be read.
        """
        entry = f"{_KEY}-{shard.replace('/', '-')}" if shard else _KEY
        store = ConfigMapStore(home.cluster, namespace, _NAME, {**OUR_LABELS, HISTORY_LABEL: "notified"})
        text = store.read(entry)
        return cls(store, entry, text, json_object(text))

    def lately(self, now: datetime) -> frozenset[str]:
        """Return the keys that were sent within the last day."""
        times = ((key, parse_time(str(at))) for key, at in self.times.items())
        return frozenset(key for key, at in times if at is not None and timedelta(0) <= now - at < _AGAIN)

    def record(self, sent: Collection[str], kept: Collection[str], now: datetime) -> None:
        """Write that the keys `sent` were sent now; of the others those `kept` stay.

        Raises:
            ClusterError: that cannot be written.
        """
        times = {key: self.times[key] for key in kept} | dict.fromkeys(sent, format_time(now))
        if times != self.times:
            self.store.write(self.entry, msgspec.json.encode(dict(sorted(times.items()))).decode(), self.text)
