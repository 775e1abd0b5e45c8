"""Objects on a real control plane: create those of `objects.py`, and wait for what the cluster makes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.real.api import Api, ApiError, Object
from tests.real.objects import an_object
from tests.real.processes import READY_AFTER_AT_MOST

# First what others are in, or are of; what refuses others comes last.
_FIRST = ("Namespace", "CustomResourceDefinition", "ClusterRole", "Role", "ServiceAccount", "Node")
_LAST = ("ResourceQuota", "LimitRange", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
_AT_ONCE = 16


T = TypeVar("T")
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Refusal:
    """An admission policy that refuses every change of `resource`, which may name a subresource, in one namespace."""

    says: str
    group: str = "apps"
    resource: str = "deployments"
    when: str = "true"
    """CEL over `object` and `oldObject`."""


def refuse(api: Api, namespace: str, refusal: Refusal) -> None:
    """Make the API server refuse; it does when this returns."""
    name, probe = f"refusal-{namespace}", "refusal-probe"
    rules = [
        {"apiGroups": [refusal.group], "operations": ["UPDATE"], "resources": [refusal.resource]},
        {"apiGroups": [""], "operations": ["CREATE"], "resources": ["configmaps"]},
    ]
    refused = f'object.kind == "ConfigMap" ? object.metadata.name == "{probe}" : ({refusal.when})'
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{**rule, "apiVersions": ["*"]} for rule in rules]},
        "validations": [{"expression": f"!({refused})", "message": refusal.says}],
    }
    within = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": within}
    version = "admissionregistration.k8s.io/v1"
    create(api, [an_object(version, "ValidatingAdmissionPolicy", name, spec=policy)])
    create(api, [an_object(version, "ValidatingAdmissionPolicyBinding", name, spec=binding)])

    def in_force() -> bool:
        try:
            api.request(
                "POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": probe}}, dryRun="All"
            )
        except ApiError as error:
            return error.status == 422
        return False

    wait_until(in_force, f"{name} to be in force")


def create(api: Api, objects: Iterable[Mapping[str, Any]], namespace: str = "") -> list[Object]:
    """Create them all in an order that works, several at once, and their status where they say one; the answers.

    Objects of a namespaced kind that name no namespace go to `namespace`. CRDs are served when this returns.

    Raises:
        ApiError: the first one that was refused.
    """
    ranked: dict[int, list[Mapping[str, Any]]] = {}
    for item in objects:
        ranked.setdefault(_rank(item["kind"]), []).append(item)
    paths = Paths(api)
    answers: list[Object] = []
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _, items in sorted(ranked.items()):
            # Looked up one after another first, so that a kind is asked for once.
            targets = [paths.collection(item, namespace) for item in items]
            answers += threads.map(lambda pair: _create_one(api, *pair), zip(targets, items, strict=True))
            _wait_until_served(api, items)
    return answers


def create_missing(api: Api, objects: Iterable[Mapping[str, Any]], namespace: str = "") -> None:
    """Create those that are not there, such as CRDs that another test on the shared API server made."""
    paths = Paths(api)
    create(api, [item for item in objects if api.find(paths.of(item, namespace)) is None], namespace)


class Paths:
    """Paths of objects by their apiVersion and kind, as the API server's discovery names them; asked for once each."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._found: dict[str, dict[str, tuple[str, bool]]] = {}

    def collection(self, item: Mapping[str, Any], namespace: str = "") -> str:
        """The path of the list that `item` belongs to."""
        version = item["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        kinds = self._found.get(version) or {}
        if item["kind"] not in kinds:
            kinds = self._found[version] = {
                found["kind"]: (found["name"], found["namespaced"])
                for found in self._api.get(root)["resources"]
                if "/" not in found["name"]
            }
        plural, namespaced = kinds[item["kind"]]
        if not namespaced:
            return f"{root}/{plural}"
        return f"{root}/namespaces/{item['metadata'].get('namespace') or namespace or 'default'}/{plural}"

    def of(self, item: Mapping[str, Any], namespace: str = "") -> str:
        """The path of `item` itself."""
        return f"{self.collection(item, namespace)}/{item['metadata']['name']}"


def allow(api: Api, account: str, home: str, rules: Iterable[dict[str, Any]], *, inside: str = "") -> None:
    """Give ServiceAccount `account` of namespace `home` the `rules`, in namespace `inside` or everywhere."""
    kind = "Role" if inside else "ClusterRole"
    where = f"/apis/{RBAC}/v1" + (f"/namespaces/{inside}" if inside else "")
    name = f"{account}-{home}-{abs(hash(str(rules))) % 10**6}"
    api.create(f"{where}/{kind.lower()}s", an_object(f"{RBAC}/v1", kind, name, rules=list(rules)))
    binding = an_object(
        f"{RBAC}/v1",
        f"{kind}Binding",
        name,
        roleRef={"apiGroup": RBAC, "kind": kind, "name": name},
        subjects=[{"kind": "ServiceAccount", "namespace": home, "name": account}],
    )
    api.create(f"{where}/{kind.lower()}bindings", binding)


_GROUPS = {
    "apps/v1": ("deployments", "daemonsets", "statefulsets", "replicasets"),
    "batch/v1": ("cronjobs", "jobs"),
    "apps.kruise.io/v1alpha1": ("clonesets",),
    "keda.sh/v1alpha1": ("scaledobjects",),
    "autoscaling/v2": ("horizontalpodautoscalers",),
    "coordination.k8s.io/v1": ("leases",),
    "discovery.k8s.io/v1": ("endpointslices",),
    "networking.k8s.io/v1": ("networkpolicies",),
    f"{RBAC}/v1": ("roles", "rolebindings"),
}
_ROOTS = {plural: f"/apis/{group}" for group, plurals in _GROUPS.items() for plural in plurals}


def path_of(kind: str, namespace: str = "", *below: str) -> str:
    """Return the path of a kind, or of its plural: of all objects, of those of a namespace, or of what is below."""
    plural = kind.lower().removesuffix("s") + "s"
    inside = ("namespaces", namespace) if namespace else ()
    return "/".join((_ROOTS.get(plural, "/api/v1"), *inside, plural, *below))


def deployment_path(namespace: str, name: str, kind: str = "deployments") -> str:
    return path_of(kind, namespace, name)


def listed(api: Api, kinds: Sequence[str], namespaces: Collection[str]) -> list[tuple[str, Object]]:
    """All objects of these kinds in these namespaces, each with its kind."""
    with ThreadPoolExecutor(len(kinds)) as threads:
        lists = list(threads.map(lambda kind: api.items(path_of(kind)), kinds))
    found = [(kind, one) for kind, items in zip(kinds, lists, strict=True) for one in items]
    return [(kind, one) for kind, one in found if one["metadata"]["namespace"] in namespaces]


def empty(api: Api, kinds: Sequence[str], namespaces: Collection[str]) -> None:
    """Delete all objects of these kinds in these namespaces at once."""
    found = {(kind, one["metadata"]["namespace"]) for kind, one in listed(api, kinds, namespaces)}
    at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(lambda pair: api.delete(path_of(*pair), **at_once), sorted(found)))


def scale(api: Api, namespace: str, name: str, replicas: int, kind: str = "deployments") -> None:
    """Set the replicas, as somebody else than the run under test."""
    api.patch(deployment_path(namespace, name, kind), {"spec": {"replicas": replicas}})


def replicas_of(api: Api, namespace: str, name: str, kind: str = "deployments") -> int:
    return api.get(deployment_path(namespace, name, kind))["spec"]["replicas"]


def pods_of(api: Api, namespace: str, name: str = "", *, running: bool = False) -> list[Object]:
    """The pods, of one Deployment where named, that are not being deleted; only Running ones where asked for."""
    query = {"labelSelector": f"app={name}"} if name else {}
    pods = api.items(f"/api/v1/namespaces/{namespace}/pods", **query)
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return [pod for pod in staying if pod["status"].get("phase") == "Running" or not running]


def wait_for_ready(api: Api, namespace: str, name: str, count: int, kind: str = "deployments") -> None:
    """Return when exactly `count` pods are there and ready, and the status says so of the present generation."""

    def ready() -> bool:
        found = api.get(deployment_path(namespace, name, kind))
        status = found.get("status", {})
        seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        rolled_out = kind != "deployments" or status.get("updatedReplicas", 0) == count
        return seen and rolled_out and status.get("replicas", 0) == status.get("readyReplicas", 0) == count

    wait_until(ready, f"{count} ready pods of {namespace}/{name}")
    wait_until(lambda: len(pods_of(api, namespace, name)) == count, f"{count} pods of {namespace}/{name}")


def wait_until(true: Callable[[], T], what: str, seconds: float = READY_AFTER_AT_MOST) -> T:
    """Return what `true` returns once it is true; it comes soon, and is waited for long on a busy machine.

    Raises:
        TimeoutError: it did not come.
    """
    deadline = time.monotonic() + seconds
    while not (found := true()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not after {seconds:.0f} s, expected {what}")
        time.sleep(0.1)
    return found


def wait_for_pods(api: Api, namespace: str, count: int, seconds: float = 300) -> None:
    """Return when `count` pods of the namespace are Running; Deployments count them, pods by the thousand are large."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def running() -> bool:
        ready = sum(item.get("status", {}).get("readyReplicas", 0) for item in api.items(path))
        if ready < count:
            time.sleep(0.5)
        return ready == count

    wait_until(running, f"{count} Running pods in {namespace}", seconds)


def _create_one(api: Api, path: str, item: Mapping[str, Any]) -> Object:
    created = api.create(path, item)
    if "status" not in item or item["kind"] == "Node":
        return created  # of a Node, the status at creation counts
    return api.patch(f"{path}/{item['metadata']['name']}/status", {"status": item["status"]})


def _wait_until_served(api: Api, items: Sequence[Mapping[str, Any]]) -> None:
    for item in items:
        if item["kind"] == "CustomResourceDefinition":
            group, names = item["spec"]["group"], item["spec"]["names"]
            path = f"/apis/{group}/{item['spec']['versions'][0]['name']}"
            wait_until(lambda at=path, plural=names["plural"]: _is_served(api, at, plural), f"{path} to be served")


@contextmanager
def served_meanwhile(api: Api, definitions: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Serve custom kinds, and wait at the end until nothing says any more that they are served."""
    create(api, definitions)
    try:
        yield
    finally:
        for one in definitions:
            api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{one['metadata']['name']}")
        for one in definitions:
            wait_until_unserved(api, one["spec"]["group"])


def wait_until_unserved(api: Api, group: str) -> None:
    """Wait until nothing says any more that `group` is served: the one document with all groups is the last to."""
    asked = api.with_headers({"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
    wait_until(
        lambda: group not in {one["metadata"].get("name") for one in asked.get("/apis")["items"]},
        f"/apis/{group} to be gone",
    )


def _is_served(api: Api, path: str, plural: str) -> bool:
    try:
        listed = [found["name"] for found in api.get(path)["resources"]]
        return plural in listed and bool(api.get(f"{path}/{plural}", limit=1))
    except ApiError as error:
        if error.status in (404, 503):
            return False
        raise


def _rank(kind: str) -> int:
    if kind in _FIRST:
        return _FIRST.index(kind)
    return len(_FIRST) + (_LAST.index(kind) + 1 if kind in _LAST else 0)
