"""The parts of a kubeconfig, each with its place, and the errors where one cannot be used."""

from __future__ import annotations

from typing import Any


class KubeconfigError(Exception):
    """A kubeconfig, or a pod's service account, cannot be used: what is, without what is secret."""


class CredentialError(Exception):
    """There are no credentials: what is, without what is secret."""


class ConfigNode:
    """A mapping of a kubeconfig: `name` is its place, `folder` that of its file, which relative paths start from.

    Raises:
        KubeconfigError: `value` is no mapping.
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
        """Return whether `key` is true; False where it is absent.

        Raises:
            KubeconfigError: it is something else.
        """
        found = self.value.get(key, False)
        if not isinstance(found, bool):
            raise KubeconfigError(f"{key} of {self.name} is neither true nor false")
        return found

    def text(self, key: str) -> str:
        """Return the text that `key` has, "" for none.

        Raises:
            KubeconfigError: it is something else.
        """
        found = self.value.get(key)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise KubeconfigError(f"{key} of {self.name} is no text")
        return found

    def required_text(self, key: str) -> str:
        """Return the text that `key` has.

        Raises:
            KubeconfigError: there is none.
        """
        _ = self[key]
        return self.text(key)

    def texts(self, key: str) -> list[str]:
        """Return the texts in the list that `key` has, none where it is missing.

        Raises:
            KubeconfigError: it is something else.
        """
        return texts_in(self.get(key), f"{key} of {self.name}")

    def node(self, key: str) -> ConfigNode:
        """Return the mapping that `key` has.

        Raises:
            KubeconfigError: there is none.
        """
        return ConfigNode(f"{self.name}/{key}", self[key], self.folder)

    def nodes(self, key: str) -> list[ConfigNode]:
        """Return the mappings in the list that `key` has, none where it is missing.

        Raises:
            KubeconfigError: it is something else.
        """
        found = self.value.get(key) or []
        if not isinstance(found, list):
            raise KubeconfigError(f"{key} of {self.name} is no list")
        return [ConfigNode(f"{self.name}/{key}[{index}]", value, self.folder) for index, value in enumerate(found)]


def texts_in(values: Any, where: str) -> list[str]:
    """Return `values`, a list of texts, none for None; `where` names it in errors.

    Raises:
        KubeconfigError: it is something else.
    """
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise KubeconfigError(f"{where} is no list of texts")
    return values
