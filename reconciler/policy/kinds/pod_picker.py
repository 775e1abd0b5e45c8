"""A pod picker: whom to ask which pods a downscale deletes. Source: seed downscale-pod-picker.md, K8S API Changes."""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from reconciler.connection_settings import (
    CONTROL_CHARACTER,
    HEADER_NAME,
    RESERVED_HEADERS,
    PickerHeader,
    PodPicker,
    SecretKey,
)
from reconciler.messages import Path, alternatives, shown
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fields import Fields, ObjectName, either, from_fields, given, matching
from reconciler.workload_kinds import BROUGHT_SWITCHES, SCALABLE_KINDS

_HOST_NAME = r"(?i)(?:[a-z0-9_](?:[-a-z0-9_]{0,61}[a-z0-9_])?\.)*[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?\.?"
_METADATA_NAMES = ("metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal")
_NOT_PICKABLE = frozenset(
    kind.kind.lower() for kind in (*SCALABLE_KINDS.values(), *BROUGHT_SWITCHES) if not kind.takes_deletion_cost
)


class _SecretKeyFields(Fields, frozen=True, kw_only=True):
    """A key of a Secret."""

    name: ObjectName
    """name is the name of the Secret."""
    key: Annotated[str, matching(r"^[-._a-zA-Z0-9]+\Z", "a key of letters, digits, -, _ and .", max_length=253)]
    """key is the key in the Secret whose value is sent."""


class _HeaderSourceFields(Fields, frozen=True, kw_only=True):
    """The source of a header's value."""

    secret_key_ref: _SecretKeyFields
    """secretKeyRef selects a key of a Secret in the namespace of the workload."""


class _HeaderFields(Fields, frozen=True, kw_only=True):
    """A header of the request, with value or valueFrom."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    """name is the name of the header."""
    value: str | UnsetType = UNSET
    """value is the value of the header. Required if valueFrom is not set."""
    value_from: _HeaderSourceFields | UnsetType = UNSET
    """valueFrom is the source of the value of the header. Required if value is not set."""

    json_schema: ClassVar[dict[str, Any]] = either("value", "valueFrom")


class _PickerRequestFields(Fields, frozen=True, kw_only=True):
    """The HTTP request that asks a pod picker."""

    host: Annotated[str, Meta(min_length=1, max_length=253)]
    """host is the host of the pod picker. podPickers.allowedHosts of the Fleet must allow it."""
    port: Annotated[Annotated[int, Meta(ge=1, le=65535)] | UnsetType, Meta(extra_json_schema={"default": 443})] = UNSET
    """port is the port of the pod picker. If scheme is http, the default is 80."""
    scheme: Literal["https", "http"] = "https"
    """scheme is the protocol of the request."""
    path: Annotated[
        str, matching(r"^/[!-\"$-~]*\Z", 'a path that starts with "/", in ASCII without spaces and "#"')
    ] = "/"
    """path is the path of the request."""
    http_headers: tuple[_HeaderFields, ...] = ()
    """httpHeaders are headers to send."""
    ca_bundle: str | None = None
    """caBundle holds the PEM certificates to trust. null means those of the system."""
    allow_insecure_auth: bool = False
    """allowInsecureAuth allows a header from a Secret to be sent over plain http."""


class PodPickerFields(Fields, frozen=True, kw_only=True):
    """A pod picker that is asked over HTTP."""

    http: _PickerRequestFields
    """http is the request that asks the pod picker."""
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 3
    """maxRetries is how often a failed request is repeated."""
    timeout_seconds: Annotated[int, Meta(gt=0, le=30)] | Annotated[float, Meta(gt=0, le=30)] = 5
    """timeoutSeconds limits one attempt, from the name lookup to the last byte."""
    on_error: Literal["fallback", "skip"] = "fallback"
    """onError is what happens without an answer: fallback deletes pods in the default order, skip does not scale down
    in this run."""
    on_too_few: Literal["fill", "reject"] = "fill"
    """onTooFew is what happens if the answer has too few pods: fill adds pods in the default order, reject treats it as
    a failed request."""


def pod_picker_of(document: PolicyDocument, path: Path, fields: PodPickerFields | UnsetType) -> PodPicker | None:
    """Return the pod picker at `path`, None where there is none; problems are gathered in `document`."""
    if isinstance(fields, UnsetType):
        return None
    http = fields.http
    picker = from_fields(
        PodPicker,
        http,
        fields,
        port=(443 if http.scheme == "https" else 80) if isinstance(http.port, UnsetType) else http.port,
        headers=tuple(
            _header(document, (*path, "http", "httpHeaders", position), header)
            for position, header in enumerate(http.http_headers)
        ),
        timeout_seconds=float(fields.timeout_seconds),
    )
    _check(document, (*path, "http"), picker)
    return picker


def _header(document: PolicyDocument, path: Path, fields: _HeaderFields) -> PickerHeader:
    name, value, source = fields.name, given(fields.value), given(fields.value_from)
    if not re.fullmatch(HEADER_NAME, name):
        document.add((*path, "name"), f"is {shown(name)}, expected a header name")
    elif name.lower() in RESERVED_HEADERS:
        document.add((*path, "name"), f"is {shown(name)}, expected a header that is not ours to set")
    document.check_either(path, value=value, valueFrom=source)
    if value is not None and re.search(CONTROL_CHARACTER, value):
        document.add((*path, "value"), "has control characters, expected a text on one line")
    secret = None if source is None else from_fields(SecretKey, source.secret_key_ref)
    return PickerHeader(name, value, secret)


def _check(document: PolicyDocument, http: Path, picker: PodPicker) -> None:
    if any(header.secret for header in picker.headers) and picker.scheme == "http" and not picker.allow_insecure_auth:
        document.add(
            (*http, "scheme"), 'is "http" with a secret header, expected "https"; or say allowInsecureAuth: true'
        )
    if picker.ca_bundle is not None and not _holds_certificates(picker.ca_bundle):
        document.add((*http, "caBundle"), "is no PEM certificate, expected -----BEGIN CERTIFICATE-----")
    fault = _host_fault(picker.host)
    if fault is not None:
        document.add((*http, "host"), f"is {shown(picker.host)}, expected {fault}")


def _holds_certificates(text: str) -> bool:
    from ssl import PROTOCOL_TLS_CLIENT, SSLContext, SSLError

    try:
        SSLContext(PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (SSLError, ValueError):
        return False
    return True


def _host_fault(host: str) -> str | None:
    """Return what a host should be, None where it may be asked. Addresses in forms that only some resolvers read
    (2852039166, 0xa9fea9fe, 169.254.43518) are none."""
    if host.lower().rstrip(".") in _METADATA_NAMES:
        return "no link-local or metadata address"
    from ipaddress import ip_address

    from reconciler.forbidden_addresses import is_forbidden

    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None if re.fullmatch(_HOST_NAME, host) else "a host name or an address"
    return "no link-local or metadata address" if is_forbidden(address) else None


def check_host(document: PolicyDocument, path: Path, picker: PodPicker | None, hosts: tuple[str, ...]) -> None:
    """Add a problem where the picker's host is none of `hosts`: a policy must not send secrets anywhere."""
    if picker is None or not picker.host:
        return
    if not any(fnmatchcase(picker.host.lower(), pattern.lower()) for pattern in hosts):
        allowed = alternatives(hosts) if hosts else "none at all"
        document.add(
            (*path, "http", "host"),
            f"is {shown(picker.host)}, expected a host that the Fleet's podPickers.allowedHosts has: {allowed}",
        )


def check_pickable(document: PolicyDocument, path: Path, kind: str, chooser: str) -> None:
    """Add a problem where `kind` is one among whose pods nobody can choose; its controller picks in its own order."""
    if kind.lower() in _NOT_PICKABLE:
        expected_kind = "expected a kind whose victims can be chosen, like Deployment"
        document.add(path, f"is {shown(kind)} with {chooser}, {expected_kind}")
