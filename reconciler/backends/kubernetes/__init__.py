"""`Cluster` over an API server: connection -> requests -> pages -> types of model.py, and writes."""
