"""What `restore` and `wake` say of names that match nothing and of what another Fleet idled, and when they ask."""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from tests.pipeline.calls import Folder, Said, Terminal
from tests.pipeline.manifests import fleet
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
    for cluster, objects in clusters.items():
        folder.write(f"snapshot/{cluster}/objects.yaml", yaml.safe_dump_all(objects))
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

    @pytest.mark.parametrize(("answer", "code", "after"), [("yes\n", 0, 3), ("no\n", 1, 0), ("", 1, 0)])
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
