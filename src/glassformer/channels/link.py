"""Any scalar function of the field, with Gaussian noise or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import BSpline, make_interp_spline
from scipy.optimize import brentq
from scipy.special import erfcx, logsumexp, ndtr

from glassformer.channels.base import Array, Channel, Integral
from glassformer.errors import DataError, ParameterError

Function = Callable[[Array], Array]
Averages = Callable[[float, int], tuple[float, float]]

_REACH = 12.0  # the link is tabulated on [-12, 12]; beyond 8.3 a standard normal has mass below 1e-16
_CHECKED = 8.0  # range on which the link must be finite
_CELLS = 12001  # odd, so that zero, the usual place of a kink, falls inside a cell
_TAIL = 8.3
_FEW_ULP = 8 * np.finfo(float).eps
_CHUNK = 2_000_000  # largest number of doubles in one temporary array
_TARGET = 1e-10  # relative change between two rules below which refinement stops
_LEVELS = (1, 2, 4)
_SLOW = 10.0
_WORK = 2e9  # multiplications after which one matrix product of the noisy rule is no longer refined
_ROWS = 256  # data points treated at once
_PANELS = 1024  # most panels per data point
_ZOOMS = 12  # most refinements of them
_COLUMNS = 256  # labels per matrix product
_LABELS_FROM = 7.4  # labels of larger fields have probability 1e-13


@dataclass(frozen=True)
class LinkChannel(Channel):
    r"""Labels :math:`y = \varphi(h) + \sqrt\Delta\, z` for a callable :math:`\varphi`, ``z`` standard normal.

    With noise, :math:`Z_{out} = E_u N(y; \varphi(\omega + \sqrt V u), \Delta)`, a density in ``y``. Without noise the
    posterior lives on the level set of :math:`\varphi`: :math:`Z_{out} = \sum_b N(h_b; \omega, V)/|\varphi'(h_b)|` over
    the solutions of :math:`\varphi(h_b) = y`, a density with respect to Lebesgue measure, except at the values that
    :math:`\varphi` takes on whole intervals (zero for a ReLU, every value of a step function): there it is the
    probability of that value (counting measure).

    ``information`` and ``expected_log_partition`` take ``V`` of shape (batch,); their ``error`` is the change between
    the last two quadrature rules, refined until that change is 1e-10 of the result or, at the largest rule, ten times
    that change.
    Kinks, jumps, extrema and flat parts of :math:`\varphi` are located on a grid of spacing 0.002 over [-12, 12];
    finer structure is not seen. Noise far below :math:`V\varphi'^2` for an unbounded link at large ``V`` exceeds the
    largest rule: the error then says so. In double precision a saturating function is flat where its values coincide.

    Args:
        function: NumPy function of an array, or of a scalar (then applied element by element).
        noise: label noise :math:`\Delta \ge 0`, a variance.
        name: a label for printing.
        nodes: Gauss nodes per quadrature panel.

    Raises:
        ParameterError: the function is not finite or has the wrong shape for :math:`|h| \le 8`; bad noise or nodes.
        DataError: without noise, a label that no ``h`` produces.

    Example:
        >>> import numpy as np
        >>> channel = LinkChannel(lambda h: np.maximum(h, 0.0), noise=0.1, name="relu")
        >>> result = channel.information(np.array([0.5]))
        >>> result.value.round(6), bool(result.error[0] < 1e-8)
        (array([0.924811]), True)
        >>> LinkChannel(np.tanh).information(np.array([0.25])).value.round(8)
        array([4.])
    """

    function: Callable[..., object]
    noise: float = 0.0
    name: str | None = None
    nodes: int = field(default=12, kw_only=True)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise ParameterError("noise", self.noise, "a finite number >= 0")
        if self.nodes < 4:
            raise ParameterError("nodes", self.nodes, "an integer >= 4")
        _ = self._link

    @property
    def label(self) -> str:
        return self.name or "link"

    @property
    def even(self) -> bool:
        return self._even

    @property
    def noiseless(self) -> bool:
        return self.noise == 0.0 and self._shape.flat_mass < 1e-8

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        labels = self._link(np.asarray(h, dtype=float))
        if self.noise == 0.0:
            return labels
        return np.asarray(labels + np.sqrt(self.noise) * rng.standard_normal(np.shape(h)))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[1]

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[0]

    def information(self, variance: Array) -> Integral:
        return self._refined(variance, 0)

    def expected_log_partition(self, variance: Array) -> Integral:
        return self._refined(variance, 1)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Squared errors on a new label, its own noise counted.

        ``label_mse``: of the posterior mean :math:`E_u \varphi(\omega + \sqrt V u)`; ``label_mse_plugin``: of
        :math:`\varphi(\omega)`.
        """
        v = np.asarray(variance, dtype=float)
        both = np.array([_label_errors(self._link, self._shape, x, self.nodes) for x in v.ravel()]).reshape(-1, 2)
        bayes, plugin = (self.noise + both).T.reshape(2, *v.shape)
        return {"label_mse": bayes, "label_mse_plugin": plugin}

    @cached_property
    def _link(self) -> Function:
        return _vectorised(self.function)

    @cached_property
    def _shape(self) -> _Shape:
        return _analyse(self._link)

    @cached_property
    def _engine(self) -> _Engine:
        if self.noise > 0:
            return _Noisy(self._link, self._shape, self.noise, self.nodes)
        return _LevelSet(self._link, self._shape, self.nodes)

    @cached_property
    def _averages(self) -> Averages:
        # Information and free entropy come from one computation and are usually asked for together.
        return lru_cache(maxsize=256)(self._engine.averages)

    @cached_property
    def _even(self) -> bool:
        # At q = 0 the information is E (E[h | y])^2, zero up to rounding exactly for links blind to the sign of h.
        return bool(self._engine.averages(1.0, 1)[0] < 1e-16)

    def _posterior(self, y: ArrayLike, omega: ArrayLike, variance: ArrayLike) -> tuple[Array, Array]:
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (y, omega, variance)))
        if not np.all(np.isfinite(arrays[0])):
            raise DataError("y", arrays[0][~np.isfinite(arrays[0])][0], "finite labels")
        log_z, g = self._engine.posterior(*(x.ravel() for x in arrays))
        return log_z.reshape(arrays[0].shape), g.reshape(arrays[0].shape)

    def _refined(self, variance: Array, which: int) -> Integral:
        v = np.asarray(variance, dtype=float)
        rows = [_refine(self._averages, float(x), which) for x in v.ravel()]
        value, error = np.array(rows).reshape(-1, 2).T.reshape(2, *v.shape)
        return Integral(value, error)


def _refine(averages: Averages, v: float, which: int) -> tuple[float, float]:
    """Double the rule until it stops changing; the last change bounds the error of a converging rule."""
    value, error = averages(v, _LEVELS[0])[which], np.inf
    for level in _LEVELS[1:]:
        finer = averages(v, level)[which]
        value, error = finer, abs(finer - value) + 1e-13 * abs(finer)
        if error < _TARGET * max(abs(value), 1e-3):
            return value, error
    # A rule that is still changing converges slowly: its last change may be a fraction of what is left.
    return value, _SLOW * error


# --- the function -----------------------------------------------------------------------------------------------------


def _vectorised(function: Callable[..., object]) -> Function:
    if not callable(function):
        raise ParameterError("channel", function, "a callable link function")
    probe = np.linspace(-_CHECKED, _CHECKED, 33)
    plain = function
    with np.errstate(all="ignore"):
        try:
            fits = np.asarray(function(probe)).shape == probe.shape
        except (TypeError, ValueError):
            fits = False
        if not fits:
            plain = np.vectorize(function, otypes=[float])
        try:
            values = _floats(plain(probe))
        except (TypeError, ValueError) as error:
            raise ParameterError("channel", function, "a link function returning one real number per field") from error
    if not np.all(np.isfinite(values)):
        raise ParameterError("channel", function, f"a link function finite for |h| <= {_CHECKED:g}")

    def link(h: Array) -> Array:
        # Far outside the prior's reach an overflowing link only has to be impossible, not exact.
        with np.errstate(all="ignore"):
            return _floats(np.nan_to_num(_floats(plain(h)), nan=1e150, posinf=1e150, neginf=-1e150))

    return link


def _floats(values: Any) -> Array:
    return np.asarray(values, dtype=float)


class _Branch(NamedTuple):
    """An interval on which the link is monotone: values ascending, ``h`` at the same places, and its derivative."""

    h: Array
    values: Array
    derivative: BSpline


class _Flat(NamedTuple):
    """All the intervals (columns: from, to) on which the link takes one value."""

    value: float
    intervals: Array


@dataclass(frozen=True)
class _Shape:
    """What the noiseless posterior and every quadrature rule need to know about the link."""

    breaks: Array
    branches: tuple[_Branch, ...]
    flats: tuple[_Flat, ...]

    @property
    def flat_mass(self) -> float:
        return float(sum(np.sum(ndtr(f.intervals[:, 1]) - ndtr(f.intervals[:, 0])) for f in self.flats))


def _analyse(link: Function) -> _Shape:
    """Cut the line at jumps and kinks, sort the pieces into flat ones and monotone branches."""
    grid = np.linspace(-_REACH, _REACH, _CELLS + 1)
    values = link(grid)
    overflown = np.flatnonzero(np.abs(values) >= 1e149)
    if overflown.size:
        bound = np.min(np.abs(grid[overflown])) - 0.01
        grid = np.linspace(-bound, bound, _CELLS + 1)
        values = link(grid)
    cuts = _jumps(link, grid, values)
    cuts += _kinks(grid, values, [0.5 * (a + b) for a, b in cuts])
    cuts += _flat_ends(grid, values, [0.5 * (a + b) for a, b in cuts])
    cuts.sort()
    starts = [grid[0], *(right for _, right in cuts)]
    ends = [*(left for left, _ in cuts), grid[-1]]
    branches: list[_Branch] = []
    levels: list[tuple[float, float, float]] = []
    for a, b in zip(starts, ends, strict=True):
        h = np.linspace(a, b, max(17, int((b - a) / 0.002)))
        v = link(h)
        if np.ptp(v[1:-1]) <= _FEW_ULP * np.max(np.abs(v[1:-1])):
            outer = (-np.inf if a == grid[0] else a, np.inf if b == grid[-1] else b)
            levels.append((float(v[h.size // 2]), *outer))
        else:
            branches += _monotone(link, h, v)
    breaks = np.array([0.5 * (left + right) for left, right in cuts])
    ends_of = np.array([x for branch in branches for x in (branch.h[0], branch.h[-1])])
    breaks = _distinct(np.concatenate([breaks, ends_of[np.abs(ends_of) < grid[-1]]]))
    return _Shape(breaks, tuple(branches), _grouped(levels))


def _grouped(levels: list[tuple[float, float, float]]) -> tuple[_Flat, ...]:
    flats: list[_Flat] = []
    for value, a, b in sorted(levels):
        if flats and abs(value - flats[-1].value) <= 2 * _FEW_ULP * abs(value):
            flats[-1] = _Flat(flats[-1].value, np.vstack([flats[-1].intervals, (a, b)]))
        else:
            flats.append(_Flat(value, np.array([[a, b]])))
    return tuple(flats)


def _jumps(link: Function, grid: Array, values: Array) -> list[tuple[float, float]]:
    """Cells whose change survives bisection to rounding."""
    size = np.abs(np.diff(values))
    around = np.pad(size, 2, mode="edge")
    usual = np.minimum(np.maximum(around[:-4], around[1:-3]), np.maximum(around[3:-1], around[4:]))
    found = np.flatnonzero(size > 3 * usual + _FEW_ULP * np.max(np.abs(values[np.abs(grid) <= _CHECKED])))
    left, right = grid[found].copy(), grid[found + 1].copy()
    low, high = values[found].copy(), values[found + 1].copy()
    for _ in range(60):
        middle = 0.5 * (left + right)
        v = link(middle) if middle.size else middle
        lower = np.abs(v - low) > np.abs(high - v)
        right, high = np.where(lower, middle, right), np.where(lower, v, high)
        left, low = np.where(lower, left, middle), np.where(lower, low, v)
    real = np.abs(high - low) > 0.5 * (size[found] - usual[found])
    return list(zip(left[real].tolist(), right[real].tolist(), strict=True))


def _kinks(grid: Array, values: Array, known: list[float]) -> list[tuple[float, float]]:
    """Cells across which the slope changes much faster than on either side, located by extrapolation."""
    slope = np.diff(values) / np.diff(grid)
    change = np.abs(slope[2:] - slope[:-2])
    padded = np.pad(change, 5, mode="edge")
    usual = np.maximum(padded[:-10], padded[10:])
    typical = np.max(np.abs(slope[np.abs(grid[:-1]) <= _CHECKED]))
    noise = 1e-9 * (np.abs(slope[2:]) + np.abs(slope[:-2]) + typical)
    cells = np.flatnonzero(change > 4 * usual + noise) + 1
    found: list[tuple[float, float]] = []
    for group in np.split(cells, np.flatnonzero(np.diff(cells) > 4) + 1):
        if group.size == 0 or group[0] < 6 or group[-1] > _CELLS - 6:
            continue
        place = _kink_place(grid, values, group)
        if all(abs(place - x) > 0.01 for x in known):
            found.append((place, place))
    return found


def _kink_place(grid: Array, values: Array, group: NDArray[np.intp]) -> float:
    """Where the smooth continuations from both sides meet."""
    step, centre = grid[1] - grid[0], float(np.mean(grid[group] + grid[group + 1]) / 2)
    first, last = int(group[0]), int(group[-1]) + 1
    # One node is kept clear of the group: the kink may sit on either of its ends.
    sides = [slice(max(first - 5, 0), first), slice(last + 1, last + 6)]
    fits = [np.polynomial.Polynomial.fit((grid[s] - centre) / step, values[s], 4, domain=[-5, 5]) for s in sides]
    roots = (fits[1] - fits[0]).roots()
    near = roots[(np.abs(roots.imag) < 1e-6) & (np.abs(roots.real) <= 3)].real
    if near.size == 0:
        return centre
    place = centre + step * float(near[np.argmin(np.abs(near))])
    # A kink at zero is written as such in nearly every link; one extrapolated to rounding is that one.
    return 0.0 if abs(place) < 1e-12 else place


def _flat_ends(grid: Array, values: Array, known: list[float]) -> list[tuple[float, float]]:
    """Ends of long runs of equal values, where a function saturates in double precision."""
    flat = np.abs(np.diff(values)) <= _FEW_ULP * np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(int)))
    ends = [grid[x] for a, b in edges.reshape(-1, 2) if b - a >= 8 for x in (a, b) if 0 < x < _CELLS]
    return [(float(x), float(x)) for x in ends if all(abs(x - y) > 0.01 for y in known)]


def _monotone(link: Function, h: Array, v: Array) -> Iterator[_Branch]:
    """Split a smooth piece at its extrema."""
    spline = make_interp_spline(h, v, k=7)
    derivative = spline.derivative()
    rise = np.sign(np.where(np.abs(np.diff(v)) <= _FEW_ULP * np.abs(v[1:]), 0.0, np.diff(v)))
    moving = np.flatnonzero(rise)
    turns = moving[:-1][rise[moving[1:]] != rise[moving[:-1]]]
    edges = [h[0]]
    for i in turns:
        a, b = h[max(i - 1, 0)], h[min(i + 3, h.size - 1)]
        edges.append(float(brentq(derivative, a, b, xtol=1e-15)) if derivative(a) * derivative(b) < 0 else h[i + 1])
    edges.append(h[-1])
    for a, b in pairwise(edges):
        x = np.concatenate([[a], h[(h > a) & (h < b)], [b]])
        values = link(x)
        # The ends of a piece may sit on the far side of a jump by rounding: the smooth continuation decides there.
        values[[0, -1]] = spline(x[[0, -1]])
        order = slice(None) if values[-1] > values[0] else slice(None, None, -1)
        yield _Branch(x[order], np.maximum.accumulate(values[order]), derivative)


def _distinct(x: Array) -> Array:
    x = np.sort(x)
    return x[np.concatenate([[True], np.diff(x) > 1e-9])] if x.size else x


def _preimages(link: Function, shape: _Shape, y: Array, known: Array | None = None) -> tuple[Array, Array]:
    """Solutions h of link(h) = y, shape (branches, n), NaN where a branch has none; and log |link'(h)| there.

    ``known`` is one solution per label where it is at hand: its branch is then not solved.
    """
    h = np.full((len(shape.branches), y.size), np.nan)
    log_slope = np.zeros_like(h)
    for row, branch in enumerate(shape.branches):
        low, high = branch.values[0], branch.values[-1]
        slack = _FEW_ULP * max(abs(low), abs(high))
        reached = (y >= low - slack) & (y <= high + slack)
        if known is not None:
            own = (known >= min(branch.h[0], branch.h[-1])) & (known <= max(branch.h[0], branch.h[-1]))
            h[row, own] = known[own]
            reached &= ~own
        if np.any(reached):
            h[row, reached] = _solve(link, branch, np.clip(y[reached], low, high))
        filled = ~np.isnan(h[row])
        log_slope[row, filled] = np.log(np.maximum(np.abs(branch.derivative(h[row, filled])), 1e-300))
    return h, log_slope


def _solve(link: Function, branch: _Branch, y: Array) -> Array:
    """Illinois iteration from the tabulated bracket, on the labels not yet solved to rounding."""
    j = np.clip(np.searchsorted(branch.values, y) - 1, 0, branch.h.size - 2)
    a, b = branch.h[j], branch.h[j + 1]
    fa, fb = branch.values[j] - y, branch.values[j + 1] - y
    best = np.where(-fa < fb, a, b)
    open_ = np.flatnonzero(np.minimum(-fa, fb) > 0)
    a, b, fa, fb, goal = a[open_], b[open_], fa[open_], fb[open_], y[open_]
    side = np.zeros(open_.size)
    for _ in range(14):
        c = np.clip(a - fa * ((b - a) / (fb - fa)), np.minimum(a, b), np.maximum(a, b))
        fc = link(c) - goal
        best[open_] = c
        below = fc < 0
        # An end that is kept twice running counts half: this makes the convergence superlinear.
        fa, fb = (
            np.where(below, fc, np.where(side > 0, 0.5 * fa, fa)),
            np.where(below, np.where(side < 0, 0.5 * fb, fb), fc),
        )
        a, b, side = np.where(below, c, a), np.where(below, b, c), np.where(below, -1.0, 1.0)
        todo = np.abs(fc) > np.finfo(float).eps * np.abs(goal)
        if not np.any(todo):
            break
        open_ = open_[todo]
        a, b, fa, fb, goal, side = (x[todo] for x in (a, b, fa, fb, goal, side))
    return best


# --- quadrature nodes -------------------------------------------------------------------------------------------------


def _panel_nodes(edges: Array, nodes: int, soft: NDArray[np.bool_] | bool = False) -> tuple[Array, Array]:
    """Gauss nodes and weights on the panels between ``edges`` (last axis); empty panels get weight 0.

    On ``soft`` panels x = 3 s^2 - 2 s^3 is substituted, which makes square-root singularities at panel ends smooth.
    """
    s, w = leggauss(nodes)
    s, w = 0.5 * (1 + s), 0.5 * w
    bent = np.asarray(soft)[..., None]
    s, w = np.where(bent, s**2 * (3 - 2 * s), s), np.where(bent, w * 6 * s * (1 - s), w)
    width = np.diff(edges)[..., None]
    x, weight = edges[..., :-1, None] + width * s, width * w
    shape = (*edges.shape[:-1], -1)
    return x.reshape(shape), weight.reshape(shape)


def _normal(x: Array) -> Array:
    return np.asarray(np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi))


def _omega_nodes(v: float, breaks: Array, level: int, nodes: int) -> tuple[Array, Array]:
    """Nodes of omega ~ N(0, 1 - V) with probability weights, graded towards each break on the scale sqrt(V)."""
    q = 1.0 - v
    if q <= 0:
        return np.zeros(1), np.ones(1)
    octaves = np.sqrt(v) * 2.0 ** np.arange(0, max(1, int(np.ceil(np.log2(3 / np.sqrt(v))))))
    offsets = np.concatenate([-octaves[::-1], [0.0], octaves])
    near = (breaks[:, None] + offsets).ravel() / np.sqrt(q)
    edges = _thinned(np.concatenate([np.linspace(-_TAIL, _TAIL, 13), near[np.abs(near) < _TAIL]]))
    t, w = _panel_nodes(_split(edges, level), nodes)
    return np.sqrt(q) * t, w * _normal(t)


def _split(edges: Array, parts: int) -> Array:
    inner = edges[:-1, None] + np.diff(edges)[:, None] * np.arange(parts) / parts
    return np.asarray(np.append(inner.ravel(), edges[-1]))


def _thinned(edges: Array) -> Array:
    edges = np.sort(edges)
    return np.asarray(edges[np.concatenate([[True], np.diff(edges) > 1e-13])])


def _unit_nodes(omega: Array, v: float, breaks: Array, level: int, nodes: int) -> tuple[Array, Array]:
    """Nodes u of h = omega + sqrt(V) u for every omega, shape (n, m), with probability weights; split at the breaks."""
    base = np.broadcast_to(np.linspace(-_TAIL, _TAIL, 8 * level + 1), (omega.size, 8 * level + 1))
    cuts = np.clip((breaks - omega[:, None]) / np.sqrt(v), -_TAIL, _TAIL)
    edges = np.concatenate([base, cuts], axis=1)
    order = np.argsort(edges, axis=1)
    at_break = order >= base.shape[1]
    u, w = _panel_nodes(np.take_along_axis(edges, order, 1), nodes, at_break[:, 1:] | at_break[:, :-1])
    return u, w * _normal(u)


def _label_errors(link: Function, shape: _Shape, v: float, nodes: int) -> tuple[float, float]:
    omega, weight = _omega_nodes(v, shape.breaks, 1, nodes)
    u, w = _unit_nodes(omega, v, shape.breaks, 2, nodes)
    centre = link(omega)[:, None]
    offset = link(omega[:, None] + np.sqrt(v) * u) - centre
    mean = np.sum(w * offset, axis=1, keepdims=True)
    bayes, plugin = np.sum(w * (offset - mean) ** 2, axis=1), np.sum(w * offset**2, axis=1)
    return float(weight @ bayes), float(weight @ plugin)


# --- the two engines --------------------------------------------------------------------------------------------------


class _Engine(ABC):
    @abstractmethod
    def averages(self, v: float, level: int) -> tuple[float, float]:
        """(information, expected log partition) at posterior variance ``v`` by the rule of this level."""

    @abstractmethod
    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        """(log partition, score) per data point; one-dimensional arrays of one length."""


@dataclass(frozen=True)
class _LevelSet(_Engine):
    """No noise: the posterior is a sum over the solutions of link(h) = y, or a truncated normal on flat parts."""

    link: Function
    shape: _Shape
    nodes: int

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        h, log_slope = _preimages(self.link, self.shape, y)
        log_z, g = self._from_solutions(h, log_slope, omega, v)
        for flat in self.shape.flats:
            at = np.flatnonzero(np.abs(y - flat.value) <= 2 * _FEW_ULP * abs(flat.value))
            log_z[at], mean = _truncated(flat.intervals, omega[at], v[at])
            g[at] = mean / np.sqrt(v[at])
        impossible = ~np.isfinite(log_z)
        if np.any(impossible):
            raise DataError("y", y[impossible][0], "labels in the range of the link function", "add label noise")
        return log_z, g

    @staticmethod
    def _from_solutions(h: Array, log_slope: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        if h.shape[0] == 0:
            return np.full(omega.shape, -np.inf), np.zeros(omega.shape)
        logit = -((h - omega) ** 2) / (2 * v) - 0.5 * np.log(2 * np.pi * v) - log_slope
        logit = np.where(np.isnan(h), -np.inf, logit)
        top = np.max(logit, axis=0)
        weight = np.exp(logit - np.where(np.isfinite(top), top, 0.0))
        total = np.sum(weight, axis=0)
        deviation = np.sum(weight * np.where(np.isnan(h), 0.0, h - omega), axis=0)
        reached = total > 0
        safe = np.where(reached, total, 1.0)
        return np.where(reached, top + np.log(safe), -np.inf), deviation / safe / v

    def averages(self, v: float, level: int) -> tuple[float, float]:
        omega, weight = _omega_nodes(v, self._breaks, level, self.nodes)
        information = expected = 0.0
        per_row = (8 * level + self._breaks.size) * self.nodes * max(1, len(self.shape.branches))
        rows = max(1, _CHUNK // per_row)
        for start in range(0, omega.size, rows):
            part = slice(start, start + rows)
            g2, log_ratio = self._given_omega(omega[part], v, level)
            information += float(weight[part] @ g2)
            expected += float(weight[part] @ log_ratio)
        return information, expected + self._prior_log_partition

    def _given_omega(self, omega: Array, v: float, level: int) -> tuple[Array, Array]:
        """E[g^2 | omega] and E[log Z(y, omega, V) / Z(y, 0, 1) | omega]: the ratio has no singular slopes."""
        g2, log_ratio = np.zeros(omega.size), np.zeros(omega.size)
        if self.shape.branches:
            u, w = _unit_nodes(omega, v, self._breaks, level, self.nodes)
            centre = np.broadcast_to(omega[:, None], u.shape).ravel()
            field = centre + np.sqrt(v) * u.ravel()
            # Beyond the table, and on flat parts (treated below), there is nothing to add.
            kept = np.flatnonzero((w.ravel() > 1e-25) & ~self._is_flat(field))
            h, log_slope = _preimages(self.link, self.shape, self.link(field[kept]), field[kept])
            log_z, g = self._from_solutions(h, log_slope, centre[kept], np.full(kept.size, v))
            log_prior, _ = self._from_solutions(h, log_slope, np.zeros(kept.size), np.ones(kept.size))
            mass = w.ravel()[kept]
            row = kept // u.shape[1]
            reached = np.isfinite(log_z) & np.isfinite(log_prior)
            ratio = np.where(reached, log_z, 0.0) - np.where(reached, log_prior, 0.0)
            g2 += np.bincount(row, mass * g**2, omega.size)
            log_ratio += np.bincount(row, mass * ratio, omega.size)
        for flat in self.shape.flats:
            log_p, mean = _truncated(flat.intervals, omega, np.full(omega.size, v))
            log_p0, _ = _truncated(flat.intervals, np.zeros(1), np.ones(1))
            g2 += np.exp(log_p) * mean**2 / v
            log_ratio += np.exp(log_p) * (log_p - log_p0)
        return g2, log_ratio

    def _is_flat(self, h: Array) -> NDArray[np.bool_]:
        inside = np.zeros(h.shape, dtype=bool)
        for flat in self.shape.flats:
            for a, b in flat.intervals:
                inside |= (h > a) & (h < b)
        return inside

    @cached_property
    def _breaks(self) -> Array:
        """Breaks of the link and the other fields that share a label with one of them."""
        breaks = self.shape.breaks
        ends = [value for branch in self.shape.branches for value in (branch.values[0], branch.values[-1])]
        values = np.array([*ends, *(flat.value for flat in self.shape.flats)])
        shared = _preimages(self.link, self.shape, values)[0].ravel()
        return _distinct(np.concatenate([breaks, shared[np.abs(shared) < _TAIL]]))

    @cached_property
    def _prior_log_partition(self) -> float:
        """E log Z(y, 0, 1): computed once, on panels that shrink geometrically towards each singular slope."""
        flats = [float(_truncated(flat.intervals, np.zeros(1), np.ones(1))[0][0]) for flat in self.shape.flats]
        total = sum(np.exp(p) * p for p in flats)
        if not self.shape.branches:
            return float(total)
        offsets = 0.5 ** np.arange(0, 40)
        near = (self._breaks[:, None] + np.concatenate([-offsets, [0.0], offsets])).ravel()
        edges = np.sort(np.concatenate([np.linspace(-_TAIL, _TAIL, 33), near[np.abs(near) < _TAIL]]))
        h, w = _panel_nodes(_thinned(edges), self.nodes, True)
        kept = ~self._is_flat(h)
        solutions, log_slope = _preimages(self.link, self.shape, self.link(h[kept]))
        log_z, _ = self._from_solutions(solutions, log_slope, np.zeros(kept.sum()), np.ones(kept.sum()))
        return float(total + (w * _normal(h))[kept] @ np.where(np.isfinite(log_z), log_z, 0.0))


def _truncated(intervals: Array, omega: Array, v: Array) -> tuple[Array, Array]:
    """Log probability that h ~ N(omega, V) lies in the intervals, and the mean of (h - omega)/sqrt(V) given that."""
    edges = (intervals.T[:, :, None] - omega) / np.sqrt(v)
    flip = edges[0] + edges[1] < 0
    low, high = np.where(flip, -edges[1], edges[0]), np.where(flip, -edges[0], edges[1])
    # The nearer edge's exponential is taken out, so that nothing underflows however far the interval.
    shift = np.where(low > 0, low**2 / 2, 0.0)
    drop = np.exp(-(high - low) * np.where(np.isinf(high), 1.0, high + low) / 2)
    r = np.sqrt(2)
    outside = 0.5 * (erfcx(np.maximum(low, 0) / r) - drop * erfcx(np.maximum(high, 0) / r))
    mass = np.where(low > 0, outside, ndtr(high) - ndtr(low))
    slope = np.where(low > 0, 1 - drop, np.exp(-(np.minimum(low, 0) ** 2) / 2) * (1 - drop)) / np.sqrt(2 * np.pi)
    mass = np.maximum(mass, 1e-300)
    log_p = logsumexp(np.log(mass) - shift, axis=0)
    mean = np.sum(np.where(flip, -1, 1) * slope * np.exp(-shift - log_p), axis=0)
    return log_p, mean


@dataclass(frozen=True)
class _Noisy(_Engine):
    """Gaussian label noise: everything is a smooth integral over the field."""

    link: Function
    shape: _Shape
    noise: float
    nodes: int

    def averages(self, v: float, level: int) -> tuple[float, float]:
        omega, weight = _omega_nodes(v, self.shape.breaks, level, self.nodes)
        order = np.argsort(omega)
        omega, weight = omega[order], weight[order]
        information = expected = 0.0
        for block in _blocks(omega, 20 * np.sqrt(v)):
            g2, log_z = self._given_omega(omega[block], v, min(level, 2) if omega[block].size == 1 else level)
            information += float(weight[block] @ g2)
            expected += float(weight[block] @ log_z)
        return information, expected

    def _given_omega(self, omega: Array, v: float, level: int) -> tuple[Array, Array]:
        """Integrals over y of Z'^2/Z and Z log Z: Z as one matrix product over shared fields and labels."""
        h, w = self._field_nodes(omega, v, level)
        values = self.link(h)
        deviation = (h - omega[:, None]) / np.sqrt(v)
        prior = w * _normal(deviation) / np.sqrt(v)
        relevant = values[np.abs(h) <= _LABELS_FROM]
        relevant = relevant if relevant.size else values
        sigma = np.sqrt(self.noise)
        low, high = np.min(relevant) - 8.5 * sigma, np.max(relevant) + 8.5 * sigma
        band = min(1.0, (_COLUMNS / (4 * level) + 17) * sigma / (high - low))
        # Scaled with the level even at the cap: two levels never share a rule, and their difference stays honest.
        cap = max(0.25 * level * _WORK / (omega.size * h.size * band), 16 * level)
        count = int(min(4 * level * np.ceil((high - low) / sigma), cap)) + 1
        y, step = np.linspace(low, high, count, retstep=True)
        g2, log_z = np.zeros(omega.size), np.zeros(omega.size)
        moment = prior * deviation
        for start in range(0, count, _COLUMNS):
            part = y[start : start + _COLUMNS]
            near = (values > part[0] - 9 * sigma) & (values < part[-1] + 9 * sigma)
            with np.errstate(under="ignore"):
                likelihood = _normal((part - values[near, None]) / sigma) / sigma
                z, slope = prior[:, near] @ likelihood, moment[:, near] @ likelihood
                z = np.maximum(z, 1e-290)
                g2 += step * np.sum(slope * (slope / z), axis=1) / v
                log_z += step * np.sum(z * np.log(z), axis=1)
        return g2, log_z

    def _field_nodes(self, omega: Array, v: float, level: int) -> tuple[Array, Array]:
        """Panels in h that are short both against sqrt(V) and against the change of the link over sqrt(noise)."""
        reach = (_TAIL + 0.2) * np.sqrt(v)
        low, high = omega[0] - reach, omega[-1] + reach
        inside = self.shape.breaks[(self.shape.breaks > low) & (self.shape.breaks < high)]
        grid = np.sort(np.concatenate([np.linspace(low, high, 1025 if omega.size > 1 else 129), inside]))
        rise = np.abs(np.diff(self.link(grid))) / np.sqrt(self.noise)
        # A jump is a panel edge: it takes no nodes to cross it.
        rise = np.where(np.isin(grid[1:], inside) | np.isin(grid[:-1], inside), 0.0, rise)
        local = np.minimum(np.diff(grid) / np.sqrt(v) + rise, 20.0)
        measure = np.concatenate([[0.0], np.cumsum(local)])
        panels = level * int(np.ceil(measure[-1] / 4))
        edges = np.interp(np.linspace(0, measure[-1], panels + 1), measure, grid)
        return _panel_nodes(np.sort(np.concatenate([edges, inside])), self.nodes)

    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        log_z, g = np.empty(y.size), np.empty(y.size)
        for start in range(0, y.size, _ROWS):
            part = slice(start, start + _ROWS)
            log_z[part], g[part] = self._posterior_part(y[part, None], omega[part, None], v[part, None])
        return log_z, g

    def _posterior_part(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        scale = np.sqrt(v)
        u = np.broadcast_to(np.sinh(np.linspace(-1, 1, 161) * np.arcsinh(60.0)), (y.size, 161))
        cuts = np.clip((self.shape.breaks - omega) / scale, u[:, :1], u[:, -1:])
        for _ in range(_ZOOMS):
            # With the breaks among the edges the link is monotone on every panel, so that its ends bound it.
            edges = np.sort(np.concatenate([u, cuts], axis=1), axis=1)
            u, widest = self._zoomed(edges, y, omega, scale)
            if widest <= 4:
                break
        x, w = _panel_nodes(np.sort(np.concatenate([u, cuts], axis=1), axis=1), self.nodes)
        with np.errstate(over="ignore", under="ignore"):
            exponent = -0.5 * x**2 - (y - self.link(omega + scale * x)) ** 2 / (2 * self.noise)
            top = np.max(exponent, axis=1, keepdims=True)
            weight = w * np.exp(exponent - top)
        total = np.sum(weight, axis=1)
        log_z = top[:, 0] + np.log(total) - np.log(2 * np.pi) - 0.5 * np.log(self.noise)
        return log_z, np.sum(weight * x, axis=1) / total / scale[:, 0]

    def _zoomed(self, u: Array, y: Array, omega: Array, scale: Array) -> tuple[Array, float]:
        """New panel edges, one per two standard deviations of the posterior, and the width of the widest old panel."""
        values = self.link(omega + scale * u)
        gap = np.maximum(np.minimum(values[:, 1:], values[:, :-1]) - y, y - np.maximum(values[:, 1:], values[:, :-1]))
        nearest = np.where(u[:, 1:] * u[:, :-1] <= 0, 0.0, np.minimum(np.abs(u[:, 1:]), np.abs(u[:, :-1])))
        with np.errstate(over="ignore"):
            ceiling = -0.5 * nearest**2 - np.maximum(gap, 0.0) ** 2 / (2 * self.noise)
            floor = np.max(-0.5 * u**2 - (y - values) ** 2 / (2 * self.noise), axis=1, keepdims=True)
        possible = ceiling > floor - 45
        change = np.diff(u, axis=1) + np.minimum(np.abs(np.diff(values, axis=1)) / np.sqrt(self.noise), 20.0)
        change = np.where(possible, np.minimum(change, 20.0), 0.0)
        measure = np.cumsum(change + 1e-9, axis=1)
        panels = int(np.clip(0.5 * np.max(measure[:, -1]), 32, _PANELS))
        measure = np.concatenate([np.zeros((y.size, 1)), measure / measure[:, -1:]], axis=1)
        # One interpolation for all rows: row i of the measure is moved to [2 i, 2 i + 1].
        rows = 2.0 * np.arange(y.size)[:, None]
        wanted = rows + np.linspace(0, 1, panels + 1)
        edges = np.interp(wanted.ravel(), (rows + measure).ravel(), u.ravel()).reshape(y.size, -1)
        return edges, float(np.max(change))


def _blocks(omega: Array, width: float) -> Iterator[slice]:
    """Consecutive runs of ``omega`` no wider than ``width``."""
    start = 0
    while start < omega.size:
        stop = max(start + 1, int(np.searchsorted(omega, omega[start] + width)))
        yield slice(start, stop)
        start = stop
