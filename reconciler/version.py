"""The version of this program, as in pyproject.toml: asking the installed package takes longer than a request."""

VERSION = "0.1.0"

OUTPUT_VERSION = "reconciler/v1alpha1"
"""The schemaVersion of what verbs print as JSON, except plans, reports, forecasts and reviews."""
