"""The verbs, and the words of `reconciler --help`; no import takes time, so the help comes at once."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

GROUPS = {
    "Policies": {
        "validate": ("policies", "Check the policy files, offline."),
        "init": ("test", "Show what may be idled, and write tests that guard production."),
        "compile": ("policies", "Print the policies with all defaults filled in, offline."),
        "test": ("test", "Run tests of policies (*_test.yaml)."),
        "explain": ("explain", "Explain a field of a policy, or why an object has its replicas."),
        "calendar": ("forecast", "List when calendars are idle in the days to come."),
        "forecast": ("forecast", "Show what the policies do in the days to come, and what they save."),
        "suggest": ("suggest", "Print an IdlingPolicy and a Calendar that fit what was measured."),
        "schema": ("policies", "Print the JSON Schema of a kind."),
    },
    "Clusters": {
        "plan": ("plan", "Show what would change now. Writes nothing."),
        "diff": ("plan", "Show the plan as a unified diff of the objects' YAML."),
        "apply": ("apply", "Plan and apply, or apply exactly a saved plan."),
        "show": ("plan_file", "Show a saved plan or report as text, JSON, Markdown or HTML."),
        "status": ("status", "Show what the Fleet is like now, on one screen."),
        "savings": ("savings", "Show what idling saved."),
        "history": ("history", "List who scaled what, when, from how many to how many, and why."),
        "rank": ("rank", "List the pods that a scale down would delete first, and why."),
    },
    "Operate": {
        "wake": ("wake", "Wake what is idle, now."),
        "restore": ("wake", "Restore the replicas of what was idled, without any policy."),
        "freeze": ("freeze", "Stop idling, moving and scaling down for a while; wakes go on."),
        "unfreeze": ("freeze", "End a freeze."),
        "activator": ("activator", "Run in a cluster: traffic wakes what is idle."),
        "picker": ("picker", "Run in a cluster: choose the pods of every decrease."),
        "connect": ("connect", "Give runs from elsewhere access to a cluster, and renew its token."),
        "doctor": ("doctor", "Check what each cluster lacks for a run: rights, clock, metrics."),
        "rbac": ("rbac", "Print roles with the least rights that the policies need."),
    },
    "Move in and out": {
        "import": ("other_tools", "Print the manifests of another tool as policies."),
        "adopt": ("other_tools", "Take over what another tool has idled, with its replicas."),
        "uninstall": ("uninstall", "Wake everything, and take everything of ours off the clusters."),
    },
    "CI and shells": {
        "ci": ("ci", "Review a change of policies in a pipeline of GitHub or GitLab."),
        "snapshot": ("snapshot", "Write what a plan reads, to plan from it elsewhere."),
        "completion": ("completion", "Print the completion script of a shell."),
    },
}
"""The verbs in the groups of `reconciler --help`: the module of each, and what it does."""

VERBS = {verb: words for group in GROUPS.values() for verb, (_, words) in group.items()}
MODULES = {verb: module for group in GROUPS.values() for verb, (module, _) in group.items()}
FIRST = ("validate", "plan", "apply", "status")
"""The verbs that somebody needs first, in the order in which they do."""

_HEAD = """\
Usage: {program} VERB [OPTIONS] [ARGUMENTS]...

  Keeps the scale of workloads on many Kubernetes clusters the way policy
  files in git say.

"""
_ALL = """\
  Every run is one pass: read the policies, read the clusters, plan, apply,
  report, exit. `{program} VERB --help` describes a verb.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.
"""


def program_name() -> str:
    """Return how this process was called: `kubectl reconciler` for a plugin of kubectl, otherwise `reconciler`.

    Source: kubernetes/website "Extend kubectl with plugins": the plugin of `kubectl NAME` is the program kubectl-NAME.
    """
    called = sys.argv[0].rpartition("/")[2].removesuffix(".exe")
    return "kubectl reconciler" if called == "kubectl-reconciler" else "reconciler"


def help_text() -> str:
    """Return what `reconciler --help` prints."""
    groups = (f"\n{title}:\n{_listed(verbs)}" for title, verbs in GROUPS.items())
    return (_HEAD + _ALL).format(program=program_name()) + "".join(groups)


def first_help() -> str:
    """Return what `reconciler` alone prints: the verbs that a newcomer needs."""
    program = program_name()
    more = f"`{program} --help` lists all verbs, `{program} VERB --help` describes one.\n"
    return f"{_HEAD.format(program=program)}Begin with:\n{_listed(FIRST)}\n{more}"


def _listed(verbs: Iterable[str]) -> str:
    width = max(map(len, VERBS))
    return "".join(f"  {verb:<{width}}  {VERBS[verb]}\n" for verb in verbs)


# What options and verbs of kubectl and Terraform are called here: said where somebody types theirs.


_ASKS = "without --yes it shows what it would do, and asks first"
OPTIONS_OF_OTHERS: Mapping[str, str] = {  # those of one verb only after its name
    "--dry-run": "it changes nothing on clusters",
    **dict.fromkeys(("adopt --dry-run", "connect --dry-run", "restore --dry-run", "uninstall --dry-run"), _ASKS),
    "activator --dry-run": "--read-only wakes nothing",
    "apply --dry-run": "`reconciler plan` shows what would change, and writes nothing",
    "freeze --dry-run": "every plan says what is frozen, and `reconciler unfreeze` ends it",
    "picker --dry-run": "`reconciler rank` lists which pods would go",
    "unfreeze --dry-run": "`reconciler status` shows what is frozen",
    "wake --dry-run": "`reconciler status` shows what is idle below an OBJECT",
    **dict.fromkeys(("--target", "--exclude"), "narrow with --policy, --cluster, --namespace or --selector"),
    **dict.fromkeys(("-A", "--all-namespaces"), "all namespaces are looked at, unless --namespace names some"),
    "wake --all": "name a CLUSTER to wake everything there; `reconciler restore --all` restores everything",
    **dict.fromkeys(("-n", "--namespace"), "an OBJECT names it, CLUSTER/NAMESPACE/KIND/NAME, where the verb has one"),
    "--kubeconfig": "the environment variable KUBECONFIG names the file",
    **dict.fromkeys(
        ("-f", "--filename", "-k"),
        "the policy directory is PATH without a flag, `--policies PATH` where a verb has an OBJECT",
    ),
    "-y": "approve with --yes",
    "--force": "--allow-exceed NAME lifts a limit once",
    **dict.fromkeys(("init --force", "snapshot --force"), "--overwrite replaces what is there"),
    **dict.fromkeys(("-w", "--watch"), "every run is one pass; call it again"),
    **dict.fromkeys(("--refresh", "--refresh-only"), "every plan reads the clusters anew"),
    **dict.fromkeys(("--lock", "--lock-timeout"), "`reconciler apply --lock-timeout SECONDS` says how long it waits"),
    "--no-color": "--color never prints none",
    "--json": "-o json prints it as JSON, where the verb has -o",
    "--input": "--auto-approve asks nothing",
    "--destroy": "`reconciler restore --all` restores everything",
    **dict.fromkeys(("--var", "--var-file"), "policies have no variables"),
}
VERBS_OF_OTHERS: Mapping[str, str] = {
    "cordon": "the field `state` of a cluster in the Fleet, Frozen or Draining",
    "delete": "restore",
    "describe": "explain OBJECT",
    "destroy": "restore --all",
    "drain": "the field `state` of a cluster in the Fleet, Frozen or Draining",
    "get": "status",
    "lint": "validate",
    "list": "status",
    "logs": "history",
    "pause": "freeze",
    "rollback": "restore",
    "rollout": "history, or restore",
    "scale": "wake or restore; `kubectl scale` is respected",
    "sleep": "apply",
    "state": "status",
    "top": "status",
    "undo": "restore",
    "version": "--version",
}


def other_name(verb: str, name: str, options: Collection[str]) -> str:
    """Return what `verb` has in place of the option `name`, after "; ", where its `options` have what that names."""
    hint = OPTIONS_OF_OTHERS.get(f"{verb} {name}") or OPTIONS_OF_OTHERS.get(name, "")
    own = "".join(hint.split("`")[::2])  # what stands in backquotes is of another verb
    named = {word.strip(",;") for word in own.split() if word.startswith("--")}
    return f"; {hint}" if hint and named <= {*options} else ""


def one_dash(verb: str, arguments: Sequence[str], options: Collection[str]) -> str:
    """Return what to write in place of a long option with one dash, as Terraform takes it; "" where there is none.

    `options` are those of `verb`. What is neither one of them nor known elsewhere may be a short one with its value:
    -lapp=api, and not -lock=false.
    """
    for argument in arguments:
        if argument == "--":
            break
        name = argument.partition("=")[0]
        if len(name) > 2 and name[0] == "-" != name[1]:
            if f"-{name}" in options:
                return f"{argument}: long options begin with two dashes, expected -{argument}"
            if f"-{name}" in OPTIONS_OF_OTHERS:
                return f"No such option '{name}'{other_name(verb, f'-{name}', options)}"
    return ""
