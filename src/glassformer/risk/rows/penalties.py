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
    def order(self, prior: Any, strength: float, conjugates: RowConjugates, gram: Array) -> RowOrder:
        r"""Return the order parameters at conjugate parameters.

        Args:
            prior: of the teacher's rows.
            strength: :math:`\lambda`.
            conjugates: conjugate parameters.
            gram: inner products of the positional encodings, shape (L, L).
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

    def order(self, prior: Any, strength: float, conjugates: RowConjugates, gram: Array) -> RowOrder:
        q_hat, m_hat, v_hat, mean_hat = conjugates
        spectrum = np.array(getattr(prior, "spectrum", (1.0,)))[:, None, None]
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


@dataclass(frozen=True)
class SampledRowPenalty(RowPenalty):
    r"""Penalties without a closed form: elastic net row by row, or the norm of all rows of a feature.

    Averages are over sampled weights of the teacher and normal fields.

    Attributes:
        absolute: weight of :math:`\sum_k|w_k|`.
        square: weight of :math:`|w|^2/2`.
        group: weight of the norm :math:`|w|`.
    """

    absolute: float
    square: float
    group: float = 0.0

    def value(self, weights: Array, spectrum: Array) -> float:
        own = weights / np.sqrt(spectrum)
        norms = np.linalg.norm(own, axis=0).sum()
        return float(self.absolute * np.abs(own).sum() + 0.5 * self.square * np.sum(own**2) + self.group * norms)

    def estimate(self, field: Array, v_hat: Array, strength: float, spectrum: Array) -> tuple[Array, Array]:
        if np.ptp(spectrum) > 0:
            raise IncompatibleError(_OTHER_SPECTRUM)
        weights = self._minimiser(field, v_hat, strength)
        return weights, _symmetric(self._response(weights, v_hat, strength).mean(axis=0))

    def order(self, prior: Any, strength: float, conjugates: RowConjugates, gram: Array) -> RowOrder:
        if np.any(gram):
            raise IncompatibleError("positional encodings have no theory with this penalty: use penalty ridge")
        if len(getattr(prior, "spectrum", (1.0,))) > 1:
            raise IncompatibleError(_OTHER_SPECTRUM)
        q_hat, m_hat, v_hat, mean_hat = conjugates
        true, normal = _weights(prior, len(q_hat))
        root = square_root(q_hat)
        pairs = [(true, normal), (true, -normal)]
        parts = [self._minimiser(m_hat @ one + root @ other, v_hat, strength) for one, other in pairs]
        count = 2 * true.shape[1]
        rows = len(q_hat)
        responses = np.concatenate([self._response(w, v_hat, strength) for w in parts])
        squares = np.einsum("nab,ncd->acbd", responses, responses).reshape(rows**2, rows**2) / count
        return RowOrder(
            power=_symmetric(sum(w @ w.T for w in parts) / count),
            overlap=sum(w @ one.T for w, (one, _) in zip(parts, pairs, strict=True)) / count,
            susceptibility=_symmetric(responses.mean(axis=0)),
            means=np.zeros_like(mean_hat),
            response_square=squares,
            penalty=sum(self.value(w, np.ones(1)) for w in parts) / count,
        )

    def _minimiser(self, field: Array, v_hat: Array, strength: float) -> Array:
        """Return the weights in fields of shape (P, n), by proximal gradient steps."""
        if len(v_hat) == 1:
            curvature = v_hat[0, 0] + strength * self.square
            threshold = strength * (self.absolute + self.group)
            return np.asarray(np.sign(field) * np.maximum(np.abs(field) - threshold, 0.0) / curvature)
        hessian = v_hat + strength * self.square * np.eye(len(v_hat))
        values = np.linalg.eigvalsh(hessian)
        step, contraction = 2 / (values[-1] + values[0]), (values[-1] - values[0]) / (values[-1] + values[0])
        if values[0] < _FLAT * values[-1]:
            # A direction without curvature, as a shift of all outputs of a softmax: longer steps would turn back there.
            step, contraction = 1 / values[-1], 1 - _FLAT
        w: Array = np.asarray(np.linalg.lstsq(hessian, field)[0], dtype=float)
        steps = int(np.ceil(np.log(_ACCURACY) / np.log(max(contraction, 1e-3)))) + 2
        for _ in range(min(steps, _MOST_STEPS)):
            w = self._shrunk(w - step * (hessian @ w - field), step * strength)
        return w

    def _shrunk(self, w: Array, strength: float) -> Array:
        """Return the proximal map of the kinked part of the penalty."""
        w = np.sign(w) * np.maximum(np.abs(w) - strength * self.absolute, 0.0)
        if self.group == 0:
            return w
        norm = np.linalg.norm(w, axis=0)
        return np.asarray(w * np.maximum(1 - strength * self.group / np.maximum(norm, 1e-300), 0.0))

    def _response(self, w: Array, v_hat: Array, strength: float) -> Array:
        """Return :math:`dw/db` at every minimiser, shape (n, P, P)."""
        identity = np.eye(len(v_hat))
        hessian = np.broadcast_to(v_hat + strength * self.square * identity, (w.shape[1], *v_hat.shape))
        if self.group > 0:
            norm = np.maximum(np.linalg.norm(w, axis=0), 1e-300)
            unit = (w / norm).T
            bend = (identity - unit[:, :, None] * unit[:, None, :]) / norm[:, None, None]
            hessian = hessian + strength * self.group * bend
        active = (w != 0).T.astype(float)
        both = active[:, :, None] * active[:, None, :]
        inactive = identity * (1 - active)[:, :, None]
        return np.asarray(both * np.linalg.inv(both * hessian + inactive))


# Relative accuracy of weights in several rows, and steps at most (chosen by trial).
_ACCURACY, _MOST_STEPS = 1e-12, 2000
# Share of the largest curvature below which a direction has none.
_FLAT = 1e-6
# Sampled weights of the teacher.
_WEIGHTS = 1 << 14


def _weights(prior: Any, rows: int) -> tuple[Array, Array]:
    """Return weights of the teacher with exact second moments and independent normal numbers, shapes (., n)."""
    true = prior.sample((prior.rows, _WEIGHTS), np.random.default_rng(1))
    normal = normal_points(rows, _WEIGHTS, 1)[0].T
    true = np.linalg.solve(np.linalg.cholesky(true @ true.T / _WEIGHTS), true)
    return true, np.linalg.solve(np.linalg.cholesky(normal @ normal.T / _WEIGHTS), normal)


ROW_PENALTIES: dict[str, RowPenalty] = {
    "ridge": RowRidge(),
    "lasso": SampledRowPenalty(1.0, 0.0),
    "elastic": SampledRowPenalty(0.5, 0.5),
    "group": SampledRowPenalty(0.0, 0.0, 1.0),
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
