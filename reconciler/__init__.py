"""Keeps the scale of workloads on many Kubernetes clusters the way policy files in git say.

The rooms, in the order of the data:

policy/      policy files -> validated policies
observe/     policies and backends -> observed state
decide/      policies and observed state -> desired state (pure)
plan/        desired state -> plan, with limits (pure)
apply/       plan and backends -> outcomes
report/      plan and outcomes -> text, JSON, Markdown, HTML
backends/    the world behind five protocols
yaml/        files below a directory, one reader with limits, a writer: for policies and snapshots
pipeline.py  the whole way on one screen
forecast/    policies and a snapshot -> what runs of the coming days do
cli/, api.py the command line, and the public API
model.py     the types all rooms share; errors.py: every error raised on purpose
"""
