"""`reconciler explain`: a field of a policy, or the number of an object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from reconciler.cli.object_names import EXPECTED, ObjectArgument, check_there, known_cluster, object_name
from reconciler.cli.options import argument, offering, option, output_option, policies_option, text_width, verb
from reconciler.cli.output import Formats, document, show
from reconciler.cli.run_options import READ_WORLD, RunOptions
from reconciler.errors import PolicyError, ReconcilerError, UsageError
from reconciler.model import ObjectRef, ObservedState, Workload
from reconciler.pipeline import plan_and_state
from reconciler.plan.model import Plan
from reconciler.policy.field_help import SCHEMA_KINDS, explain_field, fields, heading, kind_named
from reconciler.policy.load import read_fleet
from reconciler.policy.types import PolicySet
from reconciler.report.explanation import ClosestSelectors, ObjectExplanation, explanation_lines, explanation_values
from reconciler.report.text import wrapped

_WIDTH = 100
"""How wide descriptions are in a pipe."""


def _lines(plan: Plan, subjects: Sequence[ObjectExplanation]) -> Iterator[str]:
    return wrapped(explanation_lines(plan, subjects), text_width())


def _values(plan: Plan, subjects: Iterable[ObjectExplanation]) -> dict[str, Any]:
    return document("Explanation", {"objects": list(explanation_values(plan, subjects))})


FORMATS: Formats = {"text": _lines, "json": _values, "yaml": _values}


def _subjects(begun: str) -> Iterable[str]:
    """Return the kinds, and the fields of the one that `begun` names, for a shell."""
    kind, dot, _ = begun.partition(".")
    if not dot or kind not in SCHEMA_KINDS:
        return SCHEMA_KINDS
    return (f"{kind}.{field.path}" for field in fields(kind))


class _ExplainOptions(RunOptions):
    subject: str = argument("OBJECT|KIND[.FIELD]", shell_complete=offering(_subjects))
    recursive: bool = option("With KIND[.FIELD]: list every field below it.", default=False)
    output: str = output_option(*FORMATS)
    path: str = policies_option()


@verb("explain", _ExplainOptions, "context", *READ_WORLD, "tenant")
def explain_command(options: _ExplainOptions) -> None:
    """Explain a field of a policy (KIND or KIND.FIELD), or why an OBJECT has its replicas.

    OBJECT is CLUSTER/NAMESPACE/KIND/NAME, or the first parts of it; FederatedReplicaSet/NAMESPACE/NAME is one on all
    of its clusters. The explanation has its current and desired replicas, what each policy says and why, and what
    would change it. Where no policy selects it, it names the policy that comes closest. JSON and YAML, of an OBJECT
    only, have the reasons as codes and values.

    # Why does a Deployment have its replicas?
    explain eu-west/shop/Deployment/web
    # What can be said in an IdlingPolicy?
    explain IdlingPolicy --recursive
    """
    subject, output, recursive = options.subject, options.output, options.recursive
    if "/" not in subject and not _names_cluster(options, subject):
        try:
            kind_named(subject.partition(".")[0])
        except UsageError as error:
            raise UsageError(f"{error}; an OBJECT is {EXPECTED}") from None
        if output != "text":
            raise UsageError(
                f"-o {output}: is for an OBJECT only; `reconciler schema` prints the schema of a kind as JSON"
            )
        show(_recursive(subject)) if recursive else show(explain_field(subject))
        return
    if recursive:
        raise UsageError(f"--recursive: {subject} is an object, expected a KIND or KIND.field")
    plan, found = _explained(options, options.policies(partly=True), subject)
    show(FORMATS[output](plan, found), output)


def _names_cluster(options: RunOptions, subject: str) -> bool:
    """Return whether `subject` is a cluster of the Fleet. No policies are read for a kind, and of others the Fleet."""
    if subject.partition(".")[0].lower() in map(str.lower, SCHEMA_KINDS):
        return False
    if options.context is not None:
        return subject == options.context
    try:
        return read_fleet(options.path).cluster(subject) is not None
    except PolicyError:
        return False


def _recursive(subject: str) -> Iterator[str]:
    """Yield what a kind or a field is, and every field below it as a tree."""
    from textwrap import wrap

    found = fields(subject)
    yield from heading(subject)
    yield from (("", "FIELDS:") if found else ())
    width = text_width() or _WIDTH
    for field in found:
        depth = field.path.count(".")
        marks = [f"<{field.type}>", *(["-required-"] if field.required else [])]
        marks += [f"default {field.default}"] * (field.default is not None)
        yield f"{'  ' * (depth + 1)}{field.path.rpartition('.')[2]} {' '.join(marks)}"
        values = f" One of {', '.join(field.values)}." if field.values else ""
        indent = "  " * (depth + 3)
        yield from wrap(field.description + values, width, initial_indent=indent, subsequent_indent=indent)


def _explained(options: RunOptions, policies: PolicySet, subject: str) -> tuple[Plan, list[ObjectExplanation]]:
    """Return the plan, and the objects that `subject` names, at least one."""
    name, federated = object_name(subject), _federated(policies, subject.strip("/"))
    if not federated:
        _check_named(policies, name, subject)
    state, plan = plan_and_state(policies, options.world(policies.fleet), options.request(whole=True))
    found = list(_placed(plan, state, federated)) or list(_named(plan, state, policies, name))
    if not found:
        _refuse(plan, state, name, subject)
    return plan, found


def _check_named(policies: PolicySet, name: ObjectArgument, subject: str) -> None:
    """Refuse what is on no cluster of the Fleet, or in no namespace of the one tenant that is looked at."""
    known_cluster(policies.fleet, name, subject)
    tenant = policies.only
    if tenant is not None and name.namespace and not tenant.has_namespace(name.namespace):
        words = f"no namespace of tenant {tenant.name}, expected one of {', '.join(tenant.namespaces)}"
        raise UsageError(f"{subject}: {name.namespace} is {words}")


def _placed(plan: Plan, state: ObservedState, federated: str) -> Iterator[ObjectExplanation]:
    """Yield the local objects of the FederatedReplicaSet of that name on all of its clusters; none where it is ""."""
    workloads = {one.ref: one for cluster in state.clusters.values() for one in cluster.workloads} if federated else {}
    for one in plan.explanations:
        if federated and (one.job, one.policy) == ("placement", federated):
            yield ObjectExplanation(one.ref, workloads.get(one.ref))


def _refuse(plan: Plan, state: ObservedState, name: ObjectArgument, subject: str) -> NoReturn:
    """Refuse what no policy considers.

    Raises:
        ReconcilerError: it could not be looked for. UsageError: it is not there, or no selector reaches it.
    """
    if name.cluster in plan.unknown:
        words = f"cluster {name.cluster} cannot be read: {plan.unknown[name.cluster]}"
        raise ReconcilerError(f"{subject}: {words}; --snapshot DIR reads a folder instead")
    unknown = [why for what, why in plan.unread.items() if what.startswith(f"{name.cluster}/")]
    if unknown:
        raise ReconcilerError(f"{subject}: no policy considers it as far as can be seen: {'; '.join(unknown)}")
    check_there(state, name, subject)
    raise UsageError(f"{subject}: no policy considers it, expected an object that some selector reaches")


def _federated(policies: PolicySet, subject: str) -> str:
    """Return "namespace/name" of the FederatedReplicaSet that `subject` names as a whole, "" where it names none."""
    kind, _, rest = subject.partition("/")
    key = rest if kind.lower() == "federatedreplicaset" else "" if policies.fleet.cluster(kind) else subject
    return key if any(policy.key == key for policy in policies.federated) else ""


def _named(plan: Plan, state: ObservedState, policies: PolicySet, name: ObjectArgument) -> Iterator[ObjectExplanation]:
    """Yield what `name` names: what some policy considers, Services first; else the workloads that none selects."""
    cluster = state.clusters.get(name.cluster)
    workloads = {} if cluster is None else {one.ref: one for one in cluster.workloads}
    scaling = {(hpa.ref.namespace, *hpa.target): hpa.ref for hpa in cluster.autoscalers} if cluster else {}
    refs: dict[ObjectRef, Workload | None] = {}
    for explanation in plan.explanations:
        ref, behind = explanation.ref, explanation.services if name.kind == "service" else ()
        hpa = scaling.get((ref.namespace, ref.kind, ref.name)) if ref.cluster == name.cluster else None
        if any(one is not None and name.matches(one) for one in (ref, explanation.written, hpa, *behind)):
            refs |= {service: None for service in behind if name.matches(service)}
            refs[ref] = workloads.get(ref)
    services_first = name.kind == "service"
    for ref in sorted(refs, key=lambda ref: (services_first and not ref.is_service, ref)):
        yield ObjectExplanation(ref, refs[ref])
    if not refs and cluster is not None:
        selectors = ClosestSelectors(policies, cluster)
        for ref, workload in sorted(workloads.items()):
            if name.matches(ref):
                yield ObjectExplanation(ref, workload, selectors.closest_to(workload))
