r"""Gradient descent on the rows of a student, with data that it sees again and again, and its equations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from glassformer.core.checks import is_number, is_whole, real_numbers, require_integer
from glassformer.core.errors import GlassformerError, IncompatibleError, ParameterError
from glassformer.core.frozen import set_fields
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_batch, parse_number, parse_text
from glassformer.core.resources import require_resources
from glassformer.core.results import name_or_value
from glassformer.core.settings import (
    checked_field,
    decay_rate,
    non_default_fields,
    positive,
    positive_integer,
    setting,
    unit_interval,
)
from glassformer.learners.base import BY_PRODUCTS, FitResult, Learner, LearnerInfo, StepContext, Theory
from glassformer.learners.descent import Initialisation, SameSamplesDescent, refuse_side_information
from glassformer.learners.feature_descent import FeatureDescentTheory, check_same_samples, descend_on_features
from glassformer.learners.online_sgd import OnlineSGD
from glassformer.learners.registry import require_compatible
from glassformer.learners.regularised_risk import parse_function, student_choice
from glassformer.priors.features import feature_variances

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.dynamics.descent_path import DescentPath
    from glassformer.dynamics.descent_settings import DescentSettings, DescentStart
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.row_descent import Batches
    from glassformer.models.base import Model
    from glassformer.risk.rows.student import Student

# A run has converged if in the last fifth of the steps the rows change by at most this share of their norm, and the
# training error is below this share of the initial one (chosen by trial on deep attention).
_STILL, _LEARNED = 0.01, 0.9
# Cosine of the start with the truth in theory alone, for even labels: that of a random start in 10^6 dimensions.
_RANDOM_COSINE = 1e-3
# Settings that the equations depend on.
_THEORY = (
    *("learning_rate", "weight_decay", "batch", "repeats", "momentum", "loss", "student", "student_rows", "start"),
)
# Operations per input of a batch, row and step.
_WORK = 6.0
# Memory of an entry of the history in bytes (measured, to an order of magnitude).
_ENTRY_BYTES = 2000
# Why runs and equations differ where a pass uses every sample once.
_PASSES = "with sampling = epochs batches of a pass exclude each other, and the equations are for independent batches"


def _parse_rates(name: str, text: str) -> Any:
    """Return a number, the numbers of a comma list, or the function FILE.py:FUNCTION of the step."""
    if ":" in text:
        return parse_function(name, text)
    return [parse_number(name, part) for part in text.split(",")] if "," in text else parse_number(name, text)


class Momentum(NamedTuple):
    """Momentum, and whether it is Nesterov's.

    Example:
        >>> Momentum.parse(0.5), Momentum.parse("nesterov:0.9")
        (Momentum(value=0.5, nesterov=False), Momentum(value=0.9, nesterov=True))
    """

    value: float
    nesterov: bool

    @classmethod
    def parse(cls, given: float | str) -> Momentum:
        """Return the momentum that a number or the text ``"nesterov:NUMBER"`` stands for.

        Raises:
            ParameterError: it is neither.
        """
        if isinstance(given, str):
            word, _, text = given.partition(":")
            with suppress(ValueError):
                if word == "nesterov" and 0 < float(text) < 1:
                    return cls(float(text), True)
        elif is_number(given) and 0 <= given < 1:
            return cls(float(given), False)
        raise ParameterError("momentum", given, "a number in [0, 1), or nesterov:NUMBER with a number in (0, 1)")


def _parse_momentum(name: str, text: str) -> float | str:
    """Return a number, or a text with a colon unchanged."""
    return text if ":" in text else parse_number(name, text)


def _check_momentum(name: str, value: float | str, optional: bool) -> None:
    Momentum.parse(value)


@dataclass(frozen=True)
class SGD(SameSamplesDescent):
    r"""Gradient descent on the same samples again and again, full-batch or on batches of them, with its exact theory.

    A step descends the sum of the losses of the samples in its batch, equation :eq:`descent-steps` of the
    documentation:

    .. math::
       v^{t+1} = \mathrm{momentum}\;v^t - \eta_t\Bigl(\sum_{\mu\in B_t}\nabla_W\ell(y_\mu, s(Z_\mu))
       + \lambda W^t\Bigr),\qquad W^{t+1} = W^t + v^{t+1},\qquad Z_\mu = WX_\mu^T/\sqrt d.

    Its limit of large ``d`` holds the learning rate :math:`\eta`, the weight decay :math:`\lambda`, the share of the
    samples in a batch and the number of steps fixed: a trajectory of :func:`~glassformer.trajectory` shows theory and
    runs. A run on data has converged if its rows have come to rest: they change by at most one per cent in the last
    fifth of the steps, and either the training loss has fallen by a tenth, or the risk is convex and the rows have left
    their start. Otherwise its status is ``iteration_limit``.

    Args:
        learning_rate: :math:`\eta`: a number, one number per step, or a function of the step, which begins at 0. None
            for :math:`1/(1+\sqrt\alpha)^2`, below the edge of stability of a linear student with square loss, with
            the samples over the coordinates that a row sees; in context for one over the largest curvature.
        weight_decay: :math:`\lambda`.
        batch: a share of the samples in (0, 1], or a number of samples, an integer; None for all samples.
        repeats: number of gradient steps on every batch.
        momentum: a number in [0, 1), or ``"nesterov:0.9"`` for the momentum of Nesterov.
        loss: ``"square"`` (half the squared error), ``"logistic"``, ``"cross-entropy"``, or any other loss of
            :class:`~glassformer.RegularisedRisk` for models of rows.
        student: as of :class:`~glassformer.RegularisedRisk`: None for the usual student of the labels, for square loss
            the teacher's own link.
        student_rows: rows of the student; None for the usual number.
        sampling: how batches are drawn: ``"bernoulli"``, each sample with the same probability at every step, as in
            theory, or ``"epochs"``, every sample once in each pass.
        passes: number of passes over the data.
        steps: number of gradient steps; None for those of all passes.
        start: ``"prior"``, standard normal weights; ``"small:0.001"``, weights 0.001 times as large; ``"overlap:0.3"``,
            rows of unit power whose cosine with the teacher's rows, which simulations know, is 0.3; or a pair of
            matrices, overlap :math:`m`, shape (P, P*), and power :math:`C`, shape (P, P), of the rows.
        record_every: steps between two entries of the history, which also has the start and the end.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
        >>> sgd = SGD(learning_rate=1.0, weight_decay=0.05, loss="logistic")
        >>> path = sgd.path(model, 2.0, steps=5)
        >>> path.cosine.value[:, 0].round(2).tolist()
        [0.0, 0.65, 0.75, 0.79, 0.81, 0.82]
    """

    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"trajectories": 32_768}
    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="sgd",
        title="gradient descent on the same samples",
        family="descent",
        papers=("mignacco2020dynamical", "celentano2021high", "gerbelot2022rigorous"),
        storages=BY_PRODUCTS,
        resumable=True,
        limit_settings=(*_THEORY, "passes", "steps"),
        trajectory_settings=_THEORY,
        limit_accuracy=("trajectories",),
        trajectory_accuracy=("trajectories",),
    )

    start_forms: ClassVar[tuple[str, ...]] = ("prior", "small", "overlap", "matrices")
    variants: ClassVar[tuple[str, ...]] = ("published",)
    """Class methods with settings for a token dimension, by name: ``sgd:published`` on the command line."""

    learning_rate: Any = parameter(
        "learning rate: a number, a comma list with one per step, or FILE.py:FUNCTION of the step (default "
        "1/(1 + sqrt(alpha))^2)",
        None,
        read=_parse_rates,
    )
    weight_decay: float = setting(0.0, "weight decay", decay_rate)
    batch: Any = parameter(
        "share of the samples in a batch, with a decimal point, or number of samples (default all)",
        None,
        read=parse_batch,
    )
    repeats: int = setting(1, "number of gradient steps on every batch", positive_integer)
    momentum: Any = parameter(
        "momentum in [0, 1), or nesterov:NUMBER", 0.0, read=_parse_momentum, check=_check_momentum
    )
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
    sampling: str = setting("bernoulli", "bernoulli, as in theory, or epochs, every sample once in each pass")
    passes: int = setting(40, "number of passes over the data", positive_integer)
    steps: int | None = setting(None, "number of gradient steps (default those of all passes)", positive_integer)
    start: Any = parameter("prior, small:SIZE, or overlap:COSINE with the teacher's rows", "prior", read=parse_text)
    record_every: int = setting(1, "steps between two entries of the history", positive_integer)

    def __post_init__(self) -> None:
        super().__post_init__()
        from glassformer.risk.losses import loss_of

        loss_of(self.loss, convex=False)
        if self.sampling not in ("bernoulli", "epochs"):
            raise ParameterError("sampling", self.sampling, "bernoulli or epochs")
        if self.batch is not None and not (is_whole(self.batch, 1) or (is_number(self.batch) and 0 < self.batch <= 1)):
            allowed = "an integer >= 1, samples in a batch, or a share of the samples in (0, 1]"
            raise ParameterError("batch", self.batch, allowed)
        self._check_learning_rate()
        # Raises where settings do not go together, at any sample ratio.
        _ = self.descent(alpha=1.0, steps=self.steps or np.size(self.learning_rate), d=10**6)

    @classmethod
    def published(cls, d: int) -> Self:
        r"""Return the descent of the published experiments on deep attention, at a token dimension ``d``.

        Its steps descend :math:`\frac1d\sum_{\mu\in B}\|\hat y_\mu - y_\mu\|^2 + \frac w{2d}\|W\|^2` by
        :math:`\eta' = 15`, three times on every batch of 200 samples, in 40 passes, with :math:`w = 0.07`: in the sum
        of half the squared errors :math:`\eta = 2\eta'/d` and :math:`\lambda = w/2`.

        Args:
            d: token dimension.

        Example:
            >>> found = SGD.published(500)
            >>> found.learning_rate, found.weight_decay, found.batch, found.repeats, found.sampling
            (0.06, 0.035, 200, 3, 'epochs')
        """
        require_integer("d", d)
        return cls(30 / d, 0.035, batch=200, repeats=3, sampling="epochs", passes=40)

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
            set_fields(self, learning_rate=tuple(numbers.tolist()))

    @property
    def draws_passes(self) -> bool:
        """Whether batches of a pass exclude each other, which the mean-field equations do not describe."""
        return self.sampling == "epochs" and self.batch is not None and (is_whole(self.batch, 1) or self.batch < 1)

    def alternatives(self) -> Iterable[Self]:
        return (replace(self, loss=loss) for loss in ("logistic", "cross-entropy"))

    def check(self, model: Model) -> None:
        if not model.well_specified:
            check_same_samples(self)
            return
        if not model.overlap_shape:
            raise IncompatibleError(f"descends on rows of weights, and those of model {model.name} are one matrix")
        try:
            self.student_on(model)
        except GlassformerError as error:
            raise IncompatibleError(f"is incompatible with this model: {error}") from error
        refuse_side_information(model)

    def student_on(self, model: Model) -> Student:
        """Return the student of a model."""
        from glassformer.risk.rows.student import student_of

        return student_of(model, self.loss, self.student, self.student_rows)

    def descent(self, alpha: float, steps: int | None = None, d: int | None = None) -> DescentSettings:
        r"""Return the settings of the steps, as their equations take them.

        Args:
            alpha: samples over the number of coordinates that a row sees.
            steps: number of gradient steps; None for those of all passes.
            d: this number; None in the limit of large sizes, where the batch is a share.

        Raises:
            IncompatibleError: the batch is a number of samples, without ``d``.

        Example:
            >>> found = SGD.published(500).descent(2.0, d=500)
            >>> found.learning_rate, found.batch, found.weight_decay, found.repeats, found.steps
            (0.06, 0.2, 0.035, 3, 600)
        """
        from glassformer.dynamics.descent_settings import DescentSettings

        share, count = self._share(alpha, d), self.steps if steps is None else steps
        momentum, nesterov = Momentum.parse(self.momentum)
        return DescentSettings(
            steps=self.passes * int(1 / share + 1e-9) * self.repeats if count is None else count,
            learning_rate=1 / (1 + np.sqrt(alpha)) ** 2 if self.learning_rate is None else self.learning_rate,
            batch=share,
            repeats=self.repeats,
            momentum=momentum,
            nesterov=nesterov,
            weight_decay=self.weight_decay,
            trajectories=self.accurate("trajectories"),
        )

    def _share(self, alpha: float, d: int | None) -> float:
        """Return the share of the samples in a batch."""
        batch = 1.0 if self.batch is None else self.batch
        if not is_whole(batch, 1):
            return float(batch)
        if d is None:
            raise IncompatibleError(
                f"batch = {batch} refers to a token dimension: use a batch that is a share of the samples in (0, 1], "
                "or runs of a dimension d"
            )
        samples = max(1, round(alpha * d))
        return float(min(batch, samples) / samples)

    def path(self, model: Model, alpha: float, steps: int | None = None, d: int | None = None) -> DescentPath:
        """Return overlaps, correlations and errors after every step, in the limit of large sizes.

        Args:
            model: of rows.
            alpha: samples over dimension.
            steps: number of gradient steps; None for those of all passes.
            d: token dimension that a batch in samples refers to.

        Raises:
            IncompatibleError: model and settings do not go together, or no theory is known.
        """
        from glassformer.dynamics.descent_path import descent_path

        require_compatible(self, model)
        # Rows of different heads see separate coordinates.
        student, degrees = self.student_on(model), float(model.prior.degrees)
        settings = self.descent(alpha / degrees, steps, None if d is None else round(d * degrees))
        return descent_path(model, alpha, settings, student, self.first_state(model, student))

    def first_state(self, model: Model, student: Student) -> DescentStart:
        """Return overlap and power of the start; rows without a given overlap have none, for even labels a small one.

        Args:
            model: of the teacher.
            student: of these rows.
        """
        from glassformer.dynamics.descent_settings import DescentStart

        rows, teachers, begin = student.rows, int(model.channel.fields.rows), self.initialisation
        if begin.matrices is not None:
            return DescentStart(*begin.matrices).checked(rows, teachers)
        cosine = model.channel.labels.even * _RANDOM_COSINE if begin.overlap is None else begin.overlap
        return DescentStart.of_cosine(rows, teachers, cosine, begin.size)

    def fresh(self, d: int) -> OnlineSGD:
        """Return online SGD with the same step length and decay; its equations hold if no sample is used twice.

        Args:
            d: token dimension.

        Raises:
            IncompatibleError: online SGD has no such steps: those of another loss or student, with momentum or a
                schedule, or on batches that are a share of the samples.

        Example:
            >>> found = SGD.published(500).fresh(500)
            >>> found.learning_rate, found.batch, round(found.weight_decay, 4)
            (12.0, 200, 0.0875)
        """
        others = (self.loss, self.student, self.student_rows, Momentum.parse(self.momentum).value)
        if others != ("square", None, None, 0.0):
            raise IncompatibleError("fresh needs square loss of the teacher's own link, without momentum")
        if not (is_number(self.learning_rate) and is_whole(self.batch, 1)):
            raise IncompatibleError(
                "fresh needs one learning_rate for all steps, and a batch that is a number of samples"
            )
        # The mean of a batch instead of its sum, and a decay per dimension.
        return OnlineSGD(
            learning_rate=self.batch * self.learning_rate,
            batch=self.batch,
            weight_decay=self.weight_decay * d / self.batch,
            start=self.start,
        )

    def theory(self, model: Model) -> Theory:
        if not model.well_specified:
            self.check(model)
            return FeatureDescentTheory(self, model)
        return DescentTheory(self, model, instead="trajectory, which has the equations of every step, or simulate")

    def learn(self, model: Model, data: DataSet) -> FitResult:
        if not model.well_specified:
            return descend_on_features(self, model, data)
        from glassformer.core.status import Status
        from glassformer.learners.row_descent import DescentData, DescentFit, record_steps, relative_change
        from glassformer.learners.row_fit import row_measures

        student, rng = self.student_on(model), data.rng
        d = int(data.design.row_shape[-1])
        spectrum = feature_variances(model.prior, d)
        on_data = DescentData(student, data.design, student.targets(data.labels), spectrum)
        begin = self._first_weights(model, student, data, rng)
        settings, batches = self._on_data(data, rng)

        def watch(step: int, weights: Array) -> dict[str, Any]:
            record = {"step": step, "passes": step / batches.per_pass, "training_loss": on_data.training_loss(weights)}
            if data.teacher is None:
                return record
            own = data.errors_of(model, weights) if student.own_link else {}
            return {**record, **own, **row_measures(model, student, weights, data.teacher, data.seed)}

        at = record_steps(settings.steps, self.record_every)
        run = on_data.descend(begin, settings, batches, at, watch, data.checkpoint)
        loss, errors = on_data.training_loss(run.weights), [one["error"] for one in run.records if "error" in one]
        # Rows also come to rest before anything is learned, where gradients vanish or steps are too small.
        left = student.is_convex and relative_change(begin, run.weights) > _STILL
        settled = run.moved <= _STILL and (left or loss <= _LEARNED * on_data.training_loss(begin))
        return DescentFit(
            run.weights[None],
            status=run.status if settled or not run.status.ok else Status.ITERATION_LIMIT,
            iterations=run.steps,
            residual=run.moved,
            training_loss=loss,
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
        batches = Batches(samples, share, self.repeats, self.draws_passes, key)
        name = "passes" if self.steps is None else "steps"
        steps, given = self.steps or self.passes * batches.per_pass, getattr(self, name)
        sequence = float(np.prod(data.design.input_shape))
        # Batches of stored inputs are copied; a step on revealed ones multiplies with at least one new direction.
        batch = samples + sequence if data.design.revealed else sequence * batches.size
        work = _WORK * float(steps) * batch * (self.student_rows or 1)
        require_resources(name, given, 16 * batch, f"train for fewer {name}", work, "weights")
        entries = _ENTRY_BYTES * float(steps) / self.record_every
        require_resources("record_every", self.record_every, entries, "record less often", what="entries of a history")
        return self.descent(samples / d, steps, d), batches

    def _first_weights(self, model: Model, student: Student, data: DataSet, rng: np.random.Generator) -> Array:
        """Return the weights of the start, of white features: random, or of given overlap and power."""
        from glassformer.learners.row_fit import weights_at

        d, begin = int(data.design.row_shape[-1]), self.initialisation
        if begin.overlap is None and begin.matrices is None:
            drawn = rng.standard_normal((student.rows, d))
            return np.asarray(begin.size * drawn * np.sqrt(feature_variances(model.prior, d)))
        return weights_at(*self.first_state(model, student), model, data, rng)


@dataclass(frozen=True)
class _SGDFromOverlap(SGD):
    """Descent whose first rows have a given cosine with the teacher's, and exactly the power of its start.

    Args:
        overlap: the cosine.
    """

    overlap: float | None = checked_field(None, unit_interval)

    @property
    def initialisation(self) -> Initialisation:
        return replace(super().initialisation, overlap=self.overlap)


@dataclass(frozen=True)
class DescentTheory(Theory):
    """Mean-field equations of gradient descent; runs begin with the same overlap and power."""

    learner: SGD

    history_includes_start: ClassVar[bool] = True

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
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
        if sgd.initialisation.matrices is not None:
            settings["start"] = [np.asarray(part).tolist() for part in sgd.start]
        named = {name: name_or_value(value) for name, value in settings.items()}
        return self.labelled(found, **{"learning_rate": "1/(1 + sqrt(alpha))^2", **named})

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
        sgd = self.learner
        begin = sgd.initialisation
        if is_whole(sgd.batch, 1):
            raise IncompatibleError(
                "with a batch in samples the equations depend on d: use trajectory with d, or a share of the samples"
            )
        if self.model.channel.labels.even and begin.overlap is None and begin.matrices is None:
            raise IncompatibleError(
                "for even labels the time to leave a random start grows with d: use trajectory with d"
            )
        return super().of_runs(alpha, optimum)

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.dynamics.descent_path import descent_table

        steps, d = context.steps, context.d
        sgd = self._begun_at(context.overlap) if d is None else self.learner
        solved = {ratio: sgd.path(self.model, ratio, steps, d) for ratio in dict.fromkeys(alpha.tolist())}
        found = self._labelled(descent_table([solved[ratio] for ratio in alpha.tolist()]), sgd)
        passes = [f"runs differ from theory: {_PASSES}"] if sgd.draws_passes else []
        arrivals = [note for path in solved.values() if (note := self._arrival_at_minimum(sgd, path))]
        return replace(found, notes=[*found.notes, *arrivals, *passes])

    def _arrival_at_minimum(self, sgd: SGD, path: DescentPath) -> str | None:
        """Return when a path arrives at the minimum of its risk; None unless the minimum is known exactly."""
        from glassformer.learners.regularised_risk import RegularisedRisk
        from glassformer.learners.rows_risk import is_one_linear_row

        strength = path.descent.weight_decay
        risk = RegularisedRisk(sgd.loss, "ridge", strength, student=sgd.student, student_rows=sgd.student_rows)
        if not (strength > 0 and path.student.is_convex and is_one_linear_row(risk.of_rows, self.model)):
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
        """Return the descent with these steps from this cosine with the truth; its history has every step."""
        return replace(self._begun_at(context.overlap, context.d), steps=context.steps, record_every=1)

    def _begun_at(self, overlap: float | None, d: int | None = None) -> SGD:
        """Return the descent from an overlap, by default that of random starts of runs."""
        sgd = self.learner
        begin, overlap = sgd.initialisation, sgd.cosine(overlap)
        if overlap is None and begin.matrices is None and d is not None:
            overlap = self.model.channel.labels.even * d**-0.5
        if overlap == begin.overlap:
            return sgd
        return _SGDFromOverlap(**{one.name: getattr(sgd, one.name) for one in fields(SGD)}, overlap=overlap)
