"""Gradient descent on a linear map of features: its exact errors in time, and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.core.accuracy import refuse_unused
from glassformer.core.checks import is_number
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.resources import require_resources
from glassformer.core.results import Steps, Table, error_column
from glassformer.core.settings import non_default_fields
from glassformer.core.status import Status
from glassformer.learners.base import FitResult, Learner, StepContext, Theory
from glassformer.learners.descent import OnePassDescent, RowDescent, SameSamplesDescent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.core.estimate import Array
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model

# Nodes of the spectrum; half as many give the error estimate.
_NODES = 256
# Settings of descent on the same samples that have equations for features.
_SAME_SAMPLES = ("learning_rate", "weight_decay", "passes", "steps", "start", "record_every")
# Mean square of the weights, relative to that of the labels, above which descent has diverged.
_DIVERGED = 1e12


def check_descent(learner: RowDescent, allowed: tuple[str, ...] | None = None) -> None:
    """Raise unless descent on a map of features has equations for these settings.

    Raises:
        IncompatibleError: a setting has none; the text completes the sentence "learner NAME ...".
    """
    for name, value in non_default_fields(learner).items():
        if allowed is not None and name not in allowed and (name, value) != ("batch", 1.0):
            raise IncompatibleError(f"descends on all samples at once, with square loss: leave out {name} = {value}")
    if not (learner.learning_rate is None or is_number(learner.learning_rate)):
        raise IncompatibleError("descends on a map of features at one learning_rate: give a number")
    begin = learner.initialisation
    if begin.overlap is not None or begin.matrices is not None:
        raise IncompatibleError(f"begins with random maps: use start = small:SIZE instead of {learner.start}")
    refuse_unused(learner.given_accuracy, (), f"{learner.name} on a map of features")


def check_same_samples(sgd: SameSamplesDescent) -> None:
    """Raise unless descent on the same samples has equations for these settings."""
    check_descent(sgd, _SAME_SAMPLES)


def rate_of(sgd: SameSamplesDescent, model: Model, alpha: float) -> float:
    """Return the learning rate, by default one over the largest curvature of the loss."""
    from glassformer.dynamics.feature_descent import largest_eigenvalue

    if sgd.learning_rate is not None:
        return float(sgd.learning_rate)
    return 1 / largest_eigenvalue(model.features.nodes(_NODES), alpha)


@dataclass(frozen=True)
class FeatureDescentTheory(Theory):
    """Exact errors of gradient descent on the same samples, from contour integrals of two resolvents."""

    learner: SameSamplesDescent

    history_includes_start: ClassVar[bool] = True
    of_features: ClassVar[bool] = True

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        """Return what the steps of the settings reach, and the step at which they are best stopped."""
        from glassformer.bayes_optimal.solve import validated_alpha

        ratios, steps = validated_alpha(alpha), self.learner.steps or self.learner.passes
        path = self.trajectory(ratios, StepContext(steps))
        main, shape = path.main, (len(ratios), steps + 1)
        stop = np.argmin(path[main].reshape(shape), axis=1)
        last = {name: path[name].reshape(shape)[:, -1] for name in path.columns if name != "iteration"}
        rows = np.arange(len(ratios))
        early = {
            f"early_stopped_{name}": path[name].reshape(shape)[rows, stop] for name in path.columns if "error" in name
        }
        columns = {**last, "steps": np.full(len(ratios), float(steps)), "early_stop": stop.astype(float), **early}
        status = [path.status[k] for k in range(steps, len(path.status), steps + 1)]
        found = Table(path.model, path.parameters, columns, status, path.notes)
        if throw:
            found.raise_unless_converged()
        return found

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        """Return the errors after every step; status ``diverging`` where steps are too large."""
        sgd, notes = self.learner, [*self.model.remarks]
        tables: list[dict[str, Array]] = []
        status: list[Status] = []
        check_same_samples(sgd)
        for ratio in alpha.tolist():
            columns, grows = self._path(ratio, context.steps)
            main = columns["test_error"]
            least = int(np.argmin(main))
            notes.append(f"alpha = {ratio:g}: smallest test_error {main[least]:.4g} at step {least}")
            if grows:
                rate = 2 * rate_of(sgd.varied(learning_rate=None), self.model, ratio)
                notes.append(f"alpha = {ratio:g}: steps diverge: lower the learning rate below {rate:.4g}")
            tables.append(columns)
            status += [Status.DIVERGING if grows and step else Status.CONVERGED for step in range(context.steps + 1)]
        joined = {name: np.concatenate([one[name] for one in tables]) for name in tables[0]}
        found = Steps(self.model.name, self.model.parameters, joined, status, notes)
        given = "1/largest eigenvalue" if sgd.learning_rate is None else sgd.learning_rate
        return self.labelled(found, learning_rate=given, **_kept(sgd, ("weight_decay", "start")))

    def _path(self, alpha: float, steps: int) -> tuple[dict[str, Array], bool]:
        """Return the columns at one sample ratio, and whether steps diverge."""
        from glassformer.dynamics.feature_descent import descent_errors, descent_filter, largest_eigenvalue

        if alpha == 0:
            raise ParameterError("alpha", alpha, "> 0: descent on the same samples needs some")
        sgd = self.learner
        rate, size = rate_of(sgd, self.model, alpha), sgd.initialisation.size**2
        fine, coarse = (self.model.features.nodes(count) for count in (_NODES, _NODES // 2))
        end = largest_eigenvalue(fine, alpha)
        margin = min(1 / (rate * max(steps, 1)), end)
        functions = descent_filter(steps, rate, sgd.weight_decay)
        (found, change), (other, _) = (descent_errors(one, alpha, functions, margin, size) for one in (fine, coarse))
        doubt = {
            error_column(name): np.abs(value - other[name]) + change * np.abs(value) for name, value in found.items()
        }
        count = np.arange(steps + 1.0)
        columns = {"alpha": np.full(steps + 1, alpha), "iteration": count, "time": rate * alpha * count}
        return {**columns, **found, **doubt}, rate * (end + sgd.weight_decay) > 2

    def simulated(self, context: StepContext) -> Learner:
        return self.learner.varied(steps=context.steps, record_every=1)

    def display_columns(self, table: Table) -> list[str]:
        return table.known_columns(("new_task_error", "training_error", "early_stop", "early_stopped_test_error"))

    def curves(self, table: Table, quantity: str) -> dict[str, tuple[Array, Array, Array]]:
        """Return a quantity after the last step, and where the error on new labels is least."""
        name, early = self.learner.name, f"early_stopped_{quantity}"
        return {
            name: self.curve(table, quantity),
            f"{name}_early_stopped": self.curve(table, early, early),
        }


@dataclass(frozen=True)
class FeatureOnlineTheory(Theory):
    """Exact errors of descent in one pass, from linear differential equations."""

    learner: OnePassDescent

    history_includes_start: ClassVar[bool] = True
    of_features: ClassVar[bool] = True

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        order = np.argsort(alpha)
        found = self._errors(np.append(0.0, np.asarray(alpha, dtype=float)[order]))
        return {name: value[1:][np.argsort(order)] for name, value in found.items()}

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        check_descent(self.learner)
        ratios, parts = np.asarray(alpha, dtype=float), np.arange(context.steps + 1.0)
        found = [self._errors(ratio * parts / context.steps) for ratio in ratios]
        samples = np.concatenate([ratio * parts / context.steps for ratio in ratios])
        columns = {"alpha": np.repeat(ratios, len(parts)), "iteration": np.tile(parts, len(ratios))}
        columns |= {"time": samples / self.learner.batch, "samples": samples}
        columns |= {name: np.concatenate([one[name] for one in found]) for name in found[0]}
        status = [Status.CONVERGED] * len(samples)
        own = Steps(self.model.name, self.model.parameters, columns, status, [*self.model.remarks])
        return self.labelled(own, **_kept(self.learner, ("learning_rate", "batch", "weight_decay", "start")))

    def _errors(self, samples: Array) -> dict[str, Array]:
        """Return errors at increasing numbers of samples over features, from zero, with their estimates."""
        from glassformer.dynamics.feature_descent import one_pass_errors

        sgd = self.learner
        ask = (samples / sgd.batch, sgd.learning_rate, sgd.batch, sgd.weight_decay, sgd.initialisation.size**2)
        fine, coarse = (one_pass_errors(self.model.features.nodes(n), *ask) for n in (_NODES, _NODES // 2))
        doubt = {
            error_column(name): np.abs(value - coarse[name]) + 1e-8 * np.abs(value) for name, value in fine.items()
        }
        return {**fine, **doubt}

    def simulated(self, context: StepContext) -> Learner:
        return self.learner.in_intervals(context.steps)


def _kept(learner: Learner, names: tuple[str, ...]) -> dict[str, Any]:
    """Return settings that are not at their defaults."""
    return {name: value for name, value in non_default_fields(learner).items() if name in names}


# --- runs -------------------------------------------------------------------------------------------------------------


def descend_on_features(sgd: SameSamplesDescent, model: Model, data: DataSet) -> FitResult:
    """Return the map after steps of gradient descent on all samples."""
    from glassformer.learners.row_descent import record_steps

    design, rate = data.design, rate_of(sgd, model, data.design.sample_ratio)
    steps = sgd.steps or sgd.passes
    work = 4.0 * steps * design.samples * float(np.prod(design.signal_shape))
    require_resources("steps", steps, 0.0, "train for fewer steps", work, "steps")
    weights = sgd.initialisation.size * data.rng.standard_normal(design.signal_shape)
    recorded, history, status = {*record_steps(steps, sgd.record_every)}, list[dict[str, Any]](), Status.CONVERGED
    limit = _DIVERGED * (1 + float(np.mean(data.labels**2)))
    for step in range(steps + 1):
        residual = design.forward(weights, 0) - data.labels
        if step in recorded:
            history.append(
                {"step": step, "training_error": float(np.mean(residual**2)), **_measured(model, data, weights)}
            )
        if step == steps or not np.mean(weights**2) < limit:
            status = Status.CONVERGED if np.mean(weights**2) < limit else Status.DIVERGING
            break
        weights = weights - rate * (design.adjoint(residual, 0) + sgd.weight_decay * weights)
    training = float(np.mean(residual**2))
    return FitResult(
        weights[None], status=status, iterations=step, residual=0.0, training_error=training, history=history
    )


def one_pass_on_features(sgd: OnePassDescent, model: Model, data: DataSet) -> FitResult:
    """Return the map after one pass over the samples."""
    design, batch = data.design, sgd.batch
    size = int(np.prod(design.signal_shape))
    steps = design.samples // batch
    if steps < 1:
        raise ParameterError("batch", batch, f"at most the number of samples, {design.samples}", "raise alpha or d")
    weights = sgd.initialisation.size * data.rng.standard_normal(design.signal_shape)
    recorded, history, status = sgd.record_steps(steps), list[dict[str, Any]](), Status.CONVERGED
    limit = _DIVERGED * (1 + float(np.mean(data.labels**2)))
    for step in range(steps + 1):
        for _ in range(int(np.count_nonzero(recorded == step))):
            entry = {"samples": step * batch, "time": step / size}
            history.append({**entry, **_measured(model, data, weights)})
        if step == steps:
            break
        own = slice(step * batch, (step + 1) * batch)
        part = design.rows(own)
        score = (part.forward(weights, 0) - data.labels[own]) / batch
        weights = weights - sgd.learning_rate * (part.adjoint(score, 0) + sgd.weight_decay / size * weights)
        if not np.mean(weights**2) < limit:
            status = Status.DIVERGING
            break
    return FitResult(weights[None], status=status, iterations=step, residual=0.0, history=history)


def _measured(model: Model, data: DataSet, weights: Array) -> dict[str, Any]:
    """Return the errors of a map; empty without the tasks of the data."""
    return {} if data.teacher is None else model.measured(weights, data.teacher)
