"""The manifests of other tools, as policies."""
