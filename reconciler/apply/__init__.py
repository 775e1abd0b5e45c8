"""Plan and backends -> outcomes: the only room that changes what others run.

`run_locks.py` takes the lock of each cluster. `action_runs.py` carries the actions out; `outcomes.py` has what can
become of one. `skipped_actions.py` says which are skipped: what may not be written any more, or needs what was not
applied. `parallel_actions.py` has the threads, `phase_order.py` the order: which action may begin when. `waits.py`
waits for others, and `access.py` says as whom each is written. `scale_down.py` has the steps of a scale-down by chosen
pods, `deletion_costs.py` what they write; `events.py` the Events. For the next run `run_records.py` records what was
refused, in a `config_map_store.py`.
"""
