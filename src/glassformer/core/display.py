"""Results that show themselves: as tables in a notebook, and as pictures."""

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

# Rows and columns of a table that is shown.
_ROWS, _COLUMNS = 20, 5
# The module that registers the function that draws results: by its name, as nothing here imports what is above.
_PLOTTING = "glassformer.plotting.render"
_renderers: list[Callable[..., Any]] = []


def register_renderer(render: Callable[..., Any]) -> None:
    """Have results drawn by ``render(result, path, size, theme, ax, **more)``."""
    _renderers.append(render)


class DisplayMixin(ComparedByContent):
    """What a notebook shows of a result: its table, with units and statuses, and what to do where one is not good.

    Attributes:
        drawing: name of the function of ``plotting.plots`` that draws it.
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
        return self._draw(path, size, theme, ax)

    def _draw(self, path: str | Path | None, size: tuple[float, float] | None, theme: str, ax: Any, **more: Any) -> Any:
        """Draw it, with further arguments of the function that draws it."""
        importlib.import_module(_PLOTTING)
        return _renderers[-1](self, path, size, theme, ax, **more)

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


def first_columns(columns: Sequence[str]) -> list[str]:
    """The first columns of a table that is shown, and how its rows have ended: five in all.

    Example:
        >>> first_columns(["alpha", "error", "overlap", "status", "error_estimate", "residual"])
        ['alpha', 'error', 'overlap', 'status', 'error_estimate']
        >>> first_columns(["alpha", "error", "standard_error", "theory", "row_error", "status"])
        ['alpha', 'error', 'standard_error', 'theory', 'status']
    """
    among = [name for name in columns if name != "status"][: _COLUMNS - ("status" in columns)]
    return [name for name in columns if name in among or name == "status"]


def readable_name(name: str) -> str:
    """The name of a threshold, a curve or a column in legends and sentences.

    Example:
        >>> readable_name("bayes_optimal_transition")
        'Bayes-optimal transition'
    """
    return name.replace("bayes_optimal", "Bayes-optimal").replace("_", " ")


def _number(value: float) -> str:
    return f"{value:.7g}"


def _marked(status: str) -> str:
    return f"\N{WARNING SIGN} {status}" if status in _remedies({}) else status


def _remedies(settings: Mapping[str, Any]) -> dict[str, str]:
    """Of statuses that are not good."""
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


def displayed_parameters(parameters: Mapping[str, Any]) -> list[str]:
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

    return f"{model}: " + ", ".join(f"{name} = {text(parameters[name])}" for name in displayed_parameters(parameters))
