"""Annotations and flags of py-kube-downscaler and GoKubeDownscaler -> policies that validate."""

from __future__ import annotations

import pytest

from reconciler.importing.downscaler import replicas_before_downscaler
from tests.importing.downscaled import UP, controller, space, web
from tests.importing.peers import imported, lost
from tests.pipeline.calls import Folder

CONTROLLERS = ["py-kube-downscaler", "kube-downscaler", "downscaler"]


def uptime(*windows: str, zone: str = "Europe/Berlin") -> dict[str, object]:
    return {"schedule": {"timeZone": zone, "uptime": [*windows]}}


def downtime(*windows: str) -> dict[str, object]:
    return {"schedule": {"timeZone": "UTC", "downtime": [*windows]}}


def test_an_uptime_of_namespaces_is_one_policy_of_them(tmp_path):
    specs, said = imported(tmp_path, "kube-downscaler", space("a", uptime=UP) + space("b", uptime=UP))
    assert specs["a-and-1-more"] == {
        "priority": 10,
        "selector": {
            "namespaces": {"include": ["a", "b"]},
            "workloads": {"kinds": ["Deployment"], "exclude": CONTROLLERS},
        },
        "idleWhen": [uptime("Mon-Fri 07:30-20:30")],
        "minAge": "15m",
    }
    assert lost(said) == []
    assert (
        "`reconciler adopt kube-downscaler` takes over what it has idled, `reconciler plan` has nothing to do" in said
    )


@pytest.mark.parametrize(
    ("annotations", "criteria", "more"),
    [
        ({"uptime": UP}, [uptime("Mon-Fri 07:30-20:30")], {}),
        (
            {"downtime": "Sat-Sun 00:00-24:00 UTC"},
            [{"schedule": {"timeZone": "UTC", "downtime": ["Sat-Sun 00:00-24:00"]}}],
            {},
        ),
        (
            {"uptime": UP, "downtime": "Wed-Wed 12:00-13:00 UTC"},
            [
                {
                    "anyOf": [
                        {"schedule": {"timeZone": "UTC", "downtime": ["Wed-Wed 12:00-13:00"]}},
                        uptime("Mon-Fri 07:30-20:30"),
                    ]
                }
            ],
            {},
        ),
        ({"uptime": UP, "downtime_replicas": "1"}, [uptime("Mon-Fri 07:30-20:30")], {"idleReplicas": 1}),
        ({"uptime": UP, "grace_period": "60"}, [uptime("Mon-Fri 07:30-20:30")], {"minAge": "15m"}),
        (
            {"upscale_period": "Mon-Fri 07:00-08:00 UTC", "downscale_period": "Mon-Sun 19:00-20:00 UTC"},
            [downtime("Mon-Thu 19:00-07:00", "Fri 19:00-Mon 07:00")],
            {},
        ),
        ({"downscale_period": "Mon-Fri 19:00-20:00 UTC"}, [downtime("Mon-Fri 19:00-20:00")], {"wake": "OnSignal"}),
        (
            {"uptime": UP, "force_uptime": "2026-12-01T00:00:00+00:00-2026-12-02T00:00:00+00:00"},
            [uptime("2026-12-01T00:00:00/2026-12-02T00:00:00", zone="UTC"), uptime("Mon-Fri 07:30-20:30")],
            {},
        ),
        (
            {"force_downtime": "2026-12-01T00:00:00+00:00-2026-12-02T00:00:00+00:00"},
            [{"schedule": {"timeZone": "UTC", "downtime": ["2026-12-01T00:00:00/2026-12-02T00:00:00"]}}],
            {},
        ),
        ({"force_downtime": "true"}, [{"schedule": {"timeZone": "UTC", "downtime": ["00:00-24:00"]}}], {}),
    ],
)
def test_what_a_namespace_is_annotated_with(tmp_path, annotations, criteria, more):
    specs, _ = imported(tmp_path, "kube-downscaler", space(**annotations))
    assert specs["dev"]["idleWhen"] == criteria
    assert more.items() <= specs["dev"].items()


def test_a_workload_that_says_something_else_wins_over_its_namespace(tmp_path):
    manifests = space(uptime=UP) + web(uptime="Mon-Fri 10:00-12:00 UTC") + web("job", "CronJob", uptime=UP)
    specs, _ = imported(tmp_path, "kube-downscaler", manifests)
    assert specs["dev"]["priority"] < specs["dev-web"]["priority"]
    assert specs["dev-web"]["selector"] == {
        "namespaces": {"include": ["dev"]},
        "workloads": {"kinds": ["Deployment"], "include": ["web"]},
    }
    assert specs["dev-job"]["selector"]["workloads"]["kinds"] == ["CronJob"]


@pytest.mark.parametrize("said", [{"uptime": UP}, {"original_replicas": "1"}], ids=["it says so", "it is asleep"])
def test_a_kind_that_the_tool_scales_is_selected_where_its_controller_is_not_there(tmp_path, said):
    specs, _ = imported(tmp_path, "kube-downscaler", space(uptime=UP) + web("job", "CronJob", **said))
    assert specs["dev"]["selector"]["workloads"]["kinds"] == ["CronJob", "Deployment"]


@pytest.mark.parametrize("value", ["always", "sometimes"])
def test_a_workload_that_is_always_up_or_cannot_be_read_is_left_out(tmp_path, value):
    specs, said = imported(tmp_path, "kube-downscaler", space(uptime=UP) + web(uptime=value))
    left_out = {"namespaces": {"include": ["dev"]}, "workloads": {"kinds": ["Deployment"], "include": ["web"]}}
    assert specs["dev"]["exclude"] == [left_out]
    assert "dev-web" not in specs
    assert bool(lost(said)) == (value == "sometimes")


def test_flags_variables_and_a_config_map_of_the_controller_are_the_default(tmp_path):
    flags = ("--default-uptime=Mon-Fri 08:00-18:00", "--include-resources", "deployments,statefulsets,jobs")
    manifests = controller(*flags, "--exclude-deployments=downscaler") + space("kube-public", uptime=UP)
    specs, said = imported(tmp_path, "kube-downscaler", manifests)
    assert specs["default"] == {
        "selector": {
            "namespaces": {"exclude": ["kube-*", "monitoring"]},
            "workloads": {"kinds": ["Deployment", "StatefulSet"], "exclude": ["downscaler"]},
        },
        "idleWhen": [uptime("Mon-Fri 08:00-18:00", zone="Europe/Rome")],
        "minAge": "15m",
    }
    assert set(specs) == {"imported", "default"}  # kube-public is excluded
    assert lost(said) == ["Deployment downscaler: --include-resources: jobs: need spec.switches of the Fleet"]


@pytest.mark.parametrize("plural", ["horizontalpodautoscalers", "daemonsets,jobs"])
def test_a_tool_that_scales_nothing_that_is_scaled_here_has_no_policies(tmp_path, plural):
    cli = Folder(tmp_path)
    cli.write("in/peer.yaml", controller("--default-uptime=" + UP, f"--include-resources={plural}") + space(uptime=UP))
    said = cli.call("import", "kube-downscaler", "in")
    assert (said.code, said.out) == (64, "")
    assert f"--include-resources: {plural.split(',')[0]}: " in said.err


@pytest.mark.parametrize(
    "flag",
    [
        "--exclude-namespaces=(dev|test)-[0-9]+",
        "--explicit-include",
        "--matching-labels=team=a,team=b",
        "--matching-labels=team=a.",
    ],
)
def test_policies_that_would_select_more_only_observe(tmp_path, flag):
    specs, said = imported(tmp_path, "kube-downscaler", controller("--default-uptime=" + UP, flag))
    assert specs["default"]["mode"] == "Observe"
    assert "they only observe" in "".join(lost(said))


@pytest.mark.parametrize(("flags", "mode"), [(["--dry-run"], "Observe"), (["-dry-run=false"], None)])
def test_a_tool_that_only_says_what_it_would_do_becomes_policies_that_observe(tmp_path, flags, mode):
    manifests = controller("--default-uptime=" + UP, *flags) + space(uptime=UP)
    specs, said = imported(tmp_path, "kube-downscaler", manifests)
    assert {spec.get("mode") for name, spec in specs.items() if name != "imported"} == {mode}
    assert bool(lost(said)) == bool(mode)


def test_flags_of_go_kube_downscaler_without_a_counterpart_are_said(tmp_path):
    manifests = controller("--default-uptime=" + UP, "--scale-children=true", "--upscale-excluded=false")
    _, said = imported(tmp_path, "go-kube-downscaler", manifests)
    assert [line.split(": ")[1] for line in lost(said)] == ["--scale-children"]


def test_one_matching_label_narrows(tmp_path):
    flags = ("--default-uptime=" + UP, "--matching-labels=team=a")
    specs, _ = imported(tmp_path, "kube-downscaler", controller(*flags) + web(uptime="never"))
    assert specs["dev-web"]["selector"]["workloads"]["matchLabels"] == {"team": "a"}
    assert specs["default"]["selector"]["workloads"]["matchLabels"] == {"team": "a"}


@pytest.mark.parametrize(
    ("text", "age"), [("60", "1m"), ("6000", "15m"), ("wrong", "15m"), ("-5", "15m"), ("0", "15m")]
)
def test_a_workload_only_shortens_the_grace_period(tmp_path, text, age):
    specs, said = imported(tmp_path, "kube-downscaler", web(uptime=UP, grace_period=text))
    assert (specs["dev-web"]["minAge"], lost(said)) == (age, [])


def test_what_the_controller_never_scales_has_no_policy_of_its_own(tmp_path):
    specs, _ = imported(tmp_path, "kube-downscaler", space(uptime=UP) + web("downscaler", uptime=UP) + web(uptime=UP))
    assert set(specs) == {"imported", "dev", "dev-web"}


def test_an_empty_flag_says_nothing(tmp_path):
    manifests = controller("--matching-labels", "", "--exclude-deployments", "", "--default-uptime", UP)
    specs, _ = imported(tmp_path, "kube-downscaler", manifests)
    assert specs["default"]["selector"]["workloads"] == {"kinds": ["Deployment"]}
    assert "mode" not in specs["default"]


def test_what_a_tool_cannot_read_is_not_scaled_down_here_either(tmp_path):
    specs, said = imported(tmp_path, "kube-downscaler", space(downtime="true") + space("test", uptime=UP))
    assert set(specs) == {"imported", "test"}
    assert lost(said)[0].startswith('Namespace dev: annotations: "true" is no period')


def test_periods_to_scale_in_that_never_come_leave_everything_as_it_is(tmp_path):
    never = web(uptime=UP, downscale_period="Mon-Fri 20:00-06:00 UTC")
    specs, said = imported(tmp_path, "kube-downscaler", space(uptime=UP) + never)
    assert (set(specs), lost(said)) == ({"imported", "dev"}, [])
    assert specs["dev"]["exclude"][0]["workloads"]["include"] == ["web"]


def test_a_forced_uptime_of_what_only_requests_wake_is_lost(tmp_path):
    forced = space(downscale_period="Mon-Sun 22:00-23:00 UTC", force_uptime="Sat-Sun 08:00-18:00 UTC")
    specs, said = imported(tmp_path, "kube-downscaler", forced + space("test", uptime=UP))
    assert set(specs) == {"imported", "test"}
    assert lost(said) == [
        "Namespace dev: annotations: force-uptime wakes, expected an upscale-period too, without which only requests "
        "wake; it is left out"
    ]


def test_in_a_pattern_a_dot_is_any_character(tmp_path):
    flags = ("--default-uptime=" + UP, "--exclude-deployments=web.prod,.*", "--exclude-namespaces=team.x")
    specs, said = imported(tmp_path, "kube-downscaler", controller(*flags))
    selector = specs["default"]["selector"]
    assert (selector["namespaces"]["exclude"], selector["workloads"]["exclude"]) == (["team?x"], ["web?prod", "*"])
    assert lost(said) == []


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"uptime": UP, "downscale_replicas": "3000000000"}, id="too many replicas"),
        pytest.param({"uptime": UP, "grace_period": "99999999s"}, id="too long a grace period"),
        pytest.param({"uptime": "Mon-Fri 08:00-18:00 localtime"}, id="the time zone of a machine"),
        pytest.param({"uptime": "Mon-Fri 08:00-18:00 posix/UTC"}, id="a time zone of some machines"),
    ],
)
def test_what_no_policy_can_say_is_lost(tmp_path, annotations):
    manifests = space(**annotations) + space("test", uptime=UP)
    specs, said = imported(tmp_path, "go-kube-downscaler", manifests)
    assert set(specs) == {"imported", "test"}
    assert [line.endswith("; it is left out") for line in lost(said)] == [True]


def test_what_is_no_name_of_a_namespace_is_lost(tmp_path):
    flags = (f"--default-uptime={UP}", "--namespace=team-a,Team_B")
    specs, said = imported(tmp_path, "go-kube-downscaler", controller(*flags))
    assert specs["default"]["selector"]["namespaces"]["include"] == ["team-a"]
    words = 'Deployment downscaler: --namespace: "team-a,Team_B" has what is no name of a Namespace'
    assert lost(said) == [words]


def test_flags_that_name_no_namespace_select_nothing(tmp_path):
    cli = Folder(tmp_path)
    cli.write("in.yaml", controller(f"--default-uptime={UP}", "--namespace=Team_B"))
    said = cli.call("import", "kube-downscaler", "in.yaml")
    assert said.code == 64
    assert "no policy can be made of kube-downscaler" in said.err


def test_kube_downscaler_reads_numbers_with_blanks_around_them(tmp_path):
    annotations = {"uptime": UP, "downtime_replicas": " 1", "grace_period": "60 "}
    specs, said = imported(tmp_path, "kube-downscaler", web(**annotations) + controller())
    assert (specs["dev-web"]["idleReplicas"], specs["dev-web"]["minAge"]) == (1, "1m")
    assert lost(said) == []


@pytest.mark.parametrize(("tool", "replicas"), [("kube-downscaler", 1), ("go-kube-downscaler", 2)])
def test_each_tool_has_its_own_annotation_of_replicas(tmp_path, tool, replicas):
    specs, _ = imported(tmp_path, tool, space(uptime=UP, downtime_replicas="1", downscale_replicas="2"))
    assert specs["dev"]["idleReplicas"] == replicas


def test_in_go_kube_downscaler_one_place_says_uptime_or_downtime(tmp_path):
    both = web(uptime=UP, downtime="Mon-Fri 20:00-06:00 UTC")
    specs, said = imported(tmp_path, "go-kube-downscaler", space(uptime=UP) + both)
    assert "dev-web" not in specs
    assert "uptime, downtime, and periods to scale in exclude each other" in lost(said)[0]


def test_in_go_kube_downscaler_a_mistake_of_a_namespace_stops_what_is_in_it(tmp_path):
    manifests = space(uptime="sometimes") + web(uptime=UP) + space("test", uptime=UP)
    specs, _ = imported(tmp_path, "go-kube-downscaler", manifests)
    assert set(specs) == {"imported", "test"}


def test_in_go_kube_downscaler_flags_win_over_variables(tmp_path):
    manifests = controller("--default-downtime=Sat-Sun 00:00-24:00 UTC").replace("DEFAULT_TIMEZONE", "DEFAULT_UPTIME")
    specs, _ = imported(tmp_path, "go-kube-downscaler", manifests.replace("Europe/Rome", UP))
    assert specs["default"]["idleWhen"] == [downtime("Sat-Sun 00:00-24:00")]


def test_in_go_kube_downscaler_the_closest_scope_decides_alone(tmp_path):
    manifests = space(uptime=UP) + web(downtime="Mon-Fri 20:00-06:00 UTC", grace_period="5m")
    go, _ = imported(tmp_path / "go", "go-kube-downscaler", manifests)
    assert go["dev-web"]["idleWhen"] == [
        {"schedule": {"timeZone": "UTC", "downtime": ["Mon-Fri 20:00-24:00", "Mon-Fri 00:00-06:00"]}}
    ]
    assert go["dev-web"]["minAge"] == "5m"
    py, _ = imported(tmp_path / "py", "kube-downscaler", space(uptime=UP) + web(downtime="Sat-Sat 01:00-02:00 UTC"))
    assert [*py["dev-web"]["idleWhen"][0]] == ["anyOf"]


def test_in_go_kube_downscaler_patterns_match_anywhere_and_variables_win_over_flags(tmp_path):
    flags = ("--default-uptime=" + UP, "--exclude-deployments=db,^cache$", "--exclude-namespaces=never-read")
    manifests = controller(*flags, image="ghcr.io/caas-team/gokubedownscaler:1.3.4") + space("my-kube-dev", uptime=UP)
    specs, _ = imported(tmp_path, "go-kube-downscaler", manifests)
    assert set(specs) == {"imported", "default"}
    assert specs["default"]["selector"] == {
        "namespaces": {"exclude": ["*kube-*", "*monitoring*"]},
        "workloads": {"kinds": ["Deployment"], "exclude": ["*db*", "cache"]},
    }
    alone = space("dev", uptime=UP) + space("kube-downscaler", uptime=UP)
    assert set(imported(tmp_path / "without", "go-kube-downscaler", alone)[0]) == {"imported", "dev"}


def test_what_has_no_counterpart_is_said_with_object_and_annotation(tmp_path):
    manifests = space(uptime=UP, exclude="Mon-Fri 10:00-11:00 UTC") + web(scale_children="true")
    manifests += web("never", exclude="never") + web("included", exclude="false")
    _, said = imported(tmp_path, "go-kube-downscaler", manifests)
    assert lost(said) == [
        "Namespace dev: downscaler/exclude: is read as a whole: it is excluded at all times",
        "Deployment web: downscaler/scale-children: has no counterpart: a policy selects each kind that it scales",
        "Deployment never: downscaler/exclude: is read as a whole: it is excluded at all times",
        "Deployment included: downscaler/exclude: has no counterpart: its Namespace is excluded as a whole",
    ]


@pytest.mark.parametrize(
    ("text", "had"),
    [("3", 3), ("0", 0), ("false", 1), ("true", 0), ("50%", None), ("-1", None), ("", None)],
)
def test_what_a_workload_had_is_a_number_or_whether_it_was_suspended(text, had):
    assert replicas_before_downscaler(text) == had
