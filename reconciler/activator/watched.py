"""The objects of one resource, as a watch says they are, by the Service or the namespace that they are about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, KeysView
from typing import Generic, TypeVar

from reconciler.activator.objects import NamespacedName, WatchedObject
from reconciler.backends.kubernetes.watch import WatchedResource

K = TypeVar("K")
W = TypeVar("W", bound=WatchedObject)


class WatchedObjects(Generic[K, W]):
    """Objects of `resource`; `about` returns what an object is about, None for one that is not kept."""

    def __init__(self, resource: WatchedResource[W], about: Callable[[W], K | None]) -> None:
        self.resource = resource
        self._about = about
        self._keys: dict[NamespacedName, K] = {}
        self._objects: dict[K, dict[NamespacedName, W]] = {}

    def __iter__(self) -> Iterator[W]:
        """Yield all of them, from any thread."""
        return (one for inside in tuple(self._objects.values()) for one in tuple(inside.values()))

    def keys(self) -> KeysView[K]:
        """Return what they are about."""
        return self._objects.keys()

    def of(self, key: K) -> Collection[W]:
        """Return those that are about `key`, the one that changed last at the end."""
        return self._objects.get(key, {}).values()

    def replace(self, objects: Iterable[W]) -> None:
        """Take `objects` for all that there are."""
        self._keys, self._objects = {}, {}
        for one in objects:
            self.change(one.name, one)

    def change(self, name: NamespacedName, changed: W | None) -> set[K]:
        """Take in how an object is now, None: it is gone; return what it is about, and was."""
        keys = set()
        if name in self._keys:
            former = self._keys.pop(name)
            del self._objects[former][name]
            if not self._objects[former]:
                del self._objects[former]
            keys.add(former)
        key = None if changed is None else self._about(changed)
        if changed is not None and key is not None:
            self._keys[name] = key
            self._objects.setdefault(key, {})[name] = changed
            keys.add(key)
        return keys
