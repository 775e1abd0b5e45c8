"""A pod picker inside a policy -> PodPicker. Source: seed downscale-pod-picker.md, K8S API Changes."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from ipaddress import ip_address

from reconciler.addresses import is_forbidden
from reconciler.model import PickerHeader, PodPicker
from reconciler.policy.building import Reading
from reconciler.policy.types import Fleet
from reconciler.policy.words import listed
from reconciler.yaml.words import Path, shown

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)  # RFC 7230, token
RESERVED_HEADERS = ("host", "content-length", "transfer-encoding", "connection", "content-type")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST_NAME = re.compile(r"(?:[a-z0-9_](?:[-a-z0-9_]{0,61}[a-z0-9_])?\.)*[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?\.?", re.I)
_METADATA_NAMES = ("metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal")
_NOT_PICKABLE = ("statefulset", "job", "daemonset", "cronjob", "scaledobject")


def build_picker(reading: Reading, path: Path) -> PodPicker | None:
    """Return the pod picker at `path`, None where there is none."""
    if reading.get(path) is None:
        return None
    http = (*path, "http")
    scheme = reading.get((*http, "scheme"), "https")
    picker = PodPicker(
        host=str(reading.get((*http, "host"), "")),
        port=reading.whole((*http, "port"), 443 if scheme == "https" else 80),
        scheme=scheme,
        path=str(reading.get((*http, "path"), "/")),
        headers=tuple(
            _header(reading, (*http, "httpHeaders", position))
            for position in range(len(reading.get((*http, "httpHeaders"), ())))
        ),
        ca_bundle=reading.get((*http, "caBundle")),
        allow_insecure_auth=reading.get((*http, "allowInsecureAuth"), False),
        max_retries=reading.whole((*path, "maxRetries"), 3),
        timeout_seconds=reading.get((*path, "timeoutSeconds"), 5),
        on_error=reading.get((*path, "onError"), "fallback"),
        on_too_few=reading.get((*path, "onTooFew"), "fill"),
    )
    _check(reading, path, picker)
    return picker


def _header(reading: Reading, path: Path) -> PickerHeader:
    name = str(reading.get((*path, "name"), ""))
    value = reading.get((*path, "value"))
    secret = (*path, "valueFrom", "secretKeyRef")
    referred = reading.get(secret)
    if not HEADER_NAME.fullmatch(name):
        reading.add((*path, "name"), f"is {shown(name)}, expected a header name")
    elif name.lower() in RESERVED_HEADERS:
        reading.add((*path, "name"), f"is {shown(name)}, expected a header that is not ours to set")
    if (value is None) == (referred is None):
        what = "has neither value nor valueFrom" if value is None else "has value and valueFrom"
        reading.add(path, f"{what}, expected exactly one of the two")
    if value is not None and _CONTROL.search(value):
        reading.add((*path, "value"), "has control characters, expected a text on one line")
    pair = None if referred is None else (str(reading.get((*secret, "name"))), str(reading.get((*secret, "key"))))
    return PickerHeader(name, value, pair)


def _check(reading: Reading, path: Path, picker: PodPicker) -> None:
    http = (*path, "http")
    if any(header.secret for header in picker.headers) and picker.scheme == "http" and not picker.allow_insecure_auth:
        reading.add(
            (*http, "scheme"), 'is "http" with a secret header, expected "https"; or say allowInsecureAuth: true'
        )
    if picker.ca_bundle is not None and not _holds_certificates(picker.ca_bundle):
        reading.add((*http, "caBundle"), "is no PEM certificate, expected -----BEGIN CERTIFICATE-----")
    fault = _host_fault(picker.host)
    if fault is not None:
        reading.add((*http, "host"), f"is {shown(picker.host)}, expected {fault}")


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
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None if _HOST_NAME.fullmatch(host) else "a host name or an address"
    return "no link-local or metadata address" if is_forbidden(address) else None


def check_host(reading: Reading, path: Path, picker: PodPicker | None, fleet: Fleet) -> None:
    """Add a problem where the picker's host is none that the Fleet allows: a policy must not send secrets anywhere."""
    if picker is None or not picker.host:
        return
    if not any(fnmatchcase(picker.host.lower(), pattern.lower()) for pattern in fleet.allowed_picker_hosts):
        allowed = listed(fleet.allowed_picker_hosts) if fleet.allowed_picker_hosts else "none at all"
        reading.add(
            (*path, "http", "host"),
            f"is {shown(picker.host)}, expected a host that the Fleet's podPickers.allowedHosts has: {allowed}",
        )


def check_pickable(reading: Reading, path: Path, kind: str, chooser: str) -> None:
    """Add a problem where `kind` is one among whose pods nobody can choose; its controller picks in its own order."""
    if kind.lower() in _NOT_PICKABLE:
        expected = "expected a kind whose victims can be chosen, like Deployment"
        reading.add(path, f"is {shown(kind)} with {chooser}, {expected}")
