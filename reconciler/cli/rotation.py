"""`reconciler connect --rotate`: the tokens in a kubeconfig are renewed before they expire, each with itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from reconciler.backends.kubernetes.auth import WEAKNESSES, Connection, weakness_of
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.kubeconfig import SERVICE_ACCOUNT, ServerAccess
from reconciler.backends.kubernetes.kubeconfig_file import (
    KubeconfigEntry,
    KubeconfigFile,
    KubeconfigPlace,
    KubeconfigSecret,
    entries_of,
    usable,
    with_tokens,
)
from reconciler.backends.kubernetes.manifests import Manifests
from reconciler.backends.kubernetes.tokens import claims_of, request_token
from reconciler.cli.freeze import ended
from reconciler.cli.output import show_lines
from reconciler.cli.run_options import RunOptions
from reconciler.connection_settings import ClusterConnection, CredentialSources
from reconciler.decide.annotations import format_time
from reconciler.errors import ReconcilerError, UsageError, reason_on
from reconciler.exit_codes import ExitCode
from reconciler.worker_pool import WorkerPool


class Renewal(Struct, frozen=True):
    """What became of a token, in words; `token` is the new one, "" for none."""

    words: str
    token: str = ""


def rotate(file: str, secret: str | None, options: RunOptions) -> ExitCode:
    """Renew the tokens of all members in the kubeconfig `file` that are due, and write them there, or where the file is
    the mount of the Secret `secret` of the cluster that this runs in, to that. A member that fails stops no other one.

    Raises:
        UsageError: there is no such kubeconfig. ClusterError: the Secret cannot be written.
    """
    source = KubeconfigFile(file)
    place: KubeconfigPlace = source if secret is None else _own_secret(secret, options)
    with usable(source):
        before = source.read()
        entries = {one.user: one for one in entries_of(before)}
    if before is None or not entries:
        raise UsageError(f"--file: {file}: has no context, expected the kubeconfig that runs use")
    pool = WorkerPool()
    asked = [(one, pool.submit(one.context, partial(_renewal, one, file, options))) for one in entries.values()]
    done: dict[str, Renewal] = {}
    failures: list[str] = []
    for one, future in asked:
        try:
            done[one.user] = future.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are renewed all the same
            failures.append(reason_on(one.context, error))
    code = ended(list(done), failures)
    tokens = {user: renewal.token for user, renewal in done.items() if renewal.token}
    lines = {user: f"{entries[user].context}: {renewal.words}" for user, renewal in done.items()}
    with shown_on_failure([line for user, line in lines.items() if user not in tokens]):
        if tokens:
            place.write(before, with_tokens(before, tokens))
    show_lines(lines.values())
    return code


@contextmanager
def shown_on_failure(lines: Sequence[str]) -> Iterator[None]:
    """Print `lines`, what was done before, where what is done meanwhile fails."""
    try:
        yield
    except ReconcilerError:
        if lines:
            show_lines(lines)
        raise


def _own_secret(name: str, options: RunOptions) -> KubeconfigSecret:
    try:
        namespace = Path(SERVICE_ACCOUNT, "namespace").read_text().strip()
    except OSError:
        raise UsageError("--secret: this is no pod with a ServiceAccount, expected --hub CONTEXT beside it") from None
    client = ApiClient(Connection(ClusterConnection("hub", in_cluster=True)), options.settings)
    return KubeconfigSecret(Manifests(client), namespace, name)


def _renewal(entry: KubeconfigEntry, file: str, options: RunOptions) -> Renewal:
    """Return what becomes of the token in `entry`, asked for with itself where it is due.

    Raises:
        ClusterError: the member gives none.
    """
    claims = claims_of(entry.token)
    if claims is None or claims.account is None:
        return Renewal("left as it is, it has no token of a ServiceAccount that expires")
    until = format_time(claims.expires)
    if options.now < claims.half_life:
        return Renewal(f"left as it is until {format_time(claims.half_life)}, its token expires at {until}")
    client, *_ = verified_client(entry.context, options, context=entry.context, kubeconfig=file)
    issued = request_token(client, claims.account, claims.life)
    if issued.expires <= claims.expires:
        return Renewal(f"left as it is, the server gives no token beyond {until}, when it expires")
    return Renewal(f"renewed, its token expires at {format_time(issued.expires)}", issued.token)


def verified_client(
    name: str, options: RunOptions, *, context: str | None = None, kubeconfig: str | None = None
) -> tuple[ApiClient, Connection, ServerAccess]:
    """Return a client of the cluster `name`, and how it reaches that: by `context`, or the one of its name.

    Raises:
        UsageError: whoever answers there is not verified, and would get a token.
    """
    sources = CredentialSources(None, options.sources.plugins)
    connection = Connection(ClusterConnection(name, kubeconfig=kubeconfig, context=context, sources=sources))
    access = connection.access(options.settings.limit)
    weakness = weakness_of(access)
    if weakness:
        raise UsageError(f"{name}: {connection.context}: {WEAKNESSES[weakness]}, expected https:// and an authority")
    return ApiClient(connection, options.settings), connection, access
