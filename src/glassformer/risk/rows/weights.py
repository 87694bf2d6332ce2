r"""The estimate that a penalty makes of the weights of rows, and its averages.

The weights of one feature, :math:`w \in R^P`, minimise :math:`\frac12w^T\hat Vw - b^Tw + \lambda r(w)` in the field
:math:`b = \hat Mw^* + \hat Q^{1/2}\xi`. Their averages are the order parameters

.. math:: V = E\,\frac{dw}{db}, \qquad M = E\,ww^{*T}, \qquad Q = E\,ww^T.

On features of covariance :math:`\Sigma` with eigenvalues ``s`` the penalty is on the weights themselves, and the order
parameters are those of :math:`W\Sigma^{1/2}`, which labels see.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points
from glassformer.priors.rows import WeightRowsPrior
from glassformer.risk.penalty_base import Penalty

_OTHER_SPECTRUM = "feature_spectrum has no theory with this penalty on several rows: use ridge"
# Sampled weights of the teacher, and sets of them, as many as of labels.
_WEIGHTS, _SETS = 1 << 14, 8


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


def weight_estimate(
    penalty: Penalty, field: Array, v_hat: Array, strength: float, spectrum: Array
) -> tuple[Array, Array]:
    r"""Return the weights of every feature in given fields, and their mean response :math:`E\,dw/db`.

    Args:
        penalty: of the weights of a feature.
        field: ``b``, shape (P, d).
        v_hat: :math:`\hat V`, shape (P, P).
        strength: :math:`\lambda`.
        spectrum: eigenvalue of every feature, shape (d,).

    Raises:
        IncompatibleError: features of unequal variances have no theory with this penalty.
    """
    if penalty.quadratic:
        values, places = np.unique(spectrum, return_inverse=True)
        gains = _gains(penalty, v_hat, strength, values)[places]
        return np.einsum("dab,bd->ad", gains, field), _symmetric(gains.mean(axis=0))
    if np.ptp(spectrum) > 0:
        raise IncompatibleError(_OTHER_SPECTRUM)
    weights, response, _ = penalty.minimisers(field, v_hat, strength)
    return weights, _symmetric(response)


def weight_order(
    penalty: Penalty,
    prior: WeightRowsPrior,
    strength: float,
    conjugates: RowConjugates,
    gram: Array,
    number: int | None = None,
) -> RowOrder:
    r"""Return the order parameters at conjugate parameters.

    Half the square has a closed form, :math:`w = (\hat V + \lambda)^{-1}b`; other averages are over sampled weights of
    the teacher and normal fields.

    Args:
        penalty: of the weights of a feature.
        prior: of the teacher's rows.
        strength: :math:`\lambda`.
        conjugates: conjugate parameters.
        gram: inner products of the positional encodings, shape (L, L).
        number: of a set of sampled weights, whose spread gives the error; None for all of them.

    Raises:
        IncompatibleError: positional encodings or features of unequal variances have no theory with this penalty.
    """
    if penalty.quadratic:
        return _ridge_order(penalty, prior, strength, conjugates, gram)
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
        w, response, response_square = penalty.minimisers(
            np.concatenate([signal + rest, signal - rest], axis=1), v_hat, strength
        )
    count = true.shape[1]
    return RowOrder(
        power=_symmetric(w @ w.T / count),
        overlap=w @ true.T / count,
        susceptibility=_symmetric(response),
        means=np.zeros_like(mean_hat),
        response_square=response_square,
        penalty=float(np.sum(penalty.value(w))) / count,
    )


def _ridge_order(
    penalty: Penalty, prior: WeightRowsPrior, strength: float, conjugates: RowConjugates, gram: Array
) -> RowOrder:
    q_hat, m_hat, v_hat, mean_hat = conjugates
    values = np.array(prior.feature_spectrum)
    spectrum, gains = values[:, None, None], _gains(penalty, v_hat, strength, values)
    squares = m_hat @ m_hat.T * spectrum + q_hat + mean_hat @ gram @ mean_hat.T
    powers = gains @ squares @ gains
    return RowOrder(
        power=_symmetric(powers.mean(axis=0)),
        overlap=(spectrum * (gains @ m_hat)).mean(axis=0),
        susceptibility=_symmetric(gains.mean(axis=0)),
        means=gains.mean(axis=0) @ mean_hat @ gram,
        response_square=np.mean([np.kron(gain, gain) for gain in gains], axis=0),
        penalty=0.5 * penalty.square * float(np.mean(np.trace(powers / spectrum, axis1=1, axis2=2))),
    )


def _gains(penalty: Penalty, v_hat: Array, strength: float, spectrum: Array) -> Array:
    """Return the responses of ridge weights at every eigenvalue, shape (eigenvalues, P, P)."""
    return np.asarray(np.linalg.inv(v_hat + penalty.square * strength / spectrum[:, None, None] * np.eye(len(v_hat))))


def _symmetric(matrix: Array) -> Array:
    return np.asarray(0.5 * (matrix + matrix.T))


def _weights(prior: WeightRowsPrior, rows: int, number: int | None) -> tuple[Array, Array]:
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
