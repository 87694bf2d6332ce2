"""How close a student's rows are to the teacher's, and how well it predicts, the same for theory and runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from glassformer.channels.labelling import is_predictable, true_label_mixture
from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.risk.rows.student import Student


class RowMatch(NamedTuple):
    """The student's row that stands for each row of the teacher, after the best matching.

    Attributes:
        cosine: of each teacher's row with its partner, zero without one, shape (P*,).
        row_error: squared distance of each teacher's row from its partner per dimension, one without, shape (P*,).
        turn: signs, permutation or rotation that aligns the student's rows with the teacher's, shape (P, P): partners
            come in the order of the teacher's rows, before rows without one.
    """

    cosine: Array
    row_error: Array
    turn: Array

    @property
    def error(self) -> float:
        """Mean squared distance of the teacher's rows from their partners."""
        return float(np.mean(self.row_error))


def row_products(model: Model, first: Array, second: Array) -> Array:
    """Return inner products of rows per dimension that they see; rows of different heads see different coordinates.

    Args:
        model: of the teacher.
        first: rows of student or teacher, shape (P, length).
        second: rows of student or teacher, shape (P', length).
    """
    heads = round(1 / float(model.prior.degrees))
    same = np.arange(len(first))[:, None] % heads == np.arange(len(second)) % heads
    return np.asarray(same * (first @ second.T) / first.shape[1])


def match_rows(model: Model, student: Student, power: Array, overlap: Array, teacher: Array | None = None) -> RowMatch:
    r"""Return cosines and errors of the teacher's rows after the best matching with the student's.

    Where the student has the teacher's own link, the symmetries of the labels are allowed. Any other student may
    permute its rows, and change the sign of a row on which its prediction does not depend.

    Args:
        model: of the teacher.
        student: of these rows.
        power: :math:`Q`, shape (P, P).
        overlap: :math:`M`, shape (P, P*).
        teacher: powers of the teacher's rows, shape (P*,); one each by default, as in the limit of large sizes.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> from glassformer.risk.rows.student import student_of
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
        >>> match_rows(model, student_of(model, "logistic"), np.array([[4.0]]), np.array([[1.0]]))
        RowMatch(cosine=array([0.5]), row_error=array([3.]), turn=array([[1.]]))
    """
    count = overlap.shape[1]
    true = np.ones(count) if teacher is None else teacher
    if student.own_link:
        turn = model.channel.labels.row_symmetries.alignment(overlap, model.prior.rotational)
        power, overlap = turn @ power @ turn.T, turn @ overlap
        sizes = np.diag(power)
        own, cosine = np.diag(overlap), np.diag(overlap) / np.sqrt(np.maximum(sizes * true, 1e-300))
        return RowMatch(cosine, sizes - 2 * own + true, turn)
    sizes = np.diag(power)
    cosines = overlap / np.sqrt(np.maximum(sizes[:, None] * true, 1e-300))
    even = student.even_rows[:, None]
    gains = np.where(even, np.abs(cosines), cosines)
    rows, teachers = linear_sum_assignment(gains, maximize=True)
    cosine, row_error = np.zeros(count), true.copy()
    cosine[teachers] = gains[rows, teachers]
    row_error[teachers] += sizes[rows] - 2 * np.abs(overlap[rows, teachers]) * np.sign(cosine[teachers])
    partners = rows[np.argsort(teachers)]
    order = [*partners, *np.setdiff1d(np.arange(len(power)), partners)]
    signs = np.where(even[rows, 0] & (cosines[rows, teachers] < 0), -1.0, 1.0)
    turn = np.eye(len(power))
    turn[rows, rows] = signs
    return RowMatch(cosine, row_error, turn[order])


def prediction_quality(
    model: Model, student: Student, true: Array, fields: Array, intercept: Array
) -> dict[str, float]:
    """Return errors of a student on the labels of new samples, without the labels' own noise.

    Args:
        model: of the teacher.
        student: prediction and loss.
        true: fields of the teacher, shape (n, P*, L).
        fields: fields of the student, shape (n, P, L).
        intercept: added to its outputs.

    Returns:
        ``label_error``, the share of discrete labels that its decisions miss, and ``prediction_error``, the mean
        squared difference of labels that are numbers from its predictions, as Bayes-optimal limits count them. Labels
        +1 and -1 that are random at any field have no value without noise: there ``label_error`` is the share of noisy
        ones, and ``prediction_error`` of the mean label, for losses of numbers.
    """
    found = label_quality(model, student, true, student.predictions(fields) + intercept)
    return {name: float(value) for name, value in found.items()}


def label_quality(model: Model, student: Student, true: Array, predictions: Array) -> dict[str, Array]:
    """Return what :func:`prediction_quality` returns, for one or several predictions of every sample.

    Args:
        model: of the teacher.
        student: prediction and loss.
        true: fields of the teacher, shape (n, P*, L).
        predictions: shape (..., n, entries).

    Returns:
        Errors by name, shape (...).
    """
    channel = model.channel
    found: dict[str, Array] = {}
    decides = (
        student.values or student.loss.labels == "signs" or (student.signs and channel.fields.rows == student.rows == 1)
    )
    if channel.labels.discrete and decides:
        for share, labels in true_label_mixture(channel, true, True):
            truth = np.asarray(labels).reshape(len(true), -1)
            if truth.shape[1] == 1:
                wrong = np.mean(share * (student.decisions(predictions) != truth[:, 0]), axis=-1)
                found["label_error"] = found.get("label_error", 0.0) + wrong
    if is_predictable(channel) and not channel.labels.discrete:
        for share, labels in true_label_mixture(channel, true, False):
            clean = np.asarray(labels).reshape(len(true), -1)
            if student.signs:
                wrong = np.mean(share * (0.5 - 0.5 * student.decisions(predictions) * clean[:, 0]), axis=-1)
                found["label_error"] = found.get("label_error", 0.0) + wrong
            if clean.shape == predictions.shape[-2:] and student.loss.labels == "numbers":
                square = np.mean(share * np.sum((clean - predictions) ** 2, axis=-1), axis=-1)
                square = square / float(channel.labels.error_unit)
                found["prediction_error"] = found.get("prediction_error", 0.0) + square
    return found
