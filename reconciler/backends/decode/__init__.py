"""Raw manifests -> the types of model.py: one place for every backend, bytes or values alike."""
