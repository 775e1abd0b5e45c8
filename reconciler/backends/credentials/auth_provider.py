"""Users of a kubeconfig with an `auth-provider`. Like kubectl, only `oidc` is supported.

Their forms are the `kubernetes` package's, which is imported for them alone: that takes longer than a whole plan. Their
servers are asked here, within a time limit: the package waits for them for ever.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from kubernetes.client.configuration import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.kube_config import KubeConfigLoader

from reconciler.backends.credentials.config_node import ConfigNode, CredentialError, KubeconfigError
from reconciler.http.client import HttpClient, HttpRequest
from reconciler.http.errors import HttpError, TimedOutError, alone
from reconciler.redaction import remember
from reconciler.time_limit import TimeLimit

_Package: Any = KubeConfigLoader


class _RefreshToken:
    """The refresh token of a kubeconfig, and in its place the newest that the issuer gave for it: an older one may be
    good for nothing then. It is in memory alone. One connection at a time uses it, and those that waited meanwhile take
    the id-token that it got.
    """

    def __init__(self, stated: str) -> None:
        self._guard = threading.Lock()
        self._newest = stated
        self._id_token = ""
        self._renewals = 0

    def id_token(self, config: Mapping[str, str], limit: TimeLimit) -> str:
        """Return a new id-token; see `_answer_of_issuer` for what it raises."""
        before = self._renewals
        with alone(self._guard, limit, "no credentials in time"):
            if self._renewals == before:
                given = _answer_of_issuer({**config, "refresh-token": self._newest}, limit)
                self._id_token = str(given["id_token"])
                self._newest = str(given.get("refresh_token") or self._newest)
                self._renewals += 1
            return self._id_token


_refresh_tokens: dict[str, _RefreshToken] = {}
"""By what the kubeconfig says."""


class ProviderToken:
    """The Authorization header of `user`, asked for anew once its token has expired; None where it has none.

    Raises:
        CredentialError: there is no token. KubeconfigError: something is missing in the kubeconfig.
    """

    def __init__(self, user: ConfigNode) -> None:
        content = {
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
            "clusters": [{"name": "own", "cluster": {}}],
            "users": [{"name": "own", "user": user.value}],
        }
        self._configuration: Any = Configuration()
        self._loader = _Loader(content, active_context="own")
        self._begun = False

    def __call__(self, limit: TimeLimit) -> str | None:
        self._loader.limit = limit
        try:
            if not self._begun:
                self._loader.load_and_set(self._configuration)
                self._begun = True
            found = self._configuration.auth_settings().get("BearerToken") or {}
        except ConfigException as error:
            raise KubeconfigError(str(error).removeprefix("Invalid kube-config file. ")) from error
        token: str | None = found.get("value")
        return token


class _Loader(_Package):  # type: ignore[misc]
    """`limit` is that of the next time that a server is asked for credentials."""

    limit: TimeLimit

    def _refresh_gcp_token(self) -> None:
        raise CredentialError("its access token has expired, and kubectl gives up this way too (auth-provider gcp)")

    def _refresh_oidc(self, provider: Any) -> None:
        """Get a new id-token, from an issuer whose certificate is valid: it gets client secret and refresh token."""
        config = provider["config"].value
        try:
            token = _refresh_tokens.setdefault(config["refresh-token"], _RefreshToken(config["refresh-token"]))
            config["id-token"] = token.id_token(config, self.limit)
        except (HttpError, OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, TimedOutError):
                raise
            words = f"its id-token has expired, and its issuer gave no other ({type(error).__name__})"
            raise CredentialError(words) from error


def _answer_of_issuer(config: Mapping[str, str], limit: TimeLimit) -> Mapping[str, Any]:
    """Return what the issuer gives for the refresh token: an `id_token`, and perhaps the next `refresh_token`. Without
    an authority of its own the system's vouch for it.

    Raises:
        HttpError: it does not answer. OSError, ValueError, KeyError, TypeError: it answers something else.

    Source: RFC 6749, sections 2.3.1, 3.2.1 and 6; OpenID Connect Discovery 1.0, section 4.
    """
    from reconciler.http.connections import connections, tls_context
    from reconciler.http.proxies import environment_proxy

    data = config.get("idp-certificate-authority-data")
    tls = tls_context(
        ca_data=base64.b64decode(data).decode() if data else None,
        ca_file=None if data else config.get("idp-certificate-authority") or None,
    )
    issuer = config["idp-issuer-url"].rstrip("/")
    client = HttpClient(connections(tls=tls, proxy=environment_proxy(issuer)))
    found = client.exchange(HttpRequest("GET", f"{issuer}/.well-known/openid-configuration"), limit)
    for credential in (config["refresh-token"], config.get("client-secret")):
        remember(credential or "")
    form = {"grant_type": "refresh_token", "refresh_token": config["refresh-token"]}
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if config.get("client-secret"):
        login = base64.b64encode(f"{config['client-id']}:{config['client-secret']}".encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    else:  # a public client
        form["client_id"] = config["client-id"]
    request = HttpRequest("POST", json.loads(found.body)["token_endpoint"], headers, urlencode(form).encode())
    given: Mapping[str, Any] = json.loads(client.exchange(request, limit).body)
    return given
