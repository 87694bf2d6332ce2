"""A server for this machine alone."""

from __future__ import annotations

import asyncio
import contextlib
import html
import logging
import secrets
import tempfile
import warnings
import webbrowser
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from tornado.httpclient import AsyncHTTPClient
from tornado.ioloop import IOLoop
from tornado.websocket import WebSocketClosedError

from glassformer.core.errors import ParameterError
from glassformer.explorer.access import filter_logs, protect
from glassformer.explorer.own_link import LinkSource
from glassformer.numerics.memory import limit_malloc_arenas

ADDRESS = "127.0.0.1"


def server(port: int = 0, first: str = "", given: LinkSource | None = None) -> tuple[Any, str]:
    """A server that listens on 127.0.0.1, not yet started, and the address of its page, which holds a secret.

    Args:
        port: 0 for any that is free.
        first: the model at first.
        given: what the command line said of links.

    Raises:
        ParameterError: the port cannot be listened on.
    """
    import panel as pn

    pn.extension(raw_css=[Path(__file__).with_name("style.css").read_text()])
    secret = secrets.token_hex(16)
    # From Python 3.12 on none is made on demand.
    loop = IOLoop(make_current=False)
    try:
        made = pn.io.server.get_server(
            {secret: lambda: _pages().page(first, given or LinkSource())},
            **{"port": port, "address": ADDRESS, "title": "glassformer explorer", "loop": loop},
        )
    except OSError as error:
        loop.close(all_fds=True)
        asyncio.set_event_loop(None)
        reason = f"a port of {ADDRESS} that can be listened on ({error.strerror})"
        raise ParameterError("port", port, reason, "leave out --port for any that is free") from None
    protect(made._tornado, made.port, secret)
    return made, f"http://{ADDRESS}:{made.port}/{secret}"


def _pages() -> Any:
    """Return the module of pages, with the models: importing it takes as long as starting the server."""
    from glassformer.explorer import page

    page.model_names()
    return page


def serve(first: str, port: int, show: bool, given: LinkSource) -> None:
    """Answer until interrupted."""
    _quiet()
    limit_malloc_arenas()
    made, address = server(port, first, given)
    filter_logs(address.rpartition("/")[2])
    made.start()
    made.io_loop.asyncio_loop.set_exception_handler(_status_html)
    print(f"glassformer explorer at {address} (Ctrl-C stops it)")
    print(
        f"The address holds a secret: whoever has it can use the page{' and run code as you' * given.code}. "
        f"To see it on another machine: ssh -L {made.port}:{ADDRESS}:{made.port} HOST, "
        "with the same port at both ends.",
        flush=True,
    )
    # While a person opens the address.
    Thread(target=_pages, daemon=True).start()
    with redirection(address) as file:
        if show:
            webbrowser.open(file.as_uri())
        made.run_until_shutdown()
    _pages().end()


@contextlib.contextmanager
def redirection(target: str) -> Iterator[Path]:
    """A file that leads a browser to an address, and that only this user can read.

    The command line of a browser can be read by every user of the machine, so it must not hold the address.
    """
    # The folder of a temporary directory has mode 0700.
    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
        file = Path(folder) / "explorer.html"
        link = html.escape(target)
        file.write_text(
            f'<meta http-equiv="refresh" content="0; url={link}"><meta name="referrer" content="no-referrer">'
            f'<a href="{link}">glassformer explorer</a>\n'
        )
        yield file


def check(first: str, port: int, given: LinkSource) -> None:
    """Start, make one page, and stop."""
    made, address = server(port, first, given)
    made.start()
    client = AsyncHTTPClient()
    found = made.io_loop.run_sync(partial(client.fetch, address, request_timeout=120.0))
    made.stop()
    made.io_loop.close(all_fds=True)
    asyncio.set_event_loop(None)
    print(f"{address} answered with {len(found.body)} bytes; stopped again")


def _quiet() -> None:
    """No word of what is no mistake: buttons that are pressed, pages that are left while they are written to."""
    warnings.filterwarnings("ignore", "reference already known")
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.ERROR)


def _status_html(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The log of what goes wrong between two steps; that a page has been left is none of it."""
    if not isinstance(context.get("exception"), WebSocketClosedError):
        loop.default_exception_handler(context)
