"""Policies and observed state -> desired state. Pure."""
