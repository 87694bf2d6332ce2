r"""What regularised risk reaches over a range of sample ratios."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.models.base import Model, require_theory
from glassformer.risk.fixed_points import refined, solved
from glassformer.risk.loss import Loss
from glassformer.risk.penalties import Learned, Penalty
from glassformer.risk.points import Point
from glassformer.risk.problem import Problem
from glassformer.risk.tuning import tuned
from glassformer.state_evolution.solve import validated_alpha


def risk_limits(
    model: Model, alpha: ArrayLike, loss: Loss, penalty: Penalty, strength: float | None, throw: bool = True
) -> Table:
    r"""Error, overlap and spectrum of the minimiser of a regularised risk at each sample ratio.

    Equation :eq:`regularised-risk` of the documentation.

    The estimate minimises :math:`\sum_\mu\ell(y_\mu, h_\mu) + \lambda\,[w_1 N\|S\|_* + \frac{w_2}2\|S\|_F^2]`, with
    :math:`N = (dL)^{1/4}` for bilinear sequence regression. For attention-indexed models it is positive and minimises
    :math:`\frac14\sum_\mu\|Y_\mu - h_\mu\|_F^2 + \lambda d\,\mathrm{Tr}\,S`, which is what weight decay on factors of
    full width does; with the penalty ``pinned`` the trace is that of the teacher instead, as labels that are not
    centred, :math:`x_a^TSx_b/\sqrt d`, show it, and weight decay has no effect.

    Args:
        model: of the teacher: a prior of extensive width and a channel of which a linear fit learns.
        alpha: sample ratios, finite and > 0.
        loss: convex, of :mod:`glassformer.risk.losses`.
        penalty: weights, of :mod:`glassformer.risk.penalties`.
        strength: :math:`\lambda\ge 0`, 0 for the interpolator of least norm (square loss); None for the strength of
            least error, of labels that are right or wrong that of the largest cosine (for signs and hardmax, of least
            label error), and where the trace is pinned.
        throw: raise when a row did not converge.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``error``
        (:math:`E = Q_0 - 2m + q`), ``overlap`` (``m``), ``power`` (``q``), ``cosine`` (:math:`m/\sqrt{qQ_0}`),
        ``label_error`` (share of new labels +1 and -1, or rows of hardmax labels, without their own noise, that those
        of the fitted field miss, as in :func:`~glassformer.state_evolution.limits.limits`),
        ``training_loss`` and ``test_loss`` (means of the loss over samples), ``rank`` (of the estimate, per dimension
        of the smaller side), ``degrees`` (of freedom), ``effective_noise`` (:math:`\tau^2`), ``threshold``
        (:math:`\theta`, by which singular values are lowered), ``strength`` (NaN where it has no effect),
        ``error_estimate`` (absolute, of ``error``), ``residual`` and ``iterations``.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the model, loss and penalty do not go together.
        ConvergenceError: with ``throw``, a row did not converge.

    Source: derived here; for positive matrices Erba et al., arXiv:2505.17958.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.risk.losses import Square
        >>> from glassformer.risk.penalties import penalty_of
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0)
        >>> risk_limits(model, [0.5], Square(), penalty_of("nuclear"), 0.1)["error"].round(8)
        array([0.24076464])
    """
    alpha = validated_alpha(alpha)
    if np.any(alpha <= 0):
        raise ParameterError("alpha", float(alpha.min()), "> 0: regularised risk learns from samples")
    problem = solvable(model, loss, penalty, strength)
    point = tuned(problem, alpha) if strength is None else solved(problem, alpha, np.full_like(alpha, strength))
    point = refined(problem, alpha, point)
    table = Table(
        model=model.name,
        parameters=model.parameters,
        columns=_columns(problem, alpha, point),
        status=point.told,
        notes=_notes(problem, alpha, point) if strength is None else [],
    )
    if throw:
        table.raise_unless_converged()
    return table


def solvable(model: Model, loss: Loss, penalty: Penalty, strength: float | None) -> Problem:
    """The problem, if it has a theory.

    Raises:
        IncompatibleError: no theory of the model is known, or what :func:`checked` refuses.
    """
    require_theory(model)
    return checked(model, loss, penalty, strength)


def checked(model: Model, loss: Loss, penalty: Penalty, strength: float | None) -> Problem:
    """The problem, to be minimised on data, if model, loss and penalty go together.

    Raises:
        IncompatibleError: they do not.
    """
    prior = model.prior
    if model.overlap_shape:
        told = "the risk of several rows or layers is not convex, its saddle point over overlaps may be unstable"
        remedy = "the theory of risk leaves it out: take another learner, or none for the best that can be reached"
        raise IncompatibleError(f"model {model.name}: {told}, and {remedy}")
    if not getattr(prior, "extensive", False):
        raise IncompatibleError(
            f"{_narrow(model)}the theory of risk is for bsr and aim of extensive width: give rho > 0"
        )
    if getattr(model.channel, "root", ()):
        given = f"token_correlation = {model.parameters['token_correlation']}"
        raise IncompatibleError(f"{given}: the theory of risk is for independent tokens; leave it out, or use gamp")
    if prior.symmetric != penalty.positive:
        fitting = "trace or pinned" if prior.symmetric else "nuclear, ridge or elastic"
        raise IncompatibleError(f"this penalty is not for the matrices of model {model.name}: use {fitting}")
    if penalty.pinned and not model.channel.linear:
        raise IncompatibleError(f"labels of channel {model.channel.label} do not show a trace: use penalty trace")
    if penalty.pinned and strength is not None:
        raise IncompatibleError(f"strength = {strength} has no effect where the trace is pinned: leave it out")
    several = prior.symmetric and not model.channel.linear and bool(model.channel.field_components)
    if several and loss.quadratic:
        told = f"loss {loss.name} has no theory for labels of channel {model.channel.label} of several indices"
        raise IncompatibleError(f"{told}: use cross-entropy, or channel linear")
    if loss.binary and set(model.channel.values) != {-1.0, 1.0}:
        noisy = " with noise" if model.parameters.get("noise") else ""
        told = f"loss {loss.name} is for labels +1 and -1, not for those of channel {model.channel.label}{noisy}"
        raise IncompatibleError(f"{told}: use {'cross-entropy' if prior.symmetric else 'square or huber'}")
    if strength == 0 and not loss.quadratic:
        raise IncompatibleError(f"strength = 0 is a limit of loss square alone, not of {loss.name}: give one > 0")
    return Problem(model, loss.adapted(model.channel), penalty)


def _narrow(model: Model) -> str:
    """What of a model stands against it."""
    given = ((name, model.parameters.get(name)) for name in ("width", "rho"))
    return next((f"{name} = {value:g}: " for name, value in given if value is not None), f"model {model.name}: ")


def _columns(problem: Problem, alpha: Array, point: Point) -> dict[str, Array]:
    found = point.found
    with np.errstate(divide="ignore", invalid="ignore"):
        threshold = problem.threshold(alpha, point.strength, point.fields)
    return {
        "alpha": alpha,
        **of_learned(problem, found),
        "training_loss": point.answer.training_loss,
        "test_loss": point.answer.test_loss,
        "rank": found.rank,
        "degrees": found.degrees,
        "effective_noise": problem.noise(point.fields),
        "threshold": threshold,
        "strength": point.strength,
        "error_estimate": point.error_estimate,
        "residual": point.residual,
        "iterations": point.iterations.astype(float),
    }


def of_learned(problem: Problem, found: Learned) -> dict[str, Array]:
    """How good an estimate is, as columns of a table."""
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = found.overlap / np.sqrt(found.power * problem.power)
    wrong = {"label_error": problem.labels.wrong(found)} if problem.labels.decided else {}
    return {"error": found.error, "overlap": found.overlap, "power": found.power, "cosine": cosine, **wrong}


def _notes(problem: Problem, alpha: Array, point: Point) -> list[str]:
    """Where the best strength is at an end of what was looked at, or best for something else than the error."""
    none, small = point.strength == 0, point.strength <= 1e-3 * problem.largest_strength(alpha)
    told = {"no penalty at all is best, the limit of small strength": none}
    if not problem.loss.quadratic:
        text = "the best strength is below a thousandth of the largest useful one, and little depends on it"
        told[text] = small & ~none
    if problem.labels.decided:
        text = "the best strength is that of largest cosine (signs: least label_error): the error is not tuned"
        told[text] = point.found.error > problem.power
    return [f"alpha = {', '.join(f'{a:g}' for a in alpha[rows])}: {text}" for text, rows in told.items() if rows.any()]
