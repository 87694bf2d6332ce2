"""Results that show themselves: as tables in a notebook, and as pictures."""

from __future__ import annotations

import base64
import io
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.equality import ComparedByContent

if TYPE_CHECKING:
    import pandas

# Rows of a table that is shown, and dots per inch of a picture.
_ROWS, _DOTS = 20, 100


class Shown(ComparedByContent):
    """What a notebook shows of a result: its table, with units and statuses, and what to do where one is not good.

    Attributes:
        drawing: name of the function of ``interface.figures.plots`` that draws it.
    """

    drawing: ClassVar[str]

    @property
    def title(self) -> str:
        """What it is."""
        return type(self).__name__

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences that a reader of the numbers should know."""
        return ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """What remedies may name; empty where it is not known."""
        return {}

    @abstractmethod
    def to_pandas(self) -> pandas.DataFrame:
        """What is shown, as a data frame."""

    def plot(
        self, path: str | Path | None = None, size: tuple[float, float] | None = None, theme: str = "light"
    ) -> Drawing:
        """Draw it.

        Args:
            path: a file to write as well, in the format of its ending.
            size: width and height in inches.
            theme: ``"light"`` or ``"dark"``.

        Returns:
            What a notebook shows, with the ``figure`` of Matplotlib.

        Raises:
            ParameterError: a format, a size or a theme that there is not.
        """
        from glassformer.interface.figures import plots
        from glassformer.interface.figures.style import Picture

        kept: list[Drawing] = []
        place = None if path is None else Path(path)
        picture = Picture(place, size, theme, lambda figure: kept.append(Drawing(figure, self.title)))
        getattr(plots, self.drawing)(self, picture)
        return kept[0]

    def __str__(self) -> str:
        frame = self.to_pandas()
        table = frame.to_string(index=False, max_rows=_ROWS, na_rep="-", float_format=_number)
        return "\n".join([self.title, table, *self._said(frame)])

    def _repr_html_(self) -> str:
        frame = self.to_pandas()
        table = frame.to_html(
            index=False,
            border=0,
            max_rows=_ROWS,
            na_rep="-",
            float_format=_number,
            formatters={"status": _marked} if "status" in frame else None,
        )
        wide = f'<div style="overflow-x: auto">{table}</div>'
        said = "".join(f"<p>{escape(text)}</p>" for text in self._said(frame))
        return f"<p><b>{escape(self.title)}</b></p>{wide}{said}"

    def _said(self, frame: pandas.DataFrame) -> list[str]:
        """What a reader should know, and what to do about rows that are not good."""
        remedies = _remedies(self.settings)
        ends = [name for name in dict.fromkeys(frame.get("status", ())) if name in remedies]
        return [*self.remarks, *(f"{name}: {remedies[name]}" for name in ends)]


def _number(value: float) -> str:
    return f"{value:.7g}"


def _marked(status: str) -> str:
    return f"\N{WARNING SIGN} {status}" if status in _remedies({}) else status


def _remedies(settings: Mapping[str, Any]) -> dict[str, str]:
    """Of statuses that are not good."""
    from glassformer.core.solution import Status

    return {str(status): status.remedy_for(settings) for status in Status if not status.ok}


class ShownOfModel(Shown):
    """A result of a model: its title names the model and the parameters."""

    model: str
    parameters: dict[str, Any]

    @property
    def title(self) -> str:
        """The model and its parameters."""
        return heading(self.model, self.parameters)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the model and the learner."""
        return self.parameters


class Drawing:
    """A picture in a notebook.

    Attributes:
        figure: of Matplotlib, to change or to save.
        text: what it shows, in words.

    Example:
        >>> from glassformer import BilinearSequenceRegression, limits
        >>> limits(BilinearSequenceRegression(rho=0.5), [0.2, 0.4]).plot().text
        'bsr: alpha = n/(dL), beta = 1, channel = gaussian, noise = 0, rho = 0.5'
    """

    def __init__(self, figure: Any, text: str) -> None:
        self.figure, self.text = figure, text
        file = io.BytesIO()
        # Now, as the look of letters is that of the moment at which they are drawn.
        figure.savefig(file, format="png", dpi=_DOTS)
        self._png = file.getvalue()

    def __repr__(self) -> str:
        return f"<drawing of {self.text}>"

    def _repr_html_(self) -> str:
        encoded = base64.b64encode(self._png).decode()
        return f'<img style="max-width: 100%" alt="{escape(self.text)}" src="data:image/png;base64,{encoded}"/>'


def told(parameters: Mapping[str, Any]) -> list[str]:
    """Names of parameters that a reader is told: not a variance of zero beside the law that labels have instead."""
    return sorted(parameters.keys() - ({"noise"} if "noise_law" in parameters else set()))


def heading(model: str, parameters: Mapping[str, Any]) -> str:
    """One line that names the model and its parameters.

    Example:
        >>> heading("bsr", {"rho": 0.5, "alpha": "n/(dL)"})
        'bsr: alpha = n/(dL), rho = 0.5'
    """

    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    return f"{model}: " + ", ".join(f"{name} = {text(parameters[name])}" for name in told(parameters))
