"""Tokens of ServiceAccounts that a control plane takes for its own, with any times: its key signs them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

ISSUER = "https://kubernetes.default.svc"


def a_jwt(claims: Mapping[str, Any]) -> str:
    """A JWT with these claims."""
    parts = (json.dumps({"alg": "ES256", "typ": "JWT"}).encode(), json.dumps(claims).encode(), b"none")
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def claims(account: Mapping[str, Any], issued: float, expires: float) -> dict[str, Any]:
    """What a token of a ServiceAccount, as the API server has it, says; times are seconds since the epoch."""
    metadata = account["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    of_it = {"namespace": namespace, "serviceaccount": {"name": name, "uid": metadata["uid"]}}
    times = {"iat": int(issued), "nbf": int(issued), "exp": int(expires)}
    who = {"iss": ISSUER, "aud": [ISSUER], "sub": f"system:serviceaccount:{namespace}:{name}"}
    return {**who, **times, "kubernetes.io": of_it}


def signed(key: Path, said: Mapping[str, Any]) -> str:
    """A JWT signed by the key in a file, that of the ServiceAccounts of a control plane."""
    unsigned = a_jwt(said).rpartition(".")[0]
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    numbers = utils.decode_dss_signature(private.sign(unsigned.encode(), ec.ECDSA(hashes.SHA256())))
    signature = b"".join(number.to_bytes(32, "big") for number in numbers)
    return f"{unsigned}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
