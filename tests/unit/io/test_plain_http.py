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
        headers = {"Content-Length": str(len(answer["data"])), "Content-Range": answer["range"], "ETag": '"etag"'}
        headers |= answer["headers"]
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


@pytest.fixture
def near(monkeypatch):
    """Any connection counts as near, however long it takes here."""
    monkeypatch.setattr(plain_http, "_NEAR", PATIENCE)
    monkeypatch.setattr(plain_http, "_QUICK", 0)


def read(file, start, stop, etag="", until=None):
    """Return the bytes of a range; `None`: they didn't come so."""
    into = memoryview(bytearray(stop - start))
    return bytes(into) if file.readinto(start, into, etag, until) else None


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
        {"headers": {"ETag": '"other"'}},
        {"headers": {"ETag": None}},
    ],
    ids=str,
)
def test_any_other_answer_is_none(server, answer):
    file = PlainFile(f"http://{server.host}/")
    assert read(file, 100, 1100, '"etag"') == CONTENT[100:1100]
    server.answer = answer
    assert read(file, 100, 1100, '"etag"') is None
    server.answer = {}
    assert read(file, 100, 1100, '"etag"') == CONTENT[100:1100]


@pytest.mark.parametrize("piece", [1, 1000, 8192, 8193, 100_000, 3_000_000])
def test_ranges_that_follow_each_other_come_in_one_answer(server, near, piece):
    file = PlainFile(f"http://{server.host}/")
    assert read(file, 0, 10) == CONTENT[:10]  # its connection is near
    stop = min(10 + 20 * piece, len(CONTENT))
    got = [read(file, at, min(at + piece, stop), until=len(CONTENT)) for at in range(10, stop, piece)]
    assert b"".join(got) == CONTENT[10:stop]
    assert [wanted for _, wanted, _ in server.requests] == ["bytes=0-9", "bytes=10-2999999"]
    assert read(file, 5, 10) == CONTENT[5:10]  # beside it
    assert read(file, stop - 1, stop, until=len(CONTENT)) == CONTENT[stop - 1 : stop]  # not where it goes on


def test_an_answer_that_breaks_off(server, near):
    file = PlainFile(f"http://{server.host}/")
    assert read(file, 0, 10) == CONTENT[:10]
    server.answer = {"sent": 500_000}
    assert read(file, 0, 400_000, until=len(CONTENT)) == CONTENT[:400_000]
    assert read(file, 400_000, 800_000, until=len(CONTENT)) is None
    server.answer = {}
    assert read(file, 400_000, len(CONTENT), until=len(CONTENT)) == CONTENT[400_000:]


def test_a_far_server_is_asked_for_each_range(server, monkeypatch):
    monkeypatch.setattr(plain_http, "_NEAR", 0)
    file = PlainFile(f"http://{server.host}/")
    for at in range(0, 3_000_000, 1_000_000):
        assert read(file, at, at + 1_000_000, until=len(CONTENT)) == CONTENT[at : at + 1_000_000]
    assert len(server.requests) == 3 and not file.streams


def test_a_slow_one_too(server, near, monkeypatch):
    monkeypatch.setattr(plain_http, "_QUICK", 1e15)
    monkeypatch.setattr(plain_http, "_LEAST_NOTED", 100)
    file = PlainFile(f"http://{server.host}/")
    for at in range(0, 2000, 100):
        assert read(file, at, at + 100, until=len(CONTENT)) == CONTENT[at : at + 100]
    assert not file.streams
    assert len(server.requests) == 1 + 1 + (2000 - 500) // 100


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
    monkeypatch.setattr("queuecore._io.plain_http._straight", {})
    monkeypatch.setattr("urllib.request.getproxies", dict)
    assert (plain_file(HTTPFileSystem(kwargs, client_kwargs), url) is not None) == plain
    assert plain_file(object(), url) is None


def test_a_proxy_is_not_gone_round(monkeypatch):
    filesystem = HTTPFileSystem({}, {})
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "near")
    monkeypatch.setattr("queuecore._io.plain_http._straight", {})
    assert plain_file(filesystem, "http://far/a") is None
    assert plain_file(filesystem, "http://near/a") is not None
