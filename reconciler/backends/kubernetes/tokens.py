"""Tokens of ServiceAccounts: what one says of itself, and how another one is asked for."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import msgspec
from msgspec import Struct

from reconciler.backends.decode.values import Instant, Wire, decoded_json
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.errors import NOT_JSON
from reconciler.backends.kubernetes.pages import answer_to
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation
from reconciler.model import ServiceAccount
from reconciler.redaction import remember

SHORTEST = timedelta(minutes=10)
"""An API server gives no token for less.

Source: kubernetes pkg/apis/authentication/validation/validation.go, ValidateTokenRequest.
"""


class TokenClaims(Struct, frozen=True):
    """What a token says of itself. `account` None: it is not that of a ServiceAccount, whose uid is `uid` otherwise."""

    issued: datetime
    expires: datetime
    account: ServiceAccount | None = None
    uid: str = ""

    @property
    def life(self) -> timedelta:
        return self.expires - self.issued

    @property
    def half_life(self) -> datetime:
        """The moment from which it should be replaced."""
        return self.issued + self.life / 2


class _AccountClaim(Struct):
    name: str = ""
    uid: str = ""


class _Kubernetes(Struct):
    namespace: str = ""
    serviceaccount: _AccountClaim = msgspec.field(default_factory=_AccountClaim)


class _Claims(Struct):
    """Source: kubernetes pkg/serviceaccount/claims.go, privateClaims; RFC 7519."""

    exp: float
    iat: float | None = None
    kubernetes: _Kubernetes | None = msgspec.field(default=None, name="kubernetes.io")


def claims_of(token: str) -> TokenClaims | None:
    """Return what `token` says of itself, without a look at its signature; None where it is no JWT that has an end."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        found = decoded_json(_Claims, payload)
        expires = datetime.fromtimestamp(found.exp, UTC)
        issued = expires if found.iat is None else datetime.fromtimestamp(found.iat, UTC)
    except (binascii.Error, OverflowError, OSError, ValueError, *NOT_JSON):
        return None
    claims = TokenClaims(min(issued, expires), expires)
    if found.kubernetes is None or not found.kubernetes.serviceaccount.name:
        return claims
    named = found.kubernetes.serviceaccount
    return msgspec.structs.replace(
        claims, account=ServiceAccount(found.kubernetes.namespace, named.name), uid=named.uid
    )


class IssuedToken(Wire):
    """A token, and until when the server takes it, which may be sooner than was asked for."""

    token: str
    expiration_timestamp: Instant

    @property
    def expires(self) -> datetime:
        return self.expiration_timestamp.as_datetime()


class _TokenRequest(Wire):
    """Source: kubernetes/api authentication/v1 types.go, TokenRequest."""

    status: IssuedToken


def request_token(client: ApiClient, account: ServiceAccount, life: timedelta) -> IssuedToken:
    """Return a new token of `account`, for `life` where the server gives one for so long.

    Raises:
        ClusterError: it gives none.
    """
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(max(life, SHORTEST).total_seconds())},
    }
    namespace, name = (quote(part, safe="") for part in (account.namespace, account.name))
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    operation = Operation(client.cluster, "create", "serviceaccounts/token", account.namespace, account.name)
    request = ApiRequest("POST", path, operation, body=msgspec.json.encode(review), writes=True)
    issued = answer_to(client, request, _TokenRequest).status
    remember(issued.token)
    return issued
