"""Figure universality-1: errors on tokens that are not Gaussian, beside the theory of Gaussian tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.core.status import Status
from glassformer.learners.base import Learner
from glassformer.learners.gamp import MessagePassing
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models import AttentionIndexed, BilinearSequenceRegression
from glassformer.models.smi import SequenceMultiIndex
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.papers.curves import plain_label
from glassformer.papers.drawing import RUN_MARKS, Axis, Series
from glassformer.papers.links import attention
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.papers.text.questions import PADDING, QuestionData, read_questions
from glassformer.verbs.instances import first_failure, standard_error
from glassformer.verbs.limits import limits
from glassformer.verbs.simulate import experiment_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glassformer.models.base import Model

# Student's law with three degrees of freedom has a variance and no fourth moment.
_DEGREES = 3
# Share of the error on Gaussian tokens by which another law must differ to be said to fail (a convention).
_DIFFERENT = 0.1
# Iterations on tokens where learners do not settle, which would cost most of the time.
# Error of a run, and the power of its teacher.
_OF_RUNS = ("error", "prior_error")
_PASSING = MessagePassing().at_accuracy(Accuracy(max_iterations=200))
_COLORS, _MARKERS = ("#2b5c8a", "#b3402a"), ("o", "s")
_WORDS = (
    "Theory is that of Gaussian tokens. Every law of tokens has mean zero and unit variance, and runs on all of them "
    "have the same teachers and noise. Errors on Gaussian tokens show what the size costs; a law fails where its "
    "errors are further from theory and differ from those by more than the 95 % interval of the paired difference and "
    f"by more than {_DIFFERENT:.0%}."
)
# Height of the legend over that of the marks.
_LEGEND = 0.7
# Dimension at which the vectors of words are described.
_DESCRIBED = 40
_Draw = Callable[[np.random.Generator, tuple[int, int, int]], Array]


class _Family(NamedTuple):
    """A model, sample ratios, the dimension of the runs, and a minimiser beside message passing, with its name."""

    title: str
    model: Model
    ratios: tuple[float, ...]
    d: int
    name: str
    minimiser: RegularisedRisk


def three_families(quick: bool, data: Path | None = None, checkpoints: Path | None = None) -> Recipe:
    """Message passing and a minimiser of each family, on several laws of tokens; with data, on embedded questions."""
    del checkpoints
    scale, instances = (1, 4) if quick else (2, 10)
    families = (
        _Family(
            r"bilinear regression, $\beta = 1/4$, $\rho = 0.3$",
            BilinearSequenceRegression(beta=0.25, rho=0.3, noise=0.1),
            (0.4, 0.8),
            # Questions are as long as sequences.
            _DESCRIBED,
            "nuclear norm",
            RegularisedRisk(strength=0.1),
        ),
        _Family(
            r"linear attention, $T = 2$, $\rho = 0.3$",
            AttentionIndexed(rho=0.3, tokens=2, channel="linear", noise=0.1),
            (0.1, 0.3),
            40,
            "trace",
            RegularisedRisk(penalty="trace", strength=0.05).at_accuracy(Accuracy(max_iterations=2000)),
        ),
        _Family(
            "attention of one direction, $L = 2$",
            SequenceMultiIndex(attention, tokens=2, noise=0.05).at_accuracy(Accuracy(points=256)),
            (2.0, 5.0),
            150 * scale,
            "square loss and decay",
            RegularisedRisk(strength=0.05, branch="informed"),
        ),
    )
    laws: dict[str, _Draw] = {
        "Gaussian": lambda rng, shape: rng.standard_normal(shape),
        "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
        f"Student ({_DEGREES})": lambda rng, shape: (
            rng.standard_t(_DEGREES, shape) / np.sqrt(_DEGREES / (_DEGREES - 2))
        ),
    }
    words = None if data is None else _Words(read_questions(data))
    if words is not None:
        laws["questions"] = words
    panels = [partial(_panel, family=family, laws=laws, instances=instances) for family in families]
    return Recipe(
        [lambda _: Part([], [], [_WORDS] if words is None else [_WORDS, words.described(_DESCRIBED)]), *panels],
        names=["panel", "source", "curve"],
        size=(4.8, 4.4),
    )


# --- tokens -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tokens:
    """A kind of design whose inputs have another law than the normal one."""

    kind: Any
    draw: _Draw

    def __call__(self, inputs: Array) -> Any:
        return self.kind(inputs)

    def sample(self, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64") -> Any:
        """Return one instance of random inputs."""
        del storage
        return self.kind(self.draw(rng, (samples, *shape)))

    def new_fields(self, signals: Array, shape: tuple[int, int], samples: int, rng: np.random.Generator) -> Array:
        """Return fields of new samples, of normal tokens: no error on labels is drawn."""
        found: Array = self.kind.new_fields(signals, shape, samples, rng)
        return found


class _Words:
    """Neighbouring words of questions, as vectors: singular vectors of the counts of words in questions.

    Vectors are centred and whitened by their own covariance over all words of all questions.
    """

    def __init__(self, data: QuestionData) -> None:
        self.tokens = data.training.tokens
        self.lengths = np.sum(self.tokens != PADDING, axis=1)
        self.questions, places = np.nonzero(self.tokens != PADDING)
        self.words = self.tokens[self.questions, places]
        self.embeddings: dict[int, Array] = {}

    def __call__(self, rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
        samples, length, d = shape
        long = np.flatnonzero(self.lengths >= length)
        # Questions are seen again where there are too few.
        chosen = rng.choice(long, samples, replace=samples > len(long))
        begin = rng.integers(0, self.lengths[chosen] - length + 1)
        places = begin[:, None] + np.arange(length)
        return self._embedding(d)[self.tokens[chosen[:, None], places]]

    def _embedding(self, d: int) -> Array:
        """A vector for every word, shape (vocabulary, d)."""
        if d not in self.embeddings:
            counts = csr_array((np.ones(len(self.words)), (self.words, self.questions)))
            left, values, _ = svds(counts, k=d, v0=np.ones(min(counts.shape)))
            vectors = left * values
            seen = vectors[self.words]
            spread, directions = np.linalg.eigh(np.cov(seen.T))
            self.embeddings[d] = np.asarray((vectors - seen.mean(axis=0)) @ directions / np.sqrt(spread))
        return self.embeddings[d]

    def described(self, d: int) -> str:
        """Say how far the vectors of a dimension are from Gaussian ones."""
        norms = np.mean(self._embedding(d)[self.words] ** 2, axis=1)
        few = np.sort(np.bincount(self.words))[-10:].sum() / len(self.words)
        low, high = np.quantile(norms, [0.01, 0.99])
        return (
            f"questions: {len(self.words)} words, of which the ten most frequent ones are {few:.0%}; squared norms "
            f"over d = {d} of the whitened vectors have the 1 % and 99 % quantiles {low:.2g} and {high:.2g} "
            "(Gaussian: 1)"
        )


# --- runs -------------------------------------------------------------------------------------------------------------


def _panel(_: Context, family: _Family, laws: Mapping[str, _Draw], instances: int) -> Part:
    """Errors of both learners over their theory, for every law of tokens and sample ratio."""
    learners: dict[str, Learner] = {"message passing": _PASSING, family.name: family.minimiser}
    series, rows, verdicts, unsettled = [], [], [], []
    bars = [np.ones(1)]
    lines = [f"{plain_label(family.title)}, {instances} runs at d = {family.d}: error over theory, standard error"]
    for which, (name, learner) in enumerate(learners.items()):
        table = limits(family.model, family.ratios, learner, throw=False)
        theory = table["error"]
        found = {law: _relative_errors(family, learner, draw, instances) for law, draw in laws.items()}
        control = found["Gaussian"][0]
        for k, alpha in enumerate(family.ratios):
            values = np.array([errors[k] / theory[k] for errors, _ in found.values()])
            mean, bar = values.mean(axis=1), standard_error(values)
            bars += [mean - bar, mean + bar]
            # The four groups of marks of a law stand beside each other.
            place = np.arange(len(laws)) + 0.16 * (2 * which + k - 1.5)
            look = {**RUN_MARKS, **({"mfc": "w"} if k else {}), "lw": 1}
            status = [statuses[k] for _, statuses in found.values()]
            label = rf"{name}, $\alpha = {alpha:g}$"
            series.append(Series(place, mean, _COLORS[which], _MARKERS[which], label, bar, look, status))
            cells = [f"{law} {value:.2f} +- {error:.2f}" for law, value, error in zip(laws, mean, bar, strict=True)]
            ended = "" if table.status[k].ok else f", {table.status[k]}"
            lines.append(f"  {name}, alpha = {alpha:g} (theory {theory[k]:.4f}{ended}): {', '.join(cells)}")
            for law, (errors, statuses) in found.items():
                gap = errors[k] - control[k]
                interval = confidence_factor(instances) * float(standard_error(gap[None])[0])
                further = abs(errors[k].mean() - theory[k]) > abs(control[k].mean() - theory[k])
                failed = further and abs(gap.mean()) > max(interval, _DIFFERENT * control[k].mean())
                case = f"{name} on {law} at alpha = {alpha:g}"
                verdicts += [case] if failed else []
                unsettled += [] if statuses[k].ok else [f"{case} ({statuses[k]})"]
                row = {"panel": family.title, "source": name, "curve": law, "alpha": alpha}
                rows.append({**row, "error": errors[k].mean(), "theory": theory[k], "status": str(statuses[k])})
                rows[-1] |= {"standard_error": float(standard_error(errors[k][None])[0]), "fails": bool(failed)}
    lines.append(f"  fails: {'; '.join(verdicts) or 'none'}")
    lines.append(f"  runs that did not converge: {'; '.join(unsettled) or 'none'}")
    ends = np.concatenate(bars)
    low, high = np.min(ends[ends > 0]), np.nanmax(ends)
    settings = {
        "ylabel": "error over the theory of Gaussian tokens",
        "yscale": "log",
        # The legend has its place above the marks.
        "ylim": (low / 1.05, high * (high / low) ** _LEGEND),
        "xticks": range(len(laws)),
        "xticklabels": list(laws),
        "xlim": (-0.5, len(laws) - 0.5),
        "title": f"{family.title}\nmean of {instances} runs at $d = {family.d}$",
    }
    series.append(Series([-0.5, len(laws) - 0.5], [1, 1], "0.5", "--", "theory", look={"lw": 1}))
    legend = {"loc": "upper left", "fontsize": 8}
    return Part([Axis(series, 1, settings, legend=legend, annotate=_plain_ticks)], [pandas.DataFrame(rows)], lines)


def _plain_ticks(axes: Axes) -> None:
    """Numbers instead of powers on a logarithmic axis of one or two decades."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator

    axes.yaxis.set_minor_locator(LogLocator(subs=(1.2, 1.5, 2, 3, 5)))
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(FormatStrFormatter("%g"))


def _relative_errors(family: _Family, learner: Learner, draw: _Draw, instances: int) -> tuple[Array, Sequence[Status]]:
    """Errors over the power of the teacher, shape (ratios, instances), and the status of each ratio."""
    experiment = experiment_of(family.model, family.ratios, family.d, instances, 0, learner)
    design: Any = _Tokens(experiment.size.design, draw)
    runs = replace(experiment, size=replace(experiment.size, design=design)).runs()
    errors, powers = (np.array([[getattr(run, name) for run in point] for point in runs]) for name in _OF_RUNS)
    return errors / powers, [first_failure(run.status for run in point) for point in runs]
