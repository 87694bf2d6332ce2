"""The figures by name, and how one is produced."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.core.errors import ParameterError
from glassformer.core.files import replace_file, require_writable_file
from glassformer.core.solution import Status
from glassformer.papers.citations import arxiv

if TYPE_CHECKING:
    import pandas

# Columns of a figure's data that say which curve or run a row belongs to, and where on it.
_PLACES = (
    *("panel", "source", "kind", "algorithm", "curve", "quantity", "output", "layer"),
    *("rho", "noise", "skip", "skip_1", "skip_2", "alpha", "iteration"),
)

Produce = Callable[[Path, bool, Path | None], "tuple[pandas.DataFrame, str, bool]"]
"""``produce(path, quick, folder)`` draws to a file and returns the data, a summary and whether all converged.

Data of which something may not converge have a column ``status``.
"""


@dataclass(frozen=True)
class Figure:
    """A figure: its title, and where the function that produces it is, as ``"module.function"`` of this package.

    The folder that the function takes is that of published numbers to compare with or, for a figure ``of_data``, of
    the data. One that is ``own`` is not in the papers, it follows from them; where its name does not begin with that of
    their ``family``, that is given.
    """

    title: str
    home: str
    of_data: bool = False
    own: bool = False
    family: str = ""

    @property
    def produce(self) -> Produce:
        """The function, imported when it is needed."""
        module, function = self.home.split(".")
        found: Produce = getattr(importlib.import_module(f"glassformer.papers.{module}"), function)
        return found


FIGURES = {
    "bsr-1": Figure("BSR: Bayes-optimal error and GAMP, beta = 1, no noise", "bsr_error.produce_noiseless"),
    "bsr-1-noisy": Figure("BSR: the same with noise 0.1", "bsr_error.produce_square_noisy", own=True),
    "bsr-2": Figure("BSR: Bayes-optimal error and GAMP, beta = 5, noise 0.1", "bsr_error.produce_noisy"),
    "bsr-3": Figure("BSR: perfect-recovery thresholds, Bayes-optimal and nuclear norm", "bsr_thresholds.produce"),
    "bsr-4": Figure("BSR: free-entropy landscape", "bsr_landscape.produce"),
    "bsr-4-noisy": Figure("BSR: free-entropy landscape with noise 0.01", "bsr_landscape.produce_noisy", own=True),
    "bsr-5": Figure("BSR: minimal nuclear norm on data against the optimum", "bsr_baselines.nuclear_norm"),
    "bsr-5-noisy": Figure(
        "BSR: nuclear norm as a regulariser, noise 0.1", "bsr_baselines.noisy_nuclear_norm", own=True
    ),
    "bsr-6": Figure("BSR: gradient descent, its average, and message passing", "bsr_baselines.gradient_descent"),
    "bsr-7": Figure("BSR: gradient descent from a small start, and nuclear norm", "bsr_baselines.small_start"),
    "bsr-7-noisy": Figure("BSR: a small start with noise 0.1", "bsr_baselines.noisy_small_start", own=True),
    "bsr-8": Figure("BSR: approach to the limit of small width", "bsr_low_width.produce", own=True),
    "bsr-time": Figure("BSR: message passing step by step, and state evolution", "in_time.bilinear", own=True),
    "aim-1": Figure(
        "AIM: hardmax attention of two tokens, with AMP, and its limit of small width", "aim_panels.hardmax"
    ),
    "aim-2": Figure("AIM: softmax attention for several widths, and its collapse over tokens", "aim_panels.softmax"),
    "aim-3": Figure("AIM: linear attention with counting thresholds", "aim_panels.linear"),
    "aim-4": Figure("AIM: softmax attention of four and five tokens", "aim_panels.many_tokens"),
    "aim-5": Figure("AIM: softmax attention in the limit of small width", "aim_panels.small_width"),
    "aim-time": Figure("AIM: message passing step by step, and state evolution", "in_time.attention", own=True),
    "risk-1": Figure("Regularised risk: bilinear labels, and what is learned", "risk_panels.bilinear", own=True),
    "risk-2": Figure("Regularised risk: weight decay on a quadratic network", "risk_panels.network", own=True),
    "risk-3": Figure("Regularised risk: labels +1 and -1, three losses", "risk_panels.signs", own=True),
    "risk-4": Figure("Regularised risk: a power-law teacher, scaling with samples", "risk_panels.scaling", own=True),
    "smi-1": Figure("Deep attention: overlaps, errors and phase diagram of two layers", "smi_panels.overlaps"),
    "smi-2-left": Figure("Deep attention: two layers in time, by message passing", "smi_panels.in_time"),
    "smi-2-right": Figure("Deep attention: two layers in time, by stochastic gradients", "smi_panels.in_passes"),
    "smi-3-left": Figure("Deep attention: overlaps of three layers", "smi_panels.three_layers"),
    "smi-clamped": Figure("Deep attention: one layer held, where the other goes", "smi_panels.clamped_layer", own=True),
    "smi-depth-4": Figure("Deep attention: overlaps of four layers", "smi_panels.four_layers", own=True),
    "smi-4": Figure("Deep attention: what sets the order of layers", "layer_order.produce", own=True),
    "sgd-1": Figure(
        "Deep attention: online gradient descent, equations and runs, both outputs",
        "online.produce",
        own=True,
        family="smi",
    ),
    "smi-3-right": Figure("Attention layers trained on questions (needs --data)", "text_layers.produce", of_data=True),
}


def source(name: str) -> str:
    """The published figure that a figure of the catalogue stands for.

    Example:
        >>> source("smi-2-left")
        'arXiv:2502.00901, figure 2 (left)'
    """
    family, number, *panel = name.split("-")
    if FIGURES[name].own:
        return f"after arXiv:{arxiv(FIGURES[name].family or family)}"
    return f"arXiv:{arxiv(family)}, figure {number}" + "".join(f" ({part})" for part in panel)


def draw_all(out: Path, quick: bool = False, reference: Path | None = None, data: Path | None = None) -> bool:
    """Draw every figure; those of a data set only where that is given. Arguments as those of :func:`draw`."""
    good = []
    for name, figure in FIGURES.items():
        if figure.of_data and data is None:
            print(f"{name}: left out, it needs a data set (--data DIR)\n")
            continue
        good.append(draw(name, out, quick, *((None, data) if figure.of_data else (reference, None))))
        print()
    return all(good)


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
    kind, unused = ("reference", reference) if figure.of_data else ("data", data)
    if unused is not None:
        raise ParameterError(kind, str(unused), f"nothing for {name}", "leave it out")
    for ending in ("png", "csv", "txt"):
        require_writable_file("out", out / f"{name}.{ending}", make=True)
    found, summary, converged = figure.produce(out / f"{name}.png", quick, data if figure.of_data else reference)
    with replace_file(out / f"{name}.csv", "out") as part:
        found.to_csv(part, index=False)
    files = ", ".join(f"{name}.{ending}" for ending in ("png", "csv", "txt"))
    text = f"{name}: {FIGURES[name].title}\n\n{summary}\n\nwritten to {out}: {files}"
    with replace_file(out / f"{name}.txt", "out") as part:
        part.write_text(text + "\n")
    print(text)
    if not converged:
        print(f"glassformer: {name}: the figure is complete; {unsettled_rows(found)}", file=sys.stderr)
    return converged


def unsettled_rows(found: pandas.DataFrame) -> str:
    """Name the first row of a figure's data that did not settle, with its status, and count the others.

    Example:
        >>> import pandas
        >>> statuses = ["converged", "iteration_limit"]
        >>> unsettled_rows(pandas.DataFrame({"source": "gamp", "alpha": [0.1, 0.2], "error": 0.5, "status": statuses}))
        'not settled: source = gamp, alpha = 0.2 (iteration_limit)'
    """
    late = found[found["status"].isin([str(status) for status in Status if not status.ok])]
    names = [name for name in _PLACES if name in late and not late[name].isna().iloc[0]]
    place = ", ".join(f"{name} = {_short(late[name].iloc[0])}" for name in names)
    others = f", and {len(late) - 1} more in the CSV file" if len(late) > 1 else ""
    return f"not settled: {place} ({late['status'].iloc[0]}){others}"


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
