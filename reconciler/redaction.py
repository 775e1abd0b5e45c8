"""The credentials that this process sends, and texts without them: a server may repeat what it was sent.

A credential is known by where it comes from: whoever reads a token, a password or a secret header in order to send it
says so here. Data that a server sends are never changed, only the texts that people read.
"""

from __future__ import annotations

import json
import re
import threading
from binascii import a2b_base64

_IN_ANSWERS = "***"
_IN_OUTPUTS = "(secret)"
"""What stands in place of a credential; in what is printed it may be a text of YAML without quotes."""

_IN_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As `html.escape` writes it: a plan has no other use for the module, which knows all entities."""

_LEAST = 8
"""A shorter text is part of many others: it is taken out of what a server says as a whole word only."""

_LEAST_WORD = 4
"""Whoever has a shorter one gets it printed: without each "a" nobody could read an error."""

_MOST = 10_000
"""How many are known, in a process that goes on for months and gets a token every hour."""


_known: dict[str, bool] = {}
"""Each in the forms in which a server may repeat it; `True`: it is no secret elsewhere."""

_guard = threading.Lock()


def _add(credential: str, *, is_public: bool) -> None:
    forms = {credential, json.dumps(credential, ensure_ascii=False)[1:-1], credential.replace("/", "\\/")}
    with _guard:
        for form in forms:
            _known[form] = is_public and _known.get(form, True)
        while len(_known) > _MOST:
            del _known[next(iter(_known))]


def remember(credential: str) -> None:
    """Take `credential`, a token or a password that is to be sent, out of all that is printed from now on."""
    if len(credential) >= _LEAST_WORD:
        _add(credential, is_public=False)


def remember_authorization(value: str | None) -> None:
    """Take the value of a header, and what is behind "Bearer" or "Basic" in it, out of all that is printed."""
    stated = (value or "").strip()
    scheme, _, rest = stated.partition(" ")
    rest = rest.strip()
    remember(rest)
    if scheme.lower() not in ("bearer", "basic"):
        remember(stated)
    if scheme.lower() != "basic":
        return
    try:
        login = a2b_base64(rest, strict_mode=True).decode()
    except ValueError:  # it is no base64, or no text
        return
    remember(login)
    remember(login.partition(":")[2])


def remember_header(value: str) -> None:
    """Take the value of a header that stands in the policies out of what servers say: it should be no secret."""
    if len(value) >= _LEAST_WORD:
        _add(value, is_public=True)


def forget() -> None:
    """Let nothing be known."""
    with _guard:
        _known.clear()


def without_credentials(said: str) -> str:
    """Return what a server said, as part of an error or a warning, without what it was sent. It must not be cut yet."""
    with _guard:
        sent = sorted(_known, key=len, reverse=True)
    for credential in sent:
        if credential not in said:
            continue
        if len(credential) >= _LEAST:
            said = said.replace(credential, _IN_ANSWERS)
        else:
            said = re.sub(rf"(?<!\w){re.escape(credential)}(?!\w)", _IN_ANSWERS, said)
    return said


def printable_without_credentials(text: str) -> str:
    """Return what is about to be printed, in whatever form, without credentials: names in it come from servers.

    Short ones, and those of digits alone, stay: they are part of too many other texts.
    """
    with _guard:
        secrets = [known for known, is_public in _known.items() if not is_public and len(known) >= _LEAST]
    for secret in sorted((secret for secret in secrets if not secret.isdecimal()), key=len, reverse=True):
        for form in {secret, secret.translate(_IN_HTML)}:
            if form in text:
                text = text.replace(form, _IN_OUTPUTS)
    return text
