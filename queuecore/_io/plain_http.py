"""Ranges of files behind plain HTTP, of a web server or of S3, straight into the memory they are for.

The standard library makes the request, and one call of the system receives the whole body, without the GIL. fsspec's
libraries receive it in parts, on one event loop of Python's, and put it together afterwards. With TLS, Python's ssl
hands out 16 KiB at a time: there they are better, and nothing is done here.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
import struct
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from queuecore._io.object_store import access_of

__all__ = ["PlainFile", "plain_file"]

# Seconds that a server may be silent.
_SILENT = 60
# How many requests may fail before the first answer comes.
_MOST_FAILED = 3
# A server to which a connection takes so many seconds at most is in the same network. One answer is enough there,
# unless it brings fewer bytes in a second for some ranges in a row, of at least so many bytes each.
_NEAR, _QUICK, _MOST_SLOW, _LEAST_NOTED = 0.002, 200e6, 3, 1 << 20
# Seconds that a signature lasts, and after which a new one is made: the keys may be others by then.
_SIGNED, _SIGN_AGAIN = 3600, 300


class _Answer:
    """An answer of a server, with the bytes of a file from a place on."""

    def __init__(self, connection: http.client.HTTPConnection, start: int, until: int) -> None:
        self.at, self._until = start, until
        self._connection, self._link = connection, connection.sock
        self._answer = connection.getresponse()

    def is_of(self, start: int, until: int, etag: str) -> bool:
        """Return whether it has these bytes, and nothing else, of this ETag if it isn't empty.

        Some servers answer a range by 200, and some don't look at conditions.
        """
        answer = self._answer
        return (
            answer.status in (200, 206)
            and answer.length == until - start
            and (answer.getheader("Content-Range") or "").startswith(f"bytes {start}-{until - 1}/")
            and not answer.getheader("Content-Encoding")
            and (not etag or answer.getheader("ETag") == etag)
        )

    def readinto(self, into: memoryview) -> bool:
        """Fill a view with the next bytes; False: the server has closed the connection. Raises `OSError`."""
        filled = self._answer.readinto(into[: len(self._answer.fp.peek())])  # what came together with those before
        while filled < len(into):
            nbytes = self._link.recv_into(into[filled:], len(into) - filled, socket.MSG_WAITALL)
            if nbytes == 0:
                return False
            filled += nbytes
        self.at += filled
        return True

    @property
    def is_over(self) -> bool:
        """True if all bytes have been read."""
        return self.at == self._until

    def end(self) -> http.client.HTTPConnection | None:
        """Return the connection, if it can take another request. Otherwise it is closed."""
        self._answer.close()
        if self.is_over and self._connection.sock is not None:
            return self._connection
        self._connection.close()
        return None


class _Server:
    """The open connections to one host and port."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._idle: list[http.client.HTTPConnection] = []  # append and pop are one step each
        self._failed = 0  # requests, before the first answer came
        self._nearest = float("inf")  # seconds until a connection was there
        self._slow = 0  # ranges in a row

    @property
    def is_usable(self) -> bool:
        """False if the server and this module don't understand each other, as it seems."""
        return self._failed < _MOST_FAILED

    @property
    def is_quick(self) -> bool:
        """True if one answer brings the bytes of a file as quickly as several side by side."""
        return self._nearest < _NEAR and self._slow < _MOST_SLOW

    def note_rate(self, nbytes: int, seconds: float) -> None:
        """Hear how long it took until the next bytes of an answer were there."""
        self._slow = 0 if nbytes >= _QUICK * seconds else self._slow + (nbytes >= _LEAST_NOTED)

    def answer(self, target: str, start: int, until: int, etag: str) -> _Answer | None:
        """Ask for bytes of a file; `None`: the server didn't answer with these."""
        headers = {"Range": f"bytes={start}-{until - 1}", **({"If-Match": etag} if etag else {})}
        connection, answer = self._connection(), None
        try:
            if connection.sock is None:
                self._connect(connection)
            connection.request("GET", target, headers=headers)
            answer = _Answer(connection, start, until)
            if answer.is_of(start, until, etag):
                self._failed = -1
                return answer
        except (OSError, http.client.HTTPException, ValueError):
            pass
        if answer is not None:
            answer.end()
        connection.close()
        self._failed += self._failed >= 0
        return None

    def end(self, answer: _Answer) -> None:
        """Hear that no further bytes of an answer are wanted."""
        connection = answer.end()
        if connection is not None:
            self._idle.append(connection)

    def _connection(self) -> http.client.HTTPConnection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return http.client.HTTPConnection(self._host, timeout=_SILENT)
            watched = select.poll()
            watched.register(connection.sock, select.POLLIN)
            if not watched.poll(0):
                return connection
            connection.close()  # the server has closed it

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        begun = time.monotonic()
        connection.connect()
        self._nearest = min(self._nearest, time.monotonic() - begun)
        # The kernel keeps the time, so that one call may wait for all bytes.
        connection.sock.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", _SILENT, 0))


_servers: dict[str, _Server] = {}
# Whether there was no proxy in front of a host when it was asked for first.
_straight: dict[str, bool] = {}


class PlainFile:
    """A file of a server that speaks plain HTTP. Any thread.

    Parameters
    ----------
    url : str
        Its URL.
    keys : callable, optional
        Returns what S3 knows the user by: key, secret and token; `None`: it isn't asked for.
    region : str, optional
        Of S3.
    """

    def __init__(
        self, url: str, keys: Callable[[], tuple[str, str, str | None]] | None = None, region: str = ""
    ) -> None:
        self._answer: _Answer | None = None  # that goes on
        self._is_read = False  # by one thread
        self._starts: list[int] = []  # of the ranges that threads wait to read from it, or read
        self._changed = threading.Condition()  # of these two
        self._url, self._keys, self._region = url, keys, region
        host = urllib.parse.urlsplit(url).netloc
        self._server = _servers.setdefault(host, _Server(host))
        self._target = _target(url)
        self._signed = -float(_SIGN_AGAIN)  # when

    def __del__(self) -> None:
        """Close what is open."""
        if self._answer is not None:
            self._server.end(self._answer)

    @property
    def streams(self) -> bool:
        """True if ranges that follow each other come best one after the other."""
        return self._server.is_quick

    def readinto(self, start: int, into: memoryview, etag: str, until: int | None = None) -> bool:
        """Fill a view with the bytes from `start` on; False: they didn't come so, for whatever reason.

        Parameters
        ----------
        start : int
            In bytes; all bytes of the view are within the file.
        into : memoryview
            Of bytes.
        etag : str
            Of the content that is wanted; empty: of any.
        until : int, optional
            Where the bytes end that will be wanted next, one view after the other: one answer may bring them all.
        """
        if until is None or not self.streams:
            answer = self._asked(start, start + len(into), etag)
            return answer is not None and self._filled(answer, into)
        with self._in_order(start):
            answer, self._answer = self._answer, None
            if answer is not None and answer.at == start:
                begun = time.monotonic()
                filled = self._filled(answer, into)
                self._server.note_rate(len(into), time.monotonic() - begun)
                return filled
            if answer is not None:
                self._server.end(answer)
            answer = self._asked(start, until, etag)
            return answer is not None and self._filled(answer, into)

    @contextlib.contextmanager
    def _in_order(self, start: int) -> Iterator[None]:
        """Let one thread at a time read from the answer that goes on: where it is, or otherwise the first range."""
        with self._changed:
            self._starts.append(start)
            while self._is_read or (start > min(self._starts) and (self._answer is None or self._answer.at != start)):
                self._changed.wait()
            self._is_read = True
        try:
            yield
        finally:
            with self._changed:
                self._is_read = False
                self._starts.remove(start)
                self._changed.notify_all()

    def _asked(self, start: int, until: int, etag: str) -> _Answer | None:
        if not self._server.is_usable:
            return None
        if self._keys is not None and time.monotonic() - self._signed >= _SIGN_AGAIN:
            self._target, self._signed = self._signature(), time.monotonic()
        answer = self._server.answer(self._target, start, until, etag)
        if answer is None:
            self._signed = -float(_SIGN_AGAIN)
        return answer

    def _filled(self, answer: _Answer, into: memoryview) -> bool:
        """Fill a view with an answer's next bytes. An answer with more of them stays, for the next view."""
        try:
            filled = answer.readinto(into)
        except (OSError, http.client.HTTPException, ValueError):
            filled = False
        if filled and not answer.is_over:
            self._answer = answer
        else:
            self._server.end(answer)
        return filled

    def _signature(self) -> str:
        assert self._keys is not None
        request = import_module("botocore.awsrequest").AWSRequest("GET", self._url)
        keys = import_module("botocore.credentials").Credentials(*self._keys())
        signature = import_module("botocore.auth").S3SigV4QueryAuth(keys, "s3", self._region, expires=_SIGNED)
        signature.add_auth(request)
        return _target(request.prepare().url)


def _target(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def plain_file(filesystem: Any, path: str) -> PlainFile | None:
    """Return the file of a path of one of fsspec's file systems, if it is behind plain HTTP, without more to it."""
    kind = type(filesystem).__module__, type(filesystem).__name__
    if kind == ("s3fs.core", "S3FileSystem"):
        return _of_s3(filesystem, path)
    if kind != ("fsspec.implementations.http", "HTTPFileSystem") or filesystem.kwargs or filesystem.client_kwargs:
        return None
    return PlainFile(path) if _is_plain(path) else None


def _of_s3(filesystem: Any, path: str) -> PlainFile | None:
    bucket, key, version = filesystem.split_path(path)
    if not key or version is not None:
        return None
    try:
        access = access_of(filesystem)
    except Exception:  # noqa: BLE001 - of s3fs's connection, which it will tell by itself
        return None
    if access is None:
        return None
    url = f"{access.endpoint}/{bucket}/{urllib.parse.quote(key, safe='/-_.~')}"
    return PlainFile(url, access.keys, access.region) if _is_plain(url) else None


def _is_plain(url: str) -> bool:
    """Return whether a request for a URL goes to its server as it is."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.username is not None:
        return False
    if not url.isascii() or any(character <= " " for character in url):
        return False
    host = parts.netloc
    if host not in _straight:  # a look goes over the whole environment
        _straight[host] = "http" not in urllib.request.getproxies() or bool(urllib.request.proxy_bypass(host))
    return _straight[host]


os.register_at_fork(after_in_child=_servers.clear)
