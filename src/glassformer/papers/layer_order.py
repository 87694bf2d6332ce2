"""Figure smi-4: which of two attention layers is found first, and what decides it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas

from glassformer.bayes_optimal.bounds import growth_bound
from glassformer.bayes_optimal.staircase import subspace_threshold
from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.core.status import Status
from glassformer.dynamics.online_sgd import Start, online_sgd
from glassformer.learners.base import StepContext
from glassformer.learners.gamp import MessagePassing
from glassformer.learners.online_sgd import OnlineSGD
from glassformer.models.deep_attention import DeepAttention
from glassformer.papers.curves import status_counts
from glassformer.papers.drawing import Axis, Series, first_passage
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.plotting.style import label_alpha
from glassformer.verbs.simulate import experiment_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Skip = float | tuple[float, float]
# Standard errors beyond which two numbers differ.
_DIFFERENT = 4.0
# Coarse labels lose up to this share of a threshold (measured): bounds that differ by less decide nothing.
_LOSS_OF_BOUND = 0.1
# Batch of online descent, and the cosine at which it begins.
_BATCH, _START = 4, 0.2
# Rows of the data that are times.
_IN_TIME = ("equations", "run", "message passing")
# Relative accuracy of inverted thresholds.
_ACCURACY = 0.03
# Sample ratio of message passing, twice the largest threshold that is shown: close to a threshold runs of this size do
# not find the layers (at 0.8 those of sequence outputs find none).
_RATIO = 1.5


_WORDS = (
    "Two layers whose labels are the mixing of the input tokens (sequence output): bounds are sample ratios at which a "
    "layer is found at the latest, from labels sorted into cells, without any posterior. The layer of the lower bound "
    "is found first, if bounds differ by more than their errors and the loss of the cells. Softmax attention outputs "
    "find the last layer first: its threshold is the lower one. Single runs may find layers in another order."
)


class _Size(NamedTuple):
    """How much is computed.

    Attributes:
        bounds: equal skip strengths of the bounds.
        first, last: skip strengths of either layer, of the map.
        inverted: skip strengths of inverted thresholds of sequence output.
        attention: skip strengths of thresholds of attention output.
        descent: skip strengths of online descent.
        passing: skip strengths of message passing of sequence output.
        samples: of a bound.
        points: sampled fields, for sequence output and descent; a quarter for attention output.
        time: of descent, times its learning rate.
        d: of the runs.
        steps: of message passing.
    """

    bounds: tuple[float, ...]
    first: tuple[float, ...]
    last: tuple[float, ...]
    inverted: tuple[float, ...]
    attention: tuple[float, ...]
    descent: tuple[float, ...]
    passing: tuple[_Skip, ...]
    samples: int
    points: int
    time: float
    d: int
    steps: int


_FULL = _Size(
    bounds=(0.125, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0),
    first=(0.25, 0.5, 1.0, 2.0, 4.0),
    last=(0.0, 0.25, 0.5, 1.0, 2.0, 4.0),
    inverted=(1.0,),
    attention=(1.0,),
    descent=(0.25, 0.5, 1.0),
    passing=(1.0, (1.0, 0.1)),
    samples=2**20,
    points=512,
    time=50.0,
    d=500,
    steps=20,
)
_QUICK = _Size(
    bounds=(0.25, 0.5, 1.0, 1.4, 4.0),
    first=(0.25, 1.0, 4.0),
    last=(0.0, 0.25, 1.0, 4.0),
    inverted=(),
    attention=(),
    descent=(0.5, 1.0),
    passing=(1.0,),
    samples=2**17,
    points=32,
    time=12.0,
    d=60,
    steps=20,
)


def order_of_layers(quick: bool) -> Recipe:
    """Thresholds over the skip strengths, the first layer over both of them, descent, and message passing."""
    return Recipe([partial(_layer_order, size=_QUICK if quick else _FULL)], size=(4.5, 4.2))


def _layer_order(_: Context, size: _Size) -> Part:
    """Four plots that share their skip strengths: thresholds, the map, descent and message passing."""
    parts = [part(size) for part in (_thresholds, _map, _descent, _message_passing)]
    data = pandas.DataFrame([row for _, rows in parts for row in rows])
    lines = [_WORDS]
    for (kind, output, one, two), rows in data.groupby(["kind", "output", "skip_1", "skip_2"], sort=False):
        numbers = [
            f"layer {layer} {value:.3f}" + ("" if np.isnan(error) else f" +- {error:.3f}")
            for layer, value, error in rows[["layer", "value", "error_estimate"]].itertuples(index=False)
        ]
        order = f"; {_earlier(*rows['value'])}" if kind in _IN_TIME else ""
        lines.append(f"{kind}, {output} output, c = ({one:g}, {two:g}): {', '.join(numbers)}{order}")
    lines += [*_order(data), f"runs of descent and message passing: d = {size.d}, one instance each"]
    return Part([axis for axis, _ in parts], [data], [*lines, status_counts(data["status"])])


def _earlier(one: float, two: float) -> str:
    """Say which of two layers is found first, from the times at which they are found.

    Example:
        >>> _earlier(3.0, 2.0), _earlier(np.inf, np.inf)
        ('layer 2 first', 'no order')
    """
    return "no order" if one == two or np.isnan([one, two]).any() else f"layer {1 if one < two else 2} first"


def _order(data: pandas.DataFrame) -> list[str]:
    """Say which layer is found first, over equal skips and over both."""
    wide = data.pivot_table(["value", "error_estimate"], ["kind", "skip_1", "skip_2"], "layer", sort=False)
    ratio = (wide["value"][2] / wide["value"][1]).loc["bound"].droplevel("skip_2")
    both = wide.loc["bound over both skips"]
    first: dict[str, list[str]] = {"1": [], "2": [], "?": []}
    for place, values, errors in zip(both.index, both["value"].values, both["error_estimate"].values, strict=True):
        first[_first(values, errors)].append("({:g}, {:g})".format(*place))
    return [
        f"sequence output, equal skips: the bound of layer 2 is {ratio.min():.2f} (c = {ratio.idxmin():g}) to "
        f"{ratio.max():.2f} (c = {ratio.idxmax():g}) times that of layer 1",
        f"over both skips: layer 1 first in {len(first['1'])} of {len(both)} cases, layer 2 first at c = "
        f"{', '.join(first['2']) or 'none'}, undecided at c = {', '.join(first['?']) or 'none'}",
    ]


def _first(bounds: Sequence[float] | Array, errors: Sequence[float] | Array) -> str:
    """Return which of two layers is found first by the bounds of both, or a question mark if they decide nothing."""
    one, two = bounds
    needed = _DIFFERENT / 2 * np.hypot(*errors) + _LOSS_OF_BOUND * max(one, two)
    return "?" if abs(two - one) <= needed else "1" if one < two else "2"


def _model(skip: _Skip, output: str, points: int) -> DeepAttention:
    return DeepAttention(depth=2, tokens=2, skip=skip, output=output).at_accuracy(Accuracy(points=points))


def _row(
    kind: str,
    output: str,
    skip: _Skip,
    layer: int,
    value: float,
    error: float = np.nan,
    status: Status = Status.CONVERGED,
) -> dict[str, Any]:
    """A row of the data: a threshold or a time of one layer."""
    first, last = np.broadcast_to(skip, 2).tolist()
    place = {"kind": kind, "output": output, "skip_1": first, "skip_2": last, "layer": layer + 1}
    return {**place, "value": value, "error_estimate": error, "status": str(status)}


def _columns(rows: list[dict[str, Any]], layer: int) -> tuple[list[float], list[float], list[float]]:
    """Skip strengths, values and errors of one layer."""
    own = [row for row in rows if row["layer"] == layer + 1]
    skips, values, errors = ([row[name] for row in own] for name in ("skip_1", "value", "error_estimate"))
    return skips, values, errors


def _bounds(kind: str, skip: _Skip, size: _Size) -> list[dict[str, Any]]:
    """Upper bounds of both thresholds of sequence output at zero overlap, with two standard errors."""
    model, rows = _model(skip, "sequence", size.points), []
    for layer in range(2):
        rate = growth_bound(model, None, np.diag(np.eye(2)[layer]), size.samples)
        rows.append(_row(kind, "sequence", skip, layer, 1 / rate.value, 2 * rate.error / rate.value**2))
    return rows


def _thresholds(size: _Size) -> tuple[Axis, list[dict[str, Any]]]:
    """Over equal skips: bounds and thresholds of sequence output, both thresholds of attention output."""
    bounds = [row for skip in size.bounds for row in _bounds("bound", skip, size)]
    inverted, attention = [], []
    for skip in size.inverted:
        for layer, bound in enumerate(_bounds("bound", skip, size)):
            found = subspace_threshold(_model(skip, "sequence", size.points), layer, accuracy=_ACCURACY)
            error = 2 * found.error_estimate
            # A threshold above its upper bound is no threshold.
            above = found.alpha - bound["value"] > _DIFFERENT / 2 * np.hypot(error, bound["error_estimate"])
            status = Status.INTEGRATION_NOT_CONVERGED if above else Status.CONVERGED
            inverted.append(_row("threshold", "sequence", skip, layer, found.alpha, error, status))
    for skip in size.attention:
        # The last layer from zero overlap, the first one given the last.
        for layer, known in ((1, None), (0, 1)):
            model = _model(skip, "attention", size.points // 4)
            found = subspace_threshold(model, layer, known, accuracy=_ACCURACY)
            attention.append(_row("threshold", "attention", skip, layer, found.alpha, 2 * found.error_estimate))
    series = []
    for layer in range(2):
        skips, values, errors = _columns(bounds, layer)
        series.append(Series(skips, values, layer, "-o", f"sequence, layer {layer + 1}: at most", errors, {"ms": 2}))
        for rows, marker, fill, output in (
            (inverted, "o", {}, "sequence"),
            (attention, "s", {"mfc": "w"}, "attention"),
        ):
            x, y, errors = _columns(rows, layer)
            if x:
                series.append(Series(x, y, layer, marker, f"{output}, layer {layer + 1}", errors, {"ms": 5, **fill}))
    settings = {"ylabel": label_alpha("n/d"), "ylim": (0, None), "title": "sample ratios at which layers are found"}
    axis = Axis(series, 2, settings, legend={"fontsize": 7.5}, annotate=partial(_skip_axis, values=size.bounds))
    return axis, [*bounds, *inverted, *attention]


def _skip_axis(axes: Axes, values: tuple[float, ...]) -> None:
    """Ticks at the powers of two among these skip strengths alone."""
    axes.set_xscale("log")
    ticks = [value for value in values if float(np.log2(value)).is_integer()]
    axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("skip strength $c$ of both layers")


def _map(size: _Size) -> tuple[Axis, list[dict[str, Any]]]:
    """Over the skips of both layers: the ratio of the bounds, and which layer is found first, if that is decided."""
    ratios, texts, rows = np.zeros((len(size.last), len(size.first))), {}, []
    for i, last in enumerate(size.last):
        for j, first in enumerate(size.first):
            bounds = _bounds("bound over both skips", (first, last), size)
            values, errors = ([row[name] for row in bounds] for name in ("value", "error_estimate"))
            ratios[i, j], texts[i, j] = np.log2(values[1] / values[0]), _first(values, errors)
            rows += bounds
    settings = {
        "xlabel": "skip strength $c_1$ of layer 1",
        "ylabel": "skip strength $c_2$ of layer 2",
        "title": "sequence output: the layer found first",
    }
    return Axis([], 1, settings, annotate=partial(_draw_map, ratios=ratios, texts=texts, size=size)), rows


def _draw_map(axes: Axes, ratios: Array, texts: dict[tuple[int, int], str], size: _Size) -> None:
    image = axes.imshow(ratios, origin="lower", aspect="auto", cmap="PuOr", vmin=-3, vmax=3)
    axes.grid(visible=False)
    for (i, j), text in texts.items():
        # Colours are dark beyond a ratio of 2^1.5.
        axes.text(j, i, text, ha="center", va="center", fontsize=9, color="w" if abs(ratios[i, j]) > 1.5 else "k")
    axes.set_xticks(range(len(size.first)), [f"{c:g}" for c in size.first])
    axes.set_yticks(range(len(size.last)), [f"{c:g}" for c in size.last])
    axes.figure.colorbar(image, ax=axes, label=r"$\log_2$ ratio of the bounds, layer 2 over layer 1")


def _descent(size: _Size) -> tuple[Axis, list[dict[str, Any]]]:
    """Times at which online descent finds each layer, in its equations and in a run."""
    series, every = [], []
    for output, marker, fill in (("sequence", "o", {}), ("attention", "s", {"mfc": "w"})):
        rows = [row for skip in size.descent for row in _arrivals(output, skip, size)]
        for layer in range(2):
            for kind, style in (("equations", f"-{marker}"), ("run", "x")):
                own = [row for row in rows if row["kind"] == kind and np.isfinite(row["value"])]
                x, y, error = _columns(own, layer)
                label = f"{output}, layer {layer + 1}" if kind == "equations" else None
                if x:
                    series.append(Series(x, y, layer, style, label, error, {"ms": 5, "lw": 0.8, **fill}))
        every += rows
    settings = {"yscale": "log", "ylabel": r"time $\eta t$ at which the cosine passes 1/2"}
    settings["title"] = rf"online SGD, equations, and a run at $d = {size.d}$ (x)"
    axis = Axis(series, 2, settings, legend={"fontsize": 7.5}, annotate=partial(_skip_axis, values=size.descent))
    return axis, every


def _arrivals(output: str, skip: float, size: _Size) -> list[dict[str, Any]]:
    """Times of a run, and of its equations from where it began."""
    # Steps in proportion to the inverse square of what labels measure.
    rate = 1.0 if output == "attention" else 1.2 / (1 + skip) ** 2
    model, times = _model(skip, output, size.points), np.linspace(0, size.time / rate, 101)
    learner = OnlineSGD(learning_rate=rate, batch=_BATCH, start=f"overlap:{_START}")
    recorded = learner.theory(model).simulated(StepContext(100))
    (run,) = experiment_of(model, times[-1:] * _BATCH, size.d, 1, 0, recorded, "generated").runs()[0]
    path = online_sgd(model, times, learner.pace, Start.of_runs([run.history]), size.points)
    value, error = path.arrival()
    cosines = np.array([step["cosine"] for step in run.history])
    reached = [first_passage(cosines[:, k], times) for k in range(2)]
    return [
        *(_row("equations", output, skip, k, rate * value[k], rate * error[k], path.status) for k in range(2)),
        *(_row("run", output, skip, k, rate * reached[k], status=run.status) for k in range(2)),
    ]


def _message_passing(size: _Size) -> tuple[Axis, list[dict[str, Any]]]:
    """Cosine similarities step by step, one run for each case."""
    series, rows = [], []
    cases: list[tuple[str, _Skip, str]] = [
        *(("sequence", skip, style) for skip, style in zip(size.passing, ("-", "--"), strict=False)),
        ("attention", 1.0, ":"),
    ]
    learner = MessagePassing(random_start=1e-2).at_accuracy(Accuracy(max_iterations=size.steps))
    for output, skip, style in cases:
        name = f"$c = {skip:g}$" if isinstance(skip, float) else "$c_1 = {:g}$, $c_2 = {:g}$".format(*skip)
        model = _model(skip, output, size.points)
        (run,) = experiment_of(model, np.array([_RATIO]), size.d, 1, 0, learner).runs()[0]
        cosines = np.abs([step["cosine"] for step in run.history])
        steps = np.arange(1.0, len(cosines) + 1)
        # The first steps are shown as they are: a run that goes on is no failure.
        status = Status.CONVERGED if np.all(np.isfinite(cosines)) else run.status
        for layer in range(2):
            label = f"{output}, {name}, layer {layer + 1}"
            series.append(Series(steps, cosines[:, layer], layer, style, label))
            reached = first_passage(cosines[:, layer], steps)
            rows.append(_row("message passing", output, skip, layer, reached, status=status))
    settings: dict[str, Any] = {"xlabel": "step of message passing", "ylabel": "cosine similarity with the truth"}
    settings |= {
        "xticks": range(0, size.steps + 1, 5),
        "ylim": (-0.02, 1.03),
        "title": rf"$\alpha = {_RATIO:g}$, $d = {size.d}$, single runs",
    }
    return Axis(series, 2, settings, legend={"fontsize": 7.5}), rows
