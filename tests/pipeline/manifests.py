"""Policies and objects as YAML: a test says what it cares about, the rest is filled in."""

from __future__ import annotations

from collections.abc import Iterable

UNLIMITED = "limits: {default: {perCluster: {share: 100%}, fleet: {share: 100%}}}"
NIGHTLY = '"Mon-Sun 20:00-07:00"'


def documents(*texts: str) -> str:
    return "---\n".join(texts)


def policy(kind: str, name: str, *spec: str, namespace: str = "") -> str:
    """A policy; `spec` is what stands there, line by line."""
    within = f", namespace: {namespace}" if namespace else ""
    lines = "".join(f"  {line}\n" for line in spec)
    return f"apiVersion: reconciler/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}{within}}}\nspec:\n{lines}"


def fleet(clusters: Iterable[str], *more: str, name: str = "f", home: str = "") -> str:
    """A Fleet of clusters, each by its name or as what stands in the list; home is the first."""
    found = list(clusters)
    listed = ", ".join(one if one.startswith("{") else f"{{name: {one}}}" for one in found)
    return policy("Fleet", name, f"home: {home or found[0]}", f"clusters: [{listed}]", *more)


def idling(selector: str, *more: str, name: str = "nights", downtime: str = NIGHTLY, zone: str = "UTC") -> str:
    schedule = f"idleWhen: [{{schedule: {{timeZone: {zone}, downtime: [{downtime}]}}}}]"
    return policy("IdlingPolicy", name, f"selector: {{{selector}}}", schedule, *more)


def downscale(selector: str, replicas: int, *more: str, name: str = "less") -> str:
    return policy("DownscalePolicy", name, f"selector: {{{selector}}}", f"target: {{replicas: {replicas}}}", *more)


def target_ref(name: str = "web") -> str:
    return f"targetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}"


def template(app: str = "web", image: str = "web:1") -> str:
    """A selector of pods and their template."""
    container = f'{{name: main, image: "{image}"}}'
    pod = f"{{metadata: {{labels: {{app: {app}}}}}, spec: {{containers: [{container}]}}}}"
    return f"selector: {{matchLabels: {{app: {app}}}}}\n  template: {pod}"


def placed(replicas: int, clusters: str, *more: str, name: str = "web", namespace: str = "shop") -> str:
    """A FederatedReplicaSet; `more` has its targetRef or template."""
    preferences = f"preferences: {{{clusters}}}"
    return policy("FederatedReplicaSet", name, f"replicas: {replicas}", preferences, *more, namespace=namespace)


def weights(*clusters: str) -> str:
    """Preferences in which each of `clusters` has the same weight."""
    listed = ", ".join(f'"{name}": {{weight: 1}}' for name in clusters)
    return f"rebalance: true, clusters: {{{listed}}}"


def an_object(kind: str, name: str, namespace: str = "", *spec: str, metadata: str = "", version: str = "v1") -> str:
    """An object; `metadata` is more of it, as in a flow mapping."""
    within = f", namespace: {namespace}" if namespace else ""
    more = f", {metadata}" if metadata else ""
    lines = "".join(f"  {line}\n" for line in spec)
    head = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}{within}{more}}}\n"
    return f"{head}spec:\n{lines}" if spec else head


def workload(
    name: str = "web",
    namespace: str = "shop",
    replicas: int = 2,
    *,
    kind: str = "Deployment",
    app: str = "",
    metadata: str = "",
) -> str:
    spec = (f"replicas: {replicas}", template(app or name))
    return an_object(kind, name, namespace, *spec, metadata=metadata, version="apps/v1")


def service(name: str = "web", namespace: str = "shop", *, app: str = "", metadata: str = "") -> str:
    return an_object("Service", name, namespace, f"selector: {{app: {app or name}}}", metadata=metadata)


def cron_job(name: str, namespace: str, *spec: str) -> str:
    pod = "{restartPolicy: Never, containers: [{name: job, image: job}]}"
    job = f"jobTemplate: {{spec: {{template: {{spec: {pod}}}}}}}"
    return an_object("CronJob", name, namespace, 'schedule: "0 2 * * *"', job, *spec, version="batch/v1")


def autoscaler(name: str = "web", namespace: str = "shop", least: int = 1, most: int = 5) -> str:
    target = f"scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}}"
    spec = (target, f"minReplicas: {least}", f"maxReplicas: {most}")
    return an_object("HorizontalPodAutoscaler", name, namespace, *spec, version="autoscaling/v2")


def identity(cluster: str) -> str:
    """The namespace by which a cluster is known."""
    return an_object("Namespace", "kube-system", metadata=f"uid: {cluster}-uid")


APP_AT_NIGHT = idling("namespaces: {include: [app]}, services: {}", name="idle-nights")
ONE_CLUSTER = documents(fleet(["east"], name="mine"), APP_AT_NIGHT)
TWO_CLUSTERS = documents(
    fleet(["east", "west"], name="small"),
    idling("namespaces: {include: [dev]}, services: {}", name="idle-dev", downtime='"Sat 01:00-02:00"'),
)
"""Policies that have little to do."""
