"""The command line, called in this process, on clusters of a kubeconfig, with the rights of a role."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.calls import Folder, Said
from tests.real.api import Api
from tests.real.objects import an_object

RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Desk:
    """A folder to call the command line in, and the kubeconfig that it finds; no other variable tells it anything."""

    folder: Path
    kubeconfig: Path

    def call(self, *arguments: str) -> Said:
        """Call the command line there."""
        with pytest.MonkeyPatch.context() as variables:
            for name in [name for name in os.environ if name.startswith("RECONCILER_")]:
                variables.delenv(name)
            variables.setenv("HOME", str(self.folder))
            variables.setenv("KUBECONFIG", str(self.kubeconfig))
            return Folder(self.folder).call(*arguments)

    def write(self, file: str, text: str) -> None:
        Folder(self.folder).write(file, text)


def allow(api: Api, account: str, home: str, rules: Iterable[dict[str, Any]], *, inside: str = "") -> None:
    """Give ServiceAccount `account` of namespace `home` the `rules`, in namespace `inside` or everywhere."""
    kind = "Role" if inside else "ClusterRole"
    where = f"/apis/{RBAC}/v1" + (f"/namespaces/{inside}" if inside else "")
    name = f"{account}-{home}-{abs(hash(str(rules))) % 10**6}"
    api.create(f"{where}/{kind.lower()}s", an_object(f"{RBAC}/v1", kind, name, rules=list(rules)))
    binding = an_object(
        f"{RBAC}/v1",
        f"{kind}Binding",
        name,
        roleRef={"apiGroup": RBAC, "kind": kind, "name": name},
        subjects=[{"kind": "ServiceAccount", "namespace": home, "name": account}],
    )
    api.create(f"{where}/{kind.lower()}bindings", binding)
