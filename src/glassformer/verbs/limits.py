"""The error that a learner reaches, by default the Bayes-optimal one, at every sample ratio."""

from __future__ import annotations

from numpy.typing import ArrayLike

from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import require_arguments
from glassformer.core.renamed import verb
from glassformer.core.results import Table
from glassformer.learners.base import Learner
from glassformer.models.base import Model
from glassformer.verbs.question import asked


@verb
def limits(
    model: Model,
    alpha: ArrayLike,
    learner: str | Learner = "gamp",
    *,
    throw: bool = True,
    accuracy: Accuracy | None = None,
) -> Table:
    r"""Return the error of a learner at each sample ratio, in the limit of large sizes.

    By default state evolution, equations :eq:`state-evolution` and :eq:`matrix-state-evolution` of the documentation,
    is solved from the uninformed and from the informed start. If both lead to the same fixed point, it is the result.
    If they differ (a hard phase), the Bayes-optimal fixed point is that of larger free entropy, and the row has status
    ``bistable`` and contains both.

    Args:
        model: for instance :class:`~glassformer.models.BilinearSequenceRegression`.
        alpha: sample ratios, a number or shape (points,), finite and >= 0.
        learner: a learner or its name; by default message passing, with the Bayes-optimal error beside its own.
        throw: raise an error if a row did not converge; bistable rows count as converged. The error carries the table.
        accuracy: tolerances and sizes of samples.

    Returns:
        :class:`~glassformer.core.results.Table`. For message passing its columns are ``alpha``, ``error``
        (:math:`V = 1 - q`, Bayes-optimal; for several rows the mean over the rows), ``overlap`` (:math:`q`), ``q_hat``,
        ``algorithmic_error`` (from the uninformed start: the error of message passing), ``informed_error``, errors on
        labels by name, ``error_estimate`` (absolute, of ``error``), ``residual`` and ``iterations``. For models of
        several rows ``overlap`` and ``q_hat`` are matrices, and there are ``row_error`` (of each row),
        ``q_hat_off_diagonal`` (the largest relative entry off the diagonal), ``prediction_error`` and
        ``plugin_error`` on new numerical labels, and ``label_error`` on discrete labels (the share of wrong ones), with
        standard errors that include those of the fixed points. Labels returned by ``argmax`` or ``argmin`` are classes
        and have no squared errors. With hidden states of the samples ``state_error`` is the share of states that are
        not the most probable ones given the inputs, and ``state_with_label_error`` the same given the label as well.
        Regularised risk has the columns of :func:`~glassformer.risk.limits.risk_limits`, for models of rows those of
        :func:`~glassformer.risk.rows.row_risk.row_risk_limits`; descent those of
        :func:`~glassformer.dynamics.descent_path.descent_limits`, on matrices those of
        :func:`~glassformer.dynamics.matrix_path.path_limits`.

    Raises:
        ParameterError: ``alpha`` is out of range.
        IncompatibleError: no theory of the learner on this model is known.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression, Ridge
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0)
        >>> limits(model, [0.0, 0.3, 0.8])["error"].round(4) + 0.0
        array([1.    , 0.6406, 0.    ])
        >>> limits(model, [0.3], Ridge())["error"].round(4)
        array([0.7])
    """
    require_arguments(limits, locals())
    return asked(model, learner, accuracy, "limits").theory.limits(alpha, throw)
