"""The one comment of a review: found by its marker among those that we wrote ourselves, created or updated."""

from __future__ import annotations

from typing import Literal, Protocol
from urllib.parse import quote

import msgspec

from reconciler.backends.code_host.rest import RestApi
from reconciler.errors import CommentError

_PER_PAGE = 30
_MOST_PAGES = 100


class Comment(msgspec.Struct, frozen=True):
    """A comment that we wrote."""

    id: int
    body: str


class Comments(Protocol):
    """The comments of one pull request or merge request."""

    longest: int
    """How many characters one may have."""

    def own(self, marker: str) -> Comment | None:
        """Return our comment that begins with `marker`; None: there is none."""

    def create(self, body: str) -> None: ...

    def update(self, comment: Comment, body: str) -> None: ...


def publish(comments: Comments, marker: str, text: str) -> Literal["created", "updated", "unchanged"]:
    """Let our comment with `marker` say `text`.

    Raises:
        CommentError: it cannot be read or written.
    """
    body = f"{marker}\n{text}"
    found = comments.own(marker)
    if found is None:
        comments.create(body)
        return "created"
    if found.body == body:
        return "unchanged"
    comments.update(found, body)
    return "updated"


class _GitHubUser(msgspec.Struct):
    type: str = ""


class _GitHubComment(msgspec.Struct):
    id: int
    body: str | None = None
    user: _GitHubUser | None = None


class GitHubComments:
    """Source: GitHub REST API, "Issue comments": every pull request is an issue."""

    longest = 65_536

    def __init__(self, api: RestApi, repository: str, number: int) -> None:
        """`repository` is OWNER/NAME."""
        self._api = api
        self._repository = quote(repository)
        self._number = number

    def own(self, marker: str) -> Comment | None:
        """Return our comment. Only bots count: anybody may write a comment with our marker, and edit it afterwards."""
        for page in range(1, _MOST_PAGES + 1):
            path = f"/repos/{self._repository}/issues/{self._number}/comments?per_page={_PER_PAGE}&page={page}"
            found = self._api.get(path, list[_GitHubComment])
            for one in found:
                if (one.body or "").startswith(marker) and one.user is not None and one.user.type == "Bot":
                    return Comment(one.id, one.body or "")
            if len(found) < _PER_PAGE:
                return None
        return None

    def create(self, body: str) -> None:
        self._api.send("POST", f"/repos/{self._repository}/issues/{self._number}/comments", {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        self._api.send("PATCH", f"/repos/{self._repository}/issues/comments/{comment.id}", {"body": body})


class HeadRepository(msgspec.Struct):
    full_name: str = ""


class PullRequestHead(msgspec.Struct):
    """`repo` None: the repository is gone."""

    sha: str = ""
    repo: HeadRepository | None = None


class PullRequest(msgspec.Struct):
    """Source: GitHub REST API, "Pulls"; the same in webhook events."""

    number: int
    head: PullRequestHead


def pull_request_of(api: RestApi, repository: str, branch: str, sha: str) -> int:
    """Return the number of the open pull request of `repository` from `branch` (OWNER:NAME) that is at commit `sha`.

    Raises:
        CommentError: there is not exactly one.

    Source: GitHub REST API, "List pull requests".
    """
    path = f"/repos/{quote(repository)}/pulls?state=open&per_page={_PER_PAGE}&head={quote(branch, safe='')}"
    found = [one.number for one in api.get(path, list[PullRequest]) if one.head.sha == sha]
    if len(found) != 1:
        raise CommentError(f"{repository}: has {len(found)} open pull requests from {branch} at {sha}, expected one")
    return found[0]


class _GitLabUser(msgspec.Struct):
    id: int


class _GitLabNote(msgspec.Struct):
    id: int
    author: _GitLabUser
    body: str | None = None


class GitLabNotes:
    """Source: GitLab REST API, "Notes API", merge requests; "Users API", current user."""

    longest = 1_000_000

    def __init__(self, api: RestApi, project: str, number: int) -> None:
        """`project` is the number of the project, `number` that of the merge request in it."""
        self._api = api
        self._notes = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"

    def own(self, marker: str) -> Comment | None:
        """Return our note. Only those of the token's own user count: anybody may write a note with our marker."""
        user = self._api.get("/user", _GitLabUser).id
        for page in range(1, _MOST_PAGES + 1):
            path = f"{self._notes}?per_page={_PER_PAGE}&page={page}&sort=asc&order_by=created_at"
            found = self._api.get(path, list[_GitLabNote])
            for one in found:
                if (one.body or "").startswith(marker) and one.author.id == user:
                    return Comment(one.id, one.body or "")
            if len(found) < _PER_PAGE:
                return None
        return None

    def create(self, body: str) -> None:
        self._api.send("POST", self._notes, {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        self._api.send("PUT", f"{self._notes}/{comment.id}", {"body": body})
