"""Fixtures of tests on a cluster with a service network."""

from tests.activator.live_services import activators, services

__all__ = ["activators", "services"]
