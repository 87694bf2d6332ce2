"""Sample ratios at which a learner begins to learn, learns everything, and is stuck in between."""

from __future__ import annotations

from glassformer.bayes_optimal.threshold_results import Thresholds
from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import require_arguments
from glassformer.core.renamed import verb
from glassformer.learners.base import Learner
from glassformer.models.base import Model
from glassformer.verbs.question import asked


@verb
def thresholds(model: Model, learner: str | Learner = "gamp", *, accuracy: Accuracy | None = None) -> Thresholds:
    """Return the thresholds of a learner, by default those of the Bayes-optimal error and of message passing.

    Equations :eq:`weak-recovery` and :eq:`bayes-optimal-transition` of the documentation. Those of message passing are
    described in :func:`~glassformer.bayes_optimal.thresholds.bayes_optimal_thresholds`, those of regularised risk in
    :func:`~glassformer.risk.thresholds.risk_thresholds` and, for models of rows,
    :func:`~glassformer.risk.rows.thresholds.row_risk_thresholds`.

    Args:
        model: prior and channel.
        learner: a learner or its name.
        accuracy: points of sampled averages.

    Returns:
        :class:`~glassformer.bayes_optimal.threshold_results.Thresholds`; entries that do not apply have ``alpha`` NaN
        and a note with the reason.

    Raises:
        IncompatibleError: no thresholds of the learner on this model are known.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> found = thresholds(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        >>> found["perfect_recovery"].alpha, found["perfect_recovery"].note
        (0.75, 'Bayes-optimal; counting of degrees of freedom')
    """
    require_arguments(thresholds, locals())
    return asked(model, learner, accuracy, "thresholds").theory.thresholds()
