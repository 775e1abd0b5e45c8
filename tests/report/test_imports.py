"""What is imported for a form nobody asked for: nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        pytest.param("reconciler.report.text", {"jinja2", "yaml", "kubernetes", "jsonschema"}, id="text"),
        pytest.param("reconciler.report.json", {"jinja2", "yaml", "kubernetes", "jsonschema"}, id="JSON"),
        pytest.param("reconciler.report.markdown", {"jinja2", "kubernetes", "jsonschema"}, id="Markdown"),
        pytest.param("reconciler.report.html", {"jinja2", "kubernetes", "jsonschema"}, id="HTML, not rendered"),
        pytest.param("reconciler.plan.model", {"jinja2", "yaml", "kubernetes", "jsonschema"}, id="no form"),
    ],
)
def test_a_form_imports_no_more_than_it_needs(module, absent):
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert absent.isdisjoint(found)
