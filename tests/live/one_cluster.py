"""The command line as another process, on clusters of a kubeconfig, with the rights of a role."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.api import Api
from tests.real.objects import an_object

RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Said:
    """What one call ended with."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Desk:
    """A folder to call the command line in, and the kubeconfig that it finds."""

    folder: Path
    kubeconfig: Path

    def call(self, *arguments: str) -> Said:
        """Call the command line there."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig)}
        source = str(Path(__file__).resolve().parents[2])
        said = subprocess.run(
            [sys.executable, "-m", "reconciler", *arguments],
            cwd=self.folder,
            env=environment | {"PYTHONPATH": source},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Said(said.returncode, said.stdout, said.stderr)

    def write(self, file: str, text: str) -> None:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


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
