"""Fixtures of tests on a cluster with a service network."""

from tests.activator.town import activators, town

__all__ = ["activators", "town"]
