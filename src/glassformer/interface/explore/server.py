"""A server for this machine alone."""

from __future__ import annotations

import asyncio
import logging
import warnings
from functools import partial
from typing import Any

from tornado.httpclient import AsyncHTTPClient
from tornado.httputil import HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler
from tornado.websocket import WebSocketClosedError

from glassformer.core.numerics.memory import share_pools
from glassformer.interface.explore.own_link import Given
from glassformer.interface.explore.page import STYLE, end, page, tabs

ADDRESS = "127.0.0.1"


class OtherHost(Matcher):
    """Requests to another host than this machine, or from pages of one, whose name was made to point here."""

    def __init__(self, allowed: list[str]) -> None:
        self._allowed = allowed

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        origin = request.headers.get("Origin", f"http://{request.host}")
        here = request.host in self._allowed and origin.removeprefix("http://") in self._allowed
        return None if here else {}


class Refusal(RequestHandler):
    """What they get."""

    def prepare(self) -> None:
        self.set_status(403)
        self.finish("glassformer explore answers to this machine alone: use the address that it printed\n")


def server(port: int = 0, first: str = "bsr", given: Given | None = None) -> Any:
    """A server that listens on 127.0.0.1 and answers nobody else, not yet started.

    Args:
        port: 0 for any that is free.
        first: the tab that is open at first.
        given: what the command line said of links.
    """
    import panel as pn

    pn.extension(raw_css=[STYLE])
    # Models are read in before anybody waits for a page.
    tabs()
    made = pn.io.server.get_server(
        lambda: page(first, given or Given()),
        port=port,
        address=ADDRESS,
        title="glassformer explorer",
        # From Python 3.12 on none is made on demand.
        loop=IOLoop(make_current=False),
    )
    allowed = [f"{name}:{made.port}" for name in (ADDRESS, "localhost")]
    application = made._tornado
    application.websocket_origins.update(allowed)
    application.default_router.rules.insert(0, Rule(OtherHost(allowed), Refusal))
    return made


def serve(first: str, port: int, show: bool, given: Given) -> None:
    """Answer until interrupted."""
    _quiet()
    share_pools()
    made = server(port, first, given)
    made.start()
    made.io_loop.asyncio_loop.set_exception_handler(_told)
    print(f"glassformer explorer at {address(made)} (Ctrl-C stops it)", flush=True)
    if show:
        made.show("/")
    made.run_until_shutdown()
    end()


def check(first: str, port: int, given: Given) -> None:
    """Start, make one page, and stop."""
    made = server(port, first, given)
    made.start()
    client = AsyncHTTPClient()
    found = made.io_loop.run_sync(partial(client.fetch, address(made), request_timeout=120.0))
    made.stop()
    made.io_loop.close(all_fds=True)
    asyncio.set_event_loop(None)
    print(f"{address(made)} answered with {len(found.body)} bytes; stopped again")


def _quiet() -> None:
    """No word of what is no mistake: buttons that are pressed, pages that are left while they are written to."""
    warnings.filterwarnings("ignore", "reference already known")
    logging.getLogger("bokeh.server.views.ws").setLevel(logging.ERROR)


def _told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The log of what goes wrong between two steps; that a page has been left is none of it."""
    if not isinstance(context.get("exception"), WebSocketClosedError):
        loop.default_exception_handler(context)


def address(made: Any) -> str:
    """Where a server is."""
    return f"http://{ADDRESS}:{made.port}/"
