"""Workflows, and jobs of other code hosts, as they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples" / "ci").glob("github*.yml"))


class _Loader(yaml.SafeLoader):
    """Reads `on` as a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(file: Path) -> Any:
    return yaml.load(file.read_text(), _Loader)
