"""Stream fixed-length record files three ways and time them: the preadv floor, a plain Python loader, and queuecore.

The floor is what one thread can do when it only asks the kernel for the bytes: ``preadv`` into one reused buffer of
about a batch. Nothing that looks at the data can be much faster on one core, so rates are given as shares of it. All
contenders run in one process, on the same files, in turns: the floor itself drifts within minutes. The share that other
programs take of the machine is looked at too, and what each contender takes of the processors, which hardly depends on
them.
"""

from __future__ import annotations

import mmap
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from queuecore import data
from queuecore._machine import cpus
from queuecore.cli.progress import Progress, counted

__all__ = [
    "Comparison",
    "MeasuredSource",
    "Pass",
    "available_memory",
    "compare",
    "cores",
    "cpu_model",
    "floor_pass",
    "others_note",
    "plain_batches",
    "plain_pass",
    "queuecore_pass",
    "row_count",
]

# Below this, a floor taken from Python would measure the interpreter and not the kernel.
MIN_FLOOR_CHUNK = 128 * 1024

# A share of the processors' time, above which others count; and a ratio of rates, above which the floor swings.
_BUSY = 0.05
_SWING = 1.3


@dataclass(frozen=True)
class MeasuredSource:
    """Files of fixed-length records and how to cut them.

    Attributes
    ----------
    paths : tuple of str
        Files, in the order in which they are read.
    sizes : tuple of int
        Their sizes in bytes.
    record : numpy.dtype or None
        The record's dtype; None for rows of plain bytes.
    record_bytes : int
        Size of one record.
    header_bytes, footer_bytes : int
        Bytes to leave out at both ends of every file.
    tail : {"error", "drop"}
        What to do with a partial record at the end of a file.
    """

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    record: np.dtype[Any] | None
    record_bytes: int
    header_bytes: int = 0
    footer_bytes: int = 0
    tail: Literal["error", "drop"] = "error"

    def records_in(self, size: int) -> int:
        """Return how many whole records a file of `size` bytes holds."""
        return max(size - self.header_bytes - self.footer_bytes, 0) // self.record_bytes

    @property
    def record_count(self) -> int:
        """Number of whole records in all files."""
        return sum(self.records_in(size) for size in self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes in all files."""
        return sum(self.sizes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype for :func:`numpy.frombuffer`."""
        return self.record if self.record is not None else np.dtype(("u1", (self.record_bytes,)))

    def first(self, records: int) -> MeasuredSource:
        """Return the shortest prefix of the files that holds `records` records."""
        count = 0
        for index, size in enumerate(self.sizes):
            count += self.records_in(size)
            if count >= records:
                return replace(self, paths=self.paths[: index + 1], sizes=self.sizes[: index + 1])
        return self

    def parts(self, nbytes: int) -> list[MeasuredSource]:
        """Return the files in groups of so many bytes or less, or of one file; at the end there may be fewer bytes."""
        groups: list[MeasuredSource] = []
        first = 0
        for last in range(1, len(self.sizes) + 1):
            if last == len(self.sizes) or sum(self.sizes[first : last + 1]) > nbytes:
                groups.append(replace(self, paths=self.paths[first:last], sizes=self.sizes[first:last]))
                first = last
        return groups

    def dataset(self, threads: int | None = None) -> Any:
        """Return queuecore's dataset over these files, with default options unless `threads` is given."""
        dataset: Any = data.FixedLengthRecordDataset(
            list(self.paths),
            None if self.record is not None else self.record_bytes,
            self.header_bytes,
            self.footer_bytes,
            record=self.record,
            tail=self.tail,
        )
        return dataset if threads is None else dataset.with_options(data.Options(num_threads=threads))


@dataclass(frozen=True)
class Pass:
    """One timed pass over the files.

    Parameters
    ----------
    records : int
        The number of records that were read.
    nbytes : int
        Their bytes in the files.
    seconds : float
        The duration.
    cpu_seconds : float
        The time of all processors that this process took for it.
    """

    records: int
    nbytes: int
    seconds: float
    cpu_seconds: float = 0.0

    @property
    def records_per_s(self) -> float:
        """Records per second."""
        return self.records / self.seconds

    @property
    def bytes_per_s(self) -> float:
        """Bytes per second, as they stand in the files."""
        return self.nbytes / self.seconds

    @property
    def cpu_us_per_record(self) -> float:
        """Time of the processors for a record, in microseconds."""
        return 1e6 * self.cpu_seconds / max(self.records, 1)


class _Clock:
    """Measures a pass from here on, in time and in time of the processors."""

    def __init__(self) -> None:
        self._cpu, self._start = time.process_time(), time.perf_counter()

    def passed(self, records: int, nbytes: int) -> Pass:
        """Return the pass that ends here."""
        return Pass(records, nbytes, time.perf_counter() - self._start, time.process_time() - self._cpu)


def cores() -> int:
    """Return how many cores this process may use."""
    return cpus()


def cpu_model() -> str:
    """Return the processor's name, or "unknown processor"."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "Model")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown processor"


def available_memory() -> int | None:
    """Return the bytes of memory that the page cache could still use, or None if the system doesn't say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def row_count(batch: Any) -> int:
    """Return the number of rows in a batch: an array, or a dict or tuple (nested at will) of arrays."""
    while not isinstance(batch, np.ndarray):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return int(batch.shape[0])


def _read_range(fd: int, buffer: memoryview, start: int, stop: int) -> None:
    chunk = len(buffer)
    while start < stop:
        got = os.preadv(fd, [buffer if stop - start >= chunk else buffer[: stop - start]], start)
        if got == 0:
            return
        start += got


def floor_pass(source: MeasuredSource, batch: int) -> Pass:
    """Read every byte of the files with ``preadv`` into one reused buffer.

    Parameters
    ----------
    source : Source
        The files.
    batch : int
        Records per batch: the buffer has that size, but at least 128 KiB.
    """
    size = max(batch * source.record_bytes, MIN_FLOOR_CHUNK)
    # Aligned to a page. Not closed by hand: after Ctrl-C a traceback may still refer to it, and closing would fail.
    buffer = memoryview(mmap.mmap(-1, size))
    for offset in range(0, size, mmap.PAGESIZE):
        buffer[offset] = 1  # touched now, so that the pass doesn't pay for the page faults
    clock = _Clock()
    for path, nbytes in zip(source.paths, source.sizes, strict=True):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _read_range(fd, buffer, 0, nbytes)
        finally:
            os.close(fd)
    return clock.passed(source.record_count, source.nbytes)


def _split(rows: np.ndarray, dtype: np.dtype[Any]) -> Any:
    if dtype.names is None:
        return np.array(rows, dtype=rows.dtype.newbyteorder("="))
    return {name: _split(rows[name], dtype[name].base) for name in dtype.names}


def plain_batches(source: MeasuredSource, batch: int) -> Iterator[Any]:
    """Yield batches as a plain Python loop makes them: ``open``, ``read``, ``np.frombuffer``, one copy per field.

    Parameters
    ----------
    source : Source
        The files.
    batch : int
        Records per batch; the last one may be shorter. A partial record at the end of a file is dropped.
    """
    record_bytes, dtype = source.record_bytes, source.dtype
    field_type = source.record if source.record is not None else np.dtype("u1")
    rest = b""
    for path, size in zip(source.paths, source.sizes, strict=True):
        remainder = source.records_in(size) * record_bytes
        with open(path, "rb") as file:
            file.seek(source.header_bytes)
            while remainder:
                raw = file.read(min(batch * record_bytes - len(rest), remainder))
                if not raw:
                    break
                remainder -= len(raw)
                if rest:
                    raw, rest = rest + raw, b""
                if len(raw) < batch * record_bytes:
                    rest = raw
                    break
                yield _split(np.frombuffer(raw, dtype), field_type)
    if whole := len(rest) // record_bytes:
        yield _split(np.frombuffer(rest, dtype, whole), field_type)


def _plain_shuffled(source: MeasuredSource, batch: int, window: int, seed: int) -> Iterator[Any]:
    # As a short script does it: block by block. That mixes less, and works less, than a sliding window.
    generator = np.random.default_rng(seed)
    for block in plain_batches(source, window):
        order = generator.permutation(row_count(block))
        for start in range(0, len(order), batch):
            yield _take(block, order[start : start + batch])


def _take(block: Any, order: np.ndarray) -> Any:
    return {name: _take(field, order) for name, field in block.items()} if isinstance(block, dict) else block[order]


def plain_pass(source: MeasuredSource, batch: int, shuffle: int = 0, seed: int = 0) -> Pass:
    """Time :func:`plain_batches` over all files, shuffled in blocks of `shuffle` records if that is not 0."""
    rows = 0
    clock = _Clock()
    for one in _plain_shuffled(source, batch, shuffle, seed) if shuffle else plain_batches(source, batch):
        rows += row_count(one)
    return clock.passed(rows, rows * source.record_bytes)


def queuecore_pass(dataset: Any, record_bytes: int, progress: Progress | None = None) -> Pass:
    """Time one iteration of `dataset`, from ``iter()`` until its threads have ended."""
    rows = 0
    clock = _Clock()
    with iter(dataset) as batches:
        for one in batches:
            count = row_count(one)
            rows += count
            if progress is not None:
                progress.update(count)
    return clock.passed(rows, rows * record_bytes)


@dataclass(frozen=True)
class ReportRow:
    """The outcome of one contender.

    Attributes
    ----------
    name : str
        Its name.
    median : Pass
        Its pass of median rate.
    ratio : float
        The median over the rounds of its rate beside the floor's in the same round.
    cpu_us : float
        The median of its time of the processors for a record, in microseconds.
    """

    name: str
    median: Pass
    ratio: float
    cpu_us: float


@dataclass(frozen=True)
class Comparison:
    """Contenders that were measured in turns.

    Attributes
    ----------
    rows : list of Row
        The outcome of each.
    note : str or None
        If other programs were at work: what that was, for people.
    """

    rows: list[ReportRow]
    note: str | None


def compare(
    contenders: Sequence[tuple[str, Callable[[MeasuredSource], Pass]]], parts: Sequence[MeasuredSource], rounds: int
) -> Comparison:
    """Run contenders in turns and return their median passes.

    Parameters
    ----------
    contenders : sequence of (str, callable)
        Names and functions; the first is the floor.
    parts : sequence of Source
        What they read: in each round all of them the same one, the next one in the next round. Small ones make short
        rounds, in which a machine changes less.
    rounds : int
        How often each of them runs. The order rotates, so that none always runs in the wake of the same other.
    """
    passes: list[list[Pass]] = [[] for _ in contenders]
    times_before, load, cpu_begin_s = _machine_times(), os.getloadavg()[0], time.process_time()
    with Progress("measure", rounds * len(contenders), "passes") as progress:
        for turn in range(rounds):
            for step in range(len(contenders)):
                index = (turn + step) % len(contenders)
                passes[index].append(contenders[index][1](parts[turn % len(parts)]))
                progress.update(1)
    note = others_note(
        times_before,
        _machine_times(),
        time.process_time() - cpu_begin_s,
        load,
        [pass_.bytes_per_s for pass_ in passes[0]],
    )
    rows = []
    for (name, _), mine in zip(contenders, passes, strict=True):
        ratios = [pass_.bytes_per_s / floor.bytes_per_s for pass_, floor in zip(mine, passes[0], strict=True)]
        median = sorted(mine, key=lambda pass_: pass_.bytes_per_s)[len(mine) // 2]
        cpu = statistics.median(pass_.cpu_us_per_record for pass_ in mine)
        rows.append(ReportRow(name, median, statistics.median(ratios), cpu))
    return Comparison(rows, note)


def _machine_times() -> tuple[float, float, float]:
    """Return for how long the processors were at work, were taken away by the host, and were there, in seconds."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            times = [int(word) / os.sysconf("SC_CLK_TCK") for word in file.readline().split()[1:9]]
        user, nice, system, idle, waiting, irq, softirq, steal = times
    except (OSError, ValueError):
        return 0.0, 0.0, 0.0
    return user + nice + system + irq + softirq, steal, sum(times)


def others_note(
    times_before: tuple[float, float, float],
    times_after: tuple[float, float, float],
    own_cpu_s: float,
    load: float,
    floors: Sequence[float],
) -> str | None:
    """Return what else went on while something was measured; `None`: nothing to speak of.

    Parameters
    ----------
    times_before, times_after : (float, float, float)
        Of the machine's processors: seconds at work, taken away by the host (steal), and in all.
    own_cpu_s : float
        Seconds of the processors that this process took.
    load : float
        The load average before.
    floors : sequence of float
        The rates of the floor, in rounds.
    """
    busy, steal, total = (end - start for start, end in zip(times_before, times_after, strict=True))
    ordered = sorted(floors)
    spare = len(ordered) // 10  # rounds that stand out by themselves
    swing = ordered[-1 - spare] / ordered[spare]
    others = (busy - own_cpu_s) / total if total else 0.0
    remarks = []
    if others > _BUSY:
        remarks.append(f"other programs took {100 * others:.0f}% of its processors")
    if total and steal / total > _BUSY:
        remarks.append(f"its host took {100 * steal / total:.0f}% away (steal)")
    if load > cores() / 2:
        remarks.append(f"the load was {load:.1f} on {counted(cores(), 'core')} before")
    if swing > _SWING:
        remarks.append(f"the floor swung by a factor of {swing:.1f} from round to round")
    if not remarks:
        return None
    return (
        f"note: the machine was busy: {', '.join(remarks)}. Rates are lower for it, those of several threads most of "
        "all; the processors' time for a record hardly depends on it"
    )


def print_table(rows: Sequence[ReportRow]) -> None:
    """Print the rows of :func:`compare` on standard output."""
    width = max(len(row.name) for row in rows)
    print(f"  {'':{width}}  {'records/s':>12}  {'GB/s':>7}  {'of the floor':>12}  {'CPU us/record':>13}")
    for row in rows:
        rates = f"{row.median.records_per_s:>12,.0f}  {row.median.bytes_per_s / 1e9:>7.2f}  {row.ratio:>12.2f}"
        print(f"  {row.name:{width}}  {rates}  {row.cpu_us:>13.2f}", flush=True)


def stream_and_compare(
    source: MeasuredSource,
    batch: int,
    *,
    shuffle: int = 0,
    seed: int | None = None,
    epochs: int = 1,
    threads: int | None = None,
    rounds: int = 5,
    compare_bytes: int = 2 * 10**9,
) -> None:
    """Stream the files once for all `epochs`, then print a comparison of warm passes.

    Parameters
    ----------
    source : Source
        The files.
    batch : int
        Records per batch.
    shuffle : int, default 0
        Size of the shuffle window in records; 0 keeps the order of the files.
    seed : int, optional
        Seed of the shuffle.
    epochs : int, default 1
        How often the first, unmeasured pass goes through the files.
    threads : int, optional
        Native worker threads; by default queuecore decides.
    rounds : int, default 5
        Rounds of the comparison; 0 leaves it out.
    compare_bytes : int, default 2 GB
        The comparison reads at most about this much of the leading files.
    """
    dataset = source.dataset(threads)
    if shuffle:
        dataset = dataset.shuffle(shuffle, seed=seed)
    if epochs != 1:
        dataset = dataset.repeat(epochs)
    dataset = dataset.batch(batch)
    with Progress("stream", source.record_count * epochs, "records") as progress:
        first_pass = queuecore_pass(dataset, source.record_bytes, progress)
    print(
        f"streamed {first_pass.records:,} records in {first_pass.seconds:.2f} s: "
        f"{first_pass.records_per_s:,.0f} records/s, {first_pass.bytes_per_s / 1e9:.2f} GB/s "
        "(first pass, files may have come from the disk)",
        flush=True,
    )
    if not rounds or not first_pass.records:
        return

    records = min(source.record_count, max(compare_bytes // source.record_bytes, 1))
    subset = source.first(records)
    if subset.nbytes > compare_bytes:
        # One large file: cut it, so that a comparison stays a matter of seconds.
        kept = sum(subset.records_in(size) for size in subset.sizes[:-1])
        last = subset.header_bytes + subset.footer_bytes + (records - kept) * subset.record_bytes
        subset = replace(subset, sizes=(*subset.sizes[:-1], last))
    limited = subset.record_count < source.record_count
    timed = subset.dataset(threads)
    if limited:
        timed = timed.take(subset.record_count)
    if shuffle:
        timed = timed.shuffle(shuffle, seed=seed)
    timed = timed.batch(batch)
    plain = "plain Python, block shuffle" if shuffle else "plain Python"
    ours = "queuecore" + (f", window {shuffle:,}" if shuffle else "")
    ours += "" if threads is None else f", {counted(threads, 'thread')}"
    compared = compare(
        [
            ("preadv floor, one thread", lambda part: floor_pass(part, batch)),
            (plain, lambda part: plain_pass(part, batch, shuffle, seed or 0)),
            (ours, lambda part: queuecore_pass(timed, part.record_bytes)),
        ],
        [subset],
        rounds,
    )
    part = f"the first {subset.record_count:,} records" if limited else f"{subset.record_count:,} records"
    print(f"{part} again, {counted(rounds, 'round')} in turns, medians, {cores()} cores ({cpu_model()}):")
    print_table(compared.rows)
    if compared.note:
        print(compared.note)
    memory = available_memory()
    if memory is not None and subset.nbytes > memory // 2:
        print("note: the files may not fit in the page cache; these figures may be the disk's")
