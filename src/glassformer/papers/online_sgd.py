"""Figure sgd-1: online gradient descent on two attention layers, its equations, and what reused samples change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas

from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.dynamics.online_sgd import Start, online_sgd
from glassformer.learners.base import StepContext
from glassformer.learners.online_sgd import OnlineSGD
from glassformer.learners.sgd import SGD
from glassformer.models.deep_attention import DeepAttention
from glassformer.papers.drawing import Axis, Series, first_passage, joined
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.verbs.instances import first_failure
from glassformer.verbs.simulate import experiment_of

if TYPE_CHECKING:
    from glassformer.dynamics.online_path import OnlinePath

# Samples over dimension of the descent that sees samples again.
_REUSED = 10.0
_BATCH = 4


class _Case(NamedTuple):
    """An output, its skip strength, the learning rate, the time it takes, and its name."""

    output: str
    skip: float
    rate: float
    time: float
    title: str

    @property
    def model(self) -> DeepAttention:
        return DeepAttention(depth=2, tokens=2, skip=self.skip, output=self.output).at_accuracy(Accuracy(points=64))


class _Cosines(NamedTuple):
    """Cosine similarities of the layers of student and teacher, in runs and in the equations of each run.

    ``time`` has shape (times,), ``runs`` and ``equations`` (runs, times, 2, 2).
    """

    time: Array
    runs: Array
    equations: Array
    paths: list[OnlinePath]
    status: dict[str, str]


_CASES = (
    _Case("attention", 1.0, 2.0, 40.0, "attention output, $c = 1$"),
    _Case("sequence", 0.5, 0.5, 40.0, "sequence output, $c = 1/2$"),
    _Case("sequence", 1.0, 0.3, 24.0, "sequence output, $c = 1$"),
)


def both_outputs(quick: bool) -> Recipe:
    """Cosine similarities in time for both outputs, and of descent that reuses its samples."""
    small = partial(_online_descent, d=100, instances=1, intervals=12, points=32, share=0.2)
    full = partial(_online_descent, d=500, instances=2, intervals=80, points=256, share=1.0)
    return Recipe([small if quick else full], size=(4.4, 4.0))


def _online_descent(_: Context, d: int, instances: int, intervals: int, points: int, share: float) -> Part:
    """Three cases of online descent for a share of their time, and the first one on samples that are seen again.

    Thick lines are the equations of each run from where it began, thin ones the runs.
    """
    cases = [case._replace(time=case.time * share) for case in _CASES]
    found = [_cosines(case, d, instances, intervals, points) for case in cases]
    fresh = "thick: equations, thin: runs, fresh samples"
    axes = [
        _axis(_fresh_series(one), case.title, fresh, case, d, instances) for case, one in zip(cases, found, strict=True)
    ]
    series, reused, line = _reused_samples(cases[0], found[0], d, instances)
    kept = f"thick: equations, fresh; dashed: runs, $n = {_REUSED:g}d$ kept"
    axes.append(_axis(series, f"{cases[0].title}, fresh and kept samples", kept, cases[0], d, instances))
    frames = [*(_data(case, one) for case, one in zip(cases, found, strict=True)), reused]
    lines = [text for case, one in zip(cases, found, strict=True) for text in _summary(case, one)]
    return Part(axes, frames, [*lines, line, f"runs: d = {d}, {instances} of each case"])


def _cosines(case: _Case, d: int, instances: int, intervals: int, points: int) -> _Cosines:
    """Run online descent, and solve its equations from the start of each run."""
    learner = OnlineSGD(learning_rate=case.rate, batch=_BATCH)
    recorded = learner.theory(case.model).simulated(StepContext(intervals))
    alpha = case.time * _BATCH
    runs = experiment_of(case.model, [alpha], d, instances, 0, recorded, "generated").runs()[0]
    time = np.array([step["time"] for step in runs[0].history])
    starts = [Start.of_runs([run.history]) for run in runs]
    paths = [online_sgd(case.model, time, learner.pace, start, points) for start in starts]
    measured = [[_cosine(*(step[name] for name in Start._fields)) for step in run.history] for run in runs]
    # Means over the sets of points.
    equations = [
        _cosine(path.replicas[:, :, 0, 0], path.replicas[:, :, 0, 1], path.teacher[0]).mean(axis=1) for path in paths
    ]
    status = {
        kind: str(first_failure(ended))
        for kind, ended in (("runs", [run.status for run in runs]), ("equations", [path.status for path in paths]))
    }
    return _Cosines(time, np.array(measured), np.array(equations), paths, status)


def _cosine(overlap: Array, power: Array, teacher: Array) -> Array:
    """Similarity of each row of the student with each of the teacher, whatever its sign, shape (..., P, P)."""
    own, true = (np.sqrt(np.diagonal(part, axis1=-2, axis2=-1)) for part in (power, teacher))
    return np.asarray(np.abs(overlap) / (own[..., :, None] * true[..., None, :]))


def _fresh_series(found: _Cosines) -> list[Series]:
    series = []
    for row in range(2):
        for other, style in ((row, "-"), (1 - row, ":")):
            name = f"layer {row + 1}" + ("" if other == row else f" with {other + 1}")
            runs, equations = (part[:, :, row, other].T for part in (found.runs, found.equations))
            series.append(Series(found.time, runs, row, style, look={"lw": 0.7, "alpha": 0.5}))
            series.append(Series(found.time, equations, row, style, name, look={"lw": 1.8}))
    return series


def _axis(series: list[Series], title: str, lines: str, case: _Case, d: int, instances: int) -> Axis:
    """A plot whose title says what its ``lines`` are."""
    settings = {"xlabel": r"time, steps$\,/\,d$", "ylabel": "cosine similarity with the truth", "ylim": (-0.02, 1.03)}
    # Three lines, below which the legend has its place.
    pace = rf"$\eta = {case.rate:g}$, $b = {_BATCH}$, $d = {d}$, " + (
        "1 run" if instances == 1 else f"{instances} runs"
    )
    settings["title"] = f"{title}\n{pace}\n{lines}\n"
    legend = {"loc": "lower center", "bbox_to_anchor": (0.5, 0.99), "ncols": 4, "fontsize": 8, "columnspacing": 1.0}
    return Axis(series, 2, settings, legend={**legend, "handlelength": 1.5})


def _reused_samples(case: _Case, fresh: _Cosines, d: int, instances: int) -> tuple[list[Series], pandas.DataFrame, str]:
    """Descent by the same steps over a fixed set of samples, beside the equations of fresh ones."""
    passes = max(1, round(case.time * _BATCH / _REUSED))
    # The sum of the losses of a batch instead of their mean, recorded five times in every pass.
    rate, every = case.rate / _BATCH, round(_REUSED * d / _BATCH / 5)
    learner = SGD(learning_rate=rate, batch=_BATCH, sampling="epochs", passes=passes, record_every=every)
    runs = experiment_of(case.model, [_REUSED], d, instances, 0, learner, "float64").runs()[0]
    time = np.array([step["passes"] for step in runs[0].history[1:]]) * _REUSED / _BATCH
    cosines = np.abs([[step["cosine"] for step in run.history[1:]] for run in runs])
    series = []
    for row in range(2):
        name, equations = f"layer {row + 1}", fresh.equations[:, :, row, row].T
        series.append(Series(fresh.time, equations, row, "-", f"{name}, fresh", look={"lw": 1.8}))
        series.append(Series(time, cosines[:, :, row].T, row, "--", f"{name}, kept", look={"lw": 0.9}))
    means = cosines.mean(axis=0)
    columns = {"time": time, "cosine_1": means[:, 0], "cosine_2": means[:, 1]}
    data = pandas.DataFrame(columns).assign(kind="kept samples", output=case.output)
    theory = np.diagonal(fresh.equations[:, -1].mean(axis=0))
    ends, others = (
        ", ".join(f"layer {k + 1} {value:.3f}" for k, value in enumerate(part)) for part in (means[-1], theory)
    )
    line = f"kept samples, cosines at the end of {passes} passes: {ends}; equations of fresh ones: {others}"
    return series, data, line


def _data(case: _Case, found: _Cosines) -> pandas.DataFrame:
    frames = []
    for kind, values in (("runs", found.runs.mean(axis=0)), ("equations", found.equations.mean(axis=0))):
        columns = {f"cosine_{a + 1}_{b + 1}": values[:, a, b] for a in range(2) for b in range(2)}
        frames.append(pandas.DataFrame({"time": found.time, **columns}).assign(kind=kind, status=found.status[kind]))
    frames[1]["test_error"] = np.mean([path.test_error.value for path in found.paths], axis=0)
    frames[1]["cosine_error_estimate"] = np.max([path.cosine.error.max(axis=1) for path in found.paths], axis=0)
    return joined(frames).assign(output=case.output, skip=case.skip)


def _passages(cosines: Array, time: Array) -> str:
    """Say when cosines of shape (runs, times) pass one half, or that they do not.

    Example:
        >>> _passages(np.array([[0.1, 0.2, 0.9], [0.1, 0.6, 0.9]]), np.array([0.0, 1.0, 2.0]))
        'at time 2, 1'
        >>> _passages(np.array([[0.1, 0.2]]), np.array([0.0, 1.0]))
        'not up to time 1'
    """
    first = [first_passage(one, time) for one in cosines]
    known = ", ".join(f"{one:.3g}" for one in first if np.isfinite(one))
    missing = sum(not np.isfinite(one) for one in first)
    if not known:
        return f"not up to time {time[-1]:.3g}"
    return f"at time {known}" + (f" (not up to {time[-1]:.3g} in {missing} of {len(first)})" if missing else "")


def _summary(case: _Case, found: _Cosines) -> list[str]:
    """When each layer is found, by each run and by its equations, and the mean distance of both."""
    lines = [f"{case.output} output, c = {case.skip:g}:"]
    for row in range(2):
        runs, known = (_passages(part[:, :, row, row], found.time) for part in (found.runs, found.equations))
        lines.append(f"  layer {row + 1} passes a cosine of 1/2 {runs} in runs, {known} in their equations")
    lines.append(f"  mean distance of runs from their equations: {np.mean(np.abs(found.runs - found.equations)):.3f}")
    ends = ", ".join(f"{path.test_error.value[-1]:.3g}" for path in found.paths)
    return [*lines, f"  test error at the end, in the equations: {ends}"]
