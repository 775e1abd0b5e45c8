"""A Fleet in a file that is not valid YAML from some line on: the part above that line is read, for wakes only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reconciler.errors import Problem
from reconciler.yaml.documents import Document
from reconciler.yaml.files import decoded_text, read_bytes
from reconciler.yaml.reader import read_documents

_NEEDED = re.compile(r"^\s*(namespace|formerNames)\s*:", re.M)
_MOST_LINES = 1000


def broken_fleets(problems: Iterable[Problem], root: str) -> Iterator[Document]:
    """Yield the Fleets above the first line that cannot be read, of each file below `root` that has such a `problem`.

    They are not `whole`. Of one that may say below that line where its records and its lock are, nothing is used.
    """
    for file, line in {problem.file: problem.line for problem in problems}.items():
        content = read_bytes(file, root)
        text = content if isinstance(content, Problem) else decoded_text(file, content)
        if not isinstance(text, Problem):
            yield from _above(file, text[0].splitlines(keepends=True), line)


def _above(file: str, lines: list[str], broken: int) -> Iterator[Document]:
    for end in range(min(broken, len(lines), _MOST_LINES), 0, -1):
        if _NEEDED.search("".join(lines[end:])):
            return
        read = read_documents(file, "".join(lines[:end]))
        found = [one for one in read.found if isinstance(one.value, dict) and one.value.get("kind") == "Fleet"]
        if found and not read.problems:
            found[0].whole = False
            yield found[0]
            return
