r"""Recovery thresholds and hard phases, read off the exact equation of state.

In state evolution the sample ratio enters once, :math:`\hat q = \alpha\,E g^2(V)`, and not at all in
:math:`V = \mathrm{MMSE}(\hat q)`. So every fixed point, at whatever sample ratio, lies on the curve

.. math:: \alpha(\hat q) = \frac{\hat q}{E g^2(\mathrm{MMSE}(\hat q))},

and nothing has to be iterated: the curve's value at vanishing overlap is the weak-recovery threshold, its value at
perfect overlap that of perfect recovery, and where it decreases two stable fixed points coexist (a hard phase).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from glassformer.errors import ParameterError
from glassformer.free_entropy import overlap_grid
from glassformer.integral import Array
from glassformer.models import Model
from glassformer.results import plain

_POINTS = 400
_FLAT = 1e-7


@dataclass(frozen=True)
class Threshold:
    """A sample ratio at which something begins.

    Attributes:
        name: what begins.
        alpha: where, in the model's unit; infinity when it never does, NaN when the notion does not apply.
        error_estimate: absolute error of ``alpha``; zero for closed forms.
        note: how to read it.
    """

    name: str
    alpha: float
    error_estimate: float
    note: str


@dataclass(frozen=True)
class Thresholds:
    """All thresholds of a model, and whether it has a hard phase.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> found = thresholds(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        >>> found["perfect_recovery"].alpha, found.hard_phase
        (0.75, False)
    """

    model: str
    parameters: dict[str, Any]
    entries: tuple[Threshold, ...]
    hard_phase: bool

    def __getitem__(self, name: str) -> Threshold:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise ParameterError("name", name, f"one of {', '.join(entry.name for entry in self.entries)}")

    def to_dict(self) -> dict[str, Any]:
        """The thresholds as the command line writes them in JSON; None where there is none."""
        entries = [plain(vars(entry)) for entry in self.entries]
        return {
            "model": self.model,
            "parameters": plain(self.parameters),
            "thresholds": entries,
            "hard_phase": self.hard_phase,
        }

    def to_pandas(self) -> Any:
        """A data frame with one row per threshold."""
        import pandas

        return pandas.DataFrame([vars(entry) for entry in self.entries])

    def to_xarray(self) -> Any:
        """A data set over the dimension ``name``."""
        return self.to_pandas().set_index("name").to_xarray()


def equation_of_state(model: Model, q_hat: Array) -> tuple[Array, Array]:
    r"""Sample ratio :math:`\alpha(\hat q)` whose fixed point has the given :math:`\hat q > 0`, and its error.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> alpha, error = equation_of_state(BilinearSequenceRegression(rho=np.inf, noise=0.5), np.array([1.0]))
        >>> alpha  # (noise + V) q_hat with V = 1/(1 + q_hat)
        array([1.])
    """
    variance, variance_error = model.prior.mmse(q_hat)
    information, information_error = model.channel.information(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha = q_hat / information
        relative = information_error / information + variance_error / variance
    return alpha, np.abs(alpha * relative)


def thresholds(model: Model) -> Thresholds:
    """Weak and perfect recovery, Bayes-optimal and algorithmic, the extent of a hard phase, and the baseline's.

    ``weak_recovery``: from there on the uninformed start (and message passing) finds a non-zero overlap.
    ``perfect_recovery``: from there on the Bayes-optimal error is zero. ``algorithmic_perfect_recovery``: the error
    reached by message passing is zero. ``hard_phase_start`` and ``hard_phase_end``: between them, and only there, the
    informed and the uninformed fixed points differ. ``nuclear_norm_perfect_recovery``: perfect recovery by minimal
    nuclear norm, where the model has that baseline.

    Args:
        model: prior and channel.

    Returns:
        :class:`Thresholds`; entries that do not apply have ``alpha`` NaN and say so in their note.
    """
    grid = overlap_grid(model, _POINTS)
    hard_start, hard_end = _hard_phase(model, grid)
    entries = [
        _weak_recovery(model),
        *_perfect_recovery(model, hard_end),
        *_hard_phase_ends(hard_start, hard_end),
        *(_baseline(name, alpha) for name, alpha in model.baseline_thresholds.items()),
    ]
    return Thresholds(model.name, model.parameters, tuple(entries), hard_phase=not np.isnan(hard_end))


def _hard_phase_ends(start: float, end: float) -> list[Threshold]:
    if np.isnan(end):
        return [Threshold(name, np.nan, 0.0, "no hard phase") for name in ("hard_phase_start", "hard_phase_end")]
    return [
        Threshold("hard_phase_start", start, 1e-8 * start, "a second, informed fixed point appears"),
        Threshold("hard_phase_end", end, 1e-8 * end, "the uninformed fixed point disappears"),
    ]


def _baseline(name: str, alpha: float) -> Threshold:
    return Threshold(name, alpha, 0.0, "not defined for these labels" if np.isnan(alpha) else "closed form")


def _weak_recovery(model: Model) -> Threshold:
    name, onset = "weak_recovery", model.prior.onset
    if not model.channel.even:
        information, error = model.channel.information(np.ones(1))
        start = float(onset / information[0])
        note = "the uninformed state loses stability" if onset else "any data help: the labels are not even in h"
        return Threshold(name, start, float(start * error[0] / information[0]), note)
    if onset > 0:
        return Threshold(name, np.inf, 0.0, "even labels carry no information at zero overlap, on this sample scale")
    # The limit of vanishing overlap by Richardson's extrapolation: alpha is analytic in q_hat.
    step = 1e-5 * model.prior.dimension
    alpha, error = equation_of_state(model, step * np.array([1.0, 2.0, 4.0]))
    linear = 2 * alpha[:2] - alpha[1:]
    value = float((4 * linear[0] - linear[1]) / 3)
    return Threshold(name, value, float(abs(value - linear[0]) + error[0]), "the uninformed state loses stability")


def _perfect_recovery(model: Model, hard_end: float) -> list[Threshold]:
    if not model.channel.noiseless:
        note = "labels do not fix h: the error vanishes at no finite sample ratio"
        return [Threshold(name, np.nan, 0.0, note) for name in ("perfect_recovery", "algorithmic_perfect_recovery")]
    counting = model.prior.dimension
    reached = max(counting, hard_end) if np.isfinite(hard_end) else (counting if np.isnan(hard_end) else np.inf)
    return [
        Threshold("perfect_recovery", counting, 0.0, "Bayes-optimal; counting of degrees of freedom"),
        Threshold("algorithmic_perfect_recovery", reached, 1e-8 * (reached > counting), "reached by message passing"),
    ]


def _hard_phase(model: Model, grid: Array) -> tuple[float, float]:
    """Sample ratios between which the equation of state has several branches; NaN when it increases throughout."""
    alpha, _ = equation_of_state(model, grid)
    if model.channel.noiseless:
        grid, alpha = np.append(grid, np.inf), np.append(alpha, model.prior.dimension)
    summit = np.maximum.accumulate(alpha)
    folded = alpha < summit * (1 - _FLAT)
    if not folded.any():
        return np.nan, np.nan
    low = int(np.argmin(np.where(folded, alpha, np.inf)))
    high = int(np.argmax(np.where(np.append(folded[1:], False) | folded, summit, -np.inf)))
    high = int(np.flatnonzero(alpha == summit[high])[0])
    if model.channel.even and model.prior.onset > 0:
        return _extremum(model, grid, low, 1.0), np.inf
    return _extremum(model, grid, low, 1.0), _extremum(model, grid, high, -1.0)


def _extremum(model: Model, grid: Array, index: int, sign: float) -> float:
    """Minimum (``sign`` 1) or maximum (-1) of the equation of state next to a grid point."""
    if index in (0, len(grid) - 1) or np.isinf(grid[index + 1]):
        alpha = model.prior.dimension if np.isinf(grid[index]) else float(equation_of_state(model, grid[[index]])[0][0])
        return alpha
    bounds = np.log(grid[[index - 1, index + 1]])
    found = minimize_scalar(
        lambda t: sign * float(equation_of_state(model, np.exp(np.array([t])))[0][0]),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-9},
    )
    return sign * float(found.fun)
