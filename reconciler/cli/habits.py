"""What options and verbs of kubectl and Terraform are called here: said where somebody types theirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

_NARROW = "narrow with --policy, --cluster, --namespace or --selector"
_OPTIONS: Mapping[str, str] = {
    "--dry-run": "`reconciler plan` shows what would change, and writes nothing",
    "--target": _NARROW,
    "--exclude": _NARROW,
    "-A": "all namespaces are looked at, unless --namespace names some",
    "--all-namespaces": "all namespaces are looked at, unless --namespace names some",
    "--all": "name a CLUSTER to wake everything there; `reconciler restore --all` restores everything",
    "-n": "name it in the OBJECT, CLUSTER/NAMESPACE/KIND/NAME",
    "--namespace": "name it in the OBJECT, CLUSTER/NAMESPACE/KIND/NAME",
    "--kubeconfig": "the environment variable KUBECONFIG names the file",
    "-f": "the policy directory is PATH without a flag, --policies PATH where a verb has an OBJECT",
    "--filename": "the policy directory is PATH without a flag, --policies PATH where a verb has an OBJECT",
    "-k": "the policy directory is PATH without a flag, --policies PATH where a verb has an OBJECT",
    "-y": "approve with --auto-approve",
    "--yes": "approve with --auto-approve",
    "--force": "--allow-exceed NAME lifts a limit once",
    "-w": "every run is one pass; call it again",
    "--watch": "every run is one pass; call it again",
    "--refresh": "every plan reads the clusters anew",
    "--var": "policies have no variables",
    "--var-file": "policies have no variables",
}
_FORMATS: Mapping[str, str] = {
    "wide": "text is never cut, and -v shows more where a verb has it",
    "name": "json has the names",
    "jsonpath": "json can be given to jq",
    "custom-columns": "json can be given to jq",
    "go-template": "json can be given to jq",
}
_VERBS: Mapping[str, str] = {
    "cordon": "the field `state` of a cluster in the Fleet, Frozen or Draining",
    "delete": "restore",
    "describe": "explain OBJECT",
    "destroy": "restore --all",
    "drain": "the field `state` of a cluster in the Fleet, Frozen or Draining",
    "get": "status",
    "init": "validate; nothing is prepared",
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


def one_dash(arguments: Sequence[str], options: Collection[str]) -> str:
    """Return what to write in place of a long option with one dash, as Terraform takes it; "" where there is none.

    `options` are those of the verb. What is neither one of them nor known elsewhere may be a short one with its value.
    """
    for argument in arguments:
        if argument == "--":
            break
        name = argument.partition("=")[0]
        if len(name) > 2 and name[0] == "-" != name[1]:
            if f"-{name}" in options:
                return f"{argument}: long options begin with two dashes, expected -{argument}"
            if f"-{name}" in _OPTIONS:
                return f"No such option '{name}'; {_OPTIONS[f'-{name}']}"
    return ""


def option_here(name: str) -> str:
    """Return what to use in place of an option of another tool, "" where that is not known."""
    return _OPTIONS.get(name, "")


def format_here(name: str) -> str:
    """Return what to use in place of a format that kubectl writes, "" where that is not known."""
    return _FORMATS.get(name.partition("=")[0], "")


def verb_here(name: str) -> str:
    """Return what to use in place of a verb of another tool, "" where that is not known."""
    return _VERBS.get(name, "")
