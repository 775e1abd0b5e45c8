"""The parts of a kubeconfig, each with its place, and the errors where one cannot be used."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import ValidationError, convert

T = TypeVar("T")


class KubeconfigError(Exception):
    """A kubeconfig, or a pod's service account, cannot be used: what is, without what is secret."""


class CredentialError(Exception):
    """There are no credentials: what is, without what is secret."""


class ConfigNode:
    """A mapping of a kubeconfig: `name` is its place, `folder` that of its file, which relative paths start from. What
    is absent, or null, counts as empty.

    Raises:
        KubeconfigError: `value` is no mapping; and so do all methods where a key has something else, or lacks what has
        to be there.
    """

    def __init__(self, name: str, value: Any, folder: str = "") -> None:
        if not isinstance(value, dict):
            raise KubeconfigError(f"{name} is no mapping")
        self.name = name
        self.value: dict[str, Any] = value
        self.folder = folder

    def get(self, key: str) -> Any:
        """Return what `key` has, None for nothing."""
        return self.value.get(key)

    def __getitem__(self, key: str) -> Any:
        found = self.value.get(key)
        if found is None:
            raise KubeconfigError(f"no key {key} in {self.name}")
        return found

    def is_set(self, key: str) -> bool:
        """Return whether `key` is true."""
        return self._read(key, bool, "neither true nor false")

    def text(self, key: str) -> str:
        return self._read(key, str, "no text")

    def required_text(self, key: str) -> str:
        """Return the text that `key` has to have."""
        _ = self[key]
        return self.text(key)

    def texts(self, key: str) -> list[str]:
        return self._read(key, list[str], "no list of texts")

    def node(self, key: str) -> ConfigNode:
        """Return the mapping that `key` has to have."""
        return ConfigNode(f"{self.name}/{key}", self[key], self.folder)

    def nodes(self, key: str) -> list[ConfigNode]:
        """Return the mappings in the list that `key` has."""
        found = enumerate(self._read(key, list[Any], "no list"))
        return [ConfigNode(f"{self.name}/{key}[{index}]", value, self.folder) for index, value in found]

    def _read(self, key: str, shape: type[T], words: str) -> T:
        try:
            return shape() if self.get(key) is None else convert(self.get(key), shape)
        except ValidationError:
            raise KubeconfigError(f"{key} of {self.name} is {words}") from None
