"""Filters drop actions from a finished plan, always whole groups; they never narrow what is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from reconciler.decide.decisions import Decision, Verb
from reconciler.decide.limit_amounts import spellings_of
from reconciler.errors import UsageError
from reconciler.labels import LabelSelector
from reconciler.messages import nearest
from reconciler.model import ObjectRef, ObservedState


class Filters(Struct, frozen=True):
    """Empty parts do not filter. `policies`, `clusters`, `namespaces` are globs, one of them must match.

    A FederatedReplicaSet matches with its namespace, "shop/web", and without.
    """

    policies: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    labels: LabelSelector = LabelSelector()

    @property
    def empty(self) -> bool:
        return self == Filters()

    def keep_policy(self, policy: str) -> bool:
        """Return whether what `policy` does stays, as far as policies are filtered."""
        return any(matches_any(self.policies, spelling) for spelling in spellings_of(policy))

    def keep(self, policy: str, ref: ObjectRef, labels: Mapping[str, str] | None = None) -> bool:
        """Return whether what `policy` does with `ref` stays; without `labels` whatever they are."""
        return (
            self.keep_policy(policy)
            and matches_any(self.clusters, ref.cluster)
            and matches_any(self.namespaces, ref.namespace)
            and (labels is None or self.labels.matches(labels))
        )


NO_FILTERS = Filters()


def kept_groups(
    decisions: Sequence[Decision], filters: Filters, labels: Mapping[ObjectRef, Mapping[str, str]]
) -> frozenset[str]:
    """Return the groups that stay: those of which every action matches.

    What only keeps our own memory (`remember`) does not decide, as long as there is anything else in its group. Labels
    are those of the scalables in it: a Service need not carry them too.
    """
    members: dict[str, list[Decision]] = {}
    for decision in decisions:
        members.setdefault(decision.group, []).append(decision)
    return frozenset(group for group, inside in members.items() if _matches_whole(inside, filters, labels))


def check_namespaces(filters: Filters, state: ObservedState) -> None:
    """Refuse a namespace filter that matches nothing that was read; a typo must not pass for "nothing to do".

    Where the namespaces of a cluster could not be read, any name may be one.

    Raises:
        UsageError: with the nearest name.
    """
    if any("namespaces" in cluster.unreadable for cluster in state.clusters.values()):
        return
    known = {space.ref.name for cluster in state.clusters.values() for space in cluster.namespaces}
    for pattern in filters.namespaces:
        if state.clusters and not any(fnmatchcase(name, pattern) for name in known):
            words = f'--namespace: "{pattern}" matches none of {len(known)} known'
            raise UsageError(words + nearest(pattern, known))


def _matches_whole(inside: Sequence[Decision], filters: Filters, labels: Mapping[ObjectRef, Mapping[str, str]]) -> bool:
    shown = [decision for decision in inside if decision.verb is not Verb.REMEMBER] or inside
    scaled = [decision for decision in shown if decision.replicas_after is not None] or shown
    return all(filters.keep(decision.policy, decision.ref) for decision in shown) and all(
        filters.labels.matches(_labels_of(decision, labels)) for decision in scaled
    )


def _labels_of(decision: Decision, labels: Mapping[ObjectRef, Mapping[str, str]]) -> Mapping[str, str]:
    """Return the labels of a decision's object; what is only to be made has those of its manifest."""
    made = (decision.manifest or {}).get("metadata", {}).get("labels", {})
    return labels.get(decision.ref, made)


def matches_any(patterns: Sequence[str], text: str) -> bool:
    """Return whether `text` matches one of `patterns`; none at all filter nothing."""
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)
