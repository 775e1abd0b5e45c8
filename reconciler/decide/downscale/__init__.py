"""Downscale: how far a DownscalePolicy scales workloads down, which pods are deleted, what a crash left behind."""
