"""What stands or falls together: Services and scalables that share one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reconciler.decide.idling.situations import Ruling
from reconciler.decide.idling.targets import Front
from reconciler.model import ObjectRef


def groups_of(rulings: Iterable[Ruling], together: Iterable[tuple[ObjectRef, ...]] = ()) -> dict[ObjectRef, str]:
    """Return the group of each scalable and each Service in front of one.

    Services that share a scalable, scalables that share a Service, and the members of each of `together` are one
    group. It is named after its first Service ("idling/east/dev-a/Service/api"), or its first scalable without one.
    """
    parents: dict[ObjectRef, ObjectRef] = {}
    for ruling in rulings:
        _find(parents, ruling.ref)
        for front in ruling.target.fronts:
            if is_marking(front):
                _join(parents, ruling.ref, front.ref)
    for members in together:
        for other in members[1:]:
            _join(parents, members[0], other)
    return _named(parents)


def is_marking(front: Front) -> bool:
    """Return whether marks on the Service are read or written; one that only opts out is left as it is."""
    return bool(front.bids) or front.is_marked


def _find(parents: dict[ObjectRef, ObjectRef], ref: ObjectRef) -> ObjectRef:
    parents.setdefault(ref, ref)
    while parents[ref] != ref:
        parents[ref] = parents[parents[ref]]
        ref = parents[ref]
    return ref


def _join(parents: dict[ObjectRef, ObjectRef], one: ObjectRef, other: ObjectRef) -> None:
    first, second = sorted((_find(parents, one), _find(parents, other)))
    parents[second] = first


def _named(parents: Mapping[ObjectRef, ObjectRef]) -> dict[ObjectRef, str]:
    members: dict[ObjectRef, list[ObjectRef]] = {}
    working = dict(parents)
    for ref in parents:
        members.setdefault(_find(working, ref), []).append(ref)
    return {ref: group_name(min(inside, key=_first)) for inside in members.values() for ref in inside}


def _first(ref: ObjectRef) -> tuple[bool, ObjectRef]:
    return (ref.kind != "Service", ref)


def group_name(ref: ObjectRef) -> str:
    """Return the name of the group that `ref` gives its name to."""
    return f"idling/{ref}"
