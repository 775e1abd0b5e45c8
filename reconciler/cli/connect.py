"""`reconciler connect`: a ServiceAccount on a member cluster, its rights, and its token in the kubeconfig of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from reconciler.backends.credentials.connection import WEAKNESSES, ApiServerConnection, weakness_of
from reconciler.backends.credentials.kubeconfig import SERVICE_ACCOUNT, ServerAccess
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.tokens import SHORTEST, claims_of, request_token
from reconciler.cli.approval import DECLINED, is_approved
from reconciler.cli.exit_codes import exit_of_clusters
from reconciler.cli.kubeconfig_file import (
    Kubeconfig,
    KubeconfigEntry,
    KubeconfigFile,
    KubeconfigPlace,
    KubeconfigSecret,
    cluster_of,
    usable,
)
from reconciler.cli.option_values import duration
from reconciler.cli.options import (
    argument,
    auto_approve_option,
    is_on_command_line,
    option,
    policies_option,
    terminal_or,
    verb,
)
from reconciler.cli.output import say, show
from reconciler.cli.rbac import RUN, activator_option, needed_rights, roles
from reconciler.cli.run_options import SERVER, RunOptions
from reconciler.cli.server_side_apply import Manifest, Manifests
from reconciler.connection_settings import ClusterConnection, CredentialSources
from reconciler.errors import ExitCode, ReconcilerError, UsageError, reason_on
from reconciler.messages import first_of, nearest
from reconciler.model import ServiceAccount
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import PolicySet, Writes
from reconciler.report.times import ReasonWords
from reconciler.worker_pool import WorkerPool

_SECRET = "reconciler-kubeconfig"
_LONGEST = timedelta(days=366)
_RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}
_TYPE = ("apiVersion", "kind")
_ADMISSION = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "reconciler-others"},
}
_RENEWS = "not-its-own-token"
"""The match condition with which it lets a token be renewed."""
_OF_SETUP = ("policies", "admin_context", "duration", "activator", "no_rotation")
"""The options that say how a member is set up, which --rotate does not."""


class _ConnectOptions(RunOptions):
    subject: str | None = argument("[MEMBER]", required=False)
    path: str = policies_option()
    admin_context: str | None = option(
        "The context of the kubeconfig to set it up with.", metavar="NAME", default_words="MEMBER"
    )
    file: str | None = option("The kubeconfig that runs use, to write to.", metavar="FILE")
    hub: str | None = option("In place of a file: the cluster whose CronJob mounts a Secret.", metavar="CONTEXT")
    secret: str | None = option("The name of that Secret.", metavar="NAME", default_words=_SECRET)
    life: timedelta = option(
        "How long the token is to be valid; the API server may give a shorter one.",
        "--duration",
        type=duration(SHORTEST, _LONGEST),
        default=timedelta(days=90),
    )
    activator: bool = activator_option()
    no_rotation: bool = option("Without the right to renew its own token.", default=False)
    rotate: bool = option("Renew the tokens in FILE that are past half of their life.", default=False)
    auto_approve: bool = auto_approve_option()


@verb("connect", _ConnectOptions, *SERVER, "now")
def connect_command(options: _ConnectOptions) -> int:
    """Give runs from elsewhere access to MEMBER, a cluster of the Fleet: a ServiceAccount, its rights, a kubeconfig.

    What is to be done is shown first; what is there already stays. With --rotate the tokens of all members in FILE are
    renewed, each with itself; beside --secret they go to that Secret, of the cluster that this runs in.

    # Set up the cluster us-east with a context that may do so
    connect us-east --admin-context us-east-admin --file hub.kubeconfig
    # Write to the Secret of the CronJob in eu-west
    connect us-east --hub eu-west
    # Renew the tokens that are past half of their life
    connect --rotate --file hub.kubeconfig
    """
    subject, file, hub, secret = options.subject, options.file, options.hub, options.secret
    if options.rotate:
        if subject is not None or hub is not None or file is None or any(map(is_on_command_line, _OF_SETUP)):
            raise UsageError("--rotate: expected --file FILE, with or without --secret NAME, and nothing else")
        return rotate(file, secret, options)
    if subject is None:
        raise UsageError("connect: expected the name of a cluster of the Fleet, or --rotate")
    if (file is None) == (hub is None):
        raise UsageError("connect: expected either --file FILE or --hub CONTEXT, where the entry goes")
    if hub is None and secret is not None:
        raise UsageError("--secret: expected --hub CONTEXT beside it, or --rotate")
    terminal_or(options.auto_approve, "connect")
    policies = options.policies()
    setup = _Setup(subject, policies, options, options.admin_context)
    if hub is None:
        place: KubeconfigPlace = KubeconfigFile(str(file))
    else:
        client, *_ = verified_client(hub, options)
        place = KubeconfigSecret(Manifests(client), policies.fleet.namespace, secret or _SECRET)
    wanted = setup.wanted(activator=options.activator, own_token=not options.no_rotation)
    return _connected(setup, place, wanted, options.life, asks=not options.auto_approve)


class _Setup:
    """A member that is set up with the rights of `context`, None: the one of its name."""

    def __init__(self, name: str, policies: PolicySet, options: RunOptions, context: str | None) -> None:
        """Raises UsageError: there is no such cluster, or runs are in it."""
        member = policies.fleet.cluster(name)
        if member is None:
            hint = nearest(name, [cluster.name for cluster in policies.fleet.clusters])
            raise UsageError(f"{name}: is no cluster of the Fleet{hint}")
        if member.connection.in_cluster:
            raise UsageError(f"{name}: is the cluster that runs are in, where they need no kubeconfig")
        client, connection, self.access = verified_client(name, options, context=context)
        self.manifests = Manifests(client)
        self.now = options.now
        self.account = ServiceAccount(policies.fleet.namespace, RUN)
        self.entry_name = member.connection.context or name
        self.title = f"Connect {name} with {connection.context}, {self.access.server}:"
        self._member = member
        self._policies = policies.on(member)
        self._cluster = KubernetesCluster(name, client)
        self._preflight = Preflight(client, connection)

    def expiry_of(self, entry: KubeconfigEntry | None) -> datetime | None:
        """Return when the token in `entry` expires; None where another one is needed, or another server.

        Raises:
            UsageError: it has credentials that are not ours to replace.
        """
        if entry is None:
            return None
        claims = claims_of(entry.token)
        if claims is None or claims.account is None:
            raise UsageError(
                f"context {entry.context}: has other credentials than a token of a ServiceAccount, "
                "expected another file, or none of that name"
            )
        account = self.manifests.find(_account(self.account))
        if account is None:
            return None
        same = entry.cluster == cluster_of(self.access) and claims.account == self.account
        fresh = claims.uid == account["metadata"]["uid"] and self.now < claims.half_life
        return claims.expires if same and fresh else None

    def written(self, place: KubeconfigPlace, before: Kubeconfig, life: timedelta) -> datetime:
        """Put an entry with a new token into the kubeconfig that is there; return when the token expires."""
        issued = request_token(self.manifests.client, self.account, life)
        entry = KubeconfigEntry(self.entry_name, self.entry_name, cluster_of(self.access), issued.token)
        place.write(before.text, before.with_entry(entry))
        return issued.expires

    def wanted(self, *, activator: bool, own_token: bool) -> Iterator[Manifest]:
        """Yield the objects that are to be there; a Role in a namespace that is not there is left out, and said."""
        own = self.account.namespace
        yield _namespace(own, _RESTRICTED)
        yield _account(self.account)
        rights = needed_rights(
            self._policies, self._cluster.scale_kinds(), keda=self._preflight.serves("keda.sh"), activator=activator
        )
        writes = self._member.writes is not Writes.NOTHING
        for manifest in roles(self._policies, rights, writes=writes, own_token=own_token):
            where = manifest["metadata"].get("namespace", own)
            if where == own or self.manifests.find(_namespace(where)):
                yield manifest
            elif manifest["kind"] == "Role":
                say(f"warning: {self._member.name}: has no namespace {where}, so no {_named(manifest)}")
        admission = self.manifests.find(_ADMISSION) or {"spec": {}}
        conditions = {one["name"]: one["expression"] for one in admission["spec"].get("matchConditions", ())}
        if own not in conditions.get("ours", ""):
            say(
                f"warning: {self._member.name}: has no admission policies that narrow these rights, expected those of "
                f"deploy/member, about namespace {own}, from Kubernetes 1.30 on"
            )
        elif own_token and _RENEWS not in conditions:
            say(
                f"warning: {self._member.name}: its admission policy reconciler-others lets no token be renewed, "
                "expected that of deploy/components/own-token, or --no-rotation"
            )


def _namespace(name: str, labels: dict[str, str] | None = None) -> Manifest:
    metadata = {"name": name} | ({} if labels is None else {"labels": labels})
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _account(account: ServiceAccount) -> Manifest:
    metadata = {"name": account.name, "namespace": account.namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def _connected(
    setup: _Setup, place: KubeconfigPlace, wanted: Iterable[Manifest], life: timedelta, *, asks: bool
) -> ExitCode:
    """Show what is to be done, and do it once somebody said yes; called again after a stop, it does the rest."""
    read = [(setup.manifests.find(manifest), manifest) for manifest in wanted]
    changes = [(found, manifest) for found, manifest in read if not _holds(found, manifest)]
    before, entry = _kubeconfig_in(place, setup.entry_name)
    where = f"context {setup.entry_name} in {place}"
    expires = setup.expiry_of(entry)
    shown = [
        f"  {'~' if found else '+'} {_named(manifest)}{_taken_from(found, manifest)}" for found, manifest in changes
    ]
    if expires is None:
        place.check_writable()  # a token that cannot be kept is not asked for
        token = f"a token of {setup.account} for {spelt_duration(life)} at most"
        shown.append(f"  {'~' if entry else '+'} {where}, with {token}")
    if shown:
        show([setup.title, *shown])
        if asks and not is_approved("Apply these changes?"):
            raise ReconcilerError(DECLINED)
    done: list[str] = []
    with shown_on_failure(done):
        for line, (_, manifest) in zip(shown, changes, strict=False):
            setup.manifests.apply(manifest)
            done.append(f"{line} (applied)")
        if expires is None:
            expires = setup.written(place, before, life)
    show([f"{where}: its token expires at {ReasonWords(setup.now, names_zone=True).time(expires)}"])
    return ExitCode.DONE


def _kubeconfig_in(place: KubeconfigPlace, name: str) -> tuple[Kubeconfig, KubeconfigEntry | None]:
    """Return the kubeconfig that is there, and its entry `name`; None for none.

    Raises:
        UsageError: it is none, or an entry of that name would take the place of what is not ours.
    """
    with usable(place):
        found = Kubeconfig(place.read())
        taken = found.taken_by_others(name)
    if taken:
        raise UsageError(f"{place}: {taken}, expected another file, or none of that name")
    return found, next((known for known in found.entries if known.context == name), None)


def _holds(found: Mapping[str, Any] | None, wanted: Manifest) -> bool:
    """Return whether an object is what is wanted; of a namespace that is there nothing is."""
    if found is None or wanted["kind"] == "Namespace":
        return found is not None
    return all(found.get(key) == value for key, value in wanted.items() if key not in ("metadata", *_TYPE))


def _named(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return f"{manifest['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"


def _taken_from(found: Mapping[str, Any] | None, wanted: Manifest) -> str:
    """Return which rights a role loses, in words; "" for none.

    Raises:
        UsageError: it is a binding of somebody else, as of another Fleet, whose runs would be left without rights.
    """
    bound = () if found is None else found.get("subjects") or ()
    lost = [f"{one['kind']} {one.get('namespace', '')}/{one['name']}" for one in bound if one not in wanted["subjects"]]
    if lost:
        words = "expected ServiceAccounts of this Fleet alone; delete it where no other Fleet needs it"
        raise UsageError(f"{_named(wanted)}: is bound to {' and '.join(lost)}, {words}")
    rights = sorted(_granted(found or {}) - _granted(wanted))
    return f", which no longer grants {first_of(rights, 3)}" if rights else ""


def _granted(role: Mapping[str, Any]) -> set[str]:
    """Return what the rules of a role grant, each right in words: "get deployments.apps"."""
    return {
        f"{verb} {resource}{group and f'.{group}'}{name and f'/{name}'}"
        for rule in role.get("rules") or ()
        for verb, resource, group, name in product(
            rule.get("verbs") or (),
            rule.get("resources") or rule.get("nonResourceURLs") or (),
            *(rule.get(key) or ("",) for key in ("apiGroups", "resourceNames")),
        )
    }


# The tokens in a kubeconfig are renewed before they expire, each with itself.


def rotate(file: str, secret: str | None, options: RunOptions) -> ExitCode:
    """Renew the tokens of all members in the kubeconfig `file` that are due, and write them there, or where the file is
    the mount of the Secret `secret` of the cluster that this runs in, to that. A member that fails stops no other one.

    Raises:
        UsageError: there is no such kubeconfig. ClusterError: the Secret cannot be written.
    """
    source = KubeconfigFile(file)
    place: KubeconfigPlace = source if secret is None else _own_secret(secret, options)
    with usable(source):
        before = Kubeconfig(source.read())
    entries = {entry.user: entry for entry in before.entries}
    if not entries:
        raise UsageError(f"--file: {file}: has no context, expected the kubeconfig that runs use")
    pool = WorkerPool()
    asked = [(entry, pool.submit(entry.context, partial(_renewal, entry, file, options))) for entry in entries.values()]
    done: dict[str, tuple[str, str]] = {}
    failures: list[str] = []
    for entry, future in asked:
        try:
            done[entry.user] = future.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are renewed all the same
            failures.append(reason_on(entry.context, error))
    code = exit_of_clusters(list(done), failures)
    tokens = {user: token for user, (_, token) in done.items() if token}
    lines = {user: f"{entries[user].context}: {words}" for user, (words, _) in done.items()}
    with shown_on_failure([line for user, line in lines.items() if user not in tokens]):
        if tokens:
            place.write(before.text, before.with_tokens(tokens))
    show(lines.values())
    return code


@contextmanager
def shown_on_failure(lines: Sequence[str]) -> Iterator[None]:
    """Print `lines`, what was done before, where what is done meanwhile fails."""
    try:
        yield
    except ReconcilerError:
        if lines:
            show(lines)
        raise


def _own_secret(name: str, options: RunOptions) -> KubeconfigSecret:
    try:
        namespace = Path(SERVICE_ACCOUNT, "namespace").read_text().strip()
    except OSError:
        raise UsageError("--secret: this is no pod with a ServiceAccount, expected --hub CONTEXT beside it") from None
    client = ApiClient(ApiServerConnection(ClusterConnection("hub", in_cluster=True)), options.settings)
    return KubeconfigSecret(Manifests(client), namespace, name)


def _renewal(entry: KubeconfigEntry, file: str, options: RunOptions) -> tuple[str, str]:
    """Return in words what becomes of the token in `entry`, and the new one, asked for with itself where it is due, or
    "".

    Raises:
        ClusterError: the member gives none.
    """
    claims = claims_of(entry.token)
    if claims is None or claims.account is None:
        return "left as it is, it has no token of a ServiceAccount that expires", ""
    words = ReasonWords(options.now, names_zone=True)
    until = words.time(claims.expires)
    if options.now < claims.half_life:
        return f"left as it is until {words.time(claims.half_life)}, its token expires at {until}", ""
    client, *_ = verified_client(entry.context, options, context=entry.context, kubeconfig=file)
    issued = request_token(client, claims.account, claims.life)
    if issued.expires <= claims.expires:
        return f"left as it is, the server gives no token beyond {until}, when it expires", ""
    return f"renewed, its token expires at {words.time(issued.expires)}", issued.token


def verified_client(
    name: str, options: RunOptions, *, context: str | None = None, kubeconfig: str | None = None
) -> tuple[ApiClient, ApiServerConnection, ServerAccess]:
    """Return a client of the cluster `name`, and how it reaches that: by `context`, or the one of its name.

    Raises:
        UsageError: whoever answers there is not verified, and would get a token.
    """
    sources = CredentialSources(None, options.sources.plugins)
    connection = ApiServerConnection(ClusterConnection(name, kubeconfig=kubeconfig, context=context, sources=sources))
    access = connection.access(options.settings.limit)
    weakness = weakness_of(access)
    if weakness:
        raise UsageError(f"{name}: {connection.context}: {WEAKNESSES[weakness]}, expected https:// and an authority")
    return ApiClient(connection, options.settings), connection, access
