"""A server that answers without end holds up no run: neither its time nor SIGTERM."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.stage import Stage
from tests.real import faults
from tests.real.proxy import Fault, Request

LEASE = "/leases/reconciler"


def is_lease_write(request: Request) -> bool:
    return request.method == "PATCH" and request.path.endswith(LEASE)


def is_scale(request: Request) -> bool:
    return request.method == "PATCH" and "/deployments/" in request.path


WRITES = {"Lease": is_lease_write, "Deployment": is_scale}


def each_write(*soaked: str) -> Iterator[Any]:
    """Each write that never gets its answer, in each way; `make soak` has those that are `soaked`."""
    for write, fault in itertools.product(WRITES, ("headers dripped", "nothing said")):
        words = f"{write}-{fault}"
        yield pytest.param(write, fault, id=words, marks=[pytest.mark.soak] if words in soaked else [])


@pytest.mark.parametrize(("write", "fault"), list(each_write("Lease-nothing said", "Deployment-headers dripped")))
def test_an_answer_to_a_write_that_never_ends_does_not_outlive_the_run(stage: Stage, write: str, fault: str) -> None:
    stage.proxies["east"].rule(_never_ends(fault), matching=WRITES[write], times=None)
    said = stage.start(*stage.apply_words("--timeout", "6", "--request-timeout", "60")).ended(45)
    assert said.code in (1, 6, 7)
    assert "Traceback" not in said.err


@pytest.mark.parametrize(("write", "fault"), list(each_write("Lease-headers dripped", "Deployment-nothing said")))
def test_sigterm_ends_a_run_whose_write_is_never_answered(stage: Stage, write: str, fault: str) -> None:
    """And the lock of the healthy cluster is given back."""
    asked = threading.Event()
    never_ends = _never_ends(fault)

    def noted(exchange: faults.Exchange) -> None:
        asked.set()
        never_ends(exchange)

    stage.proxies["east"].rule(noted, matching=WRITES[write], times=None)
    run = stage.start(*stage.apply_words("--request-timeout", "60"))
    assert asked.wait(60)
    run.signal(signal.SIGTERM)
    said = run.ended(45)
    assert (said.code, said.err) == (143, "")
    assert stage.holders()["west"] == ""


def _never_ends(fault: str) -> Fault:
    return faults.drip_headers() if fault == "headers dripped" else faults.hang()
