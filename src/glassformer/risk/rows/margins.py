"""Distribution of the margins of a student, on the samples that it learned from and on new ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.results import Table
from glassformer.models.base import Model
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.small_matrices import cholesky, triangular_inverse
from glassformer.risk.rows.fixed_points import fixed_point_from
from glassformer.risk.rows.proximal_map import proximal_map
from glassformer.risk.rows.row_risk import ACCEPTED, RowRisk
from glassformer.risk.rows.student import Student

# Levels of the quantiles (a convention).
_LEVELS = np.linspace(0.01, 0.99, 99)


def row_risk_margins(model: Model, alpha: float, risk: RowRisk) -> Table:
    r"""Return quantiles of the margins at the minimum of a risk of rows.

    The margin of a sample is :math:`y\,s(Z)` for labels :math:`y = \pm1`; for classes it is the output of the true
    class minus the largest other output. Samples that were learned from have the fields :math:`\hat Z` of the proximal
    map, new samples the fields :math:`\omega`.

    Args:
        model: of the teacher, with labels +1 and -1 or classes.
        alpha: sample ratio.
        risk: loss, penalty, strength, student.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``level``, ``training_margin`` and ``test_margin``.

    Raises:
        IncompatibleError: labels are numbers, or the strength is open.
        ConvergenceError: the fixed point did not converge.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1).at_accuracy(Accuracy(points=256))
        >>> found = row_risk_margins(model, 2.0, RowRisk("logistic", strength=0.1))
        >>> bool(np.all(found["training_margin"] > found["test_margin"]))
        True
    """
    if risk.strength is None:
        raise IncompatibleError("strength = best has no margins of its own: give a number")
    problem = risk.problem(model, alpha, risk.strength)
    if not problem.student.values and set(np.unique(problem.sampler.samples.labels)) != {-1.0, 1.0}:
        raise IncompatibleError(
            f"labels of model {model.name} are numbers, which have no margin: use a loss of classes"
        )
    points = [fixed_point_from(problem, name, start) for name, start in risk.starts(problem).items()]
    best = min(points, key=lambda point: point.free_energy)
    samples = problem.sampler.samples
    _, fields = problem.sampler.fields(best.state)
    labels, omega = samples.labels.reshape(-1, samples.labels.shape[-1]), fields.reshape(-1, *fields.shape[2:])
    with jax_settings():
        arrays = map(jnp.asarray, (labels, omega, best.state.susceptibility, best.state.intercept))
        margins = CachedJit(_margins, student=problem.student)(*arrays)
    training, test = (np.quantile(np.asarray(part), _LEVELS) for part in margins)
    table = Table(
        model=model.name,
        parameters={**model.parameters, "alpha": alpha, "strength": risk.strength},
        columns={"level": _LEVELS, "training_margin": training, "test_margin": test},
        status=[best.status] * len(_LEVELS),
    )
    table.raise_unless_converged(accepted=ACCEPTED)
    return table


def _margins(
    y: jax.Array, omega: jax.Array, susceptibility: jax.Array, intercept: jax.Array, student: Student
) -> tuple[jax.Array, jax.Array]:
    """Return margins of the samples that are learned from, and of the same samples before."""
    lower = cholesky(susceptibility)
    starts = [jnp.zeros_like(omega)]
    fitted = proximal_map(student, y, omega, lower, triangular_inverse(lower), intercept, starts).fitted

    def margin(label: jax.Array, fields: jax.Array) -> jax.Array:
        outputs = student.predict(fields) + intercept
        if not student.values:
            return label[0] * outputs[0]
        others = jnp.where(label > 0, -jnp.inf, outputs)
        return jnp.sum(label * outputs) - jnp.max(others)

    every = jax.vmap(margin)
    return every(y, fitted), every(y, omega)
