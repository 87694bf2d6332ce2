r"""Penalties on rows of weights, and the estimate that they make of the weights.

The weights of one feature, :math:`w \in R^P`, minimise :math:`\frac12w^T\hat Vw - b^Tw + \lambda r(w)` in the field
:math:`b = \hat Mw^* + \hat Q^{1/2}\xi`. Their averages are the order parameters

.. math:: V = E\,\frac{dw}{db}, \qquad M = E\,ww^{*T}, \qquad Q = E\,ww^T.

On features of covariance :math:`\Sigma` with eigenvalues ``s`` the penalty is on the weights themselves, and the order
parameters are those of :math:`W\Sigma^{1/2}`, which labels see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points


class RowConjugates(NamedTuple):
    r"""Conjugate parameters per degree of freedom.

    Attributes:
        q_hat: :math:`\hat Q`, shape (P, P).
        m_hat: :math:`\hat M`, shape (P, P*).
        v_hat: :math:`\hat V`, shape (P, P).
        mean_hat: :math:`\hat f_l = \alpha E f_l`, shape (P, L).
    """

    q_hat: Array
    m_hat: Array
    v_hat: Array
    mean_hat: Array


class RowOrder(NamedTuple):
    r"""Order parameters of the weights.

    Attributes:
        power: ``Q``, shape (P, P).
        overlap: ``M``, shape (P, P*).
        susceptibility: ``V``, shape (P, P).
        means: mean fields of the tokens, shape (P, L).
        response_square: :math:`E\,J\otimes J` with :math:`J = dw/db`, shape (P P, P P).
        penalty: :math:`E\,r(w)`, without its strength.
    """

    power: Array
    overlap: Array
    susceptibility: Array
    means: Array
    response_square: Array
    penalty: float


class RowPenalty(ABC):
    r"""A penalty on the weights of each feature: :math:`a\sum_k|w_k| + \frac s2|w|^2 + g|w|`."""

    absolute: Any
    """Weight ``a`` of the sum of absolute weights."""
    square: Any
    """Weight ``s`` of half the squared norm."""
    group: Any
    """Weight ``g`` of the norm."""
    smooth = default_property(False, "True when it has a gradient everywhere.")

    @abstractmethod
    def value(self, weights: Array, spectrum: Array) -> float:
        """Return the sum over features of the penalty of weights, shape (P, features), at their eigenvalues."""

    @abstractmethod
    def estimate(self, field: Array, v_hat: Array, strength: float, spectrum: Array) -> tuple[Array, Array]:
        r"""Return the weights of every feature in given fields, and their mean response :math:`E\,dw/db`.

        Args:
            field: ``b``, shape (P, d).
            v_hat: :math:`\hat V`, shape (P, P).
            strength: :math:`\lambda`.
            spectrum: eigenvalue of every feature, shape (d,).
        """

    @abstractmethod
    def order(
        self, prior: Any, strength: float, conjugates: RowConjugates, gram: Array, number: int | None = None
    ) -> RowOrder:
        r"""Return the order parameters at conjugate parameters.

        Args:
            prior: of the teacher's rows.
            strength: :math:`\lambda`.
            conjugates: conjugate parameters.
            gram: inner products of the positional encodings, shape (L, L).
            number: of a set of sampled weights, whose spread gives the error; None for all of them.
        """


@dataclass(frozen=True)
class RowRidge(RowPenalty):
    r"""Half the squared norm: :math:`w = (\hat V + \lambda)^{-1}b`."""

    absolute, square, group = 0.0, 1.0, 0.0
    smooth = True

    def value(self, weights: Array, spectrum: Array) -> float:
        return 0.5 * float(np.sum(weights**2 / spectrum))

    def estimate(self, field: Array, v_hat: Array, strength: float, spectrum: Array) -> tuple[Array, Array]:
        values, places = np.unique(spectrum, return_inverse=True)
        gains = np.linalg.inv(v_hat + strength / values[:, None, None] * np.eye(len(v_hat)))[places]
        return np.einsum("dab,bd->ad", gains, field), _symmetric(gains.mean(axis=0))

    def order(
        self, prior: Any, strength: float, conjugates: RowConjugates, gram: Array, number: int | None = None
    ) -> RowOrder:
        q_hat, m_hat, v_hat, mean_hat = conjugates
        spectrum = np.array(prior.feature_spectrum)[:, None, None]
        gains = np.linalg.inv(v_hat + strength / spectrum * np.eye(len(v_hat)))
        squares = m_hat @ m_hat.T * spectrum + q_hat + mean_hat @ gram @ mean_hat.T
        powers = gains @ squares @ gains
        return RowOrder(
            power=_symmetric(powers.mean(axis=0)),
            overlap=(spectrum * (gains @ m_hat)).mean(axis=0),
            susceptibility=_symmetric(gains.mean(axis=0)),
            means=gains.mean(axis=0) @ mean_hat @ gram,
            response_square=np.mean([np.kron(gain, gain) for gain in gains], axis=0),
            penalty=0.5 * float(np.mean(np.trace(powers / spectrum, axis1=1, axis2=2))),
        )


def _symmetric(matrix: Array) -> Array:
    return np.asarray(0.5 * (matrix + matrix.T))


_OTHER_SPECTRUM = "feature_spectrum has no theory with this penalty on several rows: use ridge"


class SampledRowPenalty(RowPenalty):
    """Penalties without a closed form: averages are over sampled weights of the teacher and normal fields."""

    absolute, square, group = 0.0, 0.0, 0.0

    @abstractmethod
    def minimisers(self, field: Array, v_hat: Array, strength: float) -> tuple[Array, Array, Array]:
        r"""Return weights in fields of shape (P, n), and the means of :math:`J = dw/db` and :math:`J\otimes J`."""

    def value(self, weights: Array, spectrum: Array) -> float:
        own = weights / np.sqrt(spectrum)
        norms = np.linalg.norm(own, axis=0).sum()
        return float(self.absolute * np.abs(own).sum() + 0.5 * self.square * np.sum(own**2) + self.group * norms)

    def estimate(self, field: Array, v_hat: Array, strength: float, spectrum: Array) -> tuple[Array, Array]:
        if np.ptp(spectrum) > 0:
            raise IncompatibleError(_OTHER_SPECTRUM)
        weights, response, _ = self.minimisers(field, v_hat, strength)
        return weights, _symmetric(response)

    def order(
        self, prior: Any, strength: float, conjugates: RowConjugates, gram: Array, number: int | None = None
    ) -> RowOrder:
        if np.any(gram):
            raise IncompatibleError("positional encodings have no theory with this penalty: use penalty ridge")
        if len(prior.feature_spectrum) > 1:
            raise IncompatibleError(_OTHER_SPECTRUM)
        q_hat, m_hat, v_hat, mean_hat = conjugates
        true, normal = _weights(prior, len(q_hat), number)
        signal, rest = m_hat @ true, square_root(q_hat) @ normal
        true = np.concatenate([true, true], axis=1)
        # Weights that diverge are a status.
        with np.errstate(over="ignore", invalid="ignore"):
            w, response, response_square = self.minimisers(
                np.concatenate([signal + rest, signal - rest], axis=1), v_hat, strength
            )
        count = true.shape[1]
        return RowOrder(
            power=_symmetric(w @ w.T / count),
            overlap=w @ true.T / count,
            susceptibility=_symmetric(response),
            means=np.zeros_like(mean_hat),
            response_square=response_square,
            penalty=self.value(w, np.ones(1)) / count,
        )


@dataclass(frozen=True)
class SparseRowPenalty(SampledRowPenalty):
    r"""Lasso and elastic net of every row.

    Attributes:
        absolute: weight of :math:`\sum_k|w_k|`, > 0.
        square: weight of :math:`|w|^2/2`.
    """

    absolute: float
    square: float

    def minimisers(self, field: Array, v_hat: Array, strength: float) -> tuple[Array, Array, Array]:
        """Return weights by coordinate descent, which finds the signs, and by linear equations for given signs."""
        rows, threshold = len(v_hat), strength * self.absolute
        hessian = v_hat + strength * self.square * np.eye(rows)
        w, left = np.zeros_like(field), np.arange(field.shape[1])
        for _ in range(_MOST_STEPS):
            own, b = w[:, left], field[:, left]
            for k in list(range(rows)) * _SWEEPS:
                pull = b[k] - hessian[k] @ own + hessian[k, k] * own[k]
                own[k] = np.sign(pull) * np.maximum(np.abs(pull) - threshold, 0.0) / hessian[k, k]
            signs, exact = np.sign(own), own.copy()
            for active, chosen in _patterns(signs):
                part = hessian[np.ix_(active, active)]
                if active.any() and np.linalg.cond(part) < 1 / _ACCURACY:
                    exact[np.ix_(active, chosen)] = np.linalg.solve(
                        part, (b - threshold * signs)[np.ix_(active, chosen)]
                    )
            pull = b - hessian @ exact
            excess = np.where(signs == 0, np.abs(pull) - threshold, np.abs(pull - threshold * signs))
            wrong = np.any((exact * signs < 0) | (excess > _ACCURACY * (threshold + np.abs(b))), axis=0)
            w[:, left] = np.where(wrong, own, exact)
            left = left[wrong]
            if not left.size:
                break
        response, square = np.zeros((rows, rows)), np.zeros((rows**2, rows**2))
        for active, chosen in _patterns(np.sign(w)):
            own = np.zeros((rows, rows))
            own[np.ix_(active, active)] = np.linalg.pinv(hessian[np.ix_(active, active)])
            response += len(chosen) * own
            square += len(chosen) * np.kron(own, own)
        return w, response / w.shape[1], square / w.shape[1]


@dataclass(frozen=True)
class GroupRowPenalty(SampledRowPenalty):
    r"""The norm of all weights of a feature, :math:`|w|`.

    Attributes:
        group: its weight, > 0.
    """

    group: float

    def minimisers(self, field: Array, v_hat: Array, strength: float) -> tuple[Array, Array, Array]:
        r"""Return weights in the basis in which :math:`\hat V` is diagonal, where only their norm ``t`` is unknown.

        From :math:`(h_k + \gamma/t)\,w_k = b_k` it is the root of :math:`\sum_kb_k^2/(h_kt+\gamma)^2 = 1`. The inverse
        root of the sum is concave in ``t``: Newton's method from zero approaches the solution from below.
        """
        weight, (values, vectors) = strength * self.group, np.linalg.eigh(v_hat)
        h, b = np.maximum(values, 0.0)[:, None], vectors.T @ field
        active = np.linalg.norm(b, axis=0) > weight
        w, parts = np.zeros_like(b), b[:, active]
        t = np.zeros(parts.shape[1])
        for _ in range(_MOST_STEPS):
            ends = h * t + weight
            shares = (parts / ends) ** 2
            total = shares.sum(axis=0)
            step = (np.sqrt(total) - 1) * total / np.sum(shares * h / ends, axis=0)
            t = t + step
            if np.all(np.abs(step) <= _LAST_STEP * t):
                break
        w[:, active] = parts * t / (h * t + weight)
        bend = weight / t
        gain, unit = 1 / (h + bend), w[:, active] / t
        pulled = gain * unit
        rank_one = bend / np.sum(unit**2 * h * gain, axis=0) * pulled
        responses = np.eye(len(h))[:, :, None] * gain + pulled[:, None] * rank_one
        responses = np.einsum("ka,abn,jb->kjn", vectors, responses, vectors)
        square = np.einsum("abn,cdn->acbd", responses, responses, optimize=True).reshape(len(h) ** 2, -1)
        return vectors @ w, responses.sum(axis=2) / w.shape[1], square / w.shape[1]


def _patterns(signs: Array) -> list[tuple[Any, Any]]:
    """Return which weights are not zero, and the samples of which that holds, for every case that occurs."""
    codes = 2 ** np.arange(len(signs)) @ (signs != 0)
    return [((code >> np.arange(len(signs))) % 2 == 1, np.flatnonzero(codes == code)) for code in np.unique(codes)]


# Relative accuracy of weights of several rows with a lasso, sweeps of coordinate descent between two solutions of
# linear equations, and such rounds, or steps of Newton's method, at most (chosen by trial).
_ACCURACY, _SWEEPS, _MOST_STEPS = 1e-10, 4, 500
# Relative step of Newton's method after which the remaining error, about its square, is rounding.
_LAST_STEP = 1e-8
# Sampled weights of the teacher, and sets of them, as many as of labels.
_WEIGHTS, _SETS = 1 << 14, 8


def _weights(prior: Any, rows: int, number: int | None) -> tuple[Array, Array]:
    """Return weights of the teacher and independent normal numbers of one set or all, shapes (., n).

    Second moments of every set are exact.
    """
    true = prior.sample((prior.rows, _WEIGHTS), np.random.default_rng(1))
    parts = np.split(np.concatenate([true, normal_points(rows, _WEIGHTS, 1)[0].T]), _SETS, axis=1)
    own = np.stack(parts if number is None else parts[number % _SETS : number % _SETS + 1])
    exact = []
    for part in (own[:, : prior.rows], own[:, prior.rows :]):
        moments = part @ np.swapaxes(part, 1, 2) / part.shape[2]
        exact.append(np.concatenate(list(np.linalg.solve(np.linalg.cholesky(moments), part)), axis=1))
    return exact[0], exact[1]


ROW_PENALTIES: dict[str, RowPenalty] = {
    "ridge": RowRidge(),
    "lasso": SparseRowPenalty(1.0, 0.0),
    "elastic": SparseRowPenalty(0.5, 0.5),
    "group": GroupRowPenalty(1.0),
}


def row_penalty(name: object) -> RowPenalty:
    """Return the penalty of this name.

    Raises:
        ParameterError: the name is unknown.

    Example:
        >>> row_penalty("ridge").value(np.array([[3.0, 4.0]]), np.ones(2))
        12.5
    """
    if not (isinstance(name, str) and name in ROW_PENALTIES):
        raise ParameterError("penalty", name, f"for models of rows one of {', '.join(ROW_PENALTIES)}")
    return ROW_PENALTIES[name]
