"""What idling tests may ask for."""

from __future__ import annotations

import pytest

from reconciler.model import Endpoints, HorizontalPodAutoscaler, ObjectRef


@pytest.fixture
def an_autoscaler() -> HorizontalPodAutoscaler:
    """Of Deployment/web, from 2 to 10."""
    ref = ObjectRef("east", "shop", "HorizontalPodAutoscaler", "web", "autoscaling")
    return HorizontalPodAutoscaler(ref, "uid-hpa", ("Deployment", "web"), maximum=10, minimum=2)


@pytest.fixture
def an_endpoints() -> Endpoints:
    return Endpoints(ObjectRef("east", "shop", "Endpoints", "web"), "uid-endpoints-web")
