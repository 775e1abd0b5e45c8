"""A Fleet document -> Fleet."""

from __future__ import annotations

from reconciler.model import ClusterConnection, PrometheusConnection
from reconciler.policy.build_picker import HEADER_NAME, RESERVED_HEADERS
from reconciler.policy.building import Reading
from reconciler.policy.types import Fleet, FleetCluster, Limit, Limits
from reconciler.policy.words import nearest
from reconciler.yaml.words import Path, shown

_NOT_OURS_TO_SET = (*RESERVED_HEADERS, "authorization", "accept-encoding")


def build_fleet(reading: Reading) -> Fleet:
    """Return the Fleet; its problems are gathered in `reading`."""
    clusters = tuple(_cluster(reading, position) for position in range(len(reading.get(("spec", "clusters"), ()))))
    _check_names(reading, clusters)
    return Fleet(
        name=reading.name,
        place=reading.place,
        clusters=clusters,
        home=str(reading.get(("spec", "home"), "")),
        namespace=reading.get(("spec", "namespace"), "reconciler"),
        former_names=reading.texts(("spec", "formerNames")),
        limits=reading.limits(("spec", "limits"), Limits(Limit(), Limit())),
        protected_namespaces=reading.texts(("spec", "protectedNamespaces")),
        allowed_picker_hosts=reading.texts(("spec", "podPickers", "allowedHosts"), ("*.svc.cluster.local", "*.svc")),
    )


def _cluster(reading: Reading, position: int) -> FleetCluster:
    path: Path = ("spec", "clusters", position)
    name = str(reading.get((*path, "name")))
    return FleetCluster(
        name=name,
        labels=reading.labels((*path, "labels")),
        connection=_connection(reading, path, name),
        state=reading.get((*path, "state"), "Active"),
        identity=reading.get((*path, "identity")) or "",
    )


def _connection(reading: Reading, path: Path, name: str) -> ClusterConnection:
    inside = (*path, "connection")
    in_cluster = bool(reading.get((*inside, "inCluster"), False))
    if in_cluster and (reading.get((*inside, "kubeconfig")) or reading.get((*inside, "context"))):
        reading.add(inside, "has inCluster beside kubeconfig or context, expected one way to connect")
    return ClusterConnection(
        name=name,
        in_cluster=in_cluster,
        kubeconfig=reading.get((*inside, "kubeconfig")),
        context=None if in_cluster else reading.get((*inside, "context"), name),
        prometheus=_prometheus(reading, (*path, "prometheus")),
    )


def _prometheus(reading: Reading, path: Path) -> PrometheusConnection | None:
    if reading.get((*path, "url")) is None:
        return None
    connection = PrometheusConnection(
        url=str(reading.get((*path, "url"))),
        bearer_token_file=reading.get((*path, "bearerTokenFile")),
        username=reading.get((*path, "basicAuth", "username")),
        password_file=reading.get((*path, "basicAuth", "passwordFile")),
        headers=tuple(sorted(reading.labels((*path, "headers")).items())),
        ca_file=reading.get((*path, "caFile")),
        certificate_file=reading.get((*path, "certFile")),
        key_file=reading.get((*path, "keyFile")),
        proxy_url=reading.get((*path, "proxyUrl")),
    )
    if connection.bearer_token_file is not None and connection.username is not None:
        reading.add((*path, "basicAuth"), "stands beside bearerTokenFile, expected one of the two")
    if connection.key_file is not None and connection.certificate_file is None:
        reading.add((*path, "keyFile"), "stands without certFile, expected the certificate of this key")
    for name, value in connection.headers:
        if name.lower() in _NOT_OURS_TO_SET or not HEADER_NAME.fullmatch(name):
            reading.add((*path, "headers", name), f"is {shown(name)}, expected a header that is not ours to set")
        if not value.isascii() or not value.isprintable():
            reading.add((*path, "headers", name), f"is {shown(value)}, expected printable ASCII")
    return connection


def _check_names(reading: Reading, clusters: tuple[FleetCluster, ...]) -> None:
    names = [cluster.name for cluster in clusters]
    for position, cluster in enumerate(clusters):
        path: Path = ("spec", "clusters", position)
        if cluster.name in names[:position]:
            reading.add((*path, "name"), f"is {shown(cluster.name)} a second time, expected each name once")
            continue
        same = next((other for other in clusters[:position] if _reached(other) == _reached(cluster)), None)
        if same is not None:
            reading.add(path, f"is reached like {same.name}, expected a connection of its own")
        twin = next(
            (other for other in clusters[:position] if cluster.identity and other.identity == cluster.identity), None
        )
        if twin is not None:
            reading.add(
                (*path, "identity"), f"is that of {twin.name}, expected the uid of another cluster's kube-system"
            )
    home = reading.get(("spec", "home"))
    if home is not None and home not in names and reading.document.is_judged(("spec", "clusters")):
        reading.add(
            ("spec", "home"), f"is {shown(home)}, expected the name of one of the clusters{nearest(home, names)}"
        )
    for position, name in enumerate(reading.texts(("spec", "formerNames"))):
        if name == reading.name:
            reading.add(("spec", "formerNames", position), f"is {shown(name)}, expected a name that was given up")


def _reached(cluster: FleetCluster) -> tuple[bool, str | None, str | None]:
    return (cluster.connection.in_cluster, cluster.connection.kubeconfig, cluster.connection.context)
