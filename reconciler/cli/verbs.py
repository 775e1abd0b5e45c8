"""The verbs, the words of `reconciler --help`, and examples; no import takes time, so the help comes at once."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

GROUPS = {
    "Policies": {
        "validate": "Check the policy files, offline.",
        "init": "Show what may be idled, and write tests that guard production.",
        "compile": "Print the policies with all defaults filled in, offline.",
        "test": "Run tests of policies (*_test.yaml).",
        "explain": "Explain a field of a policy, or why an object has its replicas.",
        "calendar": "List when calendars are idle in the days to come.",
        "forecast": "Show what the policies do in the days to come, and what they save.",
        "suggest": "Print an IdlingPolicy and a Calendar that fit what was measured.",
        "schema": "Print the JSON Schema of a kind.",
    },
    "Clusters": {
        "plan": "Show what would change now. Writes nothing.",
        "diff": "Show the plan as a unified diff of the objects' YAML.",
        "apply": "Plan and apply, or apply exactly a saved plan.",
        "show": "Show a saved plan or report as text, JSON, Markdown or HTML.",
        "status": "Show what the Fleet is like now, on one screen.",
        "savings": "Show what idling saved.",
        "history": "List who scaled what, when, from how many to how many, and why.",
        "rank": "List the pods that a scale down would delete first, and why.",
    },
    "Operate": {
        "wake": "Wake what is idle, now.",
        "restore": "Restore the replicas of what was idled, without any policy.",
        "freeze": "Stop idling, moving and scaling down for a while; wakes go on.",
        "unfreeze": "End a freeze.",
        "activator": "Run in a cluster: traffic wakes what is idle.",
        "picker": "Run in a cluster: choose the pods of every decrease.",
        "connect": "Give runs from elsewhere access to a cluster, and renew its token.",
        "doctor": "Check what each cluster lacks for a run: rights, clock, metrics.",
        "rbac": "Print roles with the least rights that the policies need.",
    },
    "Move in and out": {
        "import": "Print the manifests of another tool as policies.",
        "adopt": "Take over what another tool has idled, with its replicas.",
        "uninstall": "Wake everything, and take everything of ours off the clusters.",
    },
    "CI and shells": {
        "ci": "Review a change of policies in a pipeline of GitHub or GitLab.",
        "snapshot": "Write what a plan reads, to plan from it elsewhere.",
        "completion": "Print the completion script of a shell.",
    },
}
"""The verbs with what each does, in the groups of `reconciler --help`."""

VERBS = {verb: words for group in GROUPS.values() for verb, words in group.items()}
FIRST = ("validate", "plan", "apply", "status")
"""The verbs that somebody needs first, in the order in which they do."""

MODULES = {
    "adopt": "other_tools",
    "calendar": "forecast",
    "diff": "plan",
    "unfreeze": "freeze",
    "history": "status",
    "import": "other_tools",
    "init": "test",
    "compile": "policies",
    "restore": "wake",
    "schema": "policies",
    "show": "plan_file",
    "validate": "policies",
}
"""The module of each verb that stands beside others; the module of another verb has its name."""

EXAMPLES = {
    "validate": (
        ("Check the policies in ./policies", "validate"),
        ("Put each problem beside its line in a pull request on GitHub", "validate -o github"),
        ("Write a log for code scanning", "validate -o sarif > reconciler.sarif"),
    ),
    "init": (
        ("Write policies/production_test.yaml, from a snapshot", "init policies --snapshot ./snapshot"),
        ("Write it again, after production changed on purpose", "init policies --snapshot ./snapshot --overwrite"),
    ),
    "compile": (
        ("Print the policies as YAML", "compile"),
        ("List the policies by kind and name", "compile -o json | jq -r '.rules[] | .kind + \" \" + .metadata.name'"),
    ),
    "plan": (
        ("Show what would change on the clusters of the Fleet", "plan"),
        (
            "Plan from a snapshot as of a time, and save the plan",
            "plan --snapshot DIR --now 2026-11-20T22:00:00Z --out plan.json",
        ),
    ),
    "diff": (
        ("Show each field that would change", "diff"),
        ("Show one policy's changes, and end with 2 where there are any", "diff --policy idle-dev --detailed-exitcode"),
    ),
    "apply": (
        ("Show the plan, ask, and apply it", "apply"),
        ("Apply without a terminal, as a CronJob does", "apply --auto-approve --timeout 540"),
        ("Apply exactly what was saved", "apply plan.json"),
    ),
    "show": (
        ("Read a saved plan", "show plan.json"),
        ("Turn a report into a page", "show report.json -o html > report.html"),
    ),
    "explain": (
        ("Why does a Deployment have its replicas?", "explain eu-west/shop/Deployment/web"),
        ("What can be said in an IdlingPolicy?", "explain IdlingPolicy --recursive"),
    ),
    "wake": (
        ("Wake one Deployment", "wake eu-west/dev-a/Deployment/api"),
        ("Wake a namespace, and keep it awake for four hours", "wake eu-west/dev-a --for 4h"),
    ),
    "restore": (
        ("Restore everything that one policy idled", "restore --policy idle-dev"),
        ("Restore a namespace, and keep it from being idled for twelve hours", "restore eu-west/dev-a --hold 12h"),
    ),
    "import": (
        (
            "Print the policies that kube-green's SleepInfos amount to",
            "import kube-green sleepinfos.yaml --out policies/imported.yaml",
        ),
        ("Read the annotations and flags of kube-downscaler on a cluster", "import kube-downscaler --context dev"),
    ),
    "adopt": (
        ("Take over what kube-green has idled, once it is stopped", "adopt kube-green"),
        ("Take over without a question what kube-downscaler has idled", "adopt kube-downscaler --auto-approve"),
    ),
    "uninstall": (
        ("Show what would be woken and taken off, ask, and do it", "uninstall"),
        ("Clean one cluster of which there are no policies any more", "uninstall --context dev"),
    ),
    "freeze": (
        ("Stop all decreases on all clusters for four hours", 'freeze --for 4h --reason "incident 4711"'),
        ("Freeze one namespace of a cluster", 'freeze eu-west/shop --for 2d --reason "load test"'),
    ),
    "unfreeze": (("End the freeze of the Fleet", "unfreeze"), ("End that of a cluster", "unfreeze eu-west")),
    "status": (
        ("Show the whole Fleet", "status"),
        ("Show one FederatedReplicaSet, cluster by cluster", "status shop/web"),
    ),
    "savings": (
        ("What did idling save in the last 30 days?", "savings"),
        ("Of each tenant, in money", "savings --by tenant --price cpu=0.031 --price memory=0.0042"),
    ),
    "history": (
        ("What was scaled in the last week?", "history"),
        ("Who scaled this Deployment in the last month?", "history eu-west/shop/Deployment/web --since 30d"),
    ),
    "activator": (
        (
            "Run in a Pod, as deploy/components/activator does",
            "activator --pod-name NAME --pod-uid UID --pod-ips 10.1.2.3",
        ),
        (
            "Only report which Services need pods",
            "activator --pod-name NAME --pod-uid UID --pod-ips 10.1.2.3 --read-only",
        ),
    ),
    "picker": (
        ("Run in a Pod, as deploy/components/picker does", "picker /policies --cluster eu-west"),
        (
            "Run elsewhere, where certificate and key are",
            "picker --cluster eu-west --context eu-west --tls-cert tls.crt --tls-key tls.key --port 9443",
        ),
    ),
    "snapshot": (
        ("Write what a plan reads", "snapshot ./snapshot"),
        ("Write it again, of one context without a Fleet", "snapshot ./snapshot --context kind-dev --overwrite"),
        ("Write what the queries said in the last month too", "snapshot ./snapshot --with-history 30d"),
    ),
    "connect": (
        (
            "Set up the cluster us-east with a context that may do so",
            "connect us-east --admin-context us-east-admin --file hub.kubeconfig",
        ),
        ("Write to the Secret of the CronJob in eu-west", "connect us-east --hub eu-west"),
        ("Renew the tokens that are past half of their life", "connect --rotate --file hub.kubeconfig"),
    ),
    "doctor": (
        ("Check every cluster of the Fleet", "doctor"),
        ("Check whether a plan has the rights it needs", "doctor --for plan"),
    ),
    "rbac": (
        ("Give a member cluster the rights that the policies need, and no more", "rbac | kubectl apply -f -"),
        ("Print those for one cluster", "rbac --cluster eu-west"),
        ("With a custom kind that they name", "rbac --kind WebApp=webapps.example.com"),
    ),
    "rank": (
        ("Which pod would go first?", "rank eu-west/batch/Deployment/worker"),
        ("Which would go on the way down to four?", "rank eu-west/batch/Deployment/worker --to 4"),
    ),
    "calendar": (
        ("List the idle hours of the next seven days", "calendar"),
        ("List those around a change of the clocks", "calendar --now 2026-10-20T00:00:00Z --days 10"),
    ),
    "forecast": (
        ("Play the next seven days on a snapshot", "forecast --snapshot DIR"),
        (
            "What does each team save in two weeks, in money?",
            "forecast --snapshot DIR --days 14 --by team --price cpu=0.031 --price memory=0.0042",
        ),
        ("What would the policies have done in the last month?", "forecast --replay 30d"),
    ),
    "suggest": (
        ("Learn from the last month of the clusters and their Prometheus", "suggest"),
        ("Learn from a snapshot with a history", "suggest --snapshot DIR --time-zone Europe/Paris > suggested.yaml"),
    ),
    "test": (
        ("Run the tests below ./policies", "test"),
        ("Write the results for a CI system, and list what has no case", "test --coverage -o junit > results.xml"),
    ),
    "ci": (
        (
            "Comment on a pull request of GitHub what it changes",
            "ci github policies --base base/policies --snapshot DIR",
        ),
        (
            "Fail a merge request of GitLab where limits would hold something back",
            "ci gitlab --base base/policies --snapshot DIR --fail-on held-back",
        ),
    ),
    "schema": (
        ("Print the schema of a kind", "schema IdlingPolicy"),
        ("Save the schema of files with policies, for an editor", "schema Policy > policy.schema.json"),
        (
            "Tell editors which schema is for which file",
            "schema catalog --url https://example.com/schemas > catalog.json",
        ),
    ),
    "completion": (
        ("Complete in this bash", "source <(reconciler completion bash)"),
        ("Complete in every fish", "completion fish > ~/.config/fish/completions/reconciler.fish"),
    ),
}
"""Of each verb: what an example does, and its command line."""

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


def example_lines(verb: str) -> list[str]:
    """Return the examples of `verb`, as kubectl shows them: a comment, and below it the command line."""
    return [
        line
        for words, command in EXAMPLES[verb]
        for line in (f"# {words}", command if command.startswith("source") else f"{program_name()} {command}")
    ]


# What options and verbs of kubectl and Terraform are called here: said where somebody types theirs.


_NARROW = "narrow with --policy, --cluster, --namespace or --selector"
OPTIONS_OF_OTHERS: Mapping[str, str] = {  # those of one verb only after its name
    "--dry-run": "`reconciler plan` shows what would change, and writes nothing",
    "--target": _NARROW,
    "--exclude": _NARROW,
    "-A": "all namespaces are looked at, unless --namespace names some",
    "--all-namespaces": "all namespaces are looked at, unless --namespace names some",
    "wake --all": "name a CLUSTER to wake everything there; `reconciler restore --all` restores everything",
    "-n": "an OBJECT names it, CLUSTER/NAMESPACE/KIND/NAME, where the verb has one",
    "--namespace": "an OBJECT names it, CLUSTER/NAMESPACE/KIND/NAME, where the verb has one",
    "--kubeconfig": "the environment variable KUBECONFIG names the file",
    "-f": "the policy directory is PATH without a flag, `--policies PATH` where a verb has an OBJECT",
    "--filename": "the policy directory is PATH without a flag, `--policies PATH` where a verb has an OBJECT",
    "-k": "the policy directory is PATH without a flag, `--policies PATH` where a verb has an OBJECT",
    "-y": "approve with --yes",
    "--force": "--allow-exceed NAME lifts a limit once",
    "init --force": "--overwrite replaces what is there",
    "snapshot --force": "--overwrite replaces what is there",
    "-w": "every run is one pass; call it again",
    "--watch": "every run is one pass; call it again",
    "--refresh": "every plan reads the clusters anew",
    "--var": "policies have no variables",
    "--var-file": "policies have no variables",
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

    `options` are those of `verb`. What is neither one of them nor known elsewhere may be a short one with its value.
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
