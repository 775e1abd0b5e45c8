"""Objects of every kind whose switch is known, and definitions of those kinds.

The definitions here have the group, version, names and scope of the real ones, and the type of the switch; the files
they are after are named with each. `RECONCILER_TEST_DEFINITIONS` names a folder with the real ones: then those are
applied in place of these, and the objects, which have what the real ones require, must be what they admit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from reconciler.workload_kinds import SWITCHES, WorkloadKind
from tests.real.api import Object
from tests.real.objects import a_crd, a_pod_template, an_object, manifests

NAMESPACE = "dev"
_POD = a_pod_template("it")
_BATCH = {**_POD, "spec": {**_POD["spec"], "restartPolicy": "Never"}}
_CONTAINER = {"name": "it", "image": "it:1"}

SOURCES: Mapping[str, str] = {
    "Cluster": "cloudnative-pg/cloudnative-pg config/crd/bases/postgresql.cnpg.io_clusters.yaml",
    "ScheduledBackup": "cloudnative-pg/cloudnative-pg config/crd/bases/postgresql.cnpg.io_scheduledbackups.yaml",
    "postgresql": "zalando/postgres-operator manifests/postgresql.crd.yaml",
    "VirtualMachine": "kubevirt/kubevirt pkg/virt-operator/resource/generate/components/crds.go",
    "RayCluster": "ray-project/kuberay ray-operator/config/crd/bases/ray.io_rayclusters.yaml",
    "JobSet": "kubernetes-sigs/jobset config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
    "Notebook": "kubeflow/notebooks (branch notebooks-v1) components/notebook-controller/config/crd/bases/"
    "kubeflow.org_notebooks.yaml",
    "InferenceService": "kserve/kserve config/crd/minimal/serving.kserve.io_inferenceservices.yaml",
    "Service": "knative/serving config/core/300-resources/service.yaml",
    "Application": "argoproj/argo-cd manifests/crds/application-crd.yaml",
    "KafkaConnect": "strimzi/strimzi-kafka-operator packaging/install/cluster-operator/041-Crd-kafkaconnect.yaml",
    "LeaderWorkerSet": "kubernetes-sigs/lws config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
}
"""Where the definition of a kind is."""

SPECS: Mapping[str, Any] = {
    "Job": {"template": _BATCH},
    "DaemonSet": {"selector": {"matchLabels": {"app": "it"}}, "template": _POD},
    "Cluster": {"instances": 3, "storage": {"size": "1Gi"}},
    "ScheduledBackup": {"schedule": "0 0 0 * * *", "cluster": {"name": "it"}},
    "postgresql": {
        "teamId": "acid",
        "numberOfInstances": 2,
        "postgresql": {"version": "17"},
        "volume": {"size": "1Gi"},
    },
    "VirtualMachine": {"runStrategy": "RerunOnFailure", "template": {"spec": {"domain": {"devices": {}}}}},
    "RayCluster": {
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [_CONTAINER]}}},
    },
    "JobSet": {"replicatedJobs": [{"name": "it", "template": {"spec": {"template": _BATCH}}}]},
    "Notebook": {"template": {"spec": {"containers": [_CONTAINER]}}},
    "InferenceService": {"predictor": {"containers": [_CONTAINER]}},
    "Service": {
        "template": {
            "metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "2"}},
            "spec": {"containers": [_CONTAINER]},
        }
    },
    "Application": {
        "project": "default",
        "source": {"repoURL": "https://git.example/apps", "path": "it"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": NAMESPACE},
        "syncPolicy": {"automated": {"prune": True, "selfHeal": True}},
    },
}
SCALED: Mapping[str, tuple[str, Any]] = {
    "KafkaConnect": (
        "kafka.strimzi.io/v1",
        {
            "replicas": 3,
            "bootstrapServers": "kafka:9092",
            "groupId": "it",
            "configStorageTopic": "it-configs",
            "statusStorageTopic": "it-status",
            "offsetStorageTopic": "it-offsets",
        },
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": {"spec": {"containers": [_CONTAINER]}}}},
    ),
}
"""Kinds with `/scale` that need no switch, each with its apiVersion and the spec of an object."""

OTHERS: Mapping[str, tuple[Any, ...]] = {
    "postgresql": (1,),
    "VirtualMachine": ("Always",),
    "Cluster": ("off",),
    "Notebook": (),
    "InferenceService": ("false",),
    "DaemonSet": (),
    "Service": (),
}
"""Values at a switch with which an object runs, besides none; where nothing is said, what is not off."""


def definitions() -> list[Object]:
    """Return the definitions of all kinds that Kubernetes does not have."""
    folder = os.environ.get("RECONCILER_TEST_DEFINITIONS")
    if folder:
        found = manifests(*sorted(Path(folder).glob("*.yaml")))
        return [one for one in found if one and one["kind"] == "CustomResourceDefinition"]
    scaled = ((kind, *version.split("/")) for kind, (version, _) in SCALED.items())
    return [
        *(_definition(kind) for kind in SWITCHES.values() if kind.kind in SOURCES),
        *(a_crd(kind, group, version=version, scale=True) for kind, group, version in scaled),
    ]


def _definition(kind: WorkloadKind) -> Object:
    definition = a_crd(kind.kind, kind.group, version=kind.version)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    if kind.replicas_path[0] == "spec":
        types = {bool: "boolean", int: "integer", str: "string"}
        part: Any = {"type": types[type(kind.off)]}
        for key in reversed(kind.replicas_path[1:]):
            part = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {key: part}}
        schema["properties"]["spec"] = part
    return definition


def objects() -> Iterator[Object]:
    """Yield objects of each kind: as it is, with other values at its switch, and with others beside that."""
    for kind in SWITCHES.values():
        name = kind.kind.lower()
        plain = an_object(kind.api_version, kind.kind, name, {"namespace": NAMESPACE}, spec=deepcopy(SPECS[kind.kind]))
        yield plain
        if kind.in_map and kind.absent is None:
            yield with_value(plain, kind, f"{name}-beside", "beside", path=(*kind.replicas_path[:-1], "example.com/x"))
        others = OTHERS.get(kind.kind, (not kind.off,) if isinstance(kind.off, bool) else ())
        for number, value in enumerate(others):
            yield with_value(plain, kind, f"{name}-{number}", value)


def with_value(one: Object, kind: WorkloadKind, name: str, value: Any, path: tuple[str, ...] = ()) -> Object:
    """Return a copy of `one` with `value` at its switch, or at `path`."""
    made = deepcopy(one)
    *parents, key = path or kind.replicas_path
    made["metadata"]["name"] = name
    at = made
    for parent in parents:
        at = at.setdefault(parent, {})
    at[key] = value
    return made


_OURS = ("reconciler/", "idling.kubernetes.io/", "scale.kubernetes.io/")
_COUNTS = "deprecated.daemonset.template.generation"
"""An annotation that the API server counts on with each change of a DaemonSet's template."""


def as_stated(one: Object) -> Object:
    """Return what people state of an object: its labels and annotations that are not ours, and its spec."""
    metadata = one["metadata"]
    texts = metadata.get("annotations", {})
    annotations = {key: text for key, text in texts.items() if not key.startswith(_OURS) and key != _COUNTS}
    return {"annotations": annotations, "labels": metadata.get("labels", {}), "spec": one.get("spec")}


def switch_of(one: Object) -> Any:
    """Return what stands at the switch of an object, None for nothing."""
    group = one["apiVersion"].rpartition("/")[0]
    found: Any = one
    for key in SWITCHES[group, one["kind"]].replicas_path:
        found = found.get(key) if isinstance(found, dict) else None
    return found
