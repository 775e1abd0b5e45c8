"""Which files are policies, and what is said of those that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.errors import ExitCode, PolicyError, Problem
from reconciler.policy.load import check_policies, read_fleet, read_policies
from reconciler.policy.policy_files import load
from tests.policy.base import CALENDAR, FILES, FLEET, IDLING, problems_in


def names(path: Path | str) -> list[str]:
    return [document.value["metadata"]["name"] for document in load(path).documents]


def document(name: str) -> str:
    return f"metadata: {{name: {name}}}\n"


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "policies"
    folder.mkdir()
    return folder


def test_every_yaml_file_that_is_not_hidden_counts_in_the_order_of_paths(policies):
    files = ["b.yaml", "a.yml", "b/c.yaml", "b/a/z.yaml", "b-c.yaml", "deep/er/and/deeper/x.yml", "two.yaml.yml"]
    others = ["readme.md", "a.yaml~", "a.YAML", ".hidden.yaml", ".git/a.yaml", "b/.hidden/a.yaml", "yaml", "c.json"]
    for name in files + others:
        (policies / name).parent.mkdir(parents=True, exist_ok=True)
        (policies / name).write_text(document(name))
    assert names(policies) == [
        *("a.yml", "b/a/z.yaml", "b/c.yaml", "b-c.yaml", "b.yaml", "deep/er/and/deeper/x.yml", "two.yaml.yml")
    ]


def test_a_file_may_hold_several_documents(policies):
    (policies / "a.yaml").write_text(f"{document('a')}---\n# nothing\n---\n{document('b')}...\n---\n{document('c')}")
    assert names(policies) == ["a", "b", "c"]


def test_one_file_may_be_given_whatever_it_is_called(policies):
    (policies / "fleet.txt").write_text(FLEET)
    assert check_policies("policies/fleet.txt")[1] == ()
    assert read_fleet(policies / "fleet.txt").place.file == str(policies / "fleet.txt")


@pytest.mark.parametrize(
    ("beside", "refused"),
    [
        pytest.param({"idle.yaml": IDLING}, True, id="policies of this Fleet"),
        pytest.param({"team/idle.yml": IDLING}, True, id="policies of this Fleet, further down"),
        pytest.param({"idle.yaml": IDLING, "other.yaml": FLEET}, False, id="another Fleet too"),
        pytest.param({".idle.yaml": IDLING, "notes.yaml": "kind: Deployment\n"}, False, id="no policies"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_a_file_that_leaves_policies_out_is_no_set_of_policies(tmp_path, beside, refused):
    for name, text in {"fleet.yaml": FLEET, **beside}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    if not refused:
        assert read_policies(tmp_path / "fleet.yaml").idling == ()
        return
    with pytest.raises(PolicyError, match=r"is one of several files with policies .*expected the directory"):
        read_policies(tmp_path / "fleet.yaml")
    assert check_policies(tmp_path / "fleet.yaml")[1] == ()
    assert read_fleet(tmp_path / "fleet.yaml").clusters


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("policies", "policies/sub/fleet.yaml"),
        ("policies/", "policies/sub/fleet.yaml"),
        ("./policies", "policies/sub/fleet.yaml"),
        (".", "policies/sub/fleet.yaml"),
        (Path("policies"), "policies/sub/fleet.yaml"),
        ("policies/sub/fleet.yaml", "policies/sub/fleet.yaml"),
        ("policies/../policies", "policies/../policies/sub/fleet.yaml"),
    ],
)
def test_files_are_named_as_a_person_would_type_them(policies, given, file):
    (policies / "sub").mkdir()
    (policies / "sub/fleet.yaml").write_text(FLEET)
    assert str(read_fleet(given).place) == f"{file}:1"


def test_links_in_a_circle_end(policies):
    (policies / "a.yaml").write_text(document("a"))
    (policies / "loop").symlink_to(".")
    (policies / "sub").mkdir()
    (policies / "sub/up").symlink_to("..")
    (policies / "sub/b.yaml").write_text(document("b"))
    assert names(policies) == ["a", "b"]


def refused(path: Path | str) -> tuple[Problem, ...]:
    with pytest.raises(PolicyError) as caught:
        read_policies(path)
    assert caught.value.exit_code == ExitCode.MALFORMED
    return caught.value.problems


def test_a_missing_or_empty_directory_is_never_no_policies(policies):
    assert refused("none") == (Problem.of_path("none", "does not exist, expected a directory with policy files"),)
    empty = (Problem.of_path("policies", "has no policy in it, expected at least a Fleet"),)
    assert refused("policies") == empty
    (policies / "words.yaml").write_text("# nothing yet\n---\n")
    (policies / ".fleet.yaml").write_text(FLEET)
    assert refused("policies") == empty


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param(
            "a.yaml", b"a: 1\nb: \xe9\n", "policies/a.yaml:2:4: byte #xe9 is no UTF-8, expected text", id="Latin-1"
        ),
        pytest.param(
            "a.yaml",
            b"\xff\xfea\x00\x00\xd8",
            "policies/a.yaml:1:2: byte #x00 is no UTF-16-LE, expected text",
            id="UTF-16",
        ),
        pytest.param("a.yaml", b"a: 1\n\x00", "policies/a.yaml:2:1: character #x00 is not allowed in YAML", id="NUL"),
        pytest.param(
            "a.yaml",
            b"[1]",
            "policies/a.yaml:1:1: is a list, expected a policy with apiVersion, kind and metadata",
            id="list",
        ),
        pytest.param(
            "a.yaml",
            b"text",
            'policies/a.yaml:1:1: is "text", expected a policy with apiVersion, kind and metadata',
            id="text",
        ),
    ],
)
def test_files_that_are_no_policies(tmp_path, name, content, expected):
    assert problems_in(tmp_path, {**FILES, name: content}) == [expected]


def test_what_is_there_but_cannot_be_read_is_a_problem(policies):
    (policies / "fleet.yaml").write_text(FLEET)
    (policies / "gone.yaml").symlink_to("nowhere.yaml")
    os.mkfifo(policies / "pipe.yaml")
    assert [str(problem) for problem in refused("policies")] == [
        "policies/gone.yaml:1:1: cannot be read: No such file or directory, expected a file that can be read",
        "policies/pipe.yaml:1:1: is no regular file, expected one",
    ]


def test_a_file_whose_name_is_no_utf_8_can_be_named(policies):
    (policies / "fleet.yaml").write_text(FLEET)
    os.close(os.open(os.fsencode(policies) + b"/\xff.yaml", os.O_CREAT | os.O_WRONLY))
    with open(os.fsencode(policies) + b"/\xff.yaml", "wb") as stream:
        stream.write(b"[")
    assert [problem.file for problem in refused("policies")] == ["policies/\\xff.yaml"]


def test_the_digest_is_of_names_and_bytes(policies):
    (policies / "fleet.yaml").write_text(FLEET)
    first = read_policies("policies").digest
    assert len(first) == 64
    assert read_policies(policies).digest == first
    (policies / "fleet.yaml").rename(policies / "clusters.yaml")
    renamed = read_policies("policies").digest
    (policies / "clusters.yaml").write_text(FLEET + "# a word\n")
    assert len({first, renamed, read_policies("policies").digest}) == 3


BROKEN = "kind: IdlingPolicy\nspec: [\n"


def test_the_fleet_can_be_read_where_other_policies_are_broken(policies):
    (policies / "fleet.yaml").write_text(f"{FLEET}---\n{BROKEN}")
    (policies / "broken.yaml").write_bytes(b"\xff")
    (policies / "wrong.yaml").write_text("kind: Calendar\nspec: 7\n")
    assert [cluster.name for cluster in read_fleet("policies").clusters] == ["eu-west", "us-east"]
    assert len(refused("policies")) > 2


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"c.yaml": CALENDAR}, ["policies: has no Fleet, expected exactly one"], id="none"),
        pytest.param(
            {"a.yaml": FLEET, "b.yaml": FLEET},
            ["policies/b.yaml:2:7: kind: is a second Fleet, expected one; the first is at policies/a.yaml:1"],
            id="two",
        ),
        pytest.param(
            {"a.yaml": FLEET.replace("home", "hom"), "b.yaml": "["},
            ['policies/a.yaml:5:3: spec.hom: unknown field, did you mean "home"?'],
            id="broken itself",
        ),
        pytest.param(
            {"b.yaml": "["},
            [
                "policies: has no Fleet, expected exactly one",
                "policies/b.yaml:2:1: is no YAML: did not find expected node content",
            ],
            id="perhaps in a file that cannot be read",
        ),
    ],
)
def test_a_fleet_that_cannot_be_read(policies, files, expected):
    for name, text in files.items():
        (policies / name).write_text(text)
    with pytest.raises(PolicyError) as caught:
        read_fleet("policies")
    assert [str(problem) for problem in caught.value.problems] == expected


def test_one_file_of_several_says_that_the_directory_has_the_fleet(policies):
    (policies / "fleet.yaml").write_text(FLEET)
    (policies / "c.yaml").write_text(CALENDAR)
    said = "policies/c.yaml: has no Fleet, expected exactly one; name the directory that holds it"
    assert [str(problem) for problem in refused("policies/c.yaml")] == [said]


def test_what_cannot_be_read_hides_nothing_and_invents_nothing(tmp_path):
    files = {
        **FILES,
        "fleet.yaml": "kind: [\n",
        "calendar.yaml": CALENDAR.replace("kind: Calendar", "kind: Calender"),
        "idling.yaml": FILES["idling.yaml"]
        .replace("mode: Enforce", "mode: enforced")
        .replace("idleReplicas", "idleReplica"),
    }
    assert problems_in(tmp_path, files) == [
        'policies/calendar.yaml:2:7: kind: is "Calender", expected "Fleet", "IdlingPolicy", "Calendar", '
        '"FederatedReplicaSet" or "DownscalePolicy", did you mean "Calendar"?',
        "policies/fleet.yaml:2:1: is no YAML: did not find expected node content",
        'policies/idling.yaml:5:9: spec.mode: is "enforced", expected "Enforce" or "Observe", did you mean "Enforce"?',
        'policies/idling.yaml:18:3: spec.idleReplica: unknown field, did you mean "idleReplicas"?',
    ]
