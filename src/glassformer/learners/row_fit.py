r"""Learn the rows of any student from data by their regularised risk, and compare them with the teacher's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.channels.labelling import draw_labels
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.designs.base import Design
from glassformer.learners.base import FitResult
from glassformer.learners.data_set import DataSet
from glassformer.learners.empirical_row_risk import EmpiricalRowRisk
from glassformer.learners.row_risk import minimise_rows
from glassformer.models.base import Model
from glassformer.models.comparison import NewInputs
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points
from glassformer.priors.features import feature_variances
from glassformer.risk.penalties import penalty_of
from glassformer.risk.penalty_base import ROWS
from glassformer.risk.rows.comparison import match_rows, prediction_quality, row_products
from glassformer.risk.rows.row_risk import RowRisk
from glassformer.risk.rows.student import Student, student_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.designs.base import Design
    from glassformer.models.base import Model

# Random starts of a risk that is not convex, where no starts are given (a convention).
_STARTS = 4
# Size of weights that begin near zero, in units of random ones (chosen by trial).
_SMALL = 1e-3
# Size of the random part of a positional start, relative to that of random weights: with as much of it descent often
# ends in a higher local minimum (by trial).
_POSITIONAL_SPREAD = 0.1
# New samples: the standard error of a label error is below 0.8 %.
_NEW_SAMPLES = 4096


@dataclass(frozen=True, kw_only=True)
class RowFit(FitResult):
    """Rows of a student that need not be the teacher's link, nor have as many rows.

    Attributes:
        student: prediction and loss.
        intercept: added to its outputs, shape (outputs,).
        means: mean fields of every token, shape (P, L): zero without positional encodings.
        energies: risk at the end of every start over the dimension, shape (starts,).
        notes: what is known of the minimum.
    """

    student: Student
    intercept: Array
    means: Array
    energies: Array
    notes: Sequence[str]

    def predicted(self, model: Model, design: Design) -> Array:
        fields = np.asarray(design.forward(self.estimates[0], 0)) + self.means
        predictions = self.student.predictions(fields) + self.intercept
        if self.student.values or self.student.signs:
            return self.student.decisions(predictions)
        return np.asarray(predictions.reshape(len(predictions), *model.channel.labels.shape))

    def measured(self, model: Model, signal: Array, new: NewInputs) -> dict[str, Any]:
        """Return the errors of the rows, and of their predictions of new labels.

        Fields of new samples are normal, with the inner products of the rows; ``new`` only gives their seed.
        """
        return row_measures(
            model, self.student, self.estimates[0], signal, new.seed, intercept=self.intercept, means=self.means
        )


def row_measures(
    model: Model,
    student: Student,
    weights: Array,
    teacher: Array,
    seed: int | tuple[int, ...],
    intercept: Array = np.zeros(1),  # noqa: B008
    means: Array = np.zeros((1, 1)),  # noqa: B008
) -> dict[str, Any]:
    """Return the errors of a student's rows, of its predictions of new labels, and its loss on them.

    Args:
        model: of the labels.
        student: prediction and loss.
        weights: of the student, shape (P, d).
        teacher: true weights, shape (P*, d).
        seed: of the noise of new labels.
        intercept: added to the outputs of the student, shape (outputs,).
        means: mean fields, shape (P, L).
    """
    power, overlap = row_products(model, weights, weights), row_products(model, weights, teacher)
    true_power = row_products(model, teacher, teacher)
    match = match_rows(model, student, power, overlap, np.diag(true_power))
    joint = square_root(np.block([[power, overlap], [overlap.T, true_power]]))
    fields_of = model.channel.fields
    drawn = normal_points(len(joint) * student.tokens + fields_of.sources, _NEW_SAMPLES, 1)[0]
    source, normal = np.split(drawn, [fields_of.sources], axis=1)
    both = joint @ normal.reshape(len(normal), len(joint), -1)
    shift = fields_of.shifts(both[:, len(power) :], source, true_power)
    both = both + np.concatenate([overlap, true_power]) @ shift
    fields, true = both[:, : len(power)] + means, both[:, len(power) :]
    labels = draw_labels(model.channel, true, np.random.default_rng(seed))
    return {
        "error": match.error,
        "row_error": match.row_error,
        "prior_error": float(np.mean(np.diag(true_power))),
        "overlap": match.turn @ overlap,
        "power": match.turn @ power @ match.turn.T,
        "cosine": match.cosine,
        "test_loss": student.mean_loss(student.targets(labels), fields, intercept),
        **prediction_quality(model, student, true, fields, intercept),
    }


def learn_rows(risk: RowRisk, model: Model, data: DataSet, settings: Iteration | None = None) -> RowFit:
    """Return the student's rows of least risk on a data set.

    Equation :eq:`row-risk` of the documentation.

    Args:
        risk: loss, penalty, strength, student, and where to start.
        model: that the labels are believed to come from.
        data: inputs, whose first instance is used, and labels.
        settings: as of :func:`~glassformer.learners.row_risk.minimise_rows`.

    Raises:
        ParameterError: a setting is out of range.
        IncompatibleError: settings that do not go with the model or with the data.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model, rng = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1), np.random.default_rng(0)
        >>> size = model.at_size(50)
        >>> design = size.design.sample(150, size.input_shape, rng)
        >>> teacher = model.prior.sample((1, 50), rng)
        >>> data = DataSet(design, model.channel.sample(design.forward(teacher, 0), rng), teacher=teacher)
        >>> found = learn_rows(RowRisk("logistic", strength=0.1), model, data)
        >>> str(found.status), found.estimates.shape
        ('converged', (1, 1, 50))
    """
    own, student = row_risk_on(risk, model, data)
    found = minimise_rows(own, _starting_weights(risk.branch, model, own, data), settings)
    point, dimension = found.point, own.shape[1] / float(model.prior.degrees)
    return RowFit(
        point.weights[None],
        status=found.status,
        iterations=found.iterations,
        residual=found.gap,
        training_loss=point.loss / own.samples,
        free_energy=point.risk / dimension,
        student=student,
        intercept=point.intercept,
        means=own.mean_fields(point.weights),
        energies=found.energies / dimension,
        notes=found.notes,
    )


def row_risk_on(risk: RowRisk, model: Model, data: DataSet) -> tuple[EmpiricalRowRisk, Student]:
    """Return the risk on a data set, and the student.

    Raises:
        IncompatibleError: the strength is open, or settings do not go with the model or with the data.
    """
    if risk.strength is None:
        raise IncompatibleError("strength = best follows from theory: give a number")
    student = student_of(model, risk.loss, risk.student, risk.student_rows)
    length = int(data.design.row_shape[-1])
    own = EmpiricalRowRisk(
        student,
        data.design,
        student.targets(data.labels),
        penalty_of(risk.penalty, ROWS),
        float(risk.strength),
        feature_variances(model.prior, length),
        _encodings(risk.positions, model, student, data, length),
        risk.intercept,
    )
    return own, student


def _encodings(positions: ArrayLike | None, model: Model, student: Student, data: DataSet, length: int) -> Array | None:
    """Return positional encodings of the tokens, shape (L, d), orthogonal to the teacher's rows; None for none."""
    if positions is None:
        return None
    own = np.asarray(positions, dtype=float)
    own = own[:, None] if own.ndim == 1 else own
    if own.ndim != 2 or len(own) != student.tokens or not np.all(np.isfinite(own)):
        raise ParameterError("positions", np.shape(own), f"finite numbers of shape ({student.tokens}, directions)")
    if model.prior.degrees != 1:
        raise IncompatibleError("positions are for one head, whose rows see all coordinates of the tokens")
    hidden = np.zeros((0, length)) if data.teacher is None else np.asarray(data.teacher)
    if len(hidden) + own.shape[1] > length:
        raise ParameterError("positions", own.shape, f"at most {length - len(hidden)} directions of d = {length}")
    drawn = data.rng.standard_normal((own.shape[1], length))
    basis = np.linalg.qr(np.concatenate([hidden, drawn]).T)[0]
    return np.asarray(own @ basis[:, len(hidden) :].T)


def weights_at(overlap: Array, power: Array, model: Model, data: DataSet, rng: np.random.Generator) -> Array:
    """Return random weights that have this overlap with the teacher and this power exactly, shape (P, d).

    Args:
        overlap: ``M``, shape (P, P*).
        power: ``Q``, shape (P, P).
        model: of the teacher.
        data: with the teacher.
        rng: source of the random part.

    Raises:
        IncompatibleError: the data have no teacher.
    """
    if data.teacher is None:
        raise IncompatibleError("a start with an overlap needs the teacher's rows, which these data do not have")
    teacher, heads = data.teacher, round(1 / float(model.prior.degrees))
    length = teacher.shape[1]
    weights = rng.standard_normal((len(power), length)) * np.sqrt(feature_variances(model.prior, length))
    # Rows of different heads see different coordinates and have no products.
    for head in range(heads):
        own, true = slice(head, len(power), heads), teacher[head::heads]
        along = np.linalg.solve(true @ true.T / length, overlap[own, head::heads].T).T
        random = weights[own] - weights[own] @ np.linalg.pinv(true) @ true
        apart = square_root(power[own, own] - along @ overlap[own, head::heads].T)
        unit = np.linalg.solve(square_root(random @ random.T / length), random)
        weights[own] = along @ true + apart @ unit
    return weights


def _starting_weights(
    starts: str | int | tuple[ArrayLike, ArrayLike] | Sequence[Array | str] | None,
    model: Model,
    risk: EmpiricalRowRisk,
    data: DataSet,
) -> list[Array]:
    """Return weights to begin at, see :class:`~glassformer.risk.rows.row_risk.RowRisk`."""
    rng, shape = data.rng.spawn(1)[0], risk.shape
    if starts is None and risk.student.is_convex:
        starts = ["zero"]
    elif starts is None:
        starts = ["random"] * _STARTS if risk.encodings is None else ["random"] * (_STARTS - 1) + ["positional"]
    if isinstance(starts, tuple) and len(starts) == 2:
        overlap, power = (np.asarray(part, dtype=float) for part in starts)
        starts = [weights_at(overlap, power, model, data, rng)]
    elif isinstance(starts, str):
        starts = starts.split(",")
    elif isinstance(starts, int | np.integer):
        starts = ["random"] * max(int(starts), 1)
    spread = np.sqrt(feature_variances(model.prior, shape[1]))

    def weights(start: Array | str) -> Array:
        if not isinstance(start, str):
            given = np.asarray(start, dtype=float)
            if given.shape != shape or not np.all(np.isfinite(given)):
                raise ParameterError("branch", np.shape(given), f"finite weights of shape {shape}")
            return given
        name = start.strip()
        drawn = spread * rng.standard_normal(shape)
        if name == "zero":
            # Zero itself may be a saddle, which descent does not leave.
            return 0.0 * drawn if risk.student.is_convex else _SMALL * drawn
        if name == "informed":
            if data.teacher is None:
                raise IncompatibleError("branch = informed begins at the teacher's rows, which these data do not have")
            known = min(shape[0], len(data.teacher))
            drawn[:known] = data.teacher[:known]
        elif name == "positional":
            if risk.encodings is None:
                raise IncompatibleError("branch = positional begins along positional encodings: give positions")
            # Mean fields are half the leading component of the encodings, as at the start of the theory.
            drawn = _POSITIONAL_SPREAD * drawn + 0.5 * np.sqrt(shape[1]) * np.linalg.svd(risk.encodings)[2][0]
        elif name not in ("random", "uninformed"):
            allowed = "random, uninformed, zero, informed, positional, a number of random starts, or weights"
            raise ParameterError("branch", name, allowed)
        return drawn

    return [weights(start) for start in starts]
