"""The source of the clusters of a run: a Fleet, or contexts of the kubeconfig, from which a Fleet is made."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from reconciler.backends.protocols import LEASES
from reconciler.cli.options import DEFAULT_PATH, option, policies_option, together
from reconciler.cli.output import say
from reconciler.errors import ClusterError, PolicyError, UsageError, reason_of
from reconciler.model import OUR_LABELS
from reconciler.policy.kinds.fields import API_VERSION
from reconciler.policy.load import check_loaded, read_fleet_for_wakes
from reconciler.policy.policy_files import Loaded, load
from reconciler.policy.types import Fleet, PolicySet
from reconciler.world import World
from reconciler.yaml.reader import read_documents

fleet_options = together(
    policies_option(
        default=None, default_words=DEFAULT_PATH, help="The policy directory, or a file with the Fleet, which is read."
    ),
    option(
        "--context",
        multiple=True,
        metavar="NAME",
        help="A context of the kubeconfig, in place of a Fleet; may be repeated.",
    ),
    option(
        "--own-namespace", metavar="NAME", default_words="reconciler", help="With --context: the namespace of the lock."
    ),
)


class FleetSource(Struct, frozen=True):
    """What the flags and their variables say; `policies` None: they do not name one.

    `unasked`: the contexts come from the variable, not from a flag.
    """

    policies: str | None
    contexts: Sequence[str]
    own_namespace: str | None
    unasked: bool = False

    @classmethod
    def of(cls, flags: Mapping[str, Any]) -> FleetSource:
        """Return what `flags`, those of this call, say: a flag beats the variable of another one."""
        policies, contexts, own_namespace = flags["policies"], flags["context"], flags["own_namespace"]
        if _is_flag("context") and not _is_flag("policies"):
            policies = None
        if _is_flag("policies") and not _is_flag("context"):
            contexts = ()
        if not contexts and not _is_flag("own_namespace"):
            own_namespace = None
        return cls(policies, contexts, own_namespace, unasked=bool(contexts) and not _is_flag("context"))

    @property
    def path(self) -> str:
        return self.policies or DEFAULT_PATH

    def read(self) -> Fleet:
        """Return what a wake needs of the Fleet; what else is wrong with it is a warning.

        Raises:
            PolicyError: not even that can be read. UsageError: flags that exclude each other.
        """
        if not self.contexts:
            if self.own_namespace is not None:
                raise UsageError("--own-namespace: the Fleet names its own, expected it beside --context")
            return self._from_file()
        context, fleet = ("RECONCILER_CONTEXT", "RECONCILER_POLICIES") if self.unasked else ("--context", "--policies")
        if self.policies is not None:
            raise UsageError(f"{context}: takes the place of a Fleet, expected no {fleet} beside it")
        if self.unasked:
            say(
                f"warning: {context} takes the place of the Fleet: {', '.join(self.contexts)}; "
                "--policies PATH names one"
            )
        return fleet_of_contexts(self.contexts, self.own_namespace)

    def check_own_namespace(self, fleet: Fleet, world: World) -> None:
        """Check that what stands in for a lost Fleet uses the namespace of its locks and records.

        Our Leases show where that is. A lock in another namespace would keep no run of that Fleet from writing.

        Raises:
            UsageError: there are some in another namespace than that of `fleet`, and no flag says which one is meant.
        """
        if not self.contexts or self.own_namespace is not None:
            return
        for name, access in sorted(world.accesses.items()):
            try:
                found = {one.ref.namespace for one in access.cluster.list(LEASES, labels=_OUR_LEASES)}
            except ClusterError as error:
                why = reason_of(error).removeprefix(f"{name}: ")
                say(
                    f"warning: {name}: uses the namespace {fleet.namespace}; whether the Fleet used another one is not "
                    f"known: {why}; --own-namespace NAME names it"
                )
                continue
            if found - {fleet.namespace}:
                raise UsageError(
                    f"{_WHERE}: {name} has Leases of the reconciler in {' and '.join(sorted(found))}, expected "
                    "--own-namespace with the namespace of the Fleet whose place it takes"
                )

    def _from_file(self) -> Fleet:
        fleet, problems = read_fleet_for_wakes(self.path)
        for problem in problems:
            say(f"warning: {problem}")
        return fleet


def user_of_this_machine() -> str:
    """Return the name of the user who calls, or the number where it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _is_flag(name: str) -> bool:
    """Return whether the option `name` stands on the command line of this call."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


_WHERE = "--context"
_OUR_LEASES = ",".join(f"{key}={value}" for key, value in OUR_LABELS.items())
_NOTHING = Loaded((), (), True, hashlib.sha256().hexdigest())


def read_one_cluster(context: str, path: str | None) -> PolicySet:
    """Return the policies below `path` (None: none) with a Fleet of the one cluster that `context` leads to.

    Raises:
        UsageError: there is a Fleet below `path`: which of the two is meant? PolicyError: with all problems.
    """
    given = _NOTHING if path is None else load(path)
    _refuse_fleet(given)
    text = _fleet_text(context)
    return _checked(given, text, _WHERE if path is None else str(Path(path)))


def fleet_of_contexts(contexts: Sequence[str], namespace: str | None) -> Fleet:
    """Return a Fleet of the clusters that `contexts` lead to; its own namespace is `namespace`, None: the default.

    Raises:
        UsageError: two of them would have the same name. PolicyError: one has no name that a cluster may have.
    """
    named: dict[str, str] = {}
    for context in dict.fromkeys(contexts):
        name = cluster_name(context)
        if name in named:
            raise UsageError(
                f'{_WHERE}: "{named[name]}" and "{context}" would both be called {name}, expected one of them at a time'
            )
        named[name] = context
    return _checked(_NOTHING, _fleet_text(*named.values(), namespace=namespace), _WHERE).fleet


def _checked(given: Loaded, fleet: str, where: str) -> PolicySet:
    made = read_documents(_WHERE, fleet)
    loaded = Loaded(
        documents=(*made.found, *given.documents),
        problems=(*made.problems, *given.problems),
        complete=made.complete and given.complete,
        digest=hashlib.sha256(f"{given.digest}\n{fleet}".encode()).hexdigest(),
    )
    policies, wrong = check_loaded(loaded, where)
    if policies is None:
        raise PolicyError.of(wrong)
    return replace(policies, fleet=replace(policies.fleet, from_context=True))


def cluster_name(context: str) -> str:
    """Return the name of the cluster behind a context: contexts may hold what names and folders may not."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", context).strip("-_.")[:200] or "cluster"


def _fleet_text(*contexts: str, namespace: str | None = None) -> str:
    clusters = [{"name": cluster_name(context), "connection": {"context": context}} for context in contexts]
    home = str(clusters[0]["name"])
    fleet = {
        "apiVersion": API_VERSION,
        "kind": "Fleet",
        "metadata": {"name": re.sub(r"[^a-z0-9]+", "-", home.lower()).strip("-")},
        "spec": {"home": home, "clusters": clusters, **({} if namespace is None else {"namespace": namespace})},
    }
    return json.dumps(fleet)


def _refuse_fleet(given: Loaded) -> None:
    for document in given.documents:
        if isinstance(document.value, dict) and document.value.get("kind") == "Fleet":
            raise UsageError(
                f"--context: {document.file}:{document.line} is a Fleet, expected policies without one; leave --context"
                " out and narrow with --cluster, or name a path without a Fleet"
            )


# The commit at which a folder is checked out, read from the files of git: images of CronJobs have no git.


_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def commit_of(path: str | Path) -> str:
    """Return the commit of the checkout that `path` is in, "" where it is in none or that cannot be read.

    What was changed since does not show: a run that must know is given --source-revision.
    """
    try:
        here = Path(path).resolve()
        found = next((one / ".git" for one in (here, *here.parents) if (one / ".git").exists()), None)
        return "" if found is None else _head_of(_folder(found))
    except (OSError, ValueError):
        return ""


def _folder(found: Path) -> Path:
    """Return the folder of git: in a linked worktree `.git` is a file that names it."""
    if found.is_dir():
        return found
    named = found.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    return found.parent / named


def _head_of(folder: Path) -> str:
    text = (folder / "HEAD").read_text(encoding="utf-8").strip()
    if not text.startswith("ref:"):
        return text if _COMMIT.fullmatch(text) else ""
    name = text.removeprefix("ref:").strip()
    common = folder / "commondir"
    shared = folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder
    for top in (folder, shared):
        if (top / name).is_file():
            return (top / name).read_text(encoding="utf-8").strip()
    return _packed(shared / "packed-refs", name)


def _packed(file: Path, name: str) -> str:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else ()
    return next((commit for commit, _, ref in (line.partition(" ") for line in lines) if ref == name), "")
