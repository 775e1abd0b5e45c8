"""Text from outside, made safe to print."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Return `text` as one printable line: white space becomes single spaces, a control character its escape."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in " ".join(text.split()))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
