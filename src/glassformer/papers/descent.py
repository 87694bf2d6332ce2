"""Figures of gradient descent on samples that it sees again: exact equations of every step, with runs beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas

from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.core.results import Table, error_column
from glassformer.learners.gradient_descent import GradientDescent
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.learners.sgd import SGD
from glassformer.models.bsr import BilinearSequenceRegression
from glassformer.models.deep_attention import DeepAttention
from glassformer.models.smi import SequenceMultiIndex
from glassformer.papers.curves import (
    LABEL_ERROR,
    SHADES,
    ComputedCurve,
    CurvesPanel,
    Overlay,
    beside_optimum,
    plain_label,
)
from glassformer.papers.drawing import RUN_MARKS, Axis, RunSize, Series, runs_entry
from glassformer.papers.links import attention, first_field, sign
from glassformer.papers.panels import COSINE
from glassformer.papers.recipe import Context, Panel, Part, Recipe
from glassformer.plotting.style import label_alpha
from glassformer.verbs.limits import limits
from glassformer.verbs.trajectory import trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glassformer.learners.base import Learner
    from glassformer.models.base import Model

_GREY = "0.55"
_SHADES = ("#2b5c8a", "#b3402a", "#3f8f5b", "#8a5ca8", "#c28a1f")
# More steps are darker.
_TIMES = ("#f2b98a", "#e07b4f", "#b3402a", "#6b1d1d")
# Relative error of the equations above which their values are not drawn over the sample ratio.
_UNCERTAIN = 0.2
# Sample ratios have runs at every fourth one.
_EVERY = 4
# Marks of runs on a line over steps.
_MARKS = 12


def _rate(alpha: float) -> float:
    """Learning rate of logistic regression: its slopes are a quarter of those of square loss at most."""
    return float(3 / (1 + np.sqrt(alpha)) ** 2)


# --- over the sample ratio: descent-1 ---------------------------------------------------------------------------------


def triptych(quick: bool) -> Recipe:
    """What can be learned, what minimises the risk, and what descent reaches: signs, and attention of one layer."""
    size, trajectories = (RunSize(200, 4), 2**14) if quick else (RunSize(1000, 6), 2**17)
    signs = SequenceMultiIndex(sign)
    attending = SequenceMultiIndex(attention, tokens=2, noise=0.05).at_accuracy(Accuracy(points=256 if quick else 512))
    logistic = RegularisedRisk("logistic", strength=0.1)
    square = RegularisedRisk(strength=0.05, branch="informed")

    def on_signs(alpha: float) -> SGD:
        return SGD(_rate(alpha), logistic.strength or 0.0, loss="logistic").at_accuracy(
            Accuracy(trajectories=trajectories)
        )

    def on_attention(alpha: float) -> SGD:
        return SGD(1 / alpha, square.strength or 0.0, start="overlap:0.3").at_accuracy(
            Accuracy(trajectories=2 * trajectories)
        )

    after = partial(_after_steps, size=size, quantity="label_error")
    panels = [
        CurvesPanel(
            beside_optimum(signs, {"minimum of the risk": logistic}),
            np.geomspace(0.5, 8, 25),
            rf"labels $\mathrm{{sign}}(z)$, logistic loss, weight decay {logistic.strength:g}" + f"\n{size.marks}",
            "label_error",
            settings={"ylim": (0, 0.55), "ylabel": LABEL_ERROR, "xlim": (0, 8.2)},
            further=partial(
                after,
                descent=on_signs,
                # The work of the equations grows like the square of the steps.
                times=(1, 5, 20, 50) if quick else (1, 5, 20, 100),
                ratios=np.geomspace(0.5, 8, 5 if quick else 17),
            ),
        ),
        CurvesPanel(
            beside_optimum(attending, {"informed minimum of the risk": square}),
            np.linspace(2, 8, 5 if quick else 21),
            rf"attention of one layer, two tokens, weight decay {square.strength:g}" + f"\n{size.marks}",
            "prediction_error",
            settings={"yscale": "log", "ylim": (5e-3, 2.5), "xlim": (1.8, 8.2), "ylabel": "prediction error"},
            legend={"loc": "upper right", "ncols": 2, "title": "descent begins at cosine 0.3", "fontsize": 9},
            further=partial(
                after,
                descent=on_attention,
                times=(1, 5, 10, 60),
                ratios=np.linspace(2, 8, 5 if quick else 13),
                quantity="prediction_error",
            ),
        ),
    ]
    return Recipe(panels, names=["source", "panel", "curve"], size=(5.2, 4.4))


def _after_steps(
    computed: Sequence[ComputedCurve],
    descent: Callable[[float], SGD],
    times: Sequence[int],
    ratios: Array,
    size: RunSize,
    quantity: str,
) -> Overlay:
    """Errors of descent after several numbers of steps, with runs at every fourth sample ratio."""
    (_, optimum, _), (_, least, _) = computed
    tables = [
        _trajectory(computed[0].curve.model, alpha, descent(alpha), times[-1], None if k % _EVERY else size)
        for k, alpha in enumerate(ratios)
    ]
    alpha, x = (np.array([table["alpha"][0] for table in part]) for part in (tables[::_EVERY], tables))
    series, lines, best = [], [], float(optimum[quantity][-1])
    for time, color in zip(times, _TIMES, strict=True):
        value, error = (np.array([table[name][time] for table in tables]) for name in _columns(quantity))
        known = error < _UNCERTAIN * value
        label = f"descent, {time} step{'s' if time > 1 else ''}"
        series.append(Series(x, np.where(known, value, np.nan), color, "-", label))
        mean, spread = (np.array([table[name][time] for table in tables[::_EVERY]]) for name in _measured(quantity))
        series.append(Series(alpha, mean, color, "o", None, spread, RUN_MARKS))
        gap = np.abs(mean - value[::_EVERY])
        worst = int(np.nanargmax(np.where(known[::_EVERY], gap, np.nan)))
        lines += [
            f"{label}: {value[-1]:.4f} at alpha = {x[-1]:g}, {value[-1] / best:.2f} Bayes-optimal errors",
            f"  largest distance of runs {gap[worst]:.4f}, at alpha = {alpha[worst]:.3g}; error of the runs "
            f"{spread[worst]:.4f}, of the equations {error[::_EVERY][worst]:.4f}",
        ]
        if not known.all():
            where = ", ".join(f"{place:.3g}" for place in x[~known])
            lines.append(f"  not drawn, as the equations have errors above {_UNCERTAIN:.0%}: alpha = {where}")
    lines.append(f"minimum of the risk: {least[quantity][-1] / best:.2f} Bayes-optimal errors")
    frames = [table.to_pandas().assign(source="descent") for table in tables]
    return Overlay([*series, runs_entry()], lines, frames)


def _trajectory(model: Model, alpha: float, learner: Learner, steps: int, size: RunSize | None = None) -> Table:
    """Descent step by step, with runs if they have a size."""
    if size is None:
        return trajectory(model, [alpha], learner, steps=steps, throw=False)
    return trajectory(model, [alpha], learner, steps=steps, d=size.d, instances=size.instances, seed=1, throw=False)


def _columns(quantity: str) -> tuple[str, str]:
    """Names of a quantity and of its error in the equations."""
    return quantity, error_column(quantity)


def _measured(quantity: str) -> tuple[str, str]:
    """Names of a quantity of runs and of its standard error."""
    return f"measured_{quantity}", f"measured_{error_column(quantity, 'standard_error')}"


# --- step by step: descent-2 to descent-6 -----------------------------------------------------------------------------


class _Case(NamedTuple):
    """A descent.

    Attributes:
        label: entry of the legend.
        alpha: sample ratio.
        learner: with its settings.
        steps: number of steps.
        color: of one row; rows of deep attention have a colour each.
        style: of the line.
        marker: of the runs.
        share: of the samples in a step.
    """

    label: str
    alpha: float
    learner: Learner
    steps: int
    color: str = SHADES[0]
    style: str = "-"
    marker: str = "o"
    share: float = 1.0


class _Level(NamedTuple):
    """A horizontal line: its value and its entry in the legend."""

    value: float
    label: str


class _Descent(NamedTuple):
    """A computed case: its trajectory, and the time of every step."""

    case: _Case
    table: Table
    time: Array

    def columns(self, quantity: str) -> list[Array]:
        """Return values and errors of the equations, means and standard errors of runs, shape (steps + 1, rows)."""
        names = (*_columns(quantity), *_measured(quantity))
        return [self.table[name].reshape(len(self.time), -1) for name in names]

    def distance(self, quantity: str) -> str:
        """Describe the largest distance of runs from the equations, beside the errors of both there."""
        value, error, mean, spread = self.columns(quantity)
        gap = np.abs(mean - value)
        step, row = np.unravel_index(int(np.nanargmax(gap)), gap.shape)
        where = f"step {step}" + (f", row {row + 1}" if value.shape[1] > 1 else "")
        at = (float(part[step, row]) for part in (gap, spread, error))
        found = "{:.4f} at {}; error of the runs {:.4f}, of the equations {:.4f}".format(next(at), where, *at)
        return f"{plain_label(self.case.label)}: {quantity.replace('_', ' ')} {found}"


@dataclass(frozen=True)
class _DescentPanel:
    """Quantities after every step, a plot for each: equations with their errors as bands, means of runs as marks.

    Attributes:
        model: of the data.
        cases: of descent.
        quantities: columns of a trajectory with settings of their plots, with ``legend`` as arguments of its legend.
        size: of the runs of each case.
        title: above the plots; size and number of runs are added.
        passes: whether time is in passes over the data, of which a step is the share of a batch.
        levels: returns a horizontal line for some of the quantities.
        further: lines of the summary from the tables of the cases and the horizontal lines.
    """

    model: Model
    cases: Sequence[_Case]
    quantities: Mapping[str, Mapping[str, Any]]
    size: RunSize
    title: str
    passes: bool = False
    levels: Callable[[], Mapping[str, _Level]] = dict
    further: Callable[[Sequence[Table], Mapping[str, _Level]], Sequence[str]] = lambda tables, levels: ()

    def __call__(self, _: Context) -> Part:
        """Compute all cases, and draw them."""
        levels, computed = self.levels(), []
        for case in self.cases:
            table = _trajectory(self.model, case.alpha, case.learner, case.steps, self.size)
            time = table["iteration"] * (case.share if self.passes else 1.0)
            computed.append(_Descent(case, table, time))
        axes = [self._axis(computed, quantity, levels.get(quantity)) for quantity in self.quantities]
        frames = [
            table.to_pandas().assign(curve=case.label, panel=self.title, source="descent", time=time)
            for case, table, time in computed
        ]
        distances = [f"  {one.distance(quantity)}" for quantity in self.quantities for one in computed]
        head = f"{plain_label(self.title)}: largest distance of runs from the equations"
        return Part(axes, frames, [head, *distances, *self.further([one.table for one in computed], levels)])

    def _axis(self, computed: Sequence[_Descent], quantity: str, level: _Level | None) -> Axis:
        """Return the plot of one quantity."""
        own = dict(self.quantities[quantity])
        legend, log = own.pop("legend", {}), own.get("xscale") == "log"
        series, bands = [], []
        for descent in computed:
            case, _, time = descent
            value, error, mean, spread = descent.columns(quantity)
            rows = value.shape[1]
            grid = np.geomspace(1, case.steps, _MARKS) if log else np.linspace(0, case.steps, _MARKS)
            marked = np.unique(np.rint(grid).astype(int))
            # Logarithmic axes begin after the first step.
            shown = slice(int(log), None)
            for row in range(rows):
                color, label = (case.color, case.label) if rows == 1 else (_SHADES[row], None)
                series.append(Series(time[shown], value[shown, row], color, case.style, label))
                bands.append((time[shown], value[shown, row], error[shown, row], color))
                marks, bars = mean[marked, row], spread[marked, row]
                series.append(Series(time[marked], marks, color, case.marker, None, bars, RUN_MARKS))
        if rows == 1:
            series.append(runs_entry())
        else:
            series += [Series([], [], _SHADES[row], "-", name) for row, name in enumerate(self.model.row_names)]
            series += [runs_entry(case.label, case.style + case.marker) for case in self.cases]
        if level is not None:
            ends = [min(one.time[int(log)] for one in computed), max(one.time[-1] for one in computed)]
            series.append(Series(ends, [level.value] * 2, _GREY, "--", level.label, look={"lw": 1}))
        unit, title = "passes over the data" if self.passes else "step", f"{self.title}\n{self.size.marks}"
        return Axis(
            series,
            1,
            {"xlabel": unit, "title": title, **own},
            legend=legend,
            annotate=partial(_draw_bands, bands=bands),
        )


def _draw_bands(axes: Axes, bands: Sequence[tuple[Array, Array, Array, str]]) -> None:
    for time, value, error, color in bands:
        axes.fill_between(time, value - error, value + error, color=color, alpha=0.2, lw=0)


def layers(quick: bool) -> Recipe:
    """Layers of deep attention found one after another, by full-batch descent at several sample ratios."""
    size, trajectories = (RunSize(200, 3), 2**13) if quick else (RunSize(500, 6), 2**16)
    panels = []
    for depth, pace, steps in ((2, 0.15, 30 if quick else 60), (3, 0.1, 30 if quick else 60)):
        cases = [
            _Case(
                rf"$\alpha = {alpha:g}$",
                alpha,
                SGD(pace / alpha, 0.01, momentum=0.8, start="overlap:0.3").at_accuracy(
                    Accuracy(trajectories=trajectories)
                ),
                steps,
                style=style,
                marker=marker,
            )
            for alpha, style, marker in ((4.0, "--", "s"), (16.0, "-", "o"))
        ]
        model = DeepAttention(depth=depth, tokens=2, skip=0.5).at_accuracy(Accuracy(points=64))
        look = {"cosine": {"ylabel": COSINE, "ylim": (-0.02, 1.03), "legend": {"loc": "lower right", "ncols": 2}}}
        title = f"depth {depth}, $c = 1/2$, momentum 0.8, start at cosine 0.3"
        panels.append(_DescentPanel(model, cases, look, size, title))
    return Recipe(panels, names=["panel", "curve"], size=(5.4, 4.4))


def early_stopping(quick: bool) -> Recipe:
    """What early stopping costs against weight decay: wrong labels with logistic loss, noise with square loss."""
    size, trajectories, steps = (RunSize(300, 10), 2**15, 60) if quick else (RunSize(1000, 10), 2**17, 150)
    ratios = np.array([1.0, 2.0, 4.0, 8.0]) if quick else np.geomspace(0.5, 12, 12)
    decays, alpha = (0.0, 0.1, 0.3, 1.0), 3.0
    labels = SequenceMultiIndex(sign, noise_law="flip:0.1")
    numbers = SequenceMultiIndex(first_field, noise=0.5)
    panels: list[Panel] = []
    stopped = []
    test_loss, error = {"ylabel": "loss on new samples"}, {"ylabel": "estimation error", "ylim": (0.15, 0.45)}
    for model, loss, rate, quantity, look, title in (
        (labels, "logistic", _rate(alpha), "test_loss", test_loss, "logistic loss, 10 % wrong labels"),
        (numbers, "square", None, "error", error, r"square loss, noise $\Delta = 0.5$"),
    ):
        cases = [
            _Case(
                f"weight decay {decay:g}" if decay else "no weight decay",
                alpha,
                SGD(rate, decay, loss=loss, start="small:0.001").at_accuracy(Accuracy(trajectories=trajectories)),
                steps,
                color,
            )
            for decay, color in zip(decays, _SHADES, strict=False)
        ]
        panels.append(
            _DescentPanel(
                model,
                cases,
                {quantity: {"xscale": "log", **look}},
                size,
                rf"{title}, $\alpha = {alpha:g}$",
                levels=partial(_least_risk, model, alpha, quantity, loss),
                further=partial(_best_stop, quantity=quantity, cases=cases),
            )
        )
        stopped.append(_Stopped(f"{loss} loss: {look['ylabel']}", model, loss, quantity))
    accuracy = Accuracy(trajectories=2 * trajectories)

    def descend(rate: float | None, decay: float, loss: str) -> SGD:
        return SGD(rate, decay, loss=loss, start="small:0.001").at_accuracy(accuracy)

    panels.append(partial(_cost_of_stopping, cases=stopped, ratios=ratios, steps=steps // 2, descend=descend))
    return Recipe(panels, names=["panel", "curve"], size=(5.2, 4.4))


class _Stopped(NamedTuple):
    """A model and a loss whose descent is stopped early: entry of the legend, and the quantity that is compared."""

    label: str
    model: Model
    loss: str
    quantity: str


def _cost_of_stopping(
    _: Context, cases: Sequence[_Stopped], ratios: Array, steps: int, descend: Callable[..., SGD]
) -> Part:
    """By how much the best step of descent without decay lies above the minimum of the risk at the best decay."""
    lines = ["best step without decay above the minimum at the best decay, over the sample ratio"]
    series, frames = [], []
    for case, color in zip(cases, _SHADES, strict=False):
        best = limits(case.model, ratios, RegularisedRisk(case.loss))[case.quantity]
        step, reached, error = [], [], []
        for alpha in ratios:
            rate = _rate(alpha) if case.loss == "logistic" else None
            table = _trajectory(case.model, alpha, descend(rate, 0.0, loss=case.loss), steps)
            value, spread = (table[name] for name in _columns(case.quantity))
            step.append(int(np.nanargmin(value)))
            reached.append(value[step[-1]])
            error.append(spread[step[-1]])
        cost, bar = 100 * (np.array(reached) / best - 1), 100 * np.array(error) / best
        series.append(Series(ratios, cost, color, "-o", case.label, bar, {"ms": 4}))
        columns = {"alpha": ratios, "iteration": step, "best_step": reached, "best_decay": best, "excess_percent": cost}
        frames.append(pandas.DataFrame(columns).assign(curve=case.label, source="cost of stopping"))
        cells = [
            f"{a:.3g}: {c:.1f} +- {b:.1f} % (step {k})" for a, c, b, k in zip(ratios, cost, bar, step, strict=True)
        ]
        lines.append(f"  {case.label}: {', '.join(cells)}")
    series.append(Series(ratios[[0, -1]], [0, 0], _GREY, "--", "minimum at the best decay", look={"lw": 1}))
    settings = {
        "xlabel": label_alpha("n/d"),
        "ylabel": "best step above the best decay, per cent",
        "title": "cost of stopping early\n(bars: errors of the equations)",
    }
    return Part([Axis(series, 1, settings)], frames, lines)


def _least_risk(model: Model, alpha: float, quantity: str, loss: str) -> dict[str, _Level]:
    """Return the minimum of the risk at the best weight decay.

    Of classification that is the decay of the least label error. Its test loss is within 0.1 % of the least one
    (measured at sample ratios from 0.5 to 12).
    """
    best = limits(model, [alpha], RegularisedRisk(loss))
    return {quantity: _Level(float(best[quantity][0]), f"minimum at the best decay, {best['strength'][0]:.2g}")}


def _best_stop(
    tables: Sequence[Table], levels: Mapping[str, _Level], quantity: str, cases: Sequence[_Case]
) -> list[str]:
    """Say at which step each decay is best, beside the minimum of the risk at the best decay."""
    steps = [int(np.nanargmin(table[quantity])) for table in tables]
    lines = [
        f"  {plain_label(case.label)}: least {values[step]:.4f}, at step {step}; {values[-1]:.4f} at step {case.steps}"
        for case, values, step in zip(cases, (table[quantity] for table in tables), steps, strict=True)
    ]
    level, stopped = levels[quantity], float(tables[0][quantity][steps[0]])
    return [*lines, f"  best step without decay {stopped:.4f}, {level.label} {level.value:.4f}"]


def equal_work(quick: bool) -> Recipe:
    """Batch size and momentum against the number of passes over the data."""
    size, trajectories, passes = (RunSize(300, 8), 2**15, 10) if quick else (RunSize(1000, 8), 2**17, 20)
    alpha, model = 3.0, SequenceMultiIndex(sign, noise_law="flip:0.1")
    rate = 0.2

    def descent(**named: Any) -> SGD:
        return SGD(rate, 0.1, loss="logistic", **named).at_accuracy(Accuracy(trajectories=trajectories))

    cases = [
        _Case("full batch", alpha, descent(), passes, _SHADES[0]),
        _Case("full batch, momentum 0.8", alpha, descent(momentum=0.8), passes, _SHADES[2]),
        _Case("full batch, Nesterov 0.8", alpha, descent(momentum="nesterov:0.8"), passes, _SHADES[3]),
        _Case("batches of 0.3", alpha, descent(batch=0.3), round(passes / 0.3), _SHADES[4], share=0.3),
        _Case("batches of 0.1", alpha, descent(batch=0.1), 10 * passes, _SHADES[1], share=0.1),
    ]
    quantities = {
        "training_loss": {"ylabel": "training loss", "xscale": "log"},
        "label_error": {"ylabel": LABEL_ERROR, "xscale": "log"},
    }
    title = rf"logistic loss, 10 % wrong labels, $\alpha = {alpha:g}$, $\eta = {rate:g}$"
    return Recipe(
        [_DescentPanel(model, cases, quantities, size, title, passes=True)], names=["panel", "curve"], size=(5.2, 4.4)
    )


def starts(quick: bool) -> Recipe:
    """Attention from several overlaps, beside the minimum of its risk that a random start does not find."""
    size, trajectories, steps = (RunSize(300, 8), 2**15, 40) if quick else (RunSize(1000, 8), 2**18, 80)
    alpha, decay = 2.0, 0.05
    model = SequenceMultiIndex(attention, tokens=2, noise=0.05).at_accuracy(Accuracy(points=512))
    cases = [
        _Case(
            f"from cosine {overlap:g}",
            alpha,
            SGD(0.5, decay, start=f"overlap:{overlap:g}").at_accuracy(Accuracy(trajectories=trajectories)),
            steps,
            color,
        )
        for overlap, color in zip((0.9, 0.5, 0.3, 0.1), _SHADES, strict=False)
    ]
    panel = _DescentPanel(
        model,
        cases,
        {
            "cosine": {"ylabel": COSINE, "ylim": (-0.02, 1.03), "legend": None},
            "training_loss": {"ylabel": "training loss"},
        },
        size,
        rf"attention of one layer, $\alpha = {alpha:g}$, weight decay {decay:g}",
        levels=partial(_informed_minimum, model, alpha, decay),
    )
    return Recipe([panel], names=["panel", "curve"], size=(5.2, 4.4))


def _informed_minimum(model: Model, alpha: float, decay: float) -> dict[str, _Level]:
    """Return cosine and training loss of the minimum of the risk near the truth."""
    least = limits(model, [alpha], RegularisedRisk(strength=decay, branch="informed"))
    return {
        name: _Level(float(np.ravel(least[name])[0]), "informed minimum of the risk")
        for name in ("cosine", "training_loss")
    }


def matrices(quick: bool) -> Recipe:
    """Factors of a matrix at several sample ratios: errors and singular values after every step."""
    size, accuracy, steps = (RunSize(40, 4), Accuracy(matrix_size=48, draws=6), 20)
    if not quick:
        size, accuracy, steps = RunSize(60, 16), Accuracy(draws=16), 100
    noise, rate = 0.1, 0.2
    learner = GradientDescent(learning_rate=rate).at_accuracy(accuracy)
    cases = [
        _Case(rf"$\alpha = {alpha:g}$", alpha, learner, steps, color)
        for alpha, color in zip((0.3, 0.5, 1.0), _SHADES, strict=False)
    ]
    quantities: dict[str, dict[str, Any]] = {
        "training_error": {"ylabel": "training error", "xscale": "log", "yscale": "log"},
        "error": {"ylabel": "estimation error", "xscale": "log", "legend": None},
        "nuclear_norm": {"ylabel": "mean of the singular values", "xscale": "log", "legend": None},
        "largest_singular_value": {"ylabel": "largest singular value", "xscale": "log", "legend": None},
    }
    model = BilinearSequenceRegression(beta=1, rho=0.2, noise=noise)
    title = rf"$\rho = 0.2$, noise {noise:g}, $\eta = {rate:g}$"
    return Recipe([_DescentPanel(model, cases, quantities, size, title)], names=["panel", "curve"], size=(5.2, 4.4))
