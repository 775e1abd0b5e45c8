"""One value of a Secret."""

from __future__ import annotations

import base64
import binascii

from reconciler.backends.decode.objects import Secret
from reconciler.errors import MalformedAnswerError, NotFoundError


def secret_value(secret: Secret | None, key: str, where: str) -> str:
    """Return one value as text, one trailing line break stripped; `where` names the Secret in errors.

    Raises:
        NotFoundError: no such Secret or key. MalformedAnswerError: the value is no base64 of a text.
    """
    if secret is None:
        raise NotFoundError(f"{where}: is not there, expected a Secret")
    if secret.string_data and key in secret.string_data:
        return secret.string_data[key].removesuffix("\n")
    if not secret.data or key not in secret.data:
        raise NotFoundError(f'{where}: has no key "{key}", expected it')
    try:
        return base64.b64decode(secret.data[key], validate=True).decode().removesuffix("\n")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f'{where}: the value of "{key}" is no text in base64, expected one') from error
