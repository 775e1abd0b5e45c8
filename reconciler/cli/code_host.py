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
from reconciler.http.client import HttpClient, HttpRequest, HttpResponse, RetryPolicy, with_retries
from reconciler.http.errors import HttpError
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

    def get(self, path: str, answer: type[T]) -> T:
        """Return what is at `path`, which is encoded already.

        Raises:
            CommentError: there is no such answer.
        """
        return self._called("GET", path, None, answer)

    def pages(self, path: str, item: type[T]) -> Iterator[T]:
        """Yield each `item` of the list at `path`, which ends where the parameters of pages belong; errors as `get`."""
        for page in range(1, _MOST_PAGES + 1):
            found: list[T] = self.get(f"{path}per_page={_PER_PAGE}&page={page}", list[item])  # type: ignore[valid-type]
            yield from found
            if len(found) < _PER_PAGE:
                return

    def send(self, method: str, path: str, body: Mapping[str, str]) -> None:
        """Send `body`; POST is sent once, other methods until they are answered.

        Raises:
            CommentError: it was not taken.
        """
        self._called(method, path, msgspec.json.encode(body), Any)

    def _called(self, method: str, path: str, body: bytes | None, answer: type[T]) -> T:
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


class Comment(msgspec.Struct, frozen=True):
    """A comment that we wrote."""

    id: int
    body: str


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
    if found is None:
        comments.create(body)
        return "created"
    if found.body == body:
        return "unchanged"
    comments.update(found, body)
    return "updated"


class Comments(Struct, frozen=True):
    """The comments of one pull request or merge request, each of `longest` characters at most. `ours` reads those that
    we wrote: anybody may write one with our marker, and edit it afterwards.
    """

    api: RestApi
    longest: int
    path: str
    ours: Callable[[], Iterator[Comment]]
    written: tuple[str, str]  # the method that changes one, and the path in front of its id

    def own(self, marker: str) -> Comment | None:
        return next((comment for comment in self.ours() if comment.body.startswith(marker)), None)

    def create(self, body: str) -> None:
        self.api.send("POST", self.path, {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        method, path = self.written
        self.api.send(method, f"{path}/{comment.id}", {"body": body})


class _GitHubUser(msgspec.Struct):
    type: str = ""


class _GitHubComment(msgspec.Struct):
    id: int
    body: str | None = None
    user: _GitHubUser | None = None


def github_comments(api: RestApi, repository: str, number: int) -> Comments:
    """Return the comments of a pull request of `repository`, OWNER/NAME; ours are by a bot.

    Source: GitHub REST API, "Issue comments": every pull request is an issue.
    """
    issues = f"/repos/{quote(repository)}/issues"

    def ours() -> Iterator[Comment]:
        for comment in api.pages(f"{issues}/{number}/comments?", _GitHubComment):
            if comment.user is not None and comment.user.type == "Bot":
                yield Comment(comment.id, comment.body or "")

    return Comments(api, 65_536, f"{issues}/{number}/comments", ours, ("PATCH", f"{issues}/comments"))


class _HeadRepository(msgspec.Struct):
    full_name: str = ""


class _PullRequestHead(msgspec.Struct):
    """`repo` None: the repository is gone."""

    sha: str = ""
    repo: _HeadRepository | None = None


class _PullRequest(msgspec.Struct):
    """Source: GitHub REST API, "Pulls"; the same in webhook events."""

    number: int
    head: _PullRequestHead


def pull_request_of(api: RestApi, repository: str, branch: str, sha: str) -> int:
    """Return the number of the open pull request of `repository` from `branch` (OWNER:NAME) that is at commit `sha`.

    Raises:
        CommentError: there is not exactly one.

    Source: GitHub REST API, "List pull requests".
    """
    path = f"/repos/{quote(repository)}/pulls?state=open&per_page={_PER_PAGE}&head={quote(branch, safe='')}"
    found = [pull_request.number for pull_request in api.get(path, list[_PullRequest]) if pull_request.head.sha == sha]
    if len(found) != 1:
        raise CommentError(f"{repository}: has {len(found)} open pull requests from {branch} at {sha}, expected one")
    return found[0]


class _GitLabUser(msgspec.Struct):
    id: int


class _GitLabNote(msgspec.Struct):
    id: int
    author: _GitLabUser
    body: str | None = None


def gitlab_notes(api: RestApi, project: str, number: int) -> Comments:
    """Return the notes of merge request `number` of the project of that number; ours are by the token's own user.

    Source: GitLab REST API, "Notes API", merge requests; "Users API", current user.
    """
    notes = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"

    def ours() -> Iterator[Comment]:
        user = api.get("/user", _GitLabUser).id
        for note in api.pages(f"{notes}?sort=asc&order_by=created_at&", _GitLabNote):
            if note.author.id == user:
                yield Comment(note.id, note.body or "")

    return Comments(api, 1_000_000, notes, ours, ("PUT", notes))


_LARGEST_EVENT = 64 << 20
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/(?!\.{1,2}\Z)[A-Za-z0-9_.-]+")
_NUMBER = re.compile(r"[0-9]{1,18}")
_GITHUB_VERSION = "2022-11-28"


class _Owner(msgspec.Struct):
    login: str = ""


class _ForkRepository(msgspec.Struct):
    owner: _Owner = msgspec.field(default_factory=_Owner)


class _WorkflowRun(msgspec.Struct):
    event: str = ""
    head_sha: str = ""
    head_branch: str | None = None
    head_repository: _ForkRepository | None = None


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
    if event.pull_request is not None:
        return event.pull_request.number
    found = event.workflow_run
    assert found is not None
    assert found.head_repository is not None
    branch = f"{found.head_repository.owner.login}:{found.head_branch or ''}"
    return pull_request_of(api, repository, branch, found.head_sha)
