"""The names of all metrics."""

from __future__ import annotations

import re
from pathlib import Path

from reconciler.activator.activation_context import ActivatorMetrics
from reconciler.picker_webhook.webhook import PickerMetrics


def metrics_in_source(repository: Path) -> set[str]:
    """Return the names of all metrics that there are."""
    source = (repository / "reconciler" / "report" / "metrics.py").read_text()
    served = (*PickerMetrics().families(), *ActivatorMetrics().families())
    return {
        *re.findall(r'"((?:reconciler|sorting)_[a-z_]+[a-z])"', source),
        *(f"{one.name}_total" if one.counts else one.name for one in served),
    }
