"""Results as tables in terminals and notebooks, and as figures."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.equality import ComparedByContent
from glassformer.core.status import Status

if TYPE_CHECKING:
    import pandas

# Most rows and columns of a table on display.
_ROWS, _COLUMNS = 20, 5
# Name of the module that registers the function that draws results; core does not import it.
_PLOTTING = "glassformer.plotting.render"
_renderers: list[Callable[..., Any]] = []


def register_renderer(render: Callable[..., Any]) -> None:
    """Have results drawn by ``render(result, path, size, theme, ax, **more)``."""
    _renderers.append(render)


class DisplayMixin(ComparedByContent):
    """A result that is displayed as its table, with the remedies of the statuses that are not good.

    Attributes:
        drawing: name of the function of ``plotting.plots`` that draws the result.
    """

    drawing: ClassVar[str]

    @property
    def title(self) -> str:
        """Title of the table and the figure."""
        return type(self).__name__

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences that a reader of the numbers should know."""
        return ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Parameters by name, from which remedies are chosen; empty if unknown."""
        return {}

    @abstractmethod
    def to_pandas(self) -> pandas.DataFrame:
        """Return the result as a data frame."""

    def plot(
        self,
        path: str | Path | None = None,
        size: tuple[float, float] | None = None,
        theme: str = "light",
        *,
        ax: Any = None,
    ) -> Any:
        """Draw the result.

        Args:
            path: a file for the figure, in the format of its ending.
            size: width and height in inches.
            theme: ``"light"`` or ``"dark"``.
            ax: axes of Matplotlib to draw in, instead of a new figure.

        Returns:
            A drawing, which notebooks show, with the ``figure`` of Matplotlib; with ``ax`` these axes.

        Raises:
            ParameterError: the format, the size or the theme is not allowed.
            IncompatibleError: ``ax`` is given together with a path, a size or a theme.
        """
        return self._draw(path, size, theme, ax)

    def _draw(self, path: str | Path | None, size: tuple[float, float] | None, theme: str, ax: Any, **more: Any) -> Any:
        """Draw the result, with further arguments of the function that draws it."""
        importlib.import_module(_PLOTTING)
        return _renderers[-1](self, path, size, theme, ax, **more)

    @property
    def display_columns(self) -> Sequence[str] | None:
        """Columns of the data frame on display; None for all."""
        return None

    def display_frame(self) -> pandas.DataFrame:
        """Return the data frame on display: infinite numbers as such, where :meth:`to_pandas` has None as JSON does."""
        return self.to_pandas()

    def __str__(self) -> str:
        frame = self.display_frame()
        text = self._visible(frame).to_string(index=False, max_rows=_ROWS, na_rep="-", float_format=_number)
        return "\n".join([self.title, text, *self._sentences(frame)])

    def _visible(self, frame: pandas.DataFrame) -> pandas.DataFrame:
        names = self.display_columns
        return frame if names is None else frame[list(names)]

    def _repr_html_(self) -> str:
        frame = self.display_frame()
        table = self._visible(frame).to_html(
            index=False,
            border=0,
            max_rows=_ROWS,
            na_rep="-",
            float_format=_number,
            formatters={"status": _mark} if "status" in frame else None,
        )
        sentences = "".join(f"<p>{escape(text)}</p>" for text in self._sentences(frame))
        return f'<p><b>{escape(self.title)}</b></p><div style="overflow-x: auto">{table}</div>{sentences}'

    def _sentences(self, frame: pandas.DataFrame) -> list[str]:
        """Return the remarks below the table, and the remedies of statuses that are not good."""
        remedies = _remedies(self.settings)
        ends = [name for name in dict.fromkeys(frame.get("status", ())) if name in remedies]
        hidden = len(frame.columns) - len(self._visible(frame).columns)
        more = [f"{hidden} more column{'s' * (hidden > 1)}: to_pandas() has all"] if hidden else []
        return [*more, *self.remarks, *(f"{name}: {remedies[name]}" for name in ends)]


def first_columns(columns: Sequence[str]) -> list[str]:
    """Return the first columns of a table on display and the status of its rows: five in all.

    Example:
        >>> first_columns(["alpha", "error", "overlap", "status", "error_estimate", "residual"])
        ['alpha', 'error', 'overlap', 'status', 'error_estimate']
        >>> first_columns(["alpha", "error", "standard_error", "theory", "row_error", "status"])
        ['alpha', 'error', 'standard_error', 'theory', 'status']
    """
    among = [name for name in columns if name != "status"][: _COLUMNS - ("status" in columns)]
    return [name for name in columns if name in among or name == "status"]


def readable_name(name: str) -> str:
    """Return the name of a threshold, a curve or a column for legends and sentences.

    Example:
        >>> readable_name("bayes_optimal_transition")
        'Bayes-optimal transition'
    """
    return name.replace("bayes_optimal", "Bayes-optimal").replace("_", " ")


def _number(value: float) -> str:
    return f"{value:.7g}"


def _mark(status: str) -> str:
    return f"\N{WARNING SIGN} {status}" if status in _remedies({}) else status


def _remedies(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the remedies of statuses that are not good, by the names of these statuses."""
    return {str(status): status.remedy_for(settings) for status in Status if not status.ok}


class ModelDisplayMixin(DisplayMixin):
    """A result of a model, with the model and its parameters as the title."""

    model: str
    parameters: dict[str, Any]

    @property
    def title(self) -> str:
        """Name and parameters of the model."""
        return heading(self.model, self.parameters)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Parameters of the model and the learner."""
        return self.parameters


def displayed_parameters(parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of parameters on display: without the noise variance if the labels have another law of noise."""
    return sorted(parameters.keys() - ({"noise"} if "noise_law" in parameters else set()))


def heading(model: str, parameters: Mapping[str, Any]) -> str:
    """Return one line with the name of the model and its parameters.

    Example:
        >>> heading("bsr", {"rho": 0.5, "alpha": "n/(dL)"})
        'bsr: alpha = n/(dL), rho = 0.5'
    """

    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    return f"{model}: " + ", ".join(f"{name} = {text(parameters[name])}" for name in displayed_parameters(parameters))
