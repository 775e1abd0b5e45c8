"""A development namespace under a policy of nights and weekends, and what stands there after a run."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import UNLIMITED, cron_job, documents, fleet, service, workload

PARIS = ZoneInfo("Europe/Paris")
FLEET = fleet(["dev"], UNLIMITED, name="week")
IDLING = """\
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {{name: {name}}}
spec:
  selector:
    namespaces: {{include: ["{namespace}"]}}
    services: {{}}
    workloads: {{kinds: [StatefulSet, CronJob]}}
  idleWhen:
    - schedule:
        timeZone: Europe/Paris
        downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]
"""
REPLICAS = {"web": 3, "api": 7, "db": 2}


def manifests(namespace: str) -> str:
    return documents(
        *(service(name, namespace) for name in ("web", "api")),
        *(workload(name, namespace, REPLICAS[name]) for name in ("web", "api")),
        workload("db", namespace, REPLICAS["db"], kind="StatefulSet"),
        cron_job("nightly", namespace, "startingDeadlineSeconds: 60"),
    )


def a_week(path: Path) -> Folder:
    """Return a folder with one development namespace under one policy."""
    folder = Folder(path)
    folder.write("policies/fleet.yaml", FLEET)
    folder.write("policies/dev.yaml", IDLING.format(name="idle-dev", namespace="dev-1"))
    folder.write("snapshot/dev/dev-1.yaml", manifests("dev-1"))
    return folder


def at(text: str) -> datetime:
    """Return the wall-clock time `text` in Paris."""
    return datetime.fromisoformat(text).replace(tzinfo=PARIS)


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run(folder: Folder, moment: datetime, *flags: str, code: int = 0) -> None:
    said = folder.apply(rfc3339(moment), *flags)
    assert said.code == code, f"{moment}: {said.out}{said.err}"


def state(folder: Folder, namespace: str = "dev-1") -> str:
    """Return "awake" (exactly as it was), "dark" (all at zero, suspended), or what stands there."""
    objects = folder.objects()
    kinds = {"web": "Deployment", "api": "Deployment", "db": "StatefulSet"}
    numbers = {name: objects["dev", namespace, kind, name]["spec"]["replicas"] for name, kind in kinds.items()}
    suspended = objects["dev", namespace, "CronJob", "nightly"]["spec"].get("suspend", False)
    if numbers == REPLICAS and not suspended:
        return "awake"
    if set(numbers.values()) == {0} and suspended:
        return "dark"
    return f"{numbers}, suspended {suspended}"


def scale(folder: Folder, name: str, replicas: int, namespace: str = "dev-1") -> None:
    """Scale by hand, as `kubectl scale` does."""
    file = folder.path / "snapshot" / "dev" / f"{namespace}-deployment-{name}.yaml"
    file.write_text(re.sub(r"^  replicas: \d+$", f"  replicas: {replicas}", file.read_text(), flags=re.M))
