"""`reconciler ci`: the review of a change of policies, as a pipeline of GitHub or GitLab runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from msgspec.structs import replace

from reconciler.cli.option_values import seconds, written_as
from reconciler.cli.options import GENERAL, Options, argument, option, path_argument, verb
from reconciler.cli.output import say, show, workflow_command
from reconciler.cli.policies import checked, workflow_commands
from reconciler.cli.policy_source import repository_of
from reconciler.cli.pull_request_comment import github_run, gitlab_run, publish
from reconciler.errors import CommentError, ExitCode, FailOn, Problem, first_exit_code
from reconciler.redaction import printable_without_credentials
from reconciler.report.code_host import ReviewComment, leveled, marker_of, render_review

_LONGEST_SUMMARY = 500_000  # characters; a summary holds a mebibyte
_MOST_ANNOTATIONS = 50
_FAILURES = frozenset(ExitCode) - {ExitCode.DONE, ExitCode.CHANGES_PENDING, ExitCode.HELD_BACK, ExitCode.PARTIAL}
_FAILING: dict[str, frozenset[ExitCode]] = {
    "never": frozenset({ExitCode.USAGE}),
    "invalid": _FAILURES,
    "held-back": _FAILURES | {ExitCode.HELD_BACK},
    "unknown": _FAILURES | {ExitCode.PARTIAL},
    "conflict": _FAILURES | {ExitCode.PARTIAL},
}
_REASONS = {
    ExitCode.HELD_BACK: "limits hold back what this change does",
    ExitCode.PARTIAL: "something is unknown, policies of equal priority select the same, or no comment was written",
}
"""Of exit codes behind which nothing else on stderr says why."""
_BECAME = {"unchanged": "the comment says so already", "left out": "no comment is written: there is nothing to say"}
_KEPT = ("LANG", "LC_ALL", "PATH", "TMPDIR")
_RUNS = {"github": github_run, "gitlab": gitlab_run}


@written_as("never,invalid,held-back,unknown,conflict")
def _failing(text: str) -> frozenset[str]:
    """Return the words of what fails the check, with commas between them in `text`."""
    words = text.split(",")
    if not set(words) <= set(_FAILING) or ("never" in words and len(words) > 1):
        some = ",".join(name for name in _FAILING if name != "never")
        raise click.BadParameter(f'"{text}" is not what a check fails on, expected never, or some of {some}')
    return frozenset(words)


class _CiOptions(Options):
    platform: str = argument("{github|gitlab}", type=click.Choice(list(_RUNS)))
    path: str = path_argument()
    base: str | None = option("The policies before the change.", metavar="PATH")
    snapshot: str | None = option(
        "The snapshot to plan from; without one the policies are only checked.", metavar="DIR", group=GENERAL
    )
    fail_on: frozenset[str] = option(
        "What fails the check: policies that are invalid or cannot be planned, which all but never contain; what "
        "limits hold back because of the change; what is unknown; policies of equal priority.",
        type=_failing,
        default="invalid,held-back",
    )
    comment: str = option(
        "When a comment is written on the pull request; with on-effect where there is something to say.",
        type=click.Choice(["always", "on-effect", "never"]),
        default="always",
    )
    check_timeout: float = option("How long the policies may take to check.", type=seconds, default=120.0)
    plan_timeout: float = option("How long the plan may take.", type=seconds, default=300.0)


@verb("ci", _CiOptions)
def ci_command(options: _CiOptions) -> int:
    """Review the policies below PATH in a pipeline of GitHub or GitLab.

    Problems are put beside their lines, the plan goes to the summary of the run and into one comment on the pull
    request, which later runs update. Live clusters are never read.

    # Comment on a pull request of GitHub what it changes
    ci github policies --base base/policies --snapshot DIR
    # Fail a merge request of GitLab where limits would hold something back
    ci gitlab --base base/policies --snapshot DIR --fail-on held-back
    """
    platform = options.platform
    review, warnings, code = _reviewed(options)
    if platform == "github":
        root = repository_of(options.path) or "."
        found = leveled(review.problems[:_MOST_ANNOTATIONS], warnings[:_MOST_ANNOTATIONS], root)
        show(workflow_commands(found), "github")
    quiet = code is ExitCode.DONE and bool(review.plan) and not review.base_problems
    codes = {code, _published(platform, review, options.comment, quiet=quiet)}
    failing: frozenset[ExitCode] = frozenset().union(*(_FAILING[word] for word in options.fail_on))
    ended = first_exit_code(codes & failing)
    if ended in _REASONS:
        say(f"exit code {int(ended)}: {_REASONS[ended]}, see the comment or the summary")
    return ended


def _reviewed(options: _CiOptions) -> tuple[ReviewComment, tuple[Problem, ...], ExitCode]:
    """Return the review, the warnings that belong to it, and the exit code of what was found."""
    path, base, snapshot = options.path, options.base, options.snapshot
    for given in filter(None, (path, snapshot)):
        if link := _link_in(given):
            problem = Problem.of_path(link, "is a symbolic link, expected a folder of the change itself")
            return ReviewComment(path, (problem,)), (), ExitCode.MALFORMED
    try:
        with _at_most(options.check_timeout):
            policies, problems = checked(path)
            before, base_problems = (None, ()) if policies is None or base is None else checked(base)
    except _OutOfTimeError:
        words = f"{path}: the policies were not checked within {options.check_timeout:g} s, expected it sooner"
        return ReviewComment(path, (), failure=(words,)), (), ExitCode.NOTHING_DONE
    if policies is None or problems:
        return ReviewComment(path, problems), (), ExitCode.MALFORMED
    review = ReviewComment(path, (), base_problems if before is None else ())
    if snapshot is None:
        words = "no snapshot was given, so the policies were checked and not planned"
        return replace(review, failure=(words,)), policies.warnings, ExitCode.DONE
    compared = None if before is None else base
    # Only what fails the check: a code for something else would hide it.
    fail_on = [word for word in FailOn if word in options.fail_on]
    review, code = _planned(review, compared, snapshot, fail_on, options.plan_timeout)
    return review, policies.warnings, code


class _OutOfTimeError(BaseException):
    """The time is over; no `except` for what can be wrong with a file takes it for that."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Let what is done inside take so long: whoever opens a pull request decides what there is to check.

    Raises:
        _OutOfTimeError: it takes longer.
    """

    def over(_signal: int, _frame: object) -> None:
        raise _OutOfTimeError

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _link_in(path: str) -> str:
    """Return the first part of a relative `path` that is a symbolic link, "" where none is.

    A pull request may turn the folder of the policies into a link; an absolute path is named by the pipeline alone.
    """
    parts = Path(path).parts
    found = (Path(*parts[: count + 1]) for count in range(len(parts)))
    return "" if Path(path).is_absolute() else next((str(here) for here in found if here.is_symlink()), "")


def _planned(
    review: ReviewComment, base: str | None, snapshot: str, fail_on: Sequence[FailOn], most_seconds: float
) -> tuple[ReviewComment, ExitCode]:
    """Return `review` with the plan, compared with `base` where there is one.

    It is made by a process that has no token and none of the pipeline's variables, and is isolated (-I), because the
    folder it is started in is the change's, and Python would import from there.
    """
    compared = [] if base is None else ["--base", base, "--fleet-from", "base"]
    given = [review.path, *compared, "--snapshot", snapshot, "--no-exec", "--output", "markdown", "--quiet"]
    given += ["--detailed-exitcode", "--fail-on", ",".join(fail_on)]
    command = [sys.executable, "-I", "-m", "reconciler", "plan", *given]
    variables = {name: text for name, text in os.environ.items() if name in _KEPT or name.startswith("RECONCILER_")}
    variables.pop("RECONCILER_BASE", None)  # of this verb; the base may not be usable
    try:
        done = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=most_seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return replace(review, failure=(f"there was no plan within {most_seconds:g} s",)), ExitCode.NOTHING_DONE
    said = done.stderr.decode(errors="replace").splitlines()
    for line in said:
        say(line)
    ended = done.returncode
    if done.stdout:
        code = ExitCode(ended) if ended in set(ExitCode) else ExitCode.NOTHING_DONE
        return replace(review, plan=done.stdout.decode(errors="replace")), code
    code = ExitCode(ended) if ended in _FAILURES else ExitCode.NOTHING_DONE  # whatever it ended with, it failed
    return replace(review, failure=said or (f"the plan ended with {ended}",)), code


def _published(platform: str, review: ReviewComment, comment: str, *, quiet: bool) -> ExitCode:
    """Write the summary, and the comment where there can be one; say what became of it.

    `quiet`: the change has no effect, so that `comment: on-effect` only updates what an earlier one had.
    """
    _summarised(platform, render_review(review, _LONGEST_SUMMARY))
    try:
        comments = _RUNS[platform](os.environ, comment=comment != "never")
        if isinstance(comments, str):
            say(f"no comment is written: {comments}")
            return ExitCode.DONE
        marker = marker_of(review.path)
        text = render_review(review, comments.longest - len(marker) - 1)
        became = publish(comments, marker, text, create=not (quiet and comment == "on-effect"))
    except CommentError as error:
        words = f"the comment cannot be written: {error}"
        say(f"warning: {words}")
        if platform == "github":
            show(workflow_command("warning", {"title": "reconciler"}, words), "github")
        return error.exit_code
    say(_BECAME.get(became) or f"the comment was {became}")
    return ExitCode.DONE


def _summarised(platform: str, text: str) -> None:
    """Add `text` to the summary of the run, or print it where there is none."""
    file = os.environ.get("GITHUB_STEP_SUMMARY") if platform == "github" else None
    if not file:
        show(text)
        return
    try:
        with open(file, "a", encoding="utf-8", errors="replace") as summary:
            summary.write(printable_without_credentials(text))
    except OSError as error:
        say(f"warning: GITHUB_STEP_SUMMARY: {error.strerror}, expected a file that can be written")
