"""Combinations of steps as functions, for `Dataset.apply`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex

if TYPE_CHECKING:
    from queuecore._ops.stage import Stage
    from queuecore.data.dataset import Dataset

__all__ = ["map_and_batch", "parallel_interleave", "shuffle_and_repeat"]


def shuffle_and_repeat(
    buffer_size: SupportsIndex, count: SupportsIndex | None = None, seed: SupportsIndex | None = None
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.shuffle_and_repeat` on a dataset.

    Parameters
    ----------
    buffer_size, count, seed
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "numbers.bin"
    >>> _ = file.write_bytes(bytes(range(3)))
    >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1").apply(qc.data.shuffle_and_repeat(1, count=2))
    >>> [int(x) for x in ds]
    [0, 1, 2, 0, 1, 2]
    >>> folder.cleanup()
    """
    return lambda dataset: dataset.shuffle_and_repeat(buffer_size, count, seed)


def map_and_batch(
    map_func: Stage,
    batch_size: SupportsIndex,
    num_parallel_batches: SupportsIndex | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: SupportsIndex | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.map_and_batch` on a dataset.

    Parameters
    ----------
    map_func, batch_size, num_parallel_batches, drop_remainder, num_parallel_calls
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np, queuecore as qc
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "numbers.bin"
    >>> _ = file.write_bytes(bytes(range(3)))
    >>> ds = qc.data.FixedLengthRecordDataset(file, record="u1")
    >>> for batch in ds.apply(qc.data.map_and_batch(qc.ops.cast(dtype=np.float32), 2)):
    ...     print(batch)
    [0. 1.]
    [2.]
    >>> folder.cleanup()
    """
    return lambda dataset: dataset.map_and_batch(
        map_func, batch_size, num_parallel_batches, drop_remainder, num_parallel_calls
    )


def parallel_interleave(
    map_func: Callable[..., Dataset],
    cycle_length: SupportsIndex,
    block_length: SupportsIndex = 1,
    sloppy: bool = False,
    buffer_output_elements: SupportsIndex | None = None,
    prefetch_input_elements: SupportsIndex | None = None,
) -> Callable[[Dataset], Dataset]:
    """Return a function that puts `Dataset.parallel_interleave` on a dataset.

    Parameters
    ----------
    map_func, cycle_length, block_length, sloppy, buffer_output_elements, prefetch_input_elements
        As of the method, which also checks them.

    Returns
    -------
    callable
        From a dataset to a dataset, for `Dataset.apply`.

    Examples
    --------
    >>> import queuecore as qc
    >>> twice = qc.data.parallel_interleave(lambda n: qc.data.Dataset.range(2), cycle_length=2)
    >>> [int(x) for x in qc.data.Dataset.range(3).apply(twice)]
    [0, 0, 1, 1, 0, 1]
    """
    arguments: tuple[Any, ...] = (
        map_func,
        cycle_length,
        block_length,
        sloppy,
        buffer_output_elements,
        prefetch_input_elements,
    )
    return lambda dataset: dataset.parallel_interleave(*arguments)
