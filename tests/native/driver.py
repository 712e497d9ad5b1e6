"""One job over the native core, in a process of its own: driver.py JOB [SCALE].

test_sanitizers.py starts it, under a sanitizer or not. The last line printed is what the job found, as JSON. SCALE
multiplies the rounds.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SCALE = 1.0


def rounds(count: int) -> int:
    """Return a number of rounds for this run."""
    return max(1, int(count * SCALE))


def window() -> dict[str, object]:
    """Producers fill batches out of order, one consumer takes them in order."""
    from queuecore._core.testing import load

    runs = [load.stress_window(threads, rounds(2000), seed) for threads in (1, 2, 4) for seed in (1, 2)]
    return {
        "errors": [run["errors"] for run in runs],
        "lost": [run["planned"] - run["rows"] for run in runs],
    }


def parking() -> dict[str, object]:
    """Threads wait for each other: a lost wake-up ends in the watchdog."""
    from queuecore._core.testing import load

    return {"lost": [load.stress_parking(threads, rounds(5000)) for threads in (2, 4)]}


def slots() -> dict[str, object]:
    """Threads take and give back the slots of one slab."""
    from queuecore._core.testing import load

    return {"clashes": [load.stress_slots(threads, rounds(20000)) for threads in (2, 4)]}


def buffers() -> dict[str, object]:
    """Threads take and give back buffers, of which a few are kept."""
    from queuecore._core.testing import load

    return {"clashes": [load.stress_buffers(threads, rounds(2000)) for threads in (2, 4)]}


def fifo() -> dict[str, object]:
    """Rows through a lock-free ring: single takers, takers under the turn, a seal while rows are pushed."""
    from queuecore._core.testing import rings

    counts: dict[str, list[int]] = {}
    for seal_at in (0, rounds(1000)):
        for threads in ((1, 1, 0), (2, 2, 0), (3, 0, 2), (2, 1, 2)):
            for capacity, start in ((1, 0), (3, (1 << 63) - rounds(500)), (8, (8 << 40) - rounds(500)), (50, 0)):
                run = rings.stress_fifo(*threads, rounds(1000), capacity, start, seal_at)
                taken = run.pop("popped")
                if seal_at == 0:
                    run["refused"] = threads[0] * rounds(1000) - taken
                for name, count in run.items():
                    counts.setdefault(name, []).append(count)
    return counts


def blocking() -> dict[str, object]:
    """Threads wait for a lock-free ring: with the notifier's fence, and with the waiter's barrier."""
    from queuecore._core.testing import rings

    return {
        "light" if light else "fence": [rings.stress_blocking(pairs, rounds(5000), light) for pairs in (1, 2)]
        for light in (False, True)
    }


def queues() -> dict[str, object]:
    """Rows through the hand-off of queues: single calls, several rows in one piece, waits that run out, a close."""
    from queuecore._core.testing import hand

    counts: dict[str, list[int]] = {"lost": [], "disorder": []}
    for kind in ("fifo", "random"):
        for threads in ((1, 1), (2, 2), (4, 3)):
            for capacity, start in ((1, 0), (2, 2**63 - rounds(500)), (7, 2**32 - rounds(500)), (-1, 0)):
                run = hand.stress_hand(kind, *threads, rounds(1000), capacity, start)
                for name, count in run.items():
                    counts[name].append(count)
    return counts


def stops() -> dict[str, object]:
    """Python threads wait, without the GIL, for stops of their own and of a common parent, all requested at once."""
    import threading

    from queuecore._core.atoms.runtime import StopEvent

    deaf = []
    for turn in range(rounds(100)):
        parent = StopEvent()
        children = [StopEvent(parent) for _ in range(4)]
        heard: list[bool] = []
        waits = [threading.Thread(target=lambda one=one, h=heard: h.append(one.wait())) for one in [parent, *children]]
        # In odd turns each child is stopped by itself, too, and the parent several times over.
        sets = [threading.Thread(target=one.set) for one in ([*children, parent, parent] if turn % 2 else [parent])]
        for thread in [*waits, *sets]:
            thread.start()
        for thread in [*waits, *sets]:
            thread.join()
        deaf.append(len(waits) - sum(heard))
    return {"deaf": deaf}


def example() -> dict[str, object]:
    """Damaged Examples, in blocks of memory that end where they do."""
    sys.path.append(str(Path(__file__).parents[1]))
    from helpers.formats.example_wire import fuzz

    counts = {"parsed": 0, "refused": 0}
    for seed in range(rounds(4000)):
        for name, count in fuzz(seed).items():
            counts[name] += count
    return dict(counts)


def compressed() -> dict[str, object]:
    """Mutated compressed data: never a byte beyond its bounds, never other bytes than Python's own modules find."""
    import bz2
    import lzma
    import random
    import zlib

    from queuecore import errors, ops
    from queuecore._core.io.codecs import library
    from queuecore._core.testing import parsers

    max_bytes = 1 << 20
    state = random.Random(int(os.environ.get("QUEUECORE_FUZZ_SEED", "1")))
    # The words, the numbers, and Python's decompressors of one member, with the error that each raises.
    kinds = {
        ".gz": ("GZIP", 1, lambda: zlib.decompressobj(31), zlib.error),
        ".zlib": ("ZLIB", 2, zlib.decompressobj, zlib.error),
        ".zst": ("ZSTD", 3, None, None),
        ".lz4": ("LZ4", 4, None, None),
        ".xz": ("XZ", 5, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=129 << 20), lzma.LZMAError),
        ".bz2": ("BZ2", 6, bz2.BZ2Decompressor, OSError),
    }
    libraries = sorted({name for name in ("libisal", "libz", "libz-ng") if name in str(parsers.prefer_library(name))})
    seeds = {suffix: [] for suffix in kinds}
    for path in sorted((Path(__file__).parents[1] / "corpus" / "compressed").iterdir()):
        seeds[path.suffix].append(path.read_bytes())

    def mutated(data: bytes, others: list[bytes]) -> bytes:
        mutant = bytearray(data)
        for _ in range(state.choice([1, 1, 1, 2, 4, 16])):
            position = state.randrange(len(mutant) + 1)
            end = min(len(mutant), position + state.choice([1, 2, 4, 30]))
            way = state.randrange(7)
            if way == 0 and position < len(mutant):
                mutant[position] ^= 1 << state.randrange(8)
            elif way == 1:
                mutant[position:end] = state.randbytes(end - position)
            elif way == 2:
                del mutant[position:end]
            elif way == 3:
                mutant[position:position] = mutant[position:end] * state.choice([1, 3])
            elif way == 4:
                mutant[position:] = state.choice(others)[position:]
            elif way == 5:
                mutant[position:end] = state.choice([b"\x00", b"\xff", b"\x7f"]) * (end - position)
            else:
                del mutant[position:]
        return bytes(mutant)

    def expected(data: bytes, suffix: str) -> bytes | None:
        # Python's own word, member for member; None: it is an error, or too long.
        _, _, make, error = kinds[suffix]
        content = b""
        while data and len(content) <= max_bytes:
            stream = make()
            try:
                content += stream.decompress(data, max_bytes + 1)
            except error:
                return None
            if not stream.eof or (suffix == ".zlib" and stream.unused_data):
                return None
            data = stream.unused_data.lstrip(b"\0") if suffix in (".gz", ".xz") else stream.unused_data
        return content if len(content) <= max_bytes else None

    counts = dict.fromkeys(("wrong", "refused", "accepted", "places", "kinds", "long", "corpus"), 0)
    results: dict[str, set[int]] = {suffix: set() for suffix in kinds}

    def check(suffix: str, data: bytes) -> None:
        word, encoding, make, _ = kinds[suffix]
        if library(encoding) is None:
            return
        for name in libraries if encoding < 3 else libraries[:1]:
            parsers.prefer_library(name)
            source, into = state.choice([1, 2, 3, 7, 64, 1000, 100_000]), state.choice([1, 2, 3, 7, 64, 1000, 200_000])
            outputs, fault, place = parsers.inflate_pieces(data, encoding, source, into, max_bytes)
            results[suffix].add(fault)
            counts["places"] += not 0 <= place <= len(data)
            counts["long"] += len(outputs) > max_bytes + into
            right = expected(data, suffix) if make else None
            if right is not None:
                counts["refused"] += fault != 0
                counts["wrong"] += fault == 0 and outputs != right
            elif make:
                counts["accepted"] += fault == 0 and len(outputs) <= max_bytes
            try:
                counts["wrong"] += ops.decode_compressed(data, word, max_record_bytes=max_bytes) != outputs
            except errors.DecompressError as error:
                counts["kinds"] += fault == 0
                counts["places"] += not 0 <= error.offset <= len(data)
            except errors.RecordTooLargeError:
                counts["kinds"] += len(outputs) <= max_bytes
        parsers.prefer_library("")

    for suffix, files in seeds.items():
        for data in files:
            check(suffix, data)
        counts["corpus"] += results[suffix] - {0} != set()
    # Each round one of any kind, and one of GZIP: every way that its data can be wrong is to be seen.
    for _ in range(rounds(400)):
        for suffix in (state.choice(list(kinds)), ".gz"):
            check(suffix, mutated(state.choice(seeds[suffix]), seeds[suffix]))
    counts["unseen"] = len({-1, 0, 101, 102, 103, 104} - results[".gz"])
    return {name: [count] for name, count in counts.items()}


def pictures() -> dict[str, object]:
    """Threads decode pictures, whole ones and damaged ones."""
    import random
    import threading

    import numpy as np

    sys.path.append(str(Path(__file__).parents[1]))
    from helpers.formats.pictures import samples

    from queuecore import errors, ops

    files = {name: data for name, data in samples().items() if not name.startswith("gif")}
    pixels = {name: ops.decode_image(data) for name, data in files.items()}
    counts = {"wrong": [0] * 4, "accepted": [0] * 4, "other": [0] * 4}

    def work(index: int) -> None:
        state = random.Random(f"{os.environ.get('QUEUECORE_FUZZ_SEED', '1')} {index}")
        for _ in range(rounds(500)):
            name = state.choice(list(files))
            if not np.array_equal(ops.decode_image(files[name]), pixels[name]):
                counts["wrong"][index] += 1
            damaged = bytearray(files[name])
            if state.random() < 0.2:
                del damaged[state.randrange(len(damaged)) :]
            for _ in range(state.choice([1, 2, 8]) if len(damaged) == len(files[name]) else 0):
                damaged[state.randrange(len(damaged))] = state.randrange(256)
            try:
                ops.decode_image(bytes(damaged), max_pixels=1 << 18)
                counts["accepted"][index] += len(damaged) < len(files[name])
            except (errors.DecodeError, errors.UnimplementedError):
                pass
            except Exception as error:
                print(repr(error), file=sys.stderr)
                counts["other"][index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(counts)


def race() -> dict[str, object]:
    """Plain memory, written by several threads: a data race on purpose."""
    from queuecore._core.testing import load

    load.planted_race(4, 10000)
    return {}


def overflow() -> dict[str, object]:
    """One byte beyond a heap block: an overflow on purpose."""
    from queuecore._core.testing import load

    load.planted_overflow(100)
    return {}


def shift() -> dict[str, object]:
    """A shift by more than the width: undefined behaviour on purpose."""
    from queuecore._core.testing import load

    load.planted_shift(100)
    return {}


def write_files(folder: Path, record_bytes: int) -> int:
    """Write files of several lengths, one of them empty; return the number of records."""
    total = 0
    for number, count in enumerate([700, 0, 1, 1299, 500]):
        first = total
        total += count
        rows = [(first + i).to_bytes(8, "little") + bytes([i % 251]) * (record_bytes - 8) for i in range(count)]
        (folder / f"part-{number}.bin").write_bytes(b"".join(rows))
    return total


def digest(dataset, take: int | None = None) -> tuple[str, int]:
    """Return a digest of every batch in order, and the number of rows."""
    import numpy as np

    summary, count = hashlib.sha256(), 0
    with iter(dataset) as batches:
        for number, batch in enumerate(batches):
            if number == take:
                break
            summary.update(np.ascontiguousarray(batch).tobytes())
            count += len(batch)
    return summary.hexdigest(), count


def pipeline() -> dict[str, object]:
    """Whole pipelines over temporary files: every thread count must give the same batches."""
    from queuecore import data

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        total = write_files(folder, 24)

        # Made anew for each run: a shuffle's order changes with every iteration of the same dataset.
        def plain():
            return data.FixedLengthRecordDataset(str(folder / "*.bin"), 24)

        kinds = {
            "in order": lambda: plain().batch(64),
            "shuffled": lambda: plain().shuffle(300, seed=3).repeat(2).batch(64).prefetch(2),
            "cut": lambda: plain().skip(10).take(1001).batch(32, drop_remainder=True),
        }
        summary: dict[str, object] = {"records": total}
        for kind, make in kinds.items():
            results = []
            for threads in (1, 2, 4):
                options = data.Options(num_threads=threads)
                results += [digest(make().with_options(options)) for _ in range(rounds(4))]
            summary[kind] = {"rows": results[0][1], "orders": len(set(results))}
        return summary


def records() -> dict[str, object]:
    """Pipelines over records without known places, in blocks much smaller than usual: as `pipeline`."""
    import dataclasses
    import struct
    import zlib

    import numpy as np

    from queuecore import data, ops
    from queuecore.writers import TFRecordWriter

    def small(dataset, piece):
        source = dataclasses.replace(dataset._chain.source, pieces={"piece_bytes": piece, "headroom": 64})
        dataset._chain = dataclasses.replace(dataset._chain, source=source)
        return dataset

    def fingerprint(dataset) -> tuple[int, int]:
        rows, check = 0, 0
        for batch in dataset:
            parts = (
                list(batch.values() if isinstance(batch, dict) else batch)
                if isinstance(batch, (dict, tuple))
                else [batch]
            )
            rows += len(parts[0])
            for part in parts:
                whole = part if isinstance(part, np.ndarray) else part.values.view("u1")
                check = zlib.crc32(whole.tobytes(), check)
                if not isinstance(part, np.ndarray):
                    check = zlib.crc32(part.row_splits.tobytes(), check)
        return rows, check

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(3):
            lines = [f"{n},{n / 8},{'x' * (n % 40)}" for n in range(700 * number, 700 * number + 700)]
            (folder / f"{number}.csv").write_text("\n".join(lines))
            with TFRecordWriter(folder / f"{number}.tfrecord") as writer:
                for n in range(500):
                    writer.write(struct.pack("<ii", n, -n) * (n % 9 if n % 100 else 60))
        bad = bytearray((folder / "1.tfrecord").read_bytes())
        bad[-1] ^= 1
        (folder / "bad").write_bytes(bad)
        csv, examples = str(folder / "*.csv"), str(folder / "*.tfrecord")
        kinds = {
            "lines": lambda: small(data.TextLineDataset(csv), 700).repeat(2).batch(64),
            "csv": lambda: small(data.CsvDataset(csv, [0, 0.0, b""]), 500).batch(1000),
            "strings": lambda: small(data.TFRecordDataset(examples), 300).batch(7),
            "numbers": lambda: (
                small(data.TFRecordDataset(examples), 300)
                .map(ops.decode_raw(out_type="<i4", fixed_length=16))
                .map(ops.cast(dtype=np.float32))
                .take(1300)
                .batch(50, drop_remainder=True)
            ),
            # What stays in the buffer for long is moved out of its block.
            "shuffled": lambda: small(data.TFRecordDataset(examples), 2000).shuffle(600, seed=1).repeat(3).batch(30),
            "rows": lambda: small(data.CsvDataset(csv, [0, 0.0, b""]), 1000).shuffle(900, seed=1).repeat(3).batch(64),
            "skipped": lambda: (
                small(data.TFRecordDataset([str(folder / "bad")] * 3), 300)
                .batch(20)
                .with_options(data.Options(on_error="skip"))
            ),
        }
        summary: dict[str, object] = {}
        for kind, make in kinds.items():
            results = []
            for threads in (1, 2, 4):
                options = data.Options(num_threads=threads)
                results += [fingerprint(make().with_options(options)) for _ in range(rounds(2))]
            summary[kind] = {"rows": results[0][0], "orders": len(set(results))}
        return summary


def handed() -> dict[str, object]:
    """Streams behind streams: rows and objects that one's batches become in the next, to the end and to the middle."""
    import zlib

    import numpy as np

    from queuecore import data
    from queuecore._core.stream.link import choose
    from queuecore.data._nodes.node import Node
    from queuecore.data._plan.chain import Chain, chain_of, dataset_of
    from queuecore.data._plan.made import Layout
    from queuecore.data._rows.chunks import Objects

    class Through(Node):
        name = "through"

        def count(self, min_count):
            return self.inputs[0].count(min_count)

        def layout(self):
            return self.inputs[0].layout

        def chunks(self, run, pass_, start):
            # By its number, as chunks are as long as what is there.
            number = start
            for chunk in run.rows(0, pass_, start):
                yield chunk.chosen(np.flatnonzero(np.arange(number, number + chunk.n) % 5 < 4))
                number += chunk.n

    class Each(Through):
        name = "each"

        def layout(self):
            return Layout(None)

        def chunks(self, run, pass_, start):
            for element in run.elements(0, pass_, start):
                yield Objects([bytes(element)])

    class Chosen(Through):
        name = "chosen"

        def layout(self):
            return Layout(self.inputs[0].layout.components[:1])

        def hand_in(self, run, feed, pass_, start):
            with run.open(0, pass_, 0, 100) as child:
                return choose(feed, pass_, child, 1, start)

    def after(node, dataset):
        return dataset_of(Chain(node((chain_of(dataset),)), (), chain_of(dataset).options))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, 24)
        summary: dict[str, object] = {}
        source = data.FixedLengthRecordDataset(str(folder / "*.bin"), 24)
        for kind, last in (("rows", Through), ("chosen", Chosen), ("objects", Each)):
            results = []
            for threads in (1, 2, 4):
                begun = source.with_options(data.Options(num_threads=threads)).take(1200).shuffle(300, seed=3)
                dataset = after(Through, begun).shuffle(200, seed=1)
                if kind == "chosen":
                    dataset = dataset.map(lambda x: (x, x[0] % 3 > 0))
                dataset = after(last, dataset).repeat(2)
                dataset = dataset if kind == "objects" else dataset.shuffle(50, seed=2).batch(32)
                for _ in range(rounds(2)):
                    rows, check = 0, 0
                    for part in dataset:
                        rows += 1 if kind == "objects" else len(part)
                        check = zlib.crc32(bytes(part), check)
                    results.append((rows, check))
                it = iter(dataset)
                kept = [next(it) for _ in range(4)]
                del it
                del kept
            # Every pass has another order, and a dataset's iterators go on with it: only the first ones are alike.
            first = {results[i] for i in range(0, len(results), rounds(2))}
            summary[kind] = {"rows": results[0][0], "orders": len(first)}
        return summary


def cold() -> dict[str, object]:
    """Records that the page cache doesn't have, by each backend of the request engine; some passes end early."""
    from queuecore import data
    from queuecore._core.testing import syscalls

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, 100)
        files = data.FixedLengthRecordDataset(str(folder / "*.bin"), 100).permute(1, False)
        results = [digest(files.batch(16))]
        syscalls.set_uncached(True)
        for turn in range(rounds(4)):
            for io in ("threads", "uring"):
                for depth in (None, 3, 100):
                    options = data.Options(num_threads=1 + turn % 4, io=io, io_depth=depth)
                    results.append(digest(files.batch(16).with_options(options)))
                    digest(files.batch(16).with_options(options), take=turn)
        return {"rows": results[0][1], "orders": len(set(results))}


def early_end() -> dict[str, object]:
    """Iterators that are closed, dropped, or kept with their batches, while threads still work for them."""
    from queuecore import data

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, 24)
        shuffled = data.FixedLengthRecordDataset(str(folder / "*.bin"), 24).shuffle(300, seed=3).repeat().batch(64)
        dataset = shuffled.with_options(data.Options(num_threads=4))
        batches_held = []
        for turn in range(rounds(20)):
            if turn % 2:
                digest(dataset, take=turn)
            else:
                batches = iter(dataset)
                batches_held = [next(batches) for _ in range(turn)]
                del batches
        return {"kept": len(batches_held)}


def programs() -> dict[str, object]:
    """Stage programs that share a reader, and queues of names and records; then some that are stopped in the middle."""
    import numpy as np

    import queuecore as qc

    def run(names: qc.QueueBase, rows: qc.QueueBase, coord: qc.Coordinator, size: int) -> list[object]:
        reader = qc.FixedLengthRecordReader(size)
        op = qc.StageProgram(reader, names, qc.ops.decode_raw(out_type=np.dtype([("a", ">u2"), ("b", "u1", size - 2)])))
        return qc.QueueRunner(rows, [op] * 3).create_threads(coord, start=True)

    counts: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        records = write_files(Path(name), 24)
        paths = sorted(map(str, Path(name).glob("*.bin")))
        for turn in range(rounds(4)):
            names = qc.FIFOQueue(2, [str], [()])
            rows = qc.FIFOQueue(7, [np.uint16, np.uint8], [(), (22,)])
            coord = qc.Coordinator()
            source = iter(paths)
            feeder = qc.QueueRunner(names, [lambda names=names, source=source: names.enqueue(next(source))])
            threads = [*feeder.create_threads(coord, start=True), *run(names, rows, coord, 24)]
            if turn % 2:
                for _ in range(turn * 5):
                    rows.dequeue()
                coord.request_stop()
            else:
                counts["missing"] = records - sum(1 for _ in rows)
            coord.join(threads)
    return counts


def device() -> dict[str, object]:
    """Batches to a device that is a fake: as they lie, put together, made wider there; leases that end elsewhere.

    Two streams read each batch, and the second stream of batches gets the memory of the first one.
    """
    import threading

    import numpy as np

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from helpers.data.functions import in_python
    from helpers.device.devices import plane
    from helpers.device.fake_cuda import SCHEDULES

    import queuecore as qc
    from queuecore.data import Dataset
    from queuecore.device import record_stream

    rows = np.arange(16000, dtype=np.float32).reshape(1600, 10)
    source = Dataset.from_tensor_slices(rows)
    expected = [rows[at : at + 16] for at in range(0, len(rows), 16)]
    kinds = {
        "as they lie": (source.batch(16), lambda ds: ds, expected),
        "put together": (source.map(in_python(lambda x: {"x": x})).batch(16), lambda ds: ds, expected),
        "wider": (source.batch(16), lambda ds: ds.map(lambda x: x * 2 + 1), [batch * 2 + 1 for batch in expected]),
    }

    def dequeued(cuda):
        # Of several shapes, put by another thread while it goes on.
        queue = qc.FIFOQueue(7, [np.float32])

        def fill() -> None:
            for batch in expected[: rounds(10)]:
                queue.enqueue(batch)
            queue.close()

        threading.Thread(target=fill, daemon=True).start()
        return cuda.dequeued(queue)

    def missing(cuda, ds, elements: list) -> int:
        count = 0
        with iter(ds) as it:
            for element, right in zip(it, elements[: rounds(10)], strict=False):
                part = element["x"] if isinstance(element, dict) else element
                part.consume(right)
                cuda.order(cuda.streams[0], cuda.streams[1])
                part.consume(right, stream=cuda.streams[1])
                record_stream(element, cuda.streams[1])
                box = [element, part]
                del element, part
                other = threading.Thread(target=box.clear)  # where the lease ends
                other.start()
                other.join()
                count += 1
        return count - min(rounds(10), len(elements))

    counts = []
    for number, (host, more, elements) in enumerate(kinds.values()):
        for schedule in SCHEDULES:
            for cuda in plane(Path(os.environ["QUEUECORE_LIBCUDA"])):
                cuda.fake.schedule(schedule, number)
                cuda.stream()
                cuda.aside()
                counts += [missing(cuda, more(cuda.of(host)), elements) for _ in range(2)]
                if number == 0:
                    counts.append(missing(cuda, dequeued(cuda), expected))
    return {"missing": counts}


JOBS: dict[str, Callable[[], dict[str, object]]] = {
    job.__name__: job
    for job in (
        *(window, parking, slots, buffers, fifo, blocking, queues, stops, compressed, pictures),
        *(pipeline, records, handed, cold, early_end, programs, example, device, race, overflow, shift),
    )
}


def main() -> None:
    """Run the job that the arguments name."""
    global SCALE
    SCALE = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    # Nothing outside the tree that the parent names may be under test.
    import queuecore

    expected = os.environ.get("QUEUECORE_EXPECT")
    if expected and not Path(queuecore.__file__).is_relative_to(expected):
        raise SystemExit(f"queuecore came from {queuecore.__file__}, not from {expected}")
    print(json.dumps(JOBS[sys.argv[1]]()))


if __name__ == "__main__":
    main()
