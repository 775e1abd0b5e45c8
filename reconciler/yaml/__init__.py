"""YAML files, read within limits and written: policies, manifests, recordings and recorded metrics alike."""
