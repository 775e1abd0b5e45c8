"""Writes the JSON Schemas, and what the docs show of the code: `python -m tests.docs [PAGE ...]`.

Read the diff before you commit it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs import pages, picture, reference
from tests.report.validators import schema_files

if __name__ == "__main__":
    for file, schema in schema_files().items():  # of which the reference is written
        file.write_text(schema, encoding="utf-8")
    picture.PICTURE.write_text(picture.picture())
    for page, written in reference.PAGES.items():
        page.write_text(written())
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages.PAGES:
        page.write_text(pages.followed(page))
