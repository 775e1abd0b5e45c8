"""One namespace of the shared control plane, what runs in it, and the command line, called in this process, that idles
it.
"""

from __future__ import annotations

from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, idling
from tests.real.api import Api, Object
from tests.real.cluster import create_missing, deployment_path, replicas_of
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_namespace

NIGHTS = "Mon-Sun 20:00-07:00"


class OneNamespace:
    """Its Services, and what is behind them, are idle in the `downtime`."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Folder) -> None:
        create_missing(plane.api, [a_namespace("reconciler")])
        self.plane, self.namespace, self.folder = plane, namespace, folder
        self.write()

    @property
    def api(self) -> Api:
        return self.plane.api

    def write(
        self, *, floor: int = 0, state: str = "Active", downtime: str = NIGHTS, selector: str = "services: {}"
    ) -> None:
        mine = fleet([f"{{name: member, state: {state}}}"], name="mine", home="member")
        selected = f'namespaces: {{include: ["{self.namespace}"]}}, {selector}'
        more = ("limits: {workloads: 100}", f"idleReplicas: {floor}")
        self.folder.write("policies/all.yaml", documents(mine, idling(selected, *more, downtime=f'"{downtime}"')))

    def apply(self, now: str) -> str:
        """Apply at that time, and return what was said."""
        return self.call("apply", "policies", "--auto-approve", "--now", now)

    def call(self, *arguments: str) -> str:
        said = self.folder.call(*arguments)
        assert said.code == 0, said.out + said.err
        return said.out

    def path(self, name: str) -> str:
        """The path of a Deployment."""
        return deployment_path(self.namespace, name)

    def items(self, collection: str) -> list[Object]:
        """What is there of `/api/v1/{}pods` and the like."""
        return self.api.items(collection.format(f"namespaces/{self.namespace}/"))

    def replicas(self, *names: str) -> list[int]:
        return [replicas_of(self.api, self.namespace, name) for name in names]

    def annotations(self, path: str) -> dict[str, str]:
        return dict(self.api.get(path)["metadata"].get("annotations", {}))
