"""Programs that return credentials, as kubeconfigs name them; each runs within a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from reconciler.backends.http.deadline import Deadline
from reconciler.backends.kubernetes.config_node import ConfigNode, CredentialError

_EXTENSION = "client.authentication.k8s.io/exec"
_LONGEST_WORDS = 300


class ExecPlugin:
    """The program that `config` names, a node of a kubeconfig; its folder is that of the file.

    Raises:
        KubeconfigError: something is missing in `config`.
    """

    def __init__(self, config: ConfigNode, folder: str, cluster: Mapping[str, Any]) -> None:
        self._words: list[str] = [config["command"], *(config.get("args") or ())]
        self._version: str = config["apiVersion"]
        named = config.nodes("env")
        self._env: dict[str, str] = {**os.environ, **{item["name"]: item["value"] for item in named}}
        self._folder = folder or None
        self._cluster = cluster if config.get("provideClusterInfo") else None

    def credential(self, deadline: Deadline) -> dict[str, Any]:
        """Return the status of the ExecCredential that the program prints.

        Raises:
            CredentialError: it prints none. TimedOutError: not in time; it runs no more.

        Source: kubernetes/client-go plugin/pkg/client/auth/exec/exec.go, refreshCredsLocked.
        """
        where = f"exec plugin {self._words[0]}"
        on_terminal = sys.stdout is not None and sys.stdout.isatty()
        code, printed, said = self._run(on_terminal, deadline)
        if code:
            words = "said why on the terminal" if on_terminal else f'said "{" ".join(said.split())[:_LONGEST_WORDS]}"'
            raise CredentialError(f"{where} ended with {code} and {words}")
        try:
            found = json.loads(printed)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("status"), dict):
            raise CredentialError(f"{where} printed no ExecCredential with a status")
        if found.get("apiVersion") != self._version:
            raise CredentialError(f"{where} printed no ExecCredential of {self._version}")
        status: dict[str, Any] = found["status"]
        if not status.get("token") and not (status.get("clientCertificateData") and status.get("clientKeyData")):
            raise CredentialError(f"{where} gave neither a token nor a certificate with its key")
        return status

    def _run(self, on_terminal: bool, deadline: Deadline) -> tuple[int, str, str]:
        """Return the exit code, what was printed, and what was said to standard error."""
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        try:
            process = subprocess.Popen(
                self._words,
                stdout=subprocess.PIPE,
                cwd=self._folder,
                env={**self._env, "KUBERNETES_EXEC_INFO": json.dumps(self._info(on_terminal))},
                text=True,
                errors="replace",
                start_new_session=not on_terminal,  # what it starts ends with it; on a terminal it must stay ours
                **({} if on_terminal else streams),
            )
        except OSError as error:
            raise CredentialError(f"exec plugin {self._words[0]} cannot be run ({error.strerror})") from error
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    printed, said = process.communicate(timeout=deadline.step("no credentials in time"))
                    return process.returncode, printed, said or ""
        except BaseException:
            _end(process, alone=on_terminal)
            raise

    def _info(self, on_terminal: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": on_terminal}
        if self._cluster is not None:
            extensions = self._cluster.get("extensions") or ()
            config = next((one["extension"] for one in extensions if one["name"] == _EXTENSION), None)
            spec["cluster"] = {**self._cluster, **({} if config is None else {"config": config})}
        return {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}


def _end(process: subprocess.Popen[str], *, alone: bool) -> None:
    """End the program, and where it has a session of its own all it started; its pipes are not waited for."""
    with contextlib.suppress(OSError):
        process.kill() if alone else os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
