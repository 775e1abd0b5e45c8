"""The status of a Fleet as one HTML file to publish: what sleeps until when and why, and a link to wake each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Any
from urllib.parse import quote

from reconciler.errors import UsageError
from reconciler.plan.model import Plan
from reconciler.report.groups import made_at, reasons_in
from reconciler.report.html import page_template
from reconciler.report.status import (
    FleetStatus,
    IdleObject,
    cluster_rows,
    counts_line,
    placement_line,
    pressing,
    run_lines,
)
from reconciler.report.wording import age, counted
from reconciler.untrusted_text import one_line

OBJECT, LENGTH, AWAKE_FOR = "{object}", "{for}", "3h"
"""What of the address of a form stands for the object and for how long it is kept awake, and that length."""


def check_wake_form(form: str) -> str:
    """Return `form`, the address of a form that wakes, with {object} where the object goes.

    Raises:
        UsageError: it is no such address.
    """
    if not form.startswith(("https://", "http://")) or OBJECT not in form or not form.isprintable():
        raise UsageError(f'--wake-form: "{form}" is no form, expected https://... with {OBJECT} in it')
    return form


def render_status_page(status: FleetStatus, form: str = "") -> str:
    """Return `status` as a page that needs nothing else; without `form` nothing on it can be woken.

    A script of its own searches and says how old the page is; without scripts all of it can be read.
    """
    plan, at = status.plan, status.plan.made_at
    head, *clusters = cluster_rows(status)
    return page_template("report", "status.html.j2").render(
        title=f"Fleet {one_line(plan.fleet)}",
        counts=counts_line(status),
        made_at=made_at(plan),
        made=at,
        snapshot=plan.source == "snapshot",
        tiles=_tiles(status, at),
        pressing=pressing(plan),
        namespaces=list(_namespaces(status.idle, plan, form)),
        awake_for=AWAKE_FOR if LENGTH in form else "",
        head=head,
        clusters=clusters,
        placements=list(map(placement_line, plan.placements)),
        runs=list(run_lines(plan, status.runs)),
        counted=counted,
    )


def wake_address(form: str, name: str) -> str:
    """Return the address of `form` for what is called `name`, CLUSTER/NAMESPACE or an object; "" without a form."""
    return form.replace(OBJECT, quote(name)).replace(LENGTH, AWAKE_FOR)


def _tiles(status: FleetStatus, at: datetime) -> tuple[tuple[int, str], ...]:
    return (
        (len(status.idle), "idle"),
        (sum(one.asleep for one in status.idle), "replicas asleep"),
        (round(sum(one.saved_by(at) for one in status.idle)), "replica-hours saved so far"),
        (
            round(sum(one.saved_by(max(at, one.until or at)) for one in status.idle)),
            "replica-hours when they wake as planned",
        ),
    )


def _namespaces(idle: Iterable[IdleObject], plan: Plan, form: str) -> Iterator[dict[str, Any]]:
    """Yield what is idle in each namespace of a cluster, what that saves, and the address of its form."""
    for (cluster, namespace), found in groupby(idle, key=lambda one: (one.ref.cluster, one.ref.namespace)):
        members = list(found)
        name = f"{cluster}/{namespace}"
        replicas, hours = sum(one.asleep for one in members), round(sum(one.saved_by(plan.made_at) for one in members))
        saved = f"{len(members)} idle, {counted(replicas, 'replica')} asleep, {counted(hours, 'replica-hour')} saved"
        rows = [_row(one, plan, form) for one in members]
        yield {"name": one_line(name), "saved": saved, "wake": wake_address(form, name), "rows": rows}


def _row(one: IdleObject, plan: Plan, form: str) -> dict[str, str]:
    """Return what the template shows of an idle workload; `search` is what finds it."""
    words = reasons_in(plan)
    return {
        "name": one_line(f"{one.ref.kind}/{one.ref.name}"),
        "search": one_line(f"{one.ref} {one.policy}").lower(),
        "policy": one_line(one.policy),
        "since": words.time(one.since) if one.since else "",
        "until": words.time(one.until) if one.until else "",
        "left": f"in {age(one.until - plan.made_at)}" if one.until and one.until > plan.made_at else "",
        "why": words.reason(one.reasons),
        "had": one_line(one.previous),
        "wake": wake_address(form, str(one.ref)),
    }
