"""A cluster over the API of its server.

`cluster.py` is the `Cluster`: it lists by `pages.py`, as far as `discovery.py` says what is served, and writes by
`object_write.py`. Every request goes through `client.py`, which says how long each waits, over a connection of
`backends/credentials`; `errors.py` has the operation that is asked for, and the error for each refusal. `lease.py` is
the lock, `watch.py` what the activator follows; `rights.py`, `preflight.py` and `tokens.py` ask what we may.
"""
