"""What is folded away, and is made only when it is looked at."""

from __future__ import annotations

from collections.abc import Callable

import panel as pn

from glassformer.explorer.updates import on_next_tick


class Collapsible:
    """A button with a title, and below it what it unfolds.

    Args:
        title: on the button.
        visible: whether the button is there.
    """

    def __init__(self, title: str, visible: bool = True) -> None:
        self._title = title
        self._make: Callable[[], str] = _nothing
        self._button = pn.widgets.Toggle(name=f"{title}: show", margin=(4, 8))
        self.view = pn.Column(self._button, visible=visible, sizing_mode="stretch_width")
        self._button.param.watch(lambda _: on_next_tick(self._turn), "value")

    def show(self, make: Callable[[], str]) -> None:
        """Have HTML made, at once if it is unfolded."""
        self._make = make
        self._fill()

    def _turn(self) -> None:
        # In words, as screen readers are not told whether a button is down.
        self._button.name = f"{self._title}: {'hide' if self._button.value else 'show'}"
        body = pn.pane.HTML(sizing_mode="stretch_width", margin=(0, 8))
        self.view.objects = [self._button, body] if self._button.value else [self._button]
        self._fill()

    def _fill(self) -> None:
        for body in self.view[1:]:
            body.object = self._make()


def _nothing() -> str:
    return ""
