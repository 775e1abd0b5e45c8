"""What a start costs: counted in modules, not in seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reconciler.cli.verbs import help_text
from tests.backends.kubernetes.kubeconfigs import a_kubeconfig
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import fleet

HEAVY = ("kubernetes", "urllib3", "jinja2", "jsonschema")


def names_after(found: str, *arguments: str) -> set[str]:
    """Return the names that the expression `found` has at the end of a call."""
    code = (
        "import atexit, sys\n"
        f"sys.argv = ['reconciler', *{arguments!r}]\n"
        "from reconciler.__main__ import main\n"
        f"atexit.register(lambda: print('NAMES', *sorted([*({found})])))\n"
        "main()\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return set(said.stdout.rpartition("NAMES")[2].split())


def modules_after(*arguments: str) -> set[str]:
    return names_after("sys.modules", *arguments)


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


def test_a_run_over_a_snapshot_loads_nothing_that_only_live_clusters_need(repository):
    example = repository / "examples" / "quickstart"
    loaded = modules_after("plan", str(example / "policies"), "--snapshot", str(example / "snapshot"), "-o", "json")
    assert "reconciler.backends.snapshot.cluster" in loaded
    assert not loaded & {*HEAVY, "ssl", "http.client", "email"}
    assert not {name for name in loaded if name.startswith(("reconciler.backends.kubernetes", "reconciler.http"))}


def test_a_plan_as_text_loads_neither_what_apply_needs_nor_what_json_needs(repository):
    example = repository / "examples" / "quickstart"
    loaded = modules_after("plan", str(example / "policies"), "--snapshot", str(example / "snapshot"))
    assert "reconciler.report.text" in loaded
    of_json = {"reconciler.plan.change_json", "reconciler.plan.json", "reconciler.report.json"}
    assert not loaded & {*of_json, "difflib", "html", "queue", "secrets", "socket"}
    assert not loaded & {"getpass", "random", "statistics"}
    assert {
        one for one in loaded if one.startswith(("reconciler.apply.", "reconciler.history.", "reconciler.saved_plan."))
    } == {
        "reconciler.apply.access",
        "reconciler.apply.config_map_store",
        "reconciler.apply.outcomes",
    }


def test_savings_load_nothing_that_plays_days_to_come():
    loaded = modules_after("savings", "--help")
    assert "reconciler.cli.history" in loaded
    assert not {one for one in loaded if one.startswith("reconciler.forecast")}


@pytest.fixture
def plan_of_nothing(tmp_path):
    """The arguments of a plan of one cluster without objects and policies."""
    (tmp_path / "fleet.yaml").write_text(fleet(["one"]))
    (tmp_path / "snapshot" / "one").mkdir(parents=True)
    return "plan", str(tmp_path / "fleet.yaml"), "--snapshot", str(tmp_path / "snapshot")


def test_a_plan_of_a_live_cluster_loads_what_requests_need(tmp_path):
    """Nothing answers; each request is tried all the same."""
    a_kubeconfig(tmp_path / "config", {"token": "of-the-test"}, {"server": "https://127.0.0.1:9"})
    path = tmp_path / "fleet.yaml"
    path.write_text(fleet(["{name: east, connection: {kubeconfig: config}}"], home="east"))
    loaded = modules_after("plan", str(path), "--request-timeout", "1", "--credentials-dir", str(tmp_path))
    assert "urllib3" in loaded
    assert len({one for one in loaded if one.startswith("reconciler.")}) <= 190
    assert len(loaded) <= 445
    assert not loaded & {"html", "rich", "requests", "asyncio", "kubernetes"}


def test_a_plan_of_nothing_loads_few_modules(plan_of_nothing):
    """Each module costs a plan half a millisecond: raise the numbers only for what every plan needs."""
    loaded = modules_after(*plan_of_nothing)
    ours = {one for one in loaded if one.startswith("reconciler.")}
    assert "reconciler.report.text" in ours
    assert len(ours) <= 172
    assert len(loaded) <= 330
    assert not loaded & {"pathlib", "urllib.parse", "ipaddress"}  # a path is a text
    assert not loaded & {"inspect", "dis", "gettext", "locale", "msgspec.inspect", "typing_extensions"}
    rooms = ("allocation", "rounding", "desired_replicas", "federated_replica_set")
    assert not loaded & {f"reconciler.decide.placement.{room}" for room in rooms}
    assert not loaded & {"reconciler.forbidden_addresses", "reconciler.plan.json"}
    assert not {one for one in ours if one.startswith("reconciler.backends.snapshot.writes")}


def test_a_plan_of_nothing_compiles_few_patterns_of_libraries(plan_of_nothing):
    assert len(names_after("f'pattern-{n}' for n, _ in enumerate(__import__('re')._cache)", *plan_of_nothing)) <= 10


OF_OURS = "f'{name}.{key}' for name, module in sys.modules.items() if name.startswith('reconciler.')"
OF_OURS += " for key, value in vars(module).items()"
PATTERN = "type(value).__name__ == 'Pattern'"
DATACLASS = "'__dataclass_fields__' in getattr(value, '__dict__', ()) and value.__module__ == name"


def test_a_plan_of_nothing_compiles_nothing_that_it_does_not_use(plan_of_nothing):
    """Neither regular expressions, which re has once they are used, nor dataclasses: a struct compiles no methods."""
    assert names_after(f"{OF_OURS} if {PATTERN} or {DATACLASS}", *plan_of_nothing) == {"reconciler.model.Pod"}


READ = "type(value).__name__ == 'StructMeta' and {'Fields', 'Wire'} & {base.__name__ for base in value.__mro__[1:]}"
TEXTS = "any(type(said) is str for said in value.__annotations__.values())"


def test_no_type_of_what_is_read_is_a_text(repository):
    """Where `annotations` come from `__future__`, each field that is read compiles its own at every start."""
    example = repository / "examples" / "quickstart"
    call = ("plan", str(example / "policies"), "--snapshot", str(example / "snapshot"))
    assert "reconciler.backends.decode.shapes.ReplicaSet" in names_after(f"{OF_OURS} if {READ}", *call)
    assert names_after(f"{OF_OURS} if {READ} and {TEXTS}", *call) == set()


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
