"""Recipes: figures as data, and the one function that computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.papers.drawing import Axis, FigureContent, joined

if TYPE_CHECKING:
    import pandas

# Columns that say which curve a row of the data belongs to; a recipe writes those that it names.
NAMES = ("source", "panel", "curve")


@dataclass(frozen=True)
class Part:
    """A computed panel.

    Attributes:
        axes: its plots, most often one.
        frames: its numbers.
        lines: its part of the summary.
    """

    axes: Sequence[Axis]
    frames: Sequence[pandas.DataFrame]
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Context:
    """What the panels of a figure share.

    Attributes:
        reference: folder of published data, or None.
        computed: curves that a panel before has computed, by identity.
    """

    reference: Path | None = None
    computed: dict[int, Any] = field(default_factory=dict)


Panel = Callable[[Context], Part]
"""What a recipe consists of: :class:`~glassformer.papers.curves.CurvesPanel`, or a function of the context."""


@dataclass(frozen=True)
class Recipe:
    """A figure, before anything is computed.

    Attributes:
        panels: from left to right.
        columns: columns of the CSV file in their order; None for all.
        names: those of ``NAMES`` that are written.
        size: width and height of one plot in inches.
    """

    panels: Sequence[Panel]
    columns: Sequence[str] | None = None
    names: Sequence[str] = ()
    size: tuple[float, float] = (6.2, 4.4)


def compute(recipe: Recipe, quick: bool = False, reference: Path | None = None) -> FigureContent:
    """Compute every panel of a recipe."""
    context = Context(reference)
    parts = [panel(context) for panel in recipe.panels]
    data = joined([frame for part in parts for frame in part.frames])
    data = data.drop(columns=[name for name in NAMES if name in data and name not in recipe.names])
    if recipe.columns is not None:
        data = data[[name for name in recipe.columns if name in data]]
    lines = ["quick: small sizes, few points and few instances"] if quick else []
    lines += [line for part in parts for line in part.lines]
    axes = [axis for part in parts for axis in part.axes]
    caption = "quick: small sizes, few points, few instances" if quick else ""
    return FigureContent(axes, data, "\n".join(lines), recipe.size, caption)
