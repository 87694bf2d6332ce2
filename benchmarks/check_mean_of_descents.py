"""When the mean of gradient descents reaches the Bayes-optimal error: draws at several sizes, a table and a figure.

Every draw has one teacher, one set of samples and several starts. The overlaps of a start with itself and with the
others give the errors of one descent and of the mean of infinitely many. Results are kept in a file, draw by draw:
the script computes those that are missing, in order, and can be stopped at any time.

    python benchmarks/check_mean_of_descents.py              # draws that are missing, then the table and the figure
    python benchmarks/check_mean_of_descents.py --table      # the table and the figure of the draws so far
    python benchmarks/check_mean_of_descents.py --quick      # a small version, into out/
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from draws import Found, Value, append_row, fit, read_rows

from glassformer import AttentionIndexed, AveragedGradientDescent, BilinearSequenceRegression, limits
from glassformer.core.estimate import Array
from glassformer.dynamics.matrix_descent import Rule, descend_matrix, student_of
from glassformer.dynamics.matrix_path import inner, teacher_of
from glassformer.dynamics.mean_field_samples import Samples, revealed_samples
from glassformer.learners.gradient_descent import descend
from glassformer.models.base import FiniteSize, Model

HERE = Path(__file__).parent
DRAWS = HERE / "mean_of_descents.csv"
PAGES = HERE.parent / "docs" / "_static"
# Mean squared residual, relative to the power of the labels, at which a descent has fitted all samples.
FITTED = 1e-6
# Starts that explore on the same data.
EXPLORERS = 8
# Control variates; their means are zero in the limit.
CONTROLS = (
    *("start_overlap", "start_replica_overlap", "label_power", "start_training_error"),
    "teacher_fourth_moment",
)


@dataclass(frozen=True)
class Cell:
    """One setting.

    Attributes:
        study: ``step``, ``rate``, ``start`` or ``momentum`` of bsr, ``attention``, or ``exploration``.
        alpha: sample ratio.
        optimizer: sgd or adam.
        rate: learning rate; the loss is a quarter of the squared residuals.
        momentum: of plain descent.
        start: size of the start relative to the teacher's parameters.
        noise: variance of the labels' noise.
        tokens: of attention; zero for bsr.
        steps: largest number of steps.
        stored: whether inputs are drawn as a whole, which is faster where descent looks in as many directions as there
            are samples; the law is the same.
    """

    study: str
    alpha: float
    optimizer: str = "sgd"
    rate: float = 0.1
    momentum: float = 0.0
    start: float = 1.0
    noise: float = 0.0
    tokens: int = 0
    steps: int = 4000
    stored: bool = False

    @property
    def model(self) -> Model:
        if self.tokens:
            return AttentionIndexed(rho=0.5, tokens=self.tokens, channel="softmax")
        return BilinearSequenceRegression(beta=1, rho=0.2, noise=self.noise)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(str(value) for name, value in asdict(self).items() if name not in ("steps", "stored"))


ALPHAS, RATES = (0.1, 0.15, 0.2, 0.25), (0.4, 0.7, 0.1)
# Draws of all settings of bsr have the same teachers and starts. Differences from this rate are more exact than errors.
USUAL = 0.4
# Close to the edge of stability the loss oscillates, and its directions exhaust the samples.
STEPS = [Cell("step", alpha, rate=rate, stored=(alpha, rate) == (0.25, 0.7)) for rate in RATES for alpha in ALPHAS]
STARTS = [Cell("start", 0.25, rate=rate, start=0.5, stored=rate == 0.7) for rate in RATES]
MOMENTA = [Cell("momentum", 0.25, rate=rate, momentum=0.9, stored=True) for rate in RATES]
MOMENTA.append(Cell("momentum", 0.25, momentum=0.99, stored=True))
# The rate of released runs of bsr is not known. Where samples are not fitted their training errors tell it.
UNFITTED = [Cell("rate", alpha, rate=rate, stored=True) for alpha in (0.3, 0.33) for rate in (0.5, 0.6, 0.7, 0.8)]
# Ratios of the released runs of two tokens, and those of four tokens at the same ratio to the counting threshold.
ATTENTION = [
    Cell("attention", round(alpha * 4 / (tokens**2 + tokens - 2), 5), name, rate, tokens=tokens, steps=steps)
    for name, rate, steps in (("adam", 0.1, 1000), ("sgd", 0.4, 2000))
    for tokens in (2, 4)
    for alpha in (0.02962, 0.06039, 0.10304)
]
EXPLORATION = [Cell("exploration", alpha, "adam", 0.5, noise=0.1, stored=True) for alpha in (0.2, 0.4)]
# Released errors of one descent and of the mean, their standard deviations, and the number of starts: of bsr at
# d = 100, and of attention with two tokens at d = 200.
RELEASED = {
    ("step", 0.1): ((1.766, 0.021), (0.869, 0.008), 64),
    ("step", 0.15): ((1.591, 0.013), (0.771, 0.011), 64),
    ("step", 0.2): ((1.258, 0.007), (0.680, 0.044), 64),
    ("step", 0.25): ((0.908, 0.003), (0.555, 0.031), 64),
    ("attention", 0.02962): ((1.470, 0.038), (0.902, 0.018), 32),
    ("attention", 0.06039): ((1.235, 0.024), (0.720, 0.021), 32),
    ("attention", 0.10304): ((0.824, 0.029), (0.432, 0.012), 32),
}
# The rate of bsr, and the optimizer of attention, whose draws stand beside released errors.
BESIDE = {"step": ("rate", 0.7), "attention": ("optimizer", "adam")}
QUICK = [STEPS[0], STARTS[0], ATTENTION[0]]


def plan(quick: bool) -> Iterator[tuple[Cell, int, int]]:
    """Yield cell, size and draw of all work, in order: what is known least about comes first."""
    if quick:
        yield from ((cell, d, draw) for cell in QUICK for d in (10, 20) for draw in range(3))
        return
    # Close to the edge of stability descents take many steps, and look in as many directions.
    slow = [cell for cell in STEPS if cell.rate == 0.7 and cell.alpha >= 0.2]
    quick_cells = [cell for cell in STEPS if cell not in slow]
    usual = [cell for cell in STEPS if cell.rate == USUAL]
    smooth = [cell for cell in STEPS if cell.rate == USUAL or cell.alpha == 0.1]
    rounds: list[tuple[list[Cell], int, int]] = [
        (STEPS, 50, 12),
        (quick_cells, 100, 3),
        (smooth, 200, 4),
        (STARTS + MOMENTA, 50, 4),
        (MOMENTA[:1], 100, 3),
        (slow[:1], 100, 2),
        (ATTENTION, 50, 2),
        (ATTENTION[:6], 50, 4),
        (EXPLORATION, 50, 2),
        (usual, 50, 24),
        (usual, 100, 12),
        (usual, 200, 6),
        (quick_cells, 100, 6),
        # Up to here some 25 minutes of a processor.
        (slow[:1], 100, 4),
        (usual[2:], 400, 4),
        (UNFITTED, 50, 3),
        (EXPLORATION, 50, 6),
        (usual, 100, 24),
        (ATTENTION, 50, 8),
        (STARTS + MOMENTA, 50, 12),
        (usual, 200, 12),
        (MOMENTA[:1], 100, 12),
        (MOMENTA[:1], 200, 4),
        (quick_cells, 200, 4),
        (ATTENTION[:6], 100, 4),
        (STARTS + MOMENTA, 100, 4),
        (ATTENTION, 100, 4),
        (slow, 100, 6),
        (EXPLORATION, 100, 3),
        (STEPS, 50, 64),
        (quick_cells, 100, 32),
        (quick_cells, 200, 12),
        (STARTS + MOMENTA, 100, 12),
        (STARTS + MOMENTA, 200, 4),
        (ATTENTION, 100, 12),
        (ATTENTION, 200, 4),
        (slow, 100, 16),
        (slow, 200, 4),
    ]
    for cells, d, count in rounds:
        yield from ((cell, d, draw) for cell in cells for draw in range(count))


# --- draws ------------------------------------------------------------------------------------------------------------


class _FittedError(Exception):
    """The samples are fitted."""


def one_draw(cell: Cell, d: int, draw: int) -> dict[str, Any]:
    """Return order parameters at the end of one draw, and its control variates."""
    size = cell.model.at_size(d)
    rng, own = np.random.default_rng([63, d, draw]).spawn(2)
    teacher = teacher_of(size, rng)
    samples = _samples(cell, size, teacher, own)
    measured = _explored if cell.study == "exploration" else _descended
    began = time.process_time()
    found = measured(cell, size, samples, teacher, rng)
    moment = 0.0 if cell.tokens else _fourth_moment(teacher, size.model.matrix_prior.factor_width(d))
    return {**found, "teacher_fourth_moment": moment, "seconds": round(time.process_time() - began, 1)}


def _fourth_moment(teacher: Array, width: int) -> float:
    """Return the fourth moment of the singular values of a product of square factors, minus its limit."""
    d = len(teacher)
    return float(width / d * np.sum((teacher @ teacher.T) ** 2) / d**3 - (1 + 2 * width / d))


def _samples(cell: Cell, size: FiniteSize, teacher: Array, rng: np.random.Generator) -> Samples:
    count = round(cell.alpha * size.unit)
    if not cell.stored:
        return revealed_samples(size, count, teacher, rng)
    design = size.design.sample(count, size.input_shape, rng, "float32")
    return Samples(design, size.model.channel.sample(design.forward(teacher, 0), rng), count)


def _descended(
    cell: Cell, size: FiniteSize, samples: Samples, teacher: Array, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the end of descents from two starts at a fixed rate."""
    model = size.model
    student = student_of(model, samples, model.matrix_prior.factor_width(size.input_shape[1]))
    start = [rng.standard_normal((2, *shape)) for shape in student.parameters]
    # Starts have exactly the power of the limit.
    signals = np.asarray(student.signals(tuple(start)), dtype=float)
    d, width = start[0].shape[1:]
    limit = 1 + width / d if model.matrix_prior.symmetric else 1.0
    scale = cell.start * np.array([(limit / inner(model, one, one)) ** 0.25 for one in signals])
    labels = samples.labels.reshape(len(samples.labels), -1)
    label_power = float(np.mean(np.sum(labels**2, axis=1)))
    found: dict[str, Any] = {}

    def watch(step: int, signals: Array, errors: Array) -> None:
        training_error = 4 * float(np.mean(errors)) / samples.count
        fitted = training_error < FITTED * label_power
        # Released runs of Adam take all steps.
        ended = fitted and cell.optimizer == "sgd"
        if step == 0:
            found.update(_controls(cell, model, signals, teacher, training_error, label_power))
        if step == cell.steps // 2:
            earlier = _overlaps(model, signals, teacher)
            found.update({f"earlier_{name}": value for name, value in earlier.items()})
        if ended or step == cell.steps:
            found.update(_overlaps(model, signals, teacher), training_error=training_error, steps=step, fitted=fitted)
        if ended:
            raise _FittedError

    rule = Rule(cell.optimizer, cell.rate, cell.momentum, 0.0, cell.steps)
    with suppress(_FittedError):
        descend_matrix(samples, student, [scale[:, None, None] * part for part in start], rule, watch)
    return found


def _controls(
    cell: Cell, model: Model, signals: Array, teacher: Array, training_error: float, label_power: float
) -> dict[str, float]:
    """Return numbers of the start whose means are zero in the limit."""
    found = _overlaps(model, signals, teacher)
    # Matrices W W^T have a mean, whose power is the width ratio.
    mean = float(model.matrix_prior.second_moment) - 1
    controls = [found["overlap"] - mean * cell.start**2, found["replica_overlap"] - mean * cell.start**4, 0.0, 0.0]
    if not cell.tokens:
        controls[2:] = label_power - 1, training_error - (1 - 2 * found["overlap"] + found["power"])
    return dict(zip(CONTROLS[:4], controls, strict=True))


def _overlaps(model: Model, signals: Array, teacher: Array) -> dict[str, float]:
    """Return power and overlap with the teacher of one start, and the overlap of two, averaged over all starts."""
    count = len(signals)
    own = float(np.mean([inner(model, one, one) for one in signals]))
    mean = signals.mean(axis=0)
    return {
        "power": own,
        "overlap": inner(model, mean, teacher),
        "replica_overlap": (count * inner(model, mean, mean) - own) / (count - 1),
    }


def _explored(
    cell: Cell, size: FiniteSize, samples: Samples, teacher: Array, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the end of the package's mean of descents, which explores at a large rate, and errors on the way."""
    width = size.model.matrix_prior.factor_width(size.input_shape[1])
    student = size.model.parametrisation.student(samples.design, samples.labels, width)
    settings = AveragedGradientDescent(initialisations=EXPLORERS).completed(size.model)
    result = descend(student, settings, rng, EXPLORERS, teacher)
    explored = next(one for one in result.history if one.step >= (settings.explore or 0))
    signals = np.asarray(result.signals, dtype=float)
    last = result.history[-1]
    found = {**_overlaps(size.model, signals, teacher), **dict.fromkeys(CONTROLS[:4], 0.0)}
    # Errors at the end of exploration, with the overlap left out.
    mean = (EXPLORERS * explored.averaged_error - explored.error) / (EXPLORERS - 1)
    earlier = {"earlier_power": explored.error - 1, "earlier_overlap": 0.0, "earlier_replica_overlap": mean - 1}
    return {
        **found,
        **earlier,
        "training_error": last.training_error,
        "steps": last.step,
        "fitted": result.training.status.ok,
    }


# --- files ------------------------------------------------------------------------------------------------------------

Key = tuple[tuple[str, ...], int, int]
KEYS = tuple(name for name in asdict(STEPS[0]) if name not in ("steps", "stored"))
ORDERS = ("power", "overlap", "replica_overlap")
COLUMNS = (
    *KEYS,
    *("d", "draw", *ORDERS, *(f"earlier_{name}" for name in ORDERS)),
    *("training_error", "steps", "fitted", *CONTROLS, "seconds"),
)


def read(path: Path) -> dict[Key, dict[str, str]]:
    """Return all draws of a file by cell, size and number."""
    return {(tuple(row[name] for name in KEYS), int(row["d"]), int(row["draw"])): row for row in read_rows(path)}


def compute(path: Path, quick: bool) -> None:
    """Add the draws that are missing to a file, one by one."""
    known = read(path)
    for cell, d, draw in plan(quick):
        key = cell.key, d, draw
        if key in known:
            continue
        found = {**dict(zip(KEYS, cell.key, strict=True)), "d": d, "draw": draw, **one_draw(cell, d, draw)}
        known[key] = append_row(path, COLUMNS, found)
        print(
            ", ".join(
                f"{name} {known[key][name]}" for name in (*KEYS[:4], *COLUMNS[len(KEYS) :][:5], "steps", "seconds")
            ),
            flush=True,
        )


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What is known of one cell.

    Attributes:
        cell: the setting.
        draws: number of draws at every size.
        fitted: share of the draws whose samples are fitted.
        diverged: number of draws that diverged, which are left out of the values.
        values: means at every size and the limit, of every quantity.
    """

    cell: Cell
    draws: dict[int, int]
    fitted: float
    diverged: int
    values: dict[str, Found]

    @property
    def bayes(self) -> float:
        return bayes(self.cell.model, self.cell.alpha)

    def limit(self, quantity: str) -> Value | None:
        return self.values.get(quantity, Found({})).limit


@cache
def bayes(model: Model, alpha: float) -> float:
    """Return the Bayes-optimal error."""
    return float(limits(model, [alpha])["error"][0])


def summaries(path: Path) -> list[Summary]:
    """Return what is known of all cells of which there are draws."""
    draws = read(path)
    found = []
    for cell in dict.fromkeys([*STEPS, *UNFITTED, *STARTS, *MOMENTA, *ATTENTION, *EXPLORATION, *QUICK]):
        own = [row for (key, _, _), row in draws.items() if key == cell.key]
        good = [row for row in own if np.isfinite(float(row["power"]))]
        if not own:
            continue
        d, controls = _column(good, "d"), np.column_stack([_column(good, name) for name in CONTROLS])
        values = {}
        for name, numbers in _quantities(cell, good, draws).items():
            known = np.isfinite(numbers)
            if known.any():
                values[name] = fit(d[known], numbers[known], controls[known])
        usual = next((one for one in found if one.cell == _usual(cell)), None)
        if usual and _differences_are_more_exact(values):
            for name in PAIRED:
                values[name] = _sum(usual.values[name], values[f"difference_{name}"], values[name])
        every = _column(own, "d")
        counts = {int(size): int(np.sum(every == size)) for size in np.unique(every)}
        fitted = float(np.mean([row["fitted"] == "True" for row in own]))
        found.append(Summary(cell, counts, fitted, len(own) - len(good), values))
    return found


def _differences_are_more_exact(values: dict[str, Found]) -> bool:
    """Return whether the error of the mean has twice the standard error of its difference from the usual rate."""
    if "difference_mean" not in values:
        return False
    direct, difference = values["mean"], values["difference_mean"]
    if direct.limit and difference.limit:
        return 2 * difference.limit[1] < direct.limit[1]
    largest = max(difference.means)
    return difference.limit is not None or 2 * difference.means[largest][1] < direct.means[largest][1]


def _sum(usual: Found, difference: Found, direct: Found) -> Found:
    """Return the values at the usual rate plus the differences from them, and direct values where there are none."""

    def total(first: Value | None, second: Value | None) -> Value | None:
        return first and second and (first[0] + second[0], float(np.hypot(first[1], second[1])))

    sizes = {d: total(usual.means.get(d), difference.means.get(d)) or value for d, value in direct.means.items()}
    return Found(sizes, total(usual.limit, difference.limit) or direct.limit, direct.plain or direct.limit)


def _quantities(cell: Cell, rows: list[dict[str, str]], draws: dict[Key, dict[str, str]]) -> dict[str, Array]:
    """Return errors and order parameters of all draws of a cell; NaN where they are not known."""
    teacher = float(cell.model.matrix_prior.second_moment)

    def errors(rows: list[dict[str, str]], prefix: str = "") -> list[Array]:
        """Return the errors of one descent and of the mean."""
        overlap = _column(rows, f"{prefix}overlap")
        return [teacher - 2 * overlap + _column(rows, prefix + name) for name in ("power", "replica_overlap")]

    found = dict(zip(("one", "mean"), errors(rows), strict=True))
    found |= dict(zip(("earlier_one", "earlier_mean"), errors(rows, "earlier_"), strict=True))
    found |= {name: _column(rows, name) for name in ("power", "overlap", "replica_overlap", "training_error")}
    if cell.study in ("step", "start", "momentum") and cell != _usual(cell):
        same = [draws.get((_usual(cell).key, int(row["d"]), int(row["draw"]))) for row in rows]
        known = np.array([row is not None for row in same], dtype=bool)
        theirs = [row for row in same if row is not None]
        paired = dict(zip(("one", "mean"), errors(theirs), strict=True))
        paired |= {name: _column(theirs, name) for name in ORDERS}
        for name in PAIRED:
            found[f"difference_{name}"] = np.full(len(rows), np.nan)
            found[f"difference_{name}"][known] = found[name][known] - paired[name]
    return found


def _usual(cell: Cell) -> Cell:
    """Return the setting of bsr with the same teachers and starts, at the usual rate."""
    return Cell("step", cell.alpha, rate=USUAL)


def _column(rows: list[dict[str, str]], name: str) -> Array:
    return np.array([float(row[name]) for row in rows])


# --- table and figure -------------------------------------------------------------------------------------------------

# Where the figure has released errors: beside those of the rate that theirs is close to.
RELEASED_AT = 0.75
# Quantities that are compared draw by draw with those at the usual rate.
PAIRED = ("mean", "one", *ORDERS)
# Decimal places of a table; smaller errors stand without them.
MOST_DIGITS = 6
# Study, what distinguishes its settings, and the quantities of a table.
TABLES = {
    "step": ("step", ("alpha", "rate"), ("mean", "difference_mean", "one")),
    "overlaps": ("step", ("alpha", "rate"), ("power", "overlap", "replica_overlap")),
    "rate": ("rate", ("alpha", "rate"), ("training_error", "one")),
    "start": ("start", ("rate", "start"), ("mean", "difference_mean", "one", "power")),
    "momentum": ("momentum", ("rate", "momentum"), ("mean", "difference_mean", "one", "power")),
    "attention": ("attention", ("tokens", "alpha", "optimizer"), ("mean", "one", "power")),
    "exploration": (
        "exploration",
        ("alpha",),
        ("mean", "one", "overlap", "replica_overlap", "training_error", "earlier_mean", "earlier_one"),
    ),
}
NAMES = {
    "mean": "error of the mean",
    "difference_mean": f"the same, minus that at rate {USUAL}",
    "one": "error of one",
    "power": "power",
    "overlap": "overlap with the teacher",
    "replica_overlap": "overlap of two starts",
    "training_error": "training error",
    "earlier_mean": "error of the mean, exploring",
    "earlier_one": "error of one, exploring",
}


def write_tables(found: list[Summary], folder: Path) -> None:
    """Write all tables."""
    folder.mkdir(parents=True, exist_ok=True)
    for table, (study, settings, quantities) in TABLES.items():
        own = [one for one in found if one.cell.study == study]
        sizes = sorted({d for one in own for d in one.draws})
        ended = "converged" if study == "exploration" else "fitted"
        plain = ["plain limit"] if study == "step" else []
        head = [*settings, "quantity", *(f"d = {d}" for d in sizes), "limit", *plain, "posterior", "over Bayes"]
        rows = [[*head, "draws", ended]]
        for one in own:
            rows += [_row(one, settings, name, sizes) for name in quantities if name in one.values or name == "mean"]
        _write(folder / f"mean_of_descents_{table}.csv", rows)
    for study, (setting, value) in BESIDE.items():
        rows = [["alpha", "released, one", "here, one", "released, mean", "here, mean", "Bayes-optimal"]]
        for one in found:
            known = RELEASED.get((study, one.cell.alpha))
            if known and one.cell.study == study and getattr(one.cell, setting) == value:
                rows.append(_beside(one, *known))
        _write(folder / f"mean_of_descents_released_{study}.csv", rows)


def _write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="") as lines:
        csv.writer(lines, lineterminator="\n").writerows(rows)


def _row(one: Summary, settings: tuple[str, ...], name: str, sizes: list[int]) -> list[str]:
    means, limit, plain = one.values.get(name, Found({}))
    where = [str(getattr(one.cell, setting)) for setting in settings]
    values = [_with_error(value) for value in (*(means.get(d) for d in sizes), limit)]
    if one.cell.study == "step":
        values.append(_with_error(plain))
    over = _with_error((limit[0] / one.bayes, limit[1] / one.bayes) if limit and "error of" in NAMES[name] else None)
    draws = " + ".join(str(one.draws.get(d, 0)) for d in sizes)
    fitted = f"{one.diverged} diverged" if one.diverged else f"{100 * one.fitted:.0f} %"
    return [*where, NAMES[name], *values, _posterior(one, name), over, draws, fitted]


def _beside(one: Summary, of_one: Value, of_mean: Value, starts: int) -> list[str]:
    """Return released errors and those here at the largest size, or in the limit, with as many starts."""
    size = max(one.draws)
    where = "limit" if one.limit("mean") and one.limit("one") else f"d = {size}"
    alone, infinite = (
        one.limit(name) if where == "limit" else one.values[name].means[size] for name in ("one", "mean")
    )
    share = 1 / starts
    mean = (1 - share) * infinite[0] + share * alone[0], float(np.hypot((1 - share) * infinite[1], share * alone[1]))
    here = [f"{_with_error(value)}, {where}" for value in (alone, mean)]
    released = [f"{value} ({deviation})" for value, deviation in (of_one, of_mean)]
    return [str(one.cell.alpha), released[0], here[0], released[1], here[1], f"{one.bayes:.4f}"]


def _posterior(one: Summary, name: str) -> str:
    """Return what samples of the posterior have; empty for differences."""
    error, power = one.bayes, float(one.cell.model.matrix_prior.second_moment)
    kinds = {"mean": error, "one": 2 * error, "power": power, "overlap": power - error}
    kinds |= {"replica_overlap": power - error, "training_error": one.cell.noise}
    known = kinds.get(name.removeprefix("earlier_"))
    return "" if known is None else f"{known:.4f}"


def _with_error(value: Value | None) -> str:
    """Return a number with the standard error of its last digits in parentheses."""
    if value is None:
        return ""
    if not 0 < value[1] < np.inf:
        return f"{value[0]:.3g}"
    digits = max(0, 1 - int(np.floor(np.log10(value[1]))))
    if digits > MOST_DIGITS:
        return f"{value[0]:.0e}"
    return f"{value[0]:.{digits}f}({value[1] * 10**digits:.0f})"


def draw_figure(found: list[Summary], path: Path) -> None:
    """Draw errors of the mean and of one descent over the Bayes-optimal one against the learning rate."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), constrained_layout=True)
    for axis, name, optimum in zip(axes, ("mean", "one"), (1, 2), strict=True):
        for number, alpha in enumerate(ALPHAS):
            own = sorted(
                (one for one in found if (one.cell.study, one.cell.alpha) == ("step", alpha)),
                key=lambda one: one.cell.rate,
            )
            if own:
                _draw_ratio(axis, own, name, 0.006 * (number - 1.5), f"C{number}")
        axis.axhline(optimum, color="black", linewidth=1, linestyle="--")
        axis.set_xlabel("learning rate")
    axes[0].set_ylabel("error over Bayes-optimal error")
    axes[0].set_title("mean of infinitely many descents")
    axes[1].set_title("one descent")
    axes[1].plot([], [], "x", color="gray", label="released runs")
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_ratio(axis: Any, own: list[Summary], name: str, shift: float, colour: str) -> None:
    """Draw one sample ratio: limits as points, joined; values at the largest size empty; released values as crosses."""
    points = [(one.cell.rate + shift, *_best(one, name)) for one in own]
    known = [point for point, one in zip(points, own, strict=True) if one.limit(name) is not None]
    for rate, value, error in points:
        axis.errorbar(rate, value, 2 * error, color=colour, capsize=3)
    axis.plot(*np.array(known)[:, :2].T, "o-", color=colour, label=rf"$\alpha$ = {own[0].cell.alpha:g}")
    for one, (rate, value, _) in zip(own, points, strict=True):
        if one.limit(name) is None:
            axis.plot(rate, value, "o" if one.fitted == 1 else "v", color=colour, markerfacecolor="white")
            text = {"textcoords": "offset points", "xytext": (-38, -4), "fontsize": 8, "color": colour}
            axis.annotate(f"d = {max(one.draws)}", (rate, value), **text)
    (alone, _), (mean, _), starts = RELEASED["step", own[0].cell.alpha]
    infinite = (starts * mean - alone) / (starts - 1)
    axis.plot(RELEASED_AT, (infinite if name == "mean" else alone) / own[0].bayes, "x", color=colour)


def _best(one: Summary, name: str) -> Value:
    """Return the limit of an error over the Bayes-optimal one, or the value at the largest size."""
    sizes, limit, _ = one.values[name]
    value, error = limit or sizes[max(sizes)]
    return value / one.bayes, error / one.bayes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three settings at small sizes, into out/")
    parser.add_argument("--table", action="store_true", help="compute no draws")
    given = parser.parse_args()
    draws, pages = (Path("out/mean_of_descents.csv"), Path("out")) if given.quick else (DRAWS, PAGES)
    if not given.table:
        compute(draws, given.quick)
    found = summaries(draws)
    write_tables(found, pages)
    draw_figure(found, pages / "mean_of_descents.png")
    for table in (*TABLES, *(f"released_{study}" for study in BESIDE)):
        print((pages / f"mean_of_descents_{table}.csv").read_text())


if __name__ == "__main__":
    main()
