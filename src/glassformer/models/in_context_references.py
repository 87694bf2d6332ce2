r"""What predictors other than a trained layer reach in context: references for curves of regression in context.

The best predictor for new tasks of a normal law is ridge regression on the labelled tokens of the context, and so is
the best one that knows no more of the training tasks than their covariance ``R``. The latter solves

.. math:: \alpha_c\Delta = \rho + \Delta\,(1 - \Delta m(\Delta)), \qquad m(\Delta) = \frac1d\mathrm{Tr}\,(R+\Delta)^{-1}

with the error :math:`\rho + \Delta(1-\Delta m)`. Message passing reaches it in steps; the first of them, with
:math:`\Delta_0 = (t+\rho)/\alpha_c`, is one layer of linear attention that has seen infinitely many sequences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glassformer.core.checks import require_integer
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.models.in_context import InContextRegression
from glassformer.models.task_features import Contexts
from glassformer.random_matrices.sample_covariance import SampleCovariance

# Steps to the fixed point, which they approach geometrically, and their last relative change.
_STEPS, _LAST = 100_000, 1e-14


class ContextErrors(NamedTuple):
    """Errors of a predictor in context, label noise included.

    Attributes:
        test_error: on sequences of the training tasks.
        new_task_error: on sequences of new tasks.
    """

    test_error: float
    new_task_error: float


def in_context_references(model: InContextRegression) -> dict[str, ContextErrors]:
    r"""Return the errors of four predictors in context, which no number of sequences changes.

    - ``best_for_new_tasks``: the posterior mean under the law of new tasks; for standard normal ones the error is
      :math:`\rho + v` with :math:`v^2 + (\alpha_c + \rho - 1)v = \rho`. It is Bayes-optimal on new tasks.
    - ``covariance_of_tasks``: ridge regression with the covariance of the training tasks.
    - ``one_layer``: one layer of linear attention after infinitely many sequences.
    - ``list_of_tasks``: the posterior mean over the training tasks. It finds the task of a training sequence, and on
      new tasks ends at a wrong one; runs approach this error slowly, like :math:`\log k/d`.

    Args:
        model: with a finite context, and new tasks of the same law, context and noise.

    Raises:
        IncompatibleError: the context is infinite, or that of new tasks is another.

    Source: derived here.

    Example:
        >>> found = in_context_references(InContextRegression(context=1.0, tasks=0.5, noise=0.25))
        >>> round(found["best_for_new_tasks"].new_task_error, 5)
        0.64039
        >>> tuple(round(error, 5) for error in found["covariance_of_tasks"])
        (0.40188, 1.12712)
    """
    training = _require(model)
    steps = layer_errors(model, _STEPS)
    everyone = layer_errors(model.varied(tasks=np.inf), _STEPS)
    noise, power = training.noise, training.power
    finite = np.isfinite(model.tasks)
    return {
        "best_for_new_tasks": ContextErrors(float(everyone[0][-1]), float(everyone[0][-1])),
        "covariance_of_tasks": ContextErrors(float(steps[0][-1]), float(steps[1][-1])),
        "one_layer": ContextErrors(float(steps[0][1]), float(steps[1][1])),
        "list_of_tasks": ContextErrors(noise if finite else np.nan, noise + 2 * power if finite else np.nan),
    }


def layer_errors(model: InContextRegression, layers: int) -> tuple[Array, Array]:
    r"""Return errors on the training tasks and on new ones after steps of message passing in context.

    Equation :eq:`in-context-layers` of the documentation.

    .. math:: E_{k+1} = \rho + \Delta_k\,(1 - \Delta_km(\Delta_k)), \qquad \Delta_k = E_k/\alpha_c

    with :math:`E_0 = t + \rho`. The first step is one layer of linear attention after infinitely many sequences, and
    each further one would take another layer. Steps end where errors no longer change.

    Args:
        model: as for :func:`in_context_references`.
        layers: number of steps.

    Returns:
        Two arrays of at most ``layers + 1`` errors, before the first step and after each.

    Raises:
        ParameterError: the number of steps is no positive integer.
        IncompatibleError: the context is infinite, or that of new tasks is another.

    Example:
        >>> trained, new = layer_errors(InContextRegression(context=2.0, tasks=0.5, noise=0.1), 2)
        >>> trained.round(4), new.round(4)
        (array([1.1   , 0.2931, 0.1648]), array([1.1   , 0.8024, 0.7695]))
    """
    require_integer("layers", layers)
    training = _require(model)
    law, values, noise = SampleCovariance(training.values, float(model.tasks)), training.values, training.noise
    trained, new = [training.power + noise], [training.power + noise]
    for _ in range(layers):
        delta = trained[-1] / training.context
        found = law.resolvent(np.array(delta))
        bias = float(np.mean(values * (found.z**2 * found.slope)))
        spread = float(np.mean(found.known * (found.known + found.z * found.f * found.spread)))
        trained.append(noise + delta * float(np.mean(found.known)))
        new.append(noise + bias + spread * new[-1] / training.context)
        if abs(trained[-1] - trained[-2]) + abs(new[-1] - new[-2]) <= _LAST * new[-1]:
            break
    return np.array(trained), np.array(new)


def _require(model: InContextRegression) -> Contexts:
    """Return tasks and contexts of training, which have to be those of the test as well."""
    training = model.features.training
    new = model.features.new
    if not np.isfinite(training.context):
        raise IncompatibleError("context = inf shows the task itself: give a finite context")
    if (new.context, new.noise) != (training.context, training.noise) or not np.array_equal(
        new.values, training.values
    ):
        raise IncompatibleError("references are for new tasks of the same law and context: leave out test_ parameters")
    return training
