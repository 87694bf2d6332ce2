"""Free entropy against the overlap: its maxima are the fixed points, and the highest one is Bayes-optimal."""

from __future__ import annotations

from glassformer.bayes_optimal.free_entropy import Landscape, free_entropy_curve
from glassformer.core.accuracy import Accuracy, refuse_unused
from glassformer.core.checks import require_arguments
from glassformer.core.renamed import verb
from glassformer.models.base import Model


@verb
def landscape(
    model: Model, alpha: float, *, overlaps: int = 400, row: int | None = None, accuracy: Accuracy | None = None
) -> Landscape:
    """Return the free entropy on a grid of overlaps, dense near zero overlap and near perfect overlap.

    Equations :eq:`free-entropy` and :eq:`matrix-free-entropy` of the documentation.

    Args:
        model: prior and channel.
        alpha: sample ratio, finite and >= 0.
        overlaps: number of overlaps, at least 10. Models with sampled averages have at most 40.
        row: the row whose overlap varies, counted from 0, the last by default; the other rows are at the fixed point of
            state evolution.
        accuracy: points of sampled averages.

    Raises:
        ParameterError: ``alpha``, ``overlaps`` or ``row`` is out of range.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> landscape(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), 0.5).hard_phase
        False
    """
    require_arguments(landscape, locals())
    refuse_unused(accuracy, model.accuracy_defaults, f"the landscape of {model.name}")
    return free_entropy_curve(model.at_accuracy(accuracy), alpha, overlaps, row)
