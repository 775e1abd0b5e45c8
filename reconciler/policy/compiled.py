"""Validated policies as JSON values: the desired-state rules after all defaults, in the words of the policy language.

Each rule is a policy again, so it can be read, compared and even applied like one. Only its place is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.labels import LabelSelector
from reconciler.model import PickerHeader, PodPicker, PrometheusConnection
from reconciler.policy.durations import spelt_duration, spelt_share
from reconciler.policy.types import (
    AbsoluteWindow,
    AnyOf,
    Calendar,
    Criterion,
    DownscalePolicy,
    DownscaleTarget,
    FederatedReplicaSet,
    Fleet,
    FleetCluster,
    IdlingPolicy,
    Limits,
    MetricCriterion,
    ObjectSelector,
    Place,
    PolicySet,
    ScheduleCriterion,
    Selector,
)

API_VERSION = "reconciler/v1alpha1"
_Json = dict[str, Any]


def compile_policies(policies: PolicySet) -> dict[str, Any]:
    """Return every rule with every default filled in: the Fleet, then each kind by name, each with its place.

    Both forms of a federated ReplicaSet become one. What is absent where a choice is offered is left out.
    """
    rules = [
        _rule("Fleet", policies.fleet.name, policies.fleet.place, _fleet(policies.fleet)),
        *(_rule("Calendar", one.name, one.place, _calendar(one)) for one in policies.calendars),
        *(_rule("IdlingPolicy", one.name, one.place, _idling(one)) for one in policies.idling),
        *(_federated_rule(one) for one in policies.federated),
        *(_rule("DownscalePolicy", one.name, one.place, _downscale(one)) for one in policies.downscale),
    ]
    head = {"schemaVersion": API_VERSION, "kind": "Rules", "digest": policies.digest}
    return {**head, "rules": rules, "warnings": list(policies.warnings)}


def _rule(kind: str, name: str, place: Place, spec: _Json) -> _Json:
    return {"at": str(place), "apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _federated_rule(policy: FederatedReplicaSet) -> _Json:
    rule = _rule("FederatedReplicaSet", policy.name, policy.place, _federated(policy))
    rule["metadata"] |= {
        "namespace": policy.namespace,
        "labels": dict(sorted(policy.labels.items())),
        "annotations": dict(sorted(policy.annotations.items())),
    }
    return rule


def _given(**fields: Any) -> _Json:
    """Return the fields that have a value; where a choice is offered the others are absent."""
    return {name: value for name, value in fields.items() if value is not None}


def _fleet(fleet: Fleet) -> _Json:
    return {
        "formerNames": list(fleet.former_names),
        "home": fleet.home,
        "namespace": fleet.namespace,
        "clusters": [_cluster(cluster) for cluster in fleet.clusters],
        "limits": _limits(fleet.limits),
        "protectedNamespaces": list(fleet.protected_namespaces),
        "podPickers": {"allowedHosts": list(fleet.allowed_picker_hosts)},
    }


def _cluster(cluster: FleetCluster) -> _Json:
    reached = cluster.connection
    return {
        "name": cluster.name,
        "labels": dict(sorted(cluster.labels.items())),
        "connection": {
            "inCluster": reached.in_cluster,
            "kubeconfig": reached.kubeconfig,
            "context": reached.context,
        },
        **_given(prometheus=None if reached.prometheus is None else _prometheus(reached.prometheus)),
        "state": cluster.state,
    }


def _prometheus(reached: PrometheusConnection) -> _Json:
    login = {"username": reached.username, "passwordFile": reached.password_file}
    return {
        "url": reached.url,
        "bearerTokenFile": reached.bearer_token_file,
        **_given(basicAuth=None if reached.username is None else login),
        "headers": dict(reached.headers),
        "caFile": reached.ca_file,
        "certFile": reached.certificate_file,
        "keyFile": reached.key_file,
        "proxyUrl": reached.proxy_url,
    }


def _limits(limits: Limits) -> _Json:
    stated = {"idledWorkloads": limits.idled_workloads, "removedReplicas": limits.removed_replicas}
    return {
        name: {"share": spelt_share(limit.share), "atLeast": limit.at_least}
        for name, limit in stated.items()
        if limit is not None
    }


def _calendar(calendar: Calendar) -> _Json:
    return {
        "timeZone": calendar.zone_name,
        calendar.field: list(calendar.texts),
        "exceptions": [_exception(window) for window in calendar.exceptions],
    }


def _exception(window: AbsoluteWindow) -> _Json:
    exact = "seconds" if window.start.second or window.end.second else "minutes"
    start, end = window.start.isoformat(timespec=exact), window.end.isoformat(timespec=exact)
    return {"from": start, "to": end, "reason": window.reason}


def _labels(selector: LabelSelector) -> _Json:
    return {
        "matchLabels": dict(selector.match_labels),
        "matchExpressions": [
            {"key": one.key, "operator": one.operator, "values": list(one.values)} for one in selector.match_expressions
        ],
    }


def _selector(selector: Selector) -> _Json:
    workloads = selector.workloads
    return {
        "clusters": _objects(selector.clusters),
        "namespaces": _objects(selector.namespaces),
        **_given(
            services=None if selector.services is None else _objects(selector.services),
            workloads=None if workloads is None else {"kinds": list(workloads.kinds), **_objects(workloads.objects)},
        ),
    }


def _objects(selector: ObjectSelector) -> _Json:
    return {"include": list(selector.include), "exclude": list(selector.exclude), **_labels(selector.labels)}


def _idling(policy: IdlingPolicy) -> _Json:
    return {
        "mode": policy.mode,
        "priority": policy.priority,
        "selector": _selector(policy.selector),
        "idleWhen": [_criterion(criterion) for criterion in policy.idle_when.criteria],
        "minAge": spelt_duration(policy.min_age),
        "minAwake": spelt_duration(policy.min_awake),
        "idleReplicas": policy.idle_replicas,
        "wakeWhen": [
            {"metric": {"query": metric.query, "above": metric.above, "window": metric.window}}
            for metric in policy.wake_when
        ],
        "wake": policy.wake,
        "wakeOrder": {
            "group": policy.wake_order.group,
            "tier": policy.wake_order.tier,
            "perRun": policy.wake_order.per_run,
        },
        "autoscalers": {"hpa": policy.hpa, "keda": policy.keda},
        "markEndpoints": policy.mark_endpoints,
        "limits": _limits(policy.limits),
    }


def _criterion(criterion: Criterion) -> _Json:
    if isinstance(criterion, MetricCriterion):
        return {**_given(name=criterion.name or None), "metric": _metric(criterion)}
    if isinstance(criterion, ScheduleCriterion):
        calendar = criterion.calendar
        return {"schedule": {"calendar": calendar.name} if calendar.name else _calendar(calendar)}
    word = "anyOf" if isinstance(criterion, AnyOf) else "allOf"
    return {word: [_criterion(inner) for inner in criterion.criteria]}


def _metric(metric: MetricCriterion) -> _Json:
    return {
        "query": metric.query,
        "atMost": metric.at_most,
        "window": metric.window,
        **_given(coverage=metric.coverage, coverageAtLeast=metric.coverage_at_least),
        "noSeries": metric.no_series,
    }


def _federated(policy: FederatedReplicaSet) -> _Json:
    target = policy.target
    return {
        "replicas": policy.replicas,
        "minReadySeconds": policy.min_ready_seconds,
        "preferences": {
            "rebalance": policy.rebalance,
            "clusters": {
                name: {"minReplicas": one.min_replicas, "maxReplicas": one.max_replicas, "weight": one.weight}
                for name, one in sorted(policy.clusters.items())
            },
        },
        "rounding": policy.rounding,
        "paused": policy.paused,
        "unschedulableAfter": spelt_duration(policy.unschedulable_after),
        "waitingReplicas": policy.waiting_replicas,
        "clusterGracePeriod": spelt_duration(policy.cluster_grace_period),
        "progressDeadline": spelt_duration(policy.progress_deadline),
        "onConflict": policy.on_conflict,
        "onDelete": policy.on_delete,
        **_given(
            selector=_plain(policy.selector),
            template=_plain(policy.template),
            targetRef=None
            if target is None
            else {"apiVersion": target.api_version, "kind": target.kind, "name": target.name},
            downscalePodPicker=_picker(policy.pod_picker),
        ),
    }


def _plain(manifest: Mapping[str, Any] | None) -> _Json | None:
    return None if manifest is None else dict(manifest)


def _downscale(policy: DownscalePolicy) -> _Json:
    return {
        "mode": policy.mode,
        "priority": policy.priority,
        "selector": _selector(policy.selector),
        **_given(target=_target(policy.target), podPicker=_picker(policy.pod_picker)),
        "strategy": policy.strategy,
        "logarithm": {"base": policy.logarithm_base},
        "zoneBalanced": {"topologyKey": policy.topology_key},
        "onForeignCost": policy.on_foreign_cost,
        "settleSeconds": policy.settle_seconds,
        "verifySeconds": policy.verify_seconds,
    }


def _target(target: DownscaleTarget | None) -> _Json | None:
    if target is None:
        return None
    return {
        **_given(query=target.query, replicas=target.replicas),
        "min": target.minimum,
        "max": target.maximum,
        "direction": target.direction,
    }


def _picker(picker: PodPicker | None) -> _Json | None:
    if picker is None:
        return None
    return {
        "http": {
            "host": picker.host,
            "port": picker.port,
            "scheme": picker.scheme,
            "path": picker.path,
            "httpHeaders": [_header(header) for header in picker.headers],
            "caBundle": picker.ca_bundle,
            "allowInsecureAuth": picker.allow_insecure_auth,
        },
        "maxRetries": picker.max_retries,
        "timeoutSeconds": picker.timeout_seconds,
        "onError": picker.on_error,
        "onTooFew": picker.on_too_few,
    }


def _header(header: PickerHeader) -> _Json:
    if header.secret is None:
        return {"name": header.name, "value": header.value}
    name, key = header.secret
    return {"name": header.name, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}
