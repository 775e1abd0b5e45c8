"""Which ports wake an idle Service, as a table."""

from __future__ import annotations

import pytest

from reconciler.activator.wake_ports import is_wake_port, wake_ports_problem
from tests.activator.services import a_watched_service


@pytest.mark.parametrize(
    ("annotation", "waking", "unknown"),
    [
        pytest.param(None, ["http", "9000"], "", id="all but metrics"),
        pytest.param("http-metrics", ["http-metrics"], "", id="by name"),
        pytest.param(" http , 9000", ["http", "9000"], "", id="by name and number"),
        pytest.param("", [], "", id="empty"),
        pytest.param("none", [], "", id="none"),
        pytest.param("htp,9000, 8080", ["9000"], '"8080", "htp"', id="what is no port of it"),
    ],
)
def test_which_ports_wake(annotation: str | None, waking: list[str], unknown: str) -> None:
    ports = [{"name": "http", "port": 80}, {"port": 9000}, {"name": "http-metrics", "port": 9090}]
    annotations = {} if annotation is None else {"reconciler/wake-ports": annotation}
    service = a_watched_service(annotations=annotations, spec={"ports": ports})
    assert [one.name or str(one.port) for one in service.ports if is_wake_port(service, one)] == waking
    expected = f"reconciler/wake-ports is {unknown}, expected names or numbers of its ports, or none"
    assert wake_ports_problem(service) == (expected if unknown else "")
