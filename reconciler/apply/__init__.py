"""Plan and backends -> outcomes: the only room that changes what others run."""
