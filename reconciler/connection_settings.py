"""How clusters, their Prometheus and pod pickers are reached, as policies say it, without any secret; and the headers
that no such request may set.

Policies are checked for these, and each request once more before it is sent: Secrets are read later.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


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
    certificate_file: str | None = None
    key_file: str | None = None
    proxy_url: str | None = None


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


class SecretKey(Struct, frozen=True):
    """A reference to a value in a Secret. The value itself is never written anywhere."""

    name: str
    key: str


class PickerHeader(Struct, frozen=True):
    """A header of the request to a pod picker."""

    name: str
    value: str | None = None
    secret: SecretKey | None = None


class PodPicker(Struct, frozen=True):
    """The request to a pod picker."""

    # Source: seed downscale-pod-picker.md, K8S API Changes.
    host: str
    port: int = 443
    scheme: Literal["http", "https"] = "https"
    path: str = "/"
    headers: tuple[PickerHeader, ...] = ()
    ca_bundle: str | None = None
    allow_insecure_auth: bool = False
    max_retries: int = 3
    timeout_seconds: float = 5
    on_error: Literal["fallback", "skip"] = "fallback"
    on_too_few: Literal["fill", "reject"] = "fill"

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
