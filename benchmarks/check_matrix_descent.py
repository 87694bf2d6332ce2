"""Descent on matrices in time: theory against runs with the trend of their size, and how often error bars cover.

Runs on stored data at two sizes are extrapolated in 1/d, for three tokens and more in 1/sqrt(d). Draws of theory and
runs are kept in files, row by row: the script computes those that are missing and can be stopped at any time.

    python benchmarks/check_matrix_descent.py runs [WORD ...] [--table]   # settings with one of the words
    python benchmarks/check_matrix_descent.py coverage [--settings N] [--table]   # error bars of random settings
    python benchmarks/check_matrix_descent.py small                          # a small start at full width
    python benchmarks/check_matrix_descent.py published [--reference DIR] [--ratios N] [WORD ...]   # released runs

With --quick sizes are small, and files are in out/.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from draws import Row, append_row, fit, read_rows

from glassformer import (
    Accuracy,
    AttentionIndexed,
    AveragedGradientDescent,
    BilinearSequenceRegression,
    GradientDescent,
    NuclearNorm,
    limits,
    trajectory,
)
from glassformer.core.estimate import Array, Estimate
from glassformer.dynamics.matrix_descent import Rule, descend_matrix, student_of
from glassformer.dynamics.matrix_path import (
    MatrixSettings,
    _averaged,
    _drawn,
    _estimates,
    _sizes,
    descended,
    extrapolate,
    teacher_of,
)
from glassformer.dynamics.mean_field_samples import ROOM, Samples, has_room
from glassformer.learners.base import StepContext
from glassformer.learners.data_set import DataSet
from glassformer.numerics.quasi_random import confidence_factor

OUT, KEPT = Path("out"), Path(__file__).parent / "matrix_descent.csv"
BSR = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
CLEAN = BilinearSequenceRegression(beta=1, rho=0.2)
LONG = BilinearSequenceRegression(beta=2, rho=0.3, noise=0.1)
TANH = BilinearSequenceRegression(beta=1, rho=0.2, link=jnp.tanh, noise=0.05)
LINEAR = AttentionIndexed(rho=0.5, tokens=2, channel="linear", noise=0.1)
SOFTMAX = AttentionIndexed(rho=0.5, tokens=2, channel="softmax")
THREE = AttentionIndexed(rho=0.5, tokens=3, channel="softmax")
FIVE = AttentionIndexed(rho=0.5, tokens=5, channel="softmax")
SIGNS = AttentionIndexed(rho=0.5, tokens=2, channel="hardmax")


@dataclass(frozen=True)
class Setting:
    """A descent whose theory is compared.

    Attributes:
        name: of the setting.
        model: of the teacher.
        alpha: sample ratio.
        learner: gradient descent.
        power: of 1/d in the corrections of runs.
        steps: number of steps.
        runs: dimensions of the runs.
        size: larger size of the draws of theory.
        first: number of the first draw; draws of other numbers are independent of each other.
        label: words by which comparisons are counted.
    """

    name: str
    model: Any
    alpha: float
    learner: Any
    power: float = 1.0
    steps: int = 40
    runs: tuple[int, ...] = (60, 120)
    size: int = 120
    first: int = 0
    label: str = ""

    @property
    def shown(self) -> Array:
        """Steps at which numbers are kept: an eighth, a quarter and half of them, and the last one."""
        return self.steps * np.array([1, 2, 4, 8]) // 8

    def at_size(self, size: int | None = None) -> MatrixSettings:
        """Return what the draws of theory depend on."""
        learner = self.learner.at_accuracy(Accuracy(matrix_size=size or self.size))
        return learner.theory(self.model)._settings(StepContext(self.steps))

    def sizes(self, size: int | None = None) -> list[int]:
        """Return the two sizes of the draws of theory."""
        return [one.input_shape[1] for one in _sizes(self.model, self.at_size(size))]

    def draw(self, settings: MatrixSettings, d: int, draw: int) -> dict[str, Array]:
        """Return one draw of theory at a size."""
        least = min(one.unit for one in _sizes(self.model, settings))
        exact = not has_room(settings.directions, self.alpha * least)
        return _drawn(self.model.at_size(d), self.alpha, settings, exact, self.first + draw)


CASES = (
    Setting("bsr", BSR, 0.5, GradientDescent(learning_rate=0.2)),
    Setting("bsr small", CLEAN, 0.3, GradientDescent(learning_rate=0.5, start="small:0.1", student_width=1.0)),
    Setting("bsr adam", BSR, 0.5, GradientDescent("adam", 0.05)),
    Setting("bsr decay", BSR, 0.5, GradientDescent(learning_rate=0.2, weight_decay=0.1, student_width=1.0)),
    Setting("bsr tanh", TANH, 0.8, GradientDescent("adam", 0.05)),
    Setting("bsr mean", CLEAN, 0.3, AveragedGradientDescent(learning_rate=0.2, initialisations=3)),
    Setting("aim linear", LINEAR, 0.1, GradientDescent("sgd", 0.1)),
    Setting("aim softmax", SOFTMAX, 0.3, GradientDescent("sgd", 1.2)),
    Setting("aim adam", SOFTMAX, 0.1, GradientDescent("adam", 0.05)),
    Setting("aim three", THREE, 0.1, GradientDescent("sgd", 0.8), 0.5),
    Setting("aim signs", SIGNS, 0.5, GradientDescent("adam", 0.05)),
    Setting("bsr long", LONG, 0.4, GradientDescent(learning_rate=0.1, momentum=0.6)),
    # The released runs of five tokens, at two of their ratios.
    Setting("five few", FIVE, 0.003494, GradientDescent("adam", 0.1), 0.5, 1000, (50, 100)),
    Setting("five many", FIVE, 0.01017, GradientDescent("adam", 0.1), 0.5, 1000, (50, 100)),
)
QUICK = (CASES[0], CASES[7])
NAMES = ("error", "training_error", "nuclear_norm")
# Numbers are kept with six digits; smaller errors are rounding.
ROUNDING = 1e-5
# Settings have draws of their own from these numbers on.
APART = 1000
# Draws of theory at the larger size, four times as many at the smaller one, and runs of each size.
THEORY_DRAWS, RUNS = 8, 12


# --- runs on stored data ----------------------------------------------------------------------------------------------

RUN_COLUMNS = (
    "setting",
    "kind",
    "d",
    "draw",
    "start_overlap",
    *(f"{name}_{place}" for name in NAMES for place in range(4)),
)


def check_runs(path: Path, words: list[str], quick: bool, compute: bool) -> None:
    """Compare theory with runs at several sizes."""
    inside = []
    for number, given in enumerate(QUICK if quick else CASES):
        setting = replace(given, first=APART * number, **({"runs": (8, 16), "size": 32} if quick else {}))
        if not words or any(word in setting.name for word in words):
            rows = _rows(path, setting, quick, compute)
            inside += [abs(score) <= 1 for score in _compared(setting, rows)] if rows else []
    print(f"all: {sum(inside)} of {len(inside)} inside the joint 95 % intervals")


def _rows(path: Path, setting: Setting, quick: bool, compute: bool) -> list[Row]:
    """Return the rows of a setting, after those that are missing are added to the file."""
    rows = [row for row in read_rows(path) if row["setting"] == setting.name]
    known = {(row["kind"], int(row["d"]), int(row["draw"])) for row in rows}
    settings, (draws, runs) = setting.at_size(), (2, 3) if quick else (THEORY_DRAWS, RUNS)
    small, large = setting.sizes()
    work = [("theory", small, draw) for draw in range(4 * draws)]
    work += [("theory", large, draw) for draw in range(draws)]
    work += [("runs", d, run) for d in setting.runs for run in range(runs)]
    for kind, d, draw in work if compute else []:
        if (kind, d, draw) not in known:
            found = setting.draw(settings, d, draw) if kind == "theory" else _one_run(setting, settings, d, draw)
            numbers = _shown(_averaged(setting.model, settings, found), NAMES, setting)
            key = {"setting": setting.name, "kind": kind, "d": d, "draw": draw}
            # Without the mean of matrices W W^T, whose power is the width ratio.
            start = float(found["overlap"][0]) - (float(setting.model.matrix_prior.second_moment) - 1)
            rows.append(append_row(path, RUN_COLUMNS, {**key, "start_overlap": start, **numbers}))
    return rows


def _shown(series: dict[str, Array], names: tuple[str, ...], setting: Setting) -> dict[str, float]:
    """Return numbers at the steps of a setting by the names of their columns."""
    return {f"{name}_{place}": series[name][step] for name in names for place, step in enumerate(setting.shown)}


def _columns(rows: list[Row], name: str) -> Array:
    """Return numbers at all steps, shape (rows, steps)."""
    return np.array([[float(row[f"{name}_{place}"]) for place in range(4)] for row in rows])


def _one_run(setting: Setting, settings: MatrixSettings, d: int, run: int) -> dict[str, Array]:
    """Return one run on stored data, whose teacher and start have the power of the limit."""
    size, rng = setting.model.at_size(d), np.random.default_rng([17, d, setting.first + run])
    teacher = teacher_of(size, rng)
    # The mean of the number of samples is that of the ratio.
    count = int(setting.alpha * size.unit + (run + 0.5) / RUNS)
    design = size.design.sample(count, size.input_shape, rng, "float32")
    samples = Samples(design, size.model.channel.sample(design.forward(teacher, 0), rng), count)
    return descended(size, samples, teacher, settings, rng)


def _compared(setting: Setting, rows: list[Row]) -> Iterator[float]:
    """Print theory beside runs, and yield their differences in units of the joint 95 % error."""
    theory, runs = ([row for row in rows if row["kind"] == kind] for kind in ("theory", "runs"))
    runs = [row for row in runs if int(row["d"]) in setting.runs]
    d, start = (np.array([float(row[name]) for row in runs]) for name in ("d", "start_overlap"))
    small = min(int(row["d"]) for row in theory)
    for name in NAMES:
        parts = [
            _columns([row for row in theory if (int(row["d"]) == small) == first], name) for first in (True, False)
        ]
        limit, measured, texts = extrapolate(*parts), _columns(runs, name), list[str]()
        # Some quantities are constant, such as the trace of hard attention.
        if np.all(limit.error < ROUNDING):
            continue
        for place, step in enumerate(setting.shown):
            means, line, _ = fit(d, measured[:, place], start[:, None], setting.power)
            text = f"{step}: {limit.value[place]:.4f}({limit.error[place]:.4f})"
            text += "".join(f" {value:.4f}({error:.4f})" for value, error in means.values())
            if line is not None:
                bar = confidence_factor(len(d) - 2) * line[1]
                score = float((line[0] - limit.value[place]) / np.hypot(limit.error[place], bar))
                text += f" -> {line[0]:.4f}({bar:.4f}) {score:+.1f}"
                yield score
            texts.append(text)
        print(f"{setting.name:12s} {name:15s} {', '.join(texts)}", flush=True)


# --- coverage of error bars -------------------------------------------------------------------------------------------

# Order parameters of a draw, from which all estimates follow.
ORDERS = (
    *("power", "overlap", "replica_overlap", "training_error", "nuclear_norm", "largest_singular_value"),
    *(f"singular_value_{number}" for number in range(3)),
)
BAR_COLUMNS = ("setting", "d", "draw", *(f"{name}_{place}" for name in ORDERS for place in range(4)))
# Groups of few draws for each setting, and their draws at the larger size.
GROUPS, DRAWS = 4, 4
KINDS = ("bsr-linear", "bsr-tanh", "aim-linear", "aim-softmax-2", "aim-softmax-3", "aim-hardmax-2")
# Rates below the edge of stability at small sizes.
RATES = dict(zip(KINDS, (0.1, 0.2, 0.05, 0.6, 0.6, 0.1), strict=True))


def random_setting(number: int) -> Setting:
    """Return a random setting.

    Two of three have many steps and small sizes. The third has the usual size, and as many steps as there is room for
    directions among infinitely many samples.
    """
    rng, kind = np.random.default_rng([59, number]), KINDS[number % 6]
    alpha = float(rng.uniform(0.2, 0.8) if kind.startswith("bsr") else rng.uniform(0.1, 0.4))
    steps, size = int(8 * rng.integers(5, 20)), 40
    learner, name = _random_learner(rng, kind, (number + number // 6) % 5)
    model = _random_model(rng, kind)
    if number % 3 == number // 6 % 3:
        alpha, size = float(rng.uniform(0.4, 1.0)), 120
        room = ROOM * alpha * model.at_size(size // 4).unit
        steps = 8 * max(1, int(room / (2 if name == "mean" else 1) - 2) // 8)
    first = APART * (number // (2 * len(KINDS)))
    label = f"{kind} {name} size-{size}"
    return Setting(f"random {number}", model, alpha, learner, steps=steps, size=size, first=first, label=label)


def _random_model(rng: np.random.Generator, kind: str) -> Any:
    name, channel, *tokens = kind.split("-")
    rho, noise = float(rng.choice([0.2, 0.3, 0.5, 0.8])), float(rng.choice([0.0, 0.01, 0.1]))
    if name == "bsr":
        beta, link = float(rng.choice([0.5, 1.0, 2.0])), {"link": jnp.tanh} if channel == "tanh" else {}
        return BilinearSequenceRegression(beta=beta, rho=rho, noise=noise, **link)
    count = int(tokens[0]) if tokens else 2
    return AttentionIndexed(rho=rho, tokens=count, channel=channel, noise=noise if channel == "linear" else 0.0)


def _random_learner(rng: np.random.Generator, kind: str, which: int) -> tuple[Any, str]:
    """Return one of five kinds of descents, and its name; hard labels need Adam."""
    rate = float(RATES[kind] * rng.uniform(0.5, 1.0))
    if which == 4:
        return AveragedGradientDescent("sgd", rate, initialisations=int(rng.integers(2, 9))), "mean"
    if which == 1 or kind.startswith("aim-hardmax"):
        return GradientDescent("adam", float(rng.uniform(0.02, 0.1))), "adam"
    if which == 2:
        return GradientDescent("sgd", rate / 2, momentum=float(rng.uniform(0.3, 0.8))), "momentum"
    if which == 3:
        decay = float(rng.uniform(0.01, 0.2))
        return GradientDescent("sgd", rate, weight_decay=decay, student_width=1.0), "decay"
    return GradientDescent("sgd", rate), "sgd"


def check_coverage(path: Path, count: int, quick: bool, compute: bool) -> None:
    """Count how often the error bars of few draws cover theory of four times the size and the draws."""
    found, groups = list[tuple[list[str], Array]](), 1 if quick else GROUPS
    for number in range(count):
        setting = random_setting(number)
        setting = replace(setting, size=16, steps=8) if quick else setting
        rows = _bar_rows(path, setting, groups, compute)
        if rows is not None:
            found += [([*setting.label.split(), name], score) for name, score in _scores(setting, rows, groups)]
    for word in dict.fromkeys(word for words, _ in found for word in ("all", *words)):
        scores = np.array([score for words, score in found if word in ("all", *words)])
        shares = [
            f"{np.sum(part <= bars)} of {np.sum(np.isfinite(part))} within {bars}"
            for part in (scores, scores[:, -1])
            for bars in (1, 2)
        ]
        print(f"{word:18s} {', '.join(shares[:2])}; last step {', '.join(shares[2:])}; largest {np.nanmax(scores):.2f}")


def _bar_work(setting: Setting, groups: int) -> tuple[list[tuple[int, int, int]], ...]:
    """Return draws of the groups and of many, at the smaller and the larger size: size of the pair, own size, number.

    Draws of the groups are not among the many.
    """
    (small, large), four = setting.sizes(), 4 * setting.size
    few = [[(setting.size, small, draw) for draw in range(4 * DRAWS * groups)]]
    few += [[(setting.size, large, draw) for draw in range(DRAWS * groups)]]
    middle, largest = setting.sizes(four)
    first = DRAWS * groups if middle == large else 0
    many = [[(four, middle, draw) for draw in range(first, first + 16 * DRAWS)]]
    return (*few, *many, [(four, largest, draw) for draw in range(4 * DRAWS)])


def _bar_rows(path: Path, setting: Setting, groups: int, compute: bool) -> dict[tuple[int, int], Row] | None:
    """Return the rows of a setting by size and number after the missing ones are added; None if some are missing."""
    rows = {(int(row["d"]), int(row["draw"])): row for row in read_rows(path) if row["setting"] == setting.name}
    missing = [one for part in _bar_work(setting, groups) for one in part if one[1:] not in rows]
    if missing and not compute:
        return None
    for pair, d, draw in missing:
        series = setting.draw(setting.at_size(pair), d, draw)
        series |= {f"singular_value_{number}": series["singular_values"][:, number] for number in range(3)}
        key = {"setting": setting.name, "d": d, "draw": draw}
        rows[d, draw] = append_row(path, BAR_COLUMNS, {**key, **_shown(series, ORDERS, setting)})
    if missing:
        print(f"{setting.name}: {setting.label}, {len(missing)} draws", flush=True)
    return rows


def _bar_estimates(setting: Setting, parts: list[list[Row]]) -> dict[str, Estimate]:
    """Return estimates from the rows of draws at two sizes."""
    series = []
    for rows in parts:
        one = {name: _columns(rows, name) for name in ORDERS}
        one["teacher_power"] = np.full_like(one["power"], setting.model.matrix_prior.second_moment)
        one["singular_values"] = np.stack([one[name] for name in ORDERS[-3:]], axis=-1)
        series.append(one)
    return _estimates(setting.model, setting.at_size(), tuple(series))


def _scores(setting: Setting, rows: dict[tuple[int, int], Row], groups: int) -> Iterator[tuple[str, Array]]:
    """Yield distances of few draws from many in units of the error bars of few, at all steps, with their quantity."""
    small, large, *many = [[rows[one[1:]] for one in part] for part in _bar_work(setting, groups)]
    known = _bar_estimates(setting, many)
    # The error on linear labels is that of the signal.
    names = (*NAMES, "label_error", *([] if setting.model.channel.labels.linear else ["prediction_error"]))
    for group in range(groups):
        parts = [part[count * group : count * (group + 1)] for part, count in ((small, 4 * DRAWS), (large, DRAWS))]
        for name, found in _bar_estimates(setting, parts).items():
            if name in names and np.any(found.error > ROUNDING):
                yield name, np.abs(found.value - known[name].value) / found.error


# --- a small start, and released runs ---------------------------------------------------------------------------------


def check_small(quick: bool) -> None:
    """Compare a small start at full width with the minimum nuclear norm: theory, and runs on the same stored data."""
    alpha, rule = 0.3, Rule("sgd", 0.2, 0.0, 0.0, 10 if quick else 800)
    settings = MatrixSettings(rule, start=0.001, width=1.0)
    minimum = limits(CLEAN, [alpha], NuclearNorm(0.0))["error"][0]
    print(f"minimum nuclear norm, limit: {minimum:.4f}")
    for d, draws in ((8, 2),) if quick else ((20, 64), (40, 24), (80, 8)):
        drawn = [_drawn(CLEAN.at_size(d), alpha, settings, True, draw) for draw in range(draws)]
        print(
            f"theory at d = {d}: {_mean([_averaged(CLEAN, settings, one)['error'][-1] for one in drawn])}", flush=True
        )
    for d, runs in ((8, 2),) if quick else ((20, 32), (40, 16)):
        pairs = np.array([_small_run(d, alpha, rule, run) for run in range(runs)])
        texts = (_mean(pairs[:, 0]), _mean(pairs[:, 1]), _mean(pairs[:, 0] - pairs[:, 1]))
        print("runs at d = {}: {}, minimum on the same data {}, difference {}".format(d, *texts), flush=True)


def _small_run(d: int, alpha: float, rule: Rule, run: int) -> tuple[float, float]:
    """Return the errors of descent from a small start and of the minimum nuclear norm on stored data."""
    size, rng = CLEAN.at_size(d), np.random.default_rng([7, run])
    teacher = size.model.prior.sample((d, d), rng)
    design = size.design.sample(round(alpha * size.unit), (d, d), rng)
    data = DataSet(design, design.forward(teacher, 0), run, teacher=teacher)
    samples = Samples(design, data.labels, design.samples)
    student = student_of(size.model, samples, d)
    start = [0.001 * rng.standard_normal((1, *shape)) for shape in student.parameters]
    errors = list[float]()
    descend_matrix(samples, student, start, rule, lambda _, s, e: errors.append(float(np.mean((s[0] - teacher) ** 2))))
    minimum = NuclearNorm(0.0).learn(size.model, data).estimates
    return errors[-1], float(np.mean((minimum.reshape(d, d) - teacher) ** 2))


def _mean(values: Any) -> str:
    """Return a mean with its standard error."""
    return f"{np.mean(values):.4f} +- {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}"


def check_published(folder: Path, words: list[str], count: int, quick: bool) -> None:
    """Print theory beside released runs, at so many sample ratios of each file."""
    attention = [
        (f"attention_indexed/gd_softmax_T{tokens}_*.csv", AttentionIndexed(rho=0.5, tokens=tokens, channel="softmax"))
        for tokens in (2, 3, 5)
    ]
    adam = GradientDescent("adam", 0.1)
    cases = [("bsr/gd_*.csv", CLEAN, GradientDescent(), 600), *((*one, adam, 1000) for one in attention)]
    size, draws, count = (16, 2, 1) if quick else (64, 4, count)
    accuracy = Accuracy(matrix_size=size, draws=draws)
    for file, model, learner, steps in cases:
        for path in sorted(folder.glob(file)):
            if words and not any(word in path.name for word in words):
                continue
            with path.open() as lines:
                rows = [[float(cell) for cell in row] for row in list(csv.reader(lines))[1:]]
            # The smaller size needs a sample.
            rows = [row for row in rows if row[0] * (size / 4) ** 2 >= 1]
            for place in np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int)):
                alpha, mean, spread = rows[place]
                found = trajectory(model, [alpha], learner, steps=2 if quick else steps, accuracy=accuracy, throw=False)
                text = f"{found['error'][-1]:.4f} +- {found['error_estimate'][-1]:.4f}, {found['status'][-1]}"
                print(f"{path.name}: alpha {alpha:.3g}: {mean:.4f} ({spread:.4f}) published, {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="runs", choices=("runs", "coverage", "small", "published"))
    parser.add_argument("--quick", action="store_true", help="small sizes and few steps")
    parser.add_argument("--table", action="store_true", help="compute no draws")
    parser.add_argument("--reference", type=Path, default=Path("reference"), help="folder of released data")
    parser.add_argument("--settings", type=int, default=36, help="random settings of the error bars that are counted")
    parser.add_argument("--ratios", type=int, default=100, help="sample ratios of every file of released data")
    parser.add_argument("words", nargs="*")
    given = parser.parse_intermixed_args()
    quick, compute = given.quick, not given.table
    if given.what == "runs":
        check_runs(OUT / KEPT.name if quick else KEPT, given.words, quick, compute)
    elif given.what == "coverage":
        name = "matrix_descent_bars_quick.csv" if quick else "matrix_descent_bars.csv"
        check_coverage(OUT / name, 2 if quick else given.settings, quick, compute)
    elif given.what == "small":
        check_small(quick)
    else:
        check_published(given.reference, given.words, given.ratios, quick)


if __name__ == "__main__":
    main()
