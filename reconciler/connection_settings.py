"""How clusters, their Prometheus and pod pickers are reached, as policies say it, without any secret; and the headers
that no such request may set. What a saved plan has of them is described here, as its schema says it.

Policies are checked for these, and each request once more before it is sent: Secrets are read later.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class PrometheusConnection(Struct, frozen=True):
    """How the Prometheus of one cluster is reached: what the Fleet says, without any secret.

    `headers` are sent as they are (name, value). `proxy_url` None: no proxy, whatever the environment says.
    """

    url: str
    bearer_token_file: str | None = None
    username: str | None = None
    password_file: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    proxy_url: str | None = None


DEFAULT_FOLDERS = ("/var/run/secrets", "~/.kube")
"""Where Kubernetes mounts what a pod may know, and where kubectl keeps what a person may."""


class CredentialSources(Struct, frozen=True):
    """Where credentials may come from, which is not the Fleet's to say.

    `folders`: a file that a Fleet names lies below one of them, links resolved; None: anywhere. `plugins`: a kubeconfig
    may have a program run, or an auth provider asked.
    """

    folders: tuple[str, ...] | None = None
    plugins: bool = True


class ClusterConnection(Struct, frozen=True):
    """How one cluster is reached: what the Fleet says, without any secret, and what whoever runs us lets it use."""

    name: str
    in_cluster: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    prometheus: PrometheusConnection | None = None
    sources: CredentialSources = CredentialSources()


class SecretKey(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A reference to a value in a Secret. The value itself is never written anywhere."""

    name: str
    """The Secret's name, in the workload's namespace."""
    key: str
    """The key in that Secret."""


class PickerHeader(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A header of the request to a pod picker."""

    name: str
    """The header's name."""
    value: str | None
    """Its value; null: it comes from secret."""
    secret: SecretKey | None
    """The source of its value; null: value has it."""


class PodPicker(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The request to a pod picker."""

    # Source: seed downscale-pod-picker.md, K8S API Changes.
    host: str
    """The picker's host."""
    port: Annotated[int, Meta(ge=0)]
    """The picker's port."""
    scheme: Literal["http", "https"]
    """The protocol of the request."""
    path: str
    """The path of the request."""
    headers: tuple[PickerHeader, ...]
    """The request's headers."""
    ca_bundle: str | None
    """The PEM certificates to trust; null: those of the system."""
    allow_insecure_auth: bool
    """Whether a header from a Secret may be sent over plain http."""
    max_retries: Annotated[int, Meta(ge=0)]
    """How often a failed request is repeated."""
    timeout_seconds: float
    """The time limit of one attempt, in seconds."""
    on_error: Literal["fallback", "skip"]
    """What happens without an answer: the default order, or no scale-down in this run."""
    on_too_few: Literal["fill", "reject"]
    """What happens if the answer has too few pods: others are added, or it is a failed request."""

    def __str__(self) -> str:
        return f"pod picker {self.scheme}://{self.host}:{self.port}"


class PickerRequest(Struct, frozen=True):
    """One question to a picker: how many of `candidates` (pod names) should go."""

    picker: PodPicker
    namespace: str
    count: int
    candidates: tuple[str, ...]


class PickerAnswer(Struct, frozen=True):
    """The picker's two lists, each name at most once, a name in both only in `chosen`."""

    chosen: tuple[str, ...] = ()
    tied: tuple[str, ...] = ()


HEADER_NAME = r"(?a)[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # RFC 7230, token
RESERVED_HEADERS = ("host", "content-length", "transfer-encoding", "connection", "content-type")
CONTROL_CHARACTER = r"[\x00-\x1f\x7f]"
