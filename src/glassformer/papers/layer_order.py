"""Which of two attention layers is found first, by what the label shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.solution import Status
from glassformer.dynamics.online_sgd import Start, online_sgd
from glassformer.experiments.simulation import experiment_of
from glassformer.learners.bayes import MessagePassing
from glassformer.learners.online_sgd import OnlineSGD
from glassformer.models.deep_attention import DeepAttention
from glassformer.plotting.style import canvas, colors, label_alpha
from glassformer.state_evolution.bounds import growth_bound
from glassformer.state_evolution.weak_recovery import subspace_threshold

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_Result = tuple["pandas.DataFrame", str, bool]
_Skip = float | tuple[float, float]
# Standard errors beyond which two numbers differ.
_APART = 4.0
# What coarse labels were seen to lose of a threshold: bounds that differ by less decide nothing.
_LOST = 0.1
# Logarithm of a ratio from which on its colour is dark.
_DARK = 1.5
# Batch of online descent, and the cosine at which it begins.
_BATCH, _BEGIN = 4, 0.2
# Relative accuracy of inverted thresholds, and the sample ratio of message passing.
_ACCURACY, _RATIO = 0.03, 0.8


class _Size(NamedTuple):
    """How much is computed.

    Attributes:
        bounds: skip strengths of the bounds over equal skips.
        first, last: of either layer, of the map.
        inverted: skips at which thresholds are inverted.
        stairs: skip strengths of attention output.
        descent: skip strengths of online descent.
        samples: of a bound.
        points: of thresholds of sequence output, of descent and, divided by four, of attention output.
        time: of descent, times its learning rate.
        d: of the runs.
        steps: of message passing.
    """

    bounds: Sequence[float]
    first: Sequence[float]
    last: Sequence[float]
    inverted: Sequence[_Skip]
    stairs: Sequence[float]
    descent: Sequence[float]
    samples: int
    points: int
    time: float
    d: int
    steps: int


_FULL = _Size(
    bounds=(0.25, 0.5, 1.0, 2.0, 4.0),
    first=(0.25, 1.0, 4.0),
    last=(0.0, 0.25, 1.0, 4.0),
    inverted=(1.0,),
    stairs=(1.0,),
    descent=(0.25, 0.5, 1.0),
    samples=2**20,
    points=512,
    time=50.0,
    d=500,
    steps=16,
)
_QUICK = _Size((1.0,), (1.0,), (0.0, 1.0), (), (), (1.0,), 2**17, 128, 0.5, 30, 1)


def produce(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``smi-4``: thresholds over the skips, which layer is first, and descent and message passing beside it."""
    del reference
    import pandas

    size = _QUICK if quick else _FULL
    with canvas(path, columns=4, size=(4.5, 4.0)) as (left, map_of_order, descent, passing):
        rows = [*_thresholds(left, size), *_map(map_of_order, size), *_descents(descent, size), *_passed(passing, size)]
    data = pandas.DataFrame(rows)
    late = data[data["status"] != str(Status.CONVERGED)]
    return data, f"{_told(data)}\nnot converged: {len(late)} of {len(data)}", len(late) == 0


def _model(skip: _Skip, output: str, points: int) -> DeepAttention:
    return DeepAttention(depth=2, tokens=2, skip=skip, output=output, points=points)


def _row(kind: str, output: str, skip: _Skip, layer: int, alpha: float, error: float, **more: Any) -> dict[str, Any]:
    first, last = np.broadcast_to(skip, 2).tolist()
    place = {"kind": kind, "output": output, "skip_1": first, "skip_2": last, "layer": layer + 1}
    return {**place, "value": alpha, "error_estimate": error, "status": str(Status.CONVERGED), **more}


def _bounds(skip: _Skip, size: _Size, output: str = "sequence") -> list[dict[str, Any]]:
    """Upper bounds of both thresholds at zero overlap, with two standard errors."""
    found = []
    for layer in range(2):
        bound = growth_bound(_model(skip, output, size.points), None, np.diag(np.eye(2)[layer]), size.samples)
        found.append(_row("bound", output, skip, layer, 1 / bound.value, 2 * bound.error / bound.value**2))
    return found


def _inverted(skip: _Skip, size: _Size, bounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Thresholds from zero overlap, by inversion; one beyond its bound is no threshold."""
    found = []
    for layer, bound in enumerate(bounds):
        step = subspace_threshold(_model(skip, "sequence", size.points), layer, accuracy=_ACCURACY)
        beyond = step.alpha - bound["value"] > _APART / 2 * np.hypot(2 * step.error_estimate, bound["error_estimate"])
        status = Status.INTEGRATION_NOT_CONVERGED if beyond else Status.CONVERGED
        error = 2 * step.error_estimate
        found.append(_row("threshold", "sequence", skip, layer, step.alpha, error, status=str(status)))
    return found


def _thresholds(axes: Axes, size: _Size) -> list[dict[str, Any]]:
    """Over equal skips: bounds and thresholds of sequence output, both thresholds of attention output."""
    bounds = [row for skip in size.bounds for row in _bounds(skip, size)]
    inverted = [row for skip in size.inverted for row in _inverted(skip, size, _bounds(skip, size))]
    stairs = [row for skip in size.stairs for row in _stairs(skip, size)]
    for layer, color in enumerate(colors(2)):
        own = [row for row in bounds if row["layer"] == layer + 1]
        name = f"layer {layer + 1}"
        axes.plot(_column(own, "skip_1"), _column(own, "value"), color=color, label=f"sequence, {name}: at most")
        for rows, mark, label in ((inverted, "o", f"sequence, {name}"), (stairs, "s", f"attention, {name}")):
            there = [row for row in rows if row["layer"] == layer + 1 and row["skip_1"] == row["skip_2"]]
            fill = color if rows is inverted else "w"
            place = (_column(there, "skip_1"), _column(there, "value"), _column(there, "error_estimate"))
            axes.errorbar(*place, fmt=mark, ms=5, color=color, mfc=fill, capsize=2, label=label)
    _skips(axes, size.bounds)
    axes.set_ylabel(label_alpha("n/d"))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7.5)
    axes.set_title("where layers are found", fontsize=10)
    return [*bounds, *inverted, *stairs]


def _skips(axes: Axes, values: Sequence[float]) -> None:
    """An axis of skip strengths with these ticks alone."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("skip strength $c$ of both layers")


def _stairs(skip: _Skip, size: _Size) -> list[dict[str, Any]]:
    """Both thresholds of attention output: the last layer from zero overlap, the first one given the last."""
    model, found = _model(skip, "attention", size.points // 4), []
    for layer, known in ((1, None), (0, 1)):
        step = subspace_threshold(model, layer, known, accuracy=_ACCURACY)
        found.append(_row("threshold", "attention", skip, layer, step.alpha, 2 * step.error_estimate))
    return found


def _column(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows]


def _map(axes: Axes, size: _Size) -> list[dict[str, Any]]:
    """Over the skips of both layers: the logarithm of the ratio of the bounds, and what is decided."""
    found, ratios = [], np.zeros((len(size.last), len(size.first)))
    for i, last in enumerate(size.last):
        for j, first in enumerate(size.first):
            rows = _bounds((first, last), size)
            (one, two), (blur_one, blur_two) = _column(rows, "value"), _column(rows, "error_estimate")
            ratios[i, j] = np.log2(two / one)
            apart = abs(two - one) > _APART / 2 * np.hypot(blur_one, blur_two) + _LOST * max(one, two)
            text = ("1" if one < two else "2") if apart else "?"
            shade = "w" if abs(ratios[i, j]) > _DARK else "k"
            axes.text(j, i, text, ha="center", va="center", fontsize=9, color=shade)
            found += [{**row, "kind": "bound over both skips"} for row in rows]
    image = axes.imshow(ratios, origin="lower", aspect="auto", cmap="PuOr", vmin=-3, vmax=3)
    axes.grid(visible=False)
    axes.set_xticks(range(len(size.first)), [f"{c:g}" for c in size.first])
    axes.set_yticks(range(len(size.last)), [f"{c:g}" for c in size.last])
    axes.set_xlabel("skip strength $c_1$ of layer 1")
    axes.set_ylabel("skip strength $c_2$ of layer 2")
    axes.set_title("sequence output: the layer found first", fontsize=10)
    axes.figure.colorbar(image, ax=axes, label=r"$\log_2$ ratio of the bounds, layer 2 over layer 1")
    return found


def _descent(output: str, skip: float) -> OnlineSGD:
    """Steps in proportion to the inverse square of what labels measure."""
    rate = 1.0 if output == "attention" else 1.2 / (1 + skip) ** 2
    return OnlineSGD(learning_rate=rate, batch=_BATCH, overlap=_BEGIN)


def _descents(axes: Axes, size: _Size) -> list[dict[str, Any]]:
    """When online descent finds each layer, in its equations and in a run."""
    found = []
    for output, mark in (("sequence", "o"), ("attention", "s")):
        rows = [row for skip in size.descent for row in _arrivals(output, skip, size)]
        for layer, color in enumerate(colors(2)):
            own = [row for row in rows if row["layer"] == layer + 1]
            for kind, style in (("equations", f"-{mark}"), ("run", "x")):
                there = [row for row in own if row["kind"] == kind]
                label = f"{output}, layer {layer + 1}" if kind == "equations" else None
                fill = color if output == "sequence" else "w"
                there = [row for row in there if np.isfinite(row["value"])]
                bars = _column(there, "error_estimate") if kind == "equations" else None
                place = (_column(there, "skip_1"), _column(there, "value"), bars)
                axes.errorbar(*place, fmt=style, ms=5, mfc=fill, color=color, lw=0.8, capsize=2, label=label)
        found += rows
    axes.set_yscale("log")
    _skips(axes, size.descent)
    axes.set_ylabel(r"time $\eta t$ at which the cosine passes 1/2")
    axes.legend(fontsize=7.5)
    axes.set_title(rf"online SGD, equations, and a run at $d = {size.d}$ (x)", fontsize=10)
    return found


def _arrivals(output: str, skip: float, size: _Size) -> list[dict[str, Any]]:
    """Times of a run, and of its equations from where it began."""
    learner, model = _descent(output, skip), _model(skip, output, size.points)
    rate, looks = learner.learning_rate, 100
    times = np.linspace(0, size.time / rate, looks + 1)
    asked = learner.followed(looks)
    (run,) = experiment_of(model, times[-1:] * _BATCH, size.d, 1, 0, asked, "generated").runs()[0]
    path = online_sgd(model, times, learner.pace, Start.of_runs([run.history]), size.points)
    value, error = path.arrival()
    status = str(path.status)
    known = [_row("equations", output, skip, k, rate * value[k], rate * error[k], status=status) for k in (0, 1)]
    cosines, status = np.array([step["cosine"] for step in run.history]), str(run.status)
    there = [_first(cosines[:, k], times) for k in (0, 1)]
    return [*known, *(_row("run", output, skip, k, rate * there[k], np.nan, status=status) for k in (0, 1))]


def _first(cosine: Array, times: Array) -> float:
    """The first time at which a path is above one half; infinite where it never is."""
    return float(times[np.argmax(cosine > 0.5)]) if np.any(cosine > 0.5) else np.inf


def _passed(axes: Axes, size: _Size) -> list[dict[str, Any]]:
    """Message passing step by step, one run each."""
    found = []
    cases: list[tuple[str, _Skip, str]] = [
        ("sequence", 1.0, "-"),
        ("sequence", (1.0, 0.1), "--"),
        ("attention", 1.0, ":"),
    ]
    for output, skip, style in cases:
        model = _model(skip, output, size.points)
        learner = MessagePassing(max_iterations=size.steps, random_start=1e-2)
        (run,) = experiment_of(model, np.array([_RATIO]), size.d, 1, 0, learner).runs()[0]
        cosines = np.abs([step["cosine"] for step in run.history])
        steps = np.arange(1.0, len(cosines) + 1)
        name = "$c = 1$" if np.ndim(skip) == 0 else "$c_1 = 1$, $c_2 = 0.1$"
        for layer, color in enumerate(colors(2)):
            axes.plot(steps, cosines[:, layer], style, color=color, label=f"{output}, {name}, layer {layer + 1}")
            status = str(Status.CONVERGED if np.all(np.isfinite(cosines)) else run.status)
            there = _first(cosines[:, layer], steps)
            found.append(_row("message passing", output, skip, layer, there, np.nan, status=status))
    axes.set_xlabel("step of message passing")
    axes.set_ylabel("cosine similarity with the truth")
    axes.set_ylim(-0.02, 1.03)
    axes.legend(fontsize=7.5)
    axes.set_title(rf"$\alpha = {_RATIO:g}$, $d = {size.d}$", fontsize=10)
    return found


def _told(data: pandas.DataFrame) -> str:
    """Both layers of every case, the first one named."""
    lines = []
    for (kind, output, one, two), rows in data.groupby(["kind", "output", "skip_1", "skip_2"], sort=False):
        numbers = [
            f"layer {layer} {value:.3f}" + ("" if np.isnan(error) else f" +- {error:.3f}")
            for layer, value, error in rows[["layer", "value", "error_estimate"]].itertuples(index=False)
        ]
        lines.append(f"{kind}, {output} output, c = ({one:g}, {two:g}): {', '.join(numbers)}")
    return "\n".join(lines)
