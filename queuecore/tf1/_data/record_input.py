"""Records of TFRecord files, epoch after epoch in a random order, without an iterator that a program sees."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import queuecore.data as eager
from queuecore._io.compression import compression_of
from queuecore._io.names import matches
from queuecore.errors import InvalidArgumentError, NotFoundError
from queuecore.tf1._data.datasets import STRING, dataset_op
from queuecore.tf1._graph.graph import get_default_graph
from queuecore.tf1._ops.arrays import unstack

__all__ = ["RecordInput"]

_EPOCHS = 2**62


class RecordInput:
    """Reads TFRecord files in the background, and gives their records in a random order, without an end.

    Parameters
    ----------
    file_pattern : str or bytes
        Patterns of file names, with commas between them. Files are looked for anew in each epoch.
    batch_size : int, default 1
    buffer_size : int, default 1
        Records of which the next one is drawn.
    parallelism : int, default 1
        The number of files that records come from in turns.
    shift_ratio : float, default 0
        In each epoch files come in another random order, of which this part is put behind the rest. Parts that aren't
        in [0, 1) are taken for 0.
    seed : int, default 0
        Of both orders: they are always the same ones for the same files.
    name : str, optional
    batches : int, optional
        If it is given, `get_yield_op` returns so many batches of `batch_size` records.
    compression_type : {"", "ZLIB", "GZIP"} or number of `TFRecordCompressionType`, optional

    Raises
    ------
    InvalidArgumentError
        If a size or number is below 1, or there is no such compression.

    Notes
    -----
    Each record comes once in each epoch; a batch may have the last records of one epoch and the first ones of the next.
    The order for a seed isn't TensorFlow's, whose own depends on its threads.
    """

    def __init__(
        self, file_pattern: Any, batch_size: int = 1, buffer_size: int = 1, parallelism: int = 1,
        shift_ratio: float = 0, seed: int = 0, name: str | None = None, batches: int | None = None,
        compression_type: Any = None,
    ) -> None:  # fmt: skip
        for subject, number in (
            ("batch_size", batch_size),
            ("buffer_size", buffer_size),
            ("parallelism", parallelism),
            ("batches", 1 if batches is None else batches),
        ):
            if number < 1:
                raise InvalidArgumentError(f"{subject} must be at least 1, but got {number}")
        self._patterns = os.fsencode(file_pattern)
        self._batch_size = int(batch_size)
        self._buffer_size = int(buffer_size)
        self._parallelism = int(parallelism)
        self._shift = float(shift_ratio) if 0 <= shift_ratio < 1 else 0.0
        self._seed = int(seed) % 2**64
        self._name = name
        self._batches = batches
        self._compression = compression_of(compression_type) or None

    def get_yield_op(self) -> Any:
        """Return the next records; each call makes an operation with a place of its own.

        Returns
        -------
        Tensor, or list of lists of Tensor
            A vector of `batch_size` strings. With `batches`: for each batch a list of strings.

        Notes
        -----
        A run waits for its records, until the session is closed or its time is over. It raises `NotFoundError` if no
        file matches, and the reader's error if a record is bad.
        """
        total = self._batch_size * (self._batches or 1)

        def kernel(_: Any) -> Any:
            return eager.Dataset.range(_EPOCHS).flat_map(self._epoch)

        records = dataset_op("RecordInputDataset", [], STRING, kernel, None).batch(total, True)
        batch = records.make_one_shot_iterator().get_next(self._name or "RecordInput")
        if self._batches is None:
            return batch
        with get_default_graph().name_scope(self._name or "RecordInput"):
            rows = unstack(batch)
        return [rows[first :: self._batches] for first in range(self._batches)]

    def _epoch(self, number: Any) -> eager.Dataset:
        rng = np.random.default_rng([self._seed, int(number)])
        names = sorted(name for pattern in self._patterns.split(b",") for name in matches(pattern, hidden=True))
        if not names:
            raise NotFoundError(f"Found no files at {os.fsdecode(self._patterns)}")
        if not any(os.stat(name).st_size for name in names):
            raise InvalidArgumentError(f"the files at {os.fsdecode(self._patterns)} have no records")
        rng.shuffle(names)
        shift = int(self._shift * len(names))
        names = names[shift:] + names[:shift]
        records: eager.Dataset = eager.TFRecordDataset(names, self._compression)
        if self._parallelism > 1 < len(names):
            records = eager.Dataset.from_tensor_slices(names).interleave(
                lambda name: eager.TFRecordDataset([name], self._compression), self._parallelism, 1, eager.AUTOTUNE
            )
        return records.shuffle(self._buffer_size, int(rng.integers(2**31)))
