"""Remote files of real servers on this machine: S3 by s3fs, and HTTP by aiohttp, with what servers do wrong."""

import contextlib
import email.utils
import gzip
import http.server
import itertools
import socket
import threading
import traceback
import weakref

import numpy as np
import pytest
from helpers.process import soon

from queuecore._io import object_store, plain_http, remote
from queuecore.data import Dataset, FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset
from queuecore.errors import (
    NotFoundError,
    PermissionDeniedError,
    QueueCoreError,
    SourceChangedError,
    UnavailableError,
    UnimplementedError,
)
from queuecore.writers import FixedLengthRecordWriter, TFRecordWriter

pytestmark = pytest.mark.doors

NBYTES = 3_000_000
CONTENT = np.random.default_rng(0).bytes(NBYTES)


def joined(ds):
    return b"".join(np.asarray(batch).tobytes() for batch in ds)


@pytest.fixture(scope="module", autouse=True)
def libraries():
    """Start the threads that libraries keep as long as the process: whichever test comes first, it leaves nothing."""
    pytest.importorskip("fsspec.asyn").get_loop()
    with contextlib.suppress(ImportError):
        import obstore.store

        obstore.put(obstore.store.MemoryStore(), "a", b"a")


# ---- S3 -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moto():
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(params=["s3fs", "obstore", "plain"])
def bucket(moto, monkeypatch, request):
    """A bucket with three objects, by each way to read it: its client, and the options to read it."""
    import boto3
    import s3fs

    monkeypatch.setattr(object_store, "_stores", weakref.WeakKeyDictionary())
    if request.param != "plain":
        monkeypatch.setattr(remote, "plain_file", lambda *_: None)
    if request.param == "s3fs":
        monkeypatch.setattr(object_store, "_store", lambda *_: None)
    elif request.param == "obstore":
        pytest.importorskip("obstore")
    for name, value in (("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3", endpoint_url=moto)
    client.create_bucket(Bucket="bucket")
    for number in range(3):
        client.put_object(Bucket="bucket", Key=f"train/{number}.bin", Body=CONTENT)
    yield client, {"endpoint_url": moto}
    s3fs.S3FileSystem.clear_instance_cache()
    for one in client.list_objects_v2(Bucket="bucket").get("Contents", []):
        client.delete_object(Bucket="bucket", Key=one["Key"])
    client.delete_bucket(Bucket="bucket")


def test_s3(bucket, tmp_path):
    _, options = bucket
    ds = FixedLengthRecordDataset("s3://bucket/train/*.bin", 100, storage_options=options)
    assert len(ds) == 3 * NBYTES // 100
    assert joined(ds.batch(64)) == 3 * CONTENT
    kept = ds.batch(64).with_options(Options(cache_dir=tmp_path / "cache"))
    assert joined(kept) == joined(kept) == 3 * CONTENT
    assert joined(kept.with_options(Options(offline=True))) == 3 * CONTENT
    permuted = [np.asarray(record).tobytes() for record in ds.take(500).permute(seed=1)]
    assert sorted(permuted) == sorted(CONTENT[at : at + 100] for at in range(0, 50_000, 100))
    names = Dataset.list_files("s3://bucket/train/*", shuffle=False, storage_options=options)
    assert list(names) == [b"s3://bucket/train/%d.bin" % number for number in range(3)]


def test_what_s3_does_not_have(bucket):
    _, options = bucket
    with pytest.raises(NotFoundError):
        next(iter(FixedLengthRecordDataset("s3://bucket/train/9.bin", 100, storage_options=options)))
    with pytest.raises(NotFoundError):
        next(iter(FixedLengthRecordDataset("s3://other/train/9.bin", 100, storage_options=options)))


@pytest.mark.parametrize("name", ["0.bin", "*"])
def test_an_object_of_s3_that_is_replaced(bucket, name, monkeypatch):
    client, options = bucket
    requests = itertools.count()

    def replaced(file, *range_, read=remote._File._requested):
        if next(requests) == 1:
            client.put_object(Bucket="bucket", Key="train/0.bin", Body=CONTENT[::-1])
        return read(file, *range_)

    monkeypatch.setattr(remote._File, "_requested", replaced)
    monkeypatch.setattr(plain_http, "_NEAR", 0)  # otherwise one answer has all of the first content
    ds = FixedLengthRecordDataset(f"s3://bucket/train/{name}", 100, storage_options=options).batch(64)
    with pytest.raises(SourceChangedError):
        joined(ds)


def test_each_way_reads_what_s3fs_opened(bucket, monkeypatch, request):
    _, options = bucket
    way = request.node.callspec.params["bucket"]
    nbytes = {"obstore": [], "plain": []}

    def by_obstore(store, key, start, end, etag, read=object_store.ObjectStore.range):
        data = read(store, key, start, end, etag)
        nbytes["obstore"].append(len(data))
        return data

    def plainly(file, start, into, *rest, read=plain_http.PlainFile.readinto):
        filled = read(file, start, into, *rest)
        nbytes["plain"].append(len(into) * filled)
        return filled

    monkeypatch.setattr(object_store.ObjectStore, "range", by_obstore)
    monkeypatch.setattr(plain_http.PlainFile, "readinto", plainly)
    ds = FixedLengthRecordDataset("s3://bucket/train/1.bin", 100, storage_options=options)
    assert joined(ds.batch(64)) == CONTENT
    assert {name: sum(some) for name, some in nbytes.items()} == {name: NBYTES if name == way else 0 for name in nbytes}


def test_a_saved_place_in_s3(bucket):
    _, options = bucket
    ds = FixedLengthRecordDataset("s3://bucket/train/*", 100, storage_options=options).shuffle(100, seed=1).batch(64)
    with iter(ds) as it:
        for _ in itertools.islice(it, 700):
            pass
        state, rest = it.state_dict(), None
        rest = joined(it)
    with iter(ds) as it:
        it.load_state_dict(state)
        assert joined(it) == rest != b""


def unfinished(client):
    return client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])


@pytest.mark.parametrize("nbytes", [0, 1000, 5 << 20, 12_345_678])
def test_an_object_of_s3_that_is_written(bucket, nbytes):
    client, options = bucket
    options = {**options, "default_block_size": 5 << 20}  # the smallest part that S3 takes
    record = CONTENT[:1000]
    with TFRecordWriter("s3://bucket/out/0", storage_options=options) as writer:
        for _ in range(nbytes // 1000):
            writer.write(record)
        assert client.list_objects_v2(Bucket="bucket", Prefix="out/")["KeyCount"] == 0
        assert len(unfinished(client)) == (nbytes >= 5 << 20)
    ds = TFRecordDataset("s3://bucket/out/0", storage_options=options)
    assert list(ds) == [record] * (nbytes // 1000)
    assert not unfinished(client)


@pytest.mark.parametrize("nbytes", [1000, 12_345_678])
@pytest.mark.parametrize("how", ["an exception", "forgotten"])
def test_an_object_of_s3_that_is_given_up(bucket, nbytes, how):
    client, options = bucket
    options = {**options, "default_block_size": 5 << 20}
    if how == "forgotten":
        with pytest.warns(ResourceWarning, match="unclosed"):
            writer = TFRecordWriter("s3://bucket/train/0.bin", storage_options=options)
            writer.write(bytes(nbytes))
            del writer
    else:
        with (
            pytest.raises(KeyError),
            FixedLengthRecordWriter("s3://bucket/train/0.bin", "u1", storage_options=options) as writer,
        ):
            writer.write(np.zeros(nbytes, "u1"))
            raise KeyError
    assert client.get_object(Bucket="bucket", Key="train/0.bin")["Body"].read() == CONTENT
    assert not unfinished(client)


def test_s3_refuses_what_is_written(bucket):
    client, options = bucket
    options = {**options, "default_block_size": 5 << 20}
    writer = TFRecordWriter("s3://missing/0", storage_options=options)
    with pytest.raises(NotFoundError, match="missing/0': .*does not exist.*Write the file anew"):
        writer.close()
    writer = TFRecordWriter("s3://bucket/out/0", storage_options=options)
    writer.write(bytes(6 << 20))
    (upload,) = unfinished(client)
    client.abort_multipart_upload(Bucket="bucket", Key="out/0", UploadId=upload["UploadId"])
    with pytest.raises(QueueCoreError, match="Write the file anew") as caught:  # moto says 500
        writer.write(bytes(6 << 20))
    writer.close()
    assert (caught.value.path, caught.value.record) == ("s3://bucket/out/0", 1)
    assert client.list_objects_v2(Bucket="bucket", Prefix="out/")["KeyCount"] == 0


@pytest.fixture
def faulty(web):
    """The options of an S3 that does what a test wants, with one object, which is the same at each URL."""
    pytest.importorskip("s3fs")
    yield {"endpoint_url": web.url.removesuffix("/file"), "key": "key", "secret": "a-secret-word", "token": "a-token"}


def error_of_s3(code):
    return f"<Error><Code>{code}</Code><Message>The {code} is so.</Message></Error>".encode()


@pytest.mark.parametrize("fault", [500, 503, "reset", "short"])
def test_s3_that_fails_for_a_while(web, faulty, fault):
    web.faults = [fault, None, fault]
    assert joined(FixedLengthRecordDataset("s3://bucket/file", 100, storage_options=faulty).batch(64)) == CONTENT


def test_credentials_of_s3_that_expire(web, faulty):
    web.until, web.then, web.said = 200_000, 400, error_of_s3("ExpiredToken")
    got = []
    with pytest.raises(PermissionDeniedError, match="The ExpiredToken is so") as caught:
        for batch in FixedLengthRecordDataset("s3://bucket/file", 100, storage_options=faulty).batch(64):
            got.append(np.asarray(batch).tobytes())
    assert 0 < len(b"".join(got)) < NBYTES and CONTENT.startswith(b"".join(got))
    said = "".join(traceback.format_exception(caught.value))
    assert "a-secret-word" not in said and "a-token" not in said


@pytest.mark.parametrize("written", [None, 10**9])
@pytest.mark.parametrize("way", ["s3fs", "obstore", "plain"])
def test_an_object_that_is_replaced_where_s3_ignores_conditions(web, faulty, monkeypatch, way, written):
    requests = itertools.count()

    def replaced(file, *range_, read=remote._File._requested):
        if next(requests) == 1:
            web.content = web.content[::-1]
            web.written = written and written + 60
        return read(file, *range_)

    web.written = written
    monkeypatch.setattr(remote._File, "_requested", replaced)
    monkeypatch.setattr(object_store, "_stores", weakref.WeakKeyDictionary())
    monkeypatch.setattr(plain_http, "_NEAR", 0)
    if way != "plain":
        monkeypatch.setattr(remote, "plain_file", lambda *_: None)
    if way == "s3fs":
        monkeypatch.setattr(object_store, "_store", lambda *_: None)
    with pytest.raises(SourceChangedError):
        joined(FixedLengthRecordDataset("s3://bucket/file", 100, storage_options=faulty).batch(64))


def test_lists_that_s3_denies(web, faulty):
    web.fault, web.said = 403, error_of_s3("AccessDenied")
    for ask in (Dataset.list_files, TextLineDataset):
        with pytest.raises(PermissionDeniedError, match="cannot list 's3://bucket/a."):
            ask("s3://bucket/a*", storage_options=faulty)
    writer = TFRecordWriter("s3://bucket/a", storage_options=faulty)
    with pytest.raises(QueueCoreError):
        writer.close()


# ---- HTTP -----------------------------------------------------------------------------------------------------------


SIGNED = "signed?X-Amz-Signature=deadbeef"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for one file, as well as its server's `fault` lets it."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections.append(self.connection)

    def log_message(self, format, *args):
        pass

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, body):
        server = self.server
        with server.lock:
            server.requests.append((self.command, self.headers.get("Range")))
            fault = server.faults.pop(0) if body and server.faults else server.fault
        asked_range = self.headers.get("Range")
        first, _, last = ("" if asked_range is None else asked_range).removeprefix("bytes=").partition("-")
        if body and int(first or 0) >= server.until:
            fault = server.then
        content = server.content
        if isinstance(fault, int):
            return self.send(fault, {}, server.said if body else b"", body)
        if fault == "reset" and body:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.close_connection = True
            return self.connection.close()
        if self.path.startswith("/signed"):
            return self.send(403, {}, b"no" if body else b"", body)
        if fault in ("redirect", "signed") and self.path.startswith("/file"):
            return self.send(302, {"Location": f"/{'moved' if fault == 'redirect' else SIGNED}"}, b"")
        if fault == "loop":
            return self.send(302, {"Location": self.path}, b"")
        # Some servers have the same ETag for everything.
        tags = {"ETag": '""', "Last-Modified": email.utils.formatdate(server.written, usegmt=True)}
        headers = {"ETag": f'"{hash(content)}"'} if server.written is None else tags
        accepts = "gzip" in self.headers.get("Accept-Encoding", "") or (fault == "gzip of bodies" and body)
        if fault == "gzip always" or (fault in ("gzip", "gzip of bodies") and accepts):
            packed = gzip.compress(content)
            return self.send(200, {**headers, "Content-Encoding": "gzip"}, packed, body)
        if asked_range is None or fault == "no ranges":
            return self.send(200, headers, content, body)
        part = content[int(first) : int(last) + 1] if last else content[int(first) :]
        if fault == "short" and body:
            self.send_response(206)
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part[: len(part) // 2])
            self.close_connection = True
            return None
        headers["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        return self.send(206, {**headers, "Accept-Ranges": "bytes"}, part, body)

    def send(self, code, headers, data, body=True):
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            if self.server.fault == "slow":
                for at in range(0, len(data), 100_000):
                    self.wfile.write(data[at : at + 100_000])
                    self.server.paused.wait(0.001)
                return
            self.wfile.write(data)


@pytest.fixture
def web(monkeypatch):
    pytest.importorskip("aiohttp")
    monkeypatch.setattr("queuecore._io.remote._FIRST_WAIT", 0.001)
    under_way = []

    def counted(file, *range_, read=remote._File._requested):
        under_way.append(None)
        try:
            return read(file, *range_)
        finally:
            under_way.pop()

    monkeypatch.setattr(remote._File, "_requested", counted)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.connections = []
    server.content, server.fault, server.faults, server.requests = CONTENT, None, [], []
    # From which byte on ranges aren't sent as asked for, and what comes instead.
    server.until, server.then, server.said, server.written = NBYTES, None, b"no", None
    server.lock, server.paused = threading.Lock(), threading.Event()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}/file"
    yield server
    assert soon(lambda: not under_way)  # libraries look for a server that is gone for a long time
    server.shutdown()
    thread.join()
    for connection in server.connections:  # clients keep them for the next request, and a thread waits at each
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    server.server_close()


def read(server, **words):
    return joined(FixedLengthRecordDataset(server.url, 100).batch(64).with_options(Options(**words)))


@pytest.mark.parametrize("fault", [None, "no ranges", "redirect", "slow", "gzip", "gzip always", "gzip of bodies"])
@pytest.mark.parametrize("kept", [False, True])
def test_what_a_server_may_do(web, tmp_path, fault, kept):
    web.fault = fault
    words = {"cache_dir": tmp_path} if kept else {}
    assert read(web, **words) == read(web, **words) == CONTENT


def test_a_server_that_ignores_ranges_is_asked_once(web):
    web.fault = "no ranges"
    ds = FixedLengthRecordDataset(web.url, 100)
    assert joined(ds.permute(seed=1).take(2000).batch(64)) != b""
    bodies = [wanted for command, wanted in web.requests if command == "GET" and wanted is not None]
    assert len(bodies) <= 16  # as many as are under way before the first one is there


@pytest.mark.parametrize("fault", [429, 500, 502, 503, 504, 408, "reset", "short"])
def test_what_passes(web, fault):
    web.faults = [None, fault, fault, None, fault]
    assert read(web) == CONTENT


@pytest.mark.parametrize(
    "fault, expected",
    [
        (404, NotFoundError),
        (403, PermissionDeniedError),
        (401, PermissionDeniedError),
        (410, QueueCoreError),
        (500, UnavailableError),
        ("reset", UnavailableError),
        ("short", UnavailableError),
    ],
)
def test_what_does_not_pass(web, fault, expected):
    web.fault = fault
    with pytest.raises(expected) as caught:
        read(web)
    assert caught.value.path == web.url and caught.value.__cause__ is not None


@pytest.mark.parametrize("other", [CONTENT[::-1], CONTENT + bytes(100), CONTENT[:-100]], ids=["other", "more", "less"])
def test_a_web_file_that_is_replaced(web, other):
    ds = FixedLengthRecordDataset(web.url, 100).batch(64)
    with iter(ds) as it, pytest.raises(SourceChangedError):
        next(it)
        web.content = other
        joined(it)


@pytest.mark.parametrize("then", [403, 401, 500, "reset", "short"])
def test_it_stops_half_way(web, then):
    web.url += "?X-Amz-Signature=deadbeef"
    web.until, web.then = 200_000, then
    got = []
    with pytest.raises(PermissionDeniedError if then in (401, 403) else UnavailableError) as caught:
        for batch in FixedLengthRecordDataset(web.url, 100).batch(64):
            got.append(np.asarray(batch).tobytes())
    assert 0 < len(b"".join(got)) < NBYTES and CONTENT.startswith(b"".join(got))
    assert caught.value.path == web.url.replace("deadbeef", "...") and caught.value.offset >= len(b"".join(got))
    said = "".join(traceback.format_exception(caught.value))
    assert "deadbeef" not in said and ("403" in said or then != 403)


@pytest.mark.parametrize("fault, expected", [("signed", PermissionDeniedError), ("loop", UnavailableError)])
def test_redirects_that_lead_nowhere(web, fault, expected):
    web.fault = fault
    with pytest.raises(expected) as caught:
        read(web)
    said = "".join(traceback.format_exception(caught.value))
    assert caught.value.path == web.url and "deadbeef" not in said, said


def test_a_host_that_has_no_address(monkeypatch):
    def resolve(host, *_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("queuecore._io.remote._FIRST_WAIT", 0.001)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(UnavailableError, match="'http://store.invalid/file': Name or service not known") as caught:
        next(iter(TextLineDataset("http://store.invalid/file")))
    assert caught.value.__cause__ is not None


def test_nobody_is_there():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(UnavailableError):
        next(iter(TextLineDataset(f"http://127.0.0.1:{port}/file")))


def test_the_web_is_not_written_to(web):
    with pytest.raises(UnimplementedError, match="can't be written by fsspec"):
        TFRecordWriter(web.url)


def test_a_web_file_is_kept(web, tmp_path):
    assert read(web, cache_dir=tmp_path / "cache") == CONTENT
    web.requests.clear()
    assert read(web, cache_dir=tmp_path / "cache") == CONTENT
    assert all(command == "HEAD" or wanted == "bytes=0-0" for command, wanted in web.requests), web.requests
