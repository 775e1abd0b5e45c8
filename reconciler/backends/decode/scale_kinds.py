"""CustomResourceDefinitions -> the kinds with a scale that they define."""

from __future__ import annotations

import re

from reconciler.backends.decode.objects import CustomResourceDefinition, CustomVersion, Subresources
from reconciler.model import ScaleKind

_VERSION = re.compile(r"v(\d{1,18})(?:(alpha|beta)(\d{1,18}))?", re.ASCII)
_STAGES = {"alpha": 0, "beta": 1, None: 2}


def scale_kind_of(definition: CustomResourceDefinition) -> ScaleKind | None:
    """Return the kind with its paths of replicas, None where no served version has a scale.

    Of several versions with a scale the stored one counts, then the one the API server prefers (v2, v1, v1beta1, ...).
    In v1beta1 one version, and subresources for all of them, may stand at the top.

    Source: apiextensions/v1 types.go, CustomResourceSubresourceScale; apimachinery pkg/version,
    CompareKubeAwareVersionStrings.
    """
    spec = definition.spec
    versions = spec.versions or ([CustomVersion(spec.version)] if spec.version else [])
    scales = [(one, (one.subresources or spec.subresources or Subresources()).scale) for one in versions]
    found = [(one, scale) for one, scale in scales if one.served is not False and scale is not None]
    if not found:
        return None
    version, scale = max(found, key=lambda pair: (pair[0].storage is True, _priority(pair[0].name)))
    return ScaleKind(
        group=spec.group,
        version=version.name,
        kind=spec.names.kind,
        plural=spec.names.plural,
        replicas_path=_path(scale.spec_replicas_path),
        status_path=_path(scale.status_replicas_path),
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.removeprefix(".").split("."))


def _priority(name: str) -> tuple[int, int, int, str]:
    found = _VERSION.fullmatch(name)
    if found is None:
        return (-1, 0, 0, name)
    major, stage, minor = found.groups()
    return (_STAGES[stage], int(major), int(minor or 0), name)
