"""The commit at which a folder is checked out, read from the files of git: images of CronJobs have no git."""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def commit_of(path: str | Path) -> str:
    """Return the commit of the checkout that `path` is in, "" where it is in none or that cannot be read.

    What was changed since does not show: a run that must know is given --source-revision.
    """
    try:
        here = Path(path).resolve()
        found = next((one / ".git" for one in (here, *here.parents) if (one / ".git").exists()), None)
        return "" if found is None else _head(_folder(found))
    except (OSError, ValueError):
        return ""


def _folder(found: Path) -> Path:
    """Return the folder of git: in a linked worktree `.git` is a file that names it."""
    if found.is_dir():
        return found
    named = found.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    return found.parent / named


def _head(folder: Path) -> str:
    text = (folder / "HEAD").read_text(encoding="utf-8").strip()
    if not text.startswith("ref:"):
        return text if _COMMIT.fullmatch(text) else ""
    name = text.removeprefix("ref:").strip()
    common = folder / "commondir"
    shared = folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder
    for top in (folder, shared):
        if (top / name).is_file():
            return (top / name).read_text(encoding="utf-8").strip()
    return _packed(shared / "packed-refs", name)


def _packed(file: Path, name: str) -> str:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else ()
    return next((commit for commit, _, ref in (line.partition(" ") for line in lines) if ref == name), "")
