"""The error against the sample ratio: Bayes-optimal, of message passing, and of learners whose theory is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas

from glassformer.bayes_optimal.limits import mean_error
from glassformer.bayes_optimal.solve import first_look
from glassformer.bayes_optimal.threshold_results import Thresholds
from glassformer.core.cache import cached_table, memoize
from glassformer.core.display import readable_name
from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.core.estimate import Estimate
from glassformer.core.parsing import parse_grid
from glassformer.core.progress import note
from glassformer.core.results import Table, error_column
from glassformer.explorer.picture import COLORS, DASHES, Answer, Picture, Series, error_text, hints
from glassformer.explorer.question import RIDGE, Question, alpha_code, learner_code
from glassformer.learners.base import Learner
from glassformer.learners.registry import compatible_learner, learners_with_limits, names, require_compatible
from glassformer.models.base import Model
from glassformer.verbs.limits import limits
from glassformer.verbs.thresholds import thresholds

# Bayes-optimal and algorithmic errors differ if by this share and by more than rounding.
_RELATIVE, _ROUNDING = 1e-6, 1e-9
# A curve that took more seconds than this the last time is drawn at every fourth sample ratio first, and computed in
# full once the hand has rested for some seconds.
_QUICK, _COARSE, _REST = 0.08, 4, 0.1
_seconds: dict[str, float] = {}
# Learners whose theory takes several seconds a sample ratio, too long for a curve.
IN_TIME = ("gd", "averaged-gd")
_PHRASES = {
    "weak_recovery": "weak recovery begins at",
    "perfect_recovery": "perfect recovery begins at",
    "algorithmic_perfect_recovery": "message passing recovers perfectly from",
    "nuclear_norm_perfect_recovery": "minimal nuclear norm recovers perfectly from",
    "bayes_optimal_transition": "the best possible error jumps at",
    "hard_phase_start": "a hard phase begins at",
    "hard_phase_end": "it ends at",
}
Show = Callable[[Answer], None]


def best_error(question: Question, show: Show) -> Answer:
    """Return the Bayes-optimal error, that of message passing where it differs, and the thresholds."""
    return _curves(question, show, [])


def learner_errors(question: Question, show: Show) -> Answer:
    """Return the errors of the chosen learners beside the Bayes-optimal one."""
    return _curves(question, show, [name for name in question.settings.learners.split(",") if name])


def learners_with_theory() -> list[str]:
    """Return the learners that can be drawn beside the Bayes-optimal error.

    Example:
        >>> "ridge" in learners_with_theory(), "gd" in learners_with_theory()
        (True, False)
    """
    return [name for name in learners_with_limits() if name not in (names()[0], *IN_TIME)]


def refusals(model: Model) -> dict[str, str]:
    """Return why learners cannot learn from a model, by their names."""

    def compute() -> dict[str, str]:
        found = dict[str, str]()
        for name in names():
            try:
                require_compatible(compatible_learner(name, model), model)
            except IncompatibleError as error:
                found[name] = str(error)
        return found

    found: dict[str, str] = memoize(compute, "refusals", model)
    return found


def optimum_series(question: Question, compute: Callable[[], Table] | None = None) -> tuple[Table, list[Series]]:
    """Return the Bayes-optimal limits, and their curves: that of message passing is drawn where it differs."""
    model, alpha = question.model, question.alpha
    if question.without_optimum:
        return _ridge_series(question)
    table = cached_table(compute or (lambda: limits(model, alpha, throw=False)), "limits", model, alpha)
    told = hints(table.status, table["error_estimate"])
    series = [Series("best possible (Bayes-optimal)", table["alpha"], table["error"], hints=told)]
    if any(_differs(*pair) for pair in zip(table["error"], table["algorithmic_error"], strict=True)):
        style: dict[str, Any] = {"color": COLORS[1], "dash": "dashed", "hints": told}
        series.append(Series("message passing", table["alpha"], table["algorithmic_error"], **style))
    return table, series


def _ridge_series(question: Question) -> tuple[Table, list[Series]]:
    """Return the limits and curves of ridge regression at its best strength, for models without state evolution."""
    model, alpha = question.model, question.alpha
    table = cached_table(partial(limits, model, alpha, RIDGE), "limits", RIDGE, model, alpha)
    told = hints(table.status, table[error_column(table.main)])
    named = {"error": "", "test_error": ", training tasks", "new_task_error": ", new tasks"}
    shown = [name for name in ("error", "test_error", "new_task_error") if name in table.columns]
    shown = shown[:1] if shown[0] == "error" else shown
    return table, [
        Series(f"ridge, best strength{named[name]}", table["alpha"], table[name], "line", COLORS[k], hints=told)
        for k, name in enumerate(shown)
    ]


def _differs(error: float, algorithmic_error: float) -> bool:
    return algorithmic_error > error * (1 + _RELATIVE) + _ROUNDING


def _curves(question: Question, show: Show, chosen: Sequence[str]) -> Answer:
    model, alpha = question.model, question.alpha

    def compute() -> Table:
        rows = list[Sequence[float]]()
        for ratio, found in first_look(model, alpha):
            rows.append((ratio, mean_error(found.value)[0], found.error_estimate[0]))
            show(first_points(question, rows))
        if model.has_curve and _seconds.get(model.name, 0.0) > _QUICK:
            nearest = min(alpha, key=lambda one: abs(one - question.at))
            coarse = question.changed(alpha=",".join(map(str, sorted({*alpha[::_COARSE], alpha[-1], nearest}))))
            preview = _answer(coarse, *optimum_series(coarse), [], {}, None)
            show(replace(preview, picture=replace(preview.picture, at=question.at), preview=True))
            time.sleep(_REST)
            note("computing")
        start = time.thread_time()
        table = limits(model, alpha, throw=False)
        _seconds[model.name] = time.thread_time() - start
        return table

    best, series = optimum_series(question, compute)
    curves, missing = list[tuple[Learner, Table]](), dict[str, str]()
    show(_answer(question, best, series, curves, missing, None))
    first = question.first_learner
    found = memoize(lambda: thresholds(model, first), "thresholds", model, first)
    for name in (name for name in chosen if name not in refusals(model)):
        show(_answer(question, best, series, curves, missing, found))
        try:
            one, above = question.learner(name), parse_grid("alpha", question.positive_alpha)
            learned = partial(limits, model, above, one, throw=False)
            curves.append((one, cached_table(learned, "limits", one, model, above)))
        except GlassformerError as error:
            missing[name] = str(error)
    return _answer(question, best, series, curves, missing, found)


def first_points(question: Question, rows: Sequence[Sequence[float]] = ()) -> Answer:
    """Return a picture of the sample ratios, errors and error estimates found so far, and of the error without data.

    The error without data follows from the prior alone: it can be drawn before any equation is compiled.
    """
    prior = question.model.prior
    nothing = np.zeros((1, *prior.self_overlap.shape))
    without = mean_error(prior.covariance(Estimate(nothing, nothing)).value)[0]
    frame = pandas.DataFrame([(0.0, without, 0.0), *rows], columns=["alpha", "error", "error_estimate"])
    x, y, bars = (frame[name].to_numpy() for name in frame)
    series = Series("preview of message passing" if rows else "error without data", x, y, "preview", bars=bars)
    sentence = f"Preview from few sampled points, {len(rows)} of {len(question.alpha)} sample ratios: the error of "
    sentence += "message passing lies within the bars. The curve follows."
    if not rows:
        sentence = f"Without data the error is {without:.3g}. The errors with data follow. Their equations are "
        sentence += "compiled first, once: this takes about 10 s, and longer on a busy machine."
    picture = Picture(question.axis, "estimation error", (series,), right=max(question.alpha))
    return Answer(picture, frame, sentence, preview=True)


def _answer(
    question: Question,
    best: Table,
    series: list[Series],
    curves: list[tuple[Learner, Table]],
    missing: dict[str, str],
    found: Thresholds | None,
) -> Answer:
    grid, above = question.settings.alpha, question.positive_alpha
    first, own = (RIDGE, ", 'ridge'") if question.without_optimum else (None, "")
    commands = [question.command("limits", first, alpha=grid), question.command("thresholds", first)]
    call, frames = f"limits(model, {alpha_code(grid)}{own}, throw=False)", [best.to_pandas()]
    parts, drawn, estimate = [], list(series), best[error_column(best.main)]
    k = int(np.argmin(np.abs(best["alpha"] - question.at)))
    error, reached = best[best.main][k], best.columns.get("algorithmic_error", best[best.main])[k]
    whose = "error of ridge regression" if question.without_optimum else "best possible error"
    text = f"With {best['alpha'][k]:.3g} samples per {question.unknown} the {whose} is "
    if _differs(error, reached):
        parts.append(f"message passing reaches {error_text(reached, estimate[k])}")
    for one, table in curves:
        position, title = names().index(one.name), one.info.title
        style: dict[str, Any] = {"color": COLORS[2 + position % 5], "dash": list(DASHES)[1 + position % 4]}
        values, bars = table[table.main], table[error_column(table.main)]
        drawn.append(Series(title, table["alpha"], values, hints=hints(table.status, bars), **style))
        j = int(np.argmin(np.abs(table["alpha"] - question.at)))
        parts.append(f"{title} reaches {error_text(values[j], bars[j])}")
        commands.append(question.command("limits", one, alpha=above))
        call += f"\n{one.name.replace('-', '_')} = limits(model, {alpha_code(above)}, {learner_code(one)}, throw=False)"
        frames.append(table.to_pandas())
    known = {} if found is None else {one.name: one.alpha for one in found.entries if 0 < one.alpha < np.inf}
    if known.get("algorithmic_perfect_recovery") == known.get("perfect_recovery"):
        known.pop("algorithmic_perfect_recovery", None)
    parts += [f"{_PHRASES.get(name, f'{readable_name(name)} is at')} {alpha:.3g}" for name, alpha in known.items()]
    sentence, notes = "; ".join([text + error_text(error, estimate[k]), *parts]) + ".", list(best.notes)
    if doubtful := sum(not status.ok for status in best.status):
        notes.append(f"{doubtful} of {len(estimate)} points did not converge: the table has their status.")
    notes += [f"{name}: {reason}." for name, reason in missing.items()]
    short = {name: readable_name(name).replace("nuclear norm perfect recovery", "nuclear norm") for name in known}
    marks = tuple((alpha, short[name]) for name, alpha in known.items() if alpha <= max(best["alpha"]))
    if curves:
        learned = [RIDGE.name if question.without_optimum else "bayes-optimal", *(one.name for one, _ in curves)]
        frames = [frame.assign(learner=name) for name, frame in zip(learned, frames, strict=True)]
    picture = Picture(question.axis, question.error, tuple(drawn), marks, question.at)
    return Answer(picture, pandas.concat(frames), sentence, question.code(call), "\n".join(commands), notes)
