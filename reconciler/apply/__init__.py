"""Plan and backends -> outcomes: the only room that changes what others run.

`run_locks.py` takes the lock of each cluster. `run.py` carries the actions out, and skips what may not be written any
more, or needs what was not applied; `outcomes.py` has what can become of one. `parallel_actions.py` has the threads,
`phase_order.py` the order: which action may begin when. `waits.py` waits for others, `freeze_check.py` looks for a
freeze, and `access.py` says as whom each is written. `scale_down.py` has the steps of a scale-down by chosen pods,
`deletion_costs.py` what they write; `events.py` the Events. For the next run `run_records.py` records what was refused,
in a `config_map_store.py`.
"""
