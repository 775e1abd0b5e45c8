"""Tenants in the Fleet: what is refused there, links between folders, and what their policies are called."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reconciler.errors import PolicyError
from reconciler.policy import load
from reconciler.policy.compiled import compile_policies
from reconciler.policy.load import check_policies, read_fleet_for_wakes, read_policies
from reconciler.policy.policy_kinds import policy_document
from reconciler.policy.types import PolicySet
from tests.pipeline.calls import Folder, inside
from tests.pipeline.teams import FILES, FLEET, SLEEP, two_teams
from tests.policy.base import problems_in


def fleet(old: str, new: str) -> dict[str, str]:
    assert FLEET.count(old) == 1
    return {**FILES, "fleet.yaml": FLEET.replace(old, new)}


NOT_APART = yaml.safe_load(Path(__file__).with_name("wrong_policies.yaml").read_text())["tenants"]


@pytest.mark.parametrize("case", NOT_APART.values(), ids=NOT_APART)
def test_tenants_that_are_not_apart_are_refused(tmp_path, case):
    told = [case["told"]] if isinstance(case["told"], str) else case["told"]
    assert problems_in(tmp_path, fleet(case["old"], case["new"]) | case.get("files", {})) == told


def test_a_tenant_may_have_no_other_kinds_than_these_by_default(tmp_path):
    files = fleet("      kinds: [IdlingPolicy, Calendar, DownscalePolicy]\n", "")
    downscale = SLEEP.replace("IdlingPolicy", "DownscalePolicy")
    assert problems_in(tmp_path, {**files, "teams/b/more.yaml": downscale}) == [
        'policies/teams/b/more.yaml:2:7: kind: is "DownscalePolicy", expected "Calendar" or "IdlingPolicy", the kinds '
        "of tenant b at policies/fleet.yaml:18"
    ]


def policies_in(folder: Path, **changed: str) -> PolicySet:
    two_teams(Folder(folder), snapshot=False, **changed)
    with inside(folder):
        return read_policies("policies", partly=True)


def test_names_wake_groups_and_calendars_carry_the_tenant(tmp_path):
    more = """---
apiVersion: reconciler/v1alpha1
kind: Calendar
metadata: {name: nights}
spec: {timeZone: UTC, downtime: ["Mon-Sun 22:00-05:00"]}
"""
    by_name = SLEEP.replace('timeZone: UTC, downtime: ["Mon-Fri 20:00-07:00"]', "calendar: nights")
    grouped = by_name.replace("spec:\n", "spec:\n  wakeOrder: {group: shop}\n")
    found = policies_in(tmp_path, **{"teams/a/sleep.yaml": grouped + more, "teams/b/sleep.yaml": by_name})
    assert [(one.name, one.tenant, one.wake_order.group) for one in found.idling] == [
        ("a/sleep", "a", "a/shop"),
        ("b/sleep", "b", "b/sleep"),
        ("tools", "", "tools"),
    ]
    assert [one.name for one in found.calendars] == ["a/nights", "nights"]
    (own,), (platform,) = (found.idling[0].idle_when.criteria, found.idling[1].idle_when.criteria)
    assert (own.calendar.name, platform.calendar.name) == ("a/nights", "nights")
    rules = [(rule["kind"], rule["metadata"]["name"]) for rule in compile_policies(found)["rules"]]
    assert ("IdlingPolicy", "sleep") in rules, "as written; the tenant stands beside it"


PLACED = """\
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: team-a-web}
spec: {replicas: 4, targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
"""


def test_a_tenant_has_no_federated_replica_set_of_a_name_that_the_platform_gave(tmp_path):
    other = PLACED.replace("Deployment, name: web", "Deployment, name: api")
    assert problems_in(tmp_path, {**FILES, "z.yaml": PLACED, "teams/a/placed.yaml": other}) == [
        'policies/teams/a/placed.yaml:3:18: metadata.name: is "web", expected one policy of that name in namespace '
        "team-a-web; web at policies/z.yaml:1 has it"
    ]


def test_the_platform_cannot_name_a_calendar_of_a_tenant(tmp_path):
    platform = FILES["platform.yaml"].replace("calendar: nights", "calendar: a/late")
    late = (
        "apiVersion: reconciler/v1alpha1\nkind: Calendar\nmetadata: {name: late}\nspec: {timeZone: UTC, downtime: []}\n"
    )
    problems = problems_in(tmp_path, {**FILES, "platform.yaml": platform, "teams/a/late.yaml": late})
    assert any(
        one.startswith("policies/platform.yaml:6:") and "expected the name of a Calendar" in one for one in problems
    )


def links(folder: Path, **made: str) -> None:
    for link, target in made.items():
        (folder / "policies" / link).symlink_to(target)


@pytest.mark.parametrize(
    ("link", "target", "whose"),
    [
        pytest.param("teams/a/theirs.yaml", "../b/sleep.yaml", "tenant a", id="a file of the other"),
        pytest.param("teams/a/platform.yaml", "../../platform.yaml", "tenant a", id="a file of the platform"),
    ],
)
def test_a_link_to_a_file_of_another_owner_stops_only_whose_link_it_is(tmp_path, link, target, whose):
    two_teams(Folder(tmp_path), snapshot=False)
    links(tmp_path, **{link: target})
    with inside(tmp_path):
        found, problems = check_policies("policies")
    words = f"policies/{link}:1:1: is a link to a file of another owner, expected one of {whose}"
    assert words in map(str, problems)
    assert found is not None
    assert ([one.name for one in found.stopped], [one.name for one in found.idling]) == (["a"], ["b/sleep", "tools"])


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("../b", id="of the other"),
        pytest.param("../..", id="of all"),
        pytest.param("../../plat", id="of the platform"),
    ],
)
def test_a_link_to_a_folder_of_others_takes_nothing_away_from_them(tmp_path, target):
    before = policies_in(tmp_path, **{"platform/more.yaml": SLEEP})
    links(tmp_path, **{"teams/a/00": target})
    with inside(tmp_path):
        found, problems = check_policies("policies")
    assert problems == ()
    assert found is not None
    assert found.idling == before.idling
    assert [str(one.place) for one in found.idling if one.tenant == "b"] == ["policies/teams/b/sleep.yaml:1"]


def test_files_of_a_mounted_volume_are_whose_path_they_have(tmp_path):
    two_teams(Folder(tmp_path), snapshot=False)
    policies, data = tmp_path / "policies", tmp_path / "policies/..2026_11_20"
    data.mkdir()
    for name in ("teams", "platform.yaml", "fleet.yaml"):
        (policies / name).rename(data / name)
    (policies / "..data").symlink_to("..2026_11_20")
    links(tmp_path, **{name: f"..data/{name}" for name in ("teams", "platform.yaml", "fleet.yaml")})
    with inside(tmp_path):
        assert [one.name for one in read_policies("policies").idling] == ["a/sleep", "b/sleep", "tools"]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(FLEET.replace("maxPriority: 10", "maxPriority: high"), id="a value"),
        pytest.param(FLEET.replace("tenants:", "tenant:"), id="a field"),
        pytest.param(FLEET.replace("team-b-*", "team-a-*"), id="tenants that overlap"),
        pytest.param(FLEET.replace('paths: ["teams/b/**"]', 'paths: ["**"]'), id="itself under a tenant's path"),
        pytest.param(FLEET.replace('["team-b-*", shared-b]', '["team-b-*", shared-b'), id="no YAML from there on"),
        pytest.param(f"{FLEET}  bad: [\n", id="no YAML at the end"),
    ],
)
def test_a_fleet_whose_tenants_are_broken_is_good_enough_for_wakes(tmp_path, broken):
    two_teams(Folder(tmp_path), snapshot=False, **{"fleet.yaml": broken})
    with inside(tmp_path):
        found, problems = check_policies("policies")
        known, _ = read_fleet_for_wakes("policies")
    assert found is None
    assert problems
    assert ([one.name for one in known.clusters], known.home) == (["dev", "prod"], "dev")


def test_a_second_fleet_in_a_file_of_a_tenant_keeps_no_wakes_away(tmp_path):
    two_teams(Folder(tmp_path), snapshot=False, **{"teams/a/fleet.yaml": FLEET.replace("dev", "evil")})
    with inside(tmp_path):
        known, _ = read_fleet_for_wakes("policies")
        found, _ = check_policies("policies")
    assert [one.name for one in known.clusters] == ["dev", "prod"]
    assert found is not None
    assert [one.name for one in found.stopped] == ["a"]


def test_a_bug_that_a_file_of_a_tenant_meets_stops_that_tenant_alone(tmp_path, monkeypatch):
    def failing(source, *others):
        if source.file == "policies/teams/a/sleep.yaml":
            raise TypeError("unexpected\x1b")
        return policy_document(source, *others)

    monkeypatch.setattr(load, "policy_document", failing)
    two_teams(Folder(tmp_path), snapshot=False)
    with inside(tmp_path):
        found, problems = check_policies("policies")
    assert found is not None
    assert [one.name for one in found.stopped] == ["a"]
    assert [one.message for one in problems] == [
        "cannot be read, a bug: TypeError('unexpected\\x1b'), expected a policy; please report it"
    ]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(f"{FLEET}  bad: [\n  namespace: own\n", id="above its own namespace"),
        pytest.param(f"{FLEET}  bad: [\n  formerNames: [old]\n", id="above former names"),
        pytest.param(FLEET.replace("kind: Fleet", "kind: [Fleet"), id="in its first lines"),
    ],
)
def test_a_fleet_that_may_say_below_the_break_where_its_records_are_is_not_used(tmp_path, broken):
    two_teams(Folder(tmp_path), snapshot=False, **{"fleet.yaml": broken})
    with inside(tmp_path), pytest.raises(PolicyError, match="is no YAML"):
        read_fleet_for_wakes("policies")


def test_of_the_clusters_those_above_the_break_are_woken(tmp_path):
    broken = FLEET.replace("    - name: prod", "    - name: [")
    two_teams(Folder(tmp_path), snapshot=False, **{"fleet.yaml": broken})
    with inside(tmp_path):
        assert [one.name for one in read_fleet_for_wakes("policies")[0].clusters] == ["dev"]


MANY = "".join(f"    - name: c{number}\n      labels: {{region: eu}}\n" for number in range(600))


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param("  bad: [\n", id="more than 1000 lines above it"),
        pytest.param("  bad: [\n" + "\n" * 20_000 + "x\n", id="thousands of blank lines below it"),
    ],
)
def test_all_that_is_above_a_break_far_down_is_read_in_time(tmp_path, tail):
    head, rest = FLEET.split("  tenants:", 1)
    two_teams(Folder(tmp_path), snapshot=False, **{"fleet.yaml": f"{head}{MANY}  tenants:{rest}{tail}"})
    with inside(tmp_path):
        assert len(read_fleet_for_wakes("policies")[0].clusters) == 602


def test_where_protected_namespaces_may_be_below_the_break_all_count_as_such(tmp_path):
    two_teams(Folder(tmp_path), snapshot=False, **{"fleet.yaml": f"{FLEET}  bad: [\n"})
    with inside(tmp_path):
        assert read_fleet_for_wakes("policies")[0].protects_unread
