"""What the verbs return."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "Branches": "core.results",
    "Comparison": "verbs.compare",
    "Fit": "verbs.fit",
    "Landscape": "bayes_optimal.free_entropy",
    "PhaseDiagram": "verbs.phase_diagram",
    "Plan": "verbs.plan",
    "PlanEntry": "verbs.plan",
    "Run": "verbs.instances",
    "Simulation": "verbs.instances",
    "Solution": "core.solution",
    "Status": "core.status",
    "Steps": "core.results",
    "Table": "core.results",
    "Thresholds": "bayes_optimal.threshold_results",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
