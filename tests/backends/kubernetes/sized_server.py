"""An API server whose answers have a size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from reconciler.backends.decode.metadata import Object
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.pages import listed
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation
from reconciler.backends.kubernetes.request_limits import ReadBudget, RequestTurns
from reconciler.backends.protocols import DEFAULTS
from reconciler.errors import AnswerTooLargeError
from reconciler.http.client import HttpResponse


class SizedServer:
    """Answers lists as an API server does, each object `sizes` bytes long; no answer has more than 32 MiB."""

    cluster = "member"
    turns = RequestTurns(DEFAULTS)  # somebody always waits

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self.limits: list[int] = []

    def send(self, request: ApiRequest) -> HttpResponse:
        start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        self.limits.append(limit)
        if sum(self._sizes[start : start + limit]) > 32 << 20:
            raise AnswerTooLargeError(f"{request.operation}: the answer is longer than 32 MiB, expected an answer")
        end = min(start + limit, len(self._sizes))
        items = [{"metadata": {"name": f"web-{number}", "namespace": "shop"}} for number in range(start, end)]
        metadata = {"resourceVersion": "1", "continue": str(end) if end < len(self._sizes) else ""}
        return HttpResponse(200, {}, json.dumps({"metadata": metadata, "items": items}).encode())

    def listed(self, plural: str, budget: ReadBudget) -> list[Any]:
        request = ApiRequest("GET", f"/api/v1/{plural}", Operation("east", "list", plural))
        return listed(cast(ApiClient, self), request, Object, lambda one: one.metadata.name, budget)[0]
