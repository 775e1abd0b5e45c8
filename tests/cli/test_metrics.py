"""--metrics-file and --push-gateway."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pytest_httpserver import HTTPServer

from tests.backends.servers import PickerServer, silent
from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import downscale, workload
from tests.real.processes import Process, answers, on_a_free_port, ready

NOW = "2026-11-20T22:00:00Z"
LAST_SUCCESS = "reconciler_last_success_timestamp_seconds"
PUSHED = "/metrics/job/reconciler/verb/plan"


def values(text: str) -> dict[str, list[float]]:
    return {family.name: [sample.value for sample in family.samples] for family in text_string_to_metric_families(text)}


def stages(text: str) -> set[str]:
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return {sample.labels["stage"] for sample in families["reconciler_stage_duration_seconds"].samples}


def test_a_plan_and_an_apply_leave_their_metrics(quickstart: Folder) -> None:
    plain = quickstart.plan(NOW)
    measured = quickstart.plan(NOW, "--metrics-file", "plan.prom")
    assert measured == plain
    assert stages((quickstart.path / "plan.prom").read_text()) == {"observe", "decide", "plan"}
    assert quickstart.apply(NOW, "--metrics-file", "apply.prom").code == 0
    text = (quickstart.path / "apply.prom").read_text()
    assert stages(text) == {"observe", "decide", "plan", "approve", "lock", "apply"}
    found = values(text)
    assert sum(found["reconciler_idled_workloads"]) == 3
    assert len(found[LAST_SUCCESS]) == 1
    assert sorted(path.name for path in quickstart.path.iterdir()) == [
        *("apply.prom", "demo.sh", "plan.prom", "policies", "snapshot")
    ]


def test_a_saved_plan_leaves_its_metrics(quickstart: Folder) -> None:
    quickstart.plan(NOW, "--out", "plan.json")
    arguments = ("apply", "plan.json", "--snapshot", "snapshot", "--now", NOW, "-q", "--metrics-file", "m.prom")
    assert quickstart.call(*arguments).code == 0
    text = (quickstart.path / "m.prom").read_text()
    assert stages(text) == {"lock", "observe", "decide", "plan", "apply"}
    assert values(text)[LAST_SUCCESS]


def test_a_run_that_failed_keeps_the_time_of_the_last_success(quickstart: Folder) -> None:
    quickstart.plan(NOW, "--metrics-file", "metrics.prom")
    [before] = values((quickstart.path / "metrics.prom").read_text())[LAST_SUCCESS]
    quickstart.write("policies/wrong.yaml", "kind: Nothing\n")
    assert quickstart.plan(NOW, "--metrics-file", "metrics.prom").code == 3
    assert values((quickstart.path / "metrics.prom").read_text()) == {
        LAST_SUCCESS: [before],
        "reconciler_stage_duration_seconds": [],
        "reconciler_request_duration_seconds": [],
    }


def test_a_run_that_never_ended_well_says_so_by_silence(quickstart: Folder) -> None:
    shutil.rmtree(quickstart.path / "snapshot" / "us-east")
    assert quickstart.plan(NOW, "--metrics-file", "metrics.prom", "--fail-on", "unknown").code == 6
    found = values((quickstart.path / "metrics.prom").read_text())
    assert LAST_SUCCESS not in found
    assert sorted(found["reconciler_cluster_unknown_seconds"]) == [0, 0, 1]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        pytest.param("no/such/folder.prom", "No such file or directory", id="no folder"),
        pytest.param("policies", "is no regular file", id="a folder"),
        pytest.param("pipe", "is no regular file", id="a pipe, as /dev/stdout may be"),
    ],
)
def test_a_file_that_cannot_be_written_is_a_warning(quickstart: Folder, file: str, why: str) -> None:
    os.mkfifo(quickstart.path / "pipe")
    said = quickstart.plan(NOW, "--metrics-file", file)
    assert said.code == 0
    words = f"{file}: {why}, expected a file for metrics that can be written"
    assert said.err.splitlines()[-1] == f"warning: {words}"
    assert quickstart.plan(NOW, "--metrics-file", file, "-q").err == ""
    assert not [path for path in quickstart.path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("planted", ["link", "file"])
def test_metrics_are_not_written_through_a_link_beside_them_and_a_collector_can_read_them(
    quickstart: Folder, planted: str
) -> None:
    """The file beside may also be left from a run that was killed: in containers the process has the same number."""
    beside, precious = quickstart.path / f".m.prom.{os.getpid()}", quickstart.path / "precious"
    precious.write_text("x")
    if planted == "link":
        beside.symlink_to("precious")
    else:
        beside.write_text("half")
    former = os.umask(0o077)
    try:
        said = quickstart.plan(NOW, "--metrics-file", "m.prom")
    finally:
        os.umask(former)
    assert (said.code, said.err, precious.read_text()) == (0, "", "x")
    written = quickstart.path / "m.prom"
    assert (written.is_symlink(), oct(written.stat().st_mode & 0o777)) == (False, "0o644")
    assert written.read_text().endswith("# EOF\n")
    assert not beside.exists()


def test_a_push_takes_the_place_of_all_before_after_a_success_only(quickstart: Folder, httpserver: HTTPServer) -> None:
    httpserver.expect_request(PUSHED).respond_with_data("")
    assert quickstart.plan(NOW, "--push-gateway", httpserver.url_for("")).err == ""
    (quickstart.path / "policies" / "wrong.yaml").write_text("kind: Nothing\n")
    assert quickstart.plan(NOW, "--push-gateway", httpserver.url_for("/")).code == 3
    (first, _), (second, _) = httpserver.log
    assert [first.method, second.method] == ["PUT", "POST"]
    assert LAST_SUCCESS in first.get_data(as_text=True)
    assert LAST_SUCCESS not in second.get_data(as_text=True)


def test_the_address_may_name_its_own_group_and_a_login_that_is_not_told(
    quickstart: Folder, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/metrics/job/scale/fleet/prod/verb/plan").respond_with_data("no\nway", 400)
    address = f"http://me:s%3Acret@127.0.0.1:{httpserver.port}/metrics/job/scale/fleet/prod"
    said = quickstart.plan(NOW, "--push-gateway", address)
    assert said.code == 0
    assert said.err == (
        f"warning: http://127.0.0.1:{httpserver.port}/metrics/job/scale/fleet/prod: status 400 (no way), "
        "expected 200; is it a push gateway?\n"
    )
    [(request, _)] = httpserver.log
    assert (request.authorization.username, request.authorization.password) == ("me", "s:cret")


def test_a_gateway_that_is_not_there_or_hangs_is_a_warning(quickstart: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        said = quickstart.plan(NOW, "--push-gateway", url)
    words = "the connection was refused, expected a push gateway"
    assert (said.code, said.err) == (0, f"warning: {url}: {words}\n")
    monkeypatch.setattr("reconciler.cli.deliveries._PUSH_SECONDS", 0.3)
    with PickerServer(silent) as server:
        said = quickstart.plan(NOW, "--push-gateway", f"http://127.0.0.1:{server.port}")
    assert said.code == 0
    assert said.err.startswith(f"warning: http://127.0.0.1:{server.port}: no ")


@pytest.mark.parametrize("url", ["push.example", "ftp://push", "http://", "http://push:web", "http://push/?a=b"])
def test_an_address_that_cannot_be_meant_is_refused_before_anything_is_done(quickstart: Folder, url: str) -> None:
    said = quickstart.apply(NOW, "--push-gateway", url)
    assert (said.code, said.out) == (64, "")
    assert said.err == "error: --push-gateway: is not an address, expected one like http://push.monitoring:9091\n"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    """The address of a real push gateway."""
    command = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway")
    if command is None:
        reason = "there is no prometheus-pushgateway (Debian: apt-get install prometheus-pushgateway)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)

    def started(port: int) -> Process:
        process = Process(Path(command), [f"--web.listen-address=127.0.0.1:{port}"], tmp_path / "gateway.log")
        return ready(process, lambda: answers(f"http://127.0.0.1:{port}/-/ready"), "readiness")

    port, process = on_a_free_port(started)
    yield f"http://127.0.0.1:{port}"
    process.stop()


def shown(gateway: str) -> dict[str, str]:
    """What the gateway shows of ours: name with labels -> value."""
    text = urllib3.request("GET", f"{gateway}/metrics").data.decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if 'job="reconciler"' in line]
    return {name: value for name, _, value in lines if not name.startswith("push_")}


@pytest.mark.real
def test_a_real_push_gateway_takes_them_and_keeps_the_last_success(quickstart: Folder, gateway: str) -> None:
    assert quickstart.apply(NOW, "--push-gateway", gateway).err == ""
    first = shown(gateway)
    name = f'{LAST_SUCCESS}{{instance="",job="reconciler",verb="apply"}}'
    assert float(first[name]) > 1.7e9
    assert any(one.startswith("reconciler_replicas{") for one in first)
    assert any(one.startswith("sorting_deletion_age_ratio_bucket{") for one in first)
    quickstart.write("policies/wrong.yaml", "kind: Nothing\n")
    shutil.rmtree(quickstart.path / "snapshot" / "us-east")
    failed = quickstart.apply(NOW, "--push-gateway", gateway)
    assert failed.code == 3
    assert "push" not in failed.err
    second = shown(gateway)
    assert second[name] == first[name]
    unknown = 'reconciler_cluster_unknown_seconds{cluster="us-east",instance="",job="reconciler",verb="apply"}'
    assert (first[unknown], second[unknown]) == ("0", "1")


OURS = "reconciler/owner: quickstart/IdlingPolicy/idle-dev"


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(f"{OURS}, idling.kubernetes.io/previous-scale: many", id="a record that cannot be read"),
        pytest.param(
            "reconciler/owner: other/IdlingPolicy/x, idling.kubernetes.io/previous-scale: '1',"
            " idling.kubernetes.io/idled-at: '2026-11-20T00:00:00Z', reconciler/wake-due: '2026-11-20T01:00:00Z'",
            id="a wake of another Fleet that is overdue",
        ),
    ],
)
def test_a_fault_in_an_object_is_told_and_counted_and_the_run_ends_well(quickstart: Folder, annotations: str) -> None:
    broken = workload("broken", "dev-a", 0, metadata=f"annotations: {{{annotations}}}")
    quickstart.write("snapshot/eu-west/broken.yaml", broken)
    said = quickstart.apply(NOW, "--metrics-file", "apply.prom")
    assert said.code == 0
    assert "dev-a/Deployment/broken" in said.out
    found = values((quickstart.path / "apply.prom").read_text())
    assert found[LAST_SUCCESS]
    assert sum(found["reconciler_overdue_wakes"]) == 0
    assert sum(found["reconciler_object_faults"]) == ("previous-scale: many" in annotations)


def picking(on_error: str, headers: str = "") -> str:
    selector = "namespaces: {include: [batch]}, workloads: {kinds: [Deployment], matchLabels: {app: worker}}"
    http = f"{{scheme: http, host: 127.0.0.1, port: 9, path: /pick{headers}}}"
    return downscale(selector, 4, f"podPicker: {{http: {http}, maxRetries: 0, onError: {on_error}}}", name="workers")


SECRET = ", httpHeaders: [{name: x-key, valueFrom: {secretKeyRef: {name: nowhere, key: k}}}], allowInsecureAuth: true"


@pytest.mark.parametrize("headers", ["", SECRET], ids=["nobody listens", "a Secret that is not there"])
@cases(
    "on_error code left",
    ("default order instead", "fallback", 0, 4),
    ("downscale is skipped", "skip", 6, 7),
)
def test_a_picker_that_fails_is_told(quickstart: Folder, headers, on_error, code, left) -> None:
    quickstart.write("policies/downscale.yaml", picking(on_error, headers))
    fleet = (quickstart.path / "policies/fleet.yaml").read_text()
    quickstart.write("policies/fleet.yaml", fleet + '  podPickers: {allowedHosts: ["127.0.0.1"]}\n')
    arguments = ("apply", "policies", "--snapshot", "snapshot", "--now", NOW, "--auto-approve")
    said = quickstart.call(*arguments, "--progress", "plain", "--metrics-file", "m.prom")
    assert said.code == code, said.err
    assert "warning: " in said.err
    assert "pod picker http://127.0.0.1:9: " in said.err
    text = (quickstart.path / "m.prom").read_text()
    assert 'reconciler_picker_failures{cluster="eu-west"} 1' in text.splitlines()
    assert quickstart.replicas("eu-west", "batch", "Deployment", "worker") == left


def test_a_plan_that_asks_a_picker_which_fails_ends_as_an_apply_would(quickstart: Folder) -> None:
    quickstart.write("policies/downscale.yaml", picking("skip"))
    fleet = (quickstart.path / "policies/fleet.yaml").read_text()
    quickstart.write("policies/fleet.yaml", fleet + '  podPickers: {allowedHosts: ["127.0.0.1"]}\n')
    assert quickstart.plan(NOW).code == 0
    assert quickstart.plan(NOW, "--call-pickers").code == 6
