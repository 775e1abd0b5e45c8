"""A real Prometheus on loopback over data that a test makes.

    def test_one(prometheus_server):                        # the fixture; each call starts one, gone after the test
        day = every(3600, since=1767225600, values=[0.0, 1.5, 2.0])
        server = prometheus_server([Series("requests_total", {"namespace": "shop"}, day)])
        server.url                                          # http://127.0.0.1:PORT

TLS, a bearer token, counting and faults: a `Proxy` of `proxy.py` in front, `Proxy(server.access(), folder)`, and
`demand_token(proxy, token)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from tests.real import faults
from tests.real.binaries import binary
from tests.real.kubeconfig import Access
from tests.real.processes import Process, answers, on_a_free_port, ready, run
from tests.real.proxy import Proxy, Request


@dataclass(frozen=True)
class Series:
    """The samples of one series: Unix time in seconds, and value."""

    name: str
    labels: Mapping[str, str]
    samples: Sequence[tuple[float, float]]


def every(seconds: float, *, since: float, values: Iterable[float]) -> list[tuple[float, float]]:
    """Samples of these values, one each so many seconds."""
    return [(since + number * seconds, value) for number, value in enumerate(values)]


class Prometheus:
    """One Prometheus in a folder of its own, which must be fresh; it scrapes nothing."""

    def __init__(self, folder: Path, series: Iterable[Series]) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.url = ""
        self._series = list(series)
        self._process: Process | None = None

    def __enter__(self) -> Prometheus:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Make the data, start, and wait until queries are answered.

        Raises:
            StartError: the data was refused, or Prometheus did not get ready.
            BinariesError: it cannot be built.
        """
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        if self._series:
            text = self.folder / "series.txt"
            text.write_text(open_metrics(self._series))
            # few long blocks: promtool reads all of the text again for each
            create = ["tsdb", "create-blocks-from", "--max-block-duration=256h", "openmetrics", str(text), str(data)]
            run(binary("promtool"), create, self.logs / "promtool.log")
        (self.folder / "prometheus.yml").write_text("global: {}\n")
        port, self._process = on_a_free_port(self._started)
        self.url = f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        if self._process:
            self._process.stop()

    def access(self) -> Access:
        """How a proxy reaches it."""
        return Access(self.url, None)

    def query(self, text: str, time: float) -> list[dict[str, Any]]:
        """The result of an instant query, as the test itself asks it."""
        with urllib3.PoolManager(retries=False, timeout=30.0) as pool:
            answer = pool.request("GET", f"{self.url}/api/v1/query", fields={"query": text, "time": str(time)})
        return answer.json()["data"]["result"]

    def _started(self, port: int) -> Process:
        arguments = [
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=100y",  # tests ask at fixed times, also of long ago
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        process = Process(binary("prometheus"), arguments, self.logs / "prometheus.log")
        url = f"http://127.0.0.1:{port}/-/ready"
        return ready(process, lambda: answers(url), f"readiness at {url}")


def demand_token(proxy: Proxy, token: str) -> None:
    """From now on the proxy answers 401 to whoever does not bear `token`."""

    def bears_none(request: Request) -> bool:
        return request.headers.get("Authorization") != f"Bearer {token}"

    proxy.rule(faults.answer(401), matching=bears_none, times=None)


def open_metrics(series: Iterable[Series]) -> str:
    """The series in OpenMetrics text, with the lines of a name together."""
    named: dict[str, list[Series]] = {}
    for one in series:
        named.setdefault(one.name, []).append(one)
    lines = []
    for name, ones in named.items():
        lines.append(f"# TYPE {name} unknown")
        for one in ones:
            labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in one.labels.items())
            lines += [f"{name}{{{labels}}} {value} {time:.3f}" for time, value in one.samples]
    return "\n".join([*lines, "# EOF", ""])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
