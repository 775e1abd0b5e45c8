"""What was told of what lasts, kept in the home cluster: no run tells it again before a day is over.

It stands beside the history, labelled like it, so that no run lists it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec

from reconciler.apply.history import HISTORY_PREFIX
from reconciler.apply.outcomes import Access
from reconciler.backends.config_map_store import entry_write
from reconciler.backends.protocols import CONFIG_MAPS, HISTORY_LABEL
from reconciler.decide.annotations import format_time, json_object, parse_time
from reconciler.errors import NotFoundError
from reconciler.model import OUR_LABELS, ObjectRef

_NAME, _KEY = f"{HISTORY_PREFIX}told", "told"
_AGAIN = timedelta(days=1)


def not_told_yet(keys: Collection[str], home: Access, namespace: str, now: datetime, shard: str = "") -> frozenset[str]:
    """Return those of `keys`, all that lasts, that were not told in the last day; from now on they count as told.

    Each `shard` has an entry of its own.

    Raises:
        ClusterError: that cannot be read or written.
    """
    try:
        found = home.cluster.get(CONFIG_MAPS, namespace, _NAME)
    except NotFoundError:
        found = None
    entry = f"{_KEY}-{shard.replace('/', '-')}" if shard else _KEY
    known = json_object(None if found is None else found.data.get(entry))
    fresh = {key for key in keys if (at := parse_time(str(known.get(key)))) is not None and now - at < _AGAIN}
    told = {key: known[key] if key in fresh else format_time(now) for key in sorted(keys)}
    if told != known:
        ref = ObjectRef(home.cluster.name, namespace, "ConfigMap", _NAME)
        text = msgspec.json.encode(told).decode()
        home.cluster.write(entry_write(ref, found, ("data", entry), text, {**OUR_LABELS, HISTORY_LABEL: "told"}))
    return frozenset(keys) - fresh
