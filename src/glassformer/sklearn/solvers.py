"""How estimators learn: the table of solvers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from glassformer.core.checks import is_number, require_integer
from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array
from glassformer.core.settings import Iteration
from glassformer.learners.risk_path import CrossValidation, cross_validate, risk_path


class Task(NamedTuple):
    """One signal to be learned.

    Attributes:
        design: of the scaled inputs.
        labels: +1 and -1, or numbers of mean zero and variance one.
        weights: of the samples, > 0.
        groups: equal for samples that are equal.
        intercept: whether a constant is to be fitted.
    """

    design: Any
    labels: Array
    weights: Array
    groups: NDArray[np.int64]
    intercept: bool


class Signal(NamedTuple):
    """What was learned.

    Attributes:
        matrix: that sees scaled inputs.
        intercept: what is added to its fields.
        strength: of the penalty.
        iterations: steps of the last run.
        validation: what chose the strength, if anything did.
    """

    matrix: Array
    intercept: float
    strength: float
    iterations: int
    validation: CrossValidation | None


def by_risk(settings: Any, task: Task) -> Signal:
    """The minimiser of a regularised risk, at a given strength or the best one."""
    limit = Iteration(tolerance=settings.tolerance, max_iterations=settings.max_iterations)
    shared: dict[str, Any] = {"intercept": task.intercept, "weights": task.weights, "settings": limit}
    problem = (task.design, task.labels, settings.loss, settings.penalty)
    strength, validation = _strength(settings, task, problem, shared)
    wanted = [strength] if validation is None else validation.strengths[validation.strengths >= strength]
    path = risk_path(*problem, wanted, **shared)
    if not path.converged:
        text = f"a minimum was not reached within max_iterations = {settings.max_iterations}: raise it, or tolerance"
        warnings.warn(text, ConvergenceWarning, stacklevel=4)
    return Signal(path.estimates[-1], float(path.intercepts[-1]), strength, path.iterations, validation)


SOLVERS: dict[str, Callable[[Any, Task], Signal]] = {"risk": by_risk}


def solver_of(name: object) -> Callable[[Any, Task], Signal]:
    """The solver of this name.

    Raises:
        ParameterError: there is none.
    """
    if not (isinstance(name, str) and name in SOLVERS):
        raise ParameterError("solver", name, f"one of {', '.join(SOLVERS)}")
    return SOLVERS[name]


def _strength(
    settings: Any, task: Task, problem: tuple[Any, Array, Any, str], shared: dict[str, Any]
) -> tuple[float, CrossValidation | None]:
    """The strength asked for, and what chose it."""
    asked = settings.strength
    if is_number(asked) and 0 < asked < np.inf:
        return float(asked), None
    if not (isinstance(asked, str) and asked in CHOICES):
        raise ParameterError("strength", asked, f"{', '.join(CHOICES)}, or a number > 0")
    require_integer("folds", settings.folds, 2)
    folds = min(int(settings.folds), len(np.unique(task.groups)))
    if folds < 2:
        # A single sample, however often: nothing to hold back.
        return float(risk_path(*problem, 2, **shared).strengths[0]), None
    seed = int(check_random_state(settings.random_state).randint(2**31 - 1))
    found = cross_validate(*problem, settings.strengths, folds=folds, seed=seed, groups=task.groups, **shared)
    return CHOICES[asked](found), found


CHOICES: dict[str, Callable[[CrossValidation], float]] = {
    "cv": lambda found: found.best,
    "simplest": lambda found: found.simplest,
}
