"""Pictures of the explorer that combine several results: spectra, and an error over two parameters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from glassformer.core.estimate import Array
from glassformer.plotting.style import Picture, canvas, colors


def plot_spectra(
    laws: Mapping[str, tuple[Array, Array]],
    matrices: Mapping[str, tuple[Array, Array]],
    title: str,
    path: Path | Picture,
) -> None:
    """Draw densities of spectra: laws as lines, matrices of a finite size as histograms.

    Args:
        laws: values and densities, by name.
        matrices: edges and densities of a histogram, by name.
        title: title of the picture.
        path: the picture.
    """
    with canvas(path) as (axes,):
        shades = iter(colors(len(laws) + len(matrices)))
        for (name, (value, density)), dash in zip(laws.items(), itertools.cycle(("-", "--"))):
            axes.plot(value, density, color=next(shades), ls=dash, label=name)
        for name, (edges, density) in matrices.items():
            axes.stairs(density, edges, color=next(shades), lw=1.5, label=name)
        axes.set(xlabel="singular value, or eigenvalue", ylabel="density", ylim=(0, spectra_top(laws, matrices)))
        axes.set_title(title, fontsize=11)
        axes.legend()


def spectra_top(laws: Mapping[str, tuple[Array, Array]], matrices: Mapping[str, tuple[Array, Array]]) -> float:
    """Return the upper limit of the density axis.

    The bar of the zeros of a narrow matrix, and the peak of its law without noise there, may exceed it.

    Example:
        >>> spectra_top({"law": (np.zeros(2), np.array([0.5, 1.0]))}, {})
        1.25
    """
    heights = [np.max(density) for _, density in list(laws.values())[-1:]]
    heights += [np.sort(density)[-2] for _, density in matrices.values()]
    return 1.25 * float(np.max(heights))


def plot_grid(
    axes_of: tuple[tuple[str, Sequence[float]], tuple[str, Sequence[float]]],
    error: Array,
    marks: Sequence[tuple[float, float, str]],
    title: str,
    path: Path | Picture,
) -> None:
    """Draw an error over two parameters as colours, with marks.

    Args:
        axes_of: name and values of the horizontal and of the vertical axis.
        error: shape (vertical, horizontal), NaN where it is unknown.
        marks: position and name of each mark.
        title: title of the picture.
        path: the picture.
    """
    (across, x), (up, y) = axes_of
    with canvas(path) as (axes,):
        mesh = axes.pcolormesh(x, y, error, cmap="cividis", vmin=0, vmax=1, shading="nearest")
        axes.figure.colorbar(mesh, ax=axes, label="error")
        for name in dict.fromkeys(name for *_, name in marks):
            places = [(a, b) for a, b, own in marks if own == name]
            axes.plot(*zip(*places, strict=True), "o", ms=5, mec="black", label=name)
        axes.set(xlabel=across, ylabel=up)
        axes.set_title(title, fontsize=11)
        if marks:
            axes.legend()
