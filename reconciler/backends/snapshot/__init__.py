"""A cluster made of plain manifests in a folder: read, changed by tested patches, settled at once."""
