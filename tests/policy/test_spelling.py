"""How policies are spelt: hours as downtime or uptime, selection by name, and what is said of other spellings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconciler.decide.schedule import is_open, open_periods
from reconciler.policy.load import read_policies
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, placed, target_ref
from tests.policy.base import FILES, edited, problems_in

START = datetime(2026, 11, 16, tzinfo=UTC)  # a Monday


def of_hours(tmp_path, hours):
    (tmp_path / "policies").mkdir(exist_ok=True)
    for name, text in {**FILES, "hours.yaml": CALENDAR.format(hours=hours)}.items():
        (tmp_path / "policies" / name).write_text(text)
    (found,) = [one for one in read_policies(tmp_path / "policies").calendars if one.name == "hours"]
    return found


CALENDAR = """\
---
apiVersion: reconciler/v1alpha1
kind: Calendar
metadata: {{name: hours}}
spec: {{timeZone: Europe/Paris, {hours}}}
"""


@pytest.mark.parametrize(
    ("uptime", "downtime"),
    [
        pytest.param('["Mon-Fri 08:00-18:00"]', '["Mon-Thu 18:00-08:00", "Fri 18:00-Mon 08:00"]', id="office hours"),
        pytest.param('["Fri 20:00-Mon 07:00"]', '["Mon 07:00-Fri 20:00"]', id="over the end of the week"),
        pytest.param('["00:00-24:00"]', '["2020-01-01T00:00/2020-01-02T00:00"]', id="always"),
        pytest.param('["08:00-12:00", "11:00-18:00"]', '["18:00-08:00"]', id="overlapping"),
        pytest.param('["Mon 00:00-06:00", "Sun 22:00-24:00"]', '["Mon 06:00-Sun 22:00"]', id="around Sunday night"),
    ],
)
def test_uptime_is_the_inverse_of_downtime(tmp_path, uptime, downtime):
    """Over both changes of the clocks."""
    for start in (datetime(2026, 3, 23, tzinfo=UTC), datetime(2026, 10, 19, tzinfo=UTC)):
        end = start + timedelta(days=14)
        idle = [
            open_periods(of_hours(tmp_path, f"{key}: {value}"), start, end)
            for key, value in (("uptime", uptime), ("downtime", downtime))
        ]
        assert idle[0] == idle[1]


def test_an_uptime_that_happens_once_and_exceptions_are_awake(tmp_path):
    exceptions = 'exceptions: [{from: "2026-11-18T20:00", to: "2026-11-18T22:00", reason: release}]'
    calendar = of_hours(tmp_path, f'uptime: ["Mon-Fri 08:00-18:00", "2026-11-21T10:00/2026-11-21T12:00"], {exceptions}')
    awake = [hour for hour in range(24 * 6) if not is_open(calendar, START + timedelta(hours=hour - 1))]
    assert awake == [
        *(day * 24 + hour for day in (0, 1) for hour in range(8, 18)),
        *(2 * 24 + hour for hour in (*range(8, 18), 20, 21)),
        *(day * 24 + hour for day in (3, 4) for hour in range(8, 18)),
        *(5 * 24 + hour for hour in (10, 11)),
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        pytest.param(
            "idling.yaml",
            "- metric:\n",
            "- name: requests\n      schedule: {timeZone: UTC, downtime: ['20:00-07:00']}\n    - metric:\n",
            "policies/idling.yaml:11:7: spec.idleWhen[0].name: stands beside schedule, expected it beside a metric",
            id="a name beside a schedule",
        ),
        pytest.param(
            "calendar.yaml",
            "  timeZone: Europe/Paris\n",
            '  timeZone: Europe/Paris\n  uptime: ["08:00-18:00"]\n',
            "policies/calendar.yaml:6:3: spec.uptime: stands beside downtime, expected one of the two",
            id="downtime and uptime",
        ),
    ],
)
def test_what_does_not_go_together(tmp_path, file, old, new, expected):
    assert problems_in(tmp_path, edited(file, old, new)) == [expected]


NEVER = "spec.uptime: leaves no hour of the week, so nothing is ever idle by it"
SHORT = "spec.downtime: is awake for less than 12 hours on a weekend, from Sat 07:00 to Sat 12:00"
OWN_HOURS = "{timeZone: UTC, uptime: []}"


@pytest.mark.parametrize("file", ["calendar.yaml", "idling.yaml"])
def test_an_uptime_without_hours_is_one_problem(tmp_path, file):
    hours = 'downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]'
    inside = ("\n        calendar: nights", f" {OWN_HOURS}")
    files = edited(file, hours, "uptime: []") if file == "calendar.yaml" else edited(file, *inside)
    (problem,) = problems_in(tmp_path, files)
    assert "uptime: is an empty list, expected a list with at least 1 entry" in problem


BY_DAY = "is idle by day and awake at night, from Mon to Fri"
TURNED = "states the opposite"


@pytest.mark.parametrize(
    ("hours", "warnings"),
    [
        pytest.param('uptime: ["00:00-24:00"]', [NEVER], id="every day"),
        pytest.param('uptime: ["Mon 00:00-Sun 24:00"]', [NEVER], id="the whole week"),
        pytest.param('uptime: ["Mon-Fri 07:00-20:00", "Sat 09:00-12:00"]', [], id="a short Saturday is meant"),
        pytest.param('uptime: ["Mon 06:00-20:00", "Tue-Fri 07:00-20:00"]', [], id="an early Monday is meant"),
        pytest.param('uptime: ["2026-11-21T10:00/2026-11-21T12:00"]', [], id="once"),
        pytest.param(
            'downtime: ["Mon-Fri 20:00-07:00", "Sat 12:00-Mon 07:00"]', [SHORT], id="a short gap is an accident"
        ),
        pytest.param('downtime: ["Mon-Fri 08:00-18:00"]', [f"spec.downtime: {BY_DAY}; uptime {TURNED}"], id="by day"),
        pytest.param(
            'uptime: ["Mon-Fri 20:00-07:00"]', [f"spec.uptime: {BY_DAY}; downtime {TURNED}"], id="awake at night"
        ),
        pytest.param('downtime: ["Mon-Thu 08:00-18:00"]', [], id="Friday is not idle by day"),
        pytest.param('downtime: ["12:00-13:00"]', [f"spec.downtime: {BY_DAY}; uptime {TURNED}"], id="at noon alone"),
        pytest.param('downtime: ["Mon-Fri 00:00-06:00", "Mon-Fri 12:00-13:00"]', [], id="at noon and at night"),
    ],
)
def test_warnings_of_hours(tmp_path, hours, warnings):
    (tmp_path / "policies").mkdir()
    for name, text in {**FILES, "hours.yaml": CALENDAR.format(hours=hours)}.items():
        (tmp_path / "policies" / name).write_text(text)
    found = read_policies(tmp_path / "policies").warnings
    assert [f"{one.field}: {one.message}" for one in found if "hours.yaml" in one.file] == warnings


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("CEST", "", id="an abbreviation is not near another one"),
        pytest.param("GMT+2", "", id="Etc/GMT+2 is four hours away"),
        pytest.param("paris", ', did you mean "Europe/Paris"?', id="a city"),
        pytest.param("Europ/Paris", ', did you mean "Europe/Paris"?', id="misspelt"),
        pytest.param("utc", ', did you mean "UTC"?', id="in small letters"),
        pytest.param("/etc/localtime", "", id="a name that only this machine has"),
    ],
)
def test_what_is_said_of_a_time_zone_that_is_none(tmp_path, name, hint):
    folder = Folder(tmp_path)
    for file, text in FILES.items():
        folder.write(f"policies/{file}", text)
    hours = CALENDAR.format(hours='uptime: ["Mon-Fri 07:00-20:00"]')
    folder.write("policies/hours.yaml", hours.replace("Europe/Paris", name).replace("UTC", name))
    line = f'is "{name}", expected a time zone like Europe/Paris{hint}'
    assert [one for one in folder.call("validate").err.splitlines() if one.endswith(line)] != []


@pytest.mark.parametrize("verb", ["validate", "calendar", "plan", "apply"])
def test_a_file_with_a_policy_that_is_not_read_because_of_its_name_is_named(repository, tmp_path, verb):
    folder = Folder.copied(repository / "examples" / "quickstart", tmp_path / "quickstart")
    policy = CALENDAR.format(hours='uptime: ["Mon-Fri 07:00-20:00"]')
    named = ["a/.nights.yaml", "nights.YAML", "nights.json", "nights.txt", "nights_test.yaml"]
    for name in named:
        folder.write(f"policies/{name}", policy)
    folder.write("policies/nights.json", '{"apiVersion": "reconciler/v1alpha1", "kind": "Calendar"}')
    folder.write("policies/nights.yaml.gz", "unreadable")
    folder.write("policies/good_test.yaml", "apiVersion: reconciler/v1alpha1\nkind: PolicyTest\n")
    folder.write("policies/notes.txt", "buy milk\n")
    folder.write("policies/.notes.yaml", "buy: milk\n")
    folder.write("policies/README.md", "    apiVersion: reconciler/v1alpha1\n")
    folder.write("policies/.git/nights.yaml", policy)
    words = "is not read, expected a name that ends in .yaml or .yml, not in _test, and begins with no dot"
    expected = [f"warning: policies/{name}: holds a policy and {words}" for name in named]
    expected.append(f"warning: policies/nights.yaml.gz: is compressed and {words}")
    on = [] if verb in ("validate", "calendar") else ["--snapshot", "snapshot"]
    said = folder.call(verb, *on, *(["--auto-approve"] if verb == "apply" else ()))
    assert said.code == 0
    assert [line for line in said.err.splitlines() if line.startswith("warning: ")] == sorted(expected)


@pytest.mark.parametrize("verb", ["plan", "validate"])
def test_a_snapshot_in_place_of_policies_is_one_problem_that_says_how_it_is_given(repository, tmp_path, verb):
    folder = Folder.copied(repository / "examples" / "quickstart", tmp_path / "quickstart")
    said = folder.call(verb, "snapshot")
    assert said.code == 3
    assert said.err.count("\n") == 1
    assert said.err.endswith("a snapshot is given as --snapshot snapshot\n")


def test_two_documents_without_a_line_between_them_are_told_of_it(tmp_path):
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", "".join(FILES.values()).replace("---\n", ""))
    assert "a line --- separates two documents in one file" in folder.call("validate").err


def test_minimums_above_the_replicas_are_a_warning(repository, tmp_path):
    folder = Folder.copied(repository / "examples" / "quickstart", tmp_path / "quickstart")
    text = (folder.path / "policies" / "placement.yaml").read_text()
    folder.write("policies/placement.yaml", text.replace("maxReplicas: 4", "minReplicas: 13"))
    words = "spec.replicas: is 12, fewer than all minReplicas together, 13: not every cluster gets its minimum"
    assert words in folder.call("validate").err
    folder.write("policies/placement.yaml", text.replace("maxReplicas: 4", "minReplicas: 12"))
    assert folder.call("validate").err == ""


@pytest.mark.parametrize(
    ("west", "words"),
    [
        ("west: {maxReplicas: 3}", "spec.replicas: is 5, more than all maxReplicas together, 4: the rest runs nowhere"),
        ("west: {maxReplicas: 4}", ""),
        ("west: {maxReplicas: 3}, '*': {maxReplicas: 1}", ""),
        ("west: {}", ""),
    ],
    ids=["too few", "enough", "others", "no bound"],
)
def test_maximums_below_the_replicas_are_a_warning(tmp_path, west, words):
    folder = Folder(tmp_path)
    clusters = f"clusters: {{east: {{maxReplicas: 1, weight: 1}}, {west}}}"
    folder.write("policies/all.yaml", documents(fleet(["east", "west"]), placed(5, clusters, target_ref())))
    assert folder.call("validate").err.partition(" spec")[2] == words.removeprefix("spec") + "\n" * bool(words)
