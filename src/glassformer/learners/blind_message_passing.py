"""Blind message passing: the width of the signal is unknown, or assumed wrongly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from glassformer.bayes_optimal.assumed_width import assumed_prior_limits, assumed_prior_trajectory
from glassformer.bayes_optimal.trajectory import gamp_trajectory
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.settings import damping_setting, positive, setting
from glassformer.learners.base import IN_ANY_FORM, FitResult, LearnerInfo, Theory
from glassformer.learners.gamp import MatrixMessagePassing, MatrixStateEvolution, fit_gamp
from glassformer.learners.registry import require_compatible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model

# Default smoothing of the estimated law.
_SMOOTHING = 2.0
_CONSISTENT = (
    "the limit is the Bayes-optimal error, because the law of the singular values is estimated consistently; this is "
    "supported by simulations, not proven"
)


@dataclass(frozen=True)
class BlindStateEvolution(MatrixStateEvolution):
    """State evolution with the assumed width, or Bayes-optimal state evolution if the law is estimated."""

    learner: BlindMessagePassing

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        if self.learner.assumed_rho is None:
            return _consistent(super().limits(alpha, throw))
        require_compatible(self.learner, self.model)
        table = assumed_prior_limits(self.model, alpha, self.model.matrix_prior.of_width(self.learner.assumed_rho))
        table = replace(table, parameters={**self.model.parameters, "assumed_rho": self.learner.assumed_rho})
        if throw:
            table.raise_unless_converged()
        return self.labelled(table)

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        if self.learner.assumed_rho is not None:
            return Theory.of_runs(self, alpha, optimum)
        return super().of_runs(alpha, optimum)

    def thresholds(self) -> Thresholds:
        self._require_optimal("thresholds")
        return super().thresholds()

    def hysteresis(self, alpha: ArrayLike) -> Table:
        self._require_optimal("branches of fixed points")
        return _consistent(super().hysteresis(alpha))

    def _require_optimal(self, what: str) -> None:
        """Raise for an assumed width, for which only the uninformed start is solved."""
        if self.learner.assumed_rho is not None:
            raise IncompatibleError(
                f"assumed_rho = {self.learner.assumed_rho:g} has limits, but no {what}: leave assumed_rho out"
            )

    def _trajectory(self, alpha: Array, steps: int) -> Table:
        width = self.learner.assumed_rho
        if width is None:
            return _consistent(gamp_trajectory(self.model, alpha, steps))
        table = assumed_prior_trajectory(self.model, alpha, steps, self.model.matrix_prior.of_width(width))
        return replace(table, parameters={**self.model.parameters, "assumed_rho": width})


def _consistent(table: Table) -> Table:
    """Return Bayes-optimal limits with a note that explains why they hold for this learner."""
    return replace(table, notes=[*table.notes, _CONSISTENT])


@dataclass(frozen=True)
class BlindMessagePassing(MatrixMessagePassing):
    r"""Message passing on linear labels with an assumed width of the signal, or with an estimated law.

    The step is that of :class:`~glassformer.MessagePassing`. The noise is measured from residuals, and the Onsager term
    is the divergence of the denoiser; both are valid for any denoiser. The claimed error is Stein's estimate.

    Without ``assumed_rho`` the law of the singular values is estimated from the singular values themselves
    (:class:`~glassformer.random_matrices.estimated.EstimatedLaw`), without a prior. As the estimate is consistent, the
    limit is the Bayes-optimal error, which simulations support but no proof exists. With ``assumed_rho`` the limit is
    :func:`~glassformer.bayes_optimal.assumed_width.assumed_prior_limits`. Convergence is not guaranteed in either case:
    see the status of every run.

    Args:
        assumed_rho: assumed width ratio :math:`r/d > 0` of the signal; None to estimate the law.
        smoothing: without ``assumed_rho``, smoothing of the estimated law, in standard deviations of an entry's noise.
        damping: see :class:`~glassformer.MessagePassing`.

    Raises:
        ParameterError: an argument is out of range.

    Source: derived here.

    Example:
        >>> from glassformer import BilinearSequenceRegression, limits, simulate
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> limits(model, [0.5], BlindMessagePassing(assumed_rho=0.5))["error"].round(4)
        array([0.373])
        >>> ask = {"alpha": [1.0], "d": 40, "instances": 1}
        >>> blind, informed = (simulate(model, learner=name, **ask) for name in ("blind-gamp", "gamp"))
        >>> blind.converged, bool(blind["error"][0] < 1.1 * informed["error"][0])
        (True, True)
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="blind-gamp",
        title="message passing without knowing the width",
        family="Bayes-optimal",
        storages=IN_ANY_FORM,
        limit_settings=("assumed_rho",),
        trajectory_settings=("assumed_rho",),
        limit_accuracy=("tolerance", "max_iterations"),
    )

    assumed_rho: float | None = setting(
        None, "assumed width ratio r/d (default: the law of the signal is estimated)", positive
    )
    smoothing: float = setting(
        _SMOOTHING, "smoothing of the estimated law, in standard deviations of an entry's noise", positive
    )
    damping: float | None = damping_setting()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.assumed_rho is not None and self.smoothing != _SMOOTHING:
            raise ParameterError(
                "smoothing", self.smoothing, "no value with assumed_rho, for which no law is estimated"
            )

    def check(self, model: Model) -> None:
        super().check(model)
        try:
            model.matrix_prior.of_width(1.0)
        except IncompatibleError as error:
            raise IncompatibleError(f"is incompatible with this model: {error}") from None

    def theory(self, model: Model) -> Theory:
        return BlindStateEvolution(self, model)

    def learn(self, model: Model, data: DataSet) -> FitResult:
        from glassformer.priors.measured import AssumedPrior, MeasuredPrior, UnknownLawPrior

        prior: MeasuredPrior = UnknownLawPrior(self.smoothing)
        if self.assumed_rho is not None:
            prior = AssumedPrior(model.matrix_prior.of_width(self.assumed_rho))
        return fit_gamp(model, data, self.gamp_settings, prior)
