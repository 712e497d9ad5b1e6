"""Files that the page cache doesn't have, beside the best floor at any depth.

Before each run every file is dropped from the page cache (`posix_fadvise`), and `mincore` checks that its pages are
gone. The floors do nothing but read: 1, 4, 16, 64 and 128 requests at a time, by as many threads or by one thread with
io_uring. In each round they and the contenders run once each, in rotating order; a ratio is a contender's rate divided
by that of the floor with the best median, in the same round. Contenders: each backend of the request engine, through
the page cache and past it, and workers that wait themselves. The processors' time is that of all threads of this
process.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import Pass, whole_pass  # noqa: E402

DEPTHS = (1, 4, 16, 64, 128)
CHUNK = 1 << 20


def drop(names: list[str], yardstick: Any) -> None:
    """Take files out of the page cache."""
    for name in names:
        fd = os.open(name, os.O_RDONLY)
        try:
            for _ in range(100):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                left = yardstick.resident(fd)
                if left <= 0.001:
                    break
                time.sleep(0.01)
            else:
                raise SystemExit(f"{left:.0%} of {name} stays in the page cache")
        finally:
            os.close(fd)


@dataclass
class Case:
    """Contenders and floors over the same cold files.

    Attributes
    ----------
    title : str
    names : list of str
        The files.
    nbytes : int
        Bytes that one run brings.
    """

    title: str
    names: list[str]
    nbytes: int
    runs: list[tuple[str, Callable[[], float]]] = field(default_factory=list)
    targets: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, run: Callable[[], Pass], rows: int, at_least: float | None = None) -> None:
        """Add a contender, which must bring so many rows."""

        def rate() -> float:
            got, seconds = run()
            if got != rows:
                raise AssertionError(f"{name}: {got} rows, not {rows}")
            return self.nbytes / seconds / 1e6

        self.runs.append((name, rate))
        if at_least is not None:
            self.targets[name] = at_least

    def add_floor(self, name: str, run: Callable[[], tuple[int, int]]) -> None:
        """Add a floor."""

        def rate() -> float:
            got, elapsed = run()
            if got != self.nbytes:
                raise AssertionError(f"{name}: {got} bytes, not {self.nbytes}")
            return got / elapsed * 1e3

        self.runs.append((f"floor: {name}", rate))

    def add_floors(self, yardstick: Any, parts: Any, absences: dict[str, str]) -> None:
        """Add the floors that read parts of files: (number of the file, offset, bytes) of each."""
        import numpy as np

        fds = [os.open(name, os.O_RDONLY) for name in self.names]
        of = np.array([fds[index] for index in parts[0]], np.int32)
        offsets, lengths = (np.ascontiguousarray(one, np.int64) for one in parts[1:])
        for way in ("threads", "uring"):
            for depth in DEPTHS:
                try:
                    yardstick.read_pass(of[:1], offsets[:1], lengths[:1], depth, way)
                except NotImplementedError as error:
                    absences[f"{way} ({self.title})"] = str(error)
                    break
                self.add_floor(
                    f"{depth} reads by {way}",
                    lambda depth=depth, way=way: yardstick.read_pass(of, offsets, lengths, depth, way),
                )

    def measure(self, rounds: int, yardstick: Any) -> tuple[list[dict[str, Any]], dict[str, list[float]]]:
        """Run everything in turns; return the findings, and of every run MB/s, and the processor's seconds for a GB."""
        work: dict[str, list[float]] = {name: [] for name, _ in self.runs}

        def cold(name: str, run: Callable[[], float]) -> float:
            drop(self.names, yardstick)
            begun = time.process_time()
            rate = run()
            work[name].append((time.process_time() - begun) / self.nbytes * 1e9)
            return rate

        raw = harness.rotate([(name, lambda name=name, run=run: cold(name, run)) for name, run in self.runs], rounds)
        medians = {name: statistics.median(runs) for name, runs in raw.items()}
        best = max((name for name in raw if name.startswith("floor: ")), key=medians.__getitem__)
        findings = [
            harness.finding(f"{self.title}: best {best}", "MB/s", raw[best]),
            harness.finding(f"{self.title}: best {best}", "s of processors a GB", work[best]),
        ]
        for name in raw:
            if not name.startswith("floor: "):
                ratios = [one / other for one, other in zip(raw[name], raw[best], strict=True)]
                full = f"{self.title}: {name}"
                findings.append(harness.finding(full, "of the floor", ratios, at_least=self.targets.get(name)))
                findings.append(harness.finding(full, "MB/s", raw[name]))
                findings.append(harness.finding(full, "s of processors a GB", work[name]))
        return findings, raw | {f"processors: {name}": runs for name, runs in work.items()}


def chunks(sizes: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return files as parts, one after the other."""
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for index, size in enumerate(sizes):
        for offset in range(0, size, CHUNK):
            for to, value in zip(parts, (index, offset, min(CHUNK, size - offset)), strict=True):
                to.append(value)
    return parts


def add_dataset(case: Case, dataset: Any, rows: int, target: float) -> None:
    """Add a dataset as it is, and with workers that wait for the storage themselves."""
    from queuecore.data import Options

    case.add("queuecore", lambda: whole_pass(dataset), rows, target)
    waiting = dataset.with_options(Options(io="pread"))
    case.add('queuecore, Options(io="pread")', lambda: whole_pass(waiting), rows)


def add_backends(case: Case, dataset: Any, rows: int, absences: dict[str, str]) -> None:
    """Add a dataset of records at known places with each backend, through the page cache and past it."""
    from queuecore._core.io.uring import refusal
    from queuecore.data import Options

    direct = dataset.with_options(Options(direct=True))
    case.add("queuecore, Options(direct=True)", lambda: whole_pass(direct), rows)
    if refusal():
        absences[f"queuecore by io_uring ({case.title})"] = os.strerror(refusal())
        return
    ring = dataset.with_options(Options(io="uring"))
    case.add('queuecore, Options(io="uring")', lambda: whole_pass(ring), rows)
    both = dataset.with_options(Options(io="uring", direct=True))
    case.add('queuecore, Options(io="uring", direct=True)', lambda: whole_pass(both), rows)


def run(options: harness.Options) -> dict[str, Any]:
    """Measure records one after the other, records anywhere, and many small files."""
    import numpy as np

    import queuecore as qc
    from queuecore.data import FixedLengthRecordDataset, TFRecordDataset, WholeFileDataset

    yardstick = harness.native("cold_native")
    files, file_bytes, rounds = (2, 64 << 20, 3) if options.quick else (8, 256 << 20, 9)
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    absences: dict[str, str] = {}

    def finish(case: Case) -> None:
        if options.case not in case.title:
            return
        print(f"  {case.title}", file=sys.stderr, flush=True)
        some, runs = case.measure(rounds, yardstick)
        findings.extend(some)
        raw[case.title] = runs

    with harness.scratch(options) as folder:
        names = harness.write_files(folder, files, file_bytes // 4096, 4096)
        rows = file_bytes // 3072
        in_order = Case("3,072-byte records in order", names, files * rows * 3072)
        in_order.add_floors(yardstick, chunks([rows * 3072] * files), absences)
        records = FixedLengthRecordDataset(names, record=np.dtype(("u1", (3072,))), tail="drop")
        add_dataset(in_order, records.batch(128), files * rows, 0.90)
        add_backends(in_order, records.batch(128), files * rows, absences)
        window = records.shuffle(10_000, seed=7).batch(128)
        in_order.add("queuecore, shuffle(10_000)", lambda: whole_pass(window), files * rows)
        finish(in_order)
        for size in (3_072, 16_384, 110_000):
            per_file = file_bytes // size
            few = min(files * per_file, 4_000 if options.quick else 60_000)
            records = FixedLengthRecordDataset(names, record=np.dtype(("u1", (size,))), tail="drop")
            places = np.random.default_rng(size).permutation(files * per_file)[:few]
            case = Case(f"{size:,}-byte records anywhere", names, few * size)
            case.add_floors(yardstick, (places // per_file, places % per_file * size, np.full(few, size)), absences)
            anywhere = records.permute(7).take(few).batch(max(1, (512 << 10) // size))
            add_dataset(case, anywhere, few, 0.85)
            add_backends(case, anywhere, few, absences)
            finish(case)
    with harness.scratch(options) as folder:
        count = file_bytes // 3_100
        content = np.random.default_rng(1).bytes(3_000 + count)
        names = [str(folder / f"{index}.tfrecord") for index in range(files)]
        for name in names:
            with qc.TFRecordWriter(name) as writer:
                for index in range(count):
                    writer.write(content[index : index + 3_000])
        harness.reread_files(names)
        sizes = [os.path.getsize(name) for name in names]
        case = Case("TFRecords of 3,000 bytes in order", names, sum(sizes))
        case.add_floors(yardstick, chunks(sizes), absences)
        add_dataset(case, TFRecordDataset(names).batch(128), files * count, 0.90)
        finish(case)
    with harness.scratch(options) as folder:
        small = 2_000 if options.quick else 20_000
        names = harness.write_files(folder, small, 1, 60_000)
        case = Case(f"{small:,} files of 60,000 bytes", names, small * 60_000)
        for depth in DEPTHS:
            case.add_floor(f"{depth} files by threads", lambda depth=depth: yardstick.files_pass(names, depth))
        add_dataset(case, WholeFileDataset(names).batch(16), small, 0.85)
        finish(case)
    if not findings:
        raise SystemExit(f"no case has {options.case!r} in its title")
    return harness.report(
        "cold",
        "files that the page cache doesn't have, as a share of the best floor at any depth, on two cores",
        findings,
        raw,
        parameters={"files": files, "file_bytes": file_bytes, "rounds": rounds, "depths": DEPTHS},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
