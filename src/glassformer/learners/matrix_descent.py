r"""Theory of gradient descent on matrices in time, and runs at a fixed rate, which it describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.core.checks import is_whole
from glassformer.core.errors import IncompatibleError
from glassformer.core.results import name_or_value
from glassformer.core.settings import non_default_fields
from glassformer.core.status import Status
from glassformer.learners.base import FitResult, Learner, SpectralMap, StepContext, Theory
from glassformer.learners.descent import MatrixDescent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.dynamics.matrix_descent import Rule
    from glassformer.dynamics.matrix_path import MatrixPath, MatrixSettings
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model

# Settings of runs until the objective is flat, which the equations do not describe.
_OF_RUNS = ("explore", "floor")
_OPEN = "training until the objective is flat, with restarts at smaller rates, has no closed equations"


def rule_of(learner: MatrixDescent, model: Model, steps: int) -> Rule:
    """Return the steps of a descent at a fixed rate; unset values are the model's defaults, without exploration."""
    from glassformer.dynamics.matrix_descent import Rule

    name, rate = learner.rule(model.parametrisation.rates)
    return Rule(name, rate, learner.momentum, learner.weight_decay, steps)


@dataclass(frozen=True)
class MatrixDescentTheory(Theory):
    """Equations of gradient descent on a matrix, with a fixed rate and a given number of steps."""

    learner: MatrixDescent

    history_includes_start: ClassVar[bool] = True
    crossing_width: ClassVar[float | None] = 0.02

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        """Return what so many steps reach, and the step at which they are best stopped."""
        from glassformer.bayes_optimal.solve import validated_alpha
        from glassformer.dynamics.matrix_path import path_limits

        steps = self.learner.steps
        if steps is None:
            reached = self.model.parametrisation.reached
            raise IncompatibleError(
                f"{_OPEN}: give steps, for the theory of so many steps at a fixed rate" + (reached and f"; {reached}")
            )
        found = path_limits(self._paths(validated_alpha(alpha), StepContext(steps)))
        if throw:
            found.raise_unless_converged()
        return self._labelled(found)

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.dynamics.matrix_path import path_table

        return self._labelled(path_table(self._paths(alpha, context)))

    def spectral_map(self, limit: Table) -> SpectralMap:
        del limit
        raise IncompatibleError(f"the singular values of {self.learner.name} change with its steps: give step")

    def values_after(self, alpha: float, step: int) -> tuple[Table, Array]:
        from glassformer.dynamics.matrix_path import path_limits

        if self.learner.averages:
            raise IncompatibleError(
                f"no law of the singular values of the mean of {self.learner.name} is known: use learner gd"
            )
        paths = self._paths(np.array([alpha]), StepContext(step))
        return self._labelled(path_limits(paths)), paths[0].final_values

    def _paths(self, alpha: Array, context: StepContext) -> list[MatrixPath]:
        """Return the descent at each sample ratio; equal ones are computed once."""
        from glassformer.dynamics.matrix_path import matrix_path

        if context.overlap is not None:
            raise IncompatibleError(
                f"overlap = {context.overlap:g} is not a start of {self.learner.name}: leave it out"
            )
        settings = self._settings(context)
        solved = {ratio: matrix_path(self.model, ratio, settings) for ratio in dict.fromkeys(alpha.tolist())}
        return [solved[ratio] for ratio in alpha.tolist()]

    def _settings(self, context: StepContext) -> MatrixSettings:
        from glassformer.dynamics.matrix_path import MatrixSettings

        own = self.learner
        for name in _OF_RUNS:
            value = getattr(own, name)
            if value:
                raise IncompatibleError(
                    f"{name} = {value:g} has no effect on the equations of {own.name}: leave it out"
                )
        count = own.completed(self.model).initialisations or 1
        return MatrixSettings(
            rule_of(own, self.model, context.steps),
            start=own.initialisation.size,
            width=self._width(context.d),
            starts=count if own.averages else 1,
            replicas=min(count, 2),
            size=own.accurate("matrix_size"),
            draws=own.accurate("draws"),
            trajectories=own.accurate("trajectories"),
        )

    def _width(self, d: int | None) -> float | None:
        """Return the width of the student over ``d``."""
        width = self.learner.student_width
        if width is None or not is_whole(width, 1):
            return None if width is None else float(width)
        if d is None:
            raise IncompatibleError(
                f"student_width = {width} refers to a token dimension: give its ratio to d, with a decimal point, or "
                "runs of a dimension d"
            )
        return float(width / d)

    def _labelled(self, found: Table) -> Table:
        """Return a result with the learner and its settings among its parameters."""
        rule = rule_of(self.learner, self.model, 1)
        settings = {**non_default_fields(self.learner), **{name: getattr(rule, name) for name in rule._fields[:2]}}
        return self.labelled(found, **{name: name_or_value(value) for name, value in settings.items()})

    def thresholds(self) -> Thresholds:
        raise IncompatibleError(f"{_OPEN}: use learner gamp, or risk")

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        reached = self.model.parametrisation.reached
        raise IncompatibleError(
            f"{_OPEN}: use trajectory with d, whose runs have a fixed rate" + (reached and f"; {reached}")
        )

    def display_columns(self, table: Table) -> list[str]:
        names = ("label_error", "prediction_error", "training_error", "steps", "early_stop", "early_stopped_error")
        return table.known_columns(names)

    def curves(self, table: Table, quantity: str) -> dict[str, tuple[Array, Array, Array]]:
        """Return a quantity after the last step, and where the error on new labels is least."""
        early = f"early_stopped_{quantity}"
        return {
            self.learner.name: self.curve(table, quantity),
            f"{self.learner.name}_early_stopped": self.curve(table, early, "early_stopped_error"),
        }

    def remark(self, alpha: float) -> str:
        table = self.limits([alpha])
        return f"after {table['steps'][0]:g} steps, best stopped at step {table['early_stop'][0]:g}"

    def simulated(self, context: StepContext) -> Learner:
        """Return the descent with these steps at a fixed rate; its history has every step."""
        rule = rule_of(self.learner, self.model, context.steps)
        return self.learner.at_fixed_rate(rule.optimizer, rule.learning_rate, rule.steps)


def learn_at_fixed_rate(learner: MatrixDescent, model: Model, data: DataSet) -> FitResult:
    """Return the result of a given number of steps at a fixed rate, without restarts, exploration or early end."""
    from glassformer.dynamics.matrix_descent import descend_matrix, student_of
    from glassformer.dynamics.mean_field_samples import Samples

    columns, samples = data.design.signal_shape[1], Samples(data.design, data.labels, data.design.samples)
    student = student_of(model, samples, learner.width_at(columns) or model.matrix_prior.factor_width(columns))
    rule, rng = rule_of(learner, model, learner.steps or 1), data.rng
    shapes = [(learner.initialisations or 1, *shape) for shape in student.parameters]
    start = [learner.initialisation.size * rng.standard_normal(shape) for shape in shapes]
    last, history = np.zeros(0), list[dict[str, Any]]()

    def watch(step: int, signals: Array, errors: Array) -> None:
        nonlocal last
        last = learner.estimates(signals)
        training_error = 4 * float(np.mean(errors)) / data.design.samples
        measured = _measured(model, data.teacher, last)
        history.append(
            {"step": step, "training_error": training_error, **_spectrum(signals / student.unit), **measured}
        )

    finite = descend_matrix(samples, student, start, rule, watch)
    errors = [entry["error"] for entry in history if "error" in entry]
    return FitResult(
        last,
        status=Status.CONVERGED if finite else Status.DIVERGING,
        iterations=history[-1]["step"],
        residual=0.0,
        training_error=history[-1]["training_error"],
        early_stopped_error=min(errors) if errors else None,
        history=history,
    )


def _spectrum(signals: Array) -> dict[str, float]:
    """Return means of the singular values of all starts, and of the largest ones."""
    from glassformer.numerics.decompositions import singular_values

    values = singular_values(signals)
    return {"nuclear_norm": float(values.mean()), "largest_singular_value": float(values[:, 0].mean())}


def _measured(model: Model, teacher: Array | None, estimates: Array) -> dict[str, float]:
    """Return overlap and errors of estimates, as theory has them; empty without a teacher."""
    from glassformer.dynamics.matrix_path import inner, label_errors

    if teacher is None:
        return {}
    power = np.array([inner(model, one, one) for one in estimates])
    overlap = np.array([inner(model, one, teacher) for one in estimates])
    overlap = np.abs(overlap) if model.channel.labels.even else overlap
    own = np.full(len(estimates), inner(model, teacher, teacher))
    found = {"error": float(np.mean(own - 2 * overlap + power)), "overlap": float(np.mean(overlap))}
    if model.channel.labels.linear:
        return found | {"prediction_error": found["error"]}
    orders = {"power": power, "overlap": overlap, "teacher_power": own}
    return found | {name: float(value.mean()) for name, value in label_errors(model, orders).items()}
