"""Decoding to the shapes of objects, from JSON bytes and from values alike."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

from reconciler.backends.decode import shapes
from reconciler.backends.decode.wire import Instant, Number, Object, Wire, instant, number

T = TypeVar("T")

SHAPES: dict[tuple[str, str], type[Wire]] = {
    ("apps", "Deployment"): shapes.AppsWorkload,
    ("apps", "StatefulSet"): shapes.AppsWorkload,
    ("apps", "ReplicaSet"): shapes.ReplicaSet,
    ("", "ReplicationController"): shapes.ReplicationController,
    ("batch", "CronJob"): shapes.CronJob,
    ("keda.sh", "ScaledObject"): shapes.ScaledObject,
    ("autoscaling", "HorizontalPodAutoscaler"): shapes.HorizontalPodAutoscaler,
    ("", "Service"): shapes.Service,
    ("", "Endpoints"): shapes.Endpoints,
    ("discovery.k8s.io", "EndpointSlice"): shapes.EndpointSlice,
    ("", "Namespace"): Object,
    ("", "Node"): Object,
    ("", "Event"): shapes.Event,
    ("", "ConfigMap"): shapes.ConfigMap,
    ("", "Secret"): shapes.Secret,
    ("", "Pod"): shapes.Pod,
    ("coordination.k8s.io", "Lease"): shapes.Lease,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): shapes.CustomResourceDefinition,
}
"""(group, kind) -> the shape of those objects. Kinds with a scale that are not here are `Custom`."""


def read_custom(kind: type, value: Any) -> Any:
    """Return `value` as the custom type `kind`; msgspec calls this for types it does not know.

    Raises:
        ValueError, msgspec.ValidationError: it is none.
    """
    if kind is Instant and isinstance(value, str):
        return instant(value)
    if kind is Number:
        return number(value)
    if kind is shapes.WholeTemplate and isinstance(value, dict):
        return shapes.WholeTemplate(value, decoded_value(shapes.PodTemplate, value))
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
