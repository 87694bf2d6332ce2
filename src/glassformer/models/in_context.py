"""Linear regression in context: a layer of linear attention learns from sequences to solve regression tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.channels.scalar.in_context import InContextChannel
from glassformer.core.checks import is_number, real_numbers
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.frozen import set_fields
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_grid
from glassformer.core.settings import check_settings, non_negative
from glassformer.designs.base import Design
from glassformer.designs.context import ContextDesign
from glassformer.models.base import LARGEST, SMALLEST, FiniteSize, Model, is_ratio
from glassformer.models.comparison import NewInputs
from glassformer.models.task_features import Contexts, TaskFeatures
from glassformer.priors.bilinear import GaussianMatrixPrior
from glassformer.random_matrices.sample_covariance import SampleCovariance

# Fluctuations of the error near as many sequences as weights were measured at this size.
_SIZE_REMARK = "runs differ from theory by terms of order 1/d, most near alpha = 1 (at d = 100 by up to 14 %)"


@dataclass(frozen=True)
class InContextRegression(Model):
    r"""Linear regression in context by a layer of linear attention, learned from :math:`n = \alpha d^2` sequences.

    Equation :eq:`model-icl` of the documentation.

    A sequence has a task ``w``, one of :math:`k = \kappa d`, labelled tokens :math:`(x_i, y_i)`,
    :math:`i\le l = \alpha_cd`, and a query ``g``, all standard normal but
    :math:`y_i = w\cdot x_i/\sqrt d + \sqrt\rho\,z_i`. Linear attention predicts the label of the query by

    .. math:: \hat y = \frac1{\sqrt d}\,g^T\Gamma h, \qquad h = \frac{\sqrt d}l\sum_{i\le l}y_ix_i,

    with a matrix :math:`\Gamma` of ``d`` rows and columns, which is learned. Ridge regression minimises
    :math:`\sum_\mu(y_\mu - \hat y_\mu)^2 + \lambda d\|\Gamma\|_F^2`; estimates are :math:`\sqrt d\,\Gamma`. Errors are
    mean squares on noisy labels: ``test_error`` on new sequences of the training tasks, ``new_task_error`` on sequences
    of new tasks, ``training_error`` on the training sequences.

    Features :math:`gh^T` are treated as Gaussian ones of the same covariance. This is not proven, and agrees with runs.
    The sum of the squared labels of the context, on which a layer may depend too, is left out: it changes errors by
    terms of order ``1/d``.

    Args:
        context: :math:`\alpha_c = l/d > 0`; may be ``inf``, where contexts show their tasks.
        tasks: :math:`\kappa = k/d > 0`; ``inf`` for a new task in every sequence.
        noise: variance :math:`\rho\ge0` of the noise of all labels.
        task_spectrum: eigenvalues of the covariance of the tasks, each of the same multiplicity; ones by default.
        test_context: context of new tasks, if another.
        test_noise: noise of new tasks, if another.
        test_spectrum: eigenvalues of the covariance of new tasks along the same directions, if others.

    Raises:
        ParameterError: an argument is out of range.

    Source: Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, arXiv:2405.11751, without a penalty. Its ridge regression at any
    strength, other contexts, noise and tasks in the test, and descent in time are derived here.

    Example:
        >>> from glassformer import Ridge, limits
        >>> model = InContextRegression(context=1.0, tasks=2.0, noise=0.25)
        >>> found = limits(model, [0.5], Ridge(0.05))
        >>> found["training_error"].round(5), found["test_error"].round(5), found["new_task_error"].round(5)
        (array([0.0029]), array([1.59218]), array([1.7156]))
    """

    context: float = parameter("labelled tokens over d, l/d; inf allowed", 2.0, usual=(0.5, 10.0))
    tasks: float = parameter("training tasks over d, k/d; inf allowed", 1.0, usual=(0.1, 3.0))
    noise: float = parameter("label noise variance rho", 0.1, usual=(0.0, 1.0), check=non_negative)
    task_spectrum: Sequence[float] | None = parameter(
        "eigenvalues of the covariance of the tasks, as a comma list", None, read=parse_grid
    )
    test_context: float | None = parameter("context of new tasks, if another; inf allowed", None, usual=(0.5, 10.0))
    test_noise: float | None = parameter(
        "label noise of new tasks, if another", None, usual=(0.0, 1.0), check=non_negative
    )
    test_spectrum: Sequence[float] | None = parameter(
        "eigenvalues of the covariance of new tasks, if others", None, read=parse_grid
    )

    name = "icl"
    well_specified = False
    theory_unavailable_reason = "model icl: no state evolution of the learned map is known"
    remarks = ("features are treated as Gaussian ones of the same covariance, which is not proven",)

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("context", "tasks", "test_context"):
            value = getattr(self, name)
            if not (is_ratio(value) or (is_number(value) and value == np.inf) or (value is None and "_" in name)):
                raise ParameterError(name, value, f"> 0 ({SMALLEST:g} to {LARGEST:g}, or inf)")
        for name in ("task_spectrum", "test_spectrum"):
            value = getattr(self, name)
            if value is not None:
                numbers = real_numbers(name, value).ravel()
                if not np.all(numbers > 0):
                    raise ParameterError(name, value, "positive eigenvalues", "give a small number instead of zero")
                set_fields(self, **{name: tuple(numbers.tolist())})
        trained, new = self.task_spectrum, self.test_spectrum
        if trained is not None and new is not None and len(trained) != len(new):
            raise ParameterError("test_spectrum", new, f"{len(trained)} eigenvalues, as many as task_spectrum has")

    @cached_property
    def channel(self) -> InContextChannel:
        """The channel of the label of the query."""
        return InContextChannel(float(self.noise))

    @property
    def prior(self) -> GaussianMatrixPrior:
        """Standard normal numbers, from which the tasks are made."""
        return GaussianMatrixPrior()

    @property
    def parameters(self) -> dict[str, Any]:
        optional = {name: getattr(self, name) for name in ("test_context", "test_noise")}
        spectra = {name: getattr(self, name) for name in ("task_spectrum", "test_spectrum")}
        return {
            "context": float(self.context),
            "tasks": float(self.tasks),
            "noise": float(self.noise),
            **{name: float(value) for name, value in optional.items() if value is not None},
            **{name: list(value) for name, value in spectra.items() if value is not None},
            "alpha": "n/d^2",
        }

    @property
    def features(self) -> TaskFeatures:
        new = self.test_spectrum or self.task_spectrum or (1.0,)
        training = Contexts(np.array(self.task_spectrum or [1.0] * len(new)), float(self.context), float(self.noise))
        return TaskFeatures(SampleCovariance(training.values, float(self.tasks)), training, self._new(np.array(new)))

    def _new(self, values: Array) -> Contexts:
        """Return new tasks of a covariance, and their contexts."""
        context = self.context if self.test_context is None else self.test_context
        return Contexts(values, float(context), float(self.noise if self.test_noise is None else self.test_noise))

    # --- data ---------------------------------------------------------------------------------------------------------

    def at_size(self, d: int) -> FiniteSize:
        """Return the model at whole numbers of labelled tokens and tasks, at least one each."""
        ratios = {name: getattr(self, name) for name in ("context", "tasks", "test_context")}
        whole = {name: max(1, round(ratio * d)) / d for name, ratio in ratios.items() if ratio and np.isfinite(ratio)}
        return FiniteSize(self.varied(**whole), ContextDesign, (2, d), float(d * d), (_SIZE_REMARK,))

    def inputs_at(self, d: int) -> tuple[type[Design], int]:
        raise IncompatibleError("model icl has no inputs of a user: use simulate, which draws contexts of tasks")

    def signal_shape(self, design: Design) -> tuple[int, ...]:
        d = design.signal_shape[1]
        return (design.samples if np.isinf(self.tasks) else round(self.tasks * d), d)

    def labelled(self, design: Design, signal: Array, rng: np.random.Generator) -> tuple[Design, Array]:
        """Return the contexts of random tasks, and the labels of their queries."""
        tasks = signal * np.sqrt(_spread(self.task_spectrum, signal.shape[1]))
        length = round(self.context * signal.shape[1]) if np.isfinite(self.context) else np.inf
        several = bool(np.isfinite(self.tasks))
        drawn = ContextDesign(next(design.parts()))
        contexts, labels, noise = drawn.with_tasks(tasks, length, float(self.noise), rng, several=several)
        return contexts, labels + noise

    def measured(
        self, estimate: Array, signal: Array, variance: Array | None = None, new: NewInputs | None = None
    ) -> dict[str, Any]:
        """Return the errors of a map on new sequences of the training tasks and of new ones, exact at this size."""
        del variance, new
        d, trained = len(estimate), _spread(self.task_spectrum, signal.shape[1])
        covariance = np.diag(trained)
        if np.isfinite(self.tasks):
            tasks = signal * np.sqrt(trained)
            covariance = tasks.T @ tasks / len(tasks)
        values = _spread(self.test_spectrum or self.task_spectrum, d)
        gamma = estimate / np.sqrt(d)
        return {
            "test_error": _error(gamma, covariance, Contexts(np.diag(covariance), self.context, self.noise)),
            "new_task_error": _error(gamma, np.diag(values), self._new(values)),
        }


def _spread(spectrum: Sequence[float] | None, d: int) -> Array:
    """Return the eigenvalue of every dimension."""
    values = np.array(spectrum or (1.0,))
    return np.asarray(values[np.arange(d) * len(values) // d])


def _error(gamma: Array, covariance: Array, contexts: Contexts) -> float:
    """Return the squared error of a map on noisy labels of tasks of a covariance, over queries and contexts."""
    d, off = len(gamma), np.eye(len(gamma)) - gamma
    squares = np.sum(off @ covariance * off) + contexts.scatter * np.sum(gamma**2)
    # The tokens of a finite context are not uncorrelated along its task.
    along = np.sum(gamma @ covariance * gamma) / contexts.context / d
    return float(contexts.noise + (squares + along) / d)
