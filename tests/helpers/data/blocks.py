"""Datasets whose records have no known places: files of them, what they must give, and small blocks."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from helpers.data import chains as chains_of_steps
from helpers.formats import tars, tfrecords
from helpers.models.oracle import Fault, Model
from hypothesis import strategies as st

import queuecore as qc
from queuecore.data import CsvDataset, Dataset, TarDataset, TextLineDataset, TFRecordDataset
from queuecore.ragged import Ragged

COLUMNS = [np.int64, b"", 0.0]
KEYS = ["__key__", "txt", "cls"]
KINDS = ("lines", "tfrecord", "csv", "tar")


def _changed(ds: Any, **changes: Any) -> Any:
    source = dataclasses.replace(ds._chain.source, **changes)
    ds._chain = dataclasses.replace(ds._chain, source=source)
    return ds


def small(ds: Any, piece: int, headroom: int = 16) -> Any:
    """The same source, read in pieces of so many bytes, with so much room in front of each."""
    return _changed(ds, pieces={"piece_bytes": piece, "headroom": headroom})


def interleaved(ds: Any, cycle_length: int, block_length: int) -> Any:
    """The same source with its files interleaved."""
    return _changed(ds, interleave=(cycle_length, block_length))


def content(kind: str, count: int, seed: int = 0) -> tuple[bytes, list[Any]]:
    """The bytes of a file, and its records."""
    state = random.Random(seed)
    if kind == "tfrecord":
        records = [state.randbytes(state.choice([0, 1, 10, 30, 100, 300])) for _ in range(count)]
        return tfrecords.stream(records), records
    if kind == "tar":
        samples = tars.samples(count, state)
        form = state.choice([*tars.FORMATS])
        return tars.archive(tars.members_of(samples), form, state.random() < 0.5), samples
    if kind == "lines":
        lines = [b"x" * state.choice([0, 1, 5, 80]) + state.choice([b"\n", b"\r\n", b"\r\r\n"]) for _ in range(count)]
        text = b"".join(lines)[: -1 if state.random() < 0.5 else None]
        return text, read_lines(text)
    rows = []
    text = io.StringIO()
    for index in range(count):
        word = f"w{index}" if index % 3 else f'q"{index},\r\n'
        rows.append((index, word.encode(), float(np.float32(state.uniform(-1e3, 1e3)))))
        end = state.choice(["\n", "\r\n", "\r"])
        csv.writer(text, lineterminator=end).writerow([rows[-1][0], word, repr(rows[-1][2])])
    return text.getvalue().encode(), rows


def read_lines(text: bytes) -> list[bytes]:
    """Lines as Python finds them, without their ends."""
    return [line.removesuffix(b"\n").removesuffix(b"\r") for line in io.BytesIO(text)]


def source(kind: str, files: Any, compression: str | None = None) -> Dataset:
    """The dataset of such files."""
    if kind == "lines":
        return TextLineDataset(files, compression)
    if kind == "tfrecord":
        return TFRecordDataset(files, compression)
    if kind == "tar":
        return TarDataset(files, KEYS, compression_type=compression)
    return CsvDataset(files, COLUMNS, compression)


def plain(element: Any) -> Any:
    """An element, or a batch, as lists of Python's own objects that hold no view."""
    if isinstance(element, tuple):
        parts = [plain(part) for part in element]
        return list(zip(*parts, strict=True)) if isinstance(parts[0], list) else tuple(parts)
    if isinstance(element, dict):
        named = {name: plain(part) for name, part in element.items()}
        return _samples_in(named) if list(named) == KEYS else named
    if isinstance(element, Ragged):
        return element.to_list()
    return element.tolist() if isinstance(element, (np.ndarray, np.generic)) else element


def _samples_in(named: dict[str, Any]) -> Any:
    # As lists of dicts; in a batch there is a list for each key.
    if not isinstance(named["txt"], list):
        return named
    return [_samples_in(dict(zip(named, row, strict=True))) for row in zip(*named.values(), strict=True)]


def pull(iterator: Any, limit: int | None = None) -> tuple[list[Any], qc.errors.QueueCoreError | None]:
    """The (next `limit`) elements as lists, and the error that ended them."""
    return chains_of_steps.pull(iterator, limit, plain)


def run(ds: Dataset, limit: int | None = None) -> tuple[list[Any], qc.errors.QueueCoreError | None]:
    """The (first `limit`) elements of a dataset as lists, and the error that ended them."""
    with iter(ds) as iterator:
        return pull(iterator, limit)


def flat(batches: list[Any]) -> list[Any]:
    """All elements of batches."""
    return list(itertools.chain.from_iterable(batches))


def played(records: list[Any], ops: list[tuple[Any, ...]]) -> list[Any]:
    """What the steps make of the records, by the words of tf.data's documentation."""

    def stream(depth: int) -> Iterator[Any]:
        if depth == 0:
            yield from records
            return
        name, *arguments = ops[depth - 1]
        if name == "take":
            yield from itertools.islice(stream(depth - 1), arguments[0] if arguments[0] >= 0 else None)
        elif name == "skip":
            yield from [] if arguments[0] < 0 else itertools.islice(stream(depth - 1), arguments[0], None)
        elif name == "repeat":
            for _ in range(arguments[0]):
                yield from stream(depth - 1)
        else:
            size, drop = arguments
            below = stream(depth - 1)
            while batch := list(itertools.islice(below, size)):
                if len(batch) == size or not drop:
                    yield batch

    return list(stream(len(ops)))


def expected(records: list[Any], ops: list[tuple[Any, ...]], fault: bool = False) -> tuple[list[Any], Fault | None]:
    """What the oracle makes of the records, shuffles included, and the fault of the source, if that ended it."""

    def filled(element: Any) -> Any:
        return [filled(one) for one in element] if isinstance(element, list) else records[element]

    results = []
    try:
        for element in Model([bytes(len(records)), *["none"] * fault], 1, ops).ordinals():
            results.append(filled(element))
    except Fault as error:
        return results, error
    return results, None


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Chains of steps. Inner batches drop their remainder: unequal elements can't be stacked."""
    step = st.one_of(
        st.tuples(st.just("take"), st.sampled_from([-1, 0, 1, 2, 5, 13, 40])),
        st.tuples(st.just("skip"), st.sampled_from([0, 1, 2, 3, 7, 30])),
        st.tuples(st.just("repeat"), st.integers(0, 3)),
        st.tuples(st.just("batch"), st.integers(1, 6), st.booleans()),
    )
    ops = draw(st.lists(step, max_size=5))
    batches = [index for index, op in enumerate(ops) if op[0] == "batch"]
    for index in batches[:-1]:
        ops[index] = ("batch", ops[index][1], True)
    return ops
