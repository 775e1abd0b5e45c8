"""One scalable: how its scale is read, and how it is changed."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.decide.annotations import PAUSED, PAUSED_REPLICAS
from reconciler.decide.decisions import FieldChange, replicas_change
from reconciler.model import ObjectRef, Workload
from reconciler.whole_numbers import whole_number_in


@dataclass(frozen=True, slots=True)
class Scale:
    """`written` is the object that is changed, `runs` the one whose pods it governs (a ScaledObject's target)."""

    written: Workload
    runs: Workload

    @property
    def ref(self) -> ObjectRef:
        return self.written.ref

    @property
    def is_paused_kind(self) -> bool:
        """Whether it is idled by pausing KEDA; its target is then left to KEDA."""
        return self.ref.kind == "ScaledObject"

    @property
    def is_suspended_kind(self) -> bool:
        return self.ref.kind == "CronJob"

    @property
    def replicas(self) -> int:
        """Replicas asked for now; a CronJob has 0 while suspended, else 1."""
        return self.runs.wanted

    @property
    def problem(self) -> str:
        """Why nobody can scale it as it is, "" where somebody can."""
        missing = self.written.no_place
        return f"it has no {missing}, where its replicas would stand" if missing else ""

    @property
    def paused_by(self) -> str:
        """What pauses a ScaledObject, "" for nothing."""
        if not self.is_paused_kind:
            return ""
        return next(
            (key for key in (PAUSED_REPLICAS, PAUSED) if self.written.annotations.get(key, "false") != "false"), ""
        )

    def stands_at(self, count: int) -> bool:
        """Return whether it is at or below `count`, so that a scalable with a record is idle."""
        if not self.is_paused_kind:
            return self.replicas <= count
        paused = whole_number_in(self.written.annotations.get(PAUSED_REPLICAS, ""))
        return paused is not None and paused <= count

    def change_to(self, count: int) -> FieldChange:
        """Return the change that idles it to `count`."""
        if self.is_paused_kind:
            path = ("metadata", "annotations", PAUSED_REPLICAS)
            return FieldChange(path, self.written.annotations.get(PAUSED_REPLICAS), str(count))
        return self._change(count)

    def change_back(self, count: int) -> FieldChange:
        """Return the change that wakes it: to `count` replicas; a ScaledObject goes back to KEDA."""
        if self.is_paused_kind:
            path = ("metadata", "annotations", PAUSED_REPLICAS)
            return FieldChange(path, self.written.annotations.get(PAUSED_REPLICAS), None)
        return self._change(count)

    def _change(self, count: int) -> FieldChange:
        if self.is_suspended_kind:
            return FieldChange(("spec", "suspend"), self.written.suspend, count == 0)
        return replicas_change(self.written.replicas, count, self.written.replicas_path)

    def unchanged(self) -> FieldChange:
        """Return a change that only tests that the scale is what was seen."""
        seen = self.change_to(0)
        return FieldChange(seen.path, seen.before, seen.before)
