"""Controls made from options: a name, a slider where a range is worth a look, and what was refused beside them."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

import panel as pn

from glassformer.core.options import Option
from glassformer.explorer.slider import Slider

_REFUSED = "color:#a03000;margin:0;font-size:13px"


class Control:
    """One named text that a person may change.

    Args:
        name: that errors call it by.
        label: that people read.
        text: at the start.
        changed: called with the new text.
        meaning: in some words.
        usual: ends of a slider.
        among: the words that are allowed.
        flag: whether it is yes or no; yes is a text that is not empty.
    """

    def __init__(
        self,
        name: str,
        label: str,
        text: str,
        changed: Callable[[str], None],
        meaning: str = "",
        usual: tuple[float, float] | None = None,
        among: Sequence[str] = (),
        flag: bool = False,
    ) -> None:
        self.name, self._changed = name, changed
        self.input = _input(label, text, meaning, among, flag)
        self.slider = None if usual is None else _slider(label, text, usual)
        self._refused = pn.pane.HTML("", margin=(0, 8), sizing_mode="stretch_width")
        self._parts = [self.input, *([] if self.slider is None else [self.slider])]
        self.view = pn.Column(*self._parts, sizing_mode="stretch_width", margin=(0, 0, 4, 0))
        self.input.param.watch(lambda event: self._written(event.new), "value")
        if self.slider is not None:
            self.slider.param.watch(lambda event: self._slider_text(event.new), "value")

    @property
    def text(self) -> str:
        """What is asked for."""
        value = self.input.value
        return value if isinstance(value, str) else "yes" if value else ""

    def set_text(self, text: str) -> None:
        """Have it show another text, as if it had been written."""
        self.input.value = bool(text) if isinstance(self.input, pn.widgets.Checkbox) else text

    def neighbours(self) -> list[str]:
        """The texts that one key leads to from here, down and up, where there is a slider."""
        if self.slider is None:
            return []
        start, end, step = self.slider.start, self.slider.end, self.slider.step
        # Keys go along the steps of a slider, whatever number it was put to.
        here = round((self.slider.value - start) / step)
        values = [start + step * (here + way) for way in (-1, 1)]
        return [_slider_text(value) for value in values if start <= value <= end + step / 2]

    def offer(self, words: Sequence[str]) -> None:
        """Allow these words alone; the first stands in for one that is among them no more."""
        if words and list(words) != self.input.options:
            self.input.param.update(options=list(words), value=self.text if self.text in words else words[0])

    def refuse(self, reason: str) -> None:
        """Say what is wrong with it, or nothing."""
        self._refused.object = f'<p role="alert" style="{_REFUSED}">{html.escape(reason)}</p>' if reason else ""
        # Whatever is on a page costs time before it is there, seen or not.
        shown = [*self._parts, self._refused] if reason else self._parts
        if len(self.view) != len(shown):
            self.view.objects = shown

    def _written(self, value: Any) -> None:
        if self.slider is not None:
            number = _number(value)
            if number is not None and self.slider.start <= number <= self.slider.end:
                self.slider.value = number
        self._changed(self.text)

    def _slider_text(self, value: float) -> None:
        if _number(self.input.value) != value:
            self.input.value = _slider_text(value)


def of_option(option: Option, text: str, changed: Callable[[str], None]) -> Control:
    """The control of an option of the tables."""
    usual, among = option.usual, option.among
    return Control(
        option.field, option.name.replace("_", " "), text, changed, option.meaning, usual, among, option.flag
    )


def _input(label: str, text: str, meaning: str, among: Sequence[str], flag: bool) -> Any:
    shared = {"name": label, "sizing_mode": "stretch_width", "margin": (0, 8)}
    if flag:
        return pn.widgets.Checkbox(value=bool(text), **{**shared, "name": f"{label}: {meaning}"})
    if among:
        return pn.widgets.Select(options=list(among), value=text, **shared)
    return pn.widgets.TextInput(value=text, description=meaning or None, **shared)


def _slider(label: str, text: str, usual: tuple[float, float]) -> Slider:
    start, end = usual
    step = 10.0 ** math.floor(math.log10(end - start)) / 100
    value = _number(text)
    return Slider(label=f"{label} slider", value=start if value is None else value, start=start, end=end, step=step)


def _slider_text(value: float) -> str:
    return f"{value:.6g}"


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
