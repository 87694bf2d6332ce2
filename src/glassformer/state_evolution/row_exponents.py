r"""Information and generative exponents of every row of a model whose labels see several.

With the normalised Hermite polynomials :math:`h_k` of the field of one row and one token, the information exponent of
a row is the smallest :math:`k\ge1` with :math:`E[y\,h_k(z)]\ne0` for an entry of the label and a token, and the
generative exponent the smallest with :math:`E[E[h_k(z)\mid y]^2]>0`. A row that enters through products with others
alone may have none of its own: it is found once they are (:mod:`~glassformer.state_evolution.weak_recovery`).
"""

from __future__ import annotations

import numpy as np

from glassformer.channels.scalar.exponents import Exponents
from glassformer.core.checks import require_integer
from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.state_evolution.bounds import mean_square, squares_of_means

# Standard errors above which a coefficient is one.
_CERTAIN = 6.0


def row_exponents(model: Model, largest: int = 4, samples: int = 2**20, seed: int = 0) -> dict[str, Exponents]:
    """Exponents of every row, by its name, as far as ``largest``; infinite where no coefficient is seen up to there.

    Fields and labels are drawn, and squares of means estimated without bias: a coefficient counts where it exceeds six
    standard errors, so that those below some ``samples ** -0.5`` are missed.

    Args:
        model: prior and channel; labels with their noise.
        largest: polynomial.
        samples: of fields and labels.
        seed: of the samples.

    Raises:
        ParameterError: an argument is out of range.

    Source: Damian, Pillaud-Vivien, Lee, Bruna, arXiv:2403.05529, row by row.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[0, 0] + z[1, 0] ** 2, 2, 1, points=32)
        >>> row_exponents(model, largest=2, samples=2**17)["row 2"]
        Exponents(information=2.0, generative=2.0)
    """
    require_integer("largest", largest)
    prior, channel = model.prior, model.channel
    rows, columns = prior.rows, channel.columns

    def polynomials(fields: Array) -> Array:
        found = [np.ones_like(fields), fields]
        for k in range(1, largest):
            found.append((fields * found[k] - np.sqrt(k) * found[k - 1]) / np.sqrt(k + 1))
        return np.stack(found[1:], axis=-1).reshape(len(fields), -1)

    def moments(fields: Array, labels: Array) -> Array:
        flat = labels.reshape(len(labels), -1)
        return np.asarray((flat[:, :, None] * polynomials(fields)[:, None]).reshape(len(labels), -1))

    variance = np.eye(rows)
    given = squares_of_means(model, variance, polynomials, samples, seed)
    plain = mean_square(model, variance, moments, samples, seed)
    shape = (rows, columns, largest)
    seen = [
        np.any((value > _CERTAIN * error).reshape(-1, *shape), axis=(0, 2)).reshape(rows, largest)
        for value, error in (plain, given)
    ]
    return {
        name: Exponents(*(float(np.argmax(part[k]) + 1) if part[k].any() else np.inf for part in seen))
        for k, name in enumerate(model.row_names)
    }
