"""Clusters, snapshots and metrics, each behind a protocol of `protocols.py`; `live.py` or `snapshot/cluster.py` opens
those of a Fleet.
"""
