"""The world behind five protocols: clusters, metrics, pod pickers, locks, state."""
