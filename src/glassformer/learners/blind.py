"""Message passing that does not know the width of the signal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.errors import IncompatibleError
from glassformer.core.settings import damping_setting, max_iterations_setting, positive, setting
from glassformer.learners.base import IN_ANY_FORM, FitResult
from glassformer.learners.matrix_passing import MatrixPassing, settles_within

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.learners.data_set import DataSet
    from glassformer.priors.measured import MeasuredPrior
    from glassformer.state_evolution.thresholds import Thresholds

_CONSISTENT = (
    "the Bayes-optimal error, as in the limit of large sizes singular values tell their own law: consistent and "
    "simulated, not proven"
)


@dataclass(frozen=True)
class BlindMessagePassing(MatrixPassing):
    r"""Message passing on linear labels that takes another width for the signal's, or none.

    The step is that of :class:`~glassformer.MessagePassing`: its noise is measured from residuals, its Onsager term is
    the divergence of the denoiser applied, and both hold of any denoiser. The claimed error is Stein's estimate of it.

    Without ``assumed_rho`` the law of the singular values is estimated from the singular values themselves
    (:class:`~glassformer.random_matrices.estimated.EstimatedLaw`): no prior enters. Its limit is the Bayes-optimal
    error, as the estimate is consistent; this is argued and simulated, not proven. With ``assumed_rho`` the limit is
    :func:`~glassformer.state_evolution.assumed_width.assumed_prior_limits`. That message passing settles is guaranteed
    for neither: the status of every run tells.

    Args:
        assumed_rho: width ratio :math:`r/d > 0` that the signal is taken to have; None to estimate its law.
        smoothing: without ``assumed_rho``, smoothing of the law in standard deviations of an entry's noise.
        tolerance, max_iterations, damping: see :class:`~glassformer.MessagePassing`.

    Raises:
        ParameterError: an argument is out of range.

    Source: derived here.

    Example:
        >>> from glassformer import BilinearSequenceRegression, simulate
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> BlindMessagePassing(assumed_rho=0.5).limits(model, [0.5])["error"].round(4)
        array([0.373])
        >>> ask = {"alpha": [1.0], "d": 40, "instances": 1}
        >>> blind, knowing = (simulate(model, algorithm=name, **ask) for name in ("blind-gamp", "gamp"))
        >>> blind.converged, bool(blind["error"][0] < 1.1 * knowing["error"][0])
        (True, True)
    """

    title: ClassVar[str] = "message passing without knowing the width"
    in_theory: ClassVar[tuple[str, ...]] = ("assumed_rho",)
    in_trajectory: ClassVar[tuple[str, ...]] = in_theory
    storages: ClassVar[tuple[str, ...]] = IN_ANY_FORM

    assumed_rho: float | None = setting(
        None, "width ratio r/d taken for the signal's (default its law is estimated)", positive
    )
    smoothing: float = setting(2.0, "of the estimated law, in standard deviations of an entry's noise", positive)
    tolerance: float = settles_within()
    max_iterations: int = max_iterations_setting(300)
    damping: float | None = damping_setting()

    def incompatibility(self, model: Any) -> str | None:
        incompatibility = super().incompatibility(model)
        if incompatibility is not None:
            return incompatibility
        try:
            model.prior.of_width(1.0)
        except IncompatibleError as error:
            return f"does not go with this model: {error}"
        return None

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        from glassformer.state_evolution.assumed_width import assumed_prior_limits

        if self.assumed_rho is None:
            return _consistent(super().limits(model, alpha, throw))
        self.require(model)
        found = assumed_prior_limits(model, alpha, model.prior.of_width(self.assumed_rho))
        found = replace(found, parameters={**model.parameters, "assumed_rho": self.assumed_rho})
        if throw:
            found.raise_unless_converged()
        return self.named(found)

    def thresholds(self, model: Any) -> Thresholds:
        self._require_optimal("thresholds")
        return super().thresholds(model)

    def branches(self, model: Any, alpha: Any) -> Table:
        self._require_optimal("branches of fixed points")
        return _consistent(super().branches(model, alpha))

    def _require_optimal(self, what: str) -> None:
        """Raise where it takes a width for the signal's, whose limits are followed from one start alone."""
        if self.assumed_rho is not None:
            raise IncompatibleError(f"assumed_rho = {self.assumed_rho:g} has limits, but no {what}: leave it out")

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        if self.assumed_rho is not None:
            return self.limits(model, alpha, throw=False)["error"]
        return super().theory(model, alpha, optimum)

    def steps_of_theory(self, model: Any, alpha: Array, steps: int) -> Table:
        from glassformer.state_evolution.assumed_width import assumed_prior_trajectory
        from glassformer.state_evolution.trajectory import trajectory

        if self.assumed_rho is None:
            return _consistent(trajectory(model, alpha, steps))
        found = assumed_prior_trajectory(model, alpha, steps, model.prior.of_width(self.assumed_rho))
        return replace(found, parameters={**model.parameters, "assumed_rho": self.assumed_rho})

    def denoiser(self, model: Any) -> MeasuredPrior:
        """What the signal is taken for."""
        from glassformer.priors.measured import AssumedPrior, UnknownLawPrior

        if self.assumed_rho is None:
            return UnknownLawPrior(self.smoothing)
        return AssumedPrior(model.prior.of_width(self.assumed_rho))

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.gamp import learned

        return learned(model, data, self.steps, believed=self.denoiser(model))


def _consistent(found: Table) -> Table:
    """What is said of the Bayes-optimal estimator, with the reason why it is said of this one."""
    return replace(found, notes=[*found.notes, _CONSISTENT])
