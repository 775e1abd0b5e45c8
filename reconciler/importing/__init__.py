"""What other tools are told by their manifests, as policies."""
