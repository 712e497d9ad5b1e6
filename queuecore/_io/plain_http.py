"""Ranges of files behind plain HTTP, of a web server or of S3, straight into the memory they are for.

The standard library makes the request, and one call of the system receives the whole body, without the GIL. fsspec's
libraries receive it in parts, on one event loop of Python's, and put it together afterwards: three times the work. With
TLS, Python's ssl hands out 16 KiB at a time: there they are better, and nothing is done here.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
import struct
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from importlib import import_module
from typing import Any

from queuecore._io.object_store import access_of

__all__ = ["PlainFile", "plain_file"]

# Seconds that a server may be silent.
_SILENT = 60
# How many requests may fail before the first answer comes.
_MOST_FAILED = 3
# Seconds that a signature lasts, and after which a new one is made: the keys may be others by then.
_SIGNED, _SIGN_AGAIN = 3600, 300


class _Server:
    """The open connections to one host and port."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._idle: list[http.client.HTTPConnection] = []  # append and pop are one step each
        self._failed = 0  # requests, before the first answer came

    @property
    def is_usable(self) -> bool:
        """False if the server and this module don't understand each other, as it seems."""
        return self._failed < _MOST_FAILED

    def readinto(self, target: str, start: int, into: memoryview, etag: str) -> bool:
        """Fill a view with the bytes of a file from `start` on; False: the server didn't answer with these."""
        last = start + len(into) - 1
        headers = {"Range": f"bytes={start}-{last}", **({"If-Match": etag} if etag else {})}
        connection, filled = self._connection(), False
        try:
            if connection.sock is None:
                _connect(connection)
            connection.request("GET", target, headers=headers)
            filled = _received(connection, f"bytes {start}-{last}/", into)
        except (OSError, http.client.HTTPException, ValueError):
            pass
        if filled and connection.sock is not None:
            self._idle.append(connection)
        else:
            connection.close()
        self._failed = -1 if filled else self._failed + (self._failed >= 0)
        return filled

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


def _connect(connection: http.client.HTTPConnection) -> None:
    connection.connect()
    # The kernel keeps the time, so that one call may wait for all bytes.
    connection.sock.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", _SILENT, 0))


def _received(connection: http.client.HTTPConnection, content_range: str, into: memoryview) -> bool:
    link = connection.sock
    with contextlib.closing(connection.getresponse()) as answer:
        # Some servers answer a range by 200.
        if (
            answer.status not in (200, 206)
            or answer.length != len(into)
            or not (answer.getheader("Content-Range") or "").startswith(content_range)
            or answer.getheader("Content-Encoding")
        ):
            return False
        filled = answer.readinto(into[: len(answer.fp.peek())])  # what came together with the headers
        while filled < len(into):
            nbytes = link.recv_into(into[filled:], len(into) - filled, socket.MSG_WAITALL)
            if nbytes == 0:
                return False
            filled += nbytes
    return True


_servers: dict[str, _Server] = {}


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
        self._url, self._keys, self._region = url, keys, region
        host = urllib.parse.urlsplit(url).netloc
        self._server = _servers.setdefault(host, _Server(host))
        self._target = _target(url)
        self._signed = -float(_SIGN_AGAIN)  # when

    def readinto(self, start: int, into: memoryview, etag: str) -> bool:
        """Fill a view with the bytes from `start` on; False: they didn't come so, for whatever reason.

        Parameters
        ----------
        start : int
            In bytes; all bytes of the view are within the file.
        into : memoryview
            Of bytes.
        etag : str
            Of the content that is wanted; empty: of any.
        """
        if not self._server.is_usable:
            return False
        if self._keys is not None and time.monotonic() - self._signed >= _SIGN_AGAIN:
            self._target, self._signed = self._signature(), time.monotonic()
        filled = self._server.readinto(self._target, start, into, etag)
        if not filled:
            self._signed = -float(_SIGN_AGAIN)
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
    return "http" not in urllib.request.getproxies() or bool(urllib.request.proxy_bypass(parts.netloc))


os.register_at_fork(after_in_child=_servers.clear)
