"""The version of this program, as in pyproject.toml: asking the installed package takes longer than a request."""

VERSION = "0.1.0"
