module reconciler/tests/bench/go_planner

go 1.26
