"""Datasets out of the same chains of steps that the oracle takes, and ways to run them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import queuecore as qc
from queuecore.data import Dataset, FixedLengthRecordDataset, Options

THREADS = (1, 2, 8)


def write_files(folder: pathlib.Path, contents: Iterable[bytes]) -> list[pathlib.Path]:
    """Write one file per item, and return their names."""
    paths = []
    for index, content in enumerate(contents):
        path = folder / f"part-{index:05}.bin"
        path.write_bytes(content)
        paths.append(path)
    return paths


def dataset(files: Any, record: Any, **frame: Any) -> FixedLengthRecordDataset:
    """The source, with the oracle's words for its arguments."""
    names = {"header": "header_bytes", "footer": "footer_bytes", "hop": "hop_bytes"}
    arguments = {names.get(name, name): value for name, value in frame.items()}
    if isinstance(record, int):
        return FixedLengthRecordDataset(files, record, **arguments)
    return FixedLengthRecordDataset(files, record=record, **arguments)


def apply(ds: Dataset, ops: list[tuple[Any, ...]]) -> Dataset:
    """Put the oracle's steps on a dataset."""
    for name, *arguments in ops:
        ds = getattr(ds, name)(*arguments)
    return ds


def threads(ds: Dataset, number: int | None) -> Dataset:
    """The same with so many workers; None: as the library likes."""
    return ds.with_options(Options(num_threads=number))


def own(element: Any) -> Any:
    """A copy that holds no view on the library's memory."""
    if isinstance(element, dict):
        return {name: own(value) for name, value in element.items()}
    return element.copy() if isinstance(element, np.ndarray) else element


def pull(
    iterator: Any, limit: int | None = None, own: Callable[[Any], Any] = own
) -> tuple[list[Any], qc.errors.QueueCoreError | None]:
    """The (next `limit`) elements, of each what `own` makes of it, and the error that ended them."""
    results: list[Any] = []
    try:
        while limit is None or len(results) < limit:
            results.append(own(next(iterator)))
    except StopIteration:
        pass
    except qc.errors.QueueCoreError as error:
        return results, error
    return results, None


def run(ds: Dataset, limit: int | None = None) -> tuple[list[Any], qc.errors.QueueCoreError | None]:
    """The (first `limit`) elements of a dataset, and the error that ended them."""
    with iter(ds) as iterator:
        return pull(iterator, limit)


def values(elements: Iterable[Any]) -> list[Any]:
    """Elements of one-byte records as plain ints, in lists where they are batched."""

    def plain(element: Any) -> Any:
        array = np.asarray(element)
        return array.reshape(array.shape[:-1]).tolist()

    return [plain(element) for element in elements]


@st.composite
def chains(draw: st.DrawFn, *, max_steps: int = 5, finite: bool = True) -> list[tuple[Any, ...]]:
    """Chains of steps. Inner batches drop their remainder: unequal elements can't be stacked."""
    count = st.sampled_from([-1, 0, 1, 2, 3, 5, 8, 13, 40])
    step = st.one_of(
        st.tuples(st.just("take"), count),
        st.tuples(st.just("skip"), st.sampled_from([0, 1, 2, 3, 7, 30])),
        st.tuples(st.just("repeat"), st.integers(0, 3)),
        st.tuples(st.just("shuffle"), st.sampled_from([1, 2, 3, 7, 20, 1000]), st.integers(-3, 2**40), st.booleans()),
        st.tuples(st.just("batch"), st.integers(1, 6), st.booleans()),
    )
    ops = draw(st.lists(step, max_size=max_steps))
    batches = [index for index, op in enumerate(ops) if op[0] == "batch"]
    for index in batches[:-1]:
        ops[index] = ("batch", ops[index][1], True)
    return ops
