"""Servers that answer without end: reading them ends all the same."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from reconciler.backends.credentials import connection
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.request_limits import MOST_KINDS, ReadBudget
from reconciler.backends.kubernetes.rights import custom_rights, role_rules
from reconciler.backends.protocols import BUILT_IN_SCALES, NAMESPACES, SERVICES, workloads_of
from reconciler.errors import AnswerTooLargeError, ClusterError, MalformedAnswerError, ReadLimitError
from reconciler.http.client import HttpResponse
from reconciler.model import EVERY_KIND
from tests.backends.kubernetes.kubeconfigs import a_kubeconfig
from tests.backends.kubernetes.live import requests_to
from tests.backends.kubernetes.sized_server import SizedServer
from tests.real.objects import discovery

JSON = "application/json"


def served(kinds: int = 0) -> dict[str, Any]:
    """So many custom kinds with a scale."""
    return discovery(*(("many.example", f"Kind{number}", f"kind{number}s") for number in range(kinds)))


def a_cluster(
    server: HTTPServer,
    folder: Path,
    answer: Callable[[Request], Any],
    kinds: int = 0,
    budget: ReadBudget | None = None,
    says: bool = False,
    **entry: Any,
) -> KubernetesCluster:
    def handler(request: Request) -> Response:
        said = served(kinds) if request.path == "/apis" and not says else answer(request)
        body = json.dumps(said).encode()
        if len(body) > 128 << 10 and "gzip" in request.accept_encodings:  # as API servers do
            return Response(gzip.compress(body, 1), headers={"Content-Encoding": "gzip"}, content_type=JSON)
        return Response(body, content_type=JSON)

    server.expect_request(re.compile(".*")).respond_with_handler(handler)
    kubeconfig = a_kubeconfig(folder / "config", {"token": "t"}, {"server": server.url_for("").rstrip("/"), **entry})
    return KubernetesCluster("east", requests_to(Path(kubeconfig)), budget)


def endless(numbers: Any) -> Callable[[Request], Any]:
    return lambda _: {"metadata": {"continue": f"page-{next(numbers)}"}, "items": []}


def test_a_list_without_end_is_given_up_and_the_next_one_is_read():
    class EndlessServer(SizedServer):
        def send(self, request):
            self.limits.append(1)
            page = {"metadata": {"continue": f"page-{len(self.limits)}"}, "items": []}
            return HttpResponse(200, {}, json.dumps(page).encode())

    server, budget = EndlessServer([]), ReadBudget()
    with pytest.raises(MalformedAnswerError, match=r"list deployments: has more than 400 pages, expected its end"):
        server.listed("deployments", budget)
    assert len(server.limits) == 400
    assert len(SizedServer([1000] * 3).listed("services", budget)) == 3


def test_all_lists_of_a_cluster_have_so_many_pages_together(httpserver, tmp_path):
    cluster = a_cluster(httpserver, tmp_path, endless(count()), budget=ReadBudget(30))
    with pytest.raises(ReadLimitError, match=r"list services: more than 30 pages were read of this cluster"):
        cluster.list(SERVICES)
    with pytest.raises(ReadLimitError):
        cluster.list(workloads_of(BUILT_IN_SCALES[0]))
    assert len(httpserver.log) == 33, "the first page of a list, which is asked for by us, does not count"


def test_each_reading_has_all_pages(httpserver, tmp_path):
    pages = {"": "1", "1": "2", "2": ""}
    budget = ReadBudget(2)
    cluster = a_cluster(
        httpserver,
        tmp_path,
        lambda request: {"metadata": {"continue": pages[request.args.get("continue", "")]}, "items": []},
        budget=budget,
    )
    assert cluster.list(SERVICES) == ()
    with pytest.raises(ReadLimitError):
        cluster.list(SERVICES)
    budget.renew()
    assert cluster.list(SERVICES) == ()


@pytest.mark.parametrize("order", [("metadata", "items"), ("items", "metadata")], ids=lambda order: f"{order[0]} first")
def test_a_page_may_say_anywhere_where_the_list_goes_on(httpserver, tmp_path, order):
    def page(request):
        number = int(request.args.get("continue", "0"))
        named = {"name": f"web-{number}", "namespace": "shop", "annotations": {"items": '"items"'}}
        found = {"metadata": {"continue": str(number + 1) if number < 3 else ""}, "items": [{"metadata": named}]}
        return {key: found[key] for key in order}

    found = a_cluster(httpserver, tmp_path, page).list(SERVICES)
    assert [one.ref.name for one in found] == [f"web-{number}" for number in range(4)]


def test_the_next_page_is_asked_for_before_one_is_decoded(httpserver, tmp_path):
    asked = threading.Event()

    def page(request):
        if "continue" in request.args:
            asked.set()
        return {"metadata": {"continue": "1"}, "items": [{"metadata": {"name": 1}}]}

    with pytest.raises(MalformedAnswerError, match="the answer is malformed"):
        a_cluster(httpserver, tmp_path, page).list(SERVICES)
    assert asked.wait(60)


def test_a_page_that_is_too_large_is_asked_for_with_half_as_many_objects(httpserver, tmp_path, monkeypatch):
    """140 Services of 8 KB: one page of all is longer than is read of one answer."""
    monkeypatch.setattr(connection, "_LARGEST_ANSWER", 1 << 20)
    names = [f"web-{number:03}" for number in range(140)]
    fat = "x" * 7_700

    def page(request):
        start, limit = int(request.args.get("continue", "0")), int(request.args["limit"])
        following = str(start + limit) if start + limit < len(names) else ""
        shown = [
            {"metadata": {"name": name, "namespace": "shop", "annotations": {"a": fat}}}
            for name in names[start : start + limit]
        ]
        return {"metadata": {"continue": following}, "items": shown}

    cluster = a_cluster(
        httpserver, tmp_path, lambda request: page(request) if "services" in request.path else {"items": []}
    )
    assert [one.ref.name for one in cluster.list(SERVICES)] == names
    limits = [request.args["limit"] for request, _ in httpserver.log if request.path.endswith("/services")]
    assert limits == ["500", "250", "125", "250"]


def test_large_objects_of_one_kind_take_nothing_from_the_other_kinds():
    """Each list begins with 24 objects of 1.4 MB, so each needs pages of 15; there are more kinds than any pool has."""
    server, budget = SizedServer([1_400_000] * 24 + [1000] * 40), ReadBudget()
    for number in range(30):
        assert len(server.listed(f"kind{number}s", budget)) == 64
    assert server.limits[:8] == [500, 250, 125, 62, 31, 15, 30, 60]


def test_after_what_is_too_large_pages_become_as_large_as_before():
    """In pages of one, 20,000 objects are 20,000 requests, one after the other."""
    server = SizedServer([32 << 20] + [1000] * 20_000)
    assert len(server.listed("services", ReadBudget())) == 20_001
    assert server.limits[8:18] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 500]
    assert len(server.limits) == 56


def test_where_all_objects_are_large_few_answers_are_read_for_nothing():
    """What is too large counts against the bytes that may be read of a cluster."""
    server = SizedServer([1_400_000] * 600)
    assert len(server.listed("services", ReadBudget())) == 600
    assert [limit for limit in server.limits if limit > 15] == [500, 250, 125, 62, 31, *[30] * 5]


def test_a_list_of_small_pages_and_large_ones_has_no_more_pages_than_its_objects_need():
    server = SizedServer([32 << 20, *[20 << 20] * 450, *[1000] * 30_000])
    assert len(server.listed("services", ReadBudget())) == 30_451


def test_small_pages_count_as_what_they_hold():
    """20,000 objects in pages of 15 are 1,334 pages: counted as whole ones the cluster would have too many."""
    server, budget = SizedServer([1_400_000] * 24 + [1000] * 20_000), ReadBudget()
    assert len(server.listed("services", budget)) == 20_024


def test_a_server_of_which_each_answer_is_too_large_is_asked_nine_times_for_a_list():
    server = SizedServer([33 << 20] * 2000)
    with pytest.raises(AnswerTooLargeError, match="list services: the answer is longer than 32 MiB"):
        server.listed("services", ReadBudget())
    assert server.limits == [500, 250, 125, 62, 31, 15, 7, 3, 1]


def test_a_page_that_comes_again_ends_the_list(httpserver, tmp_path):
    tokens = iter(["a", "b", "a", "b", "a"])
    cluster = a_cluster(httpserver, tmp_path, lambda _: {"metadata": {"continue": next(tokens)}, "items": []})
    with pytest.raises(MalformedAnswerError, match="goes on where it was already, expected another page"):
        cluster.list(SERVICES)
    assert len(httpserver.log) == 3


def test_of_too_many_custom_kinds_none_is_read_and_the_others_are(httpserver, tmp_path):
    cluster = a_cluster(httpserver, tmp_path, lambda _: {"items": []}, kinds=3000)
    custom = [kind for kind in cluster.scale_kinds() if kind not in BUILT_IN_SCALES]
    assert [(kind.group, kind.kind) for kind in custom] == [("many.example", EVERY_KIND)]
    with pytest.raises(MalformedAnswerError, match=f"3000 custom kinds with a scale, expected at most {MOST_KINDS}"):
        cluster.list(workloads_of(custom[0]))
    assert cluster.list(workloads_of(BUILT_IN_SCALES[0])) == ()
    assert len(httpserver.log) == 2


@pytest.mark.parametrize("has_lock", [False, True])
def test_what_is_given_up_asks_for_no_more_pages(httpserver, tmp_path, has_lock):
    def answer(_):
        if len(httpserver.log) == 10:
            requests.turns.reading.cut("too slow")
        return {"metadata": {"continue": f"page-{len(httpserver.log)}"}, "items": []}

    cluster = a_cluster(httpserver, tmp_path, answer)
    requests = cluster._client
    requests.turns.fence = (lambda: True) if has_lock else None
    with pytest.raises(ClusterError):
        cluster.list(SERVICES)
    with pytest.raises(ReadLimitError, match="list services: not asked, too slow"):
        cluster.list(SERVICES)
    assert len(httpserver.log) <= 11


def test_what_is_given_up_asks_for_no_more_kinds(httpserver, tmp_path):
    def answer(_):
        if len(httpserver.log) == 10:
            requests.turns.reading.cut("too slow")
        return {"metadata": {"name": "kube-system", "uid": "k"}}

    cluster = a_cluster(httpserver, tmp_path, answer, kinds=30)
    requests = cluster._client
    requests.turns.fence = lambda: True
    with pytest.raises(ReadLimitError, match=r"get customresourcedefinitions.*: not asked, too slow"):
        cluster.scale_kinds()
    assert len(httpserver.log) <= 12
    assert cluster.identity() == "k"  # single objects are read to the end


@pytest.mark.parametrize("said", [{}, {"kind": "Status", "status": "Success"}, {"message": "log in"}])
def test_what_has_no_items_is_no_list(httpserver, tmp_path, said):
    """As an empty list it would say that nothing is there: what stands before an API server may answer so."""
    cluster = a_cluster(httpserver, tmp_path, lambda _: said)
    with pytest.raises(MalformedAnswerError, match=r"list services: the answer is malformed \(.* `items`"):
        cluster.list(SERVICES)


def test_what_is_always_there_is_listed_without_asking_what_is_served(httpserver, tmp_path):
    """A brake such as `freeze`, which looks at namespaces alone, waits for no definition of a custom kind."""
    cluster = a_cluster(httpserver, tmp_path, lambda _: {"items": []}, kinds=3)
    assert cluster.list(NAMESPACES) == ()
    assert [request.path for request, _ in httpserver.log] == ["/api/v1/namespaces"]


@pytest.mark.parametrize(
    ("entry", "encoding"),
    [({}, "gzip"), ({"disable-compression": False}, "gzip"), ({"disable-compression": True}, None)],
)
def test_long_lists_come_compressed_unless_the_kubeconfig_disables_that(entry, encoding, httpserver, tmp_path):
    items = [{"metadata": {"name": f"team-{number}", "uid": str(number)}} for number in range(4000)]
    cluster = a_cluster(httpserver, tmp_path, lambda _: {"items": items}, **entry)
    assert {one.ref.name for one in cluster.list(NAMESPACES)} == {one["metadata"]["name"] for one in items}
    [(_, answer)] = httpserver.log
    assert answer.headers.get("Content-Encoding") == encoding


HOSTILE = [
    ("*", "*"),
    ("many.example", "*"),
    ("", "secrets"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("apps", "controllerrevisions"),
    ("many.example", "pods/exec"),
    ("many example", "widgets"),
]


def hostile_discovery() -> dict[str, Any]:
    widgets = ((group, "Widget", plural) for group, plural in HOSTILE)
    return discovery(("many.example", "Kind0", "kind0s"), *widgets)


def definition(group: str, plural: str, replicas: str, status: str = ".status.replicas") -> dict[str, Any]:
    scale = {"specReplicasPath": replicas, "statusReplicasPath": status}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"scale": scale}}
    names = {"kind": "Kind0", "plural": plural}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def test_no_right_is_named_by_what_a_hostile_cluster_serves(httpserver, tmp_path):
    right = definition("many.example", "kind0s", ".spec.replicas")
    cluster = a_cluster(
        httpserver, tmp_path, lambda request: hostile_discovery() if request.path == "/apis" else right, says=True
    )
    found = [kind for kind in cluster.scale_kinds() if kind not in BUILT_IN_SCALES]
    assert {(rule["apiGroups"][0], *rule["resources"]) for rule in role_rules(custom_rights(found))} == {
        ("many.example", "kind0s"),
        ("many.example", "kind0s/scale"),
    }


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(definition("many.example", "kind0s", "."), id="the whole object"),
        pytest.param(definition("many.example", "kind0s", ".spec"), id="the whole spec"),
        pytest.param(definition("many.example", "kind0s", ".metadata.name"), id="metadata"),
        pytest.param(definition("many.example", "kind0s", ".spec.a..b"), id="no key"),
        pytest.param(definition("many.example", "kind0s", ".spec.replicas", ".spec.other"), id="status in spec"),
        pytest.param(definition("other.example", "kind0s", ".spec.replicas"), id="another kind"),
    ],
)
def test_a_scale_of_another_kind_or_elsewhere_is_not_read(httpserver, tmp_path, said):
    cluster = a_cluster(httpserver, tmp_path, lambda _: said, kinds=1)
    (custom,) = (kind for kind in cluster.scale_kinds() if kind not in BUILT_IN_SCALES)
    assert (custom.group, custom.plural) == ("many.example", "kind0s")
    with pytest.raises(MalformedAnswerError, match=r"expected kind0s\.many\.example with replicas below \.spec"):
        cluster.list(workloads_of(custom))
