"""Programs that return credentials, as kubeconfigs name them; each runs within a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from reconciler.backends.credentials.config_node import ConfigNode, CredentialError
from reconciler.backends.decode.values import Instant, Wire, decoded_json
from reconciler.http.errors import alone, step_of
from reconciler.time_limit import TimeLimit

_LONGEST_WORDS = 300
_SOON = 300  # seconds before it expires, a token is replaced
_MOST_OUTPUT = 1 << 20  # bytes; a token or a certificate with its key has some kilobytes


class Credential(Wire):
    """What a program gave: a token, and a client certificate with its key, both in PEM."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Instant | None = None

    @property
    def certificate(self) -> tuple[bytes, bytes] | None:
        certificate, key = self.client_certificate_data, self.client_key_data
        return (certificate.encode(), key.encode()) if certificate and key else None

    @property
    def expires(self) -> float | None:
        """When the token is not valid any more, in seconds since the epoch; None: nobody knows."""
        return None if self.expiration_timestamp is None else self.expiration_timestamp.as_datetime().timestamp()


class _ExecCredential(Wire):
    """Source: kubernetes/client-go pkg/apis/clientauthentication/v1 types.go, ExecCredential."""

    api_version: str | None = None
    status: Credential | None = None


class ExecPlugin:
    """The program that `config` names, a node of a kubeconfig; its folder is that of the file. Called it returns the
    Authorization header, None where it gives a certificate alone. It is asked anew once the token is about to expire;
    while that is valid, a program that fails changes nothing.

    `cluster` is what it is told of the cluster, None for nothing.

    Raises:
        KubeconfigError: something is missing in `config`.
    """

    def __init__(self, config: ConfigNode, folder: str, cluster: Mapping[str, Any] | None) -> None:
        self._words = [config.required_text("command"), *config.texts("args")]
        self._version = config.required_text("apiVersion")
        named = {item.required_text("name"): item.required_text("value") for item in config.nodes("env")}
        self._env = {**os.environ, **named}
        self._folder = folder or None
        self._cluster = cluster
        self._hint = " ".join(config.text("installHint").split())[:_LONGEST_WORDS]
        self._asks = config.text("interactiveMode") != "Never"
        self._guard = threading.Lock()
        self._known: Credential | None = None
        self._failed: tuple[int, CredentialError | None] = (0, None)

    def __call__(self, limit: TimeLimit) -> str | None:
        token = self.credential(limit).token
        return f"Bearer {token}" if token else None

    def credential(self, limit: TimeLimit) -> Credential:
        """Return the credential; who waited while the program failed for another one gets that error."""
        began = self._failed[0]
        with alone(self._guard, limit, "no credentials in time"):
            count, error = self._failed
            if error is not None and count > began:
                raise error
            try:
                self._known = self._fresh(limit)
            except CredentialError as failed:
                self._failed = (count + 1, failed)
                raise
            return self._known

    def _fresh(self, limit: TimeLimit) -> Credential:
        known, expires = self._known, None if self._known is None else self._known.expires
        if known is not None and (not known.token or expires is None or time.time() < expires - _SOON):
            return known
        try:
            return self._given(limit)
        except CredentialError:
            if known is None or expires is None or time.time() >= expires:
                raise
            return known

    def _given(self, limit: TimeLimit) -> Credential:
        """Return what the program prints, an ExecCredential.

        Raises:
            CredentialError: it prints none. TimedOutError: not in time; it runs no more.

        Source: kubernetes/client-go plugin/pkg/client/auth/exec/exec.go, refreshCredsLocked.
        """
        where = f"exec plugin {self._words[0]}"
        on_terminal = self._asks and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
        code, printed, said = self._run(on_terminal, limit)
        if code:
            words = "said why on the terminal" if on_terminal else f'said "{" ".join(said.split())[:_LONGEST_WORDS]}"'
            raise CredentialError(f"{where} ended with {code} and {words}")
        try:
            found = decoded_json(_ExecCredential, printed.encode(errors="replace"))
        except msgspec.ValidationError as error:
            raise CredentialError(f"{where} printed a malformed ExecCredential ({error})") from error
        except (msgspec.DecodeError, RecursionError):
            found = _ExecCredential()
        if found.status is None:
            raise CredentialError(f"{where} printed no ExecCredential with a status")
        if found.api_version != self._version:
            raise CredentialError(f"{where} printed no ExecCredential of {self._version}")
        if not found.status.token and found.status.certificate is None:
            raise CredentialError(f"{where} gave neither a token nor a certificate with its key")
        return found.status

    def _run(self, on_terminal: bool, limit: TimeLimit) -> tuple[int, str, str]:
        """Return the exit code, what was printed, and what was said to standard error."""
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        try:
            process = subprocess.Popen(
                self._words,
                stdout=subprocess.PIPE,
                cwd=self._folder,
                env={**self._env, "KUBERNETES_EXEC_INFO": json.dumps(self._info(on_terminal))},
                start_new_session=not on_terminal,  # what it starts ends with it; on a terminal it must stay ours
                **({} if on_terminal else streams),
            )
        except OSError as error:
            words = "; ".join(part for part in (error.strerror, self._hint) if part)
            raise CredentialError(f"exec plugin {self._words[0]} cannot be run ({words})") from error
        try:
            printed, said = self._output(process, limit)
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(timeout=step_of(limit, "no credentials in time")), printed, said
        except BaseException:
            _end(process, alone=on_terminal)
            raise

    def _output(self, process: subprocess.Popen[bytes], limit: TimeLimit) -> tuple[str, str]:
        """Return what the program prints, and what it says to standard error, until it closes both."""
        found = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream is not None}
        with selectors.DefaultSelector() as waiting:
            for stream, read in found.items():
                waiting.register(stream, selectors.EVENT_READ, read)
            while waiting.get_map():
                for key, _ in waiting.select(step_of(limit, "no credentials in time")):
                    piece = os.read(key.fd, 1 << 16)
                    key.data.extend(piece)
                    if not piece:
                        waiting.unregister(key.fileobj)
                    if len(key.data) > _MOST_OUTPUT:
                        raise CredentialError(f"exec plugin {self._words[0]} printed more than {_MOST_OUTPUT} bytes")
        texts = [read.decode(errors="replace") for read in found.values()]
        return texts[0], texts[1] if len(texts) > 1 else ""

    def _info(self, on_terminal: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": on_terminal}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        return {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}


def _end(process: subprocess.Popen[bytes], *, alone: bool) -> None:
    """End the program, and where it has a session of its own all it started; its pipes are not waited for."""
    with contextlib.suppress(OSError):
        process.kill() if alone else os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
