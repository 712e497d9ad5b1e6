"""Fixed-length records from warm files into batches, beside the `preadv` floor and beside other loaders.

Two inputs: 200,000 records of 3,073 bytes in 20 files (label and image split), batch 128; and 9,600,000 records of 64
bytes in 20 files, batch 4,096 (as one field, and as four of 16 bytes). All runs are restricted to two cores.

The floor is one thread that reads the same files with `preadv` into one reused buffer of a batch. It drifts within
minutes, so it is taken right before and right after every single run, and a run's ratio is its rate divided by the mean
of these two.

A pass is timed from ``iter()`` to the end of the data, threads joined: starting threads and touching memory is in it.
The "second epoch" passes leave that out; they are there for comparison and carry no target.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import Group, Pass, consume, whole_pass  # noqa: E402


def second_epoch(dataset: Any, batches_per_epoch: int) -> Pass:
    """Time as many batches as one epoch has, once a first epoch is through. `dataset` repeats by itself."""
    with iter(dataset) as batches:
        for _ in itertools.islice(batches, batches_per_epoch):
            pass
        return consume(itertools.islice(batches, batches_per_epoch))


def check(dataset: Any, source: Any, batch: int) -> None:
    """Compare a whole pass, value by value, with what plain Python reads. A fast wrong answer is worth nothing."""
    import numpy as np

    from queuecore.cli.measure import plain_batches

    with iter(dataset) as batches:
        for mine, plain in itertools.zip_longest(batches, plain_batches(source, batch)):
            if mine is None or plain is None:
                raise AssertionError("one of the two ended early")
            pairs = ((mine[name], plain[name]) for name in plain) if isinstance(plain, dict) else ((mine, plain),)
            if not all(np.array_equal(one, other) for one, other in pairs):
                raise AssertionError("the batches differ from those of plain Python")


def add_queuecore(group: Group, source: Any, label: str, targets: tuple[float | None, float | None]) -> None:
    """Add queuecore in order, with one worker thread and with default settings."""
    per_epoch = source.record_count // group.batch
    for threads, name, target in ((1, "1 thread", targets[0]), (None, "default", targets[1])):
        dataset = source.dataset(threads)
        once = dataset.batch(group.batch)
        again = dataset.repeat().batch(group.batch)
        group.add(f"queuecore {name}{label}", lambda once=once: whole_pass(once), target)
        group.add(f"queuecore {name}{label}, second epoch", lambda again=again: second_epoch(again, per_epoch))


def add_plain_peers(group: Group, source: Any) -> None:
    """Add the loops that need nothing but NumPy."""
    import numpy as np

    from queuecore.cli.measure import plain_batches

    def split(rows: Any) -> Any:
        if source.record is None:
            return np.array(rows)
        return {name: np.ascontiguousarray(rows[name]) for name in source.record.names}

    def memmap_batches() -> Iterator[Any]:
        # Batches end with their file, which spares this one the joining of two parts.
        for name in source.paths:
            rows = np.memmap(name, source.dtype, "r") if source.record is not None else np.memmap(name, "u1", "r")
            rows = rows.reshape(-1, source.record_bytes) if source.record is None else rows
            for start in range(0, len(rows), group.batch):
                yield split(rows[start : start + group.batch])

    group.add("plain Python (read, frombuffer, copy a field)", lambda: consume(plain_batches(source, group.batch)))
    group.add("numpy.memmap (slice, copy a field)", lambda: consume(memmap_batches()))


def add_library_peers(group: Group, source: Any, slow_files: int) -> None:
    """Add torch, tf.data and Grain where they are installed, each on two workers or threads."""
    import numpy as np

    from queuecore.cli.measure import plain_batches

    few = source.first(source.records_in(source.sizes[0]) * slow_files)
    fields = source.record.names if source.record is not None else ()

    def torch_peer(torch: Any) -> Callable[[], Pass]:
        class Files(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Iterator[Any]:
                from dataclasses import replace

                info = torch.utils.data.get_worker_info()
                own = slice(info.id, None, info.num_workers)
                part = replace(source, paths=source.paths[own], sizes=source.sizes[own])
                for batch in plain_batches(part, group.batch):
                    if fields:
                        yield {name: torch.from_numpy(batch[name]) for name in fields}
                    else:
                        yield torch.from_numpy(batch)

        loader = torch.utils.data.DataLoader(Files(), batch_size=None, num_workers=2, persistent_workers=True)
        return lambda: consume(loader)

    def tf_peer(tf: Any, shuffle: int = 0) -> Callable[[], Pass]:
        places = {name: (source.record.fields[name][1], source.record[name].itemsize) for name in fields}

        def decode(raw: Any) -> Any:
            rows = tf.io.decode_raw(raw, tf.uint8, fixed_length=source.record_bytes)
            if not fields:
                return rows
            return {
                name: tf.reshape(rows[:, at : at + size], (-1, *source.record[name].shape))
                for name, (at, size) in places.items()
            }

        dataset = tf.data.FixedLengthRecordDataset(list(few.paths), source.record_bytes)
        if shuffle:
            dataset = dataset.shuffle(shuffle, seed=1)
        dataset = dataset.batch(group.batch).map(decode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
        return lambda: consume(dataset.as_numpy_iterator())

    def grain_peer(grain: Any) -> Callable[[], Pass]:
        maps = [np.memmap(name, "u1", "r").reshape(-1, source.record_bytes) for name in source.paths]
        per_file = -(-len(maps[0]) // group.batch)

        class Batches:
            """Grain's fastest way here: an element of its source is a whole batch."""

            def __len__(self) -> int:
                return per_file * len(maps)

            def __getitem__(self, index: int) -> Any:
                start = index % per_file * group.batch
                rows = maps[index // per_file][start : start + group.batch]
                if not fields:
                    return np.array(rows)
                records = rows.reshape(-1).view(source.record)
                return {name: np.ascontiguousarray(records[name]) for name in fields}

        options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)
        return lambda: consume(iter(grain.MapDataset.source(Batches()).to_iter_dataset(options)))

    group.add_peer("torch DataLoader, iterable, 2 workers", "torch", torch_peer)
    group.add_peer("tf.data", "tensorflow", tf_peer)
    if fields:
        group.add_peer("tf.data, shuffled 10,000", "tensorflow", lambda tf: tf_peer(tf, 10_000))
    group.add_peer("Grain, batch source, 2 threads", "grain", grain_peer)


def run(options: harness.Options) -> dict[str, Any]:
    """Measure both inputs."""
    import numpy as np

    from queuecore.cli.measure import MeasuredSource

    files, rounds = (3, 3) if options.quick else (20, 15)
    window = 10_000
    image = np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))])
    quarters = np.dtype([(name, "u1", (16,)) for name in "abcd"])
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    absences: dict[str, str] = {}
    peers: dict[str, str] = {}
    # Before any import of TensorFlow, which otherwise fills the terminal with advice.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    def finish(group: Group) -> None:
        some, runs = group.measure(rounds)
        findings.extend(some)
        raw[group.title] = runs
        absences.update(group.absences)
        peers.update(group.peers)

    with harness.scratch(options) as folder:
        names = harness.write_files(folder, files, 10_000, image.itemsize)
        source = MeasuredSource(tuple(names), (10_000 * image.itemsize,) * files, image, image.itemsize)
        group = Group("3,073 bytes, batch 128", names, image.itemsize, 128)
        check(source.dataset().batch(128), source, 128)
        add_queuecore(group, source, "", (0.75, 1.15))
        per_epoch = source.record_count // 128
        for threads, name, target in ((1, "1 thread", 0.34), (None, "default", 0.60)):
            shuffled = source.dataset(threads).shuffle(window, seed=1)
            once, again = shuffled.batch(128), shuffled.repeat().batch(128)
            group.add(f"queuecore {name}, shuffled {window:,}", lambda once=once: whole_pass(once), target)
            group.add(
                f"queuecore {name}, shuffled {window:,}, second epoch",
                lambda again=again: second_epoch(again, per_epoch),
            )
        if options.peers:
            add_plain_peers(group, source)
            add_library_peers(group, source, files)
        finish(group)

    with harness.scratch(options) as folder:
        per_file = 480_000
        names = harness.write_files(folder, files, per_file, 64)
        rows = MeasuredSource(tuple(names), (per_file * 64,) * files, None, 64)
        split = MeasuredSource(tuple(names), (per_file * 64,) * files, quarters, 64)
        for source in (rows, split):
            check(source.dataset().batch(4096), source, 4096)
        group = Group("64 bytes, batch 4,096", names, 64, 4096)
        add_queuecore(group, rows, ", one field", (0.70, 1.2))
        add_queuecore(group, split, ", four fields", (0.6, 1.1))
        if options.peers:
            add_plain_peers(group, rows)
            add_library_peers(group, rows, 1)
        finish(group)

    return harness.report(
        "fixed",
        "fixed-length records into batches, as a share of the preadv floor, on two cores",
        findings,
        raw,
        parameters={
            "files": files,
            "rounds": rounds,
            "batch": {"3,073 bytes": 128, "64 bytes": 4096},
            "window": window,
            "peers": peers,
        },
        notes=["tf.data reads one file only of the 64-byte records: a whole pass would take it many seconds"]
        if options.peers
        else [],
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
