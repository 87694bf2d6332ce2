"""The figures by name, and how one is computed, drawn and written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.core.errors import ParameterError
from glassformer.core.files import make_folder, replace_file, require_writable_file
from glassformer.core.registry import import_string
from glassformer.papers.citations import arxiv, eprint

if TYPE_CHECKING:
    import pandas

    from glassformer.papers.recipe import Recipe

# Columns of a figure's data that say which curve or run a row belongs to, and where on it.
_PLACES = (
    *("panel", "source", "kind", "algorithm", "curve", "quantity", "output", "layer"),
    *("rho", "noise", "skip", "skip_1", "skip_2", "alpha", "iteration"),
)


@dataclass(frozen=True)
class Figure:
    """A figure of the catalogue.

    Attributes:
        title: what it shows.
        recipe: the function that returns its recipe, as ``"module:function"`` of this package; it takes ``quick``.
        takes_data: whether the recipe takes the folder of a data set and a folder of checkpoints as well.
        needs_data: whether it cannot be drawn without the data set.
        own: whether it is not in the papers, but follows from them.
        family: model whose paper that is, if the name does not begin with it.
        paper: key of the paper, if it is not the first one of a model or a learner.
        number: of the figure in the paper, if the name does not have it.
    """

    title: str
    recipe: str
    takes_data: bool = False
    needs_data: bool = False
    own: bool = False
    family: str = ""
    paper: str = ""
    number: str = ""

    @property
    def compute(self) -> Callable[..., Recipe]:
        """The recipe, imported when it is needed."""
        found: Callable[..., Recipe] = import_string("papers", self.recipe)
        return found


FIGURES = {
    "bsr-1": Figure("BSR: Bayes-optimal error and GAMP, beta = 1, no noise", "bsr:square"),
    "bsr-1-noisy": Figure("BSR: the same with noise 0.1", "bsr:square_noisy", own=True),
    "bsr-2": Figure("BSR: Bayes-optimal error and GAMP, beta = 5, noise 0.1", "bsr:long_noisy"),
    "bsr-3": Figure("BSR: perfect-recovery thresholds, Bayes-optimal and nuclear norm", "bsr:recovery_thresholds"),
    "bsr-4": Figure("BSR: free-entropy landscape", "bsr:landscapes"),
    "bsr-4-noisy": Figure("BSR: free-entropy landscape with noise 0.01", "bsr:landscapes_noisy", own=True),
    "bsr-5": Figure("BSR: minimal nuclear norm on data against the optimum", "bsr:nuclear_norm"),
    "bsr-5-noisy": Figure("BSR: nuclear norm as a regulariser, noise 0.1", "bsr:nuclear_norm_noisy", own=True),
    "bsr-6": Figure("BSR: gradient descent, its average, and message passing", "bsr:gradient_descent"),
    "bsr-7": Figure("BSR: gradient descent from a small start, and nuclear norm", "bsr:small_start"),
    "bsr-7-noisy": Figure("BSR: a small start with noise 0.1", "bsr:small_start_noisy", own=True),
    "bsr-8": Figure("BSR: approach to the limit of small width", "bsr:small_width", own=True),
    "bsr-time": Figure("BSR: message passing step by step, and state evolution", "bsr:in_time", own=True),
    "aim-1": Figure("AIM: hardmax attention of two tokens, with AMP, and its limit of small width", "aim:hardmax"),
    "aim-2": Figure("AIM: softmax attention for several widths, and its collapse over tokens", "aim:softmax"),
    "aim-3": Figure("AIM: linear attention with counting thresholds", "aim:linear"),
    "aim-4": Figure("AIM: softmax attention of four and five tokens", "aim:many_tokens"),
    "aim-5": Figure("AIM: softmax attention in the limit of small width", "aim:small_width"),
    "aim-time": Figure("AIM: message passing step by step, and state evolution", "aim:in_time", own=True),
    "risk-1": Figure("Regularised risk: bilinear labels, and what is learned", "risk:bilinear", own=True),
    "risk-2": Figure("Regularised risk: weight decay on a quadratic network", "risk:network", own=True),
    "risk-3": Figure("Regularised risk: labels +1 and -1, three losses", "risk:signs", own=True),
    "risk-4": Figure("Regularised risk: a power-law teacher, scaling with samples", "risk:scaling", own=True),
    "risk-5": Figure(
        "Regularised risk: errors over the width of the student, and perfect recovery",
        "student_width:power_law_teacher",
        own=True,
    ),
    "rows-1": Figure(
        "Rows of weights: double descent of ridge and of logistic regression",
        "row_risk:double_descent",
        own=True,
        paper="salehi2019impact",
    ),
    "rows-2": Figure(
        "Rows of weights: labels +1 and -1, three losses beside the optimum",
        "row_risk:signs",
        own=True,
        paper="aubin2020generalization",
    ),
    "rows-3": Figure(
        "Rows of weights: LASSO and ridge for sparse weights beside the optimum",
        "row_risk:sparse",
        own=True,
        paper="thrampoulidis2018precise",
    ),
    "rows-4": Figure(
        "Rows of weights: multinomial regression of three classes beside the optimum",
        "row_risk:three_classes",
        own=True,
        paper="cornacchia2023learning",
    ),
    "rows-5": Figure(
        "Rows of weights: positional and semantic minima of attention, and where they cross",
        "positional:positional_semantic",
        own=True,
        paper="cui2024phase",
    ),
    "rows-6": Figure(
        "Rows of weights: phase diagram of positional and semantic attention, beside the optimum",
        "positional:phase_diagram",
        own=True,
        paper="cui2024phase",
    ),
    "smi-1": Figure("Deep attention: overlaps, errors and phase diagram of two layers", "smi:two_layers"),
    "smi-2-left": Figure("Deep attention: two layers in time, by message passing", "smi:message_passing_in_time"),
    "smi-2-right": Figure("Deep attention: two layers in time, by stochastic gradients", "smi:sgd_in_time"),
    "smi-3-left": Figure("Deep attention: overlaps of three layers", "smi:three_layers"),
    "smi-clamped": Figure("Deep attention: one layer fixed, where the other goes", "smi:clamped_layer", number="5"),
    "smi-depth-4": Figure("Deep attention: overlaps of four layers", "smi:four_layers", own=True),
    "smi-4": Figure("Deep attention: what sets the order of layers", "layer_order:order_of_layers", own=True),
    "sgd-1": Figure(
        "Deep attention: online gradient descent, equations and runs, both outputs",
        "online_sgd:both_outputs",
        own=True,
        family="smi",
    ),
    "descent-1": Figure(
        "Descent on the same samples: what can be learned, what minimises the risk, what steps reach",
        "descent:triptych",
        own=True,
        paper="celentano2021high",
    ),
    "descent-2": Figure(
        "Descent on the same samples: layers of deep attention found one after another",
        "descent:layers",
        own=True,
        paper="gerbelot2022rigorous",
    ),
    "descent-3": Figure(
        "Descent on the same samples: what early stopping costs against the best weight decay",
        "descent:early_stopping",
        own=True,
        paper="celentano2021high",
    ),
    "descent-4": Figure(
        "Descent on the same samples: batches and momentum at equal work",
        "descent:equal_work",
        own=True,
        paper="mignacco2020dynamical",
    ),
    "descent-5": Figure(
        "Descent on the same samples: a minimum that random starts do not find",
        "descent:starts",
        own=True,
        paper="gerbelot2022rigorous",
    ),
    "descent-6": Figure(
        "Descent on the same samples: factors of a matrix, errors and singular values",
        "descent:matrices",
        own=True,
        paper="gerbelot2022rigorous",
    ),
    "icl-1": Figure(
        "In context: double descent in the number of sequences, three lengths of the context",
        "in_context:double_descent",
        own=True,
    ),
    "icl-2": Figure("In context: memory of the training tasks, or learning of new ones", "in_context:memory", own=True),
    "icl-3": Figure("In context: layers as steps, and training in time", "in_context:steps", own=True),
    "smi-3-right": Figure(
        "Attention layers trained on questions (needs a data set)",
        "text.figure:layers_of_text",
        takes_data=True,
        needs_data=True,
    ),
    "universality-1": Figure(
        "Tokens that are not Gaussian: three families on signs, heavy tails and, with a data set, embedded questions",
        "universality:three_families",
        takes_data=True,
        own=True,
        family="bsr",
    ),
}


def source(name: str) -> str:
    """The published figure that a figure of the catalogue stands for.

    Example:
        >>> source("smi-2-left")
        'arXiv:2502.00901, figure 2 (left)'
    """
    family, number, *part = name.split("-")
    figure = FIGURES[name]
    paper = f"arXiv:{eprint(figure.paper) if figure.paper else arxiv(figure.family or family)}"
    if figure.own:
        return f"after {paper}"
    return f"{paper}, figure {figure.number or number}" + "".join(f" ({p})" for p in part)


def draw_all(out: Path, quick: bool = False, reference: Path | None = None, data: Path | None = None) -> bool:
    """Draw every figure; those that need a data set only where it is given. Arguments as those of :func:`draw`."""
    converged = []
    for name, figure in FIGURES.items():
        if figure.needs_data and data is None:
            print(f"{name}: left out, it needs a data set: give the path of its folder as data\n")
            continue
        converged.append(draw(name, out, quick, *((None, data) if figure.takes_data else (reference, None))))
        print()
    return all(converged)


def draw(name: str, out: Path, quick: bool = False, reference: Path | None = None, data: Path | None = None) -> bool:
    """Compute a figure and leave ``NAME.png``, ``NAME.csv`` and ``NAME.txt`` in ``out``; print the summary.

    Args:
        name: a key of ``FIGURES``.
        out: folder, made if needed.
        quick: fewer points, instances and smaller sizes.
        reference: folder of published data to compare with.
        data: folder of the data set, for the figures that are computed from one.

    Returns:
        Whether everything converged.

    Raises:
        ParameterError: an unknown name, a reference folder that does not exist, or a folder that the figure does not
            take.
        DataError: a data set that is missing or cannot be read, or a folder that cannot be written to.
    """
    if name not in FIGURES:
        raise ParameterError("name", name, f"one of {', '.join(FIGURES)}")
    figure = FIGURES[name]
    kind, unused = ("reference", reference) if figure.takes_data else ("data", data)
    if unused is not None:
        raise ParameterError(kind, str(unused), f"nothing for {name}", "leave it out")
    png, csv, txt = files = [out / f"{name}.{ending}" for ending in ("png", "csv", "txt")]
    make_folder(out, "out", parents=True)
    for file in files:
        require_writable_file("out", file)
    from glassformer.papers.drawing import draw_figure
    from glassformer.papers.recipe import compute

    recipe = figure.compute(quick, data, out / f"{name}.runs") if figure.takes_data else figure.compute(quick)
    content = compute(recipe, quick, reference)
    draw_figure(png, content)
    with replace_file(csv, "out") as part:
        content.data.to_csv(part, index=False)
    text = f"{name}: {figure.title}\n\n{content.summary}\n\nwritten to {out}: {', '.join(file.name for file in files)}"
    with replace_file(txt, "out") as part:
        part.write_text(text + "\n")
    print(text)
    if content.unconverged.empty:
        return True
    print(f"glassformer: {name}: the figure is complete; {not_settled(content.unconverged)}", file=sys.stderr)
    return False


def not_settled(rows: pandas.DataFrame) -> str:
    """Name the first row that did not converge, with its status, and count the others.

    Example:
        >>> import pandas
        >>> statuses = ["iteration_limit", "iteration_limit"]
        >>> not_settled(pandas.DataFrame({"source": "gamp", "alpha": [0.2, 0.3], "error": 0.5, "status": statuses}))
        'did not converge: source = gamp, alpha = 0.2 (iteration_limit), and 1 more in the CSV file'
    """
    first = rows.iloc[0]
    named = {name: first[name] for name in _PLACES if name in rows and not rows[name].isna().iloc[0]}
    place = ", ".join(f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in named.items())
    others = f", and {len(rows) - 1} more in the CSV file" if len(rows) > 1 else ""
    return f"did not converge: {place} ({first['status']}){others}"
