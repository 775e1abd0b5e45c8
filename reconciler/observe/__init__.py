"""Policies and backends -> observed state. Clusters are read side by side; one that fails is unknown, never empty."""
