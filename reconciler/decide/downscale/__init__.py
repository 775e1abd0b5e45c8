"""Downscale: what workloads a DownscalePolicy is scaled down, which of their pods go, and what a crash left marked."""
