"""The review of a pull request on GitHub and GitLab: the run of its pipeline, as variables describe it, and its one
comment, found by its marker among those that we wrote ourselves, created or updated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from reconciler.errors import CommentError, UsageError
from reconciler.http.client import HttpClient, HttpRequest, HttpResponse
from reconciler.http.errors import HttpError
from reconciler.http.retries import RetryPolicy, with_retries
from reconciler.redaction import printable_without_credentials, remember, without_credentials
from reconciler.time_limit import TimeLimit
from reconciler.untrusted_text import one_line

T = TypeVar("T")

_SECONDS = 60.0
_LARGEST = 32 << 20  # thirty comments of 65,536 characters, each written as \uD83D\uDE00
_LONGEST_WORDS = 200
_REPEATED = RetryPolicy(attempts=4, first_pause=0.2, longest_pause=10.0)
_ONCE = RetryPolicy(attempts=1)  # what creates something is not sent twice


class _Refusal(msgspec.Struct):
    message: Any = ""


class RestApi:
    """The API at `url`. Redirects are not followed, so that `headers`, which hold the token, go to its host alone."""

    def __init__(self, url: str, headers: Mapping[str, str], variable: str, seconds: float = _SECONDS) -> None:
        """`variable` is where `url` comes from.

        Raises:
            UsageError: `url` is no address that a token may be sent to, or the proxy for it is none.
        """
        from reconciler.http.connections import connections
        from reconciler.http.proxies import environment_proxy

        _check(url, variable)
        try:
            self._client = HttpClient(connections(proxy=environment_proxy(url), kept=1), largest=_LARGEST)
        except ValueError as error:
            raise UsageError(f"HTTPS_PROXY: {error}") from None
        self._url = url.rstrip("/")
        self._headers = {"User-Agent": "reconciler", "Content-Type": "application/json", **headers}
        self._limit = TimeLimit(seconds)

    def pages(self, path: str, item: type[T]) -> Iterator[T]:
        """Yield each `item` of the list at `path`, which ends where parameters of pages belong; errors as `asked`."""
        for page in range(1, _MOST_PAGES + 1):
            where = f"{path}per_page={_PER_PAGE}&page={page}"
            found: list[T] = self.asked("GET", where, list[item])  # type: ignore[valid-type]
            yield from found
            if len(found) < _PER_PAGE:
                return

    def asked(self, method: str, path: str, answer: type[T], body: bytes | None = None) -> T:
        """Return the answer to a request, which is sent until it is answered, but POST once; `path` is encoded already.

        Raises:
            CommentError: there is no such answer.
        """
        request = HttpRequest(method, f"{self._url}{path}", self._headers, body)
        where = f"{method} {self._url}{path.partition('?')[0]}"
        policy = _ONCE if method == "POST" else _REPEATED
        try:
            response = with_retries(lambda: self._client.exchange(request, self._limit), policy, self._limit.wait)
        except HttpError as error:
            raise CommentError(f"{where}: {error}, expected an answer") from error
        if not 200 <= response.status < 300:
            raise CommentError(f"{where}: status {response.status}{_words(response)}, expected success")
        try:
            return msgspec.json.decode(response.body, type=answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CommentError(f"{where}: the answer is not what the API documents, expected JSON") from error


def _check(url: str, variable: str) -> None:
    from reconciler.http.resolver import address_of

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError(f"{variable}: is no address, expected https://HOST") from None
    address = address_of(host)
    local = host == "localhost" or (address is not None and address.is_loopback)
    if not host or parts.scheme not in ("https", *(["http"] if local else [])):
        raise UsageError(f"{variable}: is no address that a token may be sent to, expected https://HOST")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(f"{variable}: has a user, a query or a fragment, expected https://HOST/PATH")


def _words(response: HttpResponse) -> str:
    """Return what the server says of a refusal, in brackets: one line of bounded length, without what it was sent."""
    try:
        said = msgspec.json.decode(response.body, type=_Refusal).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return f" ({one_line(without_credentials(said))[:_LONGEST_WORDS]})" if isinstance(said, str) and said else ""


_PER_PAGE = 30
_MOST_PAGES = 100


class GitHubAccount(msgspec.Struct):
    """Source: GitHub REST API, "Users"."""

    login: str = ""
    type: str = ""


class GitLabAccount(msgspec.Struct):
    """Source: GitLab REST API, "Users"."""

    id: int


class Comment(msgspec.Struct):
    """A comment on GitHub, by `user`, or a note on GitLab, by `author`."""

    id: int
    body: str | None = None
    user: GitHubAccount | None = None
    author: GitLabAccount | None = None


def publish(
    comments: Comments, marker: str, text: str, *, create: bool = True
) -> Literal["created", "updated", "unchanged", "left out"]:
    """Let our comment with `marker` say `text`; without `create` only where there is one.

    Raises:
        CommentError: it cannot be read or written.
    """
    body = f"{marker}\n{printable_without_credentials(text)}"
    found = comments.own(marker)
    if found is None and not create:
        return "left out"
    if found is not None and found.body == body:
        return "unchanged"
    comments.write(body, found)
    return "created" if found is None else "updated"


class Comments(Struct, frozen=True):
    """The comments of one pull request or merge request, each of `longest` characters at most. Of those that `listed`
    lists we wrote those that are `ours`: anybody may write one with our marker, and edit it afterwards.
    """

    api: RestApi
    longest: int
    path: str
    listed: str
    ours: Callable[[Comment], bool]
    changed: tuple[str, str]  # the method that changes one, and the path in front of its id

    def own(self, marker: str) -> Comment | None:
        found = filter(self.ours, self.api.pages(self.listed, Comment))
        return next((comment for comment in found if (comment.body or "").startswith(marker)), None)

    def write(self, body: str, over: Comment | None = None) -> None:
        """Write a new comment, or that in place of the one it is to go `over`."""
        method, path = self.changed
        method, path = ("POST", self.path) if over is None else (method, f"{path}/{over.id}")
        self.api.asked(method, path, Any, msgspec.json.encode({"body": body}))


def github_comments(api: RestApi, repository: str, number: int) -> Comments:
    """Return the comments of a pull request of `repository`, OWNER/NAME; ours are by a bot.

    Source: GitHub REST API, "Issue comments": every pull request is an issue.
    """
    issues = f"/repos/{quote(repository)}/issues"
    path = f"{issues}/{number}/comments"

    def ours(comment: Comment) -> bool:
        return comment.user is not None and comment.user.type == "Bot"

    return Comments(api, 65_536, path, f"{path}?", ours, ("PATCH", f"{issues}/comments"))


def gitlab_notes(api: RestApi, project: str, number: int) -> Comments:
    """Return the notes of merge request `number` of the project of that number; ours are by the token's own user.

    Source: GitLab REST API, "Notes API", merge requests; "Users API", current user.
    """
    notes = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"
    user = api.asked("GET", "/user", GitLabAccount)
    listed = f"{notes}?sort=asc&order_by=created_at&"
    return Comments(api, 1_000_000, notes, listed, lambda note: note.author == user, ("PUT", notes))


class _Repository(msgspec.Struct):
    full_name: str = ""
    owner: GitHubAccount = msgspec.field(default_factory=GitHubAccount)


class _PullRequestHead(msgspec.Struct):
    """`repo` None: the repository is gone."""

    sha: str = ""
    repo: _Repository | None = None


class _PullRequest(msgspec.Struct):
    """Source: GitHub REST API, "Pulls"; the same in webhook events."""

    number: int
    head: _PullRequestHead


_LARGEST_EVENT = 64 << 20
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/(?!\.{1,2}\Z)[A-Za-z0-9_.-]+")
_NUMBER = re.compile(r"[0-9]{1,18}")
_GITHUB_VERSION = "2022-11-28"


class _WorkflowRun(msgspec.Struct):
    event: str = ""
    head_sha: str = ""
    head_branch: str | None = None
    head_repository: _Repository | None = None


class _WorkflowEvent(msgspec.Struct):
    pull_request: _PullRequest | None = None
    workflow_run: _WorkflowRun | None = None


def github_run(variables: Mapping[str, str], *, comment: bool) -> Comments | str:
    """Return the comments of the run that GitHub Actions describe in `variables`, or why none is written; without
    `comment` none is.

    Raises:
        UsageError: they cannot be those of GitHub Actions. CommentError: the pull request cannot be found.

    Source: GitHub documentation, "Variables reference"; "Webhook events and payloads", pull_request, workflow_run.
    """
    event = _event(variables.get("GITHUB_EVENT_PATH", ""))
    repository, token = variables.get("GITHUB_REPOSITORY", ""), variables.get("GITHUB_TOKEN", "")
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError("GITHUB_REPOSITORY: is not OWNER/NAME, expected the variables of GitHub Actions")
    reason = "" if comment else "no comment is wanted"
    reason = reason or _no_comment(event, repository) or ("" if token else "there is no token")
    if reason:
        return reason
    remember(token)
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": _GITHUB_VERSION,
    }
    api = RestApi(variables.get("GITHUB_API_URL") or "https://api.github.com", headers, "GITHUB_API_URL")
    return github_comments(api, repository, _number(event, api, repository))


def gitlab_run(variables: Mapping[str, str], *, comment: bool) -> Comments | str:
    """Return the same of the run that GitLab CI describes in `variables`.

    Raises:
        UsageError: they cannot be those of GitLab CI.

    Source: GitLab documentation, "Predefined CI/CD variables reference".
    """
    project, number = variables.get("CI_PROJECT_ID", ""), variables.get("CI_MERGE_REQUEST_IID", "")
    token = variables.get("GITLAB_TOKEN", "")
    if not _NUMBER.fullmatch(project):
        raise UsageError("CI_PROJECT_ID: is no number, expected the variables of GitLab CI")
    reason = "" if comment else "no comment is wanted"
    reason = reason or ("" if _NUMBER.fullmatch(number) else "this pipeline is of no merge request")
    reason = reason or ("" if token else "there is no token in GITLAB_TOKEN")
    if reason:
        return reason
    remember(token)
    api = RestApi(variables.get("CI_API_V4_URL", ""), {"PRIVATE-TOKEN": token}, "CI_API_V4_URL")
    # The pipeline of a merge request from a fork runs in the fork, which may have another one of that number.
    return gitlab_notes(api, variables.get("CI_MERGE_REQUEST_PROJECT_ID") or project, int(number))


def _event(path: str) -> _WorkflowEvent:
    """Return what started the run.

    Raises:
        UsageError: there is no such file.
    """
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(_LARGEST_EVENT), type=_WorkflowEvent)
    except (OSError, ValueError, RecursionError) as error:
        words = "GITHUB_EVENT_PATH: names no event that can be read, expected the variables of GitHub Actions"
        raise UsageError(words) from error


def _no_comment(event: _WorkflowEvent, repository: str) -> str:
    """Return why there is nothing that could be commented, "" where there is."""
    if event.workflow_run is not None:
        found = event.workflow_run
        return "" if found.event == "pull_request" and found.head_repository else "the run before is of no pull request"
    if event.pull_request is None:
        return "this run is of no pull request"
    head = event.pull_request.head.repo
    is_own = head is not None and head.full_name.lower() == repository.lower()
    return "" if is_own else "the pull request comes from a fork, whose token may only read"


def _number(event: _WorkflowEvent, api: RestApi, repository: str) -> int:
    """Return the number of the pull request: of the run before, that of the open one from its branch at its commit.

    Raises:
        CommentError: there is not exactly one.

    Source: GitHub REST API, "List pull requests".
    """
    if event.pull_request is not None:
        return event.pull_request.number
    found = event.workflow_run
    assert found is not None
    assert found.head_repository is not None
    branch, sha = f"{found.head_repository.owner.login}:{found.head_branch or ''}", found.head_sha
    path = f"/repos/{quote(repository)}/pulls?state=open&per_page={_PER_PAGE}&head={quote(branch, safe='')}"
    numbers = [one.number for one in api.asked("GET", path, list[_PullRequest]) if one.head.sha == sha]
    if len(numbers) != 1:
        raise CommentError(f"{repository}: has {len(numbers)} open pull requests from {branch} at {sha}, expected one")
    return numbers[0]
