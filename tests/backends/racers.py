"""A process that writes as fast as it can, beside others.

python -m tests.backends.racers FOLDER NAME COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path

from reconciler.backends.protocols import CONFIG_MAPS
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.file_lock import FileLock
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.errors import StaleError
from reconciler.model import ObjectRef
from reconciler.time_limit import TimeLimit
from tests.backends.folders import last_names_first, patch

COUNTER = ObjectRef("east", "shop", "ConfigMap", "counter")


def main(folder: str, name: str, count: int) -> None:
    """Write an entry of our own each time, and count up the shared one by compare and set."""
    cluster = SnapshotCluster(Store(Path(folder), "east"), victim_order=last_names_first)
    lock = FileLock(folder, name)
    for number in range(count):
        cluster.write(patch(COUNTER, ("add", f"/data/{name}-{number}", "x"), version="v1"))
        while not count_up(cluster):
            pass
        lock.acquire(TimeLimit(60))
        critical(Path(folder))
        lock.release()


def count_up(cluster: SnapshotCluster) -> bool:
    value = cluster.get(CONFIG_MAPS, "shop", "counter").data["count"]
    operations = (("test", "/data/count", value), ("replace", "/data/count", str(int(value) + 1)))
    try:
        cluster.write(patch(COUNTER, *operations, version="v1"))
    except StaleError:
        return False
    return True


def critical(folder: Path) -> None:
    """Read and write without any care: only the lock keeps this right."""
    tally = folder / "tally.txt"
    tally.write_text(str(int(tally.read_text()) + 1))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
