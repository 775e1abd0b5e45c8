"""Raw manifests -> the nouns of model.py: one place for every backend, bytes or values alike."""
