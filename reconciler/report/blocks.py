"""The blocks of a report beside its changes: undecided, observed, unknown, overridden, warnings and notices."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from reconciler.decide.annotations import parse_time
from reconciler.decide.change_codes import ChangeIfCode
from reconciler.decide.decisions import EQUAL_PRIORITIES, UNKNOWN_QUERY, Notice, Overridden, policy_title
from reconciler.messages import counted
from reconciler.plan.build import numbered_actions
from reconciler.plan.model import Plan
from reconciler.report.groups import Group, grouped, reasons_in
from reconciler.report.reason_words import ReasonWords
from reconciler.untrusted_text import one_line

FROZEN = "frozen"
_AUTOSCALER = "autoscaler"
_NAMED = 4  # clusters that a heading names


class Block(Struct, frozen=True):
    """A title, and below it changes, or entries: what each is about ("" where the words say it), and the words.

    `always`: the entries are shown where only headings are, too; `first`: above the changes.
    """

    title: str
    entries: tuple[tuple[str, str], ...] = ()
    groups: tuple[Group, ...] = ()
    always: bool = False
    first: bool = False


def blocks_of(plan: Plan, *, everything: bool = False) -> tuple[Block, ...]:
    """Return what else a person should read, the most pressing first; with `everything` what autoscalers decide is
    named object by object.
    """
    words = reasons_in(plan)
    equal = tuple(("", one_line(notice.text)) for notice in plan.notices if notice.kind == EQUAL_PRIORITIES)
    frozen = tuple(_notice(notice, words) for notice in plan.notices if notice.kind == FROZEN)
    observed = f"Observed only: {counted(len(plan.observed), 'change')}, never applied (mode: Observe)"
    warnings = tuple(_notice(one, words) for one in plan.notices if one.partial or one.kind == UNKNOWN_QUERY)
    blocks = (
        Block("Equal priorities:", equal, always=True, first=True),
        Block("Frozen:", frozen, always=True),
        _undecided(plan),
        Block(observed, groups=grouped(plan, numbered_actions(plan.observed))),
        _unknown(plan),
        Block(f"Warnings: {len(warnings)}", warnings),
        _overridden(plan),
        _notices(plan, everything),
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
    clusters = [one_line(name) for name in plan.unknown if "/" not in name]
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
        if explanation.change_if.code is ChangeIfCode.AFTER
    ]
    first = min(((at, policy) for at, policy in waits if at is not None), default=None)
    if first is None:
        return ""
    more = f" and {len(waits) - 1} more" if len(waits) > 1 else ""
    return f"; replicas of {first[1]}{more} move to other clusters from {reasons_in(plan).time(first[0])} on"


def _overridden(plan: Plan) -> Block:
    entries = [(one_line(str(lost.ref)), one_line(overridden_words(plan, lost))) for lost in plan.overridden]
    return Block(f"Overridden: {counted(len(entries), 'object')}", tuple(entries))


def overridden_words(plan: Plan, lost: Overridden) -> str:
    """Return what the policy of `lost` wanted, and which one decides instead."""
    why = reasons_in(plan).reason(lost.reasons)
    return f"{lost.policy}: {lost.desired}, overridden by {lost.winner} ({why})"


def _notices(plan: Plan, everything: bool) -> Block:
    left_out = (FROZEN, EQUAL_PRIORITIES, UNKNOWN_QUERY, *(() if everything else (_AUTOSCALER,)))
    found = [notice for notice in plan.notices if not notice.partial and notice.kind not in left_out]
    left = Counter(notice.policy for notice in plan.notices if not notice.partial and notice.kind == _AUTOSCALER)
    left_words = [
        ("", one_line(f"{counted(count, 'object')} left to autoscalers{bracketed(policy)}; -v lists them"))
        for policy, count in left.items()
    ]
    notices = (_notice(notice, reasons_in(plan)) for notice in found)
    entries = (*notices, *([] if everything else left_words))
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
