"""Raw manifests -> the types of model.py: one place for every backend, bytes or values alike.

`values.py` has what stands on the wire and decodes it to `shapes.py`, the fields that are read of each kind, with what
`metadata.py` has of every object; `objects.py` and `workloads.py` make types of model.py of these. Where that fails,
`mismatches.py` says all that is wrong.
"""
