"""Observed state and desired state -> a plan, and what limits hold back of it. Pure."""
