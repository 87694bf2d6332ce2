"""Checks of the parts of a model against each other, for users who bring a link, a channel, a prior or a design."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glassformer.core.checks import require_arguments
from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.models.base import Model
from glassformer.testing import channels, data, theory
from glassformer.testing.report import Case, CheckResult, Deviation, Report

# Every check, and what a failure means.
CHECKS: dict[str, tuple[Callable[[Case], float | Deviation], str]] = {
    "score": (channels.score, "score and log_partition contradict each other: one of them has a wrong factor or sign"),
    "Nishimori": (
        channels.nishimori,
        "labels, score and information do not belong to one law: check that sample draws from the law of "
        "log_partition, and the normalisation of the noise",
    ),
    "information": (channels.information, "state evolution uses another information than labels have: "),
    "thresholds": (theory.weak_recovery, "a threshold is above the bound that the labels give: "),
    "gradient": (
        theory.gradient,
        "expected_log_partition and information, or mmse and mutual_information, contradict each other",
    ),
    "denoiser": (
        data.denoiser,
        "denoise does not reach the mmse: check the normalisation of the field, or what sample draws",
    ),
    "size": (
        data.size,
        "message passing does not reach the error of theory: a larger d tells a finite-size effect from a mistake",
    ),
}


def check_model(model: Model, alpha: float | None = None, d: int = 60, seed: int = 0) -> Report:
    r"""Check a model's parts against each other and against data of finite size.

    - *score*: :math:`g = \partial_\omega\log Z_{out}`, by differences.
    - *Nishimori*: on labels that the channel draws itself, :math:`E\,g = 0`, :math:`E|g|^2 = E[-\partial_\omega g]`,
      and both are the information that state evolution uses; the mean of :math:`\log Z_{out}` is the expected one. The
      density, mean and variance of a label law of one's own are those of the labels that it draws.
    - *information*: the information of state evolution is the mean of score times true deviation, which is linear in
      any mistake of the score, and not below the bound from labels sorted into cells
      (:mod:`~glassformer.bayes_optimal.bounds`).
    - *thresholds*: no threshold of weak recovery is above the bound from labels sorted into cells.
    - *gradient*: the free entropy is stationary at fixed points of state evolution.
    - *denoiser*: the error that the prior claims is the error of its denoiser on a signal that it draws.
    - *size*: message passing on data agrees with theory.

    Averages may be off by five standard errors, the last two checks also by a finite-size effect of order ``1/d``.

    Args:
        model: a model of the package, or a model with parts of your own.
        alpha: sample ratio of the last two checks; by default one at which something is learned.
        d: token dimension of the last two checks.
        seed: seed of all random numbers.

    Raises:
        ParameterError: an argument has another type.

    Returns:
        :class:`Report`; ``ok`` if no check failed; its text explains each failure.

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
            found = measure(case)
            size, numbers = found if isinstance(found, Deviation) else (found, "")
            result = CheckResult(name, float(np.nan_to_num(size, nan=np.inf)), explanation + numbers)
        except IncompatibleError as error:
            result = CheckResult(name, np.nan, str(error))
        except (GlassformerError, ArithmeticError, ValueError) as error:
            result = CheckResult(name, np.inf, f"it raised {type(error).__name__}: {error}")
        results.append(result)
    return Report(model.name, tuple(results))
