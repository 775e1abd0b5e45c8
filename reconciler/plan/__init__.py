"""Desired state -> a plan: its changes in order, filtered, and as JSON. Pure."""
