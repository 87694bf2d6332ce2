"""Figures of regression in context: double descent, memory against learning, layers, and training in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas

from glassformer.learners.ridge import Ridge
from glassformer.learners.sgd import SGD
from glassformer.models.in_context import InContextRegression
from glassformer.models.in_context_references import in_context_references, layer_errors
from glassformer.papers.drawing import RUN_MARKS, Axis, RunSize, Series
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.plotting.style import label_alpha
from glassformer.verbs.limits import limits
from glassformer.verbs.simulate import simulate
from glassformer.verbs.trajectory import trajectory

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table

_TITLES = {"test_error": "sequences of the training tasks", "new_task_error": "sequences of new tasks"}
_ERROR = "squared error on noisy labels"


def double_descent(quick: bool) -> Recipe:
    """Errors against the number of sequences without a penalty, for three lengths of the context."""
    size = RunSize(24, 2) if quick else RunSize(60, 6)
    # Errors diverge at one sequence for each weight, within a narrow peak where contexts are long.
    near = np.geomspace(1e-4, 0.3, 40)
    grid = np.sort(np.concatenate([np.geomspace(0.05, 10, 80 if quick else 320), 1 - near, 1 + near]))
    panels = [
        partial(_against_samples, quantity=name, grid=grid, ratios=(0.1, 0.3, 0.6, 1.6, 3.0), size=size)
        for name in _TITLES
    ]
    return Recipe(panels, names=["panel", "curve"])


def _against_samples(_: Context, quantity: str, grid: Array, ratios: Sequence[float], size: RunSize) -> Part:
    series, frames, lines = [], [], [f"{quantity} of runs at d = {size.d}, {size.instances} instances, and theory"]
    for k, context in enumerate((1.0, 10.0, 100.0)):
        model, label = InContextRegression(context, 0.5, 0.01), rf"context $l = {context:g} \times d$"
        table, runs = (
            limits(model, grid, Ridge(0.0)),
            simulate(model, ratios, Ridge(0.0), d=size.d, instances=size.instances),
        )
        bars = runs[f"{quantity.removesuffix('error')}standard_error"]
        series.append(Series(grid, table[quantity], k, "-", label))
        marks = Series(runs["alpha_realised"], runs[quantity], k, "o", None, bars, RUN_MARKS, runs.status)
        series.append(marks)
        frames += [_rows(table, quantity, label, "theory"), _rows(runs, quantity, label, "runs")]
        theory = runs[f"{quantity.removesuffix('error')}theory"]
        lines += [
            f"  context {context:g}, alpha {a:g}: {mean:.4f}({bar:.4f}), theory {limit:.4f}"
            for a, mean, bar, limit in zip(ratios, runs[quantity], bars, theory, strict=True)
        ]
    settings = {
        "xscale": "log",
        "ylim": (0, 3.2),
        "xlabel": label_alpha("n/d^2"),
        "ylabel": _ERROR,
        "title": f"{_TITLES[quantity]}\n" + rf"$k = d/2$ tasks, noise 0.01, no penalty; {size.marks}",
    }
    return Part([Axis(series, 3, settings, legend={"loc": "upper left"})], frames, lines)


def _rows(table: Table, quantity: str, curve: str, source: str) -> pandas.DataFrame:
    """Return the rows of a curve."""
    frame = table.to_pandas()[["alpha", quantity, "status"]]
    return frame.rename(columns={quantity: "error"}).assign(panel=quantity, curve=f"{curve}, {source}")


def memory(quick: bool) -> Recipe:
    """Errors on training tasks and on new ones against the number of tasks, with references."""
    size = RunSize(24, 2) if quick else RunSize(50, 6)
    tasks = np.geomspace(0.05, 20, 25 if quick else 97)
    few = partial(_against_tasks, context=3.0, alpha=3.0, tasks=tasks, size=size)
    return Recipe([few, partial(few, context=100.0, alpha=100.0, size=None)], names=["panel", "curve"])


def _against_tasks(_: Context, context: float, alpha: float, tasks: Array, size: RunSize | None) -> Part:
    model = InContextRegression(context, 1.0, 0.1)
    models = [model.varied(tasks=float(one)) for one in tasks]
    tables = [limits(one, [alpha], "ridge") for one in models]
    references = [in_context_references(one) for one in models]
    series, frames, lines = [], [], [f"context {context:g}, alpha = {alpha:g}: errors over the number of tasks"]
    for k, (quantity, title) in enumerate(_TITLES.items()):
        series.append(Series(tasks, [one[quantity][0] for one in tables], k, "-", f"attention, {title}"))
        known = [getattr(one["covariance_of_tasks"], quantity) for one in references]
        series.append(Series(tasks, known, k, "--", None, look={"lw": 1}))
        frames += [
            _rows(one, quantity, f"tasks {kappa:.6g}", "theory") for kappa, one in zip(tasks, tables, strict=True)
        ]
    best, listed = (references[0][name] for name in ("best_for_new_tasks", "list_of_tasks"))
    series.append(Series([], [], "0.35", "--", "ridge in context, covariance of the tasks known", look={"lw": 1}))
    series.append(Series(tasks, np.full_like(tasks, best.new_task_error), "k", ":", "best for new tasks"))
    series.append(
        Series(tasks, np.full_like(tasks, listed.test_error), "0.5", "-.", "list of tasks known", look={"lw": 1})
    )
    for kappa, one in list(zip(tasks, tables, strict=True))[:: max(1, len(tasks) // 8)]:
        errors = ", ".join(f"{name} {one[name][0]:.4f}" for name in _TITLES)
        lines.append(f"  tasks {kappa:.3g}: {errors}")
    title = rf"$l = {context:g}\,d$, $n = {alpha:g}\,d^2$, noise 0.1, best penalty"
    if size is not None:
        marked, further, said = _task_runs(model, alpha, size)
        series, frames, lines = [*series, *marked], [*frames, *further], [*lines, *said]
        title = f"{title}\n{size.marks}"
    settings = {"xscale": "log", "ylim": (0, 1.6), "xlabel": r"tasks over dimension $k/d$", "ylabel": _ERROR}
    return Part([Axis(series, 2, {**settings, "title": title})], frames, lines)


def _task_runs(
    model: InContextRegression, alpha: float, size: RunSize
) -> tuple[list[Series], list[pandas.DataFrame], list[str]]:
    tasks, frames, lines, runs = (0.1, 0.3, 1.0, 3.0, 10.0), [], [f"runs at d = {size.d}"], []
    for kappa in tasks:
        runs.append(simulate(model.varied(tasks=kappa), [alpha], "ridge", d=size.d, instances=size.instances))
        frames += [_rows(runs[-1], quantity, f"tasks {kappa:g}", "runs") for quantity in _TITLES]
    series = []
    for k, quantity in enumerate(_TITLES):
        part = quantity.removesuffix("error")
        mean, bars, theory = (
            [one[name][0] for one in runs] for name in (quantity, f"{part}standard_error", f"{part}theory")
        )
        status = [one.status[0] for one in runs]
        series.append(Series(tasks, mean, k, "o", None, bars, RUN_MARKS, status))
        lines += [
            f"  {quantity}, tasks {kappa:g}: {a:.4f}({b:.4f}), theory {c:.4f}"
            for kappa, a, b, c in zip(tasks, mean, bars, theory, strict=True)
        ]
    return series, frames, lines


def steps(quick: bool) -> Recipe:
    """Layers as steps of message passing in context, and training of one layer in time."""
    size = RunSize(24, 2) if quick else RunSize(60, 6)
    model = InContextRegression(2.0, 0.5, 0.1)
    return Recipe([partial(_layers, model=model), partial(_in_time, model=model, size=size)], names=["panel", "curve"])


def _layers(_: Context, model: InContextRegression) -> Part:
    count = 8
    found, everyone = layer_errors(model, count), layer_errors(model.varied(tasks=np.inf), count)
    references, x = in_context_references(model), np.arange(count + 1)
    curves = {"training tasks": found[0], "new tasks": found[1], "new tasks, a new task in every sequence": everyone[1]}
    series = [Series(x, values, k, "-o", label, look={"ms": 4}) for k, (label, values) in enumerate(curves.items())]
    fixed = references["covariance_of_tasks"]
    ends = [fixed.test_error, fixed.new_task_error, references["best_for_new_tasks"].new_task_error]
    series += [Series(x, np.full(count + 1, end), k, "--", None, look={"lw": 1}) for k, end in enumerate(ends)]
    series.append(Series([], [], "0.35", "--", "fixed point: ridge in context", look={"lw": 1}))
    lines = ["errors before the first layer and after each, infinitely many sequences"]
    lines += [f"  {label}: {', '.join(f'{value:.4f}' for value in values)}" for label, values in curves.items()]
    settings = {"xlabel": "layers (steps of message passing)", "ylabel": _ERROR, "ylim": (0, 1.2), "xticks": x}
    settings["title"] = r"$n = \infty$, $l = 2\,d$, $k = d/2$, noise 0.1"
    frame = pandas.DataFrame({"panel": "layers", "iteration": x, **curves})
    return Part([Axis(series, 3, settings)], [frame], lines)


def _in_time(_: Context, model: InContextRegression, size: RunSize) -> Part:
    alpha, count = 0.8, 40
    sgd = SGD(start="small:1e-6")
    table = trajectory(model, [alpha], sgd, steps=count, d=size.d, instances=size.instances)
    best = limits(model, [alpha], "ridge")
    x, series, lines = table["iteration"], [], [f"descent at alpha = {alpha:g}, runs at d = {size.d}"]
    for k, quantity in enumerate([*_TITLES, "training_error"]):
        label = {**_TITLES, "training_error": "training sequences"}[quantity]
        bars = table[f"measured_{quantity.removesuffix('error')}standard_error"]
        series.append(Series(x, table[quantity], k, "-", label))
        look = {**RUN_MARKS, "ms": 3}
        series.append(Series(x[::4], table[f"measured_{quantity}"][::4], k, "o", None, bars[::4], look))
    least = int(np.argmin(table["test_error"]))
    series.append(Series(x, np.full_like(x, best["test_error"][0]), "k", ":", "training tasks, best ridge"))
    lines += [f"  best ridge {best['test_error'][0]:.4f}, best step {least}: {table['test_error'][least]:.4f}"]
    settings = {"xlabel": "step of full-batch descent", "ylabel": _ERROR, "ylim": (0, 1.9)}
    settings["title"] = rf"$n = {alpha:g}\,d^2$, $l = 2\,d$, $k = d/2$, noise 0.1" + f"\n{size.marks}"
    frame = table.to_pandas().assign(panel="time")
    verticals = [(float(least), "0.35", "best step")]
    return Part([replace(Axis(series, 3, settings), verticals=verticals)], [frame], lines)
