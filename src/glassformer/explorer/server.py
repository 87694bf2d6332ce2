"""A server for this machine alone: who may reach the page, what its responses and its log hold."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import html
import logging
import secrets
import tempfile
import warnings
import webbrowser
from functools import partial
from pathlib import Path
from threading import Thread
from traceback import walk_tb
from typing import Any

import panel as pn
from tornado.httpclient import AsyncHTTPClient
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.routing import Matcher, Rule
from tornado.web import OutputTransform, RequestHandler

from glassformer.core.errors import ParameterError
from glassformer.explorer.own_link import LinkSource
from glassformer.explorer.session import Session
from glassformer.numerics.memory import limit_malloc_arenas

ADDRESS = "127.0.0.1"
# First parts of paths that need no secret: files of Bokeh and Panel, which everybody can download elsewhere.
_PUBLIC = ("static", "favicon.ico")
# Loggers with handlers of their own.
_LOGS = ("", "bokeh", "panel")
_TUNNEL = "ssh -L {port}:127.0.0.1:{port} HOST"


def server(port: int = 0, first: str = "", given: LinkSource | None = None) -> tuple[Any, str]:
    """A server that listens on 127.0.0.1, not yet started, and the address of its page, which holds a secret.

    Only requests to this machine and below the path ``/SECRET`` are answered, that of a websocket included; every other
    request gets status 403. Only the files of Bokeh and Panel need no secret. All responses forbid frames, other
    sources of scripts, and a ``Referer`` header.

    Args:
        port: 0 for any that is free.
        first: the model at first.
        given: what the command line said of links.

    Raises:
        ParameterError: the port cannot be listened on.
    """
    pn.extension(raw_css=[Path(__file__).with_name("style.css").read_text()])
    secret = secrets.token_hex(16)
    # From Python 3.12 on none is made on demand.
    loop = IOLoop(make_current=False)
    try:
        made = pn.io.server.get_server(
            {secret: lambda: _page(first, given or LinkSource())},
            **{"port": port, "address": ADDRESS, "title": "glassformer explorer", "loop": loop},
        )
    except OSError as error:
        loop.close(all_fds=True)
        asyncio.set_event_loop(None)
        reason = f"a port of {ADDRESS} that can be listened on ({error.strerror})"
        raise ParameterError("port", port, reason, "leave out port, and a free one is taken") from None
    hosts = [f"{name}:{made.port}" for name in (ADDRESS, "localhost")]
    application = made._tornado
    application.websocket_origins.update(hosts)
    application.default_router.rules.insert(0, Rule(Unauthorised(hosts, made.port, secret), Refusal))
    application.add_transform(partial(SecurityHeaders, hosts))
    return made, f"http://{ADDRESS}:{made.port}/{secret}"


def _page(first: str, given: LinkSource) -> Any:
    """Return the page, which is filled once the models are imported: that takes longer than starting the server."""
    root = pn.Column(pn.pane.HTML('<p role="status">Loading…</p>', css_classes=["loading"]), margin=0)
    session, query = Session(), pn.state.location.search if pn.state.location else ""

    def fill() -> None:
        page = _pages().Page(first, given, query, session.later)
        session.left, root.objects = page.end, [page.root]
        page.ask()

    def import_models() -> None:
        _pages()
        session.later(fill)

    # Before that the page has no connection to the browser.
    pn.state.onload(Thread(target=import_models, daemon=True).start)
    return root


def _pages() -> Any:
    """Return the module of pages, with the models."""
    from glassformer.explorer import page

    page.model_names()
    return page


def serve(first: str, port: int, show: bool, given: LinkSource) -> None:
    """Answer until interrupted."""
    # Not a mistake: buttons that are pressed.
    warnings.filterwarnings("ignore", "reference already known")
    limit_malloc_arenas()
    made, address = server(port, first, given)
    for handler in [logging.lastResort, *(one for name in _LOGS for one in logging.getLogger(name).handlers)]:
        if handler is not None:
            handler.addFilter(OwnErrors())
    made.start()
    print(f"glassformer explorer at {address} (Ctrl-C stops it)")
    print(
        f"The address holds a secret: whoever has it can use the page{' and run code as you' * given.code}. "
        f"To see it on another machine: {_TUNNEL.format(port=made.port)}, with the same port at both ends.",
        flush=True,
    )
    # While a person opens the address.
    Thread(target=_pages, daemon=True).start()
    # The command line of a browser can be read by every user of the machine, so it must not hold the address. A
    # temporary directory has mode 0700.
    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
        file, link = Path(folder) / "explorer.html", html.escape(address)
        file.write_text(
            f'<meta http-equiv="refresh" content="0; url={link}"><meta name="referrer" content="no-referrer">'
            f'<a href="{link}">glassformer explorer</a>\n'
        )
        if show:
            webbrowser.open(file.as_uri())
        # Bokeh prints when it is stopped, and would not stop if the reader of the address has closed the pipe.
        with contextlib.redirect_stdout(None):
            made.run_until_shutdown()
    _pages().end()


def check(first: str, port: int, given: LinkSource) -> None:
    """Start, make one page, and stop."""
    made, address = server(port, first, given)
    made.start()
    found = made.io_loop.run_sync(partial(AsyncHTTPClient().fetch, address, request_timeout=120.0))
    made.stop()
    made.io_loop.close(all_fds=True)
    asyncio.set_event_loop(None)
    print(f"{address} answered with {len(found.body)} bytes; stopped again")


class Unauthorised(Matcher):
    """Requests to another host, from a page of another host, or without the secret."""

    def __init__(self, hosts: list[str], port: int, secret: str) -> None:
        self._hosts, self._port, self._secret = hosts, port, secret

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Return the reason of the refusal for :class:`Refusal`; None for requests that are answered."""
        origin = request.headers.get("Origin", f"http://{request.host}").removeprefix("http://")
        path = request.path.removeprefix("/").partition("/")[0]
        local = [host.partition(":")[0] for host in self._hosts]
        reason = None
        if others := [host for host in (request.host, origin) if host not in self._hosts]:
            reason = "The explorer answers to this machine alone: use the address that it printed."
            if others[0].partition(":")[0] in local:
                reason = f"{others[0]} is not allowed: the explorer listens at port {self._port}. Behind an ssh tunnel "
                reason += f"the ports at both ends must match: {_TUNNEL.format(port=self._port)}"
        # The time of this comparison does not depend on how much of the secret is right.
        elif path not in _PUBLIC and not hmac.compare_digest(path.encode(), self._secret.encode()):
            reason = "The address lacks the secret of this explorer: use the address that it printed. The query of an "
            reason += "older address, from the question mark on, may be appended to it."
        return None if reason is None else {"target_kwargs": {"reason": reason}}


class Refusal(RequestHandler):
    """Status 403 with the reason."""

    def initialize(self, reason: str) -> None:
        self._refusal = reason

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{self._refusal}\n")


class SecurityHeaders(OutputTransform):
    """Adds headers that keep the page to itself to every response."""

    def __init__(self, hosts: list[str], request: HTTPServerRequest) -> None:
        self._hosts = hosts

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        sockets = " ".join(f"ws://{host}" for host in self._hosts)
        # Bokeh's page holds one inline script; Panel compiles its templates and imports its components from blobs.
        headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
            "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
            f"connect-src 'self' blob: {sockets}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        headers["X-Frame-Options"] = "DENY"
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "no-referrer"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return status_code, headers, chunk


class OwnErrors(logging.Filter):
    """Keeps errors of this package alone in the log: the lines of others may hold the secret, and whatever is sent."""

    def filter(self, record: logging.LogRecord) -> bool:
        trace = walk_tb(record.exc_info[2]) if record.exc_info else ()
        return any(frame.f_globals.get("__name__", "").startswith("glassformer.") for frame, _ in trace)
