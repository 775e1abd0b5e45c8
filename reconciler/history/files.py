"""The history in the folder of --report-dir, for longer than clusters keep it: a file of JSON lines for each run.

Files appear whole or not at all, and none is ever written twice: what collects logs may read them at any time.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from reconciler.decide.annotations import parse_time
from reconciler.errors import ReconcilerError, reason_of
from reconciler.history.changes import SLASHES, Change
from reconciler.model import Run
from reconciler.untrusted_text import short

_SUFFIX = ".jsonl"
MAX_LINE = 1 << 20
"""Bytes; no change comes near it."""

_MOST_OF_A_RUN = 1000
_LONGEST_ID = 40
_LINE = msgspec.json.Decoder(Change)


def write_changes(folder: str, changes: Sequence[Change], run: Run) -> str:
    """Write `changes` to a new file in `folder`, which is made where it is missing; return what went wrong, "" for
    nothing. No changes write no file.
    """
    if not changes:
        return ""
    try:
        os.makedirs(folder, exist_ok=True)
        _write_whole(Path(folder), _name_of(run), b"".join(msgspec.json.encode(change) + b"\n" for change in changes))
    except OSError as error:
        return f"--report-dir: {folder}: not written: {error.strerror}, expected a folder that can be written"
    except Exception as error:  # noqa: BLE001 - whatever it is: what was done was done, and is reported elsewhere too
        return f"--report-dir: {folder}: not written: {reason_of(error)}"
    return ""


def _name_of(run: Run) -> str:
    """Return the name of its file without an end: the id of a saved plan may be anything."""
    return f"{run.now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{re.sub(r'[^a-z0-9-]', '-', run.id)[:_LONGEST_ID]}"


def _write_whole(folder: Path, name: str, data: bytes) -> None:
    """Write `data` to a file beside the final one, and give it its name once it is on the disk.

    Pods that share the folder have the same process ids, and may have the same run id at the same second.
    """
    hidden = folder / f".{name}.{secrets.token_hex(8)}.tmp"
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(hidden, _reserved(folder, name))
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def _reserved(folder: Path, name: str) -> Path:
    """Return a file of that name that nobody else has: empty, until it is replaced.

    One run may write twice, where some of it could not wait for a cluster.
    """
    for number in range(1, _MOST_OF_A_RUN):
        path = folder / (f"{name}{_SUFFIX}" if number == 1 else f"{name}-{number}{_SUFFIX}")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
        except FileExistsError:
            continue
        return path
    raise ReconcilerError(f"{folder}: has {_MOST_OF_A_RUN} files of this run already, expected one or two")


def read_changes(folder: str, since: datetime) -> tuple[tuple[Change, ...], list[str]]:
    """Return the changes in the files of `folder` from `since` on, and what could not be read, as file:line: problem.

    Raises:
        ReconcilerError: it is no folder that can be read.
    """
    changes: list[Change] = []
    failures: list[str] = []
    for path in _files_of(Path(folder)):
        for found in _changes_in(path):
            if isinstance(found, str):
                failures.append(found)
            elif found.time >= since:
                changes.append(found)
    return tuple(changes), failures


def _files_of(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX and path.is_file())
    except OSError as error:
        raise ReconcilerError(f"{folder}: {error.strerror}, expected a folder with files of --report-dir") from error


def _changes_in(path: Path) -> Iterator[Change | str]:
    """Yield the changes of a file; what is none as a sentence. After a line that is too long nothing is read."""
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    yield f"{path}:{number}: is longer than {MAX_LINE} bytes, expected a change"
                    return
                yield _change(line, f"{path}:{number}")
    except OSError as error:
        yield f"{path}: {error.strerror}, expected a file that can be read"


def _change(line: bytes, place: str) -> Change | str:
    try:
        found = _LINE.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return f"{place}: is no change ({error}), expected a line of JSON as --report-dir writes it"
    if parse_time(found.at) is None:
        return f'{place}: is no change (at "{short(found.at)}"), expected a time in RFC 3339, with its zone'
    if found.object.count("/") < SLASHES:
        return f'{place}: is no change (object "{short(found.object)}"), expected CLUSTER/NAMESPACE/KIND/NAME'
    return found
