"""Ranges over plain HTTP: the bytes that were asked for, or none, whatever a server answers."""

import contextlib
import http.server
import socket
import threading

import numpy as np
import pytest
from helpers.process import PATIENCE

from queuecore._io import plain_http
from queuecore._io.plain_http import PlainFile, plain_file

CONTENT = np.random.default_rng(0).bytes(3_000_000)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for ranges of one file, but as the server's `answer` says."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections.append(self.connection)

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        self.server.requests.append((self.path, self.headers["Range"], self.headers["If-Match"]))
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        answer = {
            "status": 206,
            "range": f"bytes {first}-{last}/{len(CONTENT)}",
            "data": CONTENT[first : last + 1],
            "headers": {},
            "sent": None,
            "close": False,
        } | self.server.answer
        self.send_response(answer["status"])
        headers = {"Content-Length": str(len(answer["data"])), "Content-Range": answer["range"]} | answer["headers"]
        if answer["close"]:
            headers["Connection"] = "close"
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer["data"][: answer["sent"]])
        self.close_connection = answer["close"] or answer["sent"] is not None


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(plain_http, "_servers", {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.connections, server.requests, server.answer = [], [], {}
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    server.host = f"127.0.0.1:{server.server_address[1]}"
    yield server
    server.shutdown()
    thread.join(PATIENCE)
    for known in plain_http._servers.values():
        for connection in known._idle:
            connection.close()
    for connection in server.connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    server.server_close()


def read(file, start, stop, etag=""):
    """Return the bytes of a range; `None`: they didn't come so."""
    into = memoryview(bytearray(stop - start))
    return bytes(into) if file.readinto(start, into, etag) else None


@pytest.mark.parametrize("start, stop", [(0, 1), (0, 3_000_000), (5, 8197), (2_999_999, 3_000_000), (100, 1_100_000)])
@pytest.mark.parametrize("answer", [{}, {"status": 200}, {"close": True}], ids=["usual", "200", "closes"])
def test_the_bytes_that_were_asked_for(server, start, stop, answer):
    server.answer = answer
    file = PlainFile(f"http://{server.host}/a/b?c=d")
    for _ in range(3):
        assert read(file, start, stop, '"etag"') == CONTENT[start:stop]
    assert server.requests == [("/a/b?c=d", f"bytes={start}-{stop - 1}", '"etag"')] * 3
    assert len(server.connections) == (3 if answer.get("close") else 1)


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 412, "range": None, "data": b"no"},
        {"status": 302, "headers": {"Location": "/other"}},
        {"status": 200, "range": None, "data": CONTENT},
        {"range": "bytes 101-1100/3000000"},
        {"range": None},
        {"data": CONTENT[100:1099]},
        {"data": CONTENT[100:1101]},
        {"sent": 500},
        {"sent": 0},
        {"headers": {"Content-Encoding": "gzip"}},
        {"headers": {"Content-Length": None, "Transfer-Encoding": "chunked"}},
        {"headers": {"Content-Length": "many"}},
    ],
    ids=str,
)
def test_any_other_answer_is_none(server, answer):
    file = PlainFile(f"http://{server.host}/")
    assert read(file, 100, 1100) == CONTENT[100:1100]
    server.answer = answer
    assert read(file, 100, 1100) is None
    server.answer = {}
    assert read(file, 100, 1100) == CONTENT[100:1100]


def test_what_never_answers_so_is_not_asked_again(server):
    server.answer = {"range": None}
    files = [PlainFile(f"http://{server.host}/{number}") for number in range(5)]
    assert [read(file, 0, 10) for file in files] == [None] * 5
    assert len(server.requests) == 3


def test_nobody_is_there():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as closed:
        port = closed.getsockname()[1]
    assert read(PlainFile(f"http://127.0.0.1:{port}/"), 0, 10) is None


def test_a_connection_that_the_server_has_closed(server):
    file = PlainFile(f"http://{server.host}/")
    assert read(file, 0, 10) == CONTENT[:10]
    server.connections[0].shutdown(socket.SHUT_RDWR)
    assert read(file, 0, 10) == CONTENT[:10]


class HTTPFileSystem:
    """As that of fsspec."""

    def __init__(self, kwargs, client_kwargs):
        self.kwargs, self.client_kwargs = kwargs, client_kwargs


HTTPFileSystem.__module__ = "fsspec.implementations.http"


@pytest.mark.parametrize(
    "url, kwargs, client_kwargs, plain",
    [
        ("http://host/a", {}, {}, True),
        ("https://host/a", {}, {}, False),
        ("http://user:word@host/a", {}, {}, False),
        ("http://host/a b", {}, {}, False),
        ("http://host/\N{LATIN SMALL LETTER E WITH ACUTE}", {}, {}, False),
        ("http:///a", {}, {}, False),
        ("http://host/a", {"headers": {}}, {}, False),
        ("http://host/a", {}, {"auth": None}, False),
    ],
)
def test_what_is_plain(monkeypatch, url, kwargs, client_kwargs, plain):
    monkeypatch.setattr("urllib.request.getproxies", dict)
    assert (plain_file(HTTPFileSystem(kwargs, client_kwargs), url) is not None) == plain
    assert plain_file(object(), url) is None


def test_a_proxy_is_not_gone_round(monkeypatch):
    filesystem = HTTPFileSystem({}, {})
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "near")
    assert plain_file(filesystem, "http://far/a") is None
    assert plain_file(filesystem, "http://near/a") is not None
