"""Checks of the parts of a model against each other, for user-defined links, channels, priors and designs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glassformer.core.checks import require_arguments
from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.models.base import Model
from glassformer.testing import checks
from glassformer.testing.report import Case, CheckResult, Deviation, Report

# Every check, and the meaning of a failure.
CHECKS: dict[str, tuple[Callable[[Case], float | Deviation], str]] = {
    "score": (
        checks.check_score,
        "score and log_partition contradict each other: one of them has a wrong factor or sign",
    ),
    "Nishimori": (
        checks.check_nishimori,
        "labels, score and information do not belong to one law: check that sample draws from the law of "
        "log_partition, and the normalisation of the noise",
    ),
    "information": (checks.check_information, "the information in state evolution is not that of the labels: "),
    "thresholds": (checks.check_weak_recovery, "a threshold is above the upper bound from sampled labels: "),
    "gradient": (
        checks.check_gradient,
        "expected_log_partition and information, or mmse and mutual_information, contradict each other",
    ),
    "denoiser": (
        checks.check_denoiser,
        "denoise does not reach the mmse: check the normalisation of the field, and the signal that sample draws",
    ),
    "size": (
        checks.check_size,
        "message passing does not reach the error of theory: use a larger d to exclude a finite-size effect",
    ),
}


def check_model(model: Model, alpha: float | None = None, d: int = 60, seed: int = 0) -> Report:
    r"""Return a report of checks of a model's parts against each other and against data of finite size.

    - *score*: :math:`g = \partial_\omega\log Z_{out}`, by differences.
    - *Nishimori*: on labels that the channel draws itself, :math:`E\,g = 0`, :math:`E|g|^2 = E[-\partial_\omega g]`,
      and both equal the information of state evolution; the mean of :math:`\log Z_{out}` is the expected one. The
      density, mean and variance of a user-defined label law are those of the labels that it draws.
    - *information*: the information of state evolution equals the mean of score times true deviation, which is linear
      in any mistake of the score, and is not below the bound from labels sorted into cells
      (:mod:`~glassformer.bayes_optimal.bounds`).
    - *thresholds*: no threshold of weak recovery is above the bound from labels sorted into cells.
    - *gradient*: the free entropy is stationary at fixed points of state evolution.
    - *denoiser*: the error that the prior claims is the error of its denoiser on a signal that it draws.
    - *size*: message passing on data agrees with theory.

    The tolerance is five standard errors, for the last two checks plus a finite-size effect of order ``1/d``.

    Args:
        model: a model of the package, or a model with user-defined parts.
        alpha: sample ratio of the last check; by default one with a non-trivial error.
        d: token dimension of the last two checks.
        seed: seed of all random numbers.

    Raises:
        ParameterError: an argument has a wrong type.

    Returns:
        :class:`Report`; ``ok`` is True if no check failed, and the text explains each failure.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> print(check_model(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), d=40))
        bsr:
          ok    score: ...
          ok    Nishimori: ...
          ok    information: ...
          ok    thresholds: ...
          ok    gradient: ...
          ok    denoiser: ...
          ok    size: ...
    """
    require_arguments(check_model, locals())
    case, results = Case(model, alpha, d, seed), []
    for name, (measure, explanation) in CHECKS.items():
        try:
            outcome = measure(case)
            size, numbers = outcome if isinstance(outcome, Deviation) else (outcome, "")
            result = CheckResult(name, float(np.nan_to_num(size, nan=np.inf)), explanation + numbers)
        except IncompatibleError as error:
            result = CheckResult(name, np.nan, str(error))
        except (GlassformerError, ArithmeticError, ValueError) as error:
            result = CheckResult(name, np.inf, f"the check raised {type(error).__name__}: {error}")
        results.append(result)
    return Report(model.name, tuple(results))
