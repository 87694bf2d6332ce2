"""Message passing that does not know the width of the signal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.errors import IncompatibleError
from glassformer.core.settings import require_number, require_positive, require_share, require_whole, setting
from glassformer.learners.base import IN_ANY_FORM, Learner, Reached

if TYPE_CHECKING:
    from glassformer.core.integral import Array
    from glassformer.core.results import Table
    from glassformer.learners.data_set import DataSet
    from glassformer.models.priors.measured import MeasuredPrior

_CONSISTENT = (
    "the Bayes-optimal error, as in the limit of large sizes singular values tell their own law: consistent and "
    "simulated, not proven"
)


@dataclass(frozen=True)
class BlindMessagePassing(Learner):
    r"""Message passing on linear labels that takes another width for the signal's, or none.

    The step is that of :class:`~glassformer.MessagePassing`: its noise is measured from residuals, its Onsager term is
    the divergence of the denoiser applied, and both hold of any denoiser. The claimed error is Stein's estimate of it.

    Without ``assumed_rho`` the law of the singular values is estimated from the singular values themselves
    (:class:`~glassformer.models.spectra.estimated.EstimatedLaw`): no prior enters. Its limit is the Bayes-optimal
    error, as the estimate is consistent; this is argued and simulated, not proven. With ``assumed_rho`` the limit is
    :func:`~glassformer.theory.assumed_width.assumed_prior_limits`. That message passing settles is guaranteed for
    neither: the status of every run tells.

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
    family: ClassVar[str] = "Bayes-optimal"
    in_theory: ClassVar[tuple[str, ...]] = ("assumed_rho",)
    storages: ClassVar[tuple[str, ...]] = IN_ANY_FORM

    assumed_rho: float | None = setting(None, "width ratio r/d taken for the signal's (default its law is estimated)")
    smoothing: float = setting(2.0, "of the estimated law, in standard deviations of an entry's noise")
    tolerance: float = setting(1e-3, "change per step that counts as settled, in standard deviations of the error")
    max_iterations: int = setting(300, "steps allowed per run")
    damping: float | None = setting(None, "weight of the old state in [0, 1), instead of an adaptive one")

    def __post_init__(self) -> None:
        require_positive(self, "assumed_rho", optional=True)
        require_positive(self, "smoothing")
        require_number(self, "tolerance", allowed="a number in (0, 1)", within=lambda x: 0 < x < 1)
        require_whole(self, "max_iterations")
        require_share(self, "damping", optional=True)

    def obstacle(self, model: Any) -> str | None:
        if model.overlap_shape or model.prior.symmetric:
            return f"is for one matrix without symmetry, not for the signal of this model ({model.name})"
        if not model.channel.linear:
            return f"learns from linear labels, not from those of channel {model.channel.label}"
        try:
            model.prior.of_width(1.0)
        except IncompatibleError as error:
            return f"does not go with this model: {error}"
        return None

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        from glassformer.theory.assumed_width import assumed_prior_limits
        from glassformer.theory.limits import limits

        self.require(model)
        if self.assumed_rho is None:
            optimum = limits(model, alpha, throw=throw)
            found = replace(optimum, notes=[*optimum.notes, _CONSISTENT])
        else:
            found = assumed_prior_limits(model, alpha, model.prior.of_width(self.assumed_rho))
            found = replace(found, parameters={**model.parameters, "assumed_rho": self.assumed_rho})
            if throw:
                found.raise_unless_converged()
        return replace(found, parameters={**found.parameters, "learner": self.name})

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        from glassformer.theory.limits import limits

        if self.assumed_rho is not None:
            return self.limits(model, alpha, throw=False)["error"]
        return (limits(model, alpha, throw=False) if optimum is None else optimum)["algorithmic_error"]

    def denoiser(self, model: Any) -> MeasuredPrior:
        """What the signal is taken for."""
        from glassformer.models.priors.measured import AssumedPrior, UnknownLawPrior

        if self.assumed_rho is None:
            return UnknownLawPrior(self.smoothing)
        return AssumedPrior(model.prior.of_width(self.assumed_rho))

    def learn(self, model: Any, data: DataSet) -> Reached:
        from glassformer.learners.bayes import MessagePassing
        from glassformer.learners.gamp import learned

        steps = MessagePassing(self.tolerance, None, self.max_iterations, self.damping)
        return learned(model, data, steps, believed=self.denoiser(model))
