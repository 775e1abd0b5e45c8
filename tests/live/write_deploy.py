"""Writes into deploy/ and the page on rights what follows from the table of kinds, and the chart:
`python -m tests.live.write_deploy`.

A section begins with a comment that names it and ends with another one; all between them is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from reconciler.workload_kinds import BY_KIND, SCALABLE_KINDS, SWITCHES, WorkloadKind
from tests.live import chart
from tests.live.deployed import DEPLOY

BEGIN, END = "From reconciler/", "To here."
OWN_VALUES = {"horizontalpodautoscalers": "spec[.](minReplicas|maxReplicas|behavior)"}
"""What admission lets us write on kinds that are scaled and are no workloads."""

_KINDS = "workload_kinds.py"
_COUNTED_BY_SERVER = {"DaemonSet": ("metadata[.]annotations[.]deprecated[.]daemonset[.]template[.]generation",)}
"""What the API server itself changes with a switch."""

Section = Callable[[], Iterator[str]]
_WORKLOADS, _SWITCHES = tuple(SCALABLE_KINDS.values()), tuple(SWITCHES.values())
_CLONE_SETS = (BY_KIND["CloneSet"],)


def resources(kinds: Sequence[WorkloadKind], subresource: str = "") -> dict[str, list[str]]:
    """Return the resources of `kinds` by API group; with "/scale" only of those that have it."""
    found: dict[str, list[str]] = {}
    for kind in kinds:
        if not subresource or kind.status_path:
            found.setdefault(kind.group, []).append(f"{kind.plural}{subresource}")
    return {group: sorted(found[group]) for group in sorted(found)}


def rule(group: str, names: Sequence[str], **more: str) -> Iterator[str]:
    """Yield one rule, of a role or of an admission policy."""
    yield "- apiGroups: [{}]".format(group or '""')
    fields = {**more, "resources": f"[{', '.join(names)}]"}
    for field in ("apiVersions", "operations", "resources", "verbs"):
        if field in fields:
            yield f"  {field}: {fields[field]}"


def role(kinds: Sequence[WorkloadKind], verbs: str, on_scale: str = "") -> Section:
    """Return the rules of a role that has `verbs` on `kinds`, and others on their /scale."""

    def lines() -> Iterator[str]:
        for subresource, chosen in (("", verbs), ("/scale", on_scale)):
            for group, names in resources(kinds, subresource).items() if chosen else ():
                yield from rule(group, names, verbs=f"[{chosen}]")

    return lines


def looked_at(kinds: Sequence[WorkloadKind]) -> Iterator[str]:
    """Yield the rules of what an admission policy looks at."""
    scales = resources(kinds, "/scale")
    for group, names in resources(kinds).items():
        yield from rule(group, [*names, *scales.get(group, [])], apiVersions='["*"]', operations="[UPDATE]")


def exemptions(kinds: Sequence[WorkloadKind]) -> Iterator[str]:
    """Yield the operations that take them out of the policy of everything else."""
    for line in looked_at(kinds):
        if line.startswith("- "):
            yield from ("- op: add", "  path: /spec/matchConstraints/excludeResourceRules/-", "  value:")
        yield f"    {line[2:]}"


def scale_fields() -> Iterator[str]:
    """Yield the variable that says which field of a kind is its scale, as a regular expression."""
    fields = {kind.plural: ".".join(kind.replicas_path).replace(".", "[.]") for kind in _WORKLOADS}
    rows = [f"    '{plural}': '|{path}'" for plural, path in sorted((fields | OWN_VALUES).items())]
    yield from ("- name: fields", "  expression: >-", "    {", *",\n".join(rows).split("\n"), "    }")


def parts(kinds: Sequence[WorkloadKind]) -> Iterator[str]:
    """Yield the variable with the parts of objects in which something is written."""
    paths = [path for kind in kinds for path in (kind.replicas_path, kind.victims_path)]
    parents = {path[:depth] for path in paths for depth in range(1, len(path))}
    parents |= {(), ("metadata",), ("metadata", "labels"), ("metadata", "annotations")}
    yield from ("- name: parts", "  expression: >-", "    [")
    rows = []
    for parent in sorted(parents, key=lambda one: (len(one), one)):
        path = "".join(f"{key}." for key in parent)
        below = ".metadata" if len(parent) == 1 and parent[0] == "metadata" else "".join(f".?{key}" for key in parent)
        value = "{}" + below.replace(".?metadata", ".metadata") + (".orValue({{}})" if "?" in below else "")
        value = value.replace("{{}}", "\0").replace("{}", "%s").replace("\0", "{}")
        rows.append(f"    {{'path': dyn('{path}'), 'now': {value % 'object'},\n    'was': {value % 'oldObject'}}}")
    yield from ",\n".join(rows).split("\n")
    yield "    ]"


def fields_of(kind: WorkloadKind) -> str:
    """Return the fields that may be written of a kind, each with its parents, as parts of a regular expression."""
    found = list(_COUNTED_BY_SERVER.get(kind.kind, ()))
    for path in filter(None, (kind.replicas_path, kind.victims_path)):
        least = 2 if path[0] == "spec" else 3
        found += [".".join(path[:depth]).replace(".", "[.]") for depth in range(least, len(path) + 1)]
    return "".join(f"|{one}" for one in found)


def switch_paths() -> Iterator[str]:
    """Yield the variables that hold the parts of objects in which switches stand, and the paths of each kind."""
    yield from parts(_SWITCHES)
    yield from ("- name: switches", "  expression: >-", "    {")
    kinds = sorted(_SWITCHES, key=lambda kind: kind.plural)
    yield from ",\n".join(f"    '{kind.plural}.{kind.group}': '{fields_of(kind)}'" for kind in kinds).split("\n")
    yield "    }"


def allowed(kinds: Sequence[WorkloadKind]) -> Iterator[str]:
    """Yield the variable with what may be written of custom kinds, and of their Scales."""
    fields = "".join(map(fields_of, kinds))
    if any(kind.status_path and kind.replicas_path != ("spec", "replicas") for kind in kinds):
        fields += "|spec[.]replicas"  # of their Scales
    yield from ("- name: allowed", f"  expression: variables.marks + '{fields}'")


def increased(kinds: Sequence[WorkloadKind]) -> Iterator[str]:
    """Yield the variable that says whether one of custom kinds, or its Scale, gets more replicas."""
    values = ["".join(f".?{key}" for key in path) + ".orValue(0)" for path in _replicas_paths(kinds)]
    yield from ("- name: increased", "  expression: >-")
    yield "    " + " || ".join(f"object{value} > oldObject{value}" for value in values)


def _replicas_paths(kinds: Sequence[WorkloadKind]) -> list[tuple[str, ...]]:
    """Return where replicas stand in custom kinds, and in their Scales."""
    return sorted({kind.replicas_path for kind in kinds} | {("spec", "replicas") for kind in kinds if kind.status_path})


def table(name: str, kinds: Sequence[WorkloadKind], why: str) -> Section:
    """Return the rows of the roles `name`, which read `kinds` and write what `why` says."""

    def row(role: str, verbs: str, resources: Iterable[str], what: str) -> str:
        return f"| {role}-{name} | {verbs} | {', '.join(resources)} | {what} |"

    def lines() -> Iterator[str]:
        names = [f"{kind.plural}.{kind.group}" for kind in kinds]
        scales = [f"{kind.plural}.{kind.group}/scale" for kind in kinds if kind.status_path]
        yield from ("", "| role | verbs | resources | for |", "|---|---|---|---|")
        yield row("plan", "list", names, "the workloads")
        yield row("apply", "get, patch", names, why)
        if scales:
            yield row("apply", "patch", scales, "replicas alone")
        yield ""

    return lines


SECTIONS: Mapping[str, Mapping[str, Section]] = {
    "member/plan.yaml": {f"{_KINDS}: the workloads": role(_WORKLOADS, "list")},
    "member/apply.yaml": {f"{_KINDS}: the workloads": role(_WORKLOADS, "get, patch", on_scale="patch")},
    "one-namespace/rights.yaml": {f"{_KINDS}: the workloads": role(_WORKLOADS, "list")},
    "components/activator/rights.yaml": {f"{_KINDS}: the workloads": role(_WORKLOADS, "get, list, patch")},
    "member/admission/scaled.yaml": {
        f"{_KINDS}: the workloads": partial(looked_at, _WORKLOADS),
        f"{_KINDS}: where their scale stands": scale_fields,
    },
    "member/admission/others.yaml": {f"{_KINDS}: the workloads": partial(looked_at, _WORKLOADS)},
    "components/switches/rights.yaml": {
        f"{_KINDS}: the kinds": role(_SWITCHES, "list"),
        f"{_KINDS}: the kinds that runs write": role(_SWITCHES, "get, patch"),
    },
    "components/switches/admission.yaml": {
        f"{_KINDS}: the kinds": partial(looked_at, _SWITCHES),
        f"{_KINDS}: where their switches stand": switch_paths,
    },
    "components/switches/kustomization.yaml": {
        f"{_KINDS}: what another policy looks at": partial(exemptions, _SWITCHES)
    },
    "components/clone-sets/rights.yaml": {
        f"{_KINDS}: the kind": role(_CLONE_SETS, "list"),
        f"{_KINDS}: the kind that runs write": role(_CLONE_SETS, "get, patch", on_scale="patch"),
    },
    "components/clone-sets/admission.yaml": {
        f"{_KINDS}: the kind": partial(looked_at, _CLONE_SETS),
        f"{_KINDS}: what is written in": partial(parts, _CLONE_SETS),
        f"{_KINDS}: where its replicas and victims stand": partial(allowed, _CLONE_SETS),
        f"{_KINDS}: whether it gets more": partial(increased, _CLONE_SETS),
    },
    "../docs/reference/rights.md": {
        f"{_KINDS}: the rights on CloneSets": table(
            "clone-sets", _CLONE_SETS, "replicas together with the record of what they were"
        ),
        f"{_KINDS}: the rights on switches": table(
            "switches", _SWITCHES, "the switch together with the record of what it was"
        ),
    },
    "components/clone-sets/kustomization.yaml": {
        f"{_KINDS}: what another policy looks at": partial(exemptions, _CLONE_SETS)
    },
}


def written(text: str, sections: Mapping[str, Section]) -> str:
    """Return the text of a file with `sections`, by name, written anew.

    Raises:
        ValueError: the file has one of them not once.
    """
    for name, lines in sections.items():
        pattern = rf"^( *)(# |<!-- ){re.escape(BEGIN + name)}\.( -->|)\n.*?^ *\2{re.escape(END)}\3\n"

        def made(match: re.Match[str], name: str = name, lines: Section = lines) -> str:
            comments = (f"{match[2]}{text}{match[3]}" for text in (f"{BEGIN}{name}.", END))
            inner = (next(comments), *lines(), *comments)
            return "".join(f"{match[1]}{line}\n" for line in inner)

        text, count = re.subn(pattern, made, text, flags=re.MULTILINE | re.DOTALL)
        if count != 1:
            raise ValueError(f"{name} stands there {count} times, expected once")
    return text


def files() -> dict[Path, str]:
    """Return the files, each as it should be."""
    return {DEPLOY / name: written((DEPLOY / name).read_text(), sections) for name, sections in SECTIONS.items()}


if __name__ == "__main__":
    for written_anew in (files, chart.templates):  # the chart is made of the files
        for path, text in written_anew().items():
            path.write_text(text)
