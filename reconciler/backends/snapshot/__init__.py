"""A cluster made of plain manifests in a folder: read, changed by tested patches, settled at once.

A read goes down, a write comes up again:

- `cluster.py` is the `Cluster`; each of its calls asks `manifest_store.py` for what the files say now.
- `manifest_store.py` reads the files that changed, and writes each changed object whole; `files.py` is the disk below:
  which files there are, who may touch them, how one is replaced. `file_content.py` is one file with its objects,
  `index.py` all objects of the folder by name, kind and owner; `file_lock.py` is the lock of a run.
- `write_effects.py` turns one write into changes of manifests: it tests, it patches, `controllers.py` says what
  controllers do then, and `served_manifests.py` what the API server would show or add.
- `memory.py` is the same cluster without files, for forecasts and tests of policies.
- `recorder.py` writes a live cluster down as such a folder, and reads what was recorded; `recorded_manifests.py` says
  what of each object, `recorded_metrics.py` has the answers to queries.
"""
