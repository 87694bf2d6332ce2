"""Fixed points of a learner followed up and down in the sample ratio."""

from __future__ import annotations

from numpy.typing import ArrayLike

from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import require_arguments
from glassformer.core.renamed import verb
from glassformer.core.results import Branches, Table
from glassformer.core.status import Status
from glassformer.learners.base import Learner
from glassformer.models.base import Model
from glassformer.verbs.question import asked


@verb
def hysteresis(
    model: Model,
    alpha: ArrayLike,
    learner: str | Learner = "gamp",
    *,
    throw: bool = True,
    accuracy: Accuracy | None = None,
) -> Branches | Table:
    """Follow the fixed points of a learner's theory up and down in the sample ratio.

    Between the spinodals the branches differ: a hard phase, in which message passing follows the branch of larger
    error. See :func:`~glassformer.bayes_optimal.hysteresis.follow_branches` and, for regularised risk of rows,
    :func:`~glassformer.risk.rows.row_risk.row_risk_branches`.

    Args:
        model: prior and channel.
        alpha: sample ratios, at least two, in increasing order.
        learner: a learner or its name.
        throw: raise an error if a row did not converge. The error carries the table.
        accuracy: tolerances and sizes of samples.

    Returns:
        :class:`~glassformer.core.results.Branches` with ``alpha``, ``error_up`` and ``error_down`` (for several rows
        the mean over the rows, with ``row_error_up`` and ``row_error_down``), ``two_branches`` (1 where the branches
        differ by more than their errors), ``error_estimate`` (the larger of both), and a note that brackets the
        spinodals.

    Raises:
        ParameterError: ``alpha`` is not increasing or out of range.
        IncompatibleError: the fixed points of the learner are not known.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> import numpy as np
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute")
        >>> found = hysteresis(model, np.linspace(0.5, 1.1, 7))
        >>> bool(found["two_branches"].any()), found.notes[0].split(":")[0]
        (True, 'Two branches')
    """
    require_arguments(hysteresis, locals())
    table = asked(model, learner, accuracy, "hysteresis").theory.hysteresis(alpha)
    if throw:
        table.raise_unless_converged(accepted=(Status.CONVERGED, Status.BISTABLE))
    return table
