"""`reconciler connect` without a cluster: what is refused, what tokens say of themselves, kubeconfigs as text."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from reconciler.backends.kubernetes.tokens import TokenClaims, claims_of
from reconciler.cli import connect
from reconciler.cli.connect import _connected
from reconciler.cli.doctor_findings import token_finding
from reconciler.cli.kubeconfig_file import Kubeconfig, KubeconfigEntry, KubeconfigFile, KubeconfigSecret
from reconciler.errors import ConflictError, ForbiddenError, ReconcilerError, UsageError
from reconciler.model import ServiceAccount
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import fleet
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.tokens import a_jwt, claims

FLEET = fleet(["east", "west", "{name: hub, connection: {inCluster: true}}"], name="mine", home="hub")
TO_FILE = ("--file", "hub.kubeconfig", "--yes")
EITHER = "connect: expected either --file FILE or --hub CONTEXT, where the entry goes"
ROTATE = "--rotate: expected --file FILE, with or without --secret NAME, and nothing else"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "connect: expected the name of a cluster of the Fleet, or --rotate"),
        (("east", "--yes"), EITHER),
        (("east", *TO_FILE, "--hub", "hub"), EITHER),
        (("east", *TO_FILE, "--secret", "other"), "--secret: expected --hub CONTEXT beside it, or --rotate"),
        (("eats", *TO_FILE), 'eats: is no cluster of the Fleet, did you mean "east"?'),
        (("hub", *TO_FILE), "hub: is the cluster that runs are in, where they need no kubeconfig"),
        (("east", *TO_FILE, "--duration", "5m"), "from 10m to"),
        (("east", *TO_FILE), 'east: context "east": its kubeconfig has a server with http://'),
        (("west", *TO_FILE), 'west: context "west": its kubeconfig switches TLS verification off'),
        (("--rotate",), ROTATE),
        (("--rotate", "east", *TO_FILE), ROTATE),
        (("--rotate", "--hub", "hub", *TO_FILE), ROTATE),
        (("--rotate", "--duration", "10d", *TO_FILE), ROTATE),
        (("--rotate", "--admin-context", "east", *TO_FILE), ROTATE),
        (("--rotate", "--activator", *TO_FILE), ROTATE),
        (("--rotate", "--no-rotation", *TO_FILE), ROTATE),
        (("--rotate", "--policies", "policies", *TO_FILE), ROTATE),
        (("--rotate", *TO_FILE), "--file: hub.kubeconfig: has no context, expected the kubeconfig that runs use"),
        (("--rotate", "--file", "policies/fleet.yaml"), "--file: policies/fleet.yaml: has no context"),
        (("--rotate", "--file", "list"), "list: kubeconfig is no mapping, expected a kubeconfig"),
        (("--rotate", "--file", "policies"), "--file: policies: is no regular file"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    folder = Folder(tmp_path)
    folder.write("policies/fleet.yaml", FLEET)
    folder.write("list", "[]")
    insecure = Access("https://127.0.0.1:1", None, {"token": "any"}, {"insecure-skip-tls-verify": True})
    admin = write_kubeconfig(tmp_path / "admin", {"east": Access("http://127.0.0.1:1", None), "west": insecure})
    monkeypatch.setenv("KUBECONFIG", str(admin))

    said = folder.call("connect", *arguments)

    assert (said.code, said.out) == (64, "")
    assert words in said.err
    assert not (tmp_path / "hub.kubeconfig").exists()


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ACCOUNT = {"metadata": {"namespace": "reconciler", "name": "reconciler", "uid": "u1"}}
_DAY = 86400.0


def a_kubeconfig(user: dict[str, Any], *contexts: tuple[str, str, str]) -> str:
    """Return a kubeconfig with cluster and user `east`, and contexts as (name, cluster, user)."""
    return yaml.safe_dump({
        "clusters": [{"name": "east", "cluster": {"server": "https://east"}}],
        "users": [{"name": "east", "user": user}],
        "contexts": [{"name": one, "context": {"cluster": two, "user": three}} for one, two, three in contexts],
    })  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(None, "", id="no file yet"),
        pytest.param(a_kubeconfig({"token": "t"}, ("east", "east", "east")), "", id="ours"),
        pytest.param(
            a_kubeconfig({"token": "t"}, ("admin", "other", "east")), "user east is used by context admin", id="user"
        ),
        pytest.param(
            a_kubeconfig({"token": "t"}, ("admin", "east", "me")), "cluster east is used by context admin", id="cluster"
        ),
        pytest.param(a_kubeconfig({"client-key-data": "k"}), "user east has client-key-data", id="a client key"),
        pytest.param(
            a_kubeconfig({"token": "t"}, ("east", "east", "me")), "context east names a user that is not in it",
            id="a part elsewhere",
        ),
    ],
)  # fmt: skip
def test_what_an_entry_would_take_the_place_of(text: str | None, words: str) -> None:
    assert Kubeconfig(text).taken_by_others("east") == words


def test_a_token_is_renewed_only_where_the_server_is_verified(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    token = a_jwt(claims(ACCOUNT, NOON.timestamp() - 29 * _DAY, NOON.timestamp() + _DAY))
    insecure = Access("https://127.0.0.1:1", None, {"token": token}, {"insecure-skip-tls-verify": True})
    write_kubeconfig(tmp_path / "hub.kubeconfig", {"east": insecure})
    said = folder.call("connect", "--rotate", "--file", "hub.kubeconfig", "--now", "2026-11-20T12:00:00Z")
    assert said.code != 0
    assert "its kubeconfig switches TLS verification off" in said.err


CHANGED = "was changed meanwhile, expected it unchanged; call it again"


def test_what_is_left_as_it_is_is_said_also_where_the_file_was_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    accesses = {name: Access("https://127.0.0.1:1", None, {"token": name}) for name in ("east", "west")}
    file = write_kubeconfig(tmp_path / "hub.kubeconfig", accesses)

    def renewal(entry: KubeconfigEntry, *_: Any) -> tuple[str, str]:
        file.write_text("clusters: []")  # by somebody else
        return ("renewed", "new") if entry.context == "east" else ("left as it is", "")

    monkeypatch.setattr(connect, "_renewal", renewal)
    said = folder.call("connect", "--rotate", "--file", "hub.kubeconfig")
    assert (said.code != 0, said.out) == (True, "west: left as it is\n")
    assert CHANGED in said.err


class Member:
    """A member on which nothing is yet; `refuses` is the kind of object that it does not take."""

    manifests = property(lambda self: self)
    entry_name, account, title = "east", ServiceAccount("reconciler", "reconciler"), "Connect east:"

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.done: list[str] = []

    def find(self, _: Any) -> None:
        return None

    expiry_of = find

    def apply(self, manifest: Any) -> None:
        if manifest["kind"] == self.refuses:
            raise ForbiddenError("east: forbidden")
        self.done.append(manifest["kind"])

    def written(self, *_: Any) -> datetime:
        self.done.append("token")
        raise ConflictError(CHANGED)


OBJECTS = [{"kind": kind, "metadata": {"name": "reconciler"}} for kind in ("Namespace", "ServiceAccount")]
LINES = ["  + Namespace reconciler", "  + ServiceAccount reconciler"]


@pytest.mark.parametrize(
    ("member", "words", "done"),
    [
        pytest.param(Member("ServiceAccount"), "forbidden", LINES[:1], id="a right is missing"),
        pytest.param(Member("Namespace"), "forbidden", [], id="a right is missing from the start"),
        pytest.param(Member(), CHANGED, LINES, id="the kubeconfig was changed meanwhile"),
    ],
)
def test_what_was_done_before_it_failed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], member: Any, words: str, done: list[str]
) -> None:
    place = KubeconfigFile(str(tmp_path / "hub.kubeconfig"))
    with pytest.raises(ReconcilerError, match=words):
        _connected(member, place, OBJECTS, timedelta(days=90), asks=False)
    shown = capsys.readouterr().out.splitlines()[4:]
    assert shown == [f"{line} (applied)" for line in done]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        pytest.param(
            [{"resources": ["nodes"], "verbs": ["list"]}], ", which no longer grants list nodes", id="a right"
        ),
        pytest.param(
            [{"apiGroups": ["apps"], "resources": ["deployments", "other"], "verbs": ["get", "patch", "list"]}],
            ", which no longer grants get other.apps, list deployments.apps, list other.apps and 1 more",
            id="some of several",
        ),
        pytest.param(
            [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]}],
            ", which no longer grants get secrets/a",
            id="one on a name",
        ),
        pytest.param(
            [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
            ", which no longer grants get /metrics",
            id="one on a path",
        ),
        pytest.param([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}], "", id="less"),
        pytest.param(None, "", id="none at all"),
    ],
)
def test_rights_that_a_role_loses_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: Any, words: str
) -> None:
    """Two Fleets that share a member and a namespace take each other's, where their policies need others."""
    member: Any = Member()
    member.find = lambda _: {"rules": rules}
    role = {"kind": "ClusterRole", "metadata": {"name": "reconciler-apply"}}
    granted = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"]}]
    place = KubeconfigFile(str(tmp_path / "hub.kubeconfig"))
    with pytest.raises(ReconcilerError, match=CHANGED):
        _connected(member, place, [{**role, "rules": granted}], timedelta(days=90), asks=False)
    assert capsys.readouterr().out.splitlines()[1] == f"  ~ ClusterRole reconciler-apply{words}"


def test_no_token_is_issued_for_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    member: Any = Member()
    with pytest.raises(UsageError, match="No such file or directory, expected a file to write"):
        _connected(member, KubeconfigFile(str(tmp_path / "gone" / "file")), OBJECTS, timedelta(days=90), asks=False)
    assert member.done == []


def test_a_kubeconfig_takes_the_place_of_no_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is no regular file, expected a kubeconfig"):
        KubeconfigFile(str(tmp_path / "pipe")).read()


def of_life(days: float) -> TokenClaims:
    return TokenClaims(NOON, NOON + timedelta(days=days))


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        pytest.param(
            a_jwt(claims(ACCOUNT, NOON.timestamp(), NOON.timestamp() + 90 * _DAY)),
            TokenClaims(NOON, NOON + timedelta(days=90), ServiceAccount("reconciler", "reconciler"), "u1"),
            id="of a ServiceAccount",
        ),
        pytest.param(a_jwt({"exp": NOON.timestamp()}), TokenClaims(NOON, NOON), id="of somebody else"),
        pytest.param(a_jwt({"iss": "kubernetes/serviceaccount"}), None, id="one that never expires"),
        pytest.param(a_jwt({"exp": 1e300}), None, id="beyond every calendar"),
        pytest.param(a_jwt({"exp": "soon"}), None, id="no time"),
        pytest.param("abcdef0123456789", None, id="no JWT"),
        pytest.param("a.b.c", None, id="nor this"),
        pytest.param("a.é.c", None, id="nor that"),
        pytest.param("", None, id="none"),
    ],
)
def test_what_a_token_says_of_itself(token: str, expected: TokenClaims | None) -> None:
    assert claims_of(token) == expected


@pytest.mark.parametrize(
    ("life", "left", "state", "words"),
    [
        pytest.param(90, 7.1, "OK", "the token expires at Thu 2027-02-18 12:00 UTC", id="more than a week"),
        pytest.param(90, 7, "WARN", "the token expires at Thu 2027-02-18 12:00 UTC, in 7d", id="a week"),
        pytest.param(8, 4.1, "OK", "", id="a short one in its first half"),
        pytest.param(8, 4, "WARN", "", id="in its second"),
        pytest.param(90, 0, "FAIL", "the token expired at Thu 2027-02-18 12:00 UTC", id="over"),
    ],
)
def test_a_token_is_warned_of_a_week_before_it_expires(life: float, left: float, state: str, words: str) -> None:
    token = of_life(life)

    found = token_finding("east", token, token.expires - timedelta(days=left))

    assert (found.state, found.text) == (state, words or found.text)
    assert ("`reconciler connect east`" in found.todo) is (state != "OK")


OTHERS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "mine",
    "clusters": [{"name": "mine", "cluster": {"server": "https://one.example"}}],
    "users": [{"name": "me", "user": {"token": "one"}}, {"name": "file", "user": {"tokenFile": "t", "token": "x"}}],
    "contexts": [
        {"name": "mine", "context": {"cluster": "mine", "user": "me", "namespace": "a"}},
        {"name": "also", "context": {"cluster": "mine", "user": "file"}},
        {"name": "broken", "context": {"cluster": "gone", "user": "me"}},
    ],
    "preferences": {},
}
EAST = KubeconfigEntry("east", "east", {"server": "https://east.example"}, "two")


def test_an_entry_is_added_or_replaced_and_all_else_stays() -> None:
    once = Kubeconfig(yaml.safe_dump(OTHERS)).with_entry(EAST)
    twice = yaml.safe_load(Kubeconfig(once).with_entry(EAST))

    assert Kubeconfig(once).entries[-1] == EAST
    assert [(one.context, one.token) for one in Kubeconfig(once).entries] == [
        ("mine", "one"),
        ("also", ""),
        ("east", "two"),
    ]
    assert twice == yaml.safe_load(once)
    for part in ("clusters", "users", "contexts"):
        assert twice.pop(part)[:-1] == OTHERS[part]
    assert twice == {key: value for key, value in OTHERS.items() if key not in ("clusters", "users", "contexts")}
    assert Kubeconfig(Kubeconfig(None).with_entry(EAST)).entries == [EAST]


def test_a_token_is_renewed_for_all_contexts_of_its_user() -> None:
    renewed = yaml.safe_load(Kubeconfig(yaml.safe_dump(OTHERS)).with_tokens({"me": "new"}))

    assert renewed["users"][0] == {"name": "me", "user": {"token": "new"}}
    assert {**renewed, "users": OTHERS["users"]} == OTHERS


def test_a_file_that_somebody_else_wrote_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    place = KubeconfigFile(str(file))
    place.write(None, "one")
    file.write_text("other")

    with pytest.raises(ConflictError, match="was changed meanwhile, expected it unchanged; call it again"):
        place.write("one", "two")

    assert [one.name for one in tmp_path.iterdir()] == ["kubeconfig"]
    assert file.read_text() == "other"


def test_behind_a_link_the_file_that_it_leads_to_is_written(tmp_path: Path) -> None:
    file, link = tmp_path / "kubeconfig", tmp_path / "link"
    file.write_text("one\r\n")
    link.symlink_to(file)

    KubeconfigFile(str(link)).write("one\r\n", "two")

    assert (link.is_symlink(), file.read_text()) == (True, "two")


@pytest.mark.parametrize("value", [pytest.param("/w==", id="no UTF-8"), pytest.param("a kubeconfig", id="no base64")])
def test_a_secret_that_holds_no_text_is_told(value: str) -> None:
    found: Any = SimpleNamespace(client=SimpleNamespace(cluster="hub"), find=lambda _: {"data": {"kubeconfig": value}})
    words = "^hub: Secret ours/own: the value of kubeconfig is no text in base64, expected a kubeconfig in it$"
    with pytest.raises(UsageError, match=words):
        KubeconfigSecret(found, "ours", "own").read()
