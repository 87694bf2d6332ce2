"""Legend, title and labels of axes that may have curves of several results: curves are named by what differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.lines import Line2D

Drawn: TypeAlias = "Line2D | ErrorbarContainer"
"""A curve, or marks of runs with their error bars."""

# Of each curve its label, and what it shows: the learner and the parts of the title.
_SHOWN: WeakKeyDictionary[Artist, tuple[str, tuple[str, ...]]] = WeakKeyDictionary()


def name_curves(axes: Axes, curves: Iterable[tuple[Drawn, str]], learner: str, title: Sequence[str]) -> None:
    """Label the curves of a result, and set the title.

    The title has what is common to all results on the axes. Where results differ, labels have the difference.

    Args:
        axes: of the curves.
        curves: what was drawn, with the label that suits a single result.
        learner: in words.
        title: its parts.
    """
    for artist, label in curves:
        artist.set_label(label)
        _SHOWN[_line(artist)] = label, (learner, *title)
    handles = [handle for handle in axes.get_legend_handles_labels()[0] if _line(handle) in _SHOWN]
    shown = [_SHOWN[_line(handle)] for handle in handles]
    common = {part for part in (learner, *title) if all(part in parts for _, parts in shown)}
    for handle, (label, parts) in zip(handles, shown, strict=True):
        differences = (part for part in parts if part not in common and part not in label)
        handle.set_label(", ".join([label, *differences]))
    axes.set_title(", ".join(part for part in title if part in common))


def entry_once(axes: Axes, label: str) -> str | None:
    """Return the label if the axes have no entry of this name yet: marks that mean the same share their entry."""
    return None if label in axes.get_legend_handles_labels()[1] else label


def _line(artist: Drawn | Artist) -> Artist:
    """Return the line of what was drawn: marks with error bars are a tuple, whose first entry are the marks."""
    return artist[0] if isinstance(artist, tuple) else artist


def label_axes(axes: Axes, x: str, y: str) -> None:
    """Label both axes, without units if results on the same axes have other ones."""
    for old, new, set_label in (
        (axes.get_xlabel(), x, axes.set_xlabel),
        (axes.get_ylabel(), y, axes.set_ylabel),
    ):
        set_label(new if old in ("", new) else new.split("$")[0].strip())
