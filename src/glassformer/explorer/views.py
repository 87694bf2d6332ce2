"""Views beside the curves of limits, and the table of all views by the question that they answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas

from glassformer.core.accuracy import Accuracy
from glassformer.core.cache import cached_table, memoize
from glassformer.core.display import readable_name
from glassformer.core.errors import ParameterError
from glassformer.core.parsing import parse_grid
from glassformer.core.progress import note
from glassformer.core.results import Table, error_column
from glassformer.explorer.limits_view import Show, best_error, learner_errors, optimum_series
from glassformer.explorer.own_link import LINK
from glassformer.explorer.picture import COLORS, DASHES, Answer, Picture, Series, error_text, hints
from glassformer.explorer.question import Question, learner_code
from glassformer.learners.base import Learner
from glassformer.learners.registry import learner_type
from glassformer.verbs.instances import Simulation
from glassformer.verbs.landscape import landscape
from glassformer.verbs.phase_diagram import phase_diagram
from glassformer.verbs.plan import plan
from glassformer.verbs.simulate import simulate
from glassformer.verbs.trajectory import trajectory

# Overlaps of a free entropy, sample ratios with runs on data at most, and values of the parameter of a diagram.
_OVERLAPS, _PLACES, _VALUES = 200, 6, 12
# Accuracy of a preview: as many trajectories as one of the eight sets of the default has, whose equations are compiled
# anyway, and few and small matrices.
_FEW = Accuracy(trajectories=4096, matrix_size=48, draws=2)
# Columns that are drawn for a quantity, those that there are.
_LABELS = ("label_error", "prediction_error", "plugin_error")
_QUANTITIES = {
    "error": ("error", "test_error", "new_task_error"),
    "cosine": ("cosine",),
    "error on labels": _LABELS,
    "loss": ("training_loss", "test_loss", "training_error"),
    "singular values": ("largest_singular_value", "nuclear_norm"),
}


def _sizes(question: Question) -> dict[str, Any]:
    """Return the sizes of runs on data."""
    return {name: getattr(question.settings, name) for name in ("d", "instances", "seed")}


def free_entropy(question: Question, show: Show) -> Answer:
    """Return the free entropy against the overlap; its highest maximum is Bayes-optimal."""
    # Plots import much that the first view of a page does not need.
    from glassformer.plotting.plots import height_limits, height_of

    del show
    model, alpha = question.model, question.at
    found = memoize(lambda: landscape(model, alpha, overlaps=_OVERLAPS), "landscape", model, alpha)
    height, ends = height_of(found), height_limits([found])
    tops = np.interp(found.maxima, found.overlap, height) if len(found.maxima) else []
    curve = Series("free entropy", found.overlap, height, hints=hints(found.status, found.error_estimate))
    maxima = Series("maximum: fixed point of state evolution", found.maxima, tops, "points", COLORS[1])
    axis = f"free entropy Φ(q) − Φ({round(found.overlap[0], 3):g}) [nats]"
    picture = Picture("overlap q with the truth", axis, (curve, maxima), y_range=ends)
    tops_of = "its maximum" if len(found.maxima) == 1 else "its maxima"
    sentence = f"{question.samples} the free entropy has {tops_of} at overlap {found.peaks}: "
    sentence += "there is a hard phase." if found.hard_phase else "there is no hard phase."
    code = question.code(f"landscape(model, {alpha!r}, overlaps={_OVERLAPS})")
    command = question.command("landscape", alpha=alpha, overlaps=_OVERLAPS)
    return Answer(picture, found.to_pandas(), sentence, code, command)


def steps(question: Question, show: Show) -> Answer:
    """Return quantities after every step of a learner, in theory and, if asked, of runs on data."""
    model, alpha, settings = question.model, question.at, question.settings
    count, one = settings.steps, question.learner(settings.learner)
    sizes = _sizes(question) if settings.runs else {}

    def table(one: Learner, count: int, **sizes: Any) -> Table:
        compute = partial(trajectory, model, [alpha], one, steps=count, throw=False, **sizes)
        return cached_table(compute, "trajectory", model, alpha, count, one, sizes)

    if previewed(question):
        note(f"compiling the equations of {count} steps, once, for some seconds")
        few = table(one.at_accuracy(_FEW), count)
        show(replace(_steps_answer(question, few, one, "preview"), preview=True))
    answer = _steps_answer(question, table(one, count, **sizes), one, "line")
    arguments = "".join(f", {name}={value}" for name, value in {"steps": count, **sizes}.items())
    code = question.code(f"trajectory(model, [{alpha!r}], {learner_code(one, True)}{arguments})")
    return replace(answer, code=code, command=question.command("trajectory", one, alpha=alpha, steps=count, **sizes))


def previewed(question: Question) -> bool:
    """Whether steps have a preview: from few trajectories, where the equations are averages over trajectories."""
    sampled = "trajectories" in learner_type(question.settings.learner).info.trajectory_accuracy
    return sampled and question.model.well_specified


def _steps_answer(question: Question, table: Table, one: Learner, kind: str) -> Answer:
    settings, count, series = question.settings, table["iteration"], list[Series]()
    names = [name for name in _QUANTITIES[settings.quantity] if name in table.columns]
    if not names:
        allowed = [word for word, columns in _QUANTITIES.items() if {*columns} & {*table.columns}]
        raise ParameterError("quantity", settings.quantity, f"one of {', '.join(allowed)} for {one.name}")
    for name in names:
        parts = [table[name], table.columns.get(error_column(name), np.full_like(table[name], np.nan))]
        if f"measured_{name}" in table.columns:
            standard_error = error_column(name, "standard_error")
            parts += [table[f"measured_{name}"], table[f"measured_{standard_error}"]]
        rows = [part.reshape(len(count), -1).T for part in parts]
        for k, (y, bars, *measured) in enumerate(zip(*rows, strict=True)):
            label, color = readable_name(name) + f" of row {k + 1}" * (len(rows[0]) > 1), COLORS[len(series) % 7]
            told = f"{label}, {'preview' if kind == 'preview' else 'theory'}"
            series.append(Series(told, count, y, kind, color, bars=bars, hints=hints(table.status, bars)))
            if measured:
                told, color = f"{label}, mean of {settings.instances} runs, d = {settings.d}", COLORS[len(series) % 7]
                series.append(Series(told, count, measured[0], "points", color, bars=measured[1]))
    first, known = series[0], np.flatnonzero(np.isfinite(series[0].y))
    texts = [error_text(first.y[k], first.bars[k]) for k in (0, min(1, known[-1]), known[-1])]
    sentence = f"{question.samples} the {first.name.partition(',')[0]} of {one.info.title} goes from {texts[0]} before "
    sentence += f"the first step to {texts[1]} after it and {texts[2]} after {count[known[-1]]:g} steps."
    picture = Picture("step", settings.quantity, tuple(series))
    return Answer(picture, table.to_pandas(), sentence, notes=table.notes)


def runs(question: Question, show: Show) -> Answer:
    """Return errors of runs on simulated data, point by point, beside theory."""
    model, one, parts = question.model, question.learner(question.settings.learner), list[Simulation]()
    positive = [alpha for alpha in question.alpha if alpha > 0]
    inner = np.linspace(0, len(positive) - 1, _PLACES + 2)[1:-1] if len(positive) > _PLACES else range(len(positive))
    for k in np.round(inner).astype(int):
        alpha = float(f"{positive[k]:.6g}")
        parts.append(simulate(model, [alpha], one, **_sizes(question)))
        show(_runs_answer(question, parts, one))
    return _runs_answer(question, parts, one)


def _runs_answer(question: Question, parts: list[Simulation], one: Learner) -> Answer:
    settings, title = question.settings, one.info.title
    main = parts[0].main
    columns = ("alpha_realised", main, error_column(main, "theory"))
    ratio, mean, theory = (np.concatenate([p[name] for p in parts]) for name in columns)
    single = [run for part in parts for group in part.instances for run in group]
    x = np.repeat(ratio, settings.instances)
    told = [f"seed {run.seed}, {run.status}, {run.iterations} iterations" for run in single]
    known = np.isfinite(theory)
    drawn = [
        *optimum_series(question)[1],
        Series(f"one run of {title}", x, [getattr(run, main) for run in single], "points", COLORS[6], hints=told),
        Series(f"theory of {title} at this size", ratio[known], theory[known], "preview", COLORS[2]),
    ]
    sentence = f"{len(single)} runs of {title} with d = {settings.d} at {len(ratio)} sample ratios: "
    sentence += f"{sum(run.status.ok for run in single)} converged"
    gap = np.max(np.abs(mean - theory)[known], initial=0.0)
    sentence += f"; their means are at most {gap:.2g} away from theory." if known.any() else "."
    alpha = [float(value) for part in parts for value in part["alpha"]]
    sizes = _sizes(question)
    arguments = ", ".join([learner_code(one, True), *(f"{k}={v}" for k, v in sizes.items())])
    return Answer(
        Picture(question.axis, question.error, tuple(drawn)),
        pandas.concat([part.to_pandas() for part in parts]),
        sentence,
        question.code(f"simulate(model, {alpha}, {arguments})"),
        question.command("simulate", one, alpha=",".join(f"{a:.6g}" for a in alpha), **sizes),
        list(dict.fromkeys(text for part in parts for text in part.notes)),
    )


def samples(question: Question, show: Show) -> Answer:
    """Return the number of samples at which the error of a learner reaches a target."""
    del show
    target, d, model = question.settings.target, question.settings.d, question.model
    one = question.learner(question.settings.learner)
    # The quantity of the default, where a signal is estimated.
    quantity = "error" if model.well_specified else "test_error"
    found = memoize(lambda: plan(model, target, one, quantity=quantity, d=d), "plan", model, target, one, d)
    alpha, curves = found.curves["alpha"], [(name, y) for name, y in found.curves.items() if name != "alpha"]
    reached = [entry for entry in found.entries if np.isfinite(entry.alpha)]
    x, told = [entry.alpha for entry in reached], [f"{entry.samples} samples" for entry in reached]
    right = max([*question.alpha, *(1.5 * one for one in x)])
    series = [Series(readable_name(n), alpha, y, "line", COLORS[k], [*DASHES][k]) for k, (n, y) in enumerate(curves)]
    series.append(Series("target", [0.0, right], [target] * 2, color=COLORS[6], dash="dotted"))
    series.append(Series("samples needed", x, [target] * len(x), "points", COLORS[6], hints=told))
    needs = [
        f"{readable_name(entry.name)} needs {entry.samples} samples, {entry.alpha:.3g} per {question.unknown}"
        if np.isfinite(entry.alpha)
        else f"{readable_name(entry.name)}: {entry.note}"
        for entry in found.entries
    ]
    sentence = f"For an error of at most {target:g} with d = {d}, {'; '.join(needs)}."
    picture = Picture(question.axis, question.error, tuple(series), right=right)
    own = {} if model.well_specified else {"quantity": quantity}
    arguments = "".join(f", {name}={value!r}" for name, value in {**own, "d": d}.items())
    code = question.code(f"plan(model, {target!r}, {learner_code(one, True)}{arguments})")
    command = question.command("plan", one, target=target, **own, d=d)
    return Answer(picture, found.to_pandas(), sentence, code, command, found.notes)


def diagram(question: Question, show: Show) -> Answer:
    """Return the thresholds against a parameter."""
    del show
    name = question.settings.horizontal
    start, stop = next(one.usual for one in question.options if one.field == name and one.usual)
    values = parse_grid(name, f"{start}:{stop}:{_VALUES}")
    model, first = question.model, question.first_learner
    found = memoize(lambda: phase_diagram(model, name, values, first), "diagram", model, name, values, first)
    series, parts = list[Series](), list[str]()
    for k, threshold in enumerate(found.names):
        alpha, label, style = found.curve(threshold), readable_name(threshold), (COLORS[k % 7], list(DASHES)[k % 5])
        # Message passing mostly recovers perfectly where that is possible: one curve, not two on top of each other.
        known = any(np.array_equal(alpha, one.y, equal_nan=True) for one in series)
        if np.nanmax(alpha, initial=0.0) > 0 and not known:
            series.append(Series(label, values, alpha, "line", *style, bars=found.curve_error(threshold)))
            parts.append(f"{label} lies between {np.nanmin(alpha):.3g} and {np.nanmax(alpha):.3g}")
    sentence = f"For {name} from {start:g} to {stop:g}, {'; '.join(parts) or 'no threshold is finite'}."
    one, own = (first, ", 'ridge'") if question.without_optimum else (None, "")
    code = question.code(f"phase_diagram(model, {name!r}, {values}{own})")
    command = question.changed(**{name: ""}).command("phase-diagram", one, along=f"{name}={start}:{stop}:{_VALUES}")
    return Answer(Picture(name, question.axis, tuple(series)), found.to_pandas(), sentence, code, command)


@dataclass(frozen=True)
class View:
    """A way to look at a model: title, function that answers, and the fields of ``Settings`` that are its controls."""

    title: str
    compute: Callable[[Question, Show], Answer]
    settings: tuple[str, ...] = ()
    on_request: bool = False

    def waits(self, question: Question) -> bool:
        """Whether it waits for a button, and the Bayes-optimal error is drawn before: where it may take long."""
        shown = self.compute in (best_error, learner_errors) or (self.compute is steps and previewed(question))
        return self.on_request or not (question.model.has_curve or shown)


_ERROR, _RUNS = View("Error", best_error, ("at",)), ("learner", "d", "instances", "seed")
QUESTIONS: dict[str, tuple[str, dict[str, View]]] = {
    "learn": (
        "What can be learned?",
        {
            "error": _ERROR,
            "entropy": View("Free entropy", free_entropy, ("at",)),
            "diagram": View("Phase diagram", diagram, ("horizontal",), on_request=True),
        },
    ),
    "training": (
        "What does my training reach?",
        {
            "error": View("Error", learner_errors, ("at", "learners")),
            "samples": View("Samples for a target", samples, ("learner", "target", "d"), on_request=True),
        },
    ),
    "time": ("In time", {"steps": View("Steps", steps, ("at", "learner", "steps", "quantity", "runs", *_RUNS[1:]))}),
    "data": ("On data", {"runs": View("Runs", runs, _RUNS, on_request=True)}),
    LINK: ("My own link", {"error": _ERROR}),
}
"""Tabs by the question that they answer: their titles and views."""
