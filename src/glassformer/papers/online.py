"""Online gradient descent on two attention layers: equations, runs, and what seeing samples again changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.solution import Status
from glassformer.dynamics.online_path import OnlinePath
from glassformer.dynamics.online_sgd import Start, online_sgd
from glassformer.experiments.instances import Run
from glassformer.experiments.simulation import experiment_of
from glassformer.learners.base import Learner
from glassformer.learners.online_sgd import OnlineSGD
from glassformer.learners.sgd import SGD
from glassformer.models.deep_attention import DeepAttention
from glassformer.plotting.style import canvas, colors

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_Result = tuple["pandas.DataFrame", str, bool]
# Samples over dimension of the descent that sees them again.
_KEPT = 10.0


class _Size(NamedTuple):
    """Dimension, runs, looks at each, sampled fields of the equations, and the share of the time that is followed."""

    d: int
    runs: int
    looks: int
    points: int
    share: float


class _Panel(NamedTuple):
    """One output, its descent, and for how long it is followed."""

    output: str
    skip: float
    learner: OnlineSGD
    time: float
    title: str


_PANELS = (
    _Panel("attention", 1.0, OnlineSGD(learning_rate=2.0, batch=4), 40.0, "attention output, $c = 1$"),
    _Panel("sequence", 0.5, OnlineSGD(learning_rate=0.5, batch=4), 40.0, "sequence output, $c = 1/2$"),
    _Panel("sequence", 1.0, OnlineSGD(learning_rate=0.3, batch=4), 24.0, "sequence output, $c = 1$"),
)


def produce(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``sgd-1``: cosine similarities in time for both outputs, and of descent over kept samples.

    Thick lines are the equations of each run, from where it began, thin ones the runs.
    """
    del reference
    import pandas

    size = _Size(100, 1, 8, 32, 0.1) if quick else _Size(500, 2, 80, 256, 1.0)
    frames, lines, good, drawn = [], [], True, []
    with canvas(path, columns=4, size=(4.4, 4.0)) as axes:
        for axis, panel in zip(axes, _PANELS, strict=False):
            found = _drawn(axis, panel, size)
            frames.append(_frame(found, panel))
            lines.append(_summary(found, panel))
            good &= all(status.ok for status in found.status.values())
            drawn.append(found)
        kept = _over_kept_samples(axes[-1], _PANELS[0], drawn[0], size)
        frames.append(kept[0])
        lines.append(kept[1])
    return pandas.concat(frames, ignore_index=True), "\n".join(lines), good


class _Found(NamedTuple):
    """Times of the runs, their overlaps over powers, shape (runs, times, P, P), and the equations of each run.

    ``status`` has the first status that is not good, of ``runs`` and of ``equations``.
    """

    time: Array
    cosines: Array
    paths: list[OnlinePath]
    status: dict[str, Status]


def _model(panel: _Panel) -> DeepAttention:
    return DeepAttention(depth=2, tokens=2, skip=panel.skip, output=panel.output, points=64)


def _runs(panel: _Panel, learner: Learner, alpha: float, size: _Size, storage: str) -> list[Run]:
    return experiment_of(_model(panel), [alpha], size.d, size.runs, 0, learner, storage).runs()[0]


def _found(panel: _Panel, size: _Size) -> _Found:
    total = panel.time * size.share
    learner = panel.learner.followed(size.looks)
    runs = _runs(panel, learner, total * learner.batch, size, "generated")
    time = np.array([step["time"] for step in runs[0].history])
    cosines = np.array([_cosines(run) for run in runs])
    starts = [Start.of_runs([run.history]) for run in runs]
    paths = [online_sgd(_model(panel), time, learner.pace, start, size.points) for start in starts]
    ended = {"runs": [run.status for run in runs], "equations": [path.status for path in paths]}
    first = {kind: next((one for one in own if not one.ok), Status.CONVERGED) for kind, own in ended.items()}
    return _Found(time, cosines, paths, first)


def _cosine(overlap: Array, power: Array, teacher: Array) -> Array:
    """Similarity of each row of the student with each of the teacher, whatever its sign, shape (..., P, P)."""
    own, true = (np.sqrt(np.diagonal(part, axis1=-2, axis2=-1)) for part in (power, teacher))
    return np.asarray(np.abs(overlap) / (own[..., :, None] * true[..., None, :]))


def _cosines(run: Run) -> Array:
    """Similarities after every look, shape (times, P, P)."""
    return np.array([_cosine(*(step[name] for name in Start._fields)) for step in run.history])


def _of_equations(path: OnlinePath) -> Array:
    """Means over the sets of points, shape (times, P, P)."""
    return _cosine(path.replicas[:, :, 0, 0], path.replicas[:, :, 0, 1], path.teacher[0]).mean(axis=1)


def _drawn(axes: Axes, panel: _Panel, size: _Size) -> _Found:
    found = _found(panel, size)
    for row, color in enumerate(colors(2)):
        for other, style in ((row, "-"), (1 - row, ":")):
            for number, (run, path) in enumerate(zip(found.cosines, found.paths, strict=True)):
                name = f"layer {row + 1}" + ("" if other == row else f" with {other + 1}")
                axes.plot(found.time, run[:, row, other], style, color=color, lw=0.7, alpha=0.5)
                mean = _of_equations(path)[:, row, other]
                axes.plot(found.time, mean, style, color=color, lw=1.8, label=None if number else name)
    _finish(axes, panel.title, panel, size)
    return found


def _finish(axes: Axes, title: str, panel: _Panel, size: _Size) -> None:
    axes.set_xlabel(r"time, steps$\,/\,d$")
    axes.set_ylabel("cosine similarity with the truth")
    axes.set_ylim(-0.02, 1.03)
    pace = rf"$\eta = {panel.learner.learning_rate:g}$, $b = {panel.learner.batch}$"
    axes.set_title(f"{title}, {pace}, $d = {size.d}$", fontsize=10, pad=22)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=4, fontsize=8, columnspacing=1.0, handlelength=1.5
    )


def _over_kept_samples(axes: Axes, panel: _Panel, found: _Found, size: _Size) -> tuple[pandas.DataFrame, str]:
    """Descent by the same steps over samples that are kept, beside the equations of fresh ones."""
    import pandas

    batch, total = panel.learner.batch, panel.time * size.share
    passes = max(1, round(total * batch / _KEPT))
    rate = panel.learner.learning_rate * size.d / (2 * batch)
    learner = SGD(learning_rate=rate, weight_decay=0.0, batch=batch, repeats=1, passes=passes, looks=4)
    runs = _runs(panel, learner, _KEPT, size, "float64")
    time = np.array([step["passes"] for step in runs[0].history]) * _KEPT / batch
    kept = np.abs([[step["cosine"] for step in run.history] for run in runs])
    fresh = [_of_equations(path) for path in found.paths]
    for row, color in enumerate(colors(2)):
        for number, (run, path) in enumerate(zip(kept, fresh, strict=True)):
            seen = None if number else f"layer {row + 1}, kept"
            axes.plot(
                found.time, path[:, row, row], color=color, lw=1.8, label=None if number else f"layer {row + 1}, fresh"
            )
            axes.plot(time, run[:, row], "--", color=color, lw=0.9, label=seen)
    _finish(axes, rf"fresh, and kept ($n = {_KEPT:g}d$)", panel, size)
    columns = {f"cosine_{row + 1}": kept[:, :, row].mean(axis=0) for row in range(2)}
    frame = pandas.DataFrame({"time": time, **columns}).assign(kind="kept samples", output=panel.output)
    ends = ", ".join(f"layer {row + 1} {kept[:, -1, row].mean():.3f}" for row in range(2))
    mean = np.mean([path[-1] for path in fresh], axis=0)
    other = ", ".join(f"layer {row + 1} {mean[row, row]:.3f}" for row in range(2))
    return frame, f"kept samples, cosines at the end of {passes} passes: {ends}; equations of fresh ones: {other}"


def _frame(found: _Found, panel: _Panel) -> pandas.DataFrame:
    import pandas

    theory = np.mean([_of_equations(path) for path in found.paths], axis=0)
    parts = []
    for kind, values in (("runs", found.cosines.mean(axis=0)), ("equations", theory)):
        columns = {f"cosine_{a + 1}_{b + 1}": values[:, a, b] for a in range(2) for b in range(2)}
        parts.append(
            pandas.DataFrame({"time": found.time, **columns}).assign(kind=kind, status=str(found.status[kind]))
        )
    error = np.mean([path.test_error.value for path in found.paths], axis=0)
    parts[1]["test_error"] = error
    parts[1]["cosine_error_estimate"] = np.max([path.cosine.error.max(axis=1) for path in found.paths], axis=0)
    return pandas.concat(parts, ignore_index=True).assign(output=panel.output, skip=panel.skip)


def _summary(found: _Found, panel: _Panel) -> str:
    """When each layer is found, by each run and by its own equations, and how far they are apart on average."""
    lines = [f"{panel.output} output, c = {panel.skip:g}:"]
    for row in range(2):
        runs = [_when(found.time, run[:, row, row]) for run in found.cosines]
        known = [_when(found.time, _of_equations(path)[:, row, row]) for path in found.paths]
        lines.append(f"  layer {row + 1} passes 1/2 at {_listed(runs)} in runs, {_listed(known)} in their equations")
    theory = np.array([_of_equations(path) for path in found.paths])
    lines.append(f"  mean distance of runs from their equations: {np.mean(np.abs(found.cosines - theory)):.3f}")
    ends = [path.test_error.value[-1] for path in found.paths]
    lines.append(f"  test error at the end, in the equations: {', '.join(f'{end:.3g}' for end in ends)}")
    return "\n".join(lines)


def _when(time: Array, cosine: Array) -> float:
    return float(time[np.argmax(cosine > 0.5)]) if np.any(cosine > 0.5) else np.inf


def _listed(times: list[float]) -> str:
    return ", ".join(f"{time:.3g}" if np.isfinite(time) else "no time" for time in times)
