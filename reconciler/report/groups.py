"""The changes of a plan in the order people read them, by policy, cluster and namespace, and the blocks beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import parse_time
from reconciler.decide.change_codes import ChangeIfCode
from reconciler.decide.decisions import KIND_OF_JOB, Decision, Notice, Overridden, PlacementView, policy_title
from reconciler.decide.reasons import MEASURED, ReasonCode, Reasons, phrase_parts
from reconciler.messages import counted
from reconciler.model import ObjectRef, by_key
from reconciler.plan.effects import Effect, effect_of
from reconciler.plan.model import Action, Plan
from reconciler.plan.order import numbered_actions
from reconciler.report.change_words import (
    counted_changes,
    field_of,
    is_metadata,
    metadata_words,
    name_of,
    names_with_group,
    sign_of,
    verb_of,
    victims_of,
)
from reconciler.report.times import ReasonWords, reasons_in, time_and_zone
from reconciler.untrusted_text import one_line

_WORST_FIRST = tuple(Effect)
_SEVERAL = 5


class Line(Struct, frozen=True):
    """One object that changes: `field` is what of it, `change` "3 -> 0". `reason` is what is particular to it.

    Of a metadata update, `reason` alone says what it records.
    """

    action: Action
    sign: str
    name: str
    field: str
    change: str
    verb: str
    reason: str
    victims: str

    @property
    def decision(self) -> Decision:
        return self.action.decision


class PolicyGroup(Struct, frozen=True):
    """What one policy does. `kind` "" is no policy; `place` its file:line, "" where that is not known.

    `reason` is what holds for all of it. `updates` are the metadata updates; their `reason` says what they record.
    """

    kind: str
    name: str
    place: str
    reason: str
    lines: tuple[Line, ...]
    updates: tuple[Line, ...] = ()

    @property
    def title(self) -> str:
        """Return kind, name and place."""
        return f"{self.kind} {self.name}".strip() + (f" ({self.place})" if self.place else "")

    @property
    def heading(self) -> str:
        """Return what stands above the lines."""
        return f"{self.title}: {self.reason}" if self.reason else self.title

    @property
    def summary(self) -> str:
        """Return what stands in place of the lines: how many objects get which change, "40 idle, 2 wake", and why."""
        counts = Counter(line.verb for line in (*self.lines, *self.updates))
        words = [f"{number} {verb}" for verb, number in counts.items() if verb]
        words += [updates_of(counts[""])] * bool(counts[""])
        return f"{self.title}: {', '.join(words)}" + (f"; {self.reason}" if self.reason else "")


def updates_of(number: int) -> str:
    return counted(number, "metadata update")


def made_at(plan: Plan) -> str:
    """Return when `plan` was made, and in which zone the times of its output are."""
    return time_and_zone(plan.made_at, reasons_in(plan).zone)


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> Iterator[str]:
    """Yield `rows` in columns below `head`; `numbers`: all but the first stand to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for first, *rest in (head, *rows):
        pairs = zip(rest, widths[1:], strict=True)
        cells = (cell.rjust(width) if numbers else cell.ljust(width) for cell, width in pairs)
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def placement_rows(view: PlacementView, plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield the head and the rows of the table of a federated ReplicaSet, its clusters below each other."""
    words = reasons_in(plan)
    yield "cluster", "current", "desired", "spec.replicas", "available", "capacity", "reason"
    for row in view.rows:
        numbers = (row.current, row.desired, row.spec_replicas, row.running, row.capacity)
        known = ("-" if number is None else str(number) for number in numbers)
        yield one_line(row.cluster), *known, words.reason(row.reasons)


def grouped(
    plan: Plan, actions: Sequence[Action], urgent: Callable[[Action], bool] = lambda _: False
) -> tuple[PolicyGroup, ...]:
    """Return `actions` of `plan` by policy: what has anything `urgent` first, then what takes most away; inside a group
    what is urgent, then by cluster and namespace. A metadata update that is urgent is a line like the others.
    """
    members = by_key((_owner(action.decision, plan), action) for action in actions)
    views = {(KIND_OF_JOB["placement"], one_line(view.key)): view for view in plan.placements}
    owners = list(members)
    if len(owners) > 1:
        owners.sort(key=lambda owner: (_sort_key(members[owner], urgent), owner))
    ordered = {owner: sorted(members[owner], key=lambda one: _position(one, urgent)) for owner in owners}
    words = reasons_in(plan)
    groups = tuple(_group(owner, ordered[owner], views.get(owner), words, urgent) for owner in owners)
    names = names_with_group(action.ref for action in (*plan.actions, *actions))
    return tuple(_renamed(group, names) for group in groups) if names else groups


def _renamed(group: PolicyGroup, names: Mapping[ObjectRef, str]) -> PolicyGroup:
    lines, updates = (
        tuple([replace(line, name=names.get(line.decision.ref, line.name)) for line in some])
        for some in (group.lines, group.updates)
    )
    return replace(group, lines=lines, updates=updates)


def _owner(decision: Decision, plan: Plan) -> tuple[str, str]:
    if decision.cause.policy:
        return KIND_OF_JOB[decision.job], one_line(decision.policy)
    return ("Fleet", one_line(plan.fleet)) if decision.job == "placement" else ("No policy", "")


def _sort_key(actions: Sequence[Action], urgent: Callable[[Action], bool]) -> tuple[bool, int, int]:
    worst = min(_rank(action) for action in actions)
    return (not any(map(urgent, actions)), worst, -sum(action.decision.removed for action in actions))


def _rank(action: Action) -> int:
    return _WORST_FIRST.index(effect_of(action.decision))


def _position(action: Action, urgent: Callable[[Action], bool]) -> tuple[object, ...]:
    decision = action.decision
    ref = decision.ref
    return (not urgent(action), ref.cluster, ref.namespace, _rank(action), -decision.removed, str(ref), action.id)


def _group(
    owner: tuple[str, str],
    actions: Sequence[Action],
    view: PlacementView | None,
    words: ReasonWords,
    urgent: Callable[[Action], bool],
) -> PolicyGroup:
    metadata = {action.id for action in actions if is_metadata(action.decision)}
    shown = [action for action in actions if action.id not in metadata or urgent(action)]
    updates = [action for action in actions if action.id in metadata and not urgent(action)]
    effects = {effect_of(action.decision) for action in shown}
    moves = (
        owner[0] == KIND_OF_JOB["placement"] and Effect.DOWN in effects and bool({Effect.UP, Effect.CREATE} & effects)
    )
    if moves:  # pairs: what comes in stands above what goes out
        shown.sort(key=lambda action: (not urgent(action), action.decision.removed > 0))
    parts = lru_cache(16)(phrase_parts)  # most that goes idle at once does for the same reasons
    reasons = {action.id: parts(action.decision.cause.reasons) for action in shown}
    common = _common([action for action in shown if action.id not in metadata], reasons, owner[0])
    shared = [
        *([_placement_words(view, moves), *_later(view, shown)] if view is not None and shown else []),
        ", ".join(map(words.part, common)),
    ]
    return PolicyGroup(
        *owner,
        place=next((one_line(one.decision.cause.at) for one in actions if owner[1] and one.decision.cause.at), ""),
        reason="; ".join(text for text in shared if text),
        lines=tuple(
            _line(action, [words.part(part) for part in reasons[action.id] if part not in common], moves)
            for action in shown
        ),
        updates=tuple(_line(action, (), moves) for action in updates),
    )


def _common(actions: Sequence[Action], reasons: Mapping[int, tuple[Reasons, ...]], kind: str) -> tuple[Reasons, ...]:
    """Return the parts of the reason that all changes of the most frequent sort share, less what was measured for each.

    How replicas are placed is particular to each cluster, unless all clusters have the same words.
    """
    placed = kind == KIND_OF_JOB["placement"]
    if not actions or (placed and len(actions) == 1):
        return ()
    verbs = Counter(verb_of(action.decision) for action in actions).most_common(1)
    main = [reasons[member.id] for member in actions if placed or verb_of(member.decision) == verbs[0][0]]
    shared = (part for part in main[0] if all(part in parts for parts in main))
    return tuple(part for part in shared if not any(why.code in MEASURED for why in part))


def _placement_words(view: PlacementView, moves: bool) -> str:
    rows = [(one_line(row.cluster), row.current or 0, row.desired) for row in view.rows if row.desired is not None]
    less = [name for name, current, wanted in rows if wanted < current]
    more = [name for name, current, wanted in rows if wanted > current]
    if moves and less and more:
        moved = min(
            sum(max(0, current - wanted) for _, current, wanted in rows),
            sum(max(0, wanted - current) for _, current, wanted in rows),
        )
        return f"move {moved} of {view.total}, {_clusters(less)} -> {_clusters(more)}"
    shares = [f"{name} {wanted}" for name, _, wanted in rows if wanted]
    return f"desired {view.total}" + (f": {', '.join(shares)}" if 0 < len(shares) <= _SEVERAL else "")


def _later(view: PlacementView, shown: Sequence[Action]) -> Iterator[str]:
    """Yield what runs after this one will move from clusters that have no line, which would show it."""
    listed = {action.decision.ref.cluster for action in shown}
    for row in view.rows:
        for why in row.reasons:
            if why.code == ReasonCode.MOVES_LATER and row.cluster not in listed:
                yield f"{why.values['replicas']} move from {one_line(row.cluster)} once as many are available elsewhere"


def _clusters(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _SEVERAL else counted(len(names), "cluster")


def _line(action: Action, reasons: Sequence[str], moves: bool) -> Line:
    decision = action.decision
    name, sign = name_of(decision.ref), sign_of(decision)
    if is_metadata(decision):
        return Line(action, sign, name, "", "", "", metadata_words(decision), "")
    named = any(why.code == ReasonCode.SELECTOR_DIFFERS for why in decision.cause.reasons)
    kept = ["pods keep running"] if decision.orphan and not named else []
    verb, reason = verb_of(decision, moves=moves), ", ".join([*reasons, *kept])
    return Line(action, sign, name, *field_of(decision), verb, reason, victims_of(decision))


# The blocks beside the changes: undecided, observed, unknown, overridden, warnings and notices.


_NAMED = 4  # clusters that a heading names


class Block(Struct, frozen=True):
    """A title, and below it changes, or entries: what each is about ("" where the words say it), and the words.

    `always`: the entries are shown where only headings are, too; `first`: above the changes.
    """

    title: str
    entries: tuple[tuple[str, str], ...] = ()
    groups: tuple[PolicyGroup, ...] = ()
    always: bool = False
    first: bool = False


def blocks_of(plan: Plan, *, left: str = "the JSON form has them all") -> tuple[Block, ...]:
    """Return what else a person should read, the most pressing first. Where objects that are left to autoscalers are
    only counted, `left` says where they are; with "" each is named.
    """
    words = reasons_in(plan)
    equal = tuple(("", one_line(notice.text)) for notice in plan.notices if notice.kind == "equalPriorities")
    frozen = tuple(_notice(notice, words) for notice in plan.notices if notice.kind == "frozen")
    observed = f"Observed only: {counted_changes(plan.observed)}, never applied (mode: Observe)"
    warnings = tuple(_notice(one, words) for one in plan.notices if one.partial or one.kind == "unknownQuery")
    overridden = tuple((one_line(str(lost.ref)), one_line(overridden_words(plan, lost))) for lost in plan.overridden)
    blocks = (
        Block("Equal priorities:", equal, always=True, first=True),
        Block("Frozen:", frozen, always=True),
        _undecided(plan),
        Block(observed, groups=grouped(plan, numbered_actions(plan.observed))),
        _unknown(plan),
        Block(f"Warnings: {len(warnings)}", warnings),
        Block(f"Overridden: {counted(len(overridden), 'object')}", overridden),
        _notices(plan, left),
    )
    return tuple(block for block in blocks if block.entries or block.groups)


def _undecided(plan: Plan) -> Block:
    words = reasons_in(plan)
    entries = []
    for undecided in plan.undecided:
        place = plan.places.get(policy_title(undecided.job, undecided.policy), undecided.policy)
        entries.append((f"? {one_line(undecided.subject)}", words.reason(undecided.reasons) + bracketed(place)))
    return Block(f"Undecided: {counted(len(entries), 'object')}, unchanged", tuple(entries))


def _unknown(plan: Plan) -> Block:
    clusters = list(map(one_line, plan.unknown_clusters))
    named = [*clusters[:_NAMED], *([f"{len(clusters) - _NAMED} more"] if len(clusters) > _NAMED else [])]
    parts = [f"{counted(len(clusters), 'cluster')} ({', '.join(named)})"] if clusters else []
    if len(plan.unknown) > len(clusters):
        parts.append(counted(len(plan.unknown) - len(clusters), "list or query", "lists or queries"))
    entries = tuple((f"? {one_line(name)}", one_line(why + _moves(plan, name))) for name, why in plan.unknown.items())
    return Block(f"Unknown: {', '.join(parts)}, unchanged", entries)


def _moves(plan: Plan, cluster: str) -> str:
    """Return from when on others take over the replicas of a cluster that cannot be read, "" where none are placed."""
    waits = [
        (parse_time(str(explanation.change_if.values["at"])), explanation.policy)
        for explanation in plan.explanations
        if explanation.job == "placement" and explanation.ref.cluster == cluster and explanation.change_if is not None
        if explanation.change_if.code == ChangeIfCode.AFTER
    ]
    first = min(((at, policy) for at, policy in waits if at is not None), default=None)
    if first is None:
        return ""
    more = f" and {len(waits) - 1} more" if len(waits) > 1 else ""
    return f"; replicas of {first[1]}{more} move to other clusters from {reasons_in(plan).time(first[0])} on"


def overridden_words(plan: Plan, lost: Overridden) -> str:
    """Return what the policy of `lost` wanted, and which one decides instead."""
    why = reasons_in(plan).reason(lost.reasons)
    return f"{lost.policy}: {lost.desired}, overridden by {lost.winner} ({why})"


def _notices(plan: Plan, left: str) -> Block:
    left_out = ("frozen", "equalPriorities", "unknownQuery", *(("autoscaler",) if left else ()))
    found = [notice for notice in plan.notices if not notice.partial and notice.kind not in left_out]
    counts = Counter(notice.policy for notice in plan.notices if not notice.partial and notice.kind == "autoscaler")
    counted_words = (
        ("", one_line(f"{counted(count, 'object')} left to autoscalers{bracketed(policy)}; {left}"))
        for policy, count in (counts.items() if left else ())
    )
    entries = (*(_notice(notice, reasons_in(plan)) for notice in found), *counted_words)
    return Block(f"Notices: {len(entries)}", entries)


def _notice(notice: Notice, words: ReasonWords) -> tuple[str, str]:
    last = notice.subject.partition("/")[2]
    text = notice.words
    if notice.reasons:
        text = text.replace(notice.why, words.reason(notice.reasons))
    named = notice.policy and last != notice.policy
    return one_line(notice.subject), one_line(text + (f" ({notice.policy})" if named else ""))


def bracketed(place: str) -> str:
    """Return " (place)", "" for no place."""
    return f" ({one_line(place)})" if place else ""
