"""deploy/components/sharded on a real control plane: a pod for each shard, and one that fails ends no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.live.deployed import CRON_JOB, DEPLOY, patched_by
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import fleet
from tests.real.api import Object
from tests.real.cluster import create, wait_until
from tests.real.control_plane import ControlPlane
from tests.real.objects import an_object, manifests

SHARDS = 8
INDEX = "batch.kubernetes.io/job-completion-index"


def a_job() -> Object:
    """What the CronJob makes with the component; no node takes its pods, so that the test says how each ends."""
    (cron_job,) = manifests(CRON_JOB)
    component = yaml.safe_load((DEPLOY / "components/sharded/kustomization.yaml").read_text())
    for patch in component["patches"]:
        cron_job = patched_by(cron_job, patch)
    spec = cron_job["spec"]["jobTemplate"]["spec"]
    spec["template"]["spec"]["nodeSelector"] = {"no": "such-node"}
    return an_object("batch/v1", "Job", "reconciler-1", spec=spec)


def environment(pod: Object) -> dict[str, str]:
    """The variables of a pod, as a kubelet fills them in."""
    found: dict[str, str] = {}
    for variable in pod["spec"]["containers"][0]["env"]:
        value = variable.get("value")
        if value is None:
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            value = pod["metadata"]["annotations"][path.removeprefix("metadata.annotations['").removesuffix("']")]
        for name, known in found.items():
            value = value.replace(f"$({name})", known)
        found[variable["name"]] = value
    return found


def test_each_pod_of_a_run_decides_its_shard_and_one_that_fails_ends_no_other(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    job = f"/apis/batch/v1/namespaces/{namespace}/jobs/reconciler-1"
    create(api, [an_object("v1", "ServiceAccount", "reconciler"), a_job()], namespace)
    wait_until(lambda: len(api.items(pods)) == SHARDS, f"{SHARDS} pods")
    by_index = {int(pod["metadata"]["annotations"][INDEX]): pod for pod in api.items(pods)}
    assert sorted(by_index) == list(range(SHARDS))

    for index, pod in by_index.items():
        given = environment(pod)
        assert given["RECONCILER_SHARD"] == f"{index}/{SHARDS}"
        phase = "Failed" if index == 3 else "Succeeded"
        api.patch(f"{pods}/{pod['metadata']['name']}/status", {"status": {"phase": phase}})
    folder = Folder(tmp_path)
    folder.write(
        "policies/fleet.yaml", fleet([f"{{name: c{n}, identity: c{n}}}" for n in range(4)], name="f", home="c0")
    )
    for name in ("c0", "c1", "c2", "c3"):
        folder.write(f"snapshot/{name}/namespace.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: dev}}")
    for index, pod in by_index.items():
        for variable, value in environment(pod).items():
            monkeypatch.setenv(variable, value)
        assert f"shard {index}/{SHARDS}" in folder.call("plan", "policies", "--snapshot", "snapshot").out

    def ended() -> bool:
        conditions = api.get(job)["status"].get("conditions", ())
        return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)

    wait_until(ended, "the end of the Job")
    status = api.get(job)["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0-2,4-7", "3")
    assert (status["succeeded"], status["failed"]) == (SHARDS - 1, 1)
