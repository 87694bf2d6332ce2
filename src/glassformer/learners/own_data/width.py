r"""Width and noise that nobody knows, estimated from the data they left their traces in.

Whatever denoiser it uses, message passing on linear labels sees the signal through noise that it measures: the matrix
:math:`R = \hat S + \mathrm{adjoint}(z)/\alpha` is :math:`S + \tau Z` with :math:`\tau^2 = \langle z^2\rangle/\alpha`,
``z`` the residuals with their Onsager term. The singular values of ``R`` tell the width; the best denoiser of that
width makes :math:`\tau^2` smaller, and so on. What :math:`\tau^2` exceeds the error by is the noise,
:math:`\alpha\tau^2 = \Delta + E`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError
from glassformer.core.integral import Array
from glassformer.core.numerics.decompositions import singular_values
from glassformer.core.showing import Shown
from glassformer.core.solution import Solution, Status
from glassformer.learners.algorithms.gamp_step import GampState
from glassformer.learners.bayes import MessagePassing
from glassformer.learners.gamp import passed
from glassformer.learners.own_data.arrays import as_inputs, observed
from glassformer.learners.own_data.findings import contradictions, warn_of
from glassformer.models.bilinear import BilinearSequenceRegression
from glassformer.models.designs.base import Design
from glassformer.models.spectra.rectangular import RectangularLaw

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Search:
    """How the width is looked for.

    Attributes:
        rounds: of denoising and estimating.
        per_octave: widths per factor of two that are looked at.
        draws: drawn matrices per width.
        moments: of their singular values.
        fine: points of the posterior of the width.
        narrowest: singular values that tell anything.
        widest: widths above this many dimensions are as good as infinite.
        faintest: powers below this share of the labels' are none.
        confidence: standard deviations of an interval of 95 per cent.
    """

    rounds: int = 4
    per_octave: int = 2
    draws: int = 48
    moments: tuple[int, ...] = (4, 6, 8)
    fine: int = 400
    narrowest: int = 4
    widest: float = 4.0
    faintest: float = 1e-3
    confidence: float = 2.0


SEARCH = Search()


@dataclass(frozen=True)
class EstimatedModel(Shown):
    r"""Labels :math:`y = m + \sqrt P\,(h + \sqrt\Delta\,z)` as the data say they are made.

    Attributes:
        model: with the estimated width and noise, for labels :math:`(y - m)/\sqrt P`.
        rho: :math:`r/d`, and ``rho_interval``, of 95 per cent.
        noise: :math:`\Delta`, in units of the signal's share of the labels, and ``noise_error``, of 95 per cent.
        power: ``P``, what the signal adds to the variance of the labels.
        offset: ``m``.
        solution: of message passing with this model.
        status: how that ended: estimates of a run that did not settle are no more than a guess.

    Example:
        That of :func:`~glassformer.learners.own_data.width.estimate_model`, which makes it.
    """

    model: BilinearSequenceRegression
    rho: float
    rho_interval: tuple[float, float]
    noise: float
    noise_error: float
    power: float
    offset: float
    solution: Solution
    status: Status
    drawing = "plot_estimate"

    def to_pandas(self) -> pandas.DataFrame:
        """One row: what was estimated, and how it ended."""
        import pandas

        low, high = self.rho_interval
        found = {"rho": self.rho, "rho_low": low, "rho_high": high, "noise": self.noise}
        found |= {"noise_error": self.noise_error, "power": self.power, "offset": self.offset}
        return pandas.DataFrame([{**found, "status": str(self.status)}])


@dataclass(frozen=True)
class _Seen:
    """The signal seen through noise, and what message passing says of its own estimate of it."""

    matrix: Array
    noise: float
    error: float
    solution: Solution


def estimate_model(
    inputs: ArrayLike, labels: ArrayLike, *, settings: MessagePassing | None = None, seed: int = 0
) -> EstimatedModel:
    """The width and the noise of bilinear sequence regression with linear labels, and message passing with them.

    Args:
        inputs: shape (n, L, d), close to independent standard normal (see
            :func:`~glassformer.learners.own_data.diagnosis.diagnose`).
        labels: numbers, shape (n,), of any mean and variance.
        settings: of message passing.
        seed: of the matrices that singular values are compared with.

    Warns:
        DataWarning: the inputs contradict that.

    Raises:
        DataError: inputs or labels have another type or shape, or labels do not vary.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
        >>> x, s = rng.standard_normal((900, 30, 30)), model.prior.sample((30, 30), rng)
        >>> y = np.einsum("nld,ld->n", x, s) / 30 + np.sqrt(0.1) * rng.standard_normal(900)
        >>> found = estimate_model(x, 5 + 3 * y)
        >>> bool(found.rho_interval[0] < 0.2 < found.rho_interval[1]), round(found.noise, 1)
        (True, 0.1)
    """
    require_integer("seed", seed, 0)
    x = as_inputs(inputs)
    if x.ndim != 3 or min(x.shape[1:]) < SEARCH.narrowest or len(x) < SEARCH.narrowest:
        raise DataError(
            "X", x.shape, f"a shape (samples, L, d), none below {SEARCH.narrowest}: fewer values tell no width"
        )
    length, d = int(x.shape[1]), int(x.shape[2])
    start = BilinearSequenceRegression(beta=length / d, rho=1.0, noise=0.5)
    design, own = observed(start, x, labels)
    warn_of(contradictions(x))
    y, rng = own[0], np.random.default_rng(seed)
    offset, total = float(y.mean()), float(y.var())
    if total == 0:
        raise DataError("y", f"<{len(y)} times {y[0]}>", "labels that vary")
    power, model = total / 1.5, start
    for _ in range(SEARCH.rounds):
        seen = _seen(model, design, (y - offset) / np.sqrt(power), settings or MessagePassing(), seed)
        share = max(float(np.mean(seen.matrix**2)) - seen.noise, SEARCH.faintest)
        width, interval = _width(seen, share, len(y), rng)
        error, alpha = min(seen.error, share), len(y) / (length * d)
        left = max(alpha * seen.noise - error, 0.0)
        power, noise = power * share, left / share
        model = BilinearSequenceRegression(beta=length / d, rho=width / d, noise=noise)
    chance = SEARCH.confidence * alpha * seen.noise * np.sqrt(2 / len(y))
    doubt = share * _doubt_of_errors(length / d, (interval[0] / d, interval[1] / d), seen.noise / share)
    final = _seen(model, design, (y - offset) / np.sqrt(power), settings or MessagePassing(), seed)
    return EstimatedModel(
        model,
        width / d,
        (interval[0] / d, interval[1] / d),
        noise,
        float(np.hypot(chance, doubt) / share),
        power,
        offset,
        final.solution,
        final.solution.status[0],
    )


def _doubt_of_errors(beta: float, widths: tuple[float, float], noise: float) -> float:
    """Half the range of the error of the best denoiser over what the width may be."""
    low, high = (float(RectangularLaw(beta, rho, noise).mmse().value[0]) for rho in widths)
    return 0.5 * abs(high - low)


def _seen(
    model: BilinearSequenceRegression, design: Design, labels: Array, settings: MessagePassing, seed: int
) -> _Seen:
    last: list[GampState] = []

    def keep(state: GampState) -> None:
        last[:] = [state]

    found = passed(model, design, labels[None], settings, seed, watch=keep)
    state = last[0]
    estimate = state.estimate.signal[0]
    residual = labels - design.forward(estimate, 0) + float(state.onsager[0, 0]) * state.score[:, 0, 0]
    matrix = estimate + design.adjoint(residual, 0) / design.sample_ratio
    return _Seen(matrix, float(np.mean(residual**2)) / design.sample_ratio, float(state.claimed), found)


def _width(seen: _Seen, power: float, samples: int, rng: np.random.Generator) -> tuple[float, tuple[float, float]]:
    """The width that singular values speak for, and its interval: by the likelihood of a few of their moments.

    Moments of drawn matrices of every width are Gaussian, of a mean and a covariance that are measured.
    """
    rows, columns = seen.matrix.shape
    found = _moments(singular_values(seen.matrix))
    largest = max(2.0, SEARCH.widest * min(rows, columns))
    widths = np.unique(np.rint(2 ** np.arange(0, np.log2(largest) + 0.5, 1 / SEARCH.per_octave)).astype(int))
    means, spreads = [], []
    for width in widths:
        drawn = np.array([_moments(_drawn(int(width), seen, power, samples, rng)) for _ in range(SEARCH.draws)])
        means.append(drawn.mean(axis=0))
        spreads.append(np.cov(drawn.T))
    fine = np.geomspace(widths[0], widths[-1], SEARCH.fine)
    place = np.log(widths)
    mean = CubicSpline(place, np.array(means))(np.log(fine))
    flat = np.array(spreads).reshape(len(widths), -1)
    spread = np.array([np.interp(np.log(fine), place, column) for column in flat.T]).T.reshape(
        SEARCH.fine, *spreads[0].shape
    )
    away = found - mean
    chance = -0.5 * np.einsum("ki,ki->k", away, np.linalg.solve(spread, away[..., None])[..., 0])
    chance -= 0.5 * np.linalg.slogdet(spread)[1]
    posterior = np.exp(chance - chance.max())
    total = np.cumsum(posterior) / posterior.sum()
    low, middle, high = np.interp([0.025, 0.5, 0.975], total, fine)
    # Widths are whole numbers: what lies within half of one cannot be told apart.
    return float(middle), (float(min(low, middle - 0.5)), float(max(high, middle + 0.5)))


def _drawn(width: int, seen: _Seen, power: float, samples: int, rng: np.random.Generator) -> Array:
    """Singular values of a signal of this width seen through the same noise, as far as that is known."""
    rows, columns = seen.matrix.shape
    noise = seen.noise * (1 + np.sqrt(2 / samples) * rng.standard_normal())
    signal = rng.standard_normal((rows, width)) @ rng.standard_normal((width, columns))
    signal *= np.sqrt(max(power + seen.noise - noise, 0.0) / np.mean(signal**2))
    return singular_values(signal + np.sqrt(max(noise, 0.0)) * rng.standard_normal((rows, columns)))


def _moments(values: Array) -> Array:
    """Logarithms of moments in units of the second one."""
    square = np.mean(values**2)
    return np.log([np.mean(values**k) / square ** (k / 2) for k in SEARCH.moments])
