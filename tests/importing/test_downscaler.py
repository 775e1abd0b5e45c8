"""Annotations and flags of py-kube-downscaler and GoKubeDownscaler -> policies that validate."""

from __future__ import annotations

import pytest

from reconciler.importing.downscaler import replicas_before_downscaler
from tests.cases import cases
from tests.importing.downscaled import UP, controller, space, web
from tests.importing.peers import imported
from tests.pipeline.calls import Folder

PY, GO = "kube-downscaler", "go-kube-downscaler"
CONTROLLERS = ["py-kube-downscaler", "kube-downscaler", "downscaler"]
NIGHTS = "Mon-Fri 20:00-06:00 UTC"
DAY = "2026-12-01T00:00:00+00:00-2026-12-02T00:00:00+00:00"
OBSERVING = "the policies would select more, so they only observe; select what is meant, and take mode out"


def uptime(*windows: str, zone: str = "Europe/Berlin") -> dict[str, object]:
    return {"schedule": {"timeZone": zone, "uptime": [*windows]}}


def downtime(*windows: str) -> dict[str, object]:
    return {"schedule": {"timeZone": "UTC", "downtime": [*windows]}}


OFFICE = uptime("Mon-Fri 07:30-20:30")


def test_an_uptime_of_namespaces_is_one_policy_of_them(tmp_path):
    specs, lost = imported(tmp_path, PY, space("a", uptime=UP) + space("b", uptime=UP))
    assert specs["a-and-1-more"] == {
        "priority": 10,
        "selector": {
            "namespaces": {"include": ["a", "b"]},
            "workloads": {"kinds": ["Deployment"], "exclude": CONTROLLERS},
        },
        "idleWhen": [OFFICE],
        "minAge": "15m",
    }
    assert lost == []


@cases(
    "tool annotations expected",
    ("weekend downtime", PY, {"downtime": "Sat-Sun 00:00-24:00 UTC"}, {"idleWhen": [downtime("Sat-Sun 00:00-24:00")]}),
    (
        "uptime with a downtime within",
        PY,
        {"uptime": UP, "downtime": "Wed-Wed 12:00-13:00 UTC"},
        {"idleWhen": [{"anyOf": [downtime("Wed-Wed 12:00-13:00"), OFFICE]}]},
    ),
    ("grace period of a namespace", PY, {"uptime": UP, "grace_period": "60"}, {"idleWhen": [OFFICE], "minAge": "15m"}),
    (
        "upscale and downscale periods",
        PY,
        {"upscale_period": "Mon-Fri 07:00-08:00 UTC", "downscale_period": "Mon-Sun 19:00-20:00 UTC"},
        {"idleWhen": [downtime("Mon-Thu 19:00-07:00", "Fri 19:00-Mon 07:00")]},
    ),
    (
        "downscale period alone",
        PY,
        {"downscale_period": "Mon-Fri 19:00-20:00 UTC"},
        {"idleWhen": [downtime("Mon-Fri 19:00-20:00")], "wake": "OnSignal"},
    ),
    (
        "forced uptime beside an uptime",
        PY,
        {"uptime": UP, "force_uptime": DAY},
        {"idleWhen": [uptime("2026-12-01T00:00:00/2026-12-02T00:00:00", zone="UTC"), OFFICE]},
    ),
    (
        "forced downtime for a period",
        PY,
        {"force_downtime": DAY},
        {"idleWhen": [downtime("2026-12-01T00:00:00/2026-12-02T00:00:00")]},
    ),
    ("forced downtime at all times", PY, {"force_downtime": "true"}, {"idleWhen": [downtime("00:00-24:00")]}),
    (
        "replicas read by kube-downscaler",
        PY,
        {"uptime": UP, "downtime_replicas": "1", "downscale_replicas": "2"},
        {"idleReplicas": 1},
    ),
    (
        "replicas read by GoKubeDownscaler",
        GO,
        {"uptime": UP, "downtime_replicas": "1", "downscale_replicas": "2"},
        {"idleReplicas": 2},
    ),
)
def test_what_a_namespace_is_annotated_with(tmp_path, tool, annotations, expected):
    assert expected.items() <= imported(tmp_path, tool, space(**annotations))[0]["dev"].items()


@pytest.mark.parametrize(
    ("text", "age"), [("60", "1m"), ("60 ", "1m"), ("6000", "15m"), ("wrong", "15m"), ("-5", "15m"), ("0", "15m")]
)
def test_a_workload_only_shortens_the_grace_period(tmp_path, text, age):
    """kube-downscaler reads numbers with blanks around them."""
    specs, lost = imported(tmp_path, PY, web(uptime=UP, grace_period=text, downtime_replicas=" 1") + controller())
    assert (specs["dev-web"]["minAge"], specs["dev-web"]["idleReplicas"], lost) == (age, 1, [])


def test_a_workload_that_says_something_else_wins_over_its_namespace(tmp_path):
    manifests = space(uptime=UP) + web(uptime="Mon-Fri 10:00-12:00 UTC") + web("job", "CronJob", uptime=UP)
    specs, _ = imported(tmp_path, PY, manifests)
    assert specs["dev"]["priority"] < specs["dev-web"]["priority"]
    assert specs["dev-web"]["selector"] == {
        "namespaces": {"include": ["dev"]},
        "workloads": {"kinds": ["Deployment"], "include": ["web"]},
    }
    assert specs["dev-job"]["selector"]["workloads"]["kinds"] == ["CronJob"]
    assert specs["dev"]["selector"]["workloads"]["kinds"] == ["CronJob", "Deployment"], "without a controller"


def test_a_kind_of_which_something_is_asleep_is_selected_where_its_controller_is_not_there(tmp_path):
    specs, _ = imported(tmp_path, PY, space(uptime=UP) + web("job", "CronJob", original_replicas="1"))
    assert specs["dev"]["selector"]["workloads"]["kinds"] == ["CronJob", "Deployment"]


@pytest.mark.parametrize(
    ("annotations", "is_lost"),
    [
        ({"uptime": "always"}, False),
        ({"uptime": "sometimes"}, True),
        ({"uptime": UP, "downscale_period": NIGHTS}, False),  # periods to scale in that never come
    ],
)
def test_a_workload_that_is_always_up_or_cannot_be_read_is_left_out(tmp_path, annotations, is_lost):
    specs, lost = imported(tmp_path, PY, space(uptime=UP) + web(**annotations))
    left_out = {"namespaces": {"include": ["dev"]}, "workloads": {"kinds": ["Deployment"], "include": ["web"]}}
    assert specs["dev"]["exclude"] == [left_out]
    assert ("dev-web" in specs, bool(lost)) == (False, is_lost)


def test_flags_variables_and_a_config_map_of_the_controller_are_the_default(tmp_path):
    flags = ("--default-uptime=Mon-Fri 08:00-18:00", "--include-resources", "deployments,statefulsets,jobs")
    manifests = controller(*flags, "--exclude-deployments=downscaler") + space("kube-public", uptime=UP)
    specs, lost = imported(tmp_path, PY, manifests)
    assert specs["default"] == {
        "selector": {
            "namespaces": {"exclude": ["kube-*", "monitoring"]},
            "workloads": {"kinds": ["Deployment", "StatefulSet"], "exclude": ["downscaler"]},
        },
        "idleWhen": [uptime("Mon-Fri 08:00-18:00", zone="Europe/Rome")],
        "minAge": "15m",
    }
    assert set(specs) == {"imported", "default"}  # kube-public is excluded
    assert lost == ["Deployment downscaler: --include-resources: jobs: need spec.switches of the Fleet"]


def test_what_else_is_annotated_is_named_where_the_tool_scales_it(tmp_path):
    others = web(kind="HorizontalPodAutoscaler", uptime=UP, downtime_replicas="1")
    others += web("agent", "DaemonSet", uptime=UP) + web("budget", "PodDisruptionBudget", exclude="true")
    lost = imported(tmp_path / "all", PY, web(uptime=UP) + others)[1]
    assert lost == [
        "HorizontalPodAutoscaler web: annotations: horizontalpodautoscalers: autoscalers are idled with their targets,"
        " or their minimum lowered; see autoscalers.hpa",
        "DaemonSet agent: annotations: daemonsets: need spec.switches of the Fleet",
    ]
    flags = controller("--include-resources=deployments,daemonsets")
    lost = imported(tmp_path / "some", PY, flags + web(uptime=UP) + others)[1]
    assert [line.split(": ")[0] for line in lost] == ["Deployment downscaler", "DaemonSet agent"]


def test_what_is_forced_up_loses_its_hours_and_that_is_said(tmp_path):
    forced = space("forced", uptime=UP, force_uptime="true") + space("bare", force_uptime="true")
    specs, lost = imported(tmp_path, PY, space(uptime=UP) + forced)
    assert set(specs) == {"imported", "dev"}
    words = "keeps it up, so its hours are left out; annotate it with reconciler/exclude and take this off"
    assert lost == [f"Namespace forced: downscaler/force-uptime: {words}"]


def test_kinds_of_strimzi_are_selected(tmp_path):
    flags = controller(f"--default-uptime={UP}", "--include-resources=kafkaconnects,postgresqls")
    specs, lost = imported(tmp_path, GO, flags + web(kind="KafkaConnect", uptime="Mon-Fri 08:00-18:00 UTC"))
    assert specs["default"]["selector"]["workloads"]["kinds"] == ["KafkaConnect"]
    assert specs["dev-web"]["selector"]["workloads"]["kinds"] == ["KafkaConnect"]
    assert lost == ["Deployment downscaler: --include-resources: postgresqls: need spec.switches of the Fleet"]


def test_a_workload_without_a_namespace_is_read_as_of_default(tmp_path):
    specs, lost = imported(tmp_path, PY, web(uptime=UP).replace(", namespace: dev", ""))
    assert specs["default-web"]["selector"]["namespaces"] == {"include": ["default"]}
    missing = "metadata.namespace: is missing, read as default; expected the Namespace that it is applied to"
    assert lost == [f"Deployment web: {missing}"]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--include-resources=horizontalpodautoscalers", "--include-resources: horizontalpodautoscalers: "),
        ("--include-resources=daemonsets,jobs", "--include-resources: daemonsets: "),
        ("--namespace=Team_B", "no policy can be made of kube-downscaler"),
    ],
)
def test_a_tool_that_scales_nothing_that_is_scaled_here_has_no_policies(tmp_path, flag, words):
    cli = Folder(tmp_path)
    cli.write("in/peer.yaml", controller(f"--default-uptime={UP}", flag))
    said = cli.call("import", PY, "in")
    assert (said.code, said.out) == (64, "")
    assert words in said.err


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--exclude-namespaces=(dev|test)-[0-9]+", f'"(dev|test)-[0-9]+" is no pattern of names: {OBSERVING}'),
        ("--explicit-include", OBSERVING),
        ("--matching-labels=team=a,team=b", f'"team=a,team=b": {OBSERVING}'),
        ("--matching-labels=team=a.", f'"team=a.": {OBSERVING}'),
        ("--dry-run", "the policies only observe, too; take mode out to scale"),
    ],
)
def test_policies_that_would_do_more_than_the_tool_only_observe(tmp_path, flag, words):
    specs, lost = imported(tmp_path, PY, controller(f"--default-uptime={UP}", flag))
    assert (specs["default"]["mode"], lost) == ("Observe", [f"Deployment downscaler: {flag.split('=')[0]}: {words}"])


TOOLS_OWN = ["*kube-*", "*monitoring*"]


@pytest.mark.parametrize(
    ("tool", "flags", "selector", "lost"),
    [
        (PY, ["-dry-run=false"], {}, []),
        (PY, ["--matching-labels=team=a"], {"matchLabels": {"team": "a"}}, []),
        (PY, ["--matching-labels", "", "--exclude-deployments", ""], {"kinds": ["Deployment"]}, []),
        (PY, ["--exclude-deployments=web.prod,.*"], {"exclude": ["web?prod", "*"]}, []),
        (PY, ["--exclude-namespaces=team.x"], {"namespaces": {"exclude": ["team?x"]}}, []),
        (GO, ["--scale-children=true", "--upscale-excluded=false"], {}, ["--scale-children"]),
        (
            GO,
            ["--namespace=team-a,Team_B"],
            {"namespaces": {"include": ["team-a"], "exclude": TOOLS_OWN}},
            ["--namespace"],
        ),
    ],
    ids=str,
)
def test_a_flag(tmp_path, tool, flags, selector, lost):
    specs, said = imported(tmp_path, tool, controller(f"--default-uptime={UP}", *flags))
    assert [line.split(": ")[1] for line in said] == lost
    found = specs["default"]["selector"]
    assert selector.items() <= {**found, **found["workloads"]}.items()
    assert "mode" not in specs["default"]


@pytest.mark.parametrize(
    ("tool", "manifests", "names", "words"),
    [
        pytest.param(
            PY, space(uptime=UP) + web("downscaler", uptime=UP) + web(uptime=UP), {"dev", "dev-web"}, [], id="itself"
        ),
        pytest.param(
            PY,
            space(downtime="true") + space("test", uptime=UP),
            {"test"},
            ['Namespace dev: annotations: "true" is no period'],
            id="what the tool cannot read",
        ),
        pytest.param(
            PY,
            space(downscale_period="Mon-Sun 22:00-23:00 UTC", force_uptime="Sat-Sun 08:00-18:00 UTC")
            + space("test", uptime=UP),
            {"test"},
            ["Namespace dev: annotations: force-uptime wakes, expected an upscale-period too, without which only req"],
            id="a forced uptime of what only requests wake",
        ),
        *(
            pytest.param(GO, space(**said) + space("test", uptime=UP), {"test"}, ["Namespace dev: "], id=case)
            for case, said in {
                "too many replicas": {"uptime": UP, "downscale_replicas": "3000000000"},
                "too long a grace period": {"uptime": UP, "grace_period": "99999999s"},
                "the time zone of a machine": {"uptime": "Mon-Fri 08:00-18:00 localtime"},
                "a time zone of some machines": {"uptime": "Mon-Fri 08:00-18:00 posix/UTC"},
            }.items()
        ),
        pytest.param(
            GO,
            space(uptime=UP) + web(uptime=UP, downtime=NIGHTS),
            {"dev"},
            ["Deployment web: annotations: uptime, downtime, and periods to scale in exclude each other"],
            id="uptime and downtime in one place",
        ),
        pytest.param(
            GO,
            space(uptime="sometimes") + web(uptime=UP) + space("test", uptime=UP),
            {"test"},
            ["Deployment web: annotations: ", "Namespace dev: annotations: "],
            id="a mistake of its Namespace",
        ),
        pytest.param(GO, space(uptime=UP) + space(PY, uptime=UP), {"dev"}, [], id="the Namespace of the tool"),
    ],
)
def test_what_is_left_out(tmp_path, tool, manifests, names, words):
    specs, lost = imported(tmp_path, tool, manifests)
    assert set(specs) == {"imported", *names}
    assert [line.startswith(begin) for line, begin in zip(lost, words, strict=True)] == [True] * len(words)
    assert all(line.endswith("; it is left out") for line in lost)


def test_in_go_kube_downscaler_flags_win_over_variables(tmp_path):
    manifests = controller("--default-downtime=Sat-Sun 00:00-24:00 UTC").replace("DEFAULT_TIMEZONE", "DEFAULT_UPTIME")
    specs, _ = imported(tmp_path, GO, manifests.replace("Europe/Rome", UP))
    assert specs["default"]["idleWhen"] == [downtime("Sat-Sun 00:00-24:00")]


def test_in_go_kube_downscaler_the_closest_scope_decides_alone(tmp_path):
    go, _ = imported(tmp_path / "go", GO, space(uptime=UP) + web(downtime=NIGHTS, grace_period="5m"))
    assert go["dev-web"]["idleWhen"] == [downtime("Mon-Fri 20:00-24:00", "Mon-Fri 00:00-06:00")]
    assert go["dev-web"]["minAge"] == "5m"
    py, _ = imported(tmp_path / "py", PY, space(uptime=UP) + web(downtime="Sat-Sat 01:00-02:00 UTC"))
    assert [*py["dev-web"]["idleWhen"][0]] == ["anyOf"]


def test_in_go_kube_downscaler_patterns_match_anywhere_and_variables_win_over_flags(tmp_path):
    flags = ("--default-uptime=" + UP, "--exclude-deployments=db,^cache$", "--exclude-namespaces=never-read")
    manifests = controller(*flags, image="ghcr.io/caas-team/gokubedownscaler:1.3.4") + space("my-kube-dev", uptime=UP)
    specs, _ = imported(tmp_path, GO, manifests)
    assert set(specs) == {"imported", "default"}
    assert specs["default"]["selector"] == {
        "namespaces": {"exclude": ["*kube-*", "*monitoring*"]},
        "workloads": {"kinds": ["Deployment"], "exclude": ["*db*", "cache"]},
    }


def test_what_has_no_counterpart_is_said_with_object_and_annotation(tmp_path):
    manifests = space(uptime=UP, exclude="Mon-Fri 10:00-11:00 UTC") + web(scale_children="true")
    manifests += web("never", exclude="never") + web("included", exclude="false")
    assert imported(tmp_path, GO, manifests)[1] == [
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
