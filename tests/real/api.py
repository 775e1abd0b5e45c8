"""A plain JSON client of a real API server, for what tests set up and look at: not the backend under test."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class ApiError(Exception):
    """An answer that is no success."""

    def __init__(self, method: str, path: str, status: int, body: Object) -> None:
        super().__init__(f"{method} {path}: {status} {body.get('message', body)}")
        self.status = status
        self.body = body
        self.reason: str = body.get("reason", "")


class Api:
    """Requests to one API server with one token; safe to use from several threads.

    Paths are the server's own, such as `/apis/apps/v1/namespaces/shop/deployments/web`.
    """

    def __init__(self, url: str, ca_file: Path, token: str, *, seconds: float = 60) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._pool = urllib3.PoolManager(
            maxsize=32, ca_certs=str(ca_file), retries=False, timeout=urllib3.Timeout(seconds)
        )

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: Any
    ) -> Object:
        """The decoded answer.

        Raises:
            ApiError: the answer is no success.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        content = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": content_type}
        answer = self._pool.request(method, self.url + target, body=content, headers=headers)
        if answer.status >= 300:
            raise ApiError(method, target, answer.status, _refusal(answer.data))
        return json.loads(answer.data)

    def get(self, path: str, **query: Any) -> Object:
        return self.request("GET", path, **query)

    def find(self, path: str) -> Object | None:
        """The object, None where there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, **query: Any) -> list[Object]:
        """A whole list, in one piece."""
        return self.get(path, **query)["items"]

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        return self.request("POST", path, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Object:
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **query: Any) -> Object:
        return self.request("PATCH", path, body, content_type, **query)

    def delete(self, path: str, **query: Any) -> Object:
        return self.request("DELETE", path, **query)

    def with_headers(self, headers: Mapping[str, str]) -> Api:
        """A client that sends these headers too, such as those of impersonation; it shares the connections."""
        made = copy.copy(self)
        made._headers = {**self._headers, **headers}
        return made

    def close(self) -> None:
        self._pool.clear()


def _refusal(data: bytes) -> Object:
    try:
        decoded = json.loads(data)
    except ValueError:
        return {"message": data.decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"message": str(decoded)}
