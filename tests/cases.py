"""Tables of tests: one row for each case, which begins with what names it."""

from __future__ import annotations

from typing import Any

import pytest


def cases(names: str, *rows: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Return the parametrization of a test by `rows`, each the id of a case and then a value for each of `names`.

    `names` are apart by spaces, as in `@cases("replicas expected", ("at zero", 0, False), ("running", 3, True))`.
    """
    return pytest.mark.parametrize(names.split(), [pytest.param(*values, id=said) for said, *values in rows])
