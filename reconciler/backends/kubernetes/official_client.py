"""Connections of the package `kubernetes`: who has an `ApiClient` need not write a kubeconfig for us."""

from __future__ import annotations

from typing import Any

from reconciler.backends.kubernetes.config_node import KubeconfigError
from reconciler.backends.kubernetes.kubeconfig import Pem, ServerAccess
from reconciler.time_limit import TimeLimit


def access_of(client: Any) -> ServerAccess:
    """Return the address, credentials and TLS settings of a `kubernetes.client.ApiClient`.

    Its token is asked for again each time, as `refresh_api_key_hook` may renew it. Nothing is sent through it: it has
    no time limits.

    Raises:
        KubeconfigError: it is none, or checks a certificate in a way that is not kept here.

    Source: kubernetes-client/python kubernetes/client/configuration.py, Configuration; kubernetes/client/rest.py,
    RESTClientObject.
    """
    configuration: Any = getattr(client, "configuration", None)
    if not isinstance(getattr(configuration, "host", None), str):
        raise KubeconfigError(f"is a {type(client).__name__}, expected a kubernetes.client.ApiClient")
    if configuration.assert_hostname is not None:
        raise KubeconfigError("has assert_hostname in its configuration, expected tls_server_name")
    headers = {key: str(value) for key, value in client.default_headers.items()}

    def authorization(_: TimeLimit) -> str | None:
        settings = configuration.auth_settings().values()
        found = {one["key"].lower(): one["value"] for one in settings if one["in"] == "header"}
        by_header = next((value for key, value in headers.items() if key.lower() == "authorization"), None)
        return found.get("authorization") or by_header

    access = ServerAccess(
        server=configuration.host.rstrip("/"),
        authorization=authorization,
        authority=_authority(configuration),
        certificate=_certificate(configuration),
        verified=bool(configuration.verify_ssl),
        server_name=getattr(configuration, "tls_server_name", None) or "",
        proxy=configuration.proxy or "",
        impersonation=tuple(one for one in headers.items() if one[0].lower().startswith("impersonate-")),
    )
    return access if access.is_secured else ServerAccess(access.server, lambda _: None, proxy=access.proxy)


def _authority(configuration: Any) -> Pem | None:
    stated: str | bytes | None = getattr(configuration, "ca_cert_data", None)
    if stated:
        return stated.encode() if isinstance(stated, str) else stated
    file: str | None = configuration.ssl_ca_cert
    return file


def _certificate(configuration: Any) -> tuple[Pem, Pem] | None:
    if not configuration.cert_file:
        return None
    return configuration.cert_file, configuration.key_file or configuration.cert_file
