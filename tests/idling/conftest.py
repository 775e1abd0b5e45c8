"""What idling tests may ask for."""

from __future__ import annotations

import pytest

from reconciler.model import Endpoints, ObjectRef


@pytest.fixture
def an_endpoints() -> Endpoints:
    return Endpoints(ObjectRef("east", "shop", "Endpoints", "web"), "uid-endpoints-web")
