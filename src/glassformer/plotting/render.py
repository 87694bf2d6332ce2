"""Results drawn as figures of Matplotlib, which notebooks show."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.core.display import DisplayMixin, register_renderer
from glassformer.core.errors import IncompatibleError
from glassformer.core.files import user_path
from glassformer.plotting import plots
from glassformer.plotting.style import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Dots per inch of a picture in a notebook.
_RESOLUTION = 100


class Drawing:
    """A picture in a notebook.

    Attributes:
        figure: the figure of Matplotlib, to change or to save.
        text: description of the result.

    Example:
        >>> from glassformer import BilinearSequenceRegression, limits
        >>> limits(BilinearSequenceRegression(rho=0.5), [0.2, 0.4]).plot().text
        'bsr: alpha = n/(dL), beta = 1, channel = gaussian, noise = 0, rho = 0.5'
    """

    def __init__(self, figure: Figure, text: str) -> None:
        self.figure, self.text = figure, text
        file = io.BytesIO()
        # Saved now, since the fonts are those of the settings of Matplotlib at this time.
        figure.savefig(file, format="png", dpi=_RESOLUTION)
        self._png = file.getvalue()

    def __repr__(self) -> str:
        return f"<drawing of {self.text}>"

    def _repr_html_(self) -> str:
        encoded = base64.b64encode(self._png).decode()
        return f'<img style="max-width: 100%" alt="{escape(self.text)}" src="data:image/png;base64,{encoded}"/>'


def render(
    result: DisplayMixin,
    path: str | Path | None,
    size: tuple[float, float] | None,
    theme: str,
    ax: Axes | None,
    **more: Any,
) -> Drawing | Axes | None:
    """Draw a result with the function in its ``drawing``, and return the :class:`Drawing`, or ``ax`` if that is given.

    Raises:
        IncompatibleError: ``ax`` is given together with a path, a size or a theme.
    """
    if ax is not None and (path is not None or size is not None or theme != "light"):
        raise IncompatibleError("ax is part of a figure of your own: leave out path, size and theme")
    figures: list[Figure] = []
    picture = Picture(None if path is None else user_path(path), size, theme, figures.append, ax)
    getattr(plots, result.drawing)(result, picture, **more)
    return Drawing(figures[0], result.title) if figures else ax


register_renderer(render)
