"""Singular values, or eigenvalues: of the signal, of what message passing sees of it, and of a trained matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas

from glassformer.bayes_optimal.limits import limits
from glassformer.core.cache import memoize
from glassformer.core.display import heading
from glassformer.core.errors import IncompatibleError
from glassformer.experiments.simulation import experiment_of
from glassformer.explorer import words
from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.drawing import CLEAR, COLORS, DASHES, GREYED, canvas, fill, hover, source
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.question import chosen_ratio, whole
from glassformer.learners.registry import compatible_learner, names

_NONE = "none"
_LAWS = ("signal, theory", "seen by message passing, theory")
_MATRICES = ("signal, one matrix", "trained, one matrix")
# Points of a density, bars of a histogram, and noise that is next to none.
_POINTS, _BARS, _QUIET = 400, 16, 1e-3


@dataclass(frozen=True)
class Spectra:
    """Values on an axis and the densities there, and those of matrices of a finite size; None without a run."""

    signal: Any
    noisy: Any
    teacher: Any = None
    trained: Any = None


class Spectrum(Panel):
    """Laws from theory as lines, one trained matrix and its teacher as steps."""

    title = "Spectrum"
    fields: ClassVar[dict[str, str]] = {"trained": "trained matrix", "d": "token dimension d", "seed": "seed"}
    follows = ("at",)

    def among(self, name: str) -> tuple[str, ...]:
        return (_NONE, *names()) if name == "trained" else ()

    def drawing(self) -> Any:
        made = canvas("singular value, or eigenvalue", "density", 320, y_range=(0, 1))
        self._held = [source("value", "density") for _ in range(4)]
        self._lines = []
        for k, (held, name) in enumerate(zip(self._held, (*_LAWS, *_MATRICES), strict=True)):
            look = {"color": COLORS[k], "line_dash": DASHES[k % 2], "line_width": 2.5, "legend_label": name}
            kind = made.line if k < 2 else partial(made.step, mode="before")
            self._lines.append(kind("value", "density", source=held, **look))
        hover(made, self._lines, ("value", "@value{0.0000}"), ("density", "@density{0.0000}"))
        return made

    def compute(self, asked: Request, so_far: Callable[[Answer], None]) -> Answer:
        alpha = chosen_ratio(asked.texts)
        if asked.model.overlap_shape:
            raise IncompatibleError(f"the weights of model {asked.name} are a few rows, not a matrix with a spectrum")
        q_hat, found = memoize(lambda: _laws(asked.model, alpha), "spectrum", asked.model, alpha)
        name = asked.texts["trained"]
        if name != _NONE:
            so_far(_answer(asked, alpha, q_hat, found))
            d, seed = whole(asked.texts, "d"), whole(asked.texts, "seed")
            chosen = compatible_learner(name, asked.model)
            signal, reached = experiment_of(asked.model, [alpha], d, 1, seed, chosen).learned()
            teacher, trained = (_values(one, asked.model.prior.symmetric) for one in (signal, reached.estimates[0]))
            found = replace(found, teacher=teacher, trained=trained)
        return _answer(asked, alpha, q_hat, found)

    def draw(self, answer: Answer) -> None:
        from glassformer.plotting.spectra import spectra_top

        found: Spectra = answer.content
        laws, matrices = _laws_of(found), _matrices_of(found)
        for held, (value, density) in zip(self._held[:2], laws.values(), strict=True):
            fill(held, {"value": value, "density": density})
        for held, name in zip(self._held[2:], _MATRICES, strict=True):
            edges, density = matrices.get(name, ([], []))
            closed = [0.0, *density, 0.0] if len(density) else []
            fill(held, {"value": [*edges[:1], *edges], "density": closed})
        # Names of what is not there would cover what is.
        for item, held in zip(self.figure.legend.items, self._held, strict=True):
            item.visible = len(held.data["value"]) > 0
        self.figure.y_range.end = spectra_top(laws, matrices)

    def fade(self, stale: bool) -> None:
        for line in self._lines:
            line.glyph.line_alpha = GREYED if stale else CLEAR


def _laws(model: Any, alpha: float) -> tuple[float, Spectra]:
    """The conjugate overlap at a sample ratio, and the laws of the signal and of it in noise of variance 1/q_hat."""
    q_hat = float(limits(model, [alpha], throw=False)["q_hat"][0])
    noisy = _density(model, 1 / max(q_hat, 1e-3))
    return q_hat, Spectra(_density(model, _QUIET), noisy)


def _density(model: Any, noise: float) -> tuple[Any, Any]:
    law = model.prior.noisy_law(np.array([max(noise, _QUIET)]))
    low, high = np.nanmin(law.support), np.nanmax(law.support)
    # The middles of as many cells: at the very edges some densities have no value.
    value = low + (high - low) * (np.arange(_POINTS) + 0.5) / _POINTS
    return value, law.density(value)


def _values(matrix: Any, symmetric: bool) -> Any:
    """In the unit of the laws."""
    if symmetric:
        return np.linalg.eigvalsh(matrix)
    return np.linalg.svd(matrix, compute_uv=False) / matrix.size**0.25


def _laws_of(found: Spectra) -> dict[str, tuple[Any, Any]]:
    return dict(zip(_LAWS, (found.signal, found.noisy), strict=True))


def _matrices_of(found: Spectra) -> dict[str, tuple[Any, Any]]:
    """A histogram of the values of each, on the same bars."""
    if found.trained is None:
        return {}
    every = np.concatenate([found.teacher, found.trained])
    edges = np.linspace(every.min(), every.max(), _BARS + 1)
    densities = [np.histogram(values, edges, density=True)[0] for values in (found.teacher, found.trained)]
    return {name: (edges, density) for name, density in zip(_MATRICES, densities, strict=True)}


def _answer(asked: Request, alpha: float, q_hat: float, found: Spectra) -> Answer:
    from glassformer.plotting.spectra import plot_spectra

    kinds = {"signal": found.signal, "noisy": found.noisy}
    frames = [pandas.DataFrame({"of": name, "value": own[0], "density": own[1]}) for name, own in kinds.items()]
    runs = {"teacher": found.teacher, "trained": found.trained}
    frames += [pandas.DataFrame({"of": name, "value": own}) for name, own in runs.items() if own is not None]
    said = f"At alpha = {alpha:.4g} message passing sees the signal in noise of variance 1/q_hat"
    said += f" = {1 / max(q_hat, 1e-300):.4g}"
    low, high = float(np.min(found.noisy[0])), float(np.max(found.noisy[0]))
    said += f": values from {low:.3g} to {high:.3g}."
    if found.trained is not None:
        said += f" The trained matrix has values up to {np.max(found.trained):.3g}, its teacher up to "
        said += f"{np.max(found.teacher):.3g}."
    call = f"limits(model, [{alpha!r}], throw=False)\n"
    call += 'law = model.prior.noisy_law(1 / result["q_hat"])  # law.support, law.density(values)'
    title = heading(asked.name, {**asked.model.parameters, "alpha": alpha})
    plot = partial(plot_spectra, _laws_of(found), _matrices_of(found), title)
    if found.trained is not None:
        name, d, seed = asked.texts["trained"], whole(asked.texts, "d"), whole(asked.texts, "seed")
        made = words.learner_call(compatible_learner(name, asked.model))
        call += f"\nsignal, reached = experiment_of(model, [{alpha!r}], {d}, 1, {seed}, {made}).learned()"
        imports = {"experiment_of": "glassformer.experiments.simulation", "learner": "glassformer.learners.registry"}
        return Answer(found, pandas.concat(frames), said, "", asked.code(call, **imports), plot)
    return Answer(found, pandas.concat(frames), said, "", asked.code(call), plot)
