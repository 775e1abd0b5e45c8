"""`Cluster` over an API server: connection -> requests -> pages -> nouns, and writes."""
