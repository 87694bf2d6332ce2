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

# Rows and columns of a table that is shown, and dots per inch of a picture.
_ROWS, _COLUMNS, _DOTS = 20, 5, 100


class DisplayMixin(ComparedByContent):
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
        self,
        path: str | Path | None = None,
        size: tuple[float, float] | None = None,
        theme: str = "light",
        *,
        ax: Any = None,
    ) -> Any:
        """Draw it.

        Args:
            path: a file to write as well, in the format of its ending.
            size: width and height in inches.
            theme: ``"light"`` or ``"dark"``.
            ax: axes of Matplotlib to draw in, instead of a figure of its own.

        Returns:
            What a notebook shows, with the ``figure`` of Matplotlib; with ``ax`` these axes.

        Raises:
            ParameterError: a format, a size or a theme that there is not.
            IncompatibleError: ``ax`` beside a path, a size or a theme, which are those of its figure.
        """
        return self._drawn(path, size, theme, ax)

    def _drawn(
        self, path: str | Path | None, size: tuple[float, float] | None, theme: str, ax: Any, **beside: Any
    ) -> Any:
        """Draw it, and what the function that draws it takes beside."""
        from glassformer.core.errors import IncompatibleError
        from glassformer.plotting import plots
        from glassformer.plotting.style import Picture

        if ax is not None and (path is not None or size is not None or theme != "light"):
            raise IncompatibleError("ax is part of a figure of your own: leave out path, size and theme")
        kept: list[Drawing] = []
        place = None if path is None else Path(path)
        picture = Picture(place, size, theme, lambda figure: kept.append(Drawing(figure, self.title)), ax)
        getattr(plots, self.drawing)(self, picture, **beside)
        return kept[0] if ax is None else ax

    @property
    def display_columns(self) -> Sequence[str] | None:
        """Columns of the data frame that are shown; None for all."""
        return None

    def display_frame(self) -> pandas.DataFrame:
        """The data frame as it is shown: infinite numbers as such, where :meth:`to_pandas` has None, as JSON does."""
        return self.to_pandas()

    def __str__(self) -> str:
        frame = self.display_frame()
        shown = self._shown(frame)
        table = shown.to_string(index=False, max_rows=_ROWS, na_rep="-", float_format=_number)
        return "\n".join([self.title, table, *self._said(frame)])

    def _shown(self, frame: pandas.DataFrame) -> pandas.DataFrame:
        names = self.display_columns
        return frame if names is None else frame[list(names)]

    def _repr_html_(self) -> str:
        frame = self.display_frame()
        table = self._shown(frame).to_html(
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
        hidden = len(frame.columns) - len(self._shown(frame).columns)
        more = [f"{hidden} more column{'s' * (hidden > 1)}: to_pandas() has all"] if hidden else []
        return [*more, *self.remarks, *(f"{name}: {remedies[name]}" for name in ends)]


def leading(columns: Sequence[str]) -> list[str]:
    """The first columns of a table that is shown, and how its rows have ended: five in all.

    Example:
        >>> leading(["alpha", "error", "overlap", "status", "error_estimate", "residual"])
        ['alpha', 'error', 'overlap', 'status', 'error_estimate']
        >>> leading(["alpha", "error", "standard_error", "theory", "row_error", "status"])
        ['alpha', 'error', 'standard_error', 'theory', 'status']
    """
    among = [name for name in columns if name != "status"][: _COLUMNS - ("status" in columns)]
    return [name for name in columns if name in among or name == "status"]


def spoken(name: str) -> str:
    """The name of a threshold, a curve or a column in legends and sentences.

    Example:
        >>> spoken("bayes_optimal_transition")
        'Bayes-optimal transition'
    """
    return name.replace("bayes_optimal", "Bayes-optimal").replace("_", " ")


def _number(value: float) -> str:
    return f"{value:.7g}"


def _marked(status: str) -> str:
    return f"\N{WARNING SIGN} {status}" if status in _remedies({}) else status


def _remedies(settings: Mapping[str, Any]) -> dict[str, str]:
    """Of statuses that are not good."""
    from glassformer.core.solution import Status

    return {str(status): status.remedy_for(settings) for status in Status if not status.ok}


class ModelDisplayMixin(DisplayMixin):
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
