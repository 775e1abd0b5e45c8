"""Downscale: what workloads a DownscalePolicy shrinks, which of their pods go, and what a crash left marked."""
