r"""Gradient descent on the rows of a student, with data that it sees again and again, and its equations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from glassformer.core.checks import is_number, is_whole, real_numbers
from glassformer.core.errors import GlassformerError, IncompatibleError, ParameterError
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_batch, parse_number, parse_text
from glassformer.core.resources import require_resources
from glassformer.core.results import name_or_value
from glassformer.core.settings import (
    boolean,
    decay_rate,
    non_default_fields,
    positive,
    positive_integer,
    setting,
    unit_interval,
)
from glassformer.learners.base import FitResult, Learner, LearnerInfo, StepContext, Theory
from glassformer.learners.descent import RowDescent, initialisation, refuse_side_information, small_size
from glassformer.learners.online_sgd import OnlineSGD
from glassformer.learners.registry import require_compatible
from glassformer.learners.regularised_risk import parse_function, student_choice

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.dynamics.descent_path import DescentPath
    from glassformer.dynamics.descent_settings import DescentSettings, DescentStart
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.row_descent import Batches
    from glassformer.risk.rows.student import Student

# Learning rate, weight decay, batch and steps on it as published for deep attention, and entries of the history a pass.
_LEARNING_RATE, _DECAY, _BATCH, _REPEATS, _LOOKS = 15.0, 0.07, 200, 3, 8
# The published training has converged if in the last fifth of the steps the rows change by at most this share of their
# norm, and the training error is below this share of the initial one (chosen by trial on deep attention).
_STILL, _LEARNED = 0.01, 0.9
# Cosine of the start with the truth in theory alone, for even labels: that of a random start in 10^6 dimensions.
_RANDOM_COSINE = 1e-3
# Settings that the equations depend on.
_THEORY = (
    *("learning_rate", "weight_decay", "batch", "repeats", "momentum", "nesterov", "loss", "student"),
    *("student_rows", "init", "small", "overlap", "start", "trajectories", "convention"),
)
# Operations per input of a batch, row and step.
_WORK = 6.0
# Why runs and equations differ where a pass uses every sample once.
_PASSES = "with sampling = epochs batches of a pass exclude each other, and the equations are for independent batches"


def _parse_rates(name: str, text: str) -> Any:
    """Return a number, the numbers of a comma list, or the function FILE.py:FUNCTION of the step."""
    if ":" in text:
        return parse_function(name, text)
    return [parse_number(name, part) for part in text.split(",")] if "," in text else parse_number(name, text)


def _scaled_rates(rate: Any, factor: float) -> Any:
    """Return a factor times a number, numbers, or a function of the step."""
    if callable(rate):
        return lambda step: factor * rate(step)
    return factor * rate if is_number(rate) else tuple(factor * one for one in rate)


@dataclass(frozen=True)
class SGD(RowDescent):
    r"""Gradient descent on the same samples again and again, full-batch or on batches of them, with its exact theory.

    In the convention ``"sum"`` a step descends the sum of the losses of the samples in its batch, equation
    :eq:`descent-steps` of the documentation:

    .. math::
       v^{t+1} = \mathrm{momentum}\;v^t - \eta_t\Bigl(\sum_{\mu\in B_t}\nabla_W\ell(y_\mu, s(Z_\mu))
       + \lambda W^t\Bigr),\qquad W^{t+1} = W^t + v^{t+1},\qquad Z_\mu = WX_\mu^T/\sqrt d.

    Its limit of large ``d`` holds the learning rate :math:`\eta`, the weight decay :math:`\lambda`, the share of the
    samples in a batch and the number of steps fixed: a trajectory of :func:`~glassformer.trajectory` shows theory and
    runs. In the convention ``"published"``, that of the experiments on deep attention, steps descend
    :math:`\frac1d\sum_{\mu\in B}\|\hat y_\mu - y_\mu\|^2 + \frac w{2d}\|W\|^2` and batches have a number of samples:
    the same steps with :math:`\eta = 2\eta'/d` and :math:`\lambda = w/2`.

    Args:
        learning_rate: :math:`\eta`: a number, one number per step, or a function of the step, which begins at 0. None
            for :math:`1/(1+\sqrt\alpha)^2`, below the edge of stability of a linear student with square loss, with
            the samples over the coordinates that a row sees; for 15 in the published convention.
        weight_decay: :math:`\lambda`, or ``w``; None for 0, or 0.07.
        batch: a share of the samples in (0, 1], or a number of samples, an integer; None for all samples, or 200.
        repeats: number of gradient steps on every batch; None for 1, or 3.
        momentum: in [0, 1).
        nesterov: whether momentum is Nesterov's.
        loss: ``"square"`` (half the squared error), ``"logistic"``, ``"cross-entropy"``, or any other loss of
            :class:`~glassformer.RegularisedRisk` for models of rows.
        student: as of :class:`~glassformer.RegularisedRisk`: None for the usual student of the labels, for square loss
            the teacher's own link.
        student_rows: rows of the student; None for the usual number.
        sampling: how batches are drawn: ``"bernoulli"``, each sample with the same probability at every step, as in
            theory, or ``"epochs"``, every sample once in each pass; None for the former, or the latter.
        passes: number of passes over the data.
        steps: number of gradient steps instead; the history then has every step.
        init: ``"prior"``, standard normal weights, or ``"small"``, ``small`` times as large.
        small: size of a small initialisation.
        overlap: cosine of every row of the start with the teacher's, which simulations know; None for a random start.
        start: overlap :math:`m`, shape (P, P*), and power :math:`C`, shape (P, P), of the start; None for rows of equal
            power.
        looks: entries of the history per pass; None for 8, or every step where their number is given.
        trajectories: of the equations, 32 times a power of two: errors fall like the inverse square root.
        convention: ``"sum"`` or ``"published"``; None for ``"sum"`` in limits and trajectories. On data None stands for
            ``"published"`` unless a setting is given that the published experiments do not have: another loss, a
            student, momentum, a number of steps, a start, or a batch that is a share.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
        >>> sgd = SGD(learning_rate=1.0, weight_decay=0.05, loss="logistic", trajectories=4096)
        >>> path = sgd.path(model, 2.0, steps=5)
        >>> path.cosine.value[:, 0].round(2).tolist()
        [0.0, 0.65, 0.75, 0.79, 0.81, 0.82]
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="sgd",
        title="gradient descent on the same samples",
        family="descent",
        papers=("mignacco2020dynamical", "celentano2021high", "gerbelot2022rigorous"),
        resumable=True,
        limit_settings=(*_THEORY, "passes", "steps"),
        trajectory_settings=_THEORY,
    )

    learning_rate: Any = parameter(
        "learning rate: a number, a comma list with one per step, or FILE.py:FUNCTION of the step (default "
        "1/(1 + sqrt(alpha))^2; published 15)",
        None,
        read=_parse_rates,
    )
    weight_decay: float | None = setting(None, "weight decay (default 0; published 0.07)", decay_rate)
    init: str = initialisation()
    small: float = small_size()
    batch: Any = parameter(
        "share of the samples in a batch, with a decimal point, or number of samples (default all; published 200)",
        None,
        read=parse_batch,
    )
    repeats: int | None = setting(
        None, "number of gradient steps on every batch (default 1; published 3)", positive_integer
    )
    passes: int = setting(40, "number of passes over the data", positive_integer)
    looks: int | None = setting(None, "number of entries of the history per pass (default 8)", positive_integer)
    momentum: float = setting(0.0, "momentum in [0, 1)", unit_interval)
    nesterov: bool = setting(False, "use the momentum of Nesterov", boolean)
    loss: Any = parameter(
        "square, logistic, cross-entropy, or any other loss of learner risk for smi and attention",
        "square",
        read=parse_function,
    )
    student: Any = parameter(
        "the student, FILE.py:FUNCTION of its fields Z of shape (P, L), or linear",
        None,
        read=parse_function,
        check=student_choice,
        metavar="FILE.py:FUNCTION",
    )
    student_rows: int | None = setting(None, "rows P of the student", positive_integer)
    sampling: str | None = setting(None, "bernoulli (as in theory) or epochs (published)")
    steps: int | None = setting(
        None, "number of gradient steps (default those of all passes)", positive_integer, "gradient_steps"
    )
    overlap: float | None = setting(
        None, "cosine between the initial weights and the teacher", unit_interval, "start_overlap"
    )
    start: Any = parameter(
        "overlap m and power C of the start, a pair of matrices, which the command line does not take",
        None,
        read=parse_text,
    )
    trajectories: int = setting(
        32_768, "number of trajectories of the equations, 32 times a power of two (default 32768)", positive_integer
    )
    convention: str | None = setting(
        None, "sum (of the losses, as in theory) or published (squared error over d, batch in samples)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        from glassformer.risk.rows.student import field_loss

        field_loss(self.loss)
        for name, words in (("sampling", ("bernoulli", "epochs")), ("convention", ("sum", "published"))):
            if getattr(self, name) not in (None, *words):
                raise ParameterError(name, getattr(self, name), f"None, or one of {', '.join(words)}")
        if self.batch is not None and not (is_whole(self.batch, 1) or (is_number(self.batch) and 0 < self.batch <= 1)):
            allowed = "an integer >= 1, samples in a batch, or a share of the samples in (0, 1]"
            raise ParameterError("batch", self.batch, allowed)
        self._check_learning_rate()
        if self.start is not None and not (isinstance(self.start, tuple | list) and len(self.start) == 2):
            raise ParameterError("start", self.start, "None, or a pair of matrices: overlap m and power C")
        if self.start is not None and self.overlap is not None:
            raise IncompatibleError("start and overlap exclude each other: give one of them")
        # Raises where settings do not go together, at any sample ratio.
        _ = self.descent(alpha=1.0, steps=self.steps or np.size(self.learning_rate), d=10**6)

    def _check_learning_rate(self) -> None:
        """Raise unless there is one learning rate, one for each step, or a function of the step."""
        rate = self.learning_rate
        if is_number(rate):
            positive("learning_rate", rate)
        elif rate is not None and not callable(rate):
            numbers = real_numbers("learning_rate", rate)
            if isinstance(rate, bool) or numbers.ndim != 1 or not numbers.size:
                raise ParameterError("learning_rate", rate, "None, a number, one per step, or a function of the step")
            # Settings are compared with each other, which arrays cannot.
            object.__setattr__(self, "learning_rate", tuple(numbers.tolist()))

    @property
    def is_published(self) -> bool:
        """Whether the convention is that of the experiments on deep attention."""
        if self.convention is not None:
            return self.convention == "published"
        share = self.batch is not None and not is_whole(self.batch, 1)
        further = (self.student, self.student_rows, self.steps, self.overlap, self.start, self.sampling)
        number = self.learning_rate is None or is_number(self.learning_rate)
        return number and not share and self.loss == "square" and not self.momentum and further == (None,) * 6

    @property
    def draws_passes(self) -> bool:
        """Whether batches of a pass exclude each other, which the mean-field equations do not describe."""
        in_passes = self.sampling == "epochs" or (self.sampling is None and self.is_published)
        batch = _BATCH if self.batch is None and self.is_published else self.batch
        return in_passes and batch is not None and (is_whole(batch, 1) or batch < 1)

    @property
    def rates(self) -> tuple[Any, float]:
        """Learning rate and weight decay of the published convention, with the published values as defaults."""
        rate = _LEARNING_RATE if self.learning_rate is None else self.learning_rate
        return rate, _DECAY if self.weight_decay is None else self.weight_decay

    def alternatives(self) -> Iterable[Self]:
        return (replace(self, loss=loss) for loss in ("logistic", "cross-entropy"))

    def check(self, model: Any) -> None:
        if self.is_published:
            return super().check(model)
        if not model.overlap_shape and model.channel.rows != 1:
            raise IncompatibleError(f"descends on rows, and model {model.name} has none")
        try:
            self.student_on(model)
        except GlassformerError as error:
            raise IncompatibleError(f"is incompatible with this model: {error}") from error
        return refuse_side_information(model)

    def completed(self, model: Any) -> Self:
        if not self.is_published:
            return self
        rate, decay = self.rates
        return replace(
            self,
            learning_rate=rate,
            weight_decay=decay,
            batch=self.batch or _BATCH,
            repeats=self.repeats or _REPEATS,
            sampling=self.sampling or "epochs",
            looks=self.looks or (None if self.steps else _LOOKS),
            convention="published",
        )

    def student_on(self, model: Any) -> Student:
        """Return the student of a model."""
        from glassformer.risk.rows.student import student_of

        return student_of(model, self.loss, self.student, self.student_rows)

    def descent(self, alpha: float, steps: int | None = None, d: int | None = None) -> DescentSettings:
        r"""Return the settings of the steps in the convention ``"sum"``.

        Args:
            alpha: samples over the number of coordinates that a row sees.
            steps: number of gradient steps; None for those of all passes.
            d: this number; None in the limit of large sizes, where the batch is a share.

        Raises:
            IncompatibleError: the batch is a number of samples, or the convention the published one, without ``d``.

        Example:
            >>> found = SGD(learning_rate=15.0, batch=200, weight_decay=0.07).descent(2.0, d=500)
            >>> found.learning_rate, found.batch, found.weight_decay, found.repeats, found.steps
            (0.06, 0.2, 0.035, 3, 600)
        """
        from glassformer.dynamics.descent_settings import DescentSettings

        share, published, count = self._share(alpha, d), self.is_published, self.steps if steps is None else steps
        rate, decay = self.rates if published else (self.learning_rate, self.weight_decay or 0.0)
        if published:
            rate, decay = _scaled_rates(rate, 2 / cast(int, d)), decay / 2
        elif rate is None:
            rate = 1 / (1 + np.sqrt(alpha)) ** 2
        return DescentSettings(
            steps=self.passes * int(1 / share + 1e-9) * self._repeats if count is None else count,
            learning_rate=rate,
            batch=share,
            repeats=self._repeats,
            momentum=self.momentum,
            nesterov=self.nesterov,
            weight_decay=decay,
            trajectories=self.trajectories,
        )

    @property
    def _repeats(self) -> int:
        """Number of gradient steps on every batch."""
        return self.repeats or (_REPEATS if self.is_published else 1)

    def _share(self, alpha: float, d: int | None) -> float:
        """Return the share of the samples in a batch."""
        batch = self.batch or (_BATCH if self.is_published else 1.0)
        if d is None and (self.is_published or is_whole(batch, 1)):
            name = "convention = published" if self.is_published else f"batch = {batch}"
            raise IncompatibleError(
                f"{name} refers to a token dimension: use convention = sum and a batch that is a share of the samples "
                "in (0, 1], or runs of a dimension d"
            )
        samples = max(1, round(alpha * d)) if d is not None and is_whole(batch, 1) else 1
        return float(min(batch, samples) / samples)

    def path(self, model: Any, alpha: float, steps: int | None = None, d: int | None = None) -> DescentPath:
        """Return overlaps, correlations and errors after every step, in the limit of large sizes.

        Args:
            model: of rows.
            alpha: samples over dimension.
            steps: number of gradient steps; None for those of all passes.
            d: token dimension that the published convention refers to.

        Raises:
            IncompatibleError: model and settings do not go together, or no theory is known.
        """
        from glassformer.dynamics.descent_path import descent_path

        require_compatible(self, model)
        # Rows of different heads see separate coordinates.
        student, degrees = self.student_on(model), float(model.prior.degrees)
        settings = self.descent(alpha / degrees, steps, None if d is None else round(d * degrees))
        return descent_path(model, alpha, settings, student, self.first_state(model, student))

    def first_state(self, model: Any, student: Student) -> DescentStart:
        """Return overlap and power of the start; rows without a given overlap have none, for even labels a small one.

        Args:
            model: of the teacher.
            student: of these rows.
        """
        from glassformer.dynamics.descent_settings import DescentStart

        rows, teachers = student.rows, int(model.channel.rows)
        if self.start is not None:
            return DescentStart(*self.start).checked(rows, teachers)
        cosine = model.channel.even * _RANDOM_COSINE if self.overlap is None else self.overlap
        return DescentStart.of_cosine(rows, teachers, cosine, self.initial_size)

    def fresh(self, d: int) -> OnlineSGD:
        """Return online SGD with the published step length and decay; its equations hold if no sample is used twice.

        Example:
            >>> found = SGD(learning_rate=15.0, batch=200, weight_decay=0.07).fresh(500)
            >>> found.learning_rate, found.batch, round(found.weight_decay, 4)
            (12.0, 200, 0.0875)
        """
        if not self.is_published:
            raise IncompatibleError("fresh is for the published convention, whose batch is a number of samples")
        rate, decay = self.rates
        batch = self.batch or _BATCH
        if not (is_number(rate) and is_whole(batch, 1)):
            raise IncompatibleError(
                "fresh needs one learning_rate for all steps, and a batch that is a number of samples"
            )
        return OnlineSGD(
            learning_rate=2 * batch * rate / d,
            batch=batch,
            weight_decay=decay * d / (2 * batch),
            init=self.init,
            small=self.small,
        )

    def theory(self, model: Any) -> Theory:
        return DescentEquations(self, model, instead="trajectory, which has the equations of every step, or simulate")

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.core.status import Status
        from glassformer.learners.row_descent import DescentData, record_steps
        from glassformer.learners.row_fit import RowFit, row_measures

        student, rng = self.student_on(model), data.rng
        d = int(data.design.row_shape[-1])
        spectrum = model.prior.feature_variances(d)
        on_data = DescentData(student, data.design.inputs[0], student.targets(data.labels), spectrum)
        weights = self._first_weights(model, student, data, rng)
        settings, batches = self._on_data(data, rng)
        every_step = self.steps is not None and self.looks is None
        at = record_steps(settings, batches, None if every_step else self.looks or _LOOKS)
        per_pass = batches.per_pass

        def watch(step: int, weights: Array) -> dict[str, Any]:
            done = {"step": step} if every_step else {"passes": step / per_pass}
            if self.is_published and not every_step:
                return {**done, **data.errors_of(model, weights)}
            loss = {"training_loss": on_data.training_loss(weights)}
            if data.teacher is None:
                return {**done, **loss}
            return {**done, **loss, **row_measures(model, student, weights, data.teacher, data.seed)}

        run = on_data.descend(weights, settings, batches, at, watch, data.checkpoint)
        found: dict[str, Any] = {"status": run.status, "iterations": run.steps, "residual": run.moved}
        if self.is_published and not every_step:
            # Rows that do not change before anything is learned have a vanishing gradient or too small a step.
            learned = on_data.training_loss(run.weights) <= _LEARNED * on_data.training_loss(weights)
            if run.status is Status.CONVERGED and not (run.moved <= _STILL and learned):
                found["status"] = Status.ITERATION_LIMIT
            return FitResult(run.weights[None], **found, history=run.records)
        errors = [record["error"] for record in run.records if "error" in record]
        return RowFit(
            run.weights[None],
            **found,
            training_loss=on_data.training_loss(run.weights),
            early_stopped_error=min(errors) if errors else None,
            history=run.records,
            student=student,
            intercept=np.zeros(1),
            means=np.zeros((student.rows, student.tokens)),
            energies=np.zeros(0),
            notes=(),
        )

    def _on_data(self, data: DataSet, rng: np.random.Generator) -> tuple[DescentSettings, Batches]:
        """Return the steps on a data set, and their batches."""
        from glassformer.learners.row_descent import Batches

        d, samples = int(data.design.row_shape[-1]), data.design.samples
        share, key = self._share(samples / d, d), int(rng.integers(2**63))
        if share * samples < 1 - 1e-9:
            raise ParameterError("batch", share, f"one sample or more: a share of at least {1 / samples:.2g}")
        batches = Batches(samples, share, self._repeats, self.draws_passes, key)
        name = "passes" if self.steps is None else "steps"
        steps, given = self.steps or self.passes * batches.per_pass, getattr(self, name)
        batch = data.design.inputs[0].size * batches.size / samples
        work = _WORK * float(steps) * batch * (self.student_rows or 1)
        require_resources(name, given, 16 * batch, f"train for fewer {name}", work, "weights")
        return self.descent(samples / d, steps, d), batches

    def _first_weights(self, model: Any, student: Student, data: DataSet, rng: np.random.Generator) -> Array:
        """Return the weights of the start, of white features: random, or of given overlap and power."""
        from glassformer.learners.row_fit import weights_at

        d = int(data.design.row_shape[-1])
        if self.overlap is None and self.start is None:
            drawn = rng.standard_normal((student.rows, d))
            return np.asarray(self.initial_size * drawn * np.sqrt(model.prior.feature_variances(d)))
        return weights_at(*self.first_state(model, student), model, data, rng)


@dataclass(frozen=True)
class DescentEquations(Theory):
    """Mean-field equations of gradient descent; runs begin with the same overlap and power."""

    history_includes_start: ClassVar[bool] = True

    @property
    def _sgd(self) -> SGD:
        return cast(SGD, self.learner)

    def limits(self, alpha: Any, throw: bool = False) -> Table:
        """Return what the steps of the settings reach, and the step at which they are best stopped."""
        from glassformer.bayes_optimal.solve import validated_alpha
        from glassformer.dynamics.descent_path import descent_limits

        sgd = self._begun_at(None)
        if sgd.draws_passes:
            raise IncompatibleError(f"{_PASSES}: use sampling = bernoulli")
        ratios = validated_alpha(alpha).tolist()
        paths = {ratio: sgd.path(self.model, ratio) for ratio in dict.fromkeys(ratios)}
        found = descent_limits([paths[ratio] for ratio in ratios])
        if throw:
            found.raise_unless_converged()
        return self._labelled(found, sgd)

    def _labelled(self, found: Table, sgd: SGD) -> Table:
        """Return a result with the learner and its settings among its parameters."""
        settings = non_default_fields(sgd.completed(self.model))
        if sgd.start is not None:
            settings["start"] = [np.asarray(part).tolist() for part in sgd.start]
        named = {name: name_or_value(value) for name, value in settings.items()}
        given = {"learning_rate": "1/(1 + sqrt(alpha))^2", **named}
        return replace(found, parameters={**found.parameters, "learner": self.learner.name, **given})

    def display_columns(self, table: Table) -> list[str]:
        return table.known_columns(("label_error", "prediction_error", "cosine", "steps"))

    def curves(self, table: Table, quantity: str) -> dict[str, tuple[Array, Array, Array]]:
        """Return a quantity after the last step, and where the loss on new samples is least."""
        return {
            self.learner.name: self.curve(table, quantity),
            f"{self.learner.name}_early_stopped": self.curve(table, f"early_stopped_{quantity}", "early_stopped_error"),
        }

    def remark(self, alpha: float) -> str:
        table = self.limits([alpha])
        return f"after {table['steps'][0]:g} steps, smallest test loss at step {table['early_stop'][0]:g}"

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        sgd = self._sgd
        if sgd.is_published or is_whole(sgd.batch, 1):
            raise IncompatibleError(
                "with a batch in samples the equations depend on d: use trajectory with d, or convention sum"
            )
        if self.model.channel.even and sgd.overlap is None and sgd.start is None:
            raise IncompatibleError(
                "for even labels the time to leave a random start grows with d: use trajectory with d"
            )
        return super().of_runs(alpha, optimum)

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.dynamics.descent_path import descent_table

        steps, d = context.steps, context.d
        sgd = self._begun_at(context.overlap) if d is None else self._sgd
        solved = {ratio: sgd.path(self.model, ratio, steps, d) for ratio in dict.fromkeys(alpha.tolist())}
        found = self._labelled(descent_table([solved[ratio] for ratio in alpha.tolist()]), sgd)
        passes = [f"runs differ from theory: {_PASSES}"] if sgd.draws_passes else []
        arrivals = [note for path in solved.values() if (note := self._arrival_at_minimum(sgd, path))]
        return replace(found, notes=[*found.notes, *arrivals, *passes])

    def _arrival_at_minimum(self, sgd: SGD, path: DescentPath) -> str | None:
        """Return when a path arrives at the minimum of its risk; None unless the minimum is known exactly."""
        from glassformer.learners.regularised_risk import RegularisedRisk

        strength = path.descent.weight_decay
        risk = RegularisedRisk(sgd.loss, "ridge", strength, student=sgd.student, student_rows=sgd.student_rows)
        if not (strength > 0 and path.student.is_convex and risk.is_one_linear_row(self.model)):
            return None
        try:
            minimum = risk.theory(self.model).limits([path.alpha])
        except GlassformerError:
            # Descent has a theory where the minimum has none, such as labels that fall with their field.
            return None
        if not minimum.converged or path.diverges_at is not None:
            return None
        measures = minimum.known_columns(("label_error", "prediction_error", "test_loss"))
        found = [path.arrivals(float(minimum[name][0]), name) for name in measures]

        def steps(arrivals: Sequence[int | None]) -> str:
            ends = ["not yet" if step is None else f"from step {step} on" for step in arrivals]
            return ", ".join(f"{name} {end}" for name, end in zip(measures, ends, strict=True))

        levels = ", ".join(f"{name} {minimum[name][0]:.4g}" for name in measures)
        close, equal = (steps(part) for part in zip(*found, strict=True))
        text = f"alpha = {path.alpha:g}: minimum of the same risk: {levels}. "
        return f"{text}Within 1 % of the distance at the start: {close}; within the error bar: {equal}"

    def simulated(self, context: StepContext) -> Learner:
        """Return the descent with ``steps`` steps from this cosine with the truth, in the convention of the theory.

        Its history has every step.
        """
        return replace(self._begun_at(context.overlap, context.d), steps=context.steps, looks=None)

    def _begun_at(self, overlap: float | None, d: int | None = None) -> SGD:
        """Return the descent from an overlap, by default that of random starts of runs, in the theory's convention."""
        sgd = self._sgd
        given = sgd.overlap is not None or sgd.start is not None
        if overlap is not None and given:
            raise IncompatibleError(
                f"overlap = {overlap:g} and overlap or start of the learner exclude each other: leave out one of them"
            )
        if overlap is None and not given and d is not None:
            overlap = self.model.channel.even * d**-0.5
        return replace(sgd, convention=sgd.convention or "sum", overlap=sgd.overlap if overlap is None else overlap)
