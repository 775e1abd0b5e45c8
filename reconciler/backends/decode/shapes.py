"""Which struct each kind decodes to, and decoding to it, from JSON bytes and from values alike."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

from reconciler.backends.decode import objects, workloads
from reconciler.backends.decode.instants import Instant, instant
from reconciler.backends.decode.metadata import Object, Wire

T = TypeVar("T")

SHAPES: dict[tuple[str, str], type[Wire]] = {
    ("apps", "Deployment"): workloads.AppsWorkload,
    ("apps", "StatefulSet"): workloads.AppsWorkload,
    ("apps", "ReplicaSet"): workloads.ReplicaSet,
    ("", "ReplicationController"): workloads.ReplicationController,
    ("batch", "CronJob"): workloads.CronJob,
    ("keda.sh", "ScaledObject"): workloads.ScaledObject,
    ("autoscaling", "HorizontalPodAutoscaler"): objects.HorizontalPodAutoscaler,
    ("", "Service"): objects.Service,
    ("", "Endpoints"): objects.Endpoints,
    ("discovery.k8s.io", "EndpointSlice"): objects.EndpointSlice,
    ("", "Namespace"): Object,
    ("", "Node"): Object,
    ("", "Event"): objects.Event,
    ("", "ConfigMap"): objects.ConfigMap,
    ("", "Secret"): objects.Secret,
    ("", "Pod"): objects.Pod,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): objects.CustomResourceDefinition,
}
"""(group, kind) -> the shape of those objects. Kinds with a scale that are not here are `workloads.Custom`."""


def read_custom(kind: type, value: Any) -> Any:
    """Return `value` as the custom type `kind`; msgspec calls this for types it does not know.

    Raises:
        ValueError, msgspec.ValidationError: it is none.
    """
    if kind is Instant and isinstance(value, str):
        return instant(value)
    if kind is workloads.WholeTemplate and isinstance(value, dict):
        return workloads.WholeTemplate(value, decoded_value(workloads.PodTemplate, value))
    raise ValueError(f"no {kind.__name__}")


def decoded_value(shape: type[T], value: Any) -> T:
    """Return parsed JSON or YAML as `shape`.

    Raises:
        msgspec.ValidationError: it is not of that shape.
    """
    _decoder_of(shape)  # so that msgspec knows the type
    return msgspec.convert(value, shape, dec_hook=read_custom)


def decoded_json(shape: type[T], data: bytes | bytearray | msgspec.Raw) -> T:
    """Return JSON bytes as `shape`.

    Raises:
        msgspec.DecodeError: they are not JSON, or not of that shape (msgspec.ValidationError).
    """
    return _decoder_of(shape).decode(data)


_making = threading.Lock()
_made: dict[Any, Any] = {}


def _decoder_of(shape: type[T]) -> msgspec.json.Decoder[T]:
    """Return the one decoder of `shape`, made by one thread at a time.

    msgspec looks at a type when it first meets it, and notes on the type, unguarded, what it found: threads that meet
    one at the same time end the process (seen with msgspec 0.22). After this it knows `shape` and all that is in it.
    """
    with _making:
        if shape not in _made:
            _made[shape] = msgspec.json.Decoder(shape, dec_hook=read_custom)
        made: msgspec.json.Decoder[T] = _made[shape]
        return made
