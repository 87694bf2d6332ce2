r"""Correlated tokens: the tokens :math:`x_l` of one sample have covariance :math:`C_{lm}`.

In models whose fields belong to single tokens, fields are :math:`Z C^{1/2}` with the fields ``Z`` of independent
tokens, and the theory is that of the link :math:`Z\mapsto g(ZC^{1/2})`. Data are drawn with independent tokens and
labelled by this link; they equal correlated data up to a known linear map of the tokens. In bilinear sequence
regression a field is a sum over all tokens: correlated inputs are drawn
(:class:`~glassformer.designs.dense.CorrelatedDesign`), and only the theory of ridge regression is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.arrays import AnyArray
from glassformer.core.checks import is_number, real_numbers
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.random_matrices.anisotropic_ridge import Eigenvalues

Root = tuple[tuple[float, ...], ...]
"""Symmetric root of a correlation matrix; empty for independent tokens."""

# Smallest eigenvalue of a correlation matrix: the inverse of its root then keeps more than ten digits.
_SMALLEST = 1e-6
# Nodes of averages over the eigenvalues of many tokens, whose error falls like |c| to their number; this accuracy, and
# the most nodes, which reach it up to a correlation of 0.995.
_ACCURACY, _MOST_NODES = 1e-17, 8192


def correlation_root(given: object, tokens: int) -> Root:
    r"""Return :math:`C^{1/2}` from ``C``, or from the correlation of neighbours, :math:`C_{lm} = c^{|l-m|}`.

    Args:
        given: a number in (-1, 1), or a symmetric positive definite matrix of shape (L, L) with ones on the diagonal.
        tokens: ``L``.

    Raises:
        ParameterError: ``given`` is neither.

    Example:
        >>> correlation_root(0.0, 3)
        ()
        >>> np.round(np.array(correlation_root(0.6, 2)) @ np.array(correlation_root(0.6, 2)), 12).tolist()
        [[1.0, 0.6], [0.6, 1.0]]
    """
    allowed = _allowed(tokens)
    if is_number(given) and not abs(given) < 1:
        raise ParameterError("token_correlation", given, allowed)
    if is_number(given) and given == 0:
        return ()
    token = np.arange(tokens)
    matrix = given ** np.abs(token[:, None] - token) if is_number(given) else real_numbers("token_correlation", given)
    if matrix.shape != (tokens, tokens) or tokens == 1:
        raise ParameterError("token_correlation", given, allowed if tokens > 1 else "0 for a single token")
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    valid = np.allclose(matrix, matrix.T) and np.allclose(np.diag(matrix), 1) and values[0] >= _SMALLEST
    if not valid:
        raise ParameterError("token_correlation", given, allowed)
    return tuple(tuple(float(x) for x in row) for row in (vectors * np.sqrt(values)) @ vectors.T)


def are_correlated(given: object) -> bool:
    """Return whether tokens are correlated, for any number of tokens.

    Args:
        given: as for :func:`correlation_root`, which checks the value for a given number of tokens.

    Raises:
        ParameterError: the value is invalid for every number of tokens.

    Example:
        >>> are_correlated(0.5), are_correlated(0), are_correlated([[1, 0], [0, 1]])
        (True, False, False)
    """
    tokens = 2 if is_number(given) else len(real_numbers("token_correlation", given))
    try:
        root = correlation_root(given, tokens)
    except ParameterError:
        raise ParameterError("token_correlation", given, _allowed("L")) from None
    return bool(root) and not np.array_equal(root, np.eye(tokens))


def _allowed(tokens: int | str) -> str:
    return f"a number in (-1, 1), or a positive definite matrix of shape ({tokens}, {tokens}) with unit diagonal"


def correlation_record(given: object, correlated: Root | bool) -> dict[str, Any]:
    """Return the parameter as tables record it; empty for independent tokens."""
    return {"token_correlation": given if is_number(given) else np.asarray(given).tolist()} if correlated else {}


def correlated_entries(given: object, noise: float) -> Eigenvalues:
    r"""Return the entries of correlated tokens as the features of a linear label.

    Every eigenvalue of ``C`` belongs to ``d`` of the features. Those of :math:`c^{|l-m|}` for many tokens are
    :math:`(1-c^2)/(1-2c\cos\varphi+c^2)`, with the angle :math:`\varphi` uniform.

    Args:
        given: as for :func:`correlation_root`.
        noise: variance of the label noise.

    Raises:
        IncompatibleError: a number is so close to one that averages over the eigenvalues are not accurate.

    Example:
        >>> features = correlated_entries(0.5, 0.1)
        >>> features.values[[0, -1]].round(2), round(features.mean, 12)
        (array([3.  , 0.33]), 1.0)
    """
    if not is_number(given):
        values = np.asarray(np.linalg.eigvalsh(real_numbers("token_correlation", given)), dtype=float)
    else:
        nodes = max(16, int(np.ceil(np.log(_ACCURACY) / np.log(abs(given)))))
        if nodes > _MOST_NODES:
            raise IncompatibleError(
                f"token_correlation = {given:g}: the theory of many tokens is computed from -0.995 to 0.995: give the "
                "matrix of a number of tokens"
            )
        angles = np.pi * (np.arange(nodes) + 0.5) / nodes
        values = (1 - given**2) / (1 - 2 * given * np.cos(angles) + given**2)
    return Eigenvalues(values, np.full(len(values), 1 / len(values)), np.ones(len(values)), noise)


@dataclass(frozen=True)
class CorrelatedTokensLink:
    """A link of correlated tokens as a function of the fields of independent tokens.

    Attributes:
        link: function of the fields of correlated tokens.
        root: symmetric root of the correlation matrix.
    """

    link: Callable[[Any], Any]
    root: Root

    def __call__(self, fields: AnyArray) -> Any:
        return self.link(fields @ self.matrix)

    @property
    def matrix(self) -> Array:
        """The root as an array."""
        return np.array(self.root)

    @property
    def __name__(self) -> str:
        return str(getattr(self.link, "__name__", repr(self.link)))
