"""The verbs and the words of `reconciler --help`; nothing is imported here, so that the help comes at once."""

VERBS = {
    "validate": "All problems of the policy files, offline.",
    "compile": "The policies as rules with all defaults filled in, offline.",
    "plan": "What would change now. Writes nothing.",
    "diff": "The plan as a unified diff of the objects' YAML.",
    "apply": "Plan and apply, or apply exactly a saved plan.",
    "show": "A saved plan or report as text, JSON, Markdown or HTML.",
    "explain": "What a field means, or why an object gets this number.",
    "wake": "Wake what was idled, now.",
    "restore": "Give what we idled its replicas back, without any policy.",
    "snapshot": "Write down what a plan reads, to plan from it elsewhere.",
    "doctor": "What each cluster lacks for a run: rights, clock, metrics.",
    "rank": "Which pods would go, in which order, by which rule.",
    "calendar": "The windows to come, with daylight-saving days.",
    "schema": "The JSON Schema of a kind.",
}

_HEAD = """\
Usage: reconciler VERB [ARGUMENTS]...

  Keeps the scale of workloads on many Kubernetes clusters the way policy
  files in git say.

  Every run is one pass: read the policies, look at the clusters, plan,
  apply, report, exit. `reconciler VERB --help` tells more of a verb.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Verbs:
"""


def help_text() -> str:
    """Return what `reconciler --help` prints."""
    width = max(map(len, VERBS))
    return _HEAD + "".join(f"  {verb:<{width}}  {words}\n" for verb, words in VERBS.items())
