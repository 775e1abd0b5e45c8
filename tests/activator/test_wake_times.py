"""Each Service is woken as of its own time: one with a time far ahead is not woken, and changes nothing for others."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any, cast

from reconciler.activator.wake import CLUSTER, Waker
from reconciler.backends.protocols import BUILT_IN_SCALES
from reconciler.errors import ForbiddenError
from reconciler.model import Service, Write
from reconciler.workload_kinds import WorkloadKind
from tests.activator.services import IDLE, SCALE
from tests.builders import a_namespace, a_service, a_workload

NOW = datetime(2026, 11, 22, 18, 0, tzinfo=UTC)


class View:
    """A cluster with Deployment web, which is idle, and some Services in front of it."""

    name = CLUSTER

    def __init__(self, *services: Service) -> None:
        self.written: list[Write] = []
        workload = a_workload("web", cluster=CLUSTER, replicas=0, annotations={**IDLE, **SCALE})
        self._lists: dict[str, tuple[Any, ...]] = {"Service": services, "Deployment": (workload,)}

    def begin(self) -> None: ...

    def identity(self) -> str:
        return ""

    def scale_kinds(self) -> tuple[WorkloadKind, ...]:
        return BUILT_IN_SCALES

    def list(self, resource: Any, **_: str) -> tuple[Any, ...]:
        return self._lists.get(resource.kind, ())

    def get(self, *_: object) -> Any:
        return a_namespace("shop", cluster=CLUSTER)

    def write(self, write: Write) -> None:
        self.written.append(write)


def a_sleeper(name: str, **annotations: str) -> Service:
    return a_service(name, cluster=CLUSTER, selector={"app": name}, annotations={**IDLE, **annotations})


def test_a_time_far_ahead_wakes_nothing_and_others_are_woken_as_of_now() -> None:
    ahead = a_sleeper("ahead", **{"idling.kubernetes.io/idled-at": "8999-01-01T00:00:00Z"})
    view = View(a_sleeper("web"), ahead)
    found = Waker(cast(Any, view), "reconciler", lambda: NOW).wake("shop", {"web", "ahead"})
    assert found == {
        "web": "",
        "ahead": "idled-at is 8999-01-01T00:00:00Z, expected at most a day after 2026-11-22T18:00:00Z",
    }
    assert {one.ref.name for one in view.written if one.verb == "patch"} >= {"web"}
    assert "8999" not in str([one for one in view.written if one.ref.name != "ahead"])


def test_a_clock_that_is_a_little_ahead_is_followed_for_its_own_service_only() -> None:
    soon = a_sleeper("soon", **{"idling.kubernetes.io/idled-at": "2026-11-22T18:04:00Z"})
    view = View(a_sleeper("web"), soon)
    Waker(cast(Any, view), "reconciler", lambda: NOW, read_only=True).wake("shop", {"web", "soon"})
    asked = {
        one.ref.name: [step.value for step in one.patch if "wake-requested-at" in step.path and step.value]
        for one in view.written
        if one.verb == "patch"
    }
    assert asked == {"web": ["2026-11-22T18:00:00Z"], "soon": ["2026-11-22T18:04:00Z"]}


def test_what_another_activator_woke_is_not_woken_by_this_one() -> None:
    """Else `reconciler_activator_woken_total` counts a Service once for each activator that its connections came to."""
    view = View(a_sleeper("web"), a_service("api", cluster=CLUSTER))
    assert Waker(cast(Any, view), "reconciler", lambda: NOW).wake("shop", {"web", "api", "gone"}) == {"web": ""}
    assert Waker(cast(Any, View()), "reconciler", lambda: NOW).wake("shop", {"web"}) == {}


def test_what_may_not_be_listed_is_told_and_not_taken_for_woken() -> None:
    class Forbidden(View):
        def list(self, resource: Any, **how: str) -> tuple[Any, ...]:
            if resource.kind == "Deployment":
                raise ForbiddenError("list deployments.apps in shop: forbidden")
            return super().list(resource, **how)

    view = Forbidden(a_sleeper("web"))
    found = Waker(cast(Any, view), "reconciler", lambda: NOW).wake("shop", {"web"})
    assert found == {"web": "list deployments.apps in shop: forbidden"}
    assert [one.ref.kind for one in view.written] == ["Service", "Event"]


def test_services_of_one_namespace_are_woken_several_at_a_time() -> None:
    """One after the other, the last one's clients are reset before it is their turn."""

    class Meeting(View):
        """Answers a patch of an idle Deployment once four of them are asked for at a time."""

        def __init__(self, *services: Service) -> None:
            super().__init__(*services)
            found = [
                a_workload(one.ref.name, cluster=CLUSTER, replicas=0, annotations={**IDLE, **SCALE}) for one in services
            ]
            self._lists["Deployment"] = tuple(found)
            self._together = threading.Barrier(4)

        def write(self, write: Write) -> None:
            if write.ref.kind == "Deployment":
                self._together.wait(60)
            super().write(write)

    names = [f"web-{number}" for number in range(8)]
    targets = '[{{"kind":"Deployment","name":"{}","group":"apps","replicas":3}}]'
    view = Meeting(
        *[a_sleeper(name, **{"idling.kubernetes.io/unidle-targets": targets.format(name)}) for name in names]
    )
    assert Waker(cast(Any, view), "reconciler", lambda: NOW).wake("shop", names) == dict.fromkeys(names, "")
    assert sorted(one.ref.name for one in view.written if one.ref.kind == "Deployment") == sorted(names)
