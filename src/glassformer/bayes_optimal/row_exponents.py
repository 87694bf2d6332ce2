r"""Information and generative exponents of every row of a model with several rows.

With the normalised Hermite polynomials :math:`h_k` of the field of one row and one token, the information exponent of
a row is the smallest :math:`k\ge1` with :math:`E[y\,h_k(z)]\ne0` for an entry of the label and a token, and the
generative exponent the smallest with :math:`E[E[h_k(z)\mid y]^2]>0`. A row that enters labels only through products
with other rows may have no finite exponent: it is learned after these rows
(:mod:`~glassformer.bayes_optimal.weak_recovery`).
"""

from __future__ import annotations

import numpy as np

from glassformer.bayes_optimal.bounds import mean_square, squares_of_means
from glassformer.channels.labels import Exponents
from glassformer.core.checks import require_integer
from glassformer.core.estimate import Array
from glassformer.models.base import Model, require_theory

# Standard errors above which a coefficient is not zero (a convention: many coefficients are tested).
_STANDARD_ERRORS = 6.0


def row_exponents(model: Model, largest: int = 4, samples: int = 2**20, seed: int = 0) -> dict[str, Exponents]:
    """Return the exponents of every row by name; infinite if all coefficients up to degree ``largest`` vanish.

    Fields and labels are sampled, and squares of means are estimated without bias. A coefficient counts as non-zero if
    it exceeds six standard errors; smaller coefficients, below about ``samples ** -0.5``, are missed.

    Args:
        model: prior and channel; labels contain their noise.
        largest: largest degree of the Hermite polynomials.
        samples: number of sampled fields and labels.
        seed: of the random samples.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: no theory of the model is known, for instance of correlated tokens.

    Source: Damian, Pillaud-Vivien, Lee, Bruna, arXiv:2403.05529, row by row.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[0, 0] + z[1, 0] ** 2, 2, 1).at_accuracy(Accuracy(points=32))
        >>> row_exponents(model, largest=2, samples=2**17)["row 2"]
        Exponents(information=2.0, generative=2.0)
    """
    require_integer("largest", largest)
    require_theory(model)
    prior, channel = model.prior, model.channel
    rows, columns = prior.rows, channel.fields.columns

    def polynomials(fields: Array) -> Array:
        hermite = [np.ones_like(fields), fields]
        for k in range(1, largest):
            hermite.append((fields * hermite[k] - np.sqrt(k) * hermite[k - 1]) / np.sqrt(k + 1))
        return np.stack(hermite[1:], axis=-1).reshape(len(fields), -1)

    def moments(fields: Array, labels: Array) -> Array:
        flat = labels.reshape(len(labels), -1)
        return np.asarray((flat[:, :, None] * polynomials(fields)[:, None]).reshape(len(labels), -1))

    variance = np.eye(rows)
    information = mean_square(model, variance, moments, samples, seed)
    generative = squares_of_means(model, variance, polynomials, samples, seed)
    # For both exponents: whether the coefficient of a row and degree is non-zero for some token and entry of the label.
    nonzero = [
        np.any((value > _STANDARD_ERRORS * error).reshape(-1, rows, columns, largest), axis=(0, 2))
        for value, error in (information, generative)
    ]
    return {
        name: Exponents(*(float(np.argmax(kind[k]) + 1) if kind[k].any() else np.inf for kind in nonzero))
        for k, name in enumerate(model.row_names)
    }
