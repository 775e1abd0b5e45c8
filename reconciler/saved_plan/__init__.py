"""A plan that was saved, and perhaps approved by somebody, is carried out as it is: what changed since is stale.

The file may have been written to by anybody, so it is checked as soon as there is what a check needs, in
`saved_plan.py`:

1. the file alone, in `read_saved`: it is a plan of this version whose changes fit together (`plan/json.py`), it changes
   what a run may change (`allowed_changes.py`), and it is not too old;
2. the Fleet, in `check_fleet`: it is of that one, and changes what its switches say;
3. the clusters, in `SavedPlan.not_doable`: they are those that it was made for, and serve its kinds;
4. the policies, in `SavedPlan.check_policies`: they state its pod templates (`beyond_approval.py`);
5. the clusters once more, under their locks, in `apply_saved`: a fresh plan makes the same changes (`differences.py`).
   Of those that it does not, and that somebody approved, none asks for more replicas than there are, or another pod
   picker, deletes a workload, or keeps an object awake (`beyond_approval.py`). What idles until a time that has passed
   when nobody is asked any more is stale too.
"""
