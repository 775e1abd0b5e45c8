"""Real parts for tests: Kubernetes control planes, Prometheus and a proxy that makes faults, all on loopback."""
