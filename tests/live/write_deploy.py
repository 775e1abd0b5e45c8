"""Writes into deploy/ what follows from the table of kinds, and the chart: `python -m tests.live.write_deploy`.

A section begins with a comment that names it and ends with another one; all between them is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from reconciler.workload_kinds import SCALABLE_KINDS, SWITCHES
from tests.live import chart
from tests.live.deployed import DEPLOY

BEGIN, END = "# From reconciler/", "# To here."
OWN_VALUES = {"horizontalpodautoscalers": "spec[.](minReplicas|maxReplicas|behavior)"}
"""What admission lets us write on kinds that are scaled and are no workloads."""

_KINDS = "workload_kinds.py"
_COUNTED_BY_SERVER = {"DaemonSet": ("metadata[.]annotations[.]deprecated[.]daemonset[.]template[.]generation",)}
"""What the API server itself changes with a switch."""

Section = Callable[[], Iterator[str]]


def resources(subresource: str = "") -> dict[str, list[str]]:
    """Return the resources of all kinds by API group; with "/scale" only of those that have it."""
    found: dict[str, list[str]] = {}
    for kind in SCALABLE_KINDS.values():
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


def role(verbs: str, on_scale: str = "") -> Section:
    """Return the rules of a role that has `verbs` on all kinds, and others on their /scale."""

    def lines() -> Iterator[str]:
        for subresource, chosen in (("", verbs), ("/scale", on_scale)):
            for group, names in resources(subresource).items() if chosen else ():
                yield from rule(group, names, verbs=f"[{chosen}]")

    return lines


def looked_at() -> Iterator[str]:
    """Yield the rules of what an admission policy looks at."""
    scales = resources("/scale")
    for group, names in resources().items():
        yield from rule(group, [*names, *scales.get(group, [])], apiVersions='["*"]', operations="[UPDATE]")


def scale_fields() -> Iterator[str]:
    """Yield the variable that says which field of a kind is its scale, as a regular expression."""
    fields = {kind.plural: ".".join(kind.replicas_path).replace(".", "[.]") for kind in SCALABLE_KINDS.values()}
    rows = [f"    '{plural}': '|{path}'" for plural, path in sorted((fields | OWN_VALUES).items())]
    yield from ("- name: fields", "  expression: >-", "    {", *",\n".join(rows).split("\n"), "    }")


def switches() -> dict[str, list[str]]:
    """Return the resources of all switches that are known, by API group."""
    found: dict[str, list[str]] = {}
    for group, kind in SWITCHES:
        found.setdefault(group, []).append(SWITCHES[group, kind].plural)
    return {group: sorted(found[group]) for group in sorted(found)}


def role_of_switches(verbs: str) -> Section:
    """Return the rules of a role that has `verbs` on everything with a switch."""
    return lambda: (line for group, names in switches().items() for line in rule(group, names, verbs=f"[{verbs}]"))


def switches_looked_at() -> Iterator[str]:
    """Yield the rules of what the admission policy of switches looks at."""
    for group, names in switches().items():
        yield from rule(group, names, apiVersions='["*"]', operations="[UPDATE]")


def exemptions() -> Iterator[str]:
    """Yield the operations that take them out of the policy of everything else."""
    for group, names in switches().items():
        yield from ("- op: add", "  path: /spec/matchConstraints/excludeResourceRules/-", "  value:")
        (first, *others) = rule(group, names, apiVersions='["*"]', operations="[UPDATE]")
        yield from (f"    {line[2:]}" for line in (first, *others))


def switch_paths() -> Iterator[str]:
    """Yield the variables that hold the parts of objects in which switches stand, and the paths of each kind."""
    parents = {kind.replicas_path[:depth] for kind in SWITCHES.values() for depth in range(1, len(kind.replicas_path))}
    parents |= {(), ("metadata",), ("metadata", "labels")}
    yield from ("- name: parts", "  expression: >-", "    [")
    rows = []
    for parent in sorted(parents, key=lambda one: (len(one), one)):
        path = "".join(f"{key}." for key in parent)
        below = ".metadata" if len(parent) == 1 and parent[0] == "metadata" else "".join(f".?{key}" for key in parent)
        value = "{}" + below.replace(".?metadata", ".metadata") + (".orValue({{}})" if "?" in below else "")
        value = value.replace("{{}}", "\0").replace("{}", "%s").replace("\0", "{}")
        rows.append(f"    {{'path': dyn('{path}'), 'now': {value % 'object'},\n    'was': {value % 'oldObject'}}}")
    yield from ",\n".join(rows).split("\n")
    yield from ("    ]", "- name: switches", "  expression: >-", "    {")
    allowed = []
    for (group, _), kind in sorted(SWITCHES.items(), key=lambda one: one[1].plural):
        path = kind.replicas_path
        least = 2 if path[0] == "spec" else 3
        counted = _COUNTED_BY_SERVER.get(kind.kind, ())
        paths = (*counted, *(".".join(path[:depth]).replace(".", "[.]") for depth in range(least, len(path) + 1)))
        allowed.append(f"    '{kind.plural}.{group}': '{''.join(f'|{one}' for one in paths)}'")
    yield from ",\n".join(allowed).split("\n")
    yield "    }"


SECTIONS: Mapping[str, Mapping[str, Section]] = {
    "member/plan.yaml": {f"{_KINDS}: the workloads": role("list")},
    "member/apply.yaml": {f"{_KINDS}: the workloads": role("get, patch", on_scale="patch")},
    "one-namespace/rights.yaml": {f"{_KINDS}: the workloads": role("list")},
    "components/activator/rights.yaml": {f"{_KINDS}: the workloads": role("get, list, patch")},
    "member/admission/scaled.yaml": {
        f"{_KINDS}: the workloads": looked_at,
        f"{_KINDS}: where their scale stands": scale_fields,
    },
    "member/admission/others.yaml": {f"{_KINDS}: the workloads": looked_at},
    "components/switches/rights.yaml": {
        "workload_kinds.py: the kinds": role_of_switches("list"),
        "workload_kinds.py: the kinds that runs write": role_of_switches("get, patch"),
    },
    "components/switches/admission.yaml": {
        "workload_kinds.py: the kinds": switches_looked_at,
        "workload_kinds.py: where their switches stand": switch_paths,
    },
    "components/switches/kustomization.yaml": {"workload_kinds.py: what another policy looks at": exemptions},
}


def written(text: str, sections: Mapping[str, Section]) -> str:
    """Return the text of a file with `sections`, by name, written anew.

    Raises:
        ValueError: the file has one of them not once.
    """
    for name, lines in sections.items():
        pattern = rf"^( *){re.escape(BEGIN + name)}\.\n.*?^ *{re.escape(END)}\n"

        def made(match: re.Match[str], name: str = name, lines: Section = lines) -> str:
            inner = (f"{BEGIN}{name}.", *lines(), END)
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
