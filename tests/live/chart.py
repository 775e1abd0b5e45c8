"""The templates of deploy/chart, made of the manifests and kustomizations of deploy/; `write_deploy` writes them.

A file of deploy/ becomes one template within a condition. What a component patches in objects of other files becomes a
condition within their template. Then the texts in `VALUES` become values. What only the chart has (helpers, the
ConfigMap of the policies, values.yaml and its schema) is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from tests.live.deployed import DEPLOY

CHART = DEPLOY / "chart"
COMPONENTS: Mapping[str, str] = {
    "placement": "placement",
    "clone-sets": "cloneSets",
    "switches": "switches",
    "activator": "activator",
    "tenants": "tenants",
    "freeze": "freeze",
    "picker": "picker",
    "picker-secrets": "pickerSecrets",
    "network": "network",
    "monitoring": "monitoring",
    "kubeconfig": "kubeconfig",
    "own-token": "ownToken",
    "rotation": "rotation",
    "notify": "notify",
    "sharded": "sharded",
}
"""The folders of components, and what each is called in the values; their patches apply in this order."""

_ADMISSION, _ROLES = ".Values.admission.enabled", ".Values.roles.create"
_OF_RUNS = frozenset(
    f"components/{name}"
    for name in ("placement/rights.yaml", "clone-sets/rights.yaml", "switches/rights.yaml", "activator/run-rights.yaml")
)
"""The roles that `reconciler rbac` prints, besides those of member/."""

_MEMBER: Mapping[str, str] = {
    "member/namespace.yaml": ".Values.namespace.create",
    "member/service-accounts.yaml": "",
    "member/plan.yaml": _ROLES,
    "member/apply.yaml": _ROLES,
    "member/admission/scaled.yaml": _ADMISSION,
    "member/admission/own.yaml": _ADMISSION,
    "member/admission/others.yaml": _ADMISSION,
    "base/cronjob.yaml": ".Values.cronJob.enabled",
}
_TEAMS, _SECRETS = ".Values.components.tenants.teams", ".Values.components.pickerSecrets.secrets"
_LISTED = {"tenants": _TEAMS, "picker-secrets": _SECRETS}
"""Components that are of something: without any there is no rule, as one without names would be for all."""

_LOOPS: Mapping[str, tuple[str, ...]] = {
    "components/tenants/team-a.yaml": (
        f"range $team := {_TEAMS}",
        f"range $team := {_TEAMS} }}}}{{{{- range $namespace := $team.namespaces",
    ),
    "components/picker-secrets/rights.yaml": (f"range $namespace, $names := {_SECRETS}",) * 2,
}
"""By file, what its documents are repeated for."""

_PROTECTED = "'kube-node-lease', 'reconciler'"
_MORE_PROTECTED = "{{ range .Values.admission.protectedNamespaces }}, '{{ . }}'{{ end }}"
_ACCOUNT = "  name: reconciler\n  namespace: reconciler\n"
_IDENTITY = """\
  name: reconciler
  namespace: reconciler
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
"""
_POD = """\
{indent}securityContext:
{indent}  runAsNonRoot: true
"""
_PLACED = """\
{{{{- with .Values.image.pullSecrets }}}}
{indent}imagePullSecrets:
{indent}  {{{{- toYaml . | nindent {deeper} }}}}
{{{{- end }}}}
{{{{- with .Values.{of}.nodeSelector }}}}
{indent}nodeSelector:
{indent}  {{{{- toYaml . | nindent {deeper} }}}}
{{{{- end }}}}
{{{{- with .Values.{of}.tolerations }}}}
{indent}tolerations:
{indent}  {{{{- toYaml . | nindent {deeper} }}}}
{{{{- end }}}}
"""
_IMAGE = """\
image: {{{{ include "reconciler.image" . | quote }}}}
{indent}{{{{- with .Values.image.pullPolicy }}}}
{indent}imagePullPolicy: {{{{ . }}}}
{indent}{{{{- end }}}}"""
_NO_IMAGE = "image: reconciler # of no registry: build it with ../Dockerfile and name it in your kustomization"
_SHARDS = "{{ .Values.components.sharded.shards }}"
_RUNS, _SERVES, _PICKS = "cronJob", "components.activator", "components.picker"
_KUBECONFIG_NAME = "{{ .Values.components.kubeconfig.secretName }}"
_KUBECONFIG = "{{ .Values.components.kubeconfig.secretName | quote }}"

VALUES: Mapping[str, Mapping[str, str]] = {
    "member/namespace.yaml": {
        "  name: reconciler\n": "  name: reconciler\n  annotations:\n    helm.sh/resource-policy: keep\n"
    },
    "member/service-accounts.yaml": {_ACCOUNT: _IDENTITY},
    "member/admission/scaled.yaml": {_PROTECTED: _PROTECTED + _MORE_PROTECTED},
    "member/admission/own.yaml": {_PROTECTED: _PROTECTED + _MORE_PROTECTED},
    "components/placement/admission.yaml": {_PROTECTED: _PROTECTED + _MORE_PROTECTED},
    "components/clone-sets/admission.yaml": {_PROTECTED: _PROTECTED + _MORE_PROTECTED},
    "components/switches/admission.yaml": {_PROTECTED: _PROTECTED + _MORE_PROTECTED},
    "base/cronjob.yaml": {
        '"*/10 * * * *"': "{{ .Values.cronJob.schedule | quote }}",
        _POD.format(indent=" " * 10): _PLACED.format(indent=" " * 10, deeper=12, of=_RUNS)
        + _POD.format(indent=" " * 10),
        _NO_IMAGE: _IMAGE.format(indent=" " * 14),
        "--timeout=540]": "--timeout=540{{ range .Values.cronJob.extraArgs }}, {{ . | quote }}{{ end }}]",
        "                requests: { cpu: 100m, memory: 256Mi }\n                limits: { memory: 1Gi }\n": (
            "                {{- toYaml .Values.cronJob.resources | nindent 16 }}\n"
        ),
        "name: reconciler-policies": "name: {{ .Values.policies.configMap | quote }}",
        "secretName: reconciler-kubeconfig": f"secretName: {_KUBECONFIG}",
        "completions: 8": f"completions: {_SHARDS}",
        "parallelism: 8": f"parallelism: {_SHARDS}",
        "value: $(JOB_COMPLETION_INDEX)/8": f"value: $(JOB_COMPLETION_INDEX)/{_SHARDS}",
        "value: http://pushgateway.monitoring:9091": ("value: {{ .Values.components.monitoring.pushGateway | quote }}"),
    },
    "components/activator/deployment.yaml": {
        "  replicas: 2\n": "  replicas: {{ .Values.components.activator.replicas }}\n",
        _POD.format(indent=" " * 6): _PLACED.format(indent=" " * 6, deeper=8, of=_SERVES) + _POD.format(indent=" " * 6),
        "image: reconciler # the same as the CronJob's": _IMAGE.format(indent=" " * 10),
        "            requests: { cpu: 100m, memory: 128Mi }\n            limits: { memory: 1Gi }\n": (
            "            {{- toYaml .Values.components.activator.resources | nindent 12 }}\n"
        ),
    },
    "components/picker/deployment.yaml": {
        "  replicas: 2\n": "  replicas: {{ .Values.components.picker.replicas }}\n",
        "--grace=20]": '--grace=20{{ with .Values.components.picker.cluster }}, "--cluster={{ . }}"{{ end }}]',
        _POD.format(indent=" " * 6): _PLACED.format(indent=" " * 6, deeper=8, of=_PICKS) + _POD.format(indent=" " * 6),
        "image: reconciler # the same as the CronJob's": _IMAGE.format(indent=" " * 10),
        "            requests: { cpu: 50m, memory: 128Mi }\n            limits: { memory: 512Mi }\n": (
            "            {{- toYaml .Values.components.picker.resources | nindent 12 }}\n"
        ),
        "name: reconciler-policies": "name: {{ .Values.policies.configMap | quote }}",
    },
    "components/rotation/rights.yaml": {"[reconciler-kubeconfig]": f"[{_KUBECONFIG}]"},
    "components/rotation/cronjob.yaml": {
        '"23 */6 * * *"': "{{ .Values.components.rotation.schedule | quote }}",
        _POD.format(indent=" " * 10): _PLACED.format(indent=" " * 10, deeper=12, of=_RUNS)
        + _POD.format(indent=" " * 10),
        "image: reconciler # the same as that of runs": _IMAGE.format(indent=" " * 14),
        "--secret=reconciler-kubeconfig": f'"--secret={_KUBECONFIG_NAME}"',
        "secretName: reconciler-kubeconfig": f"secretName: {_KUBECONFIG}",
    },
    "components/freeze/rights.yaml": {"reconciler-operators": "{{ .Values.components.freeze.group | quote }}"},
    "components/tenants/impersonate.yaml": {
        "[reconciler-team-a]": f"[{{{{ range {_TEAMS} }}}}reconciler-{{{{ .name }}}}, {{{{ end }}}}]"
    },
    "components/tenants/team-a.yaml": {
        "reconciler-team-a": "reconciler-{{ $team.name }}",
        "team-a-web": "{{ $namespace }}",
    },
    "components/picker-secrets/rights.yaml": {
        "namespace: batch": "namespace: {{ $namespace }}",
        "[picker]": "{{ toJson $names }}",
    },
}
"""By file, texts of it and what stands in their place in its template."""

_HEAD = "{{- /* Made of deploy/%s by `python -m tests.live.write_deploy`: change that. */ -}}\n"
_LABELS = (
    ("app.kubernetes.io/name", "reconciler"),
    ("app.kubernetes.io/managed-by", "{{ $.Release.Service }}"),
)


class Patch(Struct, frozen=True):
    """One operation of a component on an object of another file."""

    component: str
    kind: str
    name: str
    operation: str
    path: str
    value: Any

    @property
    def condition(self) -> str:
        return f".Values.components.{COMPONENTS[self.component]}.enabled"


class Edit(Struct, frozen=True):
    """Lines for the place of those from `begin` to before `end`, counted from 0."""

    begin: int
    end: int
    lines: tuple[str, ...]


def templates() -> dict[Path, str]:
    """Return the templates that are made of other files, each as it should be."""
    patches = list(every_patch())
    found = {name: template(name, condition, patches) for name, condition in sources().items()}
    return {CHART / "templates" / file_name(name): text for name, text in found.items()}


def file_name(source: str) -> str:
    """Return the name of the template of a file of deploy/: "activator-rights.yaml"."""
    return source.removeprefix("member/").removeprefix("base/").removeprefix("components/").replace("/", "-")


def sources() -> dict[str, str]:
    """Return the files that become templates, by their paths in deploy/, with the condition of each."""
    found = dict(_MEMBER)
    for folder, value in COMPONENTS.items():
        conditions = [f".Values.components.{value}.enabled"]
        conditions += [_LISTED[folder]] if folder in _LISTED else []
        for file in _kustomization(folder).get("resources", ()):
            source = f"components/{folder}/{file}"
            more = [_ADMISSION] if file == "admission.yaml" else [_ROLES] if source in _OF_RUNS else []
            every = [*conditions, *more]
            found[source] = " ".join(["and", *every] if len(every) > 1 else every)
    return found


def every_patch() -> Iterator[Patch]:
    """Yield what components patch, but for tests of what is there."""
    for folder in COMPONENTS:
        for patch in _kustomization(folder).get("patches", ()):
            for one in yaml.safe_load(patch["patch"]):
                if one["op"] != "test":
                    target = patch["target"]
                    yield Patch(folder, target["kind"], target["name"], one["op"], one["path"], one["value"])


def _kustomization(folder: str) -> Any:
    return yaml.safe_load((DEPLOY / "components" / folder / "kustomization.yaml").read_text())


def template(source: str, condition: str, patches: list[Patch]) -> str:
    """Return the template that the file `source` becomes.

    Raises:
        ValueError: a text that becomes a value is not there.
    """
    parts = re.split(r"^---\n", (DEPLOY / source).read_text(), flags=re.MULTILINE)
    loops = _LOOPS.get(source, ("",) * len(parts))
    documents = [_document(text, patches, loop) for text, loop in zip(parts, loops, strict=True)]
    text = "".join(documents)
    for written, value in VALUES.get(source, {}).items():
        if written not in text:
            raise ValueError(f"deploy/{source}: has no {written!r}, expected it as VALUES of {Path(__file__).name} say")
        text = text.replace(written, value)
    body = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text
    return _HEAD % source + body


def _document(text: str, patches: list[Patch], loop: str) -> str:
    """Return one document with its labels and patches, repeated where `loop` says."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    manifest = yaml.safe_load(text)
    own = [one for one in patches if (one.kind, one.name) == (manifest["kind"], manifest["metadata"]["name"])]
    lines = text.replace("{{", '{{ "{{" }}').splitlines()
    edits = [_labels(root, manifest, lines), *(_patched(root, one, lines) for one in own)]
    moved = 0
    for edit in sorted(edits, key=lambda one: one.begin):
        lines[edit.begin + moved : edit.end + moved] = edit.lines
        moved += len(edit.lines) - (edit.end - edit.begin)
    body = "\n".join(["---", *lines]) + "\n"
    ends = "{{- end }}" * loop.count("range")
    return f"{{{{- {loop} }}}}\n{body}{ends}\n" if loop else body


def _labels(root: Any, manifest: Any, lines: list[str]) -> Edit:
    metadata = _at(root, "/metadata")[1]
    labels = manifest["metadata"].get("labels", {})
    end = _end(_at(root, "/metadata/labels")[1] if labels else metadata, lines)
    shown = [f"    {key}: {value}" for key, value in _LABELS if key not in labels]
    shown.append('    {{- include "reconciler.labels" $ | nindent 4 }}')
    return Edit(end, end, tuple(shown if labels else ["  labels:", *shown]))


def _patched(root: Any, patch: Patch, lines: list[str]) -> Edit:
    """Return the edit that makes a patch of a component one of the template, in its condition."""
    parent, _, name = patch.path.rpartition("/")
    if patch.operation == "replace":
        key, value = _at(root, patch.path)
        begin, end, indent = key.start_mark.line, _end(value, lines), key.start_mark.column
        shown = _shown({name: patch.value}, indent)
        return Edit(begin, end, (*_condition(patch), *shown, "{{- else }}", *lines[begin:end], "{{- end }}"))
    node = _at(root, parent)[1]
    end, first = _end(node, lines), node.value[0]
    column = node.start_mark.column if name == "-" else first[0].start_mark.column
    shown = _shown([patch.value] if name == "-" else {name: patch.value}, column)
    return Edit(end, end, (*_condition(patch), *shown, "{{- end }}"))


def _condition(patch: Patch) -> tuple[str]:
    return (f"{{{{- if {patch.condition} }}}}",)


def _shown(value: Any, indent: int) -> list[str]:
    text = yaml.safe_dump(value, sort_keys=False, width=100)
    return [" " * indent + line for line in text.splitlines()]


def _at(node: Any, path: str) -> tuple[Any, Any]:
    """Return the nodes of key and value at a JSON pointer; the key of an item is the item."""
    key = node
    for step in path.split("/")[1:]:
        if isinstance(node, yaml.SequenceNode):
            key = node = node.value[int(step)]
        else:
            key, node = next(pair for pair in node.value if pair[0].value == step)
    return key, node


def _end(node: Any, lines: list[str]) -> int:
    """Return the line after the last of a node; comments after it are not its own."""
    end = node.end_mark.line + (1 if node.end_mark.column else 0)
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        end = node.end_mark.line if node.end_mark.line < len(lines) else len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end
