"""A cluster over the API of its server.

`cluster.py` is the `Cluster`: it lists by `pages.py`, as far as `discovery.py` says what is served, and writes by
`object_write.py`. The form of a request is in `request_form.py`; `client.py` sends it, over a connection of
`backends/credentials`, when `request_limits.py` lets it, and again as `http/retries.py` says; `errors.py` has the error
for each refusal.
`cluster_lock.py` is the lock, `watch.py` what the activator follows; `rights.py`, `preflight.py` and `tokens.py` ask
what we may.
"""
