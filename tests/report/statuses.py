"""The status of a Fleet of as many clusters as wanted, and the form of GitHub that its page links to."""

from __future__ import annotations

import re
from datetime import timedelta

from reconciler.decide.desired_state import decide
from reconciler.plan.build import make_plan
from reconciler.report.status import RunSummary, fleet_status
from tests.builders import a_cluster, a_federated_replica_set, a_fleet, a_policy_set, a_run, a_state, a_workload
from tests.decide.idling.idling_policies import NIGHT, a_policy
from tests.docs.pages import ROOT
from tests.review.workflows import read

IDLE = {
    "idling.kubernetes.io/idled-at": "2026-11-20T12:00:00Z",
    "idling.kubernetes.io/previous-scale": "3",
    "reconciler/owner": "production/IdlingPolicy/nights",
    "reconciler/wake-due": "2026-11-21T06:00:00Z",
}


def a_status(clusters: int):
    """Return the status of so many clusters, of which the second does not answer and each third one has an idle web."""
    names = [f"c{number:02}" for number in range(clusters)]
    observed = [
        a_cluster(
            name,
            workloads=(
                a_workload("web", cluster=name, **({"replicas": 0, "annotations": IDLE} if n % 3 == 0 else {})),
                a_workload("api", cluster=name, annotations={"reconciler/contested": '{"by":"argocd-controller"}'}),
            ),
        )
        for n, name in enumerate(names)
        if n != 1
    ]
    fleet = a_fleet(*names)
    federated = tuple(a_federated_replica_set(f"frs-{n}", "shop", replicas=clusters) for n in range(9))
    policies = a_policy_set(fleet, idling=(a_policy("nights"),), federated=federated)
    state = a_state(*observed, unreachable={"c01": "no answer"})
    run = a_run(NIGHT)
    plan = make_plan(policies, state, decide(policies, state, run), run)
    runs = [RunSummary(f"run-{n}", NIGHT - timedelta(hours=n), {"idle": n}) for n in range(1, 9)]
    return fleet_status(fleet, state, plan, runs)


EXAMPLES = ROOT / "examples" / "ci"
GITHUB = read(EXAMPLES / "github-status.yml")["jobs"]["write"]["steps"][-2]["env"]["RECONCILER_WAKE_FORM"]
GITHUB = re.sub(r"\$\{\{ github\.server_url \}\}", "https://github.com", GITHUB)
GITHUB = re.sub(r"\$\{\{ github\.repository \}\}", "your-org/policies", GITHUB)
