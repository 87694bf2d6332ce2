"""Display of results: tables in terminals and notebooks, and figures."""

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
    from matplotlib.axes import Axes

# Largest numbers of rows and columns of a displayed table.
_ROWS, _COLUMNS = 20, 5
# Name of the module that registers the function that draws results; core does not import it.
_PLOTTING = "glassformer.plotting.render"
_renderers: list[Callable[..., Any]] = []


def register_renderer(render: Callable[..., Any]) -> None:
    """Register the function that draws results: ``render(result, path, size, theme, ax, **more)``."""
    _renderers.append(render)


class DisplayMixin(ComparedByContent):
    """Base class of results that are displayed as a table, with a remedy for each status other than ``converged``.

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
        """Notes on the numbers, which are displayed below the table."""
        return ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Parameters by name. Remedies mention only these. Empty if they are unknown."""
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
        ax: Axes | None = None,
    ) -> Any:
        """Draw the result.

        Args:
            path: the file to which the figure is saved. Its ending determines the format.
            size: width and height in inches.
            theme: ``"light"`` or ``"dark"``.
            ax: axes of Matplotlib to draw in. By default a new figure is made. Results on the same axes have
                their own colours, and are named by what they differ in.

        Returns:
            A drawing, which notebooks display. Its ``figure`` is the figure of Matplotlib. If ``ax`` is given, ``ax``.

        Raises:
            ParameterError: the format, the size or the theme is not allowed.
            IncompatibleError: ``ax`` is given together with a path, a size or a theme.
        """
        return self._draw(path, size, theme, ax)

    def _draw(
        self, path: str | Path | None, size: tuple[float, float] | None, theme: str, ax: Axes | None, **more: object
    ) -> Any:
        """Draw the result. ``more`` are further arguments of the drawing function."""
        importlib.import_module(_PLOTTING)
        return _renderers[-1](self, path, size, theme, ax, **more)

    @property
    def display_columns(self) -> Sequence[str] | None:
        """Columns of the data frame that are displayed. None displays all."""
        return None

    def display_frame(self) -> pandas.DataFrame:
        """Return the displayed data frame. It shows infinite numbers, for which :meth:`to_pandas` has None."""
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
        """Return the notes below the table and the remedies of all statuses other than ``converged``."""
        remedies = _remedies(self.settings)
        ends = [name for name in dict.fromkeys(frame.get("status", ())) if name in remedies]
        hidden = len(frame.columns) - len(self._visible(frame).columns)
        more = [f"{hidden} more column{'s' * (hidden > 1)}: to_pandas() returns all columns"] if hidden else []
        return [*more, *self.remarks, *(f"{name}: {remedies[name]}" for name in ends)]


def first_columns(columns: Sequence[str]) -> list[str]:
    """Return the names of the five columns that are displayed: the first ones and the status.

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
    """Return the remedies of all statuses other than ``converged``, by the names of the statuses."""
    return {str(status): status.remedy_for(settings) for status in Status if not status.ok}


class ModelDisplayMixin(DisplayMixin):
    """Base class of results of a model. The title names the model and its parameters."""

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
    """Return the names of the displayed parameters. The noise variance is left out if another noise law is set."""
    return sorted(parameters.keys() - ({"noise"} if "noise_law" in parameters else set()))


def heading(model: str, parameters: Mapping[str, Any]) -> str:
    """Return a line with the name of the model and its parameters.

    Example:
        >>> heading("bsr", {"rho": 0.5, "alpha": "n/(dL)"})
        'bsr: alpha = n/(dL), rho = 0.5'
    """

    def text(value: object) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    return f"{model}: " + ", ".join(f"{name} = {text(parameters[name])}" for name in displayed_parameters(parameters))
