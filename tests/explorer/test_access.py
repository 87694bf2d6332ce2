"""Who can reach the explorer: only who knows the secret in its address, from this machine and no other page."""

import asyncio
import json
import logging
import re
import socket
import sys
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from glassformer.cli import main
from glassformer.core.errors import ParameterError

pytest.importorskip("panel")

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

from glassformer.explorer import server
from glassformer.explorer.own_link import LinkSource

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@contextmanager
def running(code=False):
    """A server in this process, and a function that asks it for a path."""
    made, address = server.server(given=LinkSource(code=code))
    made.start()

    def ask(path, **headers):
        request = HTTPRequest(address.rpartition("/")[0] + path, headers=headers, follow_redirects=False)
        return made.io_loop.run_sync(lambda: AsyncHTTPClient().fetch(request, raise_error=False), 60)

    try:
        yield SimpleNamespace(ask=ask, port=made.port, secret=address.rpartition("/")[2])
    finally:
        made.stop()
        made.io_loop.close(all_fds=True)
        asyncio.set_event_loop(None)


@pytest.fixture(scope="module")
def here():
    with running() as one:
        yield one


@pytest.mark.slow
@pytest.mark.parametrize("code", [False, True])
def test_nothing_of_the_page_is_there_without_the_secret(code):
    with running(code) as one:
        element = "?bokeh-autoload-element=x"
        for secret in ("", "/wrong", f"/{one.secret[:-1]}", f"/{one.secret}0", f"//{one.secret}", f"/x/{one.secret}"):
            for path in ("", "/", f"/autoload.js{element}", "/metadata", "/components/panel.pane/HTML/css/x"):
                assert one.ask((secret + path) or "/").code == 403, secret + path
            answer = one.ask(f"{secret}/ws", **UPGRADE)
            assert answer.code == 403 and b"lacks the secret" in answer.body
        assert one.ask(f"/{one.secret}/autoload.js{element}").code == 200
        page = one.ask(f"/{one.secret}")
        assert page.code == 200 and b"glassformer explorer" in page.body


def test_the_secret_is_compared_in_a_time_that_does_not_depend_on_it(here, monkeypatch):
    seen = []
    monkeypatch.setattr(server, "hmac", SimpleNamespace(compare_digest=lambda *pair: seen.append(pair) or False))
    assert here.ask("/guess").code == 403
    assert seen == [(b"guess", here.secret.encode())]


def test_every_start_has_a_secret_of_its_own(here):
    with running() as other:
        assert other.secret != here.secret
    assert re.fullmatch("[0-9a-f]{32}", here.secret)


@pytest.mark.parametrize("path", ["/{}", "/{}/ws", "/static/js/bokeh.min.js", "/"])
def test_other_hosts_and_pages_of_others_are_refused(here, path):
    path = path.format(here.secret)
    for headers in ({"Host": f"evil.example:{here.port}"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        answer = here.ask(path, **headers)
        assert answer.code == 403 and b"this machine alone" in answer.body


def test_a_tunnel_between_two_ports_is_told_to_use_one(here):
    for headers in ({"Host": "localhost:1"}, {"Origin": "http://127.0.0.1:1"}):
        said = here.ask(f"/{here.secret}", **headers)
        assert said.code == 403
        assert f"ssh -L {here.port}:127.0.0.1:{here.port}".encode() in said.body
    same = {"Host": f"localhost:{here.port}", "Origin": f"http://localhost:{here.port}"}
    assert here.ask("/static/js/bokeh.min.js", **same).code == 200


@pytest.mark.parametrize("path", ["/{}", "/static/js/bokeh.min.js", "/"])
def test_every_response_keeps_the_page_to_itself(here, path):
    headers = here.ask(path.format(here.secret)).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    addresses = re.findall(r"\w+://[^\s;]+", headers["Content-Security-Policy"])
    assert addresses == [f"ws://127.0.0.1:{here.port}", f"ws://localhost:{here.port}"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"


# Tornado leaves the socket open that it could not bind.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_busy_port_is_named_with_the_remedy(capsys):
    with closing(socket.socket()) as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(ParameterError, match=f"port = {port} is not allowed.*in use.*leave out port"):
            server.server(port)
        assert main(["explore", "--check", "--port", str(port)]) == 2
    assert f"port = {port}" in capsys.readouterr().err


def record(text, error=None):
    try:
        if error is not None:
            raise error
    except Exception:
        seen = sys.exc_info()
    else:
        seen = None
    return logging.LogRecord("tornado.access", logging.ERROR, __file__, 1, "%s", (text,), seen)


def test_the_log_has_errors_of_this_package_alone():
    from glassformer.core.parsing import parse_grid

    one = server.OwnErrors()
    assert not one.filter(record("GET /secret/ws"))
    assert not one.filter(record("GET /secret/ws", KeyError("EVIL")))
    try:
        parse_grid("alpha", "x")
    except ParameterError as error:
        assert one.filter(record("failed", error))


def test_a_browser_is_opened_by_a_file_that_others_cannot_read(monkeypatch, capsys):
    opened = []

    def look(target):
        file = Path(target.removeprefix("file://"))
        opened.append((target, file.read_text(), file.parent.stat().st_mode & 0o777))

    made = SimpleNamespace(port=1, start=lambda: None, run_until_shutdown=lambda: None)
    monkeypatch.setattr(server, "server", lambda *given: (made, "http://127.0.0.1:1/abc"))
    monkeypatch.setattr(server, "limit_malloc_arenas", lambda: None)
    monkeypatch.setattr(server, "OwnErrors", lambda: lambda record: True)
    monkeypatch.setattr(server, "_pages", lambda: SimpleNamespace(end=lambda: None))
    monkeypatch.setattr(server.webbrowser, "open", look)
    server.serve("bsr", 0, True, LinkSource(code=True))
    ((target, text, mode),) = opened
    assert "abc" not in target and "http://127.0.0.1:1/abc" in text and mode == 0o700
    assert not Path(target.removeprefix("file://")).exists()
    said = capsys.readouterr().out
    assert said.startswith("glassformer explorer at http://127.0.0.1:1/abc (")
    assert "run code as you" in said and "ssh -L 1:127.0.0.1:1 HOST, with the same port at both ends" in said


MALFORMED = {
    "no JSON": ("nonsense", "{}", "{}"),
    "binary": (b"\x00\x01",),
    "no type": ("{}", "{}", "{}"),
    "a list": ("[]", "{}", "{}"),
    "unknown type": (json.dumps({"msgid": "1", "msgtype": "EVIL"}), "{}", "{}"),
    "unknown model": (
        json.dumps({"msgid": "1", "msgtype": "PATCH-DOC"}),
        "{}",
        json.dumps({"events": [{"kind": "ModelChanged", "model": {"id": "p0"}, "attr": "value", "new": 3}]}),
    ),
    "no events": (json.dumps({"msgid": "1", "msgtype": "PATCH-DOC"}), "{}", "{}"),
}


@pytest.mark.thorough
def test_malformed_messages_leave_nothing_in_the_log(served, tmp_path):
    with served(tmp_path) as address:
        asyncio.run(malformed(address))


async def malformed(address):
    page = (await AsyncHTTPClient().fetch(address, request_timeout=60)).body.decode()
    token = re.search(r'"token":"([^"]+)"', page).group(1)
    place = f"{address.replace('http', 'ws', 1)}/ws"
    for given, messages in [("!!!", ()), *((token, messages) for messages in MALFORMED.values())]:
        headers = {"Sec-WebSocket-Protocol": f"bokeh, {given}"}
        line = await websocket_connect(HTTPRequest(place, headers=headers))
        # The server answers with an error or ends the connection.
        with suppress(TimeoutError, WebSocketClosedError):
            for message in messages:
                await line.write_message(message, binary=isinstance(message, bytes))
            for _ in range(6):
                if await asyncio.wait_for(line.read_message(), 0.1) is None:
                    break
        line.close()
