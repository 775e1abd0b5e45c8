"""Scaling one workload down so that exactly the chosen pods are deleted."""
