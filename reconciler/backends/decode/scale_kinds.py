"""CustomResourceDefinitions -> the kinds with a scale that they define."""

from __future__ import annotations

import re

from reconciler.backends.decode.objects import (
    CustomResourceDefinition,
    CustomResourceDefinitionSpec,
    CustomVersion,
    ScaleSubresource,
    Subresources,
)
from reconciler.model import ScaleKind

_VERSION = re.compile(r"v(\d{1,18})(?:(alpha|beta)(\d{1,18}))?", re.ASCII)
_STAGES = {"alpha": 0, "beta": 1, None: 2}


def scale_kind_of(definition: CustomResourceDefinition) -> ScaleKind | None:
    """Return the kind with its paths of replicas, None where no served version has a scale.

    Of several versions with a scale the stored one counts, then the one the API server prefers (v2, v1, v1beta1, ...).

    Source: apiextensions/v1 types.go, CustomResourceSubresourceScale; apimachinery pkg/version,
    CompareKubeAwareVersionStrings.
    """
    spec = definition.spec
    found = [version for version in _versions(spec) if version.served is not False and _scale(version) is not None]
    if not found:
        return None
    version = max(found, key=lambda one: (one.storage is True, _priority(one.name)))
    scale = _scale(version)
    assert scale is not None
    return ScaleKind(
        group=spec.group,
        version=version.name,
        kind=spec.names.kind,
        plural=spec.names.plural,
        replicas_path=_path(scale.spec_replicas_path),
        status_path=_path(scale.status_replicas_path),
    )


def _versions(spec: CustomResourceDefinitionSpec) -> list[CustomVersion]:
    """v1beta1 may name one version, and subresources for all of them, at the top."""
    versions = spec.versions or ([CustomVersion(spec.version)] if spec.version else [])
    return [CustomVersion(one.name, one.served, one.storage, one.subresources or spec.subresources) for one in versions]


def _scale(version: CustomVersion) -> ScaleSubresource | None:
    return (version.subresources or Subresources()).scale


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.removeprefix(".").split("."))


def _priority(name: str) -> tuple[int, int, int, str]:
    found = _VERSION.fullmatch(name)
    if found is None:
        return (-1, 0, 0, name)
    major, stage, minor = found.groups()
    return (_STAGES[stage], int(major), int(minor or 0), name)
