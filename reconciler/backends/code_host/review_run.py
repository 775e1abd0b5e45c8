"""The run of a pipeline that reviews policies, as its variables describe it: where its comment goes, and whether."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from reconciler.backends.code_host.comments import (
    Comments,
    GitHubComments,
    GitLabNotes,
    PullRequest,
    RestApi,
    pull_request_of,
)
from reconciler.errors import UsageError

_LARGEST_EVENT = 64 << 20
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/(?!\.{1,2}\Z)[A-Za-z0-9_.-]+")
_NUMBER = re.compile(r"[0-9]{1,18}")
_GITHUB_VERSION = "2022-11-28"


class ReviewRun(Struct, frozen=True):
    """`comments` None: no comment is written, and `reason` says why."""

    comments: Comments | None = None
    reason: str = ""


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
    pull_request: PullRequest | None = None
    workflow_run: _WorkflowRun | None = None


def github_run(variables: Mapping[str, str], *, comment: bool) -> ReviewRun:
    """Return the run that GitHub Actions describe in `variables`; without `comment` none is written.

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
        return ReviewRun(None, reason)
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": _GITHUB_VERSION,
    }
    api = RestApi(variables.get("GITHUB_API_URL") or "https://api.github.com", headers, "GITHUB_API_URL")
    number = _number(event, api, repository)
    return ReviewRun(GitHubComments(api, repository, number))


def gitlab_run(variables: Mapping[str, str], *, comment: bool) -> ReviewRun:
    """Return the run that GitLab CI describes in `variables`.

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
        return ReviewRun(None, reason)
    api = RestApi(variables.get("CI_API_V4_URL", ""), {"PRIVATE-TOKEN": token}, "CI_API_V4_URL")
    return ReviewRun(GitLabNotes(api, project, int(number)))


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
