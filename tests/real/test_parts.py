"""The real parts themselves: that they are what tests of the run take them for."""

from __future__ import annotations

from pathlib import Path

import pytest
import urllib3

from tests.real.api import Api, ApiError


def test_a_service_account_without_a_role_may_not_read(api_server, api_namespace):
    token = api_server.service_account(api_namespace, "nobody")
    with pytest.raises(ApiError) as refused:
        Api(api_server.url, api_server.ca_file, token).items(f"/api/v1/namespaces/{api_namespace}/pods")
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_an_outage_keeps_address_and_objects(control_planes):
    from tests.real.control_plane import API_ONLY

    (plane,) = control_planes(1, parts=API_ONLY)
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    address, identity = plane.url, plane.identity()
    plane.stop_api_server()
    with pytest.raises(urllib3.exceptions.HTTPError):
        plane.identity()
    plane.start_api_server()
    assert (plane.url, plane.identity()) == (address, identity)
    assert plane.api.find("/api/v1/namespaces/shop")
    ids = plane.process_ids
    plane.stop()
    assert len(ids) == 2
    assert not [process for process in ids if Path(f"/proc/{process}").exists()]
