"""The connection of a page to its browser: calls in its thread, changes that arrive in order, and forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent
from panel.io.resources import LOCAL_DIST
from tornado.ioloop import IOLoop


class Session:
    """The document of one person, created in the thread of the page.

    Attributes:
        left: called when the person has left.
    """

    left: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self) -> None:
        self._document, self._loop = pn.state.curdoc, IOLoop.current()
        # Style sheets come from this server, those of parts that are made later too.
        self._document.template_variables["dist_url"] = LOCAL_DIST
        pn.state.on_session_destroyed(lambda _: self.left())

    def later(self, function: Callable[[], None], seconds: float = 0.0) -> None:
        """Call a function in the thread of the page; with a delay only from that thread."""
        if seconds:
            self._schedule(function, seconds)
        else:
            # From any thread: a document that is being changed may lose what another thread adds to it.
            self._loop.add_callback(self._schedule, function)

    def _schedule(self, function: Callable[[], None], seconds: float = 0.0) -> None:
        context = self._document.session_context
        if context is None or (context.session is not None and context.session.connection_count == 0):
            # Nobody looks at the page any more, some time before its session is destroyed.
            self.left()
        elif seconds:
            self._document.add_timeout_callback(partial(_in_one_update, function), round(1000 * seconds))
        else:
            self._document.add_next_tick_callback(partial(_in_one_update, function))


def in_order(function: Callable[..., None]) -> Callable[..., None]:
    """Have a function called once the changes of the page that are being made are sent."""

    def called(*values: Any) -> None:
        document, change = pn.state.curdoc, partial(function, *values)
        if document is None or document.callbacks.hold_value or not pn.state.loaded:
            change()
        else:
            document.add_next_tick_callback(partial(_in_one_update, change))

    return called


def _in_one_update(change: Callable[[], None]) -> None:
    """Make a change of the page, and send all of it at its end.

    Panel sends its changes at once and Bokeh those of its models at the end. Panel also delays changes that it cannot
    send at once, and may forget them.
    """
    document = pn.state.curdoc
    document.hold("collect")
    try:
        change()
    finally:
        document.unhold()


class Form(JSComponent):
    """Labelled inputs of the browser, which screen readers and keyboards know: the sliders of Panel have no name.

    A browser knows only classes that are defined before its page is served.

    Args:
        changed: called with the name of a field and its new text.
    """

    fields = param.List(default=[])
    _esm = Path(__file__).with_name("form.js").read_text()

    def __init__(self, changed: Callable[[str, str], None], **given: Any) -> None:
        super().__init__(sizing_mode="stretch_width", margin=0, **given)
        self._changed, self._heard = changed, 0

    def _handle_msg(self, data: dict[str, str | int]) -> None:
        for field in self.fields:
            # The browser has this text already: it is not sent back.
            field["heard"] = int(data["count"])
            if field["name"] == data["name"]:
                field["text"] = str(data["text"])
                in_order(self._change)(field["name"], field["text"], field["heard"])

    def _change(self, name: str, text: str, count: int) -> None:
        # The browser tells by this count which of its texts the fields that come back know of.
        self._heard = count
        self._changed(name, text)

    def show(self, fields: Iterable[dict[str, Any]]) -> None:
        """Show other fields, or the same with other texts."""
        found = [{**one, "heard": self._heard} for one in fields]
        if found != self.fields:
            self.fields = found
