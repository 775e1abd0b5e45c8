"""What `wake` and `restore` find by a name, say of what they do not find and of what others idled; when they ask."""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from tests.cases import cases
from tests.pipeline.calls import Folder, Said, Terminal
from tests.pipeline.manifests import fleet
from tests.real import objects
from tests.real.objects import a_deployment, an_autoscaler, with_metadata, within

NOW = "2026-11-20T22:20:00Z"
AT = "2026-11-20T20:00:00Z"
LOOK = ("--snapshot", "snapshot", "--now", NOW)


def idle(name: str, owner: str, run: str = "run-1", namespace: str = "shop") -> dict:
    """Return a Deployment at 0 that had 3 replicas; `owner` is Fleet/policy, "" for somebody else's mark."""
    marks = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/previous-scale": "3"}
    if owner:
        owned = owner.replace("/", "/IdlingPolicy/")
        marks |= {"reconciler/owner": owned, "reconciler/cause": json.dumps({"run": run})}
    return with_metadata(a_deployment(name, 0), namespace=namespace, annotations=marks)


def a_folder(tmp_path, **clusters: list[dict]) -> Folder:
    folder = Folder(tmp_path)
    folder.write("policies/fleet.yaml", fleet(clusters, name="one"))
    for cluster, found in clusters.items():
        folder.write(f"snapshot/{cluster}/objects.yaml", yaml.safe_dump_all(found))
    return folder


def restore(folder: Folder, *arguments: str) -> Said:
    return folder.call("restore", *arguments, *LOOK, "--auto-approve", "--quiet")


def replicas(folder: Folder) -> dict[str, int]:
    return {f"{key[0]}/{key[3]}": one["spec"]["replicas"] for key, one in folder.objects().items()}


def at_a_floor(name: str, owner: str, holder: str = "") -> list[dict]:
    """Return a Deployment idled from 3 to 1 and its HorizontalPodAutoscaler, held there; it had 2 to 10."""
    deployment = idle(name, owner)
    deployment["metadata"]["annotations"]["reconciler/idled-to"] = "1"
    deployment["spec"]["replicas"] = 1
    marks = {
        "reconciler/previous-bounds": '{"minReplicas":2,"maxReplicas":10}',
        "reconciler/idled-to": "1",
        "reconciler/owner": (holder or owner).replace("/", "/IdlingPolicy/"),
    }
    return [deployment, within("shop", with_metadata(an_autoscaler(name, 1, 1), annotations=marks))]


def bounds_and_marks(folder: Folder) -> tuple[int, int, list[str]]:
    (one,) = (found for key, found in folder.objects().items() if key[2] == "HorizontalPodAutoscaler")
    return one["spec"]["minReplicas"], one["spec"]["maxReplicas"], sorted(one["metadata"].get("annotations") or ())


def scale(folder: Folder) -> int:
    (one,) = (found for key, found in folder.objects().items() if key[2] == "Deployment")
    return int(one["spec"]["replicas"])


HELD = ["reconciler/idled-to", "reconciler/owner", "reconciler/previous-bounds"]

OURS, THEIRS, BY_HAND = idle("web", "one/nights"), idle("api", "two/nights", "run-2"), idle("old", "")


class TestAnotherFleet:
    def test_restore_all_under_another_name_counts_what_is_there_and_names_adopt(self, tmp_path):
        folder = a_folder(tmp_path, east=[THEIRS, BY_HAND, idle("job", "two/nights")])
        said = restore(folder, "--all")
        assert said.code == 6
        words = "3 idle objects stay idle, as Fleet one did not idle them (2 by Fleet two, 1 by somebody else)"
        assert words in said.out
        assert "--adopt" in said.out
        assert set(replicas(folder).values()) == {0}

    def test_beside_our_own_it_is_told_and_the_run_is_whole(self, tmp_path):
        folder = a_folder(tmp_path, east=[OURS, THEIRS])
        said = restore(folder, "--all")
        assert said.code == 0
        assert "1 idle object stays idle, as Fleet one did not idle it (1 by Fleet two)" in said.out
        assert replicas(folder) == {"east/web": 3, "east/api": 0}

    @pytest.mark.parametrize(
        "named", [["east/shop/deploy/api"], ["--policy", "nig*"], ["--run", "run-2"]], ids=" ".join
    )
    def test_what_was_named_and_is_another_fleets_is_told(self, tmp_path, named):
        folder = a_folder(tmp_path, east=[THEIRS, BY_HAND])
        said = restore(folder, *named)
        assert said.code == 6
        assert "1 idle object stays idle, as Fleet one did not idle it (1 by Fleet two)" in said.out


class TestHeldAutoscalers:
    @pytest.mark.parametrize(
        ("call", "code"),
        [(("wake", "east/shop/deploy/api"), 6), (("restore", "--all", "--adopt", "--auto-approve"), 6)],
        ids=["wake", "restore"],
    )
    def test_what_a_third_fleet_holds_is_left_and_told(self, tmp_path, call, code):
        folder = a_folder(tmp_path, east=at_a_floor("api", "two/nights", "three/nights"))
        said = folder.call(*call, *LOOK, "--quiet")
        assert said.code == code
        assert "Fleet three pins HorizontalPodAutoscaler/api, but did not idle it" in said.out + said.err
        assert (scale(folder), bounds_and_marks(folder)) == (1, (1, 1, HELD))

    @pytest.mark.parametrize(
        "call",
        [("wake", "east/shop/deploy/api"), ("restore", "--all", "--adopt", "--auto-approve")],
        ids=["wake", "restore"],
    )
    def test_with_contexts_also_what_a_third_fleet_holds_is_given_back(self, tmp_path, call):
        folder = a_folder(tmp_path, east=at_a_floor("api", "two/nights", "three/nights"))
        said = folder.call(*call, "--context", "east", *LOOK, "--quiet")
        assert said.code == 0, said.out + said.err
        assert (scale(folder), bounds_and_marks(folder)) == (3, (2, 10, []))

    def test_a_fleet_by_its_flag_counts_its_own_marks_whatever_the_variable_names(self, tmp_path, monkeypatch):
        monkeypatch.setenv("RECONCILER_CONTEXT", "east")
        folder = a_folder(tmp_path, east=at_a_floor("api", "two/nights", "three/nights"))
        said = folder.call("wake", "east/shop/deploy/api", "--policies", "policies", *LOOK, "--quiet")
        assert said.code == 6, said
        assert (scale(folder), bounds_and_marks(folder)) == (1, (1, 1, HELD))


class TestNames:
    @pytest.mark.parametrize(
        ("named", "words"),
        [
            pytest.param(
                ["--policy", "nihgts"],
                '--policy: no idle object records policy "nihgts", expected one of 2: nights, weekends; '
                'did you mean "nights"?',
                id="a policy",
            ),
            pytest.param(
                ["--policy", "nights", "--policy", "prod-*"],
                '--policy: no idle object records policy "prod-*", expected one of 2: nights, weekends',
                id="one of two policies",
            ),
            pytest.param(
                ["--run", "zzzz"],
                '--run: no idle object records run "zzzz", expected one of 2: run-1, run-7',
                id="a run",
            ),
            pytest.param(
                ["west/shop", "--policy", "weekends"],
                '--policy: no idle object below west/shop records policy "weekends", expected nights',
                id="a policy that idled nothing there",
            ),
        ],
    )
    def test_a_name_that_matches_nothing_is_refused_with_what_there_is(self, tmp_path, named, words):
        folder = a_folder(tmp_path, east=[OURS, idle("api", "one/weekends", "run-7")], west=[OURS])
        said = restore(folder, *named)
        assert (said.code, said.err) == (64, f"error: {words}\n")
        assert set(replicas(folder).values()) == {0}

    @pytest.mark.parametrize(
        ("named", "words"),
        [
            pytest.param(
                ["--all"], "Nothing to restore: nothing is idle, or was scaled down by placement.", id="everything"
            ),
            pytest.param(
                ["east/shop"],
                "Nothing to restore: nothing below east/shop is idle, or was scaled down by placement.",
                id="a namespace",
            ),
        ],
    )
    @pytest.mark.parametrize("output", ["text", "markdown"])
    def test_a_restore_that_finds_nothing_idle_does_not_speak_of_policies(self, tmp_path, named, words, output):
        awake = idle("web", "")
        del awake["metadata"]["annotations"]
        awake["spec"]["replicas"] = 2
        said = restore(a_folder(tmp_path, east=[awake]), *named, "-v", "-o", output)
        assert (said.code, said.err) == (0, "")
        assert "Restore in Fleet" in said.out
        assert words in said.out
        assert "policies" not in said.out

    def test_where_nothing_is_idle_it_says_so(self, tmp_path):
        said = restore(a_folder(tmp_path, east=[BY_HAND]), "--run", "zzzz")
        assert (said.code, said.err) == (64, 'error: --run: no idle object records run "zzzz"; none records a run\n')

    def test_what_cannot_be_read_may_hold_it(self, tmp_path):
        folder = a_folder(tmp_path, east=[OURS], west=[OURS])
        (folder.path / "snapshot/west/objects.yaml").unlink()
        (folder.path / "snapshot/west").rmdir()
        said = restore(folder, "--policy", "nosuch")
        assert said.code == 6
        assert "west" in said.out


class TestContext:
    @pytest.fixture
    def folder(self, tmp_path) -> Folder:
        """No Fleet anywhere."""
        folder = a_folder(tmp_path, east=[OURS, BY_HAND], west=[THEIRS])
        (folder.path / "policies/fleet.yaml").unlink()
        (folder.path / "policies").rmdir()
        return folder

    def test_restore_takes_contexts_in_place_of_a_fleet(self, folder):
        said = restore(folder, "--all", "--context", "east", "--context", "west")
        assert said.code == 0
        assert replicas(folder) == {"east/web": 3, "east/old": 0, "west/api": 3}
        assert "1 idle object stays idle, as no Fleet idled it (1 by somebody else)" in said.out

    def test_restore_looks_at_no_other_context(self, folder):
        assert restore(folder, "east/shop/deploy/web", "--context", "east").code == 0
        assert replicas(folder) == {"east/web": 3, "east/old": 0, "west/api": 0}

    def test_wake_takes_them_too(self, folder):
        said = folder.call("wake", "west/shop/deploy/api", "--context", "west", *LOOK, "--quiet")
        assert said.code == 0
        assert replicas(folder)["west/api"] == 3

    @pytest.mark.parametrize("verb", [("restore", "--all", "--auto-approve"), ("wake", "east/shop")], ids=" ".join)
    def test_a_fleet_beside_contexts_is_refused(self, folder, verb):
        said = folder.call(*verb, "--context", "east", "--policies", "policies", *LOOK)
        assert said.code == 64
        assert "--context: takes the place of a Fleet, expected no --policies beside it" in said.err

    @pytest.mark.parametrize("verb", [("restore", "--all", "--auto-approve"), ("wake", "east/shop")], ids=" ".join)
    def test_a_flag_beats_the_variable_of_the_other(self, tmp_path, monkeypatch, verb):
        """The Fleet knows east alone; OURS is idled by it, THEIRS by another."""
        folder = a_folder(tmp_path, east=[OURS])
        monkeypatch.setenv("RECONCILER_POLICIES", "nowhere")
        said = folder.call(*verb, "--context", "east", *LOOK)
        assert (said.code, replicas(folder)) == (0, {"east/web": 3}), said
        assert "takes the place" not in said.err

        folder = a_folder(tmp_path, east=[OURS])
        monkeypatch.delenv("RECONCILER_POLICIES")
        monkeypatch.setenv("RECONCILER_CONTEXT", "nowhere")
        monkeypatch.setenv("RECONCILER_OWN_NAMESPACE", "mine")
        said = folder.call(*verb, "--policies", "policies", *LOOK)
        assert (said.code, replicas(folder)) == (0, {"east/web": 3}), said
        assert "takes the place" not in said.err

    def test_a_variable_that_takes_the_place_of_the_fleet_is_told(self, folder, monkeypatch):
        monkeypatch.setenv("RECONCILER_CONTEXT", "east west")
        said = restore(folder, "--all")
        assert said.code == 0, said
        assert (
            "warning: RECONCILER_CONTEXT takes the place of the Fleet: east, west; --policies PATH names one"
            in said.err
        )

    def test_both_variables_are_refused(self, folder, monkeypatch):
        monkeypatch.setenv("RECONCILER_CONTEXT", "east")
        monkeypatch.setenv("RECONCILER_POLICIES", "policies")
        said = restore(folder, "--all")
        assert said.code == 64
        assert "RECONCILER_CONTEXT: takes the place of a Fleet, expected no RECONCILER_POLICIES beside it" in said.err

    def test_contexts_of_one_cluster_name_are_refused(self, folder):
        said = restore(folder, "--all", "--context", "a:b", "--context", "a/b")
        assert said.code == 64
        assert '--context: "a:b" and "a/b" would both be called a-b, expected one of them at a time' in said.err

    def test_a_cluster_that_no_context_names_is_refused(self, folder):
        said = restore(folder, "wst/shop", "--context", "west")
        assert said.code == 64
        assert 'did you mean "west"?' in said.err


class TestWakeOfACluster:
    @pytest.fixture
    def folder(self, tmp_path) -> Folder:
        return a_folder(tmp_path, east=[OURS, idle("api", "one/weekends")])

    def test_without_a_terminal_it_is_refused(self, folder):
        before = folder.objects()
        said = folder.call("wake", "east", *LOOK)
        assert (said.code, said.err) == (64, "error: wake: there is no terminal to ask on, expected --auto-approve\n")
        assert folder.objects() == before

    def test_with_auto_approve_it_wakes_everything(self, folder):
        assert folder.call("wake", "east", *LOOK, "--auto-approve", "--quiet").code == 0
        assert set(replicas(folder).values()) == {3}

    @cases(
        "answer code after",
        ("answer is yes", "yes\n", 0, 3),
        ("answer is no", "no\n", 1, 0),
        ("end of input", "", 1, 0),
    )
    def test_on_a_terminal_it_shows_all_wakes_and_asks(self, folder, monkeypatch, answer, code, after):
        before = folder.objects()
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        said = folder.call("wake", "east", *LOOK)
        assert said.code == code
        assert "Only yes is accepted" in said.err
        for name in ("web", "api"):
            assert f"east/shop/Deployment/{name}  replicas  0 -> 3  wake" in said.err
        assert set(replicas(folder).values()) == {after}
        assert (folder.objects() == before) is (after == 0)


@pytest.mark.parametrize(
    ("objects", "answer", "arguments", "code", "asked"),
    [
        pytest.param(20, "no\n", (), 0, False, id="20 are not much"),
        pytest.param(21, "no\n", (), 1, True, id="21 are, declined"),
        pytest.param(21, "yes\n", (), 0, True, id="21 are, approved"),
        pytest.param(21, "no\n", ("--yes",), 0, False, id="--yes"),
    ],
)
def test_much_is_woken_after_a_question_where_somebody_can_be_asked(
    tmp_path, monkeypatch, objects, answer, arguments, code, asked
):
    folder = a_folder(tmp_path, east=[idle(f"app-{number}", "one/nights") for number in range(objects)])
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    said = folder.call("wake", "east/shop", *arguments, *LOOK)
    assert (said.code, "Only yes is accepted" in said.err) == (code, asked)
    assert set(replicas(folder).values()) == {0 if code else 3}


def test_a_wake_in_vain_is_told(tmp_path):
    """What another Fleet idled is not woken in a protected namespace."""
    folder = a_folder(tmp_path, east=[idle("dns", "two/nights", namespace="kube-system")])
    before = folder.objects()
    said = folder.call("wake", "east/kube-system", *LOOK, "--quiet")
    assert said.code == 6
    assert "east/kube-system/Deployment/dns: the namespace kube-system is protected" in said.err
    said = restore(folder, "--all", "--adopt")
    assert said.code == 6
    assert "Fleet one did not idle it (1 by Fleet two); in a protected namespace: scale it" in said.out
    assert folder.objects() == before


TARGETS = json.dumps([{"kind": "Deployment", "name": "web", "group": "apps", "replicas": 3}])
LISTED = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/unidle-targets": TARGETS}
OWNED = {"reconciler/owner": "one/IdlingPolicy/nights"}
RECORD = {**OWNED, "idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/previous-scale": "3"}


FOREIGN_RECORD = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/previous-scale": "3"}
OUR_WRITE = {"manager": "reconciler", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {"f:replicas": {}}}}  # fmt: skip


def web(**annotations: str) -> dict:
    return marked(a_deployment("web", 0), annotations)


def a_service(**annotations: str) -> dict:
    return marked(objects.a_service("web"), annotations)


def an_object(version: str, kind: str, annotations: dict[str, str], **parts: object) -> dict:
    return marked(objects.an_object(version, kind, "web", **parts), annotations)


def marked(one: dict, annotations: dict[str, str]) -> dict:
    return with_metadata(one, namespace="shop", **({"annotations": annotations} if annotations else {}))


def wake(folder: Folder, name: str):
    return folder.call("wake", name, *LOOK, "--quiet")


def an_undone_deployment() -> dict:
    """Idled by us, then `kubectl rollout undo`: its record is gone."""
    found = web()
    return found | {"metadata": found["metadata"] | {"managedFields": [OUR_WRITE]}}


def its_replica_set() -> dict:
    """It keeps the record that the Deployment had."""
    found = web(**RECORD)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    metadata = found["metadata"] | {"name": "web-1", "ownerReferences": [owner]}
    return found | {"kind": "ReplicaSet", "metadata": metadata}


ENDPOINTS_ONLY = (web(**FOREIGN_RECORD), a_service(), an_object("v1", "Endpoints", LISTED))
RECORD_GONE = (an_undone_deployment(), its_replica_set(), a_service(**LISTED, **OWNED))
SCALED_OBJECT = an_object("keda.sh/v1alpha1", "ScaledObject", {**RECORD}, spec={"scaleTargetRef": {"name": "web"}})
SCALED_OBJECT["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"] = "0"


@pytest.mark.parametrize(
    ("found", "name"),
    [
        pytest.param(ENDPOINTS_ONLY, "east/shop/svc/web", id="the mark on Endpoints alone, by the Service"),
        pytest.param(ENDPOINTS_ONLY, "east/shop/endpoints/web", id="the mark on Endpoints alone, by them"),
        pytest.param(ENDPOINTS_ONLY, "east/shop/deploy/web", id="the mark on Endpoints alone, by the Deployment"),
        pytest.param(ENDPOINTS_ONLY, "east/shop", id="the mark on Endpoints alone, by the namespace"),
        pytest.param(RECORD_GONE, "east/shop/deploy/web", id="its record is gone, its Service lists it"),
        pytest.param((web(**RECORD),), "east/shop/deploy/web", id="no Service"),
        pytest.param((web(**RECORD), a_service()), "east/shop/svc/web", id="a Service without marks"),
        pytest.param((web(**RECORD), a_service()), "east/shop/Service", id="all Services"),
        pytest.param(
            (web(**RECORD), a_service(), an_object("v1", "Endpoints", {})),
            "east/shop/endpoints/web",
            id="the Endpoints of such a Service",
        ),
        pytest.param((web(**FOREIGN_RECORD), a_service()), "east/shop/svc/web", id="what somebody else idled"),
    ],
)
def test_what_sleeps_is_found_by_every_name_it_has(tmp_path, found, name):
    folder = a_folder(tmp_path, east=[*found])
    said = wake(folder, name)
    assert (said.code, said.err) == (0, "")
    assert folder.replicas("east", "shop", "Deployment", "web") == 3


def test_a_scaled_object_is_found_by_what_it_scales(tmp_path):
    folder = a_folder(tmp_path, east=[web(), SCALED_OBJECT])
    said = wake(folder, "east/shop/deploy/web")
    assert (said.code, said.err) == (0, "")
    waking = folder.objects()["east", "shop", "ScaledObject", "web"]
    assert "autoscaling.keda.sh/paused-replicas" not in waking["metadata"].get("annotations", {})


def test_a_record_that_cannot_be_read_is_told_and_nothing_is_asked(tmp_path):
    folder = a_folder(tmp_path, east=[web(**{**RECORD, "idling.kubernetes.io/previous-scale": "many"})])
    before = folder.objects()
    said = wake(folder, "east/shop/deploy/web")
    assert said.code == 6
    assert "previous-scale" in said.err
    assert "`restore` gives back what can be read" in said.err
    assert folder.objects() == before


@pytest.mark.parametrize("marks", [LISTED, {**LISTED, **OWNED}], ids=["somebody's list", "a list that names us"])
def test_a_list_on_a_service_alone_wakes_nothing_and_that_is_told(tmp_path, marks):
    folder = a_folder(tmp_path, east=[web(), a_service(**marks)])
    said = wake(folder, "east/shop/svc/web")
    assert said.code == 6
    assert "a Service lists it as idle" in said.err
    assert folder.replicas("east", "shop", "Deployment", "web") == 0
    adopted = folder.call("restore", "--all", "--adopt", *LOOK, "--auto-approve", "-q")
    assert adopted.code == 0
    assert folder.replicas("east", "shop", "Deployment", "web") == 3


OC = "idling.alpha.openshift.io"
CONFIG = [{"kind": "DeploymentConfig", "name": "web", "group": "apps.openshift.io", "replicas": 2}]


@cases(
    "listed words",
    ("a kind that is not served", json.dumps(CONFIG), "it lists DeploymentConfig.apps.openshift.io web, which is not"),
    ("no JSON", "[{", f'{OC}/unidle-targets is "[{{", expected JSON'),
)
def test_a_list_of_oc_idle_that_leads_to_nothing_is_told(tmp_path, listed, words):
    folder = a_folder(tmp_path, east=[web(), a_service(**{f"{OC}/idled-at": AT, f"{OC}/unidle-targets": listed})])
    before = folder.objects()
    said = wake(folder, "east/shop")
    assert said.code == 6
    assert f"error: east/shop/Service/web: {words}" in said.err
    assert folder.objects() == before


def test_a_missed_run_is_told(tmp_path):
    job = {"schedule": "0 * * * *", "suspend": True, "jobTemplate": {"spec": {"template": {"spec": {}}}}}
    record = {**OWNED, "idling.kubernetes.io/idled-at": AT, "reconciler/previous-suspend": "false"}
    folder = a_folder(tmp_path, east=[an_object("batch/v1", "CronJob", record, spec=job)])
    said = wake(folder, "east/shop/cj/web")
    assert said.code == 0
    assert "a missed run may start at once" in said.out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("east/shop/deploy/wbe", 'no such Service or workload was found, did you mean "web"?'),
        ("east/shp", 'nothing was found in namespace "shp" of east, did you mean "shop"?'),
        ("east/shop/sts", "no such Service or workload was found"),
    ],
)
def test_a_mistyped_object_is_not_nothing_to_do(tmp_path, name, words):
    folder = a_folder(tmp_path, east=[*RECORD_GONE])
    for verb in ("restore", "wake", "explain"):
        approved = ("--auto-approve", "--quiet") if verb == "restore" else ()
        said = folder.call(verb, name, *LOOK, *approved)
        assert (said.code, said.err) == (64, f"error: {name}: {words}\n"), verb


@cases(
    "name cluster expected",
    ("name alone", "foo", "foo", "CLUSTER/NAMESPACE/KIND/NAME or the first parts of it"),
    ("kind and name, no cluster", "deploy/web", "deploy", "CLUSTER/NAMESPACE/deploy/web"),
)
def test_the_cluster_is_checked_before_somebody_would_be_asked(tmp_path, name, cluster, expected):
    said = a_folder(tmp_path, east=[*RECORD_GONE]).call("wake", name, *LOOK)
    words = f'error: {name}: "{cluster}" is not a cluster of the Fleet, expected {expected}\n'
    assert (said.code, said.err) == (64, words)


@pytest.mark.parametrize("name", ["east/shop/web", "east/Deployment/web"])
def test_an_object_without_one_of_its_parts_is_found_and_named_whole(tmp_path, name):
    said = a_folder(tmp_path, east=[*RECORD_GONE[:1]]).call("explain", name, *LOOK)
    assert said.code == 64
    assert said.err.endswith('the first parts of it; did you mean "east/shop/Deployment/web"?\n')


def test_what_is_not_idle_is_kept_awake_for_as_long_as_asked(tmp_path):
    awake = web()
    awake["spec"]["replicas"] = 3
    folder = a_folder(tmp_path, east=[awake, a_service()])
    said = wake(folder, "east/shop/deploy/web")
    words = "is not idle; --for keeps a Service, or a workload that nothing owns, awake for longer"
    assert (said.code, said.err) == (64, f"error: east/shop/deploy/web: {words}\n")
    options = ("--for", "4h", *LOOK)
    said = folder.call("wake", "east/shop/deploy/web", *options)
    written = "reconciler/exclude-until=2026-11-21T02:20:00Z"
    assert (said.code, said.err.splitlines()[0]) == (0, f"annotating east/shop/Deployment/web: {written}")
    annotations = folder.objects()["east", "shop", "Deployment", "web"]["metadata"]["annotations"]
    assert annotations == {"reconciler/exclude-until": "2026-11-21T02:20:00Z"}
    said = folder.call("wake", "east/shop", *options)
    assert (said.code, said.err) == (64, "error: east/shop: nothing below it is idle\n")


def test_what_may_be_idle_is_not_taken_for_awake(tmp_path):
    folder = a_folder(tmp_path, east=[a_service()])
    folder.write("snapshot/east/recording.yaml", f"at: {NOW}\nread:\n- resource: services\n- resource: namespaces\n")
    said = folder.call("wake", "east/shop/svc/web", "--for", "4h", *LOOK)
    assert (said.code, "nothing idle was found, and not all could be read" in said.err) == (1, True), said.err
    assert "exclude-until" not in (tmp_path / "snapshot/east/objects.yaml").read_text()


def test_a_wake_for_less_than_min_awake_says_that_it_stays_awake_for_longer(tmp_path):
    folder = a_folder(tmp_path, east=[web(**RECORD)])
    said = folder.call("wake", "east/shop/deploy/web", "--for", "30m", *LOOK)
    assert said.code == 0
    words = "is shorter than 2h, the default of minAwake; it stays awake for minAwake of its policy in any case"
    assert said.err.startswith(f"warning: --for 30m: {words}\n")


def test_a_wake_that_ends_earlier_than_one_before_says_so(tmp_path):
    folder = a_folder(tmp_path, east=[web(**RECORD)])
    options = (*LOOK, "--quiet")
    assert folder.call("wake", "east/shop/deploy/web", "--for", "4h", *options).err == ""
    words = "was excluded from idling for longer, until 2026-11-21T02:20:00Z"
    said = folder.call("wake", "east/shop/deploy/web", "--for", "3h", *LOOK)
    assert f"warning: east/shop/Deployment/web: {words}\n" in said.err


def test_a_wake_of_a_service_without_marks_keeps_what_is_behind_it_awake(tmp_path):
    folder = a_folder(tmp_path, east=[web(**RECORD), a_service()])
    said = folder.call("wake", "east/shop/svc/web", "--for", "4h", *LOOK, "--quiet")
    assert (said.code, said.err) == (0, "")
    service = folder.objects()["east", "shop", "Service", "web"]
    assert service["metadata"]["annotations"]["reconciler/exclude-until"] == "2026-11-21T02:20:00Z"


def test_what_is_only_kept_awake_is_not_said_to_match_policies_that_nobody_read(tmp_path):
    folder = a_folder(tmp_path, east=[web()])
    said = folder.call("wake", "east/shop/deploy/web", "--for", "4h", *LOOK)
    assert (said.code, said.out.splitlines()[-1]) == (0, "Nothing is woken: no policy was compared.")


def test_of_a_namespace_only_what_sleeps_is_asked(tmp_path):
    folder = a_folder(tmp_path, east=[web(**RECORD), a_service()])
    assert wake(folder, "east/shop").code == 0
    assert folder.replicas("east", "shop", "Deployment", "web") == 3
    assert "annotations" not in folder.objects()["east", "shop", "Service", "web"]["metadata"]


def test_restore_by_a_service_without_marks(tmp_path):
    folder = a_folder(tmp_path, east=[web(**RECORD), a_service()])
    said = folder.call("restore", "east/shop/svc/web", *LOOK, "--auto-approve", "-q")
    assert said.code == 0, said.err
    assert folder.replicas("east", "shop", "Deployment", "web") == 3
