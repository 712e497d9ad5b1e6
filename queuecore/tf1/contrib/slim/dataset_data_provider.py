"""``slim.dataset_data_provider``: the records of a `Dataset`, read by several readers."""

from __future__ import annotations

from typing import Any

from queuecore.tf1.contrib.slim import parallel_reader
from queuecore.tf1.contrib.slim.data_provider import DataProvider

__all__ = ["DatasetDataProvider"]


class DatasetDataProvider(DataProvider):
    """Items of one record of a `Dataset` in each run.

    Parameters
    ----------
    dataset : Dataset
    num_readers : int, default 1
        With several readers, the order isn't defined.
    reader_kwargs : dict, optional
        Arguments of the readers.
    shuffle : bool, default True
        Whether files and records come in random order.
    num_epochs : int, optional
        Default: without end.
    common_queue_capacity, common_queue_min : int, default 256 and 128
        How many records the queue between readers and decoder holds, and at least holds to choose from.
    record_key : str, default "record_key"
        The name of a further item: the record's key.
    seed : int, optional
    scope : str, optional

    Raises
    ------
    ValueError
        If there is an item of the name `record_key`, or there are no files.
    """

    def __init__(
        self, dataset: Any, num_readers: int = 1, reader_kwargs: Any = None, shuffle: bool = True,
        num_epochs: int | None = None, common_queue_capacity: int = 256, common_queue_min: int = 128,
        record_key: str = "record_key", seed: int | None = None, scope: str | None = None,
    ) -> None:  # fmt: skip
        items = list(dataset.decoder.list_items())
        if record_key in items:
            raise ValueError(
                f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}"
            )
        key, data = parallel_reader.parallel_read(
            dataset.data_sources, dataset.reader, num_epochs, num_readers, reader_kwargs, shuffle,
            capacity=common_queue_capacity, min_after_dequeue=common_queue_min, seed=seed, scope=scope,
        )  # fmt: skip
        made = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        super().__init__({**made, record_key: key}, dataset.num_samples)
