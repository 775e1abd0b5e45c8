"""The Deployment of kube-downscaler, py-kube-downscaler or GoKubeDownscaler: what its flags and variables say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.backends.patched_values import value_below
from reconciler.importing.manifests import Manifest, mappings

_IMAGE = re.compile(r"(?:^|/)(?:[a-z-]+-)?(?:kube-?downscaler|gokubedownscaler)(?:[:@]|$)", re.IGNORECASE)
_WITHOUT_VALUE = {"debug", "dry-run", "enable-events", "explicit-include", "json-logs", "once", "upscale-target-only"}
_DEFAULTS = {"exclude-namespaces": "kube-system", "include-resources": "deployments", "grace-period": "900"}
_DEFAULTS_OF_PY = {"exclude-deployments": "py-kube-downscaler,kube-downscaler,downscaler"}
_DEFAULTS_OF_GO = {"exclude-namespaces": "kube-system,kube-downscaler"}
_VARIABLES_FIRST = ("exclude-namespaces", "exclude-deployments")
"""In GoKubeDownscaler, where their variables win over their flags."""


class Controller(Struct, frozen=True):
    """What the controller is told. `manifest` None: it is not among the manifests, and has its defaults."""

    manifest: Manifest | None
    flags: Mapping[str, str]
    scopes: Sequence[Mapping[str, str]] = ({},)
    """Where the flags come from, where each place decides alone; the closest first."""

    def flag(self, name: str) -> str:
        """Return the value of a flag, "" for none."""
        return self.flags.get(name, _DEFAULTS.get(name, ""))

    def is_set(self, name: str) -> bool:
        """Return whether a flag is there, and not false."""
        return self.flag(name).lower() not in ("", "false")

    def listed(self, name: str) -> list[str]:
        """Return the values of a flag that has several, with commas between them."""
        return [part.strip() for part in self.flag(name).split(",") if part.strip()]


def controller_of(manifests: Iterable[Manifest], go: bool) -> Controller:
    """Return the controller of kube-downscaler, GoKubeDownscaler or one of their relatives among `manifests`.

    Source: GoKubeDownscaler, internal/pkg/util/config.go, GetDefaultConfig and ParseConfigEnvVars.
    """
    every = list(manifests)
    defaults = _DEFAULTS_OF_GO if go else _DEFAULTS_OF_PY
    config = {(one.namespace, one.name): one.texts("data") for one in every if one.kind == "ConfigMap"}
    for manifest in every:
        for container in mappings(manifest.at("spec", "template", "spec", "containers")):
            if _IMAGE.search(str(container.get("image", ""))) and "webhook" not in manifest.name:
                variables, arguments = _variables(manifest, container, config), _arguments(container)
                first = {name: variables[name] for name in _VARIABLES_FIRST if go and name in variables}
                flags = {**defaults, **variables, **arguments, **first}
                return Controller(manifest, flags, (arguments, variables) if go else (flags,))
    return Controller(None, defaults)


def _variables(
    manifest: Manifest, container: Mapping[str, object], config: Mapping[tuple[str, str], Mapping[str, str]]
) -> dict[str, str]:
    """Return the environment variables by the names of their flags: DEFAULT_UPTIME as default-uptime."""
    found: dict[str, str] = {}
    for source in mappings(container.get("envFrom")):
        found |= config.get((manifest.namespace, str(value_below(source, ("configMapRef", "name")))), {})
    for variable in mappings(container.get("env")):
        key = value_below(variable, ("valueFrom", "configMapKeyRef"))
        value = variable.get("value")
        if key is not None:
            value = config.get((manifest.namespace, str(key.get("name"))), {}).get(str(key.get("key")))
        if value is not None:
            found[str(variable.get("name"))] = str(value)
    return {name.lower().replace("_", "-"): value for name, value in found.items()}


def _arguments(container: Mapping[str, object]) -> dict[str, str]:
    given = [part for key in ("command", "args") if isinstance(part := container.get(key), list)]
    texts = [str(argument) for part in given for argument in part]
    found: dict[str, str] = {}
    for place, text in enumerate(texts):
        name, is_set, value = text.lstrip("-").partition("=")
        if not text.startswith("-"):
            continue
        if not is_set:
            value = "true" if name in _WITHOUT_VALUE or place + 1 == len(texts) else texts[place + 1]
        found[name] = value
    return found
