"""Certificates of real parts: one authority for a test run, whose key never leaves memory."""

from __future__ import annotations

import functools
import ssl
import threading
from pathlib import Path

import trustme

_MAKING = threading.Lock()  # functools.cache alone lets two threads make one each
_LOOPBACK = ("127.0.0.1", "localhost", "kubernetes.default.svc")


def authority() -> trustme.CA:
    """The authority that all real parts of this process are certified by, also those that start side by side."""
    with _MAKING:
        return _authority()


@functools.cache
def _authority() -> trustme.CA:
    return trustme.CA()


def write_authority(path: Path) -> Path:
    """The authority's certificate as a file."""
    authority().cert_pem.write_to_path(path)
    return path


def write_server_pair(folder: Path) -> tuple[Path, Path]:
    """Certificate and key of a server on loopback."""
    return _write(authority().issue_cert(*_LOOPBACK), folder, "server")


def write_client_pair(folder: Path, user: str, group: str) -> tuple[Path, Path]:
    """Certificate and key by which an API server knows `user` as a member of `group`."""
    issued = authority().issue_cert(user, common_name=user, organization_name=group)
    return _write(issued, folder, f"client-{user.replace(':', '-')}")


def server_context(folder: Path) -> ssl.SSLContext:
    """TLS for a server of our own."""
    certificate, key = write_server_pair(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


def write_service_account_key(path: Path) -> Path:
    """A key that signs tokens of ServiceAccounts; trustme writes SEC1, and the API server refuses PKCS 8."""
    authority().issue_cert("service-accounts").private_key_pem.write_to_path(path)
    return path


def _write(issued: trustme.LeafCert, folder: Path, name: str) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return certificate, key
