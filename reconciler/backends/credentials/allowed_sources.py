"""What of this machine a Fleet may use: files below certain folders, and programs only where they may be run.

A Fleet is a policy file: on a pull request its author is anybody. Without this, a live plan of it would run a program
of theirs with our rights, and send them the content of any file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.connection_settings import ClusterConnection, CredentialSources, PrometheusConnection
from reconciler.errors import UnauthorisedError

SECRETS = "/var/run/secrets"
"""Where the folders of `OWN_TOKENS` are."""

OWN_TOKENS = {
    "kubernetes.io": "token",
    "eks.amazonaws.com/serviceaccount": "token",
    "azure/tokens": "azure-identity-token",
}
"""The files that speak for the pod itself, by folder. A Fleet may name one only where its folder itself is given.

Source: kubernetes.io, Configure Service Accounts for Pods; aws/amazon-eks-pod-identity-webhook, README.md;
Azure/azure-workload-identity, Mutating Admission Webhook.
"""

PROMETHEUS_FILES = {
    "bearer_token_file": "bearerTokenFile",
    "password_file": "basicAuth.passwordFile",
    "ca_file": "caFile",
    "cert_file": "certFile",
    "key_file": "keyFile",
}
"""The files that a Fleet may name of a Prometheus, as it calls them."""

_TOKEN = r"[\x21-\x7e]+"
_PLUGINS = {"exec": "exec plugin", "auth-provider": "auth provider"}


def allowed_file(sources: CredentialSources, of: str, what: str, file: str) -> str:
    """Return where `file`, which the Fleet names as `what` of a cluster or a receiver, really is.

    Raises:
        UnauthorisedError: that is outside of all folders for credentials, or a token of the pod itself.
    """
    folders = sources.folders
    if folders is None:
        return file
    where = f"{of}: {what} {file} of the Fleet is"
    try:
        found = Path(file).expanduser().resolve()
        around = [
            around
            for around in (Path(folder).expanduser().resolve() for folder in folders)
            if found.is_relative_to(around) and not found.is_symlink()  # a circle of links, since Python 3.13
        ]
        own = _folder_of_own_token(found)
        if any(own is None or folder.is_relative_to(own) for folder in around):
            return str(found)
        if around:
            raise UnauthorisedError(
                f"{where} a token of the pod itself, expected another file; to let the Fleet send this token anywhere, "
                f"name {found.parent} with --credentials-dir"
            )
    except (OSError, RuntimeError, ValueError):  # a circle of links, before 3.13; nobody's home; no path
        pass
    raise UnauthorisedError(
        f"{where} not looked at, expected a file below {' or '.join(folders)}; name its folder with --credentials-dir"
    )


def _folder_of_own_token(file: Path) -> Path | None:
    """Return the folder in OWN_TOKENS of the token that `file`, without links, is; None where it is none of them."""
    folders = ((Path(SECRETS, folder).resolve(), name) for folder, name in OWN_TOKENS.items())
    return next((folder for folder, name in folders if file.name == name and file.is_relative_to(folder)), None)


def with_allowed_files(connection: ClusterConnection, reached: PrometheusConnection) -> PrometheusConnection:
    """Return `reached`, the Prometheus of a cluster, with its files where they really are.

    Raises:
        UnauthorisedError: one of them is outside of all folders for credentials.
    """
    found: dict[str, Any] = {
        field: allowed_file(connection.sources, connection.name, what, file)
        for field, what in PROMETHEUS_FILES.items()
        if (file := getattr(reached, field)) is not None
    }
    return replace(reached, **found)


def secret_in(field: str, file: str, what: str) -> str:
    """Return `what` is in `file`, which the Fleet names as `field`: "a token" is one word, anything else one line.

    Raises:
        UnauthorisedError: that is not there.
    """
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UnauthorisedError(f"{field} {file} cannot be read ({error.strerror}), expected {what} in it") from None
    except UnicodeDecodeError:
        raise UnauthorisedError(f"{field} {file} is no text, expected {what} in it") from None
    if not (re.fullmatch(_TOKEN, text) if what == "a token" else text and text.isprintable()):
        is_ = "holds more than one word or line" if text else "is empty"
        raise UnauthorisedError(f"{field} {file} {is_}, expected {what} in it")
    return text


def check_plugins(connection: ClusterConnection, users: Iterable[Mapping[str, Any]]) -> None:
    """Check that none of `users`, entries of a kubeconfig, has a program run or a provider asked without leave.

    Raises:
        UnauthorisedError: one has, and plugins are off.
    """
    for entry in users:
        user = entry.get("user")
        for key, words in _PLUGINS.items():
            if not connection.sources.plugins and isinstance(user, Mapping) and user.get(key) is not None:
                raise UnauthorisedError(
                    f'{connection.name}: context "{connection.context or connection.name}" has an {words}, '
                    "expected none with --no-exec; give its user a token or a client certificate"
                )
