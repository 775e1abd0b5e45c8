"""The command line, called in this process under a ServiceAccount on the cluster of `rights_world`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.live import rights_world
from tests.live.asked import Conflicts
from tests.live.deployed import APPLY
from tests.pipeline.calls import Folder, Said
from tests.real.api import Api
from tests.real.kubeconfig import Access, write_kubeconfig

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane
    from tests.real.proxy import Proxy

RESTS_AFTER = 4


@dataclass(frozen=True)
class Scene:
    """The cluster of `rights_world` behind a proxy, and the command line called on it under a ServiceAccount."""

    plane: ControlPlane
    proxy: Proxy
    folder: Folder
    accesses: Mapping[str, Access]

    @property
    def api(self) -> Api:
        return self.plane.api

    def fill(self) -> None:
        rights_world.fill(self.api)
        self.proxy.reset()

    def call(self, access: Access, *arguments: str) -> Said:
        """Call the command line; the first write of each kind is answered with a conflict."""
        self.proxy.rules.clear()
        Conflicts(self.proxy)
        write_kubeconfig(self.folder.path / "kubeconfig.yaml", {rights_world.CLUSTER: access})
        return self.folder.call(*arguments, "--now", rights_world.NOW)

    def plan(self, account: str, *more: str) -> Said:
        return self.call(self.accesses[account], "plan", "policies", *more)

    def apply(self, account: str, path: str = "policies") -> Said:
        flags = ("--auto-approve", "--quiet", "--run-id", "run", "--lock-timeout", "0")
        return self.call(self.accesses[account], "apply", path, *flags)

    def come_to_rest(self) -> dict[tuple[str, str, str], Any]:
        """Apply until there is nothing to do, and return what there is then."""
        for _ in range(RESTS_AFTER):
            rights_world.settle(self.api)
            said = self.apply(APPLY)
            assert said.code == 0, said.out + said.err
            if "\nApplied: " not in said.out:
                return rights_world.state(self.api)
        raise AssertionError(f"not at rest after {RESTS_AFTER} runs: {said.out}")
