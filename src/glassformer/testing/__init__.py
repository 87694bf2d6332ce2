"""Checks of a model's parts against each other, for users who bring a link, a channel, a prior or a design."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.models.base import Model
from glassformer.testing import channels, data, theory
from glassformer.testing.report import Case, Check, Report, Worst

# Every check, and what its failure means.
CHECKS: dict[str, tuple[Callable[[Case], float | Worst], str]] = {
    "score": (channels.score, "score and log_partition contradict each other: one of them has a wrong factor or sign"),
    "Nishimori": (
        channels.nishimori,
        "labels, score and information do not belong to one law: check that sample draws from the law whose "
        "log_partition is given, and how the noise is normalised",
    ),
    "information": (channels.information, "state evolution uses another information than labels have: "),
    "thresholds": (theory.weak_recovery, "a threshold is where labels tell too much already: "),
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
        "message passing does not reach what theory promises: a larger d tells a finite-size effect from a mistake",
    ),
}


def check_model(model: Model, alpha: float | None = None, d: int = 60, seed: int = 0) -> Report:
    r"""Check a model's parts against each other and against data of finite size.

    - *score*: :math:`g = \partial_\omega\log Z_{out}`, by differences.
    - *Nishimori*: on labels that the channel draws itself, :math:`E\,g = 0`, :math:`E|g|^2 = E[-\partial_\omega g]`,
      and both are the information that state evolution uses; the mean of :math:`\log Z_{out}` is the expected one. The
      density, mean and variance of a label law of one's own are those of the labels that it draws.
    - *information*: what state evolution uses is the mean of score times true deviation, which is linear in any mistake
      of the score, and not below what labels sorted into cells tell (:mod:`~glassformer.state_evolution.bounds`).
    - *thresholds*: none of weak recovery is above the bound that labels sorted into cells give.
    - *gradient*: the free entropy is stationary where state evolution stands still.
    - *denoiser*: the error that the prior claims is the one its denoiser makes on a signal that it draws.
    - *size*: message passing on data agrees with theory.

    Averages may be off by five standard errors, the last two also by what is usual at a size of ``d``.

    Args:
        model: one of the package's, or one with parts of your own.
        alpha: sample ratio of the last two checks; by default where there is something to learn.
        d: token dimension of the last two.
        seed: of everything drawn.

    Returns:
        :class:`Report`; ``ok`` where nothing was found, otherwise each failure explained in its text.

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
    case = Case(model, alpha, d, seed)
    return Report(model.name, tuple(_made(name, case) for name in CHECKS))


def _made(name: str, case: Case) -> Check:
    measure, explanation = CHECKS[name]
    try:
        found = measure(case)
        deviation, numbers = found if isinstance(found, Worst) else (found, "")
        return Check(name, float(np.nan_to_num(deviation, nan=np.inf)), explanation + numbers)
    except IncompatibleError as error:
        return Check(name, np.nan, str(error))
    except (GlassformerError, ArithmeticError, ValueError) as error:
        return Check(name, np.inf, f"it raised {type(error).__name__}: {error}")
