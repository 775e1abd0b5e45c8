"""The APIs of GitHub and GitLab as far as a review needs them, on loopback; every request is checked.

Sources: GitHub REST API, version 2022-11-28, "Issue comments" and "List pull requests"; GitLab REST API, "Notes API".
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghs_0123456789abcdef"
REPOSITORY = "acme/platform"
NUMBER = 17
SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
BOT = {"id": 41898282, "login": "github-actions[bot]", "type": "Bot"}


@dataclass
class CodeHost:
    """One server that plays both. `faults` holds what was wrong with requests; `refuses` answers all with a status."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    refuses: tuple[int, Any] | None = None
    redirects_to: str = ""
    after: str = ""  # only requests of this method are refused
    url: str = ""

    def __enter__(self) -> CodeHost:
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, answer, headers = host.answer(self.command, self.path, self.headers, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def has(self, body: str, **user: Any) -> dict[str, Any]:
        """Let somebody have written a comment before."""
        author = {**BOT, **user}
        comment = {"id": 1000 + len(self.comments), "body": body, "user": author, "author": author}
        self.comments.append(comment)
        return comment

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        self.requests.append(f"{method} {urlsplit(path).path}")
        if self.redirects_to:
            return 307, {"message": "Moved"}, {"Location": f"{self.redirects_to}{path}"}
        if self.refuses is not None and method.startswith(self.after):
            return (*self.refuses, {})
        faults = [*self._faults_of_headers(method, path, headers), *_faults_of_body(method, body)]
        if faults:
            self.faults += [f"{method} {path}: {one}" for one in faults]
            return 400, {"message": "; ".join(faults)}, {}
        for pattern, handler in _ROUTES:
            found = re.fullmatch(pattern, f"{method} {urlsplit(path).path}")
            if found:
                query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
                return (*handler(self, found, query, json.loads(body or b"{}")), {})
        self.faults.append(f"{method} {path}: there is no such endpoint")
        return 404, {"message": "Not Found"}, {}

    def _faults_of_headers(self, method: str, path: str, headers: Mapping[str, str]) -> list[str]:
        wanted = (
            {
                "Authorization": f"Bearer {TOKEN}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
            }
            if path.startswith("/repos/")
            else {"PRIVATE-TOKEN": TOKEN}
        )
        wrong = [name for name, value in wanted.items() if headers.get(name) != value]
        if not headers.get("User-Agent"):
            wrong.append("User-Agent")
        if method != "GET" and not headers.get("Content-Type", "").startswith("application/json"):
            wrong.append("Content-Type")
        return [f"header {name} is {headers.get(name)!r}" for name in wrong]

    def _list(self, _found: Any, query: dict[str, str], _body: Any) -> tuple[int, Any]:
        size, page = int(query["per_page"]), int(query["page"])
        if not 1 <= size <= 100:
            return 422, {"message": "per_page"}
        return 200, self.comments[(page - 1) * size : page * size]

    def _create(self, _found: Any, _query: Any, body: Any) -> tuple[int, Any]:
        return 201, self.has(body["body"])

    def _update(self, found: re.Match[str], _query: Any, body: Any) -> tuple[int, Any]:
        for one in self.comments:
            if one["id"] == int(found["id"]):
                one["body"] = body["body"]
                return 200, one
        return 404, {"message": "Not Found"}

    def _pulls(self, _found: Any, query: dict[str, str], _body: Any) -> tuple[int, Any]:
        assert query["state"] == "open"
        return 200, [one for one in self.pulls if one["head"]["label"] == query["head"]]

    def _user(self, *_: Any) -> tuple[int, Any]:
        return 200, BOT


_GITHUB, _GITLAB = f"/repos/{REPOSITORY}", f"/projects/5/merge_requests/{NUMBER}/notes"
_ROUTES = [
    (f"GET {_GITHUB}/issues/{NUMBER}/comments", CodeHost._list),
    (f"POST {_GITHUB}/issues/{NUMBER}/comments", CodeHost._create),
    (rf"PATCH {_GITHUB}/issues/comments/(?P<id>\d+)", CodeHost._update),
    (f"GET {_GITHUB}/pulls", CodeHost._pulls),
    ("GET /user", CodeHost._user),
    (f"GET {_GITLAB}", CodeHost._list),
    (f"POST {_GITLAB}", CodeHost._create),
    (rf"PUT {_GITLAB}/(?P<id>\d+)", CodeHost._update),
]


def _faults_of_body(method: str, body: bytes) -> list[str]:
    if method == "GET":
        return ["a body"] if body else []
    value = json.loads(body)
    if list(value) != ["body"] or not isinstance(value["body"], str) or not value["body"].strip():
        return [f"the body has {sorted(value)}"]
    return ["Body is too long (maximum is 65536 characters)"] if len(value["body"]) > 65_536 else []


def an_event(*, fork: bool = False, deleted: bool = False) -> dict[str, Any]:
    """What GitHub hands to a workflow on `pull_request`, as far as anybody looks at it."""
    head: dict[str, Any] = {"full_name": "stranger/platform" if fork else REPOSITORY, "fork": fork}
    return {
        "action": "synchronize",
        "number": NUMBER,
        "pull_request": {
            "number": NUMBER,
            "head": {"ref": "change", "sha": SHA, "repo": None if deleted else head},
            "base": {"ref": "main", "sha": SHA, "repo": {"full_name": REPOSITORY}},
        },
        "repository": {"full_name": REPOSITORY},
    }


def a_later_event(event: str = "pull_request") -> dict[str, Any]:
    """What GitHub hands to a workflow on `workflow_run`."""
    return {
        "action": "completed",
        "workflow_run": {
            "event": event,
            "head_sha": SHA,
            "head_branch": "a change/ö",
            "head_repository": {"owner": {"login": "stranger"}, "full_name": "stranger/platform"},
        },
    }
