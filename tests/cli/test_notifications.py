"""What a run tells the receivers of the Fleet and of its tenants, on a real HTTP server; and what it never does."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from tests.backends.servers import PickerServer, silent
from tests.cases import cases
from tests.cli.receivers import CONTENT_TYPES, EVERYTHING, MOST_BYTES, SCHEMAS, events_to, received, told
from tests.cli.situations import in_conflict, limited, lost, malformed, overdue
from tests.pipeline.calls import Folder
from tests.pipeline.teams import NIGHT, SLEEP, two_teams

NOW, LATER = "2026-11-20T22:00:00Z", "2026-11-20T22:10:00Z"
MORNING = "2026-11-23T08:00:00Z"
SECRET_PATH, TOKEN = "/services/T0/B0/oTkWYqZx", "eyJhbGciOi-token"


def secret(folder: Folder, name: str, text: str) -> str:
    folder.write(f"secrets/{name}", f"{text}\n")
    return f"secrets/{name}"


def apply(folder: Folder, now: str = NOW, *more: str) -> str:
    """Apply, and return what was said about it; the exit code is that of a run that tells nobody."""
    said = folder.apply(now, "--credentials-dir", "secrets", *more)
    assert said.code == 0, said
    return said.err


@pytest.mark.parametrize("form", SCHEMAS)
def test_a_message_in_each_format_is_as_its_vendor_says(quickstart: Folder, httpserver: HTTPServer, form: str) -> None:
    httpserver.expect_request(SECRET_PATH, query_string="sig=Zm9v", method="POST").respond_with_data("ok", 202)
    file = secret(quickstart, "address", f"{httpserver.url_for(SECRET_PATH)}?sig=Zm9v")
    token = secret(quickstart, "token", TOKEN)
    where = f"urlFile: {file}, tokenFile: {token}, allowInsecureAuth: true"
    told(quickstart, f"{{format: {form}, {where}, 'on': {EVERYTHING}}}")
    assert apply(quickstart) == ""
    [(request, _)] = httpserver.log
    assert (request.content_type, request.headers["Authorization"]) == (CONTENT_TYPES[form], f"Bearer {TOKEN}")
    assert [error.message for error in SCHEMAS[form].iter_errors(request.get_json())] == []
    text = request.get_data(as_text=True)
    assert len(request.get_data()) < MOST_BYTES[form]
    assert "eu-west/dev-a/Deployment/api: replicas 3" in text
    assert "Fleet quickstart (snapshot): 1 woken, 3 idled" in text or form == "CloudEvents"
    assert not any(one in text for one in (TOKEN, SECRET_PATH, "Zm9v"))


def test_an_event_says_what_happened_in_numbers_and_which_run_it_was(
    quickstart: Folder, httpserver: HTTPServer
) -> None:
    told(quickstart, events_to(httpserver, on="[Idled]"))
    apply(quickstart, NOW, "--run-id", "17", "--source-revision", "b13")
    [event] = received(httpserver)
    assert (event["id"], event["source"], event["time"]) == ("17", "/reconciler/fleets/quickstart", NOW)
    data = event["data"]
    assert (data["revision"], data["counts"], data["omitted"]) == ("b13", {"Idled": 3}, 0)
    assert [(one["on"], one["about"], one["policy"]) for one in data["happened"]] == [
        ("Idled", "eu-west/ci/CronJob/nightly", "idle-runners"),
        ("Idled", "eu-west/ci/StatefulSet/runner", "idle-runners"),
        ("Idled", "eu-west/dev-a/Deployment/api", "idle-dev"),
    ]


@cases(
    "before now on words",
    ("changes held back", limited, NOW, "HeldBack", "limit 0"),
    ("cluster unknown", lost, NOW, "Failed", "us-east: "),
    ("policies in conflict", in_conflict, NOW, "Conflict", "again and idle-dev have the same priority"),
    ("wake overdue", overdue, MORNING, "Overdue", "should be awake"),
)
def test_what_lasts_is_told_once_and_again_after_a_day(
    quickstart: Folder, httpserver: HTTPServer, before: Callable[[Folder], None], now: str, on: str, words: str
) -> None:
    before(quickstart)
    told(quickstart, events_to(httpserver, on=f"[{on}]"))
    quickstart.apply(now)
    [event] = received(httpserver)
    assert {one["on"] for one in event["data"]["happened"]} == {on}
    assert words in event["data"]["happened"][0]["text"]
    quickstart.apply(now.replace(":00:00Z", ":10:00Z"))
    assert received(httpserver) == []
    quickstart.apply(now.replace(":00:00Z", ":20:00Z").replace("-20T", "-21T").replace("-23T", "-24T"))
    assert [list(one["data"]["counts"]) for one in received(httpserver)] == [[on]]


def test_what_a_receiver_did_not_take_comes_again(quickstart: Folder, httpserver: HTTPServer) -> None:
    limited(quickstart)
    told(quickstart, events_to(httpserver, on="[HeldBack]"))
    httpserver.clear()
    httpserver.expect_request("/events").respond_with_data("", 500)
    assert "status 500" in quickstart.apply(NOW).err
    httpserver.clear()
    httpserver.expect_request("/events").respond_with_data("")
    assert not any("warning: " in quickstart.apply(now).err for now in (LATER, LATER))
    assert len(received(httpserver)) == 1


def test_another_problem_is_another_message(quickstart: Folder, httpserver: HTTPServer) -> None:
    told(quickstart, events_to(httpserver, on="[Failed]"))
    for text in ("kind: [", "kind: [", "kind: IdlingPolicyy"):
        quickstart.write("policies/broken.yaml", text)
        quickstart.apply(NOW)
    assert len(received(httpserver)) == 2


def test_a_run_of_one_policy_forgets_nothing_of_others(quickstart: Folder, httpserver: HTTPServer) -> None:
    limited(quickstart)
    told(quickstart, events_to(httpserver, on="[HeldBack]"))
    for more in ((), ("--policy", "workers"), ()):
        quickstart.apply(LATER, *more)
    assert len(received(httpserver)) == 1


def test_what_was_over_meanwhile_is_told_again(quickstart: Folder, httpserver: HTTPServer) -> None:
    told(quickstart, events_to(httpserver))
    quickstart.apply(NOW)
    received(httpserver)
    away = quickstart.path / "us-east"
    shutil.move(quickstart.path / "snapshot" / "us-east", away)
    for now, told_now in ((LATER, 1), ("2026-11-20T22:20:00Z", 0)):
        quickstart.apply(now)
        assert len(received(httpserver)) == told_now, now
    shutil.move(away, quickstart.path / "snapshot" / "us-east")
    quickstart.apply("2026-11-20T22:30:00Z")
    assert received(httpserver) == []
    shutil.move(quickstart.path / "snapshot" / "us-east", away)
    quickstart.apply("2026-11-20T22:40:00Z")
    assert len(received(httpserver)) == 1


def test_nothing_is_sent_where_nothing_of_it_happened_or_nothing_was_applied(
    quickstart: Folder, httpserver: HTTPServer
) -> None:
    told(quickstart, events_to(httpserver))
    for verb in ("plan", "diff"):
        assert quickstart.call(verb, "policies", "--snapshot", "snapshot", "--now", NOW).code == 0
    assert received(httpserver) == []
    apply(quickstart)
    assert len(received(httpserver)) == 1
    apply(quickstart, LATER)
    assert received(httpserver) == []


def test_policies_that_cannot_be_used_are_told(quickstart: Folder, httpserver: HTTPServer) -> None:
    told(quickstart, events_to(httpserver))
    malformed(quickstart)
    assert quickstart.apply(NOW).code == 3
    [event] = received(httpserver)
    assert (event["data"]["counts"]["Failed"], event["data"]["counts"]["Woken"]) == (1, 1)
    assert event["data"]["happened"][0]["text"].startswith("policies/broken.yaml:2:1: ")


def test_a_saved_plan_tells_what_it_did(quickstart: Folder, httpserver: HTTPServer) -> None:
    told(quickstart, events_to(httpserver))
    quickstart.plan(NOW, "--out", "plan.json")
    assert received(httpserver) == []
    assert quickstart.call("apply", "plan.json", "--snapshot", "snapshot", "--now", NOW, "-q").code == 0
    assert received(httpserver)[0]["data"]["counts"] == {"Woken": 1, "Idled": 3}


# What goes wrong is a warning.


def test_receivers_that_hang_or_are_not_there_cost_no_more_than_their_time(
    quickstart: Folder, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.cli.deliveries.SECONDS", 0.4)
    httpserver.expect_request("/refuses", method="POST").respond_with_data(f"no {SECRET_PATH} here", 404)
    refuses = secret(quickstart, "refuses", httpserver.url_for("/refuses"))
    with PickerServer(silent) as hanging, socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        file = secret(quickstart, "address", f"http://127.0.0.1:{hanging.port}{SECRET_PATH}")
        told(
            quickstart,
            f"{{format: Slack, urlFile: {file}, 'on': [Idled]}}",
            f"{{format: CloudEvents, url: 'http://127.0.0.1:{reserved.getsockname()[1]}', 'on': [Idled]}}",
            f"{{format: Teams, urlFile: {refuses}, 'on': [Idled]}}",
            events_to(httpserver),
        )
        said = apply(quickstart)
        assert len(hanging.received) == 1
    assert len(received(httpserver)) == 1
    assert sorted(line.partition(": notification ")[2] for line in said.splitlines()) == [
        "(CloudEvents) to 127.0.0.1: the connection was refused, expected the message to be taken",
        "(Slack) to 127.0.0.1: no answer within 2 s, expected the message to be taken",
        "(Teams) to localhost: status 404, expected the message to be taken",
    ]
    assert all(line.startswith("warning: policies/fleet.yaml:") for line in said.splitlines())


@pytest.mark.parametrize(
    ("receiver", "said"),
    [
        (
            "urlFile: secrets/none",
            "urlFile {}/secrets/none cannot be read (No such file or directory), expected an addr",
        ),
        ("urlFile: secrets/words", "urlFile holds no address, expected an http or https URL without user, password or"),
        ("urlFile: secrets/login", "urlFile holds no address, expected an http or https URL without user, password or"),
        (
            "urlFile: policies/fleet.yaml",
            "notify: urlFile policies/fleet.yaml of the Fleet is not looked at, expected a",
        ),
        (
            "urlFile: secrets/address, tokenFile: secrets/token",
            'the address begins with "http://" beside tokenFile, expected "https://"; or say allowInsecureAuth: true',
        ),
    ],
)
def test_an_address_or_a_token_that_may_not_be_used_is_a_warning_that_shows_neither(
    quickstart: Folder, receiver: str, said: str
) -> None:
    secret(quickstart, "words", f"not {TOKEN} an address")
    secret(quickstart, "login", f"https://me:{TOKEN}@receiver.example{SECRET_PATH}")
    secret(quickstart, "address", f"http://receiver.example{SECRET_PATH}")
    secret(quickstart, "token", TOKEN)
    told(quickstart, f"{{format: Slack, {receiver}, 'on': [Idled]}}")
    warning = apply(quickstart)
    assert f"notification (Slack): {said.format(quickstart.path)}" in warning
    assert not any(one in warning for one in (TOKEN, SECRET_PATH))


# Teams.


@pytest.fixture
def teams(tmp_path: Path, httpserver: HTTPServer) -> Folder:
    """Two teams and the platform, each with a receiver of its own."""
    folder = two_teams(Folder(tmp_path))
    told(folder, events_to(httpserver, "/all"))
    for name in ("a", "b"):
        told(folder, events_to(httpserver, f"/{name}"), tenant=name)
    return folder


def by_receiver(server: HTTPServer) -> dict[str, str]:
    """Return the one message that each receiver got since the last time."""
    found = {request.path: request.get_data(as_text=True) for request, _ in server.log}
    assert len(found) == len(server.log)
    server.clear_log()
    return found


def test_a_tenant_is_told_what_is_its_own_and_nothing_else(teams: Folder, httpserver: HTTPServer) -> None:
    fleet = teams.path / "policies" / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("workloads: 8", "workloads: 0"))
    teams.write("policies/teams/a/again.yaml", SLEEP.replace("name: sleep", "name: again"))
    teams.write(
        "policies/tools-again.yaml", SLEEP.replace("selector: {", "selector: {namespaces: {include: [tools]}, ")
    )
    shutil.rmtree(teams.path / "snapshot" / "prod")
    teams.apply(NIGHT)
    found = by_receiver(httpserver)
    assert set(found) == {"/all", "/a", "/b"}
    for receiver, own, counts in (
        ("/a", "team-a-web", {"Conflict": 1}),
        ("/b", "team-b-web", {"HeldBack": 4}),
    ):
        event = json.loads(found[receiver])
        assert event["source"] == f"/reconciler/fleets/production/tenants{receiver}"
        assert event["data"]["counts"] == counts
        for foreign in {"team-a", "team-b", "shared-b", "tools", "prod/", "platform"} - {own[:6], "shared-b"}:
            assert foreign not in found[receiver], (receiver, foreign)
    assert json.loads(found["/all"])["data"]["counts"] == {"Failed": 1, "HeldBack": 4, "Conflict": 2}


def test_a_tenant_is_told_what_the_platform_idles_there(teams: Folder, httpserver: HTTPServer) -> None:
    (teams.path / "policies/teams/a/sleep.yaml").unlink()
    teams.write("policies/teams/b/sleep.yaml", "# nothing\n")
    teams.write("policies/all.yaml", SLEEP.replace("name: sleep", "name: all") + "  limits: {workloads: 99}\n")
    teams.apply(NIGHT)
    found = {name: json.loads(text)["data"] for name, text in by_receiver(httpserver).items()}
    assert {one["about"] for one in found["/a"]["happened"]} == {
        "dev/team-a-web/Deployment/api",
        "dev/team-a-web/Deployment/web",
    }
    assert {one["about"].split("/")[1] for one in found["/b"]["happened"]} == {"team-b-web", "shared-b"}


def test_a_tenant_whose_policies_cannot_be_used_is_told_so_alone(teams: Folder, httpserver: HTTPServer) -> None:
    teams.write("policies/teams/b/sleep.yaml", SLEEP.replace("selector", "selektor"))
    assert teams.apply(NIGHT).code == 3
    found = {name: json.loads(text)["data"] for name, text in by_receiver(httpserver).items()}
    assert (found["/b"]["counts"], found["/all"]["counts"]["Failed"]) == ({"Failed": 1}, 1)
    assert "tenant b" in found["/b"]["happened"][0]["text"]
    assert found["/a"]["counts"] == {"Idled": 2}
