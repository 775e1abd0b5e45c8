"""What a start costs: counted in modules, not in seconds."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from typing import NamedTuple

import msgspec
import pytest

from reconciler.cli.verbs import help_text
from tests.backends.kubernetes.kubeconfigs import a_kubeconfig
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import fleet

OF_DATACLASSES = {"ast", "_ast", "dis", "inspect", "linecache", "opcode", "token", "tokenize", "importlib.machinery"}
OF_JSON = {"json", "json.decoder", "json.encoder", "json.scanner", "_json"}
OF_OTHER_RELEASES: set[str] = {
    *(OF_DATACLASSES if sys.version_info >= (3, 12) else ()),  # dataclasses reads the annotations of Pod by inspect
    *(OF_JSON if msgspec.__version__ < "0.20" else ()),  # its own version is JSON
}
"""What later Pythons and the lowest msgspec import for themselves."""

HEAVY = ("kubernetes", "urllib3", "jinja2", "jsonschema")


AT_END = """
import atexit, sys

def tell():
    modules, patterns = [*sys.modules], len(getattr(sys.modules.get("re"), "_cache", ()))
    ours = [(f"{name}.{key}", name, value) for name in modules if name.startswith("reconciler.")
            for key, value in vars(sys.modules[name]).items()]
    compiled = [key for key, name, value in ours if type(value).__name__ == "Pattern"
                or "__dataclass_fields__" in getattr(value, "__dict__", ()) and value.__module__ == name]
    read = {key: value for key, _, value in ours if type(value).__name__ == "StructMeta"
            and {"Fields", "Wire"} & {base.__name__ for base in value.__mro__[1:]}}
    texts = [key for key, value in read.items() if any(type(one) is str for one in value.__annotations__.values())]
    print("FOUND", (modules, patterns, compiled, [*read], texts))

atexit.register(tell)
sys.argv = ["reconciler", *sys.argv[1:]]
from reconciler.__main__ import main
main()
"""


class Found(NamedTuple):
    """What there is at the end of a call: `texts` are those types of what is read whose annotations are texts."""

    modules: set[str]
    patterns: int
    compiled: set[str]
    read: set[str]
    texts: set[str]


@cache
def found_after(*arguments: str) -> Found:
    called = [sys.executable, "-c", AT_END, *arguments]
    said = subprocess.run(called, capture_output=True, text=True, check=False).stdout
    modules, patterns, *others = ast.literal_eval(said.rpartition("FOUND ")[2])
    return Found(set(modules), patterns, *map(set, others))


def modules_after(*arguments: str) -> set[str]:
    return found_after(*arguments).modules


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_loads_nothing_but_words(arguments):
    loaded = modules_after(*arguments)
    assert not loaded & {*HEAVY, "click", "yaml", "json", "msgspec", "dataclasses", "reconciler.errors"}


def test_the_help_of_verbs_loads_no_heavy_library():
    """Nor does that of plan load what only a snapshot needs."""
    code = "import sys; from reconciler.cli.app import run; run(['plan', '--help']); print('NAMES', *sys.modules)\n"
    code += "for verb in ('validate', 'diff', 'apply', 'show', 'calendar'): run([verb, '--help'])\n"
    code += "print('NAMES', *sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    of_plan, of_all = (set(text.split("\n")[0].split()) for text in said.stdout.split("NAMES")[1:])
    assert "reconciler.cli.apply" in of_all
    assert not of_all & set(HEAVY)
    assert not {name for name in of_plan if name.startswith("reconciler.backends.snapshot.")}
    assert not of_plan & {"importlib.metadata", "zipfile"}


def plan_of_quickstart(repository):
    example = repository / "examples" / "quickstart"
    return "plan", str(example / "policies"), "--snapshot", str(example / "snapshot")


def test_a_run_over_a_snapshot_loads_nothing_that_only_live_clusters_need(repository):
    loaded = modules_after(*plan_of_quickstart(repository), "-o", "json")
    assert "reconciler.backends.snapshot.cluster" in loaded
    assert not loaded & {*HEAVY, "ssl", "http.client", "email"}
    assert not {name for name in loaded if name.startswith(("reconciler.backends.kubernetes", "reconciler.http"))}


def test_a_plan_as_text_loads_neither_what_apply_needs_nor_what_json_needs(repository):
    loaded = modules_after(*plan_of_quickstart(repository))
    assert "reconciler.report.text" in loaded
    of_json = {"reconciler.plan.change_json", "reconciler.plan.json", "reconciler.report.json"}
    assert not loaded & {*of_json, "difflib", "html", "queue", "secrets", "socket", "getpass", "random", "statistics"}
    of_apply = ("reconciler.apply.", "reconciler.history.", "reconciler.saved_plan.")
    known = {f"reconciler.apply.{name}" for name in ("access", "config_map_store", "outcomes")}
    assert {one for one in loaded if one.startswith(of_apply)} == known


def test_savings_load_nothing_that_plays_days_to_come():
    loaded = modules_after("savings", "--help")
    assert "reconciler.cli.savings" in loaded
    assert not {one for one in loaded if one.startswith("reconciler.forecast")}


@pytest.fixture(scope="module")
def plan_of_nothing(tmp_path_factory):
    """The arguments of a plan of one cluster without objects and policies."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "fleet.yaml").write_text(fleet(["one"]))
    (folder / "snapshot" / "one").mkdir(parents=True)
    return "plan", str(folder / "fleet.yaml"), "--snapshot", str(folder / "snapshot")


def test_a_plan_of_a_live_cluster_loads_what_requests_need(tmp_path):
    """Nothing answers; each request is tried all the same."""
    a_kubeconfig(tmp_path / "config", {"token": "of-the-test"}, {"server": "https://127.0.0.1:9"})
    path = tmp_path / "fleet.yaml"
    path.write_text(fleet(["{name: east, connection: {kubeconfig: config}}"], home="east"))
    loaded = modules_after("plan", str(path), "--request-timeout", "1", "--credentials-dir", str(tmp_path))
    assert "urllib3" in loaded
    assert len({one for one in loaded if one.startswith("reconciler.")}) <= 185
    assert len(loaded - OF_OTHER_RELEASES) <= 410
    assert not loaded & {"html", "rich", "requests", "asyncio", "kubernetes"}


def test_a_plan_of_nothing_loads_few_modules(plan_of_nothing):
    """Each module costs a plan half a millisecond: raise the numbers only for what every plan needs."""
    loaded = modules_after(*plan_of_nothing) - OF_OTHER_RELEASES
    ours = {one for one in loaded if one.startswith("reconciler.")}
    assert "reconciler.report.text" in ours
    assert len(ours) <= 166
    assert len(loaded) <= 308
    assert not loaded & {"pathlib", "urllib.parse", "ipaddress"}  # a path is a text
    assert not loaded & {"inspect", "dis", "gettext", "locale", "msgspec.inspect", "typing_extensions"}
    assert not loaded & {"logging", "traceback", "json", "reconciler.yaml.writer"}
    assert not loaded & {f"reconciler.backends.decode.{room}" for room in ("objects", "shapes", "workloads")}
    rooms = ("allocation", "rounding", "desired_replicas", "federated_replica_set")
    assert not loaded & {f"reconciler.decide.placement.{room}" for room in rooms}
    assert not loaded & {"reconciler.forbidden_addresses", "reconciler.plan.json"}
    assert not {one for one in ours if one.startswith("reconciler.backends.snapshot.write_effects")}


def test_a_plan_of_nothing_compiles_nothing_that_it_does_not_use(plan_of_nothing):
    """Neither regular expressions, which re has once they are used, nor dataclasses: a struct compiles no methods."""
    found = found_after(*plan_of_nothing)
    assert found.compiled == {"reconciler.model.Pod"}
    assert found.patterns <= 10, "those of libraries"


def test_no_type_of_what_is_read_is_a_text(repository):
    """Where `annotations` come from `__future__`, each field that is read compiles its own at every start."""
    found = found_after(*plan_of_quickstart(repository))
    assert "reconciler.backends.decode.shapes.ReplicaSet" in found.read
    assert found.texts == set()


LEAVING = """
import atexit, sys

class Last:
    def __del__(self):
        print("taken apart")

last = Last()
atexit.register(print, "said at exit")
sys.argv = ["reconciler", "plan", "nowhere"]
from reconciler.__main__ import main
main()
"""


def test_a_run_ends_without_taking_apart_what_it_read():
    """That takes as long as an eighth of a plan; what was registered for the end is done, and all is written out."""
    command = [sys.executable, "-c", LEAVING]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (said.stdout, said.returncode) == ("said at exit\n", 3)
    assert said.stderr.startswith("error: nowhere")


def test_the_help_is_the_same_on_both_ways(tmp_path):
    assert Folder(tmp_path).call("--help").out == help_text()
