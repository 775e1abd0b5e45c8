"""Keeps the scale of workloads on many Kubernetes clusters the way policy files in git say.

The rooms, in the order of the data:

policy/      policy files -> validated policies
observe/     policies and backends -> observed state
decide/      policies and observed state -> desired state, within limits (pure)
plan/        desired state -> plan (pure)
apply/       plan and backends -> outcomes; history/: who scaled what, and why, is kept
report/      plan and outcomes -> text, JSON, Markdown, HTML
backends/    the world behind protocols; http/: the one HTTP client, and what all servers here share
yaml/        files below a directory, one reader with limits, a writer: for policies and snapshots
pipeline.py  the whole way on one screen; saved_plan/: a saved plan is carried out; world.py: what runs are on
forecast/    policies and a snapshot -> what runs of the coming days do; policy_tests/: what cases expect of them
importing/   manifests of other tools -> policies
activator/   traffic wakes idle Services
picker_webhook/ the admission webhook that chooses pods for the decreases of others
cli/, api.py the command line, and the public API
model.py     the types all rooms share; errors.py: every error raised on purpose
workload_kinds.py: the kinds that are scaled, and those that are switched off instead
"""
