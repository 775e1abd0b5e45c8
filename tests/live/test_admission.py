"""What our ServiceAccounts may write under the policies of deploy/, on a real API server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live import all_writes, deployed, forbidden_writes, rights_cluster
from tests.live.asked import Conflicts
from tests.live.deployed import APPLY, PLAN, refusal
from tests.live.forbidden_writes import Attempt
from tests.pipeline.calls import Folder
from tests.real import faults
from tests.real.api import Api, Object
from tests.real.cluster import create, create_missing, deployment_path
from tests.real.fixtures import started
from tests.real.kubeconfig import write_kubeconfig
from tests.real.proxy import Proxy, Request

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real

ATTEMPTS = list(forbidden_writes.attempts())


@contextmanager
def a_plane(folder: Path, kinds: Iterable[Object] = ()) -> Iterator[ControlPlane]:
    """An API server with these kinds, and the roles and the policies of deploy/."""
    from tests.real.control_plane import API_ONLY, ControlPlane

    with started(ControlPlane(folder, API_ONLY)) as plane:
        create_missing(plane.api, kinds)
        deployed.install(plane.api)
        yield plane


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The cluster of `forbidden_writes`."""
    with a_plane(tmp_path_factory.mktemp("cluster"), forbidden_writes.KINDS) as plane:
        create(plane.api, forbidden_writes.objects())
        yield plane


def said(api: Api, attempt: Attempt) -> str:
    query = ("&" if "?" in attempt.path else "?") + "dryRun=All" if attempt.dry_runs else ""
    return refusal(api, attempt.method, attempt.path + query, attempt.body, attempt.content_type)


def test_forty_writes_are_tried_and_each_policy_has_some() -> None:
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS) >= 40
    policies = {one["metadata"]["name"] for one in deployed.admission()}
    assert {attempt.policy for attempt in ATTEMPTS} == {*policies, forbidden_writes.ROLES}


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_a_stolen_token_is_refused(cluster: ControlPlane, attempt: Attempt) -> None:
    """The request itself is in order; with the roles of deploy/ it is refused, and with every right by its policy."""
    if attempt.dry_runs:
        assert said(cluster.api, attempt) == "", "an administrator may do it"
    token = Api(cluster.url, cluster.ca_file, deployed.token(cluster))

    assert said(token, attempt).startswith("403 ")
    if attempt.policy:
        for account in (APPLY, PLAN):
            told = said(deployed.with_every_right(cluster.api, account), attempt)
            assert told.startswith("403 "), told
            assert f"ValidatingAdmissionPolicy '{attempt.policy}' with binding" in told


@pytest.mark.parametrize("write", list(forbidden_writes.seldom()), ids=lambda write: write.name)
def test_what_runs_seldom_write_is_admitted(cluster: ControlPlane, write: Attempt) -> None:
    assert said(Api(cluster.url, cluster.ca_file, deployed.token(cluster)), write) == ""


def test_who_may_place_reads_the_secrets_of_a_namespace_that_opted_in(cluster: ControlPlane) -> None:
    """A pod mounts what it likes of its namespace; admission cannot tell whose Secret a template is meant to have."""
    token = Api(cluster.url, cluster.ca_file, deployed.token(cluster))
    assert said(token, forbidden_writes.mounting("shop")) == ""
    assert said(token, forbidden_writes.mounting("dev")).startswith("403 ")


@dataclass
class Runs:
    """The command line under our ServiceAccount, on the cluster of `rights_cluster`; and what all calls wrote."""

    plane: ControlPlane
    proxy: Proxy
    folder: Folder
    written: list[Request] = field(default_factory=list)

    def call(self, *words: str) -> str:
        """Call the command line; nothing that it writes may be refused."""
        self.proxy.reset()
        self.proxy.rule(faults.after(self._collect_garbage), matching=_is_delete, times=None)
        Conflicts(self.proxy)
        said = self.folder.call(*words, "--now", rights_cluster.NOW, "--quiet")
        assert [f"{one}" for one in self.proxy.requests if one.status == 403] == []
        assert said.code == 0, said.out + said.err
        self.written += [one for one in self.proxy.writes() if one.status < 300]
        return said.out

    def apply(self, policies: str) -> str:
        self.folder.write("policies/all.yaml", policies)
        number = f"run-{len(self.written)}"
        return self.call("apply", "policies", "--auto-approve", "--allow-removed", "--run-id", number)

    def _collect_garbage(self, request: Request) -> None:
        """Let go of what was deleted without its pods, as the garbage collector does once nothing names it as owner."""
        if self.plane.api.find(request.path) is not None:
            self.plane.api.patch(request.path, {"metadata": {"finalizers": None}})


def _is_delete(request: Request) -> bool:
    return request.method == "DELETE"


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Nothing is written yet; the cluster is as `rights_cluster` fills it."""
    with a_plane(tmp_path / "plane") as plane, Proxy(plane.access(), tmp_path / "proxy") as proxy:
        rights_cluster.fill(plane.api)
        access = proxy.access(deployed.token(plane))
        write_kubeconfig(tmp_path / "kubeconfig.yaml", {rights_cluster.CLUSTER: access})
        yield Runs(plane, proxy, Folder(tmp_path))


def test_everything_that_is_written_is_admitted(runs: Runs) -> None:
    """Every kind of request that the roles are for, and every field and mark: each is written under the policies."""
    api = runs.plane.api
    made = create(api, all_writes.placed(), "shop")
    create(api, all_writes.waiting_pods(next(one for one in made if one["metadata"]["name"] == "full")), "shop")
    runs.apply(all_writes.NIGHT)
    rights_cluster.settle(api)
    runs.apply(all_writes.NIGHT)
    runs.apply(all_writes.DAY)

    rights_cluster.fill(api)
    runs.apply(all_writes.NIGHT)
    runs.call("wake", "east/dev/Deployment/api", "--for", "1h")
    runs.call("restore", "--all", "--hold", "12h", "--auto-approve")
    create(api, all_writes.of_oc_idle(), "dev")
    runs.call("restore", "--all", "--adopt", "--auto-approve")

    rights_cluster.fill(api)
    runs.apply(all_writes.NIGHT)
    all_writes.scale_by_hand(api, deployment_path("dev", "db", "statefulsets"), 2)
    runs.apply(all_writes.NIGHT)

    create(api, all_writes.idle_and_protected(), "kube-system")
    runs.apply(all_writes.NIGHT)
    all_writes.check_awake_and_clear(api)

    granted = {(one.verb, one.resource) for one in deployed.every_grant() if one.verb in ("create", "patch", "delete")}
    assert all_writes.verbs(runs.written) | {("patch", "events")} == granted  # see `forbidden_writes.seldom`
    changed = all_writes.changed(runs.written)
    assert changed >= all_writes.FIELDS, sorted(all_writes.FIELDS - changed)
    assert {path.removeprefix("/metadata/") for _, path in changed} >= all_writes.MARKS
